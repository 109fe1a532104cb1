"""Find the first instant at which a rule of a slot's policy may hold, if nothing happens but time passing.

While a machine's sensors say the same and nobody sends its slots anything, their rules depend on the time alone, if at
all. So virtual time can jump to ``next_policy_change``, and skip the rounds in between, which would change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..classad.next_change import POLL, next_change
from ..classad.time_functions import Moving
from ..names import SlotName
from ..ports.slot_ads import EXPECTED
from ..state_machines.slot_rules import CONDITIONS, applying
from ..units import SECOND
from . import time_limits, updates
from .evaluation import PolicyEvaluation
from .moment_attributes import (
    SlotSnapshot,
    asks_busy,
    moving_attributes,
)
from .slot_ad import compiled_ad
from .slot_policy_evaluation import SlotPolicyEvaluation
from .startd_settings import setting

_DUE = frozenset({"Unclaimed/Idle", "Owner/Idle"})


def next_policy_change(policy: SlotPolicyEvaluation) -> int | None:
    """Return the first instant (microseconds) at which a rule may hold: now if one does, None if none ever will."""
    slot = policy.slot
    unheld = slot.kind == "dynamic" and slot.name not in policy.state.matches and slot.waiting is None
    if applying(policy.state.dialect.rules, policy) is not None or (unheld and slot.state_activity in _DUE):
        return policy.now
    return min(_instants(policy), default=None)


def _instants(policy: SlotPolicyEvaluation) -> Iterator[int]:
    rules = policy.state.dialect.rules.get(policy.slot.state_activity, ())
    names = {name for rule in rules for name in CONDITIONS[rule.when].expressions}
    wanted = compiled_ad(policy.state, policy.slot, policy.caches).names
    if asks_busy(wanted):
        if policy.true("CpuBusy") != bool(policy.slot.busy_since):
            yield policy.now
        names.add("CpuBusy")
    here = policy.snapshot()
    if (wanted is None or "totalmachinedrainingunclaimedtime" in wanted) and _drained(here):
        yield policy.now
    if (wanted is None or not wanted.isdisjoint(EXPECTED)) and _runs(here):
        yield policy.now
    if time_limits.draining(policy):
        names.add("Start")
        yield from _neighbours_terms(policy)
    moving = moving_attributes(here) | _moving_of_other_slots(here)
    for name in sorted(names):
        for variant in (name, f"{name}_VANILLA"):
            changes = _change(policy, variant, moving)
            if changes is not None:
                yield changes
    yield from _terms(policy, {rule.when for rule in rules})
    told = updates.next_update(policy)
    if told is not None:
        yield told


def _drained(m: SlotSnapshot) -> bool:
    return any(slot.state == "Drained" for slot in m.state.machine_slots(m.slot))


def _runs(m: SlotSnapshot) -> bool:
    return any(slot.activation is not None for slot in m.state.machine_slots(m.slot))


def _neighbours_terms(policy: PolicyEvaluation) -> Iterator[int]:
    """Yield the time limits of other slots: while a machine drains, a job's stay depends on its neighbours'."""
    for slot in policy.state.machine_slots(policy.slot):
        if slot is not policy.slot and slot.activation is not None:
            theirs = policy.beside(slot)
            changes = _change(theirs, "MaxJobRetirementTime", moving_attributes(theirs.snapshot()))
            if changes is not None:
                yield changes


def _change(policy: PolicyEvaluation, name: str, moving: dict[str, Moving]) -> int | None:
    asked = policy.expression(name)
    if asked is None:
        return None
    found = next_change(asked, *policy.ads_read_by(name), policy.context, moving)
    if found is None:
        return None
    return policy.now if found is POLL else int(found) * SECOND


def _terms(policy: PolicyEvaluation, conditions: set[str]) -> Iterator[int]:
    """Yield the instants at which a time is over: a retirement, a claim's worklife, the wait for an activation."""
    slot, claim = policy.slot, policy.slot.claim
    machine = policy.state.machines.get(slot.machine)
    if slot.state == "Backfill" and machine is not None and machine.backfill_retry > policy.now:
        yield machine.backfill_retry
    stopped = slot.activation is not None and bool(slot.activation.since) and not time_limits.draining(policy)
    if claim is not None and not stopped and time_limits.in_retirement(policy):
        yield max(policy.now, policy.now + time_limits.retirement_remaining(policy) - time_limits.vacate_time(policy))
        if time_limits.draining(policy):  # a slot whose own retirement is over does not wait for the others
            yield policy.now + time_limits.retirement_left(policy)
    if claim is None or slot.state_activity != "Claimed/Idle":
        return
    if "the claim is too old" in conditions and claim.activations:
        life = time_limits.worklife(policy)
        if life >= 0:
            yield claim.since + life * SECOND + 1
    if time_limits.draining(policy):
        yield claim.since + round(float(setting(policy.state, machine, "MAX_DRAINING_ACTIVATION_DELAY")) * SECOND)


def _moving_of_other_slots(m: SlotSnapshot) -> dict[str, Moving]:
    """Return the moving attributes that the machine's slots publish to each other (STARTD_SLOT_ATTRS)."""
    wanted = setting(m.state, m.machine, "STARTD_SLOT_ATTRS").replace(",", " ").lower().split()
    found: dict[str, Moving] = {}
    for other in m.state.machine_slots(m.slot) if wanted else ():
        prefix = SlotName.parse(other.name).slot
        theirs = moving_attributes(
            SlotSnapshot(m.state, other, m.machine, m.readings, m.now, m.context, m.caches, m.estimates)
        )
        found |= {f"{prefix}_{name}": theirs[name] for name in wanted if name in theirs}
    return found
