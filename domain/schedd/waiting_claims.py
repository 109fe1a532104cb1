"""Claims that wait for a claimed slot because their job is a better match (``claims``)."""

from __future__ import annotations

from collections.abc import Iterable

from ..decision.draft import Draft, job_id
from ..ports.stimuli import WithdrawClaim
from ..state.state import AccessPoint


def withdraw_better_matches(draft: Draft[AccessPoint], cluster: int, procs: Iterable[int]) -> None:
    """Withdraw the waiting claims of these jobs, which are no longer idle or have changed. The slot's current job can
    then continue at the next policy evaluation."""
    state = draft.state
    for proc in procs if state.reserved else ():
        slot = state.reserved.get((cluster, proc))
        if slot is not None:
            draft.send(WithdrawClaim(draft.stimulus, slot, job_id(cluster, proc)))
