"""Running timers. Each role lists its timers, and acts when a timer is due."""

from __future__ import annotations

from typing import NamedTuple

from ..names import JobId


class Timer(NamedTuple):
    """A running timer. Timers sort by the time at which they are due."""

    when: int  #: when the timer is due, in microseconds
    kind: str
    name: str  #: the slot, machine, or other object of the timer
    job: JobId | None = None  #: the job, if the timer is for a starter of a job in the pool's own queue
