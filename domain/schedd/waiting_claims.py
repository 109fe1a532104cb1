"""Preempting claims: claims on an already claimed slot, which wait for that slot (``claims``)."""

from __future__ import annotations

from collections.abc import Iterable

from ..decision.draft import Draft, job_id
from ..ports.stimuli import WithdrawClaim
from ..state.state import AccessPoint


def withdraw_better_matches(draft: Draft[AccessPoint], cluster: int, procs: Iterable[int]) -> None:
    """Withdraw the pending preempting claims of these jobs, which are no longer idle or have changed. Each slot's
    current job can then resume at the next policy evaluation."""
    state = draft.state
    for proc in procs if state.assigned_slots else ():
        slot = state.assigned_slots.get((cluster, proc))
        if slot is not None:
            draft.send(WithdrawClaim(draft.stimulus, slot, job_id(cluster, proc)))
