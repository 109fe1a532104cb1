"""The states of a drain, from its start until the machine accepts jobs again; ``rows.txt`` has the rows.

A drain applies to a whole machine, and each of its slots moves along rows 33 to 37. Its schedule does not change.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .rows import table

INITIAL_DRAIN_STATE: Final = "Open"
"""The state of a machine that accepts jobs."""

DRAIN: Final = table("drain")


class Schedule(NamedTuple):
    """The time that running jobs get when their machine drains (the manual's page condor_drain)."""

    retires: bool  #: whether they get their retirement time
    vacates: bool  #: whether they get their time to vacate


SCHEDULES: Final = {
    "Graceful": Schedule(retires=True, vacates=True),
    "Quick": Schedule(retires=False, vacates=True),
    "Fast": Schedule(retires=False, vacates=False),
}
COMPLETIONS: Final = ("", "resume", "reconfig", "exit", "restart")
"""The actions when a drain is complete; empty: none."""
