"""Submissions with -spool: their jobs wait, held, until their files are in the spool, and stay when they have ended.

Source: SetJobStatus and SetLeaveInQueue (submit_utils.cpp) of the reference; the manual's page "condor_submit", -spool.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from ..state.job_ad import quoted
from .submission import Submission
from .submit_context import SubmitError

SPOOLING: Final = 16  #: HoldReasonCode SpoolingInput
LEAVE: Final = (
    "JobStatus == 4 && (time() - (CompletionDate ?: time())) < 864000 && (StageOutFinish ?: 0) < EnteredCurrentStatus"
)
"""LeaveJobInQueue of jobs that say nothing of it: they stay for ten days, or until their output was fetched."""


def held_for_spooling(parsed: Submission) -> Submission:
    """Return the submission as its jobs wait for their files. Raise `SubmitError` if they are to be held anyway."""
    if parsed.ad.get("JobStatus") == "5":
        raise SubmitError("Cannot set hold to 'true' when using -remote or -spool")
    held = {
        "JobStatus": "5",
        "HoldReason": quoted("Spooling input data files"),
        "HoldReasonCode": str(SPOOLING),
    }
    leaves = {"LeaveJobInQueue": LEAVE} if parsed.ad.get("LeaveJobInQueue") == "false" else {}
    return evolve(parsed, ad={**parsed.ad, **held, **leaves})
