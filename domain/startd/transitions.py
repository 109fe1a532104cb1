"""One transition of a slot with all that it entails.

Leaving and arriving have consequences: a job that was suspended goes on, a slot that arrives in Preempting tells its
job to end or, without one, gives the slot away at once, one that arrives in Owner asks whether anybody owns it. Having
arrived in Idle or Retiring, the slot asks its policy again at once, so that one cause may entail a chain of transitions
at one instant (Retiring, Preempting, Owner, Unclaimed).
"""

from __future__ import annotations

from collections.abc import Callable

from ..decision.draft import Draft, job_id
from ..events import Ad, ClaimEnded, ClaimMade, ClaimMarked, ClaimWithdrawn, MatchVoided
from ..state.state import Claim, Slot, State
from ..state_machines import claim_state
from ..state_machines.claim import ENDING, REQUESTED
from ..state_machines.slot_rules import EVICTED, KILLING, VACATING, Rule, applying
from ..state_machines.slot_triggers import told
from . import time_limits
from .dynamic_slots import merge, weight
from .job_signals import hold, resume, signal, suspend

RETIREMENT_OVER = "retirement_over"


def change(draft: Draft, slot: Slot, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
    """Take the slot through a row, and through all that follows from where it arrives."""
    if slot.pair == "Claimed/Suspended":
        resume(draft, slot, cause)
    draft.move(slot, row, cause, target, evidence)
    arrive(draft, slot, cause)


def tell(draft: Draft, slot: Slot, happening: str, cause: str) -> bool:
    """Let the slot do what its dialect says it does when told so; False if that is nothing."""
    steps = told(draft.state.dialect, happening, slot.pair)
    for step in steps[:-1]:
        draft.move(slot, step.row, cause, step.target)
    for step in steps[-1:]:
        change(draft, slot, step.row, cause, step.target)
    return bool(steps)


def arrive(draft: Draft, slot: Slot, cause: str) -> None:
    """What follows from where the slot has just arrived."""
    arrival = _ARRIVALS.get(slot.pair)
    if arrival is None or not arrival(draft, slot, cause):
        settle(draft, slot)


def settle(draft: Draft, slot: Slot) -> None:
    """Ask the policy at once of a slot that has just become idle, or begun to retire."""
    if slot.activity in ("Idle", "Retiring") and draft.state.slots.get(slot.name) is slot:
        follow_policy(draft, slot, arrived=True)


# The policy


def follow_policy(draft: Draft, slot: Slot, *, arrived: bool = False) -> bool:
    """Take the first rule of the policy that holds for the slot; False if none does."""
    unheld = slot.kind == "dynamic" and slot.name not in draft.state.matches
    if unheld and slot.pair == "Unclaimed/Idle":
        merge(draft, slot)  # what was carved for a claim ends with it
        return True
    look = draft.look(slot)
    rule = applying(draft.state.dialect, look, arrived=arrived)
    if rule is None:
        if unheld and slot.pair == "Owner/Idle":
            merge(draft, slot)
            return True
        return False
    evidence = draft.evidence(look)
    if rule.marks:
        mark(draft, slot, *rule.marks, reason=_REASONS.get(rule.cause, ""))
    if rule.row:
        row, target, asked = _destination(draft, slot, rule)
        # Why it is killed matters more than why now.
        change(draft, slot, row, rule.cause, target, asked or evidence if target == KILLING else evidence or asked)
    return True


_REASONS = {"preempt": "PREEMPT expression evaluated to True"}


def _destination(draft: Draft, slot: Slot, rule: Rule) -> tuple[str, str | None, int]:
    """The row and the target of a rule that holds, and the evidence of WANT_VACATE if that was asked."""
    if rule.cause == RETIREMENT_OVER:
        _charge(draft, slot)
    if rule.target != EVICTED:
        return rule.row, rule.target or None, 0
    target, evidence = _eviction(draft, slot)
    return (rule.killing if target == KILLING and rule.killing else rule.row), target, evidence


def _eviction(draft: Draft, slot: Slot) -> tuple[str, int]:
    """How a job is made to go, with the evidence: WANT_VACATE is asked if PREEMPT was true, and counts as true without
    a job."""
    look = draft.look(slot)
    preempted = slot.claim is not None and "preempted" in slot.claim.marks
    if not preempted or slot.activation is None:
        return VACATING, 0
    target = VACATING if look.true("WANT_VACATE") else KILLING
    return target, draft.evidence(look)


def _charge(draft: Draft, slot: Slot) -> None:
    """A job whose retirement is over: whether PREEMPT was true meanwhile, and whether a drain makes it go."""
    look = draft.look(slot)
    marks = []
    if slot.claim is not None and slot.activation is not None:
        if "preempted" not in slot.claim.marks and look.true("PREEMPT"):
            marks.append("preempted")
        if time_limits.draining(look):
            marks.append("drained")
    if marks:
        mark(draft, slot, *marks)


def mark(draft: Draft, slot: Slot, *marks: str, reason: str = "", code: int = 0) -> None:
    """Write down what holds for the slot's claim from now on, if that is news."""
    claim = slot.claim
    if claim is None:
        return
    new = tuple(one for one in marks if one not in claim.marks)
    if new or (reason and reason != claim.reason):
        draft.emit(ClaimMarked(*draft.why("evaluated"), slot.name, claim.id, new, reason, code))


# Arriving. Each returns whether the slot has gone on from there.


def _owner(draft: Draft, slot: Slot, cause: str) -> bool:
    """No claim or match outlives its arrival in Owner. The real startd asks IS_OWNER before anything else there."""
    if slot.claim is not None:
        end_claim(draft, slot, cause)
    if slot.waiting is not None:
        draft.emit(ClaimWithdrawn(*draft.why(cause), slot.name, slot.waiting.id))
    void_match(draft, slot, cause)
    look = draft.look(slot)
    for step in told(draft.state.dialect, "unowned", slot.pair):
        if not look.true("IS_OWNER"):
            change(draft, slot, step.row, "not_owner", step.target, draft.evidence(look))
            return True
    return False


def _busy(draft: Draft, slot: Slot, cause: str) -> bool:
    """A job that goes on, or begins, on a claim that is to end, retires; not one that was accepted during a drain."""
    late = slot.claim is not None and "late" in slot.claim.marks
    if late or not time_limits.in_retirement(draft.look(slot)):
        return False
    why = "draining" if time_limits.draining(draft.look(slot)) else "better_match" if slot.waiting else "retired_before"
    change(draft, slot, "13", why)
    return True


def _suspended(draft: Draft, slot: Slot, cause: str) -> bool:
    suspend(draft, slot, cause)
    return False


def _retiring(draft: Draft, slot: Slot, cause: str) -> bool:
    """Without a job there is nothing to wait for."""
    if slot.activation is not None:
        return False
    change(draft, slot, "18", cause, VACATING)
    return True


def _vacating(draft: Draft, slot: Slot, cause: str) -> bool:
    return _evict(draft, slot, cause, "soft")


def _killing(draft: Draft, slot: Slot, cause: str) -> bool:
    return _evict(draft, slot, cause, "hard")


def _evict(draft: Draft, slot: Slot, cause: str, how: str) -> bool:
    if slot.activation is None:
        leave_preempting(draft, slot, cause)
        return True
    if slot.claim is not None and "preempted" in slot.claim.marks:
        look = draft.look(slot)
        if look.true("WANT_HOLD"):
            draft.evidence(look)
            hold(draft, slot, look)
    signal(draft, slot, how, cause)
    return False


_ARRIVALS: dict[str, Callable[[Draft, Slot, str], bool]] = {
    "Owner/Idle": _owner,
    "Claimed/Busy": _busy,
    "Claimed/Suspended": _suspended,
    "Claimed/Retiring": _retiring,
    "Preempting/Vacating": _vacating,
    "Preempting/Killing": _killing,
}


# The end of claims


def leave_preempting(draft: Draft, slot: Slot, cause: str) -> None:
    """Nothing of the slot's job runs any more: the claim is over, and the better match that waits takes over if START
    does not refuse its job (22 to 25)."""
    end_claim(draft, slot, cause)
    killed = slot.pair == KILLING
    refused, evidence = (False, 0) if slot.waiting is None else _refused(draft, slot, slot.waiting)
    if slot.waiting is not None:
        draft.tables.claim.step(REQUESTED, "refuse" if refused else "accept")
    if slot.waiting is not None and not refused:
        waiting = slot.waiting
        draft.emit(
            ClaimMade(
                *draft.why("better_match_taken"), slot.name, waiting.id, waiting.submitter, weight(slot), waiting.rank,
                waiting.holder, waiting.job, waiting.ad, waiting.lease,
            )
        )  # fmt: skip
        change(draft, slot, "24" if killed else "23", "better_match_taken")
        return
    why = "better_match_refused" if refused else "claim_over"
    change(draft, slot, "25" if killed else "22", why, evidence=evidence)


def _refused(draft: Draft, slot: Slot, waiting: Claim) -> tuple[bool, int]:
    """Whether START is false for the job of the match that waits, with the evidence. While the machine drains it is,
    unless the drain has one of its own."""
    look = draft.look(slot).matched(_asking(draft.state, waiting))
    drain = time_limits.drain_of(look)
    if drain is not None and (drain.final or not drain.start):
        return True, 0
    return (True, draft.evidence(look)) if look.truth("Start") is False else (False, 0)


def _asking(state: State, waiting: Claim) -> Ad:
    """The ad of the job that a claim waits for: of this pool's own queue, or as its holder told it."""
    if waiting.holder:
        return waiting.ad
    number, _, proc = waiting.job.partition(".")
    return state.clusters[int(number)].attributes(int(proc))


def end_claim(draft: Draft, slot: Slot, cause: str) -> None:
    """The slot's claim is over. One that is neither vacated nor killed is taken back at once."""
    claim = slot.claim
    if claim is not None:
        where = claim_state(slot.pair, slot.activation is not None)
        if where not in ENDING:
            where = draft.tables.claim.step(where, "kill")
        draft.tables.claim.step(where, "end")
        usage = (draft.now - claim.since) * claim.weight
        draft.emit(ClaimEnded(*draft.why(cause), slot.name, claim.id, claim.submitter, usage))


def void_match(draft: Draft, slot: Slot, cause: str) -> None:
    """The match that the slot has, if it has one, will not be claimed."""
    job = draft.state.matches.get(slot.name)
    if job is not None:
        draft.emit(MatchVoided(*draft.why(cause), slot.name, job_id(*job)))
