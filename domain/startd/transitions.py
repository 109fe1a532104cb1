"""Perform one transition of a slot, with the actions of ``state_machines.slot_actions``."""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import BackfillLeaving, ClaimEnded, ClaimFlagged, ClaimMade, ClaimWithdrawn, MatchVoided
from ..names import JobId
from ..ports.messages import OpenAccount
from ..state.records import Claim, Slot
from ..state.state import ExecutionPoint
from ..state_machines import claim_state, void_row
from ..state_machines.claim import ENDING_STATES, INITIAL_CLAIM_STATE
from ..state_machines.slot_actions import ENTRY_ACTIONS, EXIT_ACTIONS, REEVALUATES, BetterMatch
from ..state_machines.slot_actions import leave_preempting as leave
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING, KILLING, VACATING
from ..state_machines.slot_rules import EVICTED, Rule, applicable_rule
from ..state_machines.slot_triggers import backfill_destination
from . import backfill_client, job_signals, time_limits
from .dynamic_slots import merge_slot, slot_weight
from .slot_policy_evaluation import SlotPolicyEvaluation, policy_of, record_evidence


def take_transition(
    draft: Draft[ExecutionPoint], slot: Slot, row: str, cause: str, target: str | None = None, evidence: int = 0
) -> None:
    """Move the slot along a row of its table, and perform its exit and entry actions."""
    exit_action = EXIT_ACTIONS.get(slot.state_activity)
    if exit_action is not None:
        exit_action(_Actions(draft, slot), cause)
    draft.move_slot(slot, row, cause, target, evidence)
    _enter(draft, slot, cause)


def fire_trigger(
    draft: Draft[ExecutionPoint], slot: Slot, name: str, cause: str, target: str | None = None, evidence: int = 0
) -> bool:
    """Move the slot along the rows that a trigger fires in its state; return False if there are none.

    :param target: the target of the last row, if it depends on the slot's history
    """
    steps = draft.state.dialect.steps(name, slot.state_activity)
    redirected = _redirect_from_backfill(draft, slot, name, cause)
    for step in steps[:-1]:
        draft.move_slot(slot, step.row, cause, step.target)
    for step in steps[-1:]:
        take_transition(draft, slot, step.row, cause, target or step.target, evidence)
    return bool(steps) or redirected


def _enter(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    action = ENTRY_ACTIONS.get(slot.state_activity)
    if action is None or not action(_Actions(draft, slot), cause):
        reevaluate_slot(draft, slot)


def reevaluate_slot(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Evaluate the policy of a slot that has just become idle or started to retire."""
    if slot.activity in REEVALUATES and draft.state.slots.get(slot.name) is slot:
        apply_policy(draft, slot, entered=True)


def leave_preempting(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    """Move a slot out of Preempting after its job has ended."""
    leave(_Actions(draft, slot), cause)


# Backfill


def _redirect_from_backfill(draft: Draft[ExecutionPoint], slot: Slot, name: str, cause: str) -> bool:
    """Record the state that a slot will enter when its backfill client ends; return False if the trigger sets none."""
    if slot.state_activity not in (BACKFILL_BUSY, BACKFILL_KILLING):
        return False
    destination = backfill_destination(name, slot.state_activity, slot.destination)
    was_matched = slot.destination == "Matched"
    overtakes = draft.state.dialect.claim_overtakes_match_in_backfill
    if not destination or (destination == "Claimed" and was_matched and not overtakes):
        return False
    if destination == "Matched":
        draft.move_match(slot, "notify")
    elif destination == "Owner":
        withdraw_better_match(draft, slot, cause)
        if slot.name in draft.state.slot_matches and slot.kind != "partitionable":
            draft.move_match(slot, void_row(cause))
            record_voided_matches(draft, slot, cause)
    draft.emit(BackfillLeaving(*draft.header(cause), slot.name, destination))
    return True


def leave_backfill(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Move a slot out of Backfill to its destination; return False if the claim that waits for it must be made
    instead."""
    if slot.destination == "Claimed" and slot.queued_claim is not None:
        return False
    name = "client gone, matched" if slot.destination == "Matched" else "client gone"
    machine = draft.state.machines.get(slot.machine)
    client_runs = machine is not None and machine.backfill is not None
    return fire_trigger(draft, slot, name, "client_kept" if client_runs else "client_gone")


class _Actions:
    """The interface through which entry and exit actions change a slot in a draft (``SlotTransitions``)."""

    __slots__ = ("_draft", "_slot")

    def __init__(self, draft: Draft[ExecutionPoint], slot: Slot) -> None:
        self._draft, self._slot = draft, slot

    @property
    def policy(self) -> SlotPolicyEvaluation:
        return policy_of(self._draft, self._slot)

    @property
    def has_job(self) -> bool:
        return self._slot.activation is not None

    def record_evidence(self) -> int:
        return record_evidence(self._draft, self.policy)

    def transition(self, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
        take_transition(self._draft, self._slot, row, cause, target, evidence)

    def reacts_to(self, trigger_name: str) -> bool:
        return bool(self._draft.state.dialect.steps(trigger_name, self._slot.state_activity))

    def trigger(self, trigger_: str, cause: str, evidence: int = 0) -> None:
        fire_trigger(self._draft, self._slot, trigger_, cause, evidence=evidence)

    def end_claim(self, cause: str) -> None:
        end_claim(self._draft, self._slot, cause)

    def answer_better_match(self) -> BetterMatch:
        return _answer_better_match(self._draft, self._slot)

    def withdraw_better_match(self, cause: str) -> None:
        withdraw_better_match(self._draft, self._slot, cause)

    def void_match(self, cause: str) -> None:
        if self._slot.kind != "partitionable":  # else its matches belong to dynamic slots to be carved by claims
            record_voided_matches(self._draft, self._slot, cause)

    def suspend_job(self, cause: str) -> None:
        job_signals.suspend_job(self._draft, self._slot, cause)

    def resume_job(self, cause: str) -> None:
        job_signals.resume_job(self._draft, self._slot, cause)

    def hold_job(self, how: str) -> bool:
        return job_signals.hold_job(self._draft, self._slot, how)

    def signal_job(self, how: str, cause: str) -> None:
        job_signals.signal_job(self._draft, self._slot, how, cause)

    def start_client(self) -> None:
        backfill_client.start_client(self._draft, self._slot)

    def must_wait_for_client(self, cause: str) -> bool:
        machine = self._draft.state.machines.get(self._slot.machine)
        awaited = machine is not None and backfill_client.slot_awaits_client(self._draft.state, self._slot)
        if machine is not None and awaited and backfill_client.client_is_running(machine):
            backfill_client.end_client(self._draft, machine, cause)
        return awaited

    def leave_backfill(self) -> bool:
        return leave_backfill(self._draft, self._slot)


# The policy


def apply_policy(draft: Draft[ExecutionPoint], slot: Slot, *, entered: bool = False) -> bool:
    """Apply the first policy rule that holds for the slot; return False if none does.

    :param entered: whether the slot just entered its state/activity; otherwise this is a periodic evaluation
    """
    unused = slot.kind == "dynamic" and slot.name not in draft.state.slot_matches and slot.queued_claim is None
    if unused and slot.state_activity == "Unclaimed/Idle":
        merge_slot(draft, slot)  # a dynamic slot ends with its claim
        return True
    policy = policy_of(draft, slot)
    rule = applicable_rule(draft.state.dialect.rules, policy, entered=entered)
    if rule is None:
        if unused and slot.state_activity == "Owner/Idle":
            merge_slot(draft, slot)
            return True
        return False
    evidence = record_evidence(draft, policy)
    if rule.flags:
        flag_claim(draft, slot, *rule.flags, reason=_REASONS.get(rule.cause, ""))
    if rule.row:
        row, target, vacate_evidence = _row_and_target(draft, slot, rule)
        # For a killed job, the value of WANT_VACATE is more relevant than the rule's own evidence.
        recorded = vacate_evidence or evidence if target == KILLING else evidence or vacate_evidence
        take_transition(draft, slot, row, rule.cause, target, recorded)
    return True


_REASONS = {"preempt": "PREEMPT expression evaluated to True"}


def _row_and_target(draft: Draft[ExecutionPoint], slot: Slot, rule: Rule) -> tuple[str, str | None, int]:
    """Return the row and the target of a rule that holds, and the evidence of WANT_VACATE if that was evaluated."""
    if rule.cause == "retirement_over":
        _flag_cause_of_eviction(draft, slot)
    if rule.target != EVICTED:
        return rule.row, rule.target or None, 0
    target, evidence = _eviction(draft, slot)
    return (rule.killing if target == KILLING and rule.killing else rule.row), target, evidence


def _eviction(draft: Draft[ExecutionPoint], slot: Slot) -> tuple[str, int]:
    """Return the target of an eviction and its evidence: WANT_VACATE's value, if PREEMPT evicts a job."""
    policy = policy_of(draft, slot)
    if not policy.has_flag("preempted") or slot.activation is None:
        return VACATING, 0
    target = VACATING if policy.is_true("WANT_VACATE") else KILLING
    return target, record_evidence(draft, policy)


def _flag_cause_of_eviction(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Flag the claim of a job whose retirement is over with the cause: a true PREEMPT, or eviction by a drain."""
    policy = policy_of(draft, slot)
    flags = []
    if slot.claim is not None and slot.activation is not None:
        if not policy.has_flag("preempted") and policy.is_true("PREEMPT"):
            flags.append("preempted")
        if policy.machine_drains:
            flags.append("drained")
    if flags:
        flag_claim(draft, slot, *flags)


def flag_claim(draft: Draft[ExecutionPoint], slot: Slot, *flags: str, reason: str = "", code: int = 0) -> None:
    """Add flags to the slot's claim, if it has one (``events.CLAIM_FLAGS``)."""
    claim = slot.claim
    if claim is None:
        return
    new_flags = tuple(flag for flag in flags if flag not in claim.flags)
    if new_flags or (reason and reason != claim.reason):
        draft.emit(ClaimFlagged(*draft.header("evaluated"), slot.name, claim.id, new_flags, reason, code))


# Ending claims


def _answer_better_match(draft: Draft[ExecutionPoint], slot: Slot) -> BetterMatch:
    queued_claim = slot.queued_claim
    if queued_claim is None:
        return BetterMatch(taken=False, refused=False)
    refused, evidence = _start_refuses(draft, slot, queued_claim)
    draft.fire("claim", INITIAL_CLAIM_STATE, "refuse" if refused else "accept")
    if refused:
        return BetterMatch(taken=False, refused=True, evidence=evidence)
    draft.emit(claim_made_event(draft, slot, queued_claim, "better_match_taken"))
    return BetterMatch(taken=True, refused=False)


def claim_made_event(draft: Draft[ExecutionPoint], slot: Slot, claim: Claim, cause: str) -> ClaimMade:
    """Return the event that makes a claim with the terms of ``claim``."""
    factor = draft.send(OpenAccount(claim.submitter, claim.negotiator))
    return ClaimMade(
        *draft.header(cause), slot.name, claim.id, claim.submitter, slot_weight(slot), claim.rank, claim.holder,
        claim.job, claim.ad, claim.lease, factor, claim.limits, claim.negotiator,
    )  # fmt: skip


def _start_refuses(draft: Draft[ExecutionPoint], slot: Slot, queued_claim: Claim) -> tuple[bool, int]:
    """Return True if START is false for the waiting claim's job, with the evidence. START also counts as false while
    the machine drains without its own START."""
    ad = queued_claim.ad
    if not queued_claim.holder:
        ad = draft.state.job_ad(JobId.parse(queued_claim.job), ad).attributes()
    policy = policy_of(draft, slot).matched_with(ad)
    drain = time_limits.machine_drain(policy)
    if drain is not None and (drain.final or not drain.start):
        return True, 0
    return (True, record_evidence(draft, policy)) if policy.truth("Start") is False else (False, 0)


def end_claim(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    """End the slot's claim, if it has one. Kill the claim first, unless it is already being vacated or killed."""
    claim = slot.claim
    if claim is not None:
        state = claim_state(slot.state_activity, slot.activation is not None)
        if state not in ENDING_STATES:
            state = draft.fire("claim", state, "kill")
        draft.fire("claim", state, "end")
        usage = (draft.now - claim.since) * claim.weight
        draft.emit(ClaimEnded(*draft.header(cause), slot.name, claim.id, claim.submitter, usage, claim.negotiator))


def withdraw_better_match(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    if slot.queued_claim is not None:
        draft.emit(ClaimWithdrawn(*draft.header(cause), slot.name, slot.queued_claim.id))


def record_voided_matches(draft: Draft[ExecutionPoint], slot: Slot, cause: str, *jobs: str) -> None:
    """Void all of the slot's matches, or only those with the given jobs."""
    for job in jobs or list(draft.state.slot_matches.get(slot.name, ())):
        draft.emit(MatchVoided(*draft.header(cause), slot.name, job))
