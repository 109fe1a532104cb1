"""How events change an access point's matches, its claims, and the reasons why its jobs were rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import events as e
from ..names import JobId
from ..state.records import Earmark, Matched
from ..state.state import AccessPoint
from .matches import end_match, match_of_claim, own_job


def unpromise(state: AccessPoint, slot: str, job: tuple[int, int] | None) -> None:
    """Forget that the slot is reserved for the job."""
    if job is not None and state.reserved.get(job) == slot:
        del state.reserved[job]


def _job_of(claim: e.ClaimMade | e.ClaimQueued) -> JobId | None:
    """Return the job of the pool's own queue that a claim names; None if it names none."""
    job = own_job(claim)
    return None if job is None else JobId.parse(job)


def forget_rejection(state: AccessPoint, job: tuple[int, int]) -> None:
    """Forget why the job was rejected: it has a match or runs."""
    if not (state.rejections or state.further_rejections):
        return
    name = f"{job[0]}.{job[1]}"
    for rejections in (state.rejections, *state.further_rejections.values()):
        reasons = rejections.get(job[0])
        if reasons is not None and reasons.pop(name, None) is not None:
            _note_rejections(state, [name])
            if not reasons:
                del rejections[job[0]]


def _note_rejections(state: AccessPoint, jobs: Iterable[str]) -> None:
    """Note that the rejection reasons of jobs like these have changed."""
    state.rejection_changes.extend((JobId.parse(job).cluster, job) for job in jobs)


def _cycle(state: AccessPoint, event: e.CycleHeld) -> None:
    for number, match in enumerate(event.matches):
        job = JobId.parse(match.job)
        forget_rejection(state, job)
        matched = Matched((state.position, number), match.limits, match.preempts, event.negotiator)
        state.matches.setdefault(match.slot, {})[job] = matched
        state.reserved[job] = match.slot
    rejections = state.rejections
    if event.negotiator:
        rejections = state.further_rejections.setdefault(event.negotiator, {})
    for unmatched in event.unmatched:
        rejections.setdefault(JobId.parse(unmatched.job)[0], {})[unmatched.job] = unmatched
    _note_rejections(state, [unmatched.job for unmatched in event.unmatched])


def _match_voided(state: AccessPoint, event: e.MatchVoided) -> None:
    job = JobId.parse(event.job)
    if end_match(state.matches, event.slot, job) is not None:
        unpromise(state, event.slot, job)


def _end_claimed(state: AccessPoint, slot: str, job: tuple[int, int] | None) -> None:
    """End the match for which a claim of the slot was made, or waits."""
    matched = match_of_claim(state.matches, slot, job)
    if matched is not None:
        end_match(state.matches, *matched)
        unpromise(state, *matched)


def _claim_made(state: AccessPoint, event: e.ClaimMade) -> None:
    slot, job = event.slot, _job_of(event)
    _end_claimed(state, slot, job)
    unpromise(state, slot, state.queued.pop(slot, None))
    if event.holder:
        state.claims.pop(slot, None)
    else:
        state.claims[slot] = event
    if job is not None:
        state.claim_ready[slot], state.reserved[job] = job, slot


def _claim_waits(state: AccessPoint, event: e.ClaimQueued) -> None:
    slot, job = event.slot, _job_of(event)
    unpromise(state, slot, state.queued.pop(slot, None))
    if job is not None:
        _end_claimed(state, slot, job)
        state.queued[slot], state.reserved[job] = job, slot


def _claim_withdrawn(state: AccessPoint, event: e.ClaimWithdrawn) -> None:
    unpromise(state, event.slot, state.queued.pop(event.slot, None))


def _claim_ended(state: AccessPoint, event: e.ClaimEnded) -> None:
    state.claims.pop(event.slot, None)
    unpromise(state, event.slot, state.claim_ready.pop(event.slot, None))


def _slot_died(state: AccessPoint, event: e.SlotDestroyed) -> None:
    slot = event.slot
    state.claims.pop(slot, None)
    promised = *state.matches.pop(slot, ()), state.claim_ready.pop(slot, None), state.queued.pop(slot, None)
    for job in promised:
        unpromise(state, slot, job)


def _earmarked(state: AccessPoint, event: e.ClaimsEarmarked) -> None:
    state.earmarks[event.cluster, event.proc] = Earmark(event.claims, event.until)


def _earmark_ended(state: AccessPoint, event: e.EarmarkEnded) -> None:
    state.earmarks.pop((event.cluster, event.proc), None)


FOLDS: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.CycleHeld: _cycle,
    e.MatchVoided: _match_voided,
    e.ClaimMade: _claim_made,
    e.ClaimQueued: _claim_waits,
    e.ClaimWithdrawn: _claim_withdrawn,
    e.ClaimEnded: _claim_ended,
    e.SlotDestroyed: _slot_died,
    e.ClaimsEarmarked: _earmarked,
    e.EarmarkEnded: _earmark_ended,
}
