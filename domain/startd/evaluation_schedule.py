"""Schedule the periodic policy evaluations of all machines.

A machine's evaluations are due at regular intervals (``periodic_evaluation``). In a running pool, its policy is
evaluated each time, because sensor readings can change at any time. A simulation evaluates the policy only when a rule
may hold: after each change of a machine, ``next_policy_change`` computes this time for each slot. Both make the same
decisions. An evaluation takes place after the input from outside (the end of a process, a sensor reading) that arrives
at the same time, but before the pool's reactions to that input and before commands.

An evaluation in which no rule holds writes no event, so the time of the last evaluation is only in memory. Therefore a
pool that starts evaluates the policies of all its machines immediately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ..classad.next_change import POLL
from ..decision.moment import Moment
from ..events import ClusterEvent, Event, JobExecuting, MachineEvent, SlotEvent, SlotTransitioned
from ..ports.effects import BENCHMARKING
from ..ports.slot_ads import EXPECTED
from ..state.agenda import Agenda
from ..state.job_procs import job_procs
from ..state.records import Machine
from ..state.state import ExecutionPoint
from ..state_machines.slot_rules import CONDITIONS, applicable_rule
from ..units import SECOND
from . import time_limits, updates
from .draining import can_advance_drain
from .dynamic_attributes import reads_cpu_busy_time
from .evaluation import PolicyEvaluation
from .periodic_evaluation import evaluation_interval, next_evaluation
from .slot_policy_evaluation import SlotPolicyEvaluation
from .startd_settings import setting


class EvaluationSchedule(Struct):
    """The next policy evaluation of each machine."""

    _agenda: Agenda[str] = field(default_factory=Agenda)
    _completed_until: int = 0  #: all evaluations due up to this time are done
    _woken_by_world: bool = False  #: whether the next decision handles a stimulus of the world at this time
    _last_evaluations: dict[str, int] = field(default_factory=dict)
    _intervals: dict[str, int] = field(default_factory=dict)
    _next_changes: dict[str, dict[str, int | None]] = field(default_factory=dict)
    """By machine and slot: the first time at which a rule may hold."""
    _changed_slots: dict[str, set[str] | None] = field(default_factory=dict)
    """The changed slots by machine, or None for all slots of the machine."""
    _independent_slots: set[str] = field(default_factory=set)
    """The slots whose policy does not depend on attributes of their job that change when its process starts."""

    # Input

    def record_events(self, state: ExecutionPoint, events: Iterable[Event]) -> None:
        """Process events that were folded."""
        for event in events:
            if isinstance(event, SlotEvent):
                # Only one slot of a machine runs benchmarks at a time, so this event affects all of its slots.
                benchmarks = isinstance(event, SlotTransitioned) and BENCHMARKING in (event.source, event.target)
                self._note_slot(state, event.slot, whole_machine=benchmarks)
            elif isinstance(event, MachineEvent):
                self._changed_slots[event.machine] = None
            elif isinstance(event, ClusterEvent):
                self._note_jobs(state, event)

    def _note_jobs(self, state: ExecutionPoint, event: ClusterEvent) -> None:
        """Process a change of jobs: the policies of their slots may read the jobs' ads."""
        slot = getattr(event, "slot", "")
        if slot:
            self._note_slot(state, slot)
            return
        cluster, ranges = job_procs(event) or (0, ())
        if sum(last - first + 1 for first, last in ranges) > len(state.starters):
            starters = [starter for starter in state.starters.values() if starter.cluster == cluster]
        else:
            procs = (proc for first, last in ranges for proc in range(first, last + 1))
            running_starters = (state.starters.get((cluster, proc)) for proc in procs)
            starters = [starter for starter in running_starters if starter is not None]
        for starter in starters:
            if not isinstance(event, JobExecuting) or starter.slot not in self._independent_slots:
                self._note_slot(state, starter.slot)

    def _note_slot(self, state: ExecutionPoint, name: str, whole_machine: bool = False) -> None:
        slot = state.slots.get(name)
        machine = slot.machine if slot is not None else name.partition("@")[2]
        names = self._changed_slots.setdefault(machine, set())
        if whole_machine:
            self._changed_slots[machine] = None
        elif names is not None:
            names.add(name)

    def record_evaluations(self, machines: Iterable[str], now: int) -> None:
        """Record that the policies of these machines have been evaluated."""
        for name in machines:
            self._last_evaluations[name] = now
            self._changed_slots.setdefault(name, set())

    # Output

    def next_evaluation(self, moment: Moment[ExecutionPoint]) -> int | None:
        """Return the time of the next evaluation, or None if there will be none."""
        if moment.simulated:
            self._changed_slots.update(dict.fromkeys(moment.changed_machines()))
        if len(moment.state.machines) != len(self._intervals):  # a state that was read from a log
            self._changed_slots.update(dict.fromkeys(moment.state.machines.keys() - self._intervals.keys()))
        for name in list(self._changed_slots):
            machine = moment.state.machines.get(name)
            self._agenda.schedule(name, None if machine is None else self._next_evaluation(moment, machine))
            if machine is None:
                self._intervals.pop(name, None)
                self._next_changes.pop(name, None)
        self._changed_slots.clear()
        return self._agenda.next_due()

    def due_machines(self, moment: Moment[ExecutionPoint]) -> tuple[str, ...]:
        """Return the machines whose evaluation is due now."""
        self.next_evaluation(moment)
        return tuple(self._agenda.pop_due(moment.now))

    def end_wait(self, moment: Moment[ExecutionPoint], woken: bool) -> None:
        """Record that the pool has waited until now. ``woken``: the next decision handles a stimulus of the world."""
        self._woken_by_world = woken
        if not woken:
            self._completed_until = moment.now

    def due_after_stimulus(self, moment: Moment[ExecutionPoint]) -> tuple[str, ...]:
        """Return the machines whose evaluation is due now, after a decision on a stimulus of the world. The evaluation
        grid from before that stimulus applies."""
        if not self._woken_by_world:
            return ()
        self._woken_by_world = False
        state, now = moment.state, moment.now
        for name in self._changed_slots if moment.simulated and self._completed_until < now else ():
            machine = state.machines.get(name)
            if machine is None or next_evaluation(machine, self._intervals.get(name, now), now - 1) != now:
                continue
            if self._last_evaluations.get(name) != now and self._next_change(moment, machine) == now:
                self._agenda.schedule(name, now)
        self._completed_until = now
        return tuple(name for name in self._agenda.pop_due(now) if name in state.machines)

    def _next_evaluation(self, moment: Moment[ExecutionPoint], machine: Machine) -> int | None:
        interval = self._intervals[machine.name] = evaluation_interval(moment.state, machine)
        last = max(self._last_evaluations.get(machine.name, machine.joined), self._completed_until)
        if not moment.simulated:
            return next_evaluation(machine, interval, last)
        earliest = self._next_change(moment, machine)
        return None if earliest is None else next_evaluation(machine, interval, max(last, earliest - 1, moment.now - 1))

    def _next_change(self, moment: Moment[ExecutionPoint], machine: Machine) -> int | None:
        """Return the first instant at which an evaluation may change anything, or None if there is none."""
        return moment.now if can_advance_drain(machine) else self._next_rule(moment, machine)

    def _next_rule(self, moment: Moment[ExecutionPoint], machine: Machine) -> int | None:
        state = moment.state
        instants = self._next_changes.setdefault(machine.name, {})
        changed_names = self._changed_slots.get(machine.name)
        readings = moment.sense(machine.name)
        has_owner_load = readings.load > readings.pool_load  # each slot's share depends on the states of all slots
        shares_attributes = bool(setting(state, machine, "STARTD_SLOT_ATTRS"))
        if changed_names is None or has_owner_load or machine.drain is not None or shares_attributes:
            instants.clear()
        context = moment.context()
        for name, slot in machine.slots.items():
            instant = instants.get(name, moment.now)
            if (instant is not None and instant <= moment.now) or (changed_names is not None and name in changed_names):
                policy = SlotPolicyEvaluation(state, slot, moment.sense, moment.now, context, moment.caches)
                instants[name] = next_policy_change(policy)
                form = policy.compiled.form
                reads_job = form.names is None or form.foreign or readings.attributes or readings.slots
                if reads_job or time_limits.in_retirement(policy):
                    self._independent_slots.discard(name)
                else:
                    self._independent_slots.add(name)
        for name in [name for name in instants if name not in machine.slots]:
            del instants[name]
            self._independent_slots.discard(name)
        self._changed_slots[machine.name] = set()
        return min((instant for instant in instants.values() if instant is not None), default=None)


# The first instant at which a rule of a slot's policy may hold if only time passes

_MERGEABLE = frozenset({"Unclaimed/Idle", "Owner/Idle"})
"""The states/activities in which an unused dynamic slot is destroyed."""


def next_policy_change(policy: SlotPolicyEvaluation) -> int | None:
    """Return when a rule may first hold, in microseconds: now if one holds already, None if time changes nothing."""
    slot, state = policy.slot, policy.state
    policy.changes = {}
    unused = slot.kind == "dynamic" and slot.name not in state.slot_matches and slot.queued_claim is None
    if applicable_rule(state.dialect.rules, policy) is not None or (unused and slot.state_activity in _MERGEABLE):
        return policy.now
    return min(_possible_changes(policy), default=None)


def _possible_changes(policy: SlotPolicyEvaluation) -> Iterator[int]:
    rules = policy.state.dialect.rules.get(policy.slot.state_activity, ())
    names = {name for rule in rules for name in CONDITIONS[rule.when].expressions}
    names_read = policy.compiled.form.names
    if reads_cpu_busy_time(names_read):
        if policy.is_true("CpuBusy") != bool(policy.slot.busy_since):
            yield policy.now
        names.add("CpuBusy")
    slots = policy.state.machine_slots(policy.slot)
    reads_drained_time = names_read is None or "totalmachinedrainingunclaimedtime" in names_read
    if reads_drained_time and any(slot.state == "Drained" for slot in slots):
        yield policy.now
    if (names_read is None or not names_read.isdisjoint(EXPECTED)) and any(slot.activation for slot in slots):
        yield policy.now
    if time_limits.machine_is_draining(policy):
        names.add("Start")
        yield from _changes_of_other_retirements(policy)
    if policy.compiled.form.has_vanilla_variants:
        names |= {f"{name}_VANILLA" for name in names}
    yield from _expression_changes(policy, names)
    yield from _ends_of_limits(policy, {rule.when for rule in rules})
    update = updates.next_update(policy)
    if update is not None:
        yield update


def _changes_of_other_retirements(policy: PolicyEvaluation) -> Iterator[int]:
    """Yield when other slots' retirement changes: in a drain, a job may stay as long as the machine's other jobs."""
    for slot in policy.state.machine_slots(policy.slot):
        if slot is not policy.slot and slot.activation is not None:
            yield from _expression_changes(policy.for_slot(slot), {"MaxJobRetirementTime"})


def _expression_changes(policy: PolicyEvaluation, names: Iterable[str]) -> Iterator[int]:
    for name in sorted(names):
        change = policy.next_change(name)
        if change is not None:
            yield policy.now if change is POLL else int(change) * SECOND


def _ends_of_limits(policy: PolicyEvaluation, conditions: set[str]) -> Iterator[int]:
    """Yield the instants at which a time limit expires: retirement, CLAIM_WORKLIFE, or the wait for an activation."""
    slot, claim = policy.slot, policy.slot.claim
    machine = policy.state.machines.get(slot.machine)
    if slot.state == "Backfill" and machine is not None and machine.backfill_retry > policy.now:
        yield machine.backfill_retry
    draining = time_limits.machine_is_draining(policy)
    is_suspended = slot.activation is not None and bool(slot.activation.suspended_since)
    if claim is not None and (draining or not is_suspended) and time_limits.in_retirement(policy):
        yield max(policy.now, policy.now + time_limits.retirement_remaining(policy) - time_limits.vacate_time(policy))
        if draining:  # a slot whose own retirement is over may not wait for the other slots
            yield policy.now + time_limits.retirement_left(policy)
    if claim is None or slot.state_activity != "Claimed/Idle":
        return
    if "the claim is too old" in conditions and claim.activations:
        worklife = time_limits.worklife(policy)
        if worklife >= 0:
            yield claim.since + worklife * SECOND + 1
    if draining:
        yield claim.since + round(float(setting(policy.state, machine, "MAX_DRAINING_ACTIVATION_DELAY")) * SECOND)
