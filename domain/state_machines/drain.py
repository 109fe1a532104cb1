"""The states of a drain, from its start until the machine accepts jobs again. ``rows.txt`` contains the rows.

A drain applies to a whole machine, and each of the machine's slots moves along rows 33 to 37. To change the schedule, a
user must cancel the drain and start another.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .rows import table

INITIAL_DRAIN_STATE: Final = "Open"
"""The state of a machine that accepts jobs."""

DRAIN: Final = table("drain")


class Schedule(NamedTuple):
    """How much time running jobs have when their machine drains (the manual's page condor_drain)."""

    retires: bool  #: whether jobs may use their retirement time
    vacates: bool  #: whether jobs may use their time to vacate


SCHEDULES: Final = {
    "Graceful": Schedule(retires=True, vacates=True),
    "Quick": Schedule(retires=False, vacates=True),
    "Fast": Schedule(retires=False, vacates=False),
}
RESTART: Final = "restart"
COMPLETIONS: Final = ("", "resume", "reconfig", "exit", RESTART)
"""The actions on completion of a drain; empty: none."""
