"""The time limits of a job: its retirement time and its time to vacate.

Sources: the manual ("Claimed State", "State/Activity Transition Expression Summary"), and HTCondor's behaviour where
the manual is not precise:

* A job that is being preempted may continue until it has run for MaxJobRetirementTime, not counting suspended time. The
  job's own MaxJobRetirementTime (0 for nice_user jobs) can reduce this limit, but not raise it.
* It is signalled early enough that its time to vacate also falls within its retirement.
* Its time to vacate is the value that MachineMaxVacateTime had when the job started, or its own JobMaxVacateTime if
  that is less. A larger JobMaxVacateTime may use the remainder of the job's retirement.
* A peaceful shutdown sets no limit, unless MaxJobRetirementTime is -1.
* While a machine drains gracefully, all its jobs retire until the longest retirement is over; HTCondor evicts a job
  earlier, when its own retirement is over.
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
"""The number of seconds that represents no limit."""


class LimitPolicy(Protocol):
    """The part of a slot's policy that the limits depend on, at a given time (``evaluation.PolicyEvaluation``)."""

    state: ExecutionPoint
    slot: Slot
    now: int

    def number(self, name: str) -> int | None: ...
    def job_has(self, name: str) -> bool: ...
    def job_number(self, name: str) -> int | None: ...
    def start_accepts_job(self) -> bool: ...
    def for_slot(self, slot: Slot) -> LimitPolicy: ...


def granted_retirement(policy: LimitPolicy) -> int:
    """Return the slot's MaxJobRetirementTime, or its job's if that is less, in seconds."""
    limit, claim = policy.number("MaxJobRetirementTime") or 0, policy.slot.claim
    if claim is not None and "peaceful" in claim.flags and limit != -1:
        limit = FOREVER
    requested = policy.job_number("MaxJobRetirementTime")
    return limit if requested is None else min(requested, limit)


def retirement_left(policy: LimitPolicy) -> int:
    """Return the microseconds left of the retirement time of the slot's job, or 0 without a job."""
    activation, drain = policy.slot.activation, machine_drain(policy)
    if activation is None:
        return 0
    limit = granted_retirement(policy)
    if drain is not None and drain.final:
        limit = 0
    return max(0, limit * SECOND - activation.run_time(policy.now))


def machine_vacate_time(policy: LimitPolicy) -> int:
    """Return the current MachineMaxVacateTime in microseconds, which applies to a job that starts now."""
    seconds = policy.number("MachineMaxVacateTime")
    if seconds is not None:
        return max(0, seconds) * SECOND
    return round(float(policy.state.settings.get("MachineMaxVacateTime", "600")) * SECOND)


def vacate_time(policy: LimitPolicy) -> int:
    """Return how long the slot's job may take to exit after a soft signal, in microseconds, or 0 without a job."""
    return vacate_time_within(policy, lambda: retirement_left(policy))


def vacate_time_within(policy: LimitPolicy, retirement: Callable[[], int]) -> int:
    """Return ``vacate_time`` for a given remainder of the job's retirement time (microseconds)."""
    activation = policy.slot.activation
    if activation is None:
        return 0
    machine_limit = activation.max_vacate_time
    attribute = next((name for name in ("JobMaxVacateTime", "KillSigTimeout") if policy.job_has(name)), "")
    if not attribute:
        return machine_limit
    job_limit = max(0, policy.job_number(attribute) or 0) * SECOND
    if job_limit <= machine_limit:
        return job_limit
    return min(job_limit, max(machine_limit, retirement()))


def machine_drain(policy: LimitPolicy) -> MachineDrain | None:
    machine = policy.state.machines.get(policy.slot.machine)
    return None if machine is None else machine.drain


def machine_is_draining(policy: LimitPolicy) -> bool:
    return machine_drain(policy) is not None


def in_retirement(policy: LimitPolicy) -> bool:
    """Return True if the slot's claim must end, because a preempting claim waits, the machine drains, or the claim
    retires irrevocably. Also return True for a slot without a claim."""
    claim = policy.slot.claim
    is_irrevocable = claim is None or "irrevocable" in claim.flags
    return is_irrevocable or policy.slot.queued_claim is not None or machine_is_draining(policy)


def drain_left(policy: LimitPolicy) -> int:
    """Return the longest retirement time left of the jobs from before a graceful drain, in microseconds; 0 if none."""
    drain = machine_drain(policy)
    if drain is None or not (drain.schedule in SCHEDULES and SCHEDULES[drain.schedule].retires):
        return 0
    slots = [
        slot for slot in policy.state.machine_slots(policy.slot) if not (slot.claim and "late" in slot.claim.flags)
    ]
    return max((retirement_left(policy.for_slot(slot)) for slot in slots), default=0)


def retirement_over(policy: LimitPolicy) -> bool:
    """Return True if the slot's job must be signalled now in order to end within its retirement time."""
    remaining = retirement_remaining(policy)
    return remaining <= 0 or vacate_time(policy) >= remaining


def retirement_remaining(policy: LimitPolicy) -> int:
    """Return the microseconds left of the slot's retirement; during a drain, of the longest one on its machine."""
    own_retirement, drain = retirement_left(policy), machine_drain(policy)
    if drain is None:
        return own_retirement
    if policy.state.dialect.drain_waits_for_longest_retirement:
        return drain_left(policy)
    if policy.slot.state_activity == "Claimed/Idle":
        return drain_left(policy)
    claimed_in_drain = policy.slot.claim is not None and "late" in policy.slot.claim.flags
    if own_retirement > 0 and (claimed_in_drain or policy.start_accepts_job()):
        return drain_left(policy)
    return own_retirement


def waits_for_activation(policy: LimitPolicy) -> bool:
    """Return True if the claim is so new that its job may not have arrived yet (MAX_DRAINING_ACTIVATION_DELAY)."""
    claim = policy.slot.claim
    machine = policy.state.machines.get(policy.slot.machine)
    delay = float(setting(policy.state, machine, "MAX_DRAINING_ACTIVATION_DELAY"))
    return claim is not None and policy.now - claim.since < delay * SECOND


def worklife_over(policy: LimitPolicy) -> bool:
    """Return True if the claim is older than CLAIM_WORKLIFE and has run a job."""
    claim = policy.slot.claim
    if claim is None or not claim.activations:
        return False
    limit = worklife(policy) * SECOND
    return 0 <= limit < policy.now - claim.since


def worklife(policy: LimitPolicy) -> int:
    """Return CLAIM_WORKLIFE in seconds; a negative value means no limit."""
    seconds = policy.number("CLAIM_WORKLIFE")
    return int(float(policy.state.settings.get("CLAIM_WORKLIFE", "1200"))) if seconds is None else seconds
