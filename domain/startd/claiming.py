"""Claim slots for the pool's own schedd or an external one.

Claiming a slot that is already claimed creates a preempting claim, which waits until the policy ends the current claim.
Claiming a partitionable slot carves a dynamic slot.
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
from ..state.caches import Caches, ad_from_attributes, parse_cached
from ..state.job_limits import job_concurrency_limits
from ..state.records import Claim, Slot
from ..state.state import ExecutionPoint, SentAd
from ..state_machines import SlotRow
from ..state_machines.claim import INITIAL_CLAIM_STATE
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_IDLE, BACKFILL_KILLING, INITIAL_PAIR
from . import time_limits
from .backfill_client import client_occupies_slot
from .draining import machine_accepts_claims
from .dynamic_slots import carve_slot, merge_slot
from .pslot_preemption import preempt_for_claim, preempt_slots
from .public_ad import PublishedSlots
from .slot_policy_evaluation import policy_of, record_evidence
from .transitions import (
    apply_policy,
    claim_made_event,
    end_claim,
    fire_trigger,
    flag_claim,
    reevaluate_slot,
    take_transition,
    withdraw_better_match,
)
from .vacating import cancel_match


def negotiator_for(state: ExecutionPoint, caches: Caches, slot: Slot, now: int, context: Context) -> str:
    """Return the negotiator that matches the slot and charges its claims, by the name in events. If no negotiator's
    constraint selects the slot, the first negotiator in DAEMON_LIST is responsible for it."""
    if not negotiators.has_several(state.settings):
        return ""
    ad = PublishedSlots(state, caches, now, context).ad(slot)
    names = negotiators.negotiator_names(state.settings)
    for name in names:
        constraint = parse_cached(negotiators.slot_constraint(state.settings, name) or "true")
        try:
            if constraint is not None and constraint.evaluate(ad, None, context) is True:
                return negotiators.name_in_events(name)
        except EvaluationError:
            continue
    return negotiators.name_in_events(names[0])


CLAIMED_STATES = ("Claimed", "Preempting")


def slot_rank(draft: Draft[ExecutionPoint], slot: Slot, job: Ad) -> float:
    """Return the slot's RANK of a job, or 0 if the value is not a number.

    In the manual, a slot without a RANK ranks all jobs equally. HTCondor instead uses the job's Rank of the slot,
    because it looks up attributes that the slot's ad lacks in the job's ad (Resource::compute_rank).
    """
    policy = policy_of(draft, slot)
    rank, is_job_rank = policy.expression("Rank"), False
    if rank is None and draft.state.dialect.takes_job_rank_for_missing_rank:
        rank, is_job_rank = parse_cached(SentAd(job).value("Rank")), True
    if rank is None:
        return 0.0
    if isinstance(rank, Literal):
        value = rank.value
    else:
        ads = policy.complete_ads()[0], ad_from_attributes(job)
        own_ad, target_ad = ads[::-1] if is_job_rank else ads
        try:
            value = rank.evaluate(own_ad, target_ad, draft.context)
        except EvaluationError:
            return 0.0
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def accept_claim(draft: Draft[ExecutionPoint], slot: Slot, event: ClaimMade, trigger_name: str = "claim") -> bool:
    """Claim the slot. Return False if its policy ends the claim immediately.

    :param trigger_name: the trigger that claims the slot
    :raises Refusal: if the slot cannot be claimed in its current state
    """
    steps = draft.state.dialect.steps(trigger_name, slot.state_activity)
    draft.fire("claim", INITIAL_CLAIM_STATE, "accept" if steps else "refuse")
    if not steps:
        raise Refusal(f"slot {slot.name} is {slot.state_activity}: a slot cannot be claimed in this state")
    _claim_match(draft, slot, event.job)
    old_state = slot.state_activity
    for step in steps:
        draft.move_slot(slot, step.row, "claimed", step.target)
    draft.emit(event)
    if time_limits.machine_is_draining(policy_of(draft, slot)):
        flag_claim(draft, slot, "late")
    if draft.state.dialect.steps("revert", slot.state_activity) and policy_of(draft, slot).is_true("IS_OWNER"):
        end_claim(draft, slot, "start_false")
        fire_trigger(draft, slot, "revert", "claim_failed", old_state)
        if slot.state_activity == BACKFILL_IDLE:
            take_transition(draft, slot, SlotRow.LEAVE_BACKFILL, "claim_failed")
        return False
    reevaluate_slot(draft, slot)
    return slot.claim is not None


def _claim_match(draft: Draft[ExecutionPoint], slot: Slot, job: str) -> None:
    """Record that the match of the slot, or of its parent, has been claimed, if there is a match."""
    matches = draft.state.slot_matches
    if slot.name in matches or job in matches.get(slot.parent, ()):
        draft.move_match(slot, "claim")


# Slots whose cores a backfill client uses


def queue_behind_client(draft: Draft[ExecutionPoint], slot: Slot, claim: Claim) -> None:
    """Queue a claim until the client has ended, and end the client. A newer claim replaces an earlier queued one."""
    _queue_claim(draft, slot, claim, "claimed")
    fire_trigger(draft, slot, "claim waits", "claimed")
    if not client_occupies_slot(draft.state, slot):
        make_waiting_claim(draft, slot)


def has_only_waiting_claim(slot: Slot) -> bool:
    """Return True if the slot is not claimed, but a claim waits for it."""
    return slot.queued_claim is not None and slot.claim is None


def make_waiting_claim(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Make the claim that was waiting for a slot's backfill client to end."""
    assert slot.queued_claim is not None
    in_backfill = slot.state_activity == BACKFILL_KILLING
    event = claim_made_event(draft, slot, slot.queued_claim, "claimed")
    try:
        accept_claim(draft, slot, event, "client gone, claimed" if in_backfill else "claim")
    except Refusal:
        withdraw_better_match(draft, slot, "claim_failed")
        if in_backfill:
            fire_trigger(draft, slot, "client gone", "client_gone")


def leave_backfill_for_dynamic_slot(draft: Draft[ExecutionPoint], parent: Slot) -> None:
    """End the backfill client on the cores of a partitionable slot after a dynamic slot was carved from it."""
    if parent.state == "Backfill":
        fire_trigger(draft, parent, "retire", "carved")


# Matches and claim requests


def find_slot(draft: Draft[ExecutionPoint], name: str) -> Slot:
    slot = draft.state.slots.get(name)
    if slot is None:
        raise Refusal(f"there is no slot {name}; `poolbook status` lists them")
    return slot


def notify_match(draft: Draft[ExecutionPoint], stimulus: s.NotifyMatch) -> None:
    """Carve the matched dynamic slot, if it does not exist yet, and move it to Matched (transition 6)."""
    slot = find_slot(draft, stimulus.slot)
    if stimulus.dynamic_slot:
        parent = slot
        preempt_slots(draft, parent, stimulus.preempts)
        slot = carve_slot(draft, parent, stimulus.dynamic_slot, ad_from_attributes(stimulus.ad))
        leave_backfill_for_dynamic_slot(draft, parent)
        reevaluate_slot(draft, slot)
    fire_trigger(draft, slot, "match", "matched")


def request_claim(draft: Draft[ExecutionPoint], request: s.RequestClaim) -> str:
    """Claim a slot, or carve a dynamic slot and claim that. On a claimed slot, the claim waits. Return the name of the
    slot claimed, or an empty string if the claim waits or ended immediately.

    Source: HTCondor's ``request_claim``. The pool's own access point and external ones receive the same answer.

    :raises Refusal: if the slot refuses the claim; no slot is carved then
    """
    name = request.slot
    machine = draft.state.machines.get(SlotName.parse(name).machine)
    if machine is not None and not machine_accepts_claims(machine):
        raise Refusal(f"machine {machine.name} is draining or shut down: it accepts no claims")
    slot = draft.state.slots.get(name)
    if slot is None or slot.kind == "partitionable":
        slot = _carve_requested_slot(draft, request, slot)
    claim = _requested_claim(draft, slot, request)
    if slot.state in CLAIMED_STATES:
        if any(other is not None and claim.rank < other.rank for other in (slot.claim, slot.queued_claim)):
            raise Refusal(f"slot {name} has a current or waiting claim with a higher RANK, so it refuses this claim")
        _queue_claim(draft, slot, claim, "better_match")
        apply_policy(draft, slot)  # like HTCondor, do not wait for the next periodic evaluation
        return ""
    is_for_match = not request.holder and slot.name in draft.state.slot_matches
    if request.may_wait and (slot.state_activity == BACKFILL_BUSY or client_occupies_slot(draft.state, slot)):
        if not (is_for_match and (slot.destination == "Matched" or slot.kind == "dynamic")):  # else the match waits
            queue_behind_client(draft, slot, claim)
        return ""
    event = claim_made_event(draft, slot, claim, request.cause)
    accepted = accept_claim(draft, slot, replace(event, job="") if is_for_match else event)
    return slot.name if accepted else ""


def answer_claim_request(draft: Draft[ExecutionPoint], request: s.RequestClaim) -> str:
    """Claim a slot for the pool's own access point. If the slot refuses, void the match and return an empty string."""
    try:
        return request_claim(draft, request)
    except Refusal:
        if request.job in draft.state.slot_matches.get(request.slot, ()):
            cancel_match(draft, draft.state.slots[request.slot], "claim_failed", request.job)
        return ""


def _requested_claim(draft: Draft[ExecutionPoint], slot: Slot, request: s.RequestClaim) -> Claim:
    state, limits, negotiator = draft.state, request.limits, request.negotiator
    if limits is None:
        limits = concurrency_limits(draft, slot, request.ad)
    if negotiator is None:
        negotiator = negotiator_for(state, draft.caches, slot, draft.now, draft.context)
    id = request.claim or f"{slot.name}#{draft.now}#{state.position + 1}"
    rank, ad = slot_rank(draft, slot, request.ad), request.ad if request.holder else state.ad_to_record(request.ad)
    return Claim(
        id, request.submitter, 0, draft.now, rank, request.holder, request.job, ad, request.lease, limits=limits,
        negotiator=negotiator,
    )  # fmt: skip


def concurrency_limits(draft: Draft[ExecutionPoint], slot: Slot, job: Ad) -> str:
    """Return the concurrency limits that an external holder's job uses on the slot."""
    if LIMITS not in job:
        return ""
    return job_concurrency_limits(ad_from_attributes(job), policy_of(draft, slot).complete_ads()[0], draft.context)


def _queue_claim(draft: Draft[ExecutionPoint], slot: Slot, claim: Claim, cause: str) -> None:
    if not claim.holder:
        _claim_match(draft, slot, claim.job)
    if slot.queued_claim is not None:
        draft.emit(ClaimWithdrawn(*draft.header(cause), slot.name, slot.queued_claim.id))
    draft.emit(
        ClaimQueued(
            *draft.header(cause), slot.name, claim.id, claim.submitter, claim.rank, claim.holder, claim.job, claim.ad,
            claim.lease, claim.limits, claim.negotiator,
        )
    )  # fmt: skip


def _carve_requested_slot(draft: Draft[ExecutionPoint], request: s.RequestClaim, parent: Slot | None) -> Slot:
    name = request.slot
    if parent is not None:
        name = dynamic_name(parent.name, draft.state.slots)
    else:
        parent = draft.state.slots.get(str(SlotName.parse(name).parent))
    if parent is None or parent.kind != "partitionable":
        raise Refusal(f"there is no slot {name}, and no partitionable slot to carve it from")
    stays_owner = not draft.state.dialect.steps("claim", INITIAL_PAIR)
    if stays_owner and policy_of(draft, parent).is_true("IS_OWNER"):
        raise Refusal(f"slot {parent.name} is reserved for its owner (IS_OWNER is true): it cannot be claimed")
    if request.preempts:
        preempt_for_claim(draft, request.preempts)
    slot = carve_slot(draft, parent, name, ad_from_attributes(request.ad))
    leave_backfill_for_dynamic_slot(draft, parent)
    if stays_owner and not (policy := policy_of(draft, slot)).is_true("IS_OWNER"):
        draft.move_slot(slot, SlotRow.OWNER_LEAVES, "not_owner", evidence=record_evidence(draft, policy))
    return slot


def show_slot(draft: Draft[ExecutionPoint], message: ShowSlot) -> SlotSeen | None:
    slot = draft.state.slots.get(message.slot)
    if slot is None:
        return None
    machine = draft.state.machines.get(slot.machine)
    starts_jobs = machine is None or not machine.shutdown
    by_request = slot.claim is not None and "by_command" in slot.claim.flags
    return SlotSeen(slot.state_activity, slot.kind, slot.parent, slot.ad, slot.version, starts_jobs, by_request)


def drop_match(draft: Draft[ExecutionPoint], message: DropMatch) -> None:
    cancel_match(draft, draft.state.slots[message.slot], message.cause, message.job)


def fail_claim(draft: Draft[ExecutionPoint], stimulus: s.FailClaim) -> None:
    """Move a slot from Matched or Unclaimed to Owner because the claiming protocol failed."""
    fire_trigger(draft, find_slot(draft, stimulus.slot), "claim failed", "claim_failed")


def withdraw_claim(draft: Draft[ExecutionPoint], stimulus: s.WithdrawClaim) -> None:
    """Withdraw a pending preempting claim. A job that was retiring only because of this claim resumes at the next
    policy evaluation. A dynamic slot carved for the claim is destroyed."""
    job = stimulus.for_job
    if job and stimulus.slot not in draft.state.slots:
        return
    slot = find_slot(draft, stimulus.slot)
    queued_claim = slot.queued_claim
    if queued_claim is not None and (not job or (not queued_claim.holder and queued_claim.job == job)):
        draft.emit(ClaimWithdrawn(*draft.header("better_match_gone"), stimulus.slot, queued_claim.id))
        if slot.kind == "dynamic" and slot.claim is None:
            merge_slot(draft, slot)
