"""Claims of slots, by the pool's own schedd or by an outside one.

A claim of a claimed slot is a better match: it waits until the policy ends the present claim. For a claim of a
partitionable slot, a dynamic slot is carved.
"""

from __future__ import annotations

from math import isfinite

from msgspec.structs import replace

from ..classad import Context, EvaluationError
from ..classad.tree import Literal
from ..concurrency_limits import LIMITS
from ..decision.draft import Draft, Refusal
from ..events import Ad, ClaimMade, ClaimQueued, ClaimWithdrawn
from ..names import SlotName, dynamic_name
from ..ports import stimuli as s
from ..ports.messages import DropMatch, ShowSlot, SlotSeen
from ..state import negotiators
from ..state.caches import Caches, ad_of, expression
from ..state.job_limits import evaluated
from ..state.records import Claim, Slot
from ..state.state import ExecutionPoint
from ..state_machines import SlotRow
from ..state_machines.claim import REQUESTED
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_IDLE, BACKFILL_KILLING, INITIAL_PAIR
from . import time_limits
from .backfill_client import is_in_the_way
from .draining import accepts_claims
from .dynamic_slots import carve, merge
from .pslot_preemption import preempt, preempt_for_claim
from .public_ad import PublishedSlots
from .slot_policy_evaluation import note_evidence, policy_of
from .transitions import (
    apply_policy,
    claim_made,
    end_claim,
    mark,
    reevaluate,
    transition,
    trigger,
    withdraw_better_match,
)
from .vacating import void


def negotiator_of(state: ExecutionPoint, caches: Caches, slot: Slot, now: int, context: Context) -> str:
    """Return the negotiator whose slot this is, as events have it: it counts who claims it. Of a slot that is nobody's,
    the first."""
    if not negotiators.has_several(state.settings):
        return ""
    published = PublishedSlots(state, caches, now, context).ad(slot)
    named = negotiators.names(state.settings)
    for name in named:
        asked = expression(negotiators.partition(state.settings, name) or "true")
        try:
            if asked is not None and asked.evaluate(published, None, context) is True:
                return negotiators.short(name)
        except EvaluationError:
            continue
    return negotiators.short(named[0])


HELD = ("Claimed", "Preempting")
"""The states of a claimed slot."""


def rank_of(draft: Draft[ExecutionPoint], slot: Slot, job: Ad) -> float:
    """Return the slot's RANK of a job; a value that is not a number counts as 0.

    By the manual, a slot without a RANK values all jobs alike. HTCondor's startd looks up in the job what the slot's ad
    lacks (Resource::compute_rank), and so uses the job's own Rank of the slot.
    """
    policy = policy_of(draft, slot)
    asked, swapped = policy.expression("Rank"), False
    if asked is None and draft.state.dialect.takes_job_rank_for_missing_rank:
        asked, swapped = ad_of(job).get("Rank"), True
    if asked is None:
        return 0.0
    if isinstance(asked, Literal):
        value = asked.value
    else:
        ads = policy.whole_ads()[0], ad_of(job)
        mine, target = ads[::-1] if swapped else ads
        try:
            value = asked.evaluate(mine, target, draft.context)
        except EvaluationError:
            return 0.0
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def accept_claim(draft: Draft[ExecutionPoint], slot: Slot, made: ClaimMade, fired: str = "claim") -> bool:
    """Claim the slot. Return False if its policy took the claim back at once.

    :param fired: the trigger; another one claims a slot whose backfill client is gone
    :raises Refusal: the slot cannot be claimed in its state
    """
    steps = draft.state.dialect.steps(fired, slot.state_activity)
    draft.fire("claim", REQUESTED, "accept" if steps else "refuse")
    if not steps:
        raise Refusal(f"slot {slot.name} is {slot.state_activity}: it cannot be claimed there")
    _claim_match(draft, slot, made.job)
    before = slot.state_activity
    for step in steps:
        draft.move_slot(slot, step.row, "claimed", step.target)
    draft.emit(made)
    if time_limits.draining(policy_of(draft, slot)):
        mark(draft, slot, "late")
    if draft.state.dialect.steps("revert", slot.state_activity) and _unwanted(draft, slot):
        end_claim(draft, slot, "start_false")
        trigger(draft, slot, "revert", "claim_failed", before)
        if slot.state_activity == BACKFILL_IDLE:
            transition(draft, slot, SlotRow.LEAVE_BACKFILL, "claim_failed")
        return False
    reevaluate(draft, slot)
    return slot.claim is not None


def _claim_match(draft: Draft[ExecutionPoint], slot: Slot, job: str) -> None:
    """Take the step of the match that is claimed, if there is one: of the slot, or of the one it was carved from."""
    matches = draft.state.slot_matches
    if slot.name in matches or job in matches.get(slot.parent, ()):
        draft.move_match(slot, "claim")


def _unwanted(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Return True if the policy would end the claim in the instant in which it begins."""
    return policy_of(draft, slot).true("IS_OWNER")


# Slots with a backfill client, or on the cores of one that has not ended yet


def wait_for_client(draft: Draft[ExecutionPoint], slot: Slot, claim: Claim) -> None:
    """Queue a claim until the client ends, and end the client; only the latest claim waits."""
    _queue(draft, slot, claim, "claimed")
    trigger(draft, slot, "claim waits", "claimed")
    if not is_in_the_way(draft.state, slot):
        claim_for_waiting(draft, slot)


def waits_without_claim(slot: Slot) -> bool:
    """Return True if a claim waits for a slot that is not claimed."""
    return slot.waiting is not None and slot.claim is None


def claim_for_waiting(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Give a slot to the claim that waits for it: no client is in the way any more."""
    assert slot.waiting is not None
    in_backfill = slot.state_activity == BACKFILL_KILLING
    made = claim_made(draft, slot, slot.waiting, "claimed")
    try:
        accept_claim(draft, slot, made, "client gone, claimed" if in_backfill else "claim")
    except Refusal:
        withdraw_better_match(draft, slot, "claim_failed")
        if in_backfill:
            trigger(draft, slot, "client gone", "client_gone")


def leave_for_part(draft: Draft[ExecutionPoint], parent: Slot) -> None:
    """End the client on the cores of a partitionable slot of which a part was given away."""
    if parent.state == "Backfill":
        trigger(draft, parent, "retire", "carved")


# Matches and requests for claims


def slot_named(draft: Draft[ExecutionPoint], name: str) -> Slot:
    slot = draft.state.slots.get(name)
    if slot is None:
        raise Refusal(f"there is no slot {name}; `poolbook status` lists them")
    return slot


def notify_match(draft: Draft[ExecutionPoint], stimulus: s.NotifyMatch) -> None:
    """Carve the matched part of a partitionable slot, if there is one, and move the slot to Matched (6)."""
    slot = slot_named(draft, stimulus.slot)
    if stimulus.part:
        parent = slot
        preempt(draft, parent, stimulus.preempts)
        slot = carve(draft, parent, stimulus.part, ad_of(stimulus.ad))
        leave_for_part(draft, parent)
        reevaluate(draft, slot)
    trigger(draft, slot, "match", "matched")


def request_claim(draft: Draft[ExecutionPoint], request: s.RequestClaim) -> str:
    """Claim a slot, or a dynamic slot that is carved for it; on a claimed slot, the claim waits. Return the name of the
    slot that the holder has now; empty if it has none yet.

    Source: ``request_claim`` of HTCondor's startd. Own and outside holders get the same answer.

    :raises Refusal: the slot refuses the claim, and nothing is carved
    """
    name = request.slot
    machine = draft.state.machines.get(SlotName.parse(name).machine)
    if machine is not None and not accepts_claims(machine):
        raise Refusal(f"machine {machine.name} drains or is shut down: it takes no claims")
    slot = draft.state.slots.get(name)
    if slot is None or slot.kind == "partitionable":
        slot = _carved(draft, request, slot)
    claim = _terms(draft, slot, request)
    if slot.state in HELD:
        if any(other is not None and claim.rank < other.rank for other in (slot.claim, slot.waiting)):
            raise Refusal(f"slot {name} has, or waits for, a claim that its RANK values more: it refuses this one")
        _queue(draft, slot, claim, "better_match")
        apply_policy(draft, slot)  # at once, as the real startd does
        return ""
    named = not request.holder and slot.name in draft.state.slot_matches
    if request.may_wait and (slot.state_activity == BACKFILL_BUSY or is_in_the_way(draft.state, slot)):
        if not (named and (slot.destination == "Matched" or slot.kind == "dynamic")):  # else its match waits
            wait_for_client(draft, slot, claim)
        return ""
    made = claim_made(draft, slot, claim, request.cause)
    accepted = accept_claim(draft, slot, replace(made, job="") if named else made)
    return slot.name if accepted else ""


def answer_request(draft: Draft[ExecutionPoint], request: s.RequestClaim) -> str:
    """Claim a slot for the access point of this pool. A refusal is an empty answer, and voids the match."""
    try:
        return request_claim(draft, request)
    except Refusal:
        if request.job in draft.state.slot_matches.get(request.slot, ()):
            void(draft, draft.state.slots[request.slot], "claim_failed", request.job)
        return ""


def _terms(draft: Draft[ExecutionPoint], slot: Slot, request: s.RequestClaim) -> Claim:
    """Return the requested claim."""
    state, limits, negotiator = draft.state, request.limits, request.negotiator
    if limits is None:
        limits = limits_of(draft, slot, request.ad)
    if negotiator is None:
        negotiator = negotiator_of(state, draft.caches, slot, draft.now, draft.context)
    id = request.claim or f"{slot.name}#{draft.now}#{state.position + 1}"
    rank, ad = rank_of(draft, slot, request.ad), request.ad if request.holder else state.recorded(request.ad)
    return Claim(
        id, request.submitter, 0, draft.now, rank, request.holder, request.job, ad, request.lease, limits=limits,
        negotiator=negotiator,
    )  # fmt: skip


def limits_of(draft: Draft[ExecutionPoint], slot: Slot, job: Ad) -> str:
    """Return the concurrency limits that a job of an outside holder uses with the slot."""
    if LIMITS not in job:
        return ""
    return evaluated(ad_of(job), policy_of(draft, slot).whole_ads()[0], draft.context)


def _queue(draft: Draft[ExecutionPoint], slot: Slot, claim: Claim, cause: str) -> None:
    """Queue a claim for the slot; only the latest claim waits."""
    if not claim.holder:
        _claim_match(draft, slot, claim.job)
    if slot.waiting is not None:
        draft.emit(ClaimWithdrawn(*draft.why(cause), slot.name, slot.waiting.id))
    draft.emit(
        ClaimQueued(
            *draft.why(cause), slot.name, claim.id, claim.submitter, claim.rank, claim.holder, claim.job, claim.ad,
            claim.lease, claim.limits, claim.negotiator,
        )
    )  # fmt: skip


def _carved(draft: Draft[ExecutionPoint], request: s.RequestClaim, parent: Slot | None) -> Slot:
    """Carve the dynamic slot that a claim requests, and move it to a state in which it can be claimed."""
    name = request.slot
    if parent is not None:
        name = dynamic_name(parent.name, draft.state.slots)
    else:
        parent = draft.state.slots.get(str(SlotName.parse(name).parent))
    if parent is None or parent.kind != "partitionable":
        raise Refusal(f"there is no slot {name}, and no partitionable slot to carve it from")
    stays_owner = not draft.state.dialect.steps("claim", INITIAL_PAIR)
    if stays_owner and _unwanted(draft, parent):
        raise Refusal(f"slot {parent.name} has its owner (IS_OWNER is true): it cannot be claimed")
    if request.preempts:
        preempt_for_claim(draft, request.preempts)
    slot = carve(draft, parent, name, ad_of(request.ad))
    leave_for_part(draft, parent)
    if stays_owner and not (policy := policy_of(draft, slot)).true("IS_OWNER"):
        draft.move_slot(slot, SlotRow.OWNER_LEAVES, "not_owner", evidence=note_evidence(draft, policy))
    return slot


def show_slot(draft: Draft[ExecutionPoint], message: ShowSlot) -> SlotSeen | None:
    slot = draft.state.slots.get(message.slot)
    if slot is None:
        return None
    machine = draft.state.machines.get(slot.machine)
    starts = machine is None or not machine.shutdown
    return SlotSeen(slot.state_activity, slot.kind, slot.parent, slot.ad, slot.version, starts)


def drop_match(draft: Draft[ExecutionPoint], message: DropMatch) -> None:
    void(draft, draft.state.slots[message.slot], message.cause, message.job)


def fail_claim(draft: Draft[ExecutionPoint], stimulus: s.FailClaim) -> None:
    """Return a slot in Matched or Unclaimed to Owner, since the claiming protocol failed."""
    trigger(draft, slot_named(draft, stimulus.slot), "claim failed", "claim_failed")


def withdraw_claim(draft: Draft[ExecutionPoint], stimulus: s.WithdrawClaim) -> None:
    """Withdraw a waiting better match. A job that retired only for it continues at the next policy evaluation; a
    dynamic slot that was carved only for it is destroyed."""
    job = stimulus.for_job
    if job and stimulus.slot not in draft.state.slots:
        return
    slot = slot_named(draft, stimulus.slot)
    waiting = slot.waiting
    if waiting is not None and (not job or (not waiting.holder and waiting.job == job)):
        draft.emit(ClaimWithdrawn(*draft.why("better_match_gone"), stimulus.slot, waiting.id))
        if slot.kind == "dynamic" and slot.claim is None:
            merge(draft, slot)
