"""Running timers. Each role lists its timers, and acts when one is due."""

from __future__ import annotations

from typing import NamedTuple

from ..names import JobId


class Timer(NamedTuple):
    """Timers are due in this order."""

    when: int  #: the instant, in microseconds
    kind: str
    name: str  #: the slot, machine, or other object that it is for
    job: JobId | None = None  #: the job, for a starter of a job in the pool's own queue
