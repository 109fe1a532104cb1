"""The life of a job: its statuses and their changes; ``rows.txt`` has the rows.

A status is a word here and a number in the job's ad (JobStatus); ``JOB_STATUS_NUMBERS`` has both. A job begins in
Unsubmitted and ends in Left, which no ad shows. The code of an eviction decides whether it ends in Idle or in Held:
``hold_codes.goes_on_hold``.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from .rows import changed, table

UNSUBMITTED: Final = "Unsubmitted"
"""Before the queue knows the job; no status."""
LEFT: Final = "Left"
"""Out of the queue, in the history; no status."""

ManualStatus = Literal["Idle", "Running", "Removed", "Completed", "Held", "TransferringOutput", "Suspended"]
"""The statuses in the order of their numbers (JobStatus), as the manual lists them."""
JobStatus = Literal[ManualStatus, "Failed", "Blocked", "Preparing"]
JOB_STATUS_NUMBERS: Final[dict[str, int]] = {name: at for at, name in enumerate(get_args(ManualStatus), 1)}
JOB_STATUS_NUMBERS_HTCONDOR_25: Final = JOB_STATUS_NUMBERS | {"Failed": 8, "Blocked": 9, "Preparing": 10}

JOB: Final = table("job")
JOB_HTCONDOR_25: Final = changed(JOB, table("job, htcondor-25"))
"""The dialect's whole table: the manual's rows, wider where the schedd is, and those beyond."""
