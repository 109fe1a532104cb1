"""The life of a drain: a machine is emptied of jobs, and opened again; ``rows.txt`` has the rows.

A drain is of a whole machine: each of its slots goes through rows 33 to 37. It keeps its schedule.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .rows import table

OPEN: Final = "Open"
"""The machine takes jobs."""

DRAIN: Final = table("drain")


class Schedule(NamedTuple):
    """What running jobs get when their machine drains (manual: condor_drain)."""

    retires: bool  #: their retirement time, all of them until the last must go
    vacates: bool  #: their time to vacate


SCHEDULES: Final = {
    "Graceful": Schedule(retires=True, vacates=True),
    "Quick": Schedule(retires=False, vacates=True),
    "Fast": Schedule(retires=False, vacates=False),
}
COMPLETIONS: Final = ("", "resume", "reconfig", "exit", "restart")
"""What may follow a drain; empty: nothing."""
