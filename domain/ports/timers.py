"""A timer that runs: each role names its own, and says what happens when one is due."""

from __future__ import annotations

from typing import NamedTuple

from ..names import JobId


class Timer(NamedTuple):
    """Timers are due in this order."""

    when: int  #: the instant, in microseconds
    what: str
    name: str  #: whose it is
    job: JobId | None = None  #: of a starter of the pool's own queue: its job
