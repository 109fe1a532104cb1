"""Take a slot through one transition with the actions of ``state_machines.slot_actions``."""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import Ad, BackfillLeaving, ClaimEnded, ClaimFlagged, ClaimMade, ClaimWithdrawn, MatchVoided
from ..names import JobId
from ..ports.messages import OpenAccount
from ..state.records import Claim, Slot
from ..state.state import ExecutionPoint
from ..state_machines import claim_state, void_row
from ..state_machines.claim import ENDING, REQUESTED
from ..state_machines.slot_actions import ENTRY_ACTIONS, EXIT_ACTIONS, REEVALUATES, BetterMatch
from ..state_machines.slot_actions import leave_preempting as leave
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_KILLING, KILLING, VACATING
from ..state_machines.slot_rules import EVICTED, Rule, applying
from ..state_machines.slot_triggers import backfill_destination
from . import backfill_client, job_signals, time_limits
from .dynamic_slots import merge, weight_of
from .slot_policy_evaluation import SlotPolicyEvaluation, note_evidence, policy_of

RETIREMENT_OVER = "retirement_over"


def transition(
    draft: Draft[ExecutionPoint], slot: Slot, row: str, cause: str, target: str | None = None, evidence: int = 0
) -> None:
    """Take the slot through a row, and through all that follows on arrival."""
    leaving = EXIT_ACTIONS.get(slot.state_activity)
    if leaving is not None:
        leaving(_Actions(draft, slot), cause)
    draft.move_slot(slot, row, cause, target, evidence)
    enter(draft, slot, cause)


def trigger(
    draft: Draft[ExecutionPoint], slot: Slot, name: str, cause: str, target: str | None = None, evidence: int = 0
) -> bool:
    """Take the slot through the rows that the trigger fires where it is; return False if there are none.

    :param target: where the last row leads, if the slot's past decides that
    """
    steps = draft.state.dialect.steps(name, slot.state_activity)
    turned = _head(draft, slot, name, cause)
    for step in steps[:-1]:
        draft.move_slot(slot, step.row, cause, step.target)
    for step in steps[-1:]:
        transition(draft, slot, step.row, cause, target or step.target, evidence)
    return bool(steps) or turned


def enter(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    """Do the entry action of the slot's new pair, or else ask its policy."""
    action = ENTRY_ACTIONS.get(slot.state_activity)
    if action is None or not action(_Actions(draft, slot), cause):
        reevaluate(draft, slot)


def reevaluate(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Ask the policy of a slot that has just become idle, or begun to retire."""
    if slot.activity in REEVALUATES and draft.state.slots.get(slot.name) is slot:
        apply_policy(draft, slot, entered=True)


def leave_preempting(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    """Let a slot in Preempting go on, since its job is gone."""
    leave(_Actions(draft, slot), cause)


# Backfill


def _head(draft: Draft[ExecutionPoint], slot: Slot, name: str, cause: str) -> bool:
    """Note where a trigger sends a slot whose backfill client is still to go; return False if that changes nothing."""
    if slot.state_activity not in (BACKFILL_BUSY, BACKFILL_KILLING):
        return False
    to = backfill_destination(name, slot.state_activity, slot.destination)
    told = slot.destination == "Matched"
    if not to or (to == "Claimed" and told and not draft.state.dialect.claim_overtakes_match_in_backfill):
        return False
    if to == "Matched":
        draft.move_match(slot, "notify")
    elif to == "Owner":
        withdraw_better_match(draft, slot, cause)
        if slot.name in draft.state.slot_matches and slot.kind != "partitionable":
            draft.move_match(slot, void_row(cause))
            void_match(draft, slot, cause)
    draft.emit(BackfillLeaving(*draft.why(cause), slot.name, to))
    return True


def client_gone(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Let a slot that need not wait for its client go where it is headed; False if a claim is to take it."""
    if slot.destination == "Claimed" and slot.waiting is not None:
        return False
    name = "client gone, matched" if slot.destination == "Matched" else "client gone"
    machine = draft.state.machines.get(slot.machine)
    kept = machine is not None and machine.backfill is not None
    return trigger(draft, slot, name, "client_kept" if kept else "client_gone")


class _Actions:
    """A slot in a decision, as its entry and exit actions act on it (``SlotTransitions``)."""

    __slots__ = ("_draft", "_slot")

    def __init__(self, draft: Draft[ExecutionPoint], slot: Slot) -> None:
        self._draft, self._slot = draft, slot

    @property
    def policy(self) -> SlotPolicyEvaluation:
        return policy_of(self._draft, self._slot)

    @property
    def has_job(self) -> bool:
        return self._slot.activation is not None

    def evidence(self) -> int:
        return note_evidence(self._draft, self.policy)

    def transition(self, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
        transition(self._draft, self._slot, row, cause, target, evidence)

    def reacts_to(self, trigger: str) -> bool:
        return bool(self._draft.state.dialect.steps(trigger, self._slot.state_activity))

    def trigger(self, trigger_: str, cause: str, evidence: int = 0) -> None:
        trigger(self._draft, self._slot, trigger_, cause, evidence=evidence)

    def end_claim(self, cause: str) -> None:
        end_claim(self._draft, self._slot, cause)

    def answer_better_match(self) -> BetterMatch:
        return _answer_better_match(self._draft, self._slot)

    def withdraw_better_match(self, cause: str) -> None:
        withdraw_better_match(self._draft, self._slot, cause)

    def void_match(self, cause: str) -> None:
        if self._slot.kind != "partitionable":  # its matches are of dynamic slots that are carved on the claims
            void_match(self._draft, self._slot, cause)

    def suspend_job(self, cause: str) -> None:
        job_signals.suspend(self._draft, self._slot, cause)

    def resume_job(self, cause: str) -> None:
        job_signals.resume(self._draft, self._slot, cause)

    def hold_job(self, how: str) -> bool:
        return job_signals.hold(self._draft, self._slot, how)

    def signal_job(self, how: str, cause: str) -> None:
        job_signals.signal(self._draft, self._slot, how, cause)

    def start_client(self) -> None:
        backfill_client.start(self._draft, self._slot)

    def awaits_client(self, cause: str) -> bool:
        machine = self._draft.state.machines.get(self._slot.machine)
        awaited = machine is not None and backfill_client.is_awaited(self._draft.state, self._slot)
        if machine is not None and awaited and backfill_client.runs(machine):
            backfill_client.end(self._draft, machine, cause)
        return awaited

    def client_gone(self) -> bool:
        return client_gone(self._draft, self._slot)


# The policy


def apply_policy(draft: Draft[ExecutionPoint], slot: Slot, *, entered: bool = False) -> bool:
    """Take the first rule of the policy that holds for the slot; return False if none does.

    :param entered: the slot has just arrived where it is; else it is asked in a round
    """
    unheld = slot.kind == "dynamic" and slot.name not in draft.state.slot_matches and slot.waiting is None
    if unheld and slot.state_activity == "Unclaimed/Idle":
        merge(draft, slot)  # a dynamic slot ends with its claim
        return True
    policy = policy_of(draft, slot)
    rule = applying(draft.state.dialect.rules, policy, entered=entered)
    if rule is None:
        if unheld and slot.state_activity == "Owner/Idle":
            merge(draft, slot)
            return True
        return False
    evidence = note_evidence(draft, policy)
    if rule.marks:
        mark(draft, slot, *rule.marks, reason=_REASONS.get(rule.cause, ""))
    if rule.row:
        row, target, asked = _destination(draft, slot, rule)
        # Why it is killed matters more than why now.
        why = asked or evidence if target == KILLING else evidence or asked
        transition(draft, slot, row, rule.cause, target, why)
    return True


_REASONS = {"preempt": "PREEMPT expression evaluated to True"}


def _destination(draft: Draft[ExecutionPoint], slot: Slot, rule: Rule) -> tuple[str, str | None, int]:
    """Return the row and the target of a rule that holds, and the evidence of WANT_VACATE if it was asked."""
    if rule.cause == RETIREMENT_OVER:
        _charge(draft, slot)
    if rule.target != EVICTED:
        return rule.row, rule.target or None, 0
    target, evidence = _eviction(draft, slot)
    return (rule.killing if target == KILLING and rule.killing else rule.row), target, evidence


def _eviction(draft: Draft[ExecutionPoint], slot: Slot) -> tuple[str, int]:
    """Return how a job is evicted, with the evidence: WANT_VACATE if PREEMPT was true; true without a job."""
    policy = policy_of(draft, slot)
    if not policy.has_flag("preempted") or slot.activation is None:
        return VACATING, 0
    target = VACATING if policy.true("WANT_VACATE") else KILLING
    return target, note_evidence(draft, policy)


def _charge(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Mark the claim of a job whose retirement is over: PREEMPT was true meanwhile, or a drain evicts it."""
    policy = policy_of(draft, slot)
    marks = []
    if slot.claim is not None and slot.activation is not None:
        if not policy.has_flag("preempted") and policy.true("PREEMPT"):
            marks.append("preempted")
        if policy.machine_drains:
            marks.append("drained")
    if marks:
        mark(draft, slot, *marks)


def mark(draft: Draft[ExecutionPoint], slot: Slot, *marks: str, reason: str = "", code: int = 0) -> None:
    claim = slot.claim
    if claim is None:
        return
    new = tuple(one for one in marks if one not in claim.marks)
    if new or (reason and reason != claim.reason):
        draft.emit(ClaimFlagged(*draft.why("evaluated"), slot.name, claim.id, new, reason, code))


# The end of claims


def _answer_better_match(draft: Draft[ExecutionPoint], slot: Slot) -> BetterMatch:
    waiting = slot.waiting
    if waiting is None:
        return BetterMatch(taken=False, refused=False)
    refused, evidence = _refused(draft, slot, waiting)
    draft.fire("claim", REQUESTED, "refuse" if refused else "accept")
    if refused:
        return BetterMatch(taken=False, refused=True, evidence=evidence)
    draft.emit(claim_made(draft, slot, waiting, "better_match_taken"))
    return BetterMatch(taken=True, refused=False)


def claim_made(draft: Draft[ExecutionPoint], slot: Slot, claim: Claim, cause: str) -> ClaimMade:
    """Return the event by which a claim on these terms is made."""
    factor = draft.send(OpenAccount(claim.submitter, claim.negotiator))
    return ClaimMade(
        *draft.why(cause), slot.name, claim.id, claim.submitter, weight_of(slot), claim.rank, claim.holder, claim.job,
        claim.ad, claim.lease, factor, claim.limits, claim.negotiator,
    )  # fmt: skip


def _refused(draft: Draft[ExecutionPoint], slot: Slot, waiting: Claim) -> tuple[bool, int]:
    """Tell whether START is false for the job of the waiting match, with the evidence. While the machine drains it is,
    unless the drain has one of its own."""
    policy = policy_of(draft, slot).matched_with(_asking(draft.state, waiting))
    drain = time_limits.drain_of(policy)
    if drain is not None and (drain.final or not drain.start):
        return True, 0
    return (True, note_evidence(draft, policy)) if policy.truth("Start") is False else (False, 0)


def _asking(state: ExecutionPoint, waiting: Claim) -> Ad:
    """Return the ad of the job for which a claim waits: of this pool's own queue, or as its holder gave it."""
    if waiting.holder:
        return waiting.ad
    return state.job_ad(JobId.parse(waiting.job), waiting.ad).attributes()


def end_claim(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    """End the slot's claim, if any. One that is neither vacated nor killed is taken back at once."""
    claim = slot.claim
    if claim is not None:
        where = claim_state(slot.state_activity, slot.activation is not None)
        if where not in ENDING:
            where = draft.fire("claim", where, "kill")
        draft.fire("claim", where, "end")
        usage = (draft.now - claim.since) * claim.weight
        draft.emit(ClaimEnded(*draft.why(cause), slot.name, claim.id, claim.submitter, usage, claim.negotiator))


def withdraw_better_match(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> None:
    if slot.waiting is not None:
        draft.emit(ClaimWithdrawn(*draft.why(cause), slot.name, slot.waiting.id))


def void_match(draft: Draft[ExecutionPoint], slot: Slot, cause: str, *jobs: str) -> None:
    """Void the slot's matches, or those with these jobs: they will not be claimed."""
    for job in jobs or list(draft.state.slot_matches.get(slot.name, ())):
        draft.emit(MatchVoided(*draft.why(cause), slot.name, job))
