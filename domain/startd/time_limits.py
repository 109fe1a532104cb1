"""The time limits of a job: its retirement, and its time to vacate.

From the manual ("Claimed State", "State/Activity Transition Expression Summary") and, where it is open, the reference's
behaviour:

* A job that must go may run until it has run for MaxJobRetirementTime, suspended time not counted. The job may ask for
  less (MaxJobRetirementTime in its own ad; 0 for nice_user jobs), never for more.
* It is told to end so early that its time to vacate, too, is within its retirement.
* Its time to vacate is MachineMaxVacateTime of when the job began, or its own JobMaxVacateTime if that is less; if that
  is more, the rest of its retirement serves.
* A peaceful shutdown sets no limit, except where MaxJobRetirementTime is -1.
* While a machine drains gracefully, all its jobs retire until the last of them must go; the real startd evicts a job
  earlier if its own retirement is over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..state.records import MachineDrain, Slot
from ..state.state import ExecutionPoint
from ..state_machines.drain import SCHEDULES
from ..units import SECOND
from .startd_settings import setting

FOREVER = 2**31 - 1
"""Seconds that stand for no limit."""


class SlotTerms(Protocol):
    """A slot at an instant, whose policy answers what the limits depend on (``evaluation.PolicyEvaluation``)."""

    state: ExecutionPoint
    slot: Slot
    now: int

    def number(self, name: str) -> int | None: ...
    def job_has(self, name: str) -> bool: ...
    def job_number(self, name: str) -> int | None: ...
    def start_accepts_job(self) -> bool: ...
    def beside(self, slot: Slot) -> SlotTerms: ...


def granted_retirement(policy: SlotTerms) -> int:
    """Return the seconds for which the slot's job may run before it has to go, by the slot's and its own word."""
    granted, claim = policy.number("MaxJobRetirementTime") or 0, policy.slot.claim
    if claim is not None and "peaceful" in claim.marks and granted != -1:
        granted = FOREVER
    wish = policy.job_number("MaxJobRetirementTime")
    return granted if wish is None else min(wish, granted)


def retirement_left(policy: SlotTerms) -> int:
    """Return the microseconds that are left of the retirement time of the slot's job; 0 without a job."""
    activation, drain = policy.slot.activation, drain_of(policy)
    if activation is None:
        return 0
    granted = granted_retirement(policy)
    if drain is not None and drain.final:
        granted = 0
    return max(0, granted * SECOND - activation.ran(policy.now))


def machine_vacate_time(policy: SlotTerms) -> int:
    """Return MachineMaxVacateTime now, in microseconds: the promise to a job that begins."""
    found = policy.number("MachineMaxVacateTime")
    if found is not None:
        return max(0, found) * SECOND
    return round(float(policy.state.settings.get("MachineMaxVacateTime", "600")) * SECOND)


def vacate_time(policy: SlotTerms) -> int:
    """Return the microseconds that the slot's job has to end when it is told to; 0 without a job."""
    return vacate_time_within(policy, lambda: retirement_left(policy))


def vacate_time_within(policy: SlotTerms, left: Callable[[], int]) -> int:
    """Return the same, if so much is left of its retirement time (microseconds)."""
    activation = policy.slot.activation
    if activation is None:
        return 0
    machine = activation.vacate
    said = next((name for name in ("JobMaxVacateTime", "KillSigTimeout") if policy.job_has(name)), "")
    if not said:
        return machine
    own = max(0, policy.job_number(said) or 0) * SECOND  # no number counts as 0
    if own <= machine:
        return own
    return min(own, max(machine, left()))


def drain_of(policy: SlotTerms) -> MachineDrain | None:
    machine = policy.state.machines.get(policy.slot.machine)
    return None if machine is None else machine.drain


def draining(policy: SlotTerms) -> bool:
    return drain_of(policy) is not None


def may_unretire(policy: SlotTerms) -> bool:
    """Tell whether a retiring claim may go on: nothing irrevocable made it retire, and the reason is gone."""
    claim = policy.slot.claim
    return (
        not draining(policy) and claim is not None and "irrevocable" not in claim.marks and policy.slot.waiting is None
    )


def in_retirement(policy: SlotTerms) -> bool:
    """Tell whether the claim is to end: a better match waits, the machine drains, or something irrevocable happened."""
    return not may_unretire(policy)


def drain_left(policy: SlotTerms) -> int:
    """Return the microseconds until the last of the jobs that a graceful drain found must go; 0 in other drains."""
    drain = drain_of(policy)
    if drain is None or not (drain.schedule in SCHEDULES and SCHEDULES[drain.schedule].retires):
        return 0
    return max((retirement_left(policy.beside(slot)) for slot in _old(policy)), default=0)


def _old(policy: SlotTerms) -> list[Slot]:
    """Return the slots of the machine whose claims are older than its drain."""
    return [slot for slot in policy.state.machine_slots(policy.slot) if not (slot.claim and "late" in slot.claim.marks)]


def retirement_over(policy: SlotTerms) -> bool:
    """Tell whether the slot's job must be told to end now, so that it ends within its retirement."""
    remains = retirement_remaining(policy)
    return remains <= 0 or vacate_time(policy) >= remains


def retirement_remaining(policy: SlotTerms) -> int:
    """Return the microseconds left of the slot's retirement; in a drain, of all the machine's jobs."""
    mine, drain = retirement_left(policy), drain_of(policy)
    if drain is None:
        return mine
    if policy.state.dialect.drain_waits_for_longest_retirement:
        return drain_left(policy)
    if policy.slot.state_activity == "Claimed/Idle":
        return drain_left(policy)
    late = policy.slot.claim is not None and "late" in policy.slot.claim.marks
    if mine > 0 and (late or policy.start_accepts_job()):
        return drain_left(policy)
    return mine


def waits_for_activation(policy: SlotTerms) -> bool:
    """Tell whether an idle claim is so young that its job may be on its way (MAX_DRAINING_ACTIVATION_DELAY)."""
    claim = policy.slot.claim
    machine = policy.state.machines.get(policy.slot.machine)
    delay = float(setting(policy.state, machine, "MAX_DRAINING_ACTIVATION_DELAY"))
    return claim is not None and policy.now - claim.since < delay * SECOND


def worklife_over(policy: SlotTerms) -> bool:
    """Tell whether the claim is older than CLAIM_WORKLIFE, and has had a job."""
    claim = policy.slot.claim
    if claim is None or not claim.activations:
        return False
    life = worklife(policy) * SECOND
    return 0 <= life < policy.now - claim.since


def worklife(policy: SlotTerms) -> int:
    """Return CLAIM_WORKLIFE in seconds; negative: claims do not age."""
    life = policy.number("CLAIM_WORKLIFE")
    return int(float(policy.state.settings.get("CLAIM_WORKLIFE", "1200"))) if life is None else life
