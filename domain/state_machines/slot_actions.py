"""A slot's actions when it enters or leaves a state/activity. ``startd/transitions.py`` performs them.

An entry action returns True if it moved the slot to another state/activity. If a slot enters Idle or Retiring and
remains there, its policy is evaluated again immediately, so one cause may start a chain of transitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from .slot_rows import BACKFILL_BUSY, BACKFILL_KILLING, KILLING, VACATING, SlotRow
from .slot_rules import SlotPolicy


class BetterMatch(NamedTuple):
    """The result of trying to give the slot to its pending preempting claim."""

    taken: bool
    refused: bool  #: if both are False, no preempting claim was waiting
    evidence: int = 0  #: the log position of the evidence; 0: none is needed


class SlotTransitions(Protocol):
    """The operations on a slot that are available to actions."""

    @property
    def policy(self) -> SlotPolicy: ...

    @property
    def has_job(self) -> bool: ...

    def record_evidence(self) -> int:
        """Record the last expression that the policy evaluated, and return its log position."""

    def transition(self, row: str, cause: str, target: str | None = None, evidence: int = 0) -> None:
        """Move the slot along a row, and perform its actions."""

    def reacts_to(self, trigger: str) -> bool:
        """Return True if the trigger fires a row in the slot's state/activity."""

    def trigger(self, trigger: str, cause: str, evidence: int = 0) -> None: ...

    def end_claim(self, cause: str) -> None:
        """End the slot's claim, if it has one."""

    def answer_better_match(self) -> BetterMatch:
        """Give the slot to the pending preempting claim, unless START refuses that claim's job."""

    def withdraw_better_match(self, cause: str) -> None: ...

    def void_match(self, cause: str) -> None: ...

    def suspend_job(self, cause: str) -> None: ...

    def resume_job(self, cause: str) -> None: ...

    def hold_job(self, how: str) -> bool:
        """Hold the slot's job because of WANT_HOLD. Return True if it was signalled and is held only when it ends."""

    def signal_job(self, how: str, cause: str) -> None:
        """Signal the slot's job to exit, softly or hard."""

    def start_client(self) -> None:
        """Start the machine's backfill client, unless it is already running."""

    def must_wait_for_client(self, cause: str) -> bool:
        """Return True if the slot must wait for its machine's client to end; the client is then signalled first."""

    def leave_backfill(self) -> bool:
        """Move the slot out of Backfill to its destination; return False if a waiting claim must be made instead."""


def end_claim_and_match(slot: SlotTransitions, cause: str) -> bool:
    """End the claim and the match. HTCondor's startd evaluates IS_OWNER before anything else in Owner."""
    slot.end_claim(cause)
    slot.withdraw_better_match(cause)
    slot.void_match(cause)
    if not slot.reacts_to("unowned") or slot.policy.is_true("IS_OWNER"):
        return False
    slot.trigger("unowned", "not_owner", slot.record_evidence())
    return True


def retire_ending_claim(slot: SlotTransitions, cause: str) -> bool:
    """Retire the job if its claim is about to end, unless the claim was accepted during a drain."""
    policy = slot.policy
    if policy.has_flag("late") or not policy.in_retirement:
        return False
    reason = "draining" if policy.machine_drains else "better_match" if policy.better_match_waits else "retired_before"
    slot.transition(SlotRow.RETIRE, reason)
    return True


def suspend_job(slot: SlotTransitions, cause: str) -> bool:
    """Stop the job's processes."""
    slot.suspend_job(cause)
    return False


def resume_job(slot: SlotTransitions, cause: str) -> None:
    """Continue the job's processes."""
    slot.resume_job(cause)


def vacate_without_job(slot: SlotTransitions, cause: str) -> bool:
    """Leave Retiring immediately if there is no job to wait for."""
    if slot.has_job:
        return False
    slot.transition(SlotRow.VACATE, cause, VACATING)
    return True


def evict_softly(slot: SlotTransitions, cause: str) -> bool:
    """Send the job its kill signal; without a job, end the claim."""
    return _evict(slot, cause, "soft")


def evict_hard(slot: SlotTransitions, cause: str) -> bool:
    """Kill the job; without a job, end the claim."""
    return _evict(slot, cause, "hard")


def _evict(slot: SlotTransitions, cause: str, how: str) -> bool:
    if not slot.has_job:
        leave_preempting(slot, cause)
        return True
    if slot.policy.has_flag("preempted") and slot.policy.is_true("WANT_HOLD"):
        slot.record_evidence()
        if slot.hold_job(how):
            return False
    slot.signal_job(how, cause)
    return False


def start_client(slot: SlotTransitions, cause: str) -> bool:
    """Start the machine's backfill client, unless it is already running."""
    slot.start_client()
    return False


def end_client(slot: SlotTransitions, cause: str) -> bool:
    """End the client if this is the last slot that uses it; any other slot leaves immediately."""
    return not slot.must_wait_for_client(cause) and slot.leave_backfill()


def leave_preempting(slot: SlotTransitions, cause: str) -> None:
    """End the claim, whose job has ended, and let the pending preempting claim take over."""
    slot.end_claim(cause)
    killed = slot.policy.state_activity == KILLING
    better = slot.answer_better_match()
    if better.taken:
        row = SlotRow.KILLED_FOR_BETTER_MATCH if killed else SlotRow.VACATED_FOR_BETTER_MATCH
        slot.transition(row, "better_match_taken")
        return
    reason = "better_match_refused" if better.refused else "claim_over"
    slot.transition(SlotRow.KILLED if killed else SlotRow.VACATED, reason, evidence=better.evidence)


ENTRY_ACTIONS: Final[Mapping[str, Callable[[SlotTransitions, str], bool]]] = {
    "Owner/Idle": end_claim_and_match,
    "Claimed/Busy": retire_ending_claim,
    "Claimed/Suspended": suspend_job,
    "Claimed/Retiring": vacate_without_job,
    "Preempting/Vacating": evict_softly,
    "Preempting/Killing": evict_hard,
    BACKFILL_BUSY: start_client,
    BACKFILL_KILLING: end_client,
}

EXIT_ACTIONS: Final[Mapping[str, Callable[[SlotTransitions, str], None]]] = {"Claimed/Suspended": resume_job}

REEVALUATES: Final = ("Idle", "Retiring")
"""The activities that are followed immediately by a policy evaluation when a slot enters them."""
