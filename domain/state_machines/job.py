"""The life of a job: its statuses and their changes; ``rows.txt`` has the rows.

A status is a word here and a number in the job's ad (JobStatus); ``JOB_STATUS_NUMBERS`` has both. A job begins in
Unsubmitted and ends in Left, which no ad shows. The code of an eviction decides whether it ends in Idle or in Held:
``hold_codes.goes_on_hold``.
"""

from __future__ import annotations

from typing import Final

from .rows import changed, table

UNSUBMITTED: Final = "Unsubmitted"
"""Before the queue knows the job; no status."""
LEFT: Final = "Left"
"""Out of the queue, in the history; no status."""

_STATUSES: Final = ("Idle", "Running", "Removed", "Completed", "Held", "TransferringOutput", "Suspended")
JOB_STATUS_NUMBERS: Final = {status: number for number, status in enumerate(_STATUSES, 1)}
"""Status -> JobStatus, as the manual lists them."""
JOB_STATUS_NUMBERS_HTCONDOR_25: Final = JOB_STATUS_NUMBERS | {"Failed": 8, "Blocked": 9, "Preparing": 10}

JOB: Final = table("job")
JOB_HTCONDOR_25: Final = changed(JOB, table("job, htcondor-25"))
"""The dialect's whole table: the manual's rows, wider where the schedd is, and those beyond."""
