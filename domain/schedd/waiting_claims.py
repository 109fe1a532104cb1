"""Claims that wait for a slot which somebody has, as a better match (``claims``)."""

from __future__ import annotations

from collections.abc import Iterable

from ..decision.draft import Draft, job_id
from ..events import ClaimWithdrawn


def withdraw_better_matches(draft: Draft, cluster: int, procs: Iterable[int]) -> None:
    """These jobs no longer wait, or are others than they were: what waits for a slot in their name is withdrawn, so
    that the job there may go on at the policy's next round."""
    state = draft.state
    for job in ((cluster, proc) for proc in procs if state.reserved):
        slot = state.slots.get(state.reserved.get(job, ""))
        waiting = None if slot is None else slot.waiting
        if slot is not None and waiting is not None and not waiting.holder and waiting.job == job_id(*job):
            draft.emit(ClaimWithdrawn(*draft.why("better_match_gone"), slot.name, waiting.id))
