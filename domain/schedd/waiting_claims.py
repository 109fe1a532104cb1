"""Claims that wait for a slot which somebody has, as a better match (``claims``)."""

from __future__ import annotations

from collections.abc import Iterable

from ..decision.draft import Draft, job_id
from ..ports.stimuli import WithdrawClaim
from ..state.state import AccessPoint


def withdraw_better_matches(draft: Draft[AccessPoint], cluster: int, procs: Iterable[int]) -> None:
    """These jobs no longer wait, or are others than they were: what waits for a slot in their name is withdrawn, so
    that the job there may go on at the policy's next round."""
    state = draft.state
    for proc in procs if state.reserved else ():
        slot = state.reserved.get((cluster, proc))
        if slot is not None:
            draft.send(WithdrawClaim(draft.stimulus, slot, job_id(cluster, proc)))
