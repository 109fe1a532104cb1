"""The life of a job: its statuses and their changes.

* A status is a word here and a number in the job's ad (JobStatus); ``JOB_STATUS_NUMBERS`` has both.
* A job begins in Unsubmitted, before the queue knows it, and ends in Left, in the history. No ad shows these two.
* A row is named by what happens, not by where it leads: ``evict`` and ``requeue`` both lead from Running to Idle, one
  because the machine was wanted, one because the job asked for another run.
* The code of an eviction decides whether it ends in Idle or in Held: ``hold_codes.goes_on_hold``.

``htcondor-25`` adds the statuses that the manual's list leaves out (8 to 10; no row leads to Failed, which nothing
sets), and the schedd's treatment of a removed job that cannot be cleaned up yet: it may be held, and released only into
Removed.

The places are pages of HTCondor's manual: "Managing a Job" of the user's manual with its section, the commands' pages,
the page on the submit language (by command), "Job Status Codes"; or the schedd's source where no page says it.
"""

from __future__ import annotations

from typing import Final

from .rows import row

UNSUBMITTED: Final = "Unsubmitted"
"""Before the queue knows the job; no status."""
LEFT: Final = "Left"
"""Out of the queue, in the history; no status."""

JOB_STATUS_NUMBERS: Final = {
    "Idle": 1,
    "Running": 2,
    "Removed": 3,
    "Completed": 4,
    "Held": 5,
    "TransferringOutput": 6,
    "Suspended": 7,
}
"""Status -> JobStatus, as the manual lists them."""
JOB_STATUS_NUMBERS_HTCONDOR_25: Final = JOB_STATUS_NUMBERS | {"Failed": 8, "Blocked": 9, "Preparing": 10}

# fmt: off
JOB: Final = (
    # number, from, to, place,
    #     cause
    row("submit", UNSUBMITTED, "Idle", "Managing a Job, The Job Lifecycle",
        "A user submits it."),
    row("submit_on_hold", UNSUBMITTED, "Held", "submit language, hold",
        "A user submits it on hold, or its input files are still on their way (codes 15 and 16)."),
    row("activate", "Idle", "Running", "Managing a Job, The Job Lifecycle",
        "A claim is activated for it."),
    row("suspend", "Running", "Suspended", "condor_suspend; condor_startd Policy Configuration, Claimed State",
        "Its processes are stopped: the slot's policy wants it, or somebody asked."),
    row("continue", "Suspended", "Running", "condor_continue; condor_startd Policy Configuration, Claimed State",
        "Its processes go on."),
    row("transfer_output", "Running", "TransferringOutput", "Job Status Codes",
        "Its processes have ended, and its output files are on their way back."),
    row("complete", "Running, TransferringOutput, Suspended", "Completed", "Managing a Job, The Job Lifecycle",
        "It is done: it ended by itself or by a signal, its output is there, and OnExitRemove is not false."),
    row("requeue", "Running, TransferringOutput, Suspended", "Idle", "submit language, on_exit_remove",
        "It ended by itself, and OnExitRemove is false: it is to run again."),
    row("evict", "Running, TransferringOutput, Suspended", "Idle", "Managing a Job, The Job Lifecycle",
        "It was ended before it was done, for a reason that lies with the machine: it will be tried elsewhere."),
    row("hold", "Idle, Running, TransferringOutput, Suspended", "Held",
        "condor_hold; Managing a Job, The Job Lifecycle",
        "Somebody asked for it, its policy says so, or it failed in a way that needs a person."),
    row("release", "Held", "Idle", "condor_release; Managing a Job, The Job Lifecycle",
        "Somebody asked for it, or its policy says so."),
    row("remove", "Idle, Running, TransferringOutput, Suspended, Held, Completed", "Removed",
        "condor_rm; Managing a Job, The Job Lifecycle; submit language, leave_in_queue",
        "Somebody asked for it, or its policy says so. What runs of it is still to be stopped."),
    row("remove_x", "Removed", LEFT, "condor_rm, -forcex",
        "Somebody asked for it to be forgotten, although what ran of it was not seen to end."),
    row("leave", "Completed, Removed", LEFT, "Managing a Job, The Job Lifecycle; submit language, leave_in_queue",
        "Nothing of it runs any more, and LeaveJobInQueue is not true: it goes into the history."),
)

CHANGED: Final = (
    row("suspend", "Running, TransferringOutput", "Suspended", "schedd source",
        "Its processes are stopped: the slot's policy wants it, or somebody asked."),
    row("complete", "Running, TransferringOutput, Suspended, Idle", "Completed", "schedd source",
        "It is done: it ended by itself or by a signal, its output is there, and OnExitRemove is not false; or it is "
        "a job that does nothing, which completes without running."),
    row("hold", "Idle, Running, TransferringOutput, Suspended, Failed, Blocked, Preparing", "Held", "schedd source",
        "Somebody asked for it, its policy says so, or it failed in a way that needs a person."),
    row("remove", "Idle, Running, TransferringOutput, Suspended, Held, Completed, Failed, Blocked, Preparing",
        "Removed", "schedd source",
        "Somebody asked for it, or its policy says so. What runs of it is still to be stopped."),
    row("remove_x", "Removed, Held", LEFT, "schedd source",
        "Somebody asked for it to be forgotten, although what ran of it was not seen to end. Of those in Held only a "
        "job that was removed before it was held."),
    row("leave", "Completed, Removed, Failed", LEFT, "schedd source",
        "Nothing of it runs any more, and LeaveJobInQueue is not true: it goes into the history."),
)

BEYOND: Final = (
    row("submit_preparing", UNSUBMITTED, "Preparing", "schedd source",
        "A user submits it, and the access point has something to do before it may wait for a slot."),
    row("prepared", "Preparing", "Idle, Held", "schedd source",
        "That is done.",
        "Held if it was submitted on hold, else Idle."),
    row("block", "Idle", "Blocked", "schedd source",
        "Files that it shares with other jobs are still on their way to its slot."),
    row("unblock", "Blocked", "Idle", "schedd source",
        "The shared files are there, or their transfer was given up, or the schedd began anew."),
    row("hold_removed", "Removed", "Held", "schedd source",
        "It was removed, but what ran of it cannot be stopped now (JobStatusOnRelease is 3 from here on)."),
    row("release_removed", "Held", "Removed", "schedd source",
        "It is released, and goes on being removed (JobStatusOnRelease is 3)."),
)
# fmt: on

_changed: Final = {r.number: r for r in CHANGED}
JOB_HTCONDOR_25: Final = (*(_changed.get(r.number, r) for r in JOB), *BEYOND)
"""The dialect's whole table: the manual's rows, wider where the schedd is, and those beyond."""
