"""The statuses of a job. ``rows.txt`` contains the rows between them.

``JOB_STATUS_NUMBERS`` maps them to JobStatus in the job's ad. A job starts in Unsubmitted and ends in Left, which never
appear in ads. The code of an eviction determines whether the job is then Idle or Held (``hold_codes.goes_on_hold``).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from .rows import override_rows, table

UNSUBMITTED: Final = "Unsubmitted"
"""The state of a job that is not in the queue yet; there is no JobStatus for it."""
LEFT: Final = "Left"
"""The state of a job that has left the queue for the history; there is no JobStatus for it."""

ManualStatus = Literal["Idle", "Running", "Removed", "Completed", "Held", "TransferringOutput", "Suspended"]
"""The statuses in order of their numbers (JobStatus), as listed in the manual."""
JobStatus = Literal[ManualStatus, "Failed", "Blocked", "Preparing"]
JOB_STATUS_NUMBERS: Final[dict[str, int]] = {name: number for number, name in enumerate(get_args(ManualStatus), 1)}
JOB_STATUS_NUMBERS_HTCONDOR_25: Final = JOB_STATUS_NUMBERS | {"Failed": 8, "Blocked": 9, "Preparing": 10}

JOB: Final = table("job")
JOB_HTCONDOR_25: Final = override_rows(JOB, table("job, htcondor-25"))
"""The dialect's complete table: the manual's rows, some of them replaced, and additional rows."""
