"""How events about claims change the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .. import events as e
from ..names import AccountName, JobId
from ..state import slot_fold
from ..state.job_ad import unquoted
from ..state.state import Claim, Earmark, Matched, Slot, State

# What folds of several topics keep: the jobs that slots are promised to, what matches and claims hold of concurrency
# limits, and why jobs got nothing.


def unpromise(state: State, slot: str, job: tuple[int, int] | None) -> None:
    """The job is promised the slot no longer."""
    if job is not None and state.reserved.get(job) == slot:
        del state.reserved[job]


def end_match(state: State, slot: str, job: tuple[int, int]) -> Matched | None:
    """A slot's match with a job was claimed or voided; return it, if there was one."""
    matches = state.matches.get(slot, {})
    matched = matches.pop(job, None)
    if matched is not None:
        if not matches:
            del state.matches[slot]
        unpromise(state, slot, job)
        state.hold_limits(matched.limits, -1)
    return matched


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
        number = JobId.parse(job).cluster
        state.rejection_changes.append((number, job))
        cluster = state.clusters.get(number)
        if cluster is not None:
            whose[cluster.submitter] = None
    for name in whose:
        state.note_submitter(name)


def _user(state: State, event: e.ClaimMade | e.ClaimQueued, job: tuple[int, int] | None) -> str:
    """Whose the job is that a claim is made for."""
    cluster = state.clusters.get(job[0]) if job is not None else None
    return unquoted((event.ad if cluster is None else cluster.ad).get("User", ""))


def _end_claimed_match(
    state: State, slot: Slot, job: tuple[int, int] | None
) -> tuple[tuple[int, int] | None, Matched | None]:
    """End the match of which a claim is made, of the slot or of the one it was carved from; return its job, too."""
    own = next(iter(state.matches.get(slot.name, ())), None)
    if own is not None:
        return own, end_match(state, slot.name, own)
    return job, None if job is None else end_match(state, slot.parent, job)


def _claim_made(state: State, event: e.ClaimMade) -> None:
    slot, job = state.slots[event.slot], job_of(event)
    matched_job, matched = _end_claimed_match(state, slot, job)
    unpromise(state, event.slot, awaited(slot))
    if event.holder:
        state.claims.pop(event.slot, None)
    else:
        state.claims[event.slot] = event
    if job is not None:
        state.claim_ready[event.slot], state.reserved[job] = job, event.slot
    account = str(AccountName(event.negotiator, event.submitter))
    state.submitter(account, event.factor).take(event.weight, event.at)
    leave_limits(state, slot.claim, slot.waiting)
    state.hold_limits(event.limits, 1)
    state.slot_changes.append(event.slot)
    slot_fold.claimed(slot, event, state.position, _user(state, event, job or matched_job))
    if slot.claim is not None and matched is not None:
        slot.claim.regrouped = matched.regrouped


def _claim_waits(state: State, event: e.ClaimQueued) -> None:
    slot, job = state.slots[event.slot], job_of(event)
    unpromise(state, event.slot, awaited(slot))
    matched = None
    if job is not None:
        matched = _end_claimed_match(state, slot, job)[1]
        state.reserved[job] = event.slot
    leave_limits(state, slot.waiting)
    state.hold_limits(event.limits, 1)
    state.slot_changes.append(event.slot)
    slot_fold.claim_waits(slot, event, state.position, _user(state, event, job))
    if slot.waiting is not None:
        slot.waiting.regrouped = matched is not None and matched.regrouped


def _claim_withdrawn(state: State, event: e.ClaimWithdrawn) -> None:
    slot = state.slots[event.slot]
    unpromise(state, event.slot, awaited(slot))
    leave_limits(state, slot.waiting)
    slot_fold.claim_withdrawn(slot, event, state.position, "")
    state.slot_changes.append(event.slot)


def _claim_marked(state: State, event: e.ClaimFlagged) -> None:
    slot_fold.claim_flagged(state.slots[event.slot], event, state.position, "")


def _claim_unheard(state: State, event: e.ClaimHolderSilent) -> None:
    claim = state.slots[event.slot].claim
    if claim is not None:
        claim.until = event.until
    if event.until:
        state.silent_claims[event.slot] = None
    else:
        state.silent_claims.pop(event.slot, None)


def _claim_activated(state: State, event: e.ClaimActivated) -> None:
    slot_fold.claim_activated(state.slots[event.slot], event, state.position, unquoted(event.ad.get("User", "")))
    state.slot_changes.append(event.slot)


def _claim_deactivated(state: State, event: e.ClaimDeactivated) -> None:
    slot_fold.deactivated(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


def _claim_ended(state: State, event: e.ClaimEnded) -> None:
    slot = state.slots[event.slot]
    weight = None if slot.claim is None else slot.claim.weight
    account = str(AccountName(event.negotiator, event.submitter))
    state.submitter(account).give_back(weight, event.usage, event.at)
    leave_limits(state, slot.claim)
    slot_fold.claim_ended(slot, event, state.position, "")
    state.silent_claims.pop(event.slot, None)
    state.claims.pop(event.slot, None)
    state.slot_changes.append(event.slot)
    unpromise(state, event.slot, state.claim_ready.pop(event.slot, None))
    if event.cause == "start_false":
        state.cycles.taken_back = event.at


def _earmarked(state: State, event: e.ClaimsEarmarked) -> None:
    state.earmarks[event.cluster, event.proc] = Earmark(event.claims, event.until)


def _earmark_ended(state: State, event: e.EarmarkEnded) -> None:
    state.earmarks.pop((event.cluster, event.proc), None)


FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.ClaimMade: _claim_made,
    e.ClaimQueued: _claim_waits,
    e.ClaimWithdrawn: _claim_withdrawn,
    e.ClaimFlagged: _claim_marked,
    e.ClaimActivated: _claim_activated,
    e.ClaimDeactivated: _claim_deactivated,
    e.ClaimHolderSilent: _claim_unheard,
    e.ClaimEnded: _claim_ended,
    e.ClaimsEarmarked: _earmarked,
    e.EarmarkEnded: _earmark_ended,
}
