"""The life of a drain: a machine is emptied of jobs, and opened again.

* A drain is of a whole machine: each of its slots goes through rows 33 to 37 of the slots' table.
* Its schedule says what running jobs get: Graceful their retirement time, and the time to vacate; Quick the time to
  vacate; Fast nothing. A drain keeps its schedule: to change it, cancel the drain first.
* It is complete when every slot is in Drained; then it ends by itself, if it was asked to, or waits to be canceled.

Places: the manual's page "condor_drain", and "Drained State" of the page "Configuration for Execution Points".
"""

from __future__ import annotations

from typing import Final

from .rows import row

OPEN: Final = "Open"
"""The machine takes jobs."""

# fmt: off
DRAIN: Final = (
    # number, from, to, place,
    #     cause
    #     when (for several targets)
    row("start", OPEN, "Graceful, Quick, Fast", "condor_drain, Description",
        "Somebody asked for the machine to be drained.",
        "The schedule that was asked for; Graceful if none was."),
    row("complete", "Graceful, Quick, Fast", "Complete", "Drained State",
        "Every slot of the machine has been drained."),
    row("cancel", "Graceful, Quick, Fast, Complete", OPEN, "condor_drain, Description",
        "Somebody asked for the drain to end."),
    row("resume", "Complete", OPEN, "condor_drain, -resume-on-completion and -reconfig-on-completion",
        "The drain was asked to end by itself."),
    row("stop", "Complete", "Stopped", "condor_drain, -exit-on-completion and -restart-on-completion",
        "The machine was to stop, or begin anew, when drained."),
)
# fmt: on
