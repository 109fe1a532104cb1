"""What folds of several topics keep: the jobs that slots are promised to, what matches and claims hold of concurrency
limits, and why jobs got nothing."""

from __future__ import annotations

from collections.abc import Iterable

from .. import events as e
from ..names import JobId
from ..state.state import Claim, Slot, State


def unpromise(state: State, slot: str, job: tuple[int, int] | None) -> None:
    """The job is promised the slot no longer."""
    if job is not None and state.reserved.get(job) == slot:
        del state.reserved[job]


def leave_match_limits(state: State, slot: str) -> None:
    """Give back what a slot's match holds of concurrency limits."""
    state.hold_limits(state.matched_limits.pop(slot, ""), -1)


def leave_limits(state: State, *claims: Claim | None) -> None:
    """Give back what claims, or such as wait, hold of concurrency limits."""
    for claim in claims:
        if claim is not None and claim.limits:
            state.hold_limits(claim.limits, -1)


def awaited(slot: Slot | None) -> tuple[int, int] | None:
    """The job of the pool's own queue that waits for the slot's present claim to go."""
    return None if slot is None or slot.waiting is None else job_of(slot.waiting)


def job_of(claim: Claim | e.ClaimMade | e.ClaimQueued) -> JobId | None:
    """The job of the pool's own queue that a better match is for."""
    if claim.holder or not claim.job:
        return None
    return JobId.parse(claim.job)


def forget_rejection(state: State, job: tuple[int, int]) -> None:
    """The job has got something."""
    name = f"{job[0]}.{job[1]}"
    for rejections in (state.rejections, *state.further_rejections.values()):
        reasons = rejections.get(job[0])
        if reasons is not None and reasons.pop(name, None) is not None:
            note_rejections(state, [name])
            if not reasons:
                del rejections[job[0]]


def note_rejections(state: State, jobs: Iterable[str]) -> None:
    """Why jobs like these got nothing is another thing than before."""
    whose: dict[str, None] = {}
    for job in jobs:
        number = int(job.partition(".")[0])
        state.rejection_changes.append((number, job))
        cluster = state.clusters.get(number)
        if cluster is not None:
            whose[cluster.submitter] = None
    for name in whose:
        state.note_submitter(name)
