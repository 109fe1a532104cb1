"""Fold events into an access point's matches, claims and rejections."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import events as e
from ..names import JobId
from ..state.records import PendingMatch, Reservation
from ..state.state import AccessPoint
from .matches import end_match, match_of_claim, own_job


def unassign_slot(state: AccessPoint, slot: str, job: tuple[int, int] | None) -> None:
    """Remove the assignment of a slot to a job, if the job still has this slot."""
    if job is not None and state.assigned_slots.get(job) == slot:
        del state.assigned_slots[job]


def _job_of(claim: e.ClaimMade | e.ClaimQueued) -> JobId | None:
    job = own_job(claim)
    return None if job is None else JobId.parse(job)


def clear_rejections(state: AccessPoint, job: tuple[int, int]) -> None:
    """Remove the rejections of a job that was matched or started."""
    if not (state.rejections or state.further_rejections):
        return
    name = f"{job[0]}.{job[1]}"
    for rejections in (state.rejections, *state.further_rejections.values()):
        reasons = rejections.get(job[0])
        if reasons is not None and reasons.pop(name, None) is not None:
            _record_rejection_changes(state, [name])
            if not reasons:
                del rejections[job[0]]


def _record_rejection_changes(state: AccessPoint, jobs: Iterable[str]) -> None:
    state.rejection_changes.extend((JobId.parse(job).cluster, job) for job in jobs)


def _fold_cycle_held(state: AccessPoint, event: e.CycleHeld) -> None:
    for number, match in enumerate(event.matches):
        job = JobId.parse(match.job)
        clear_rejections(state, job)
        pending = PendingMatch((state.position, number), match.limits, match.preempts, event.negotiator, match.reason)
        state.matches.setdefault(match.slot, {})[job] = pending
        state.assigned_slots[job] = match.slot
    rejections = state.rejections
    if event.negotiator:
        rejections = state.further_rejections.setdefault(event.negotiator, {})
    for unmatched in event.unmatched:
        rejections.setdefault(JobId.parse(unmatched.job)[0], {})[unmatched.job] = unmatched
    _record_rejection_changes(state, [unmatched.job for unmatched in event.unmatched])


def _fold_match_voided(state: AccessPoint, event: e.MatchVoided) -> None:
    job = JobId.parse(event.job)
    if end_match(state.matches, event.slot, job) is not None:
        unassign_slot(state, event.slot, job)


def _end_match_of_claim(state: AccessPoint, slot: str, job: tuple[int, int] | None) -> None:
    """End the match from which a claim of the slot was made or queued."""
    match = match_of_claim(state.matches, slot, job)
    if match is not None:
        end_match(state.matches, *match)
        unassign_slot(state, *match)


def _fold_claim_made(state: AccessPoint, event: e.ClaimMade) -> None:
    slot, job = event.slot, _job_of(event)
    _end_match_of_claim(state, slot, job)
    unassign_slot(state, slot, state.queued_claims.pop(slot, None))
    state.kept_claims.pop(slot, None)
    if event.holder:
        state.claims.pop(slot, None)
    else:
        state.claims[slot] = event
    if job is not None:
        state.ready_claims[slot], state.assigned_slots[job] = job, slot


def _fold_claim_queued(state: AccessPoint, event: e.ClaimQueued) -> None:
    slot, job = event.slot, _job_of(event)
    unassign_slot(state, slot, state.queued_claims.pop(slot, None))
    if job is not None:
        _end_match_of_claim(state, slot, job)
        state.queued_claims[slot], state.assigned_slots[job] = job, slot


def _fold_claim_withdrawn(state: AccessPoint, event: e.ClaimWithdrawn) -> None:
    unassign_slot(state, event.slot, state.queued_claims.pop(event.slot, None))


def _fold_claim_ended(state: AccessPoint, event: e.ClaimEnded) -> None:
    state.claims.pop(event.slot, None)
    state.kept_claims.pop(event.slot, None)
    unassign_slot(state, event.slot, state.ready_claims.pop(event.slot, None))


def _fold_slot_destroyed(state: AccessPoint, event: e.SlotDestroyed) -> None:
    slot = event.slot
    state.claims.pop(slot, None)
    state.kept_claims.pop(slot, None)
    jobs = *state.matches.pop(slot, ()), state.ready_claims.pop(slot, None), state.queued_claims.pop(slot, None)
    for job in jobs:
        unassign_slot(state, slot, job)


def _fold_claims_reserved(state: AccessPoint, event: e.ClaimsReserved) -> None:
    state.reservations[event.cluster, event.proc] = Reservation(event.claims, event.until)


def _fold_reservation_ended(state: AccessPoint, event: e.ReservationEnded) -> None:
    state.reservations.pop((event.cluster, event.proc), None)


FOLDS: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.CycleHeld: _fold_cycle_held,
    e.MatchVoided: _fold_match_voided,
    e.ClaimMade: _fold_claim_made,
    e.ClaimQueued: _fold_claim_queued,
    e.ClaimWithdrawn: _fold_claim_withdrawn,
    e.ClaimEnded: _fold_claim_ended,
    e.SlotDestroyed: _fold_slot_destroyed,
    e.ClaimsReserved: _fold_claims_reserved,
    e.ReservationEnded: _fold_reservation_ended,
}
