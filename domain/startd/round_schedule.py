"""When the policy of each machine is due.

Rounds lie on a grid of each machine's own (``policy_rounds``). In the real world each of its instants is a round, since
the sensors may say something else at any moment. In a simulated world only those are held in which a rule may hold:
after whatever happened to a machine, ``next_policy_change`` tells for each of its slots from when on that may be. Both
see the same: what the world says at an instant of the grid comes before its round, what the pool makes of it and what
is asked of it then comes behind.

Which rounds were held is of the process: one in which no rule holds leaves no event. A pool that is started asks all of
its machines' policies at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from ..classad.next_change import POLL, next_change
from ..classad.time_functions import Moving
from ..classad.tree import Literal
from ..decision.moment import Moment
from ..events import ClusterEvent, Event, MachineEvent, SlotEvent, SlotTransitioned
from ..names import SlotName
from ..ports.effects import BENCHMARKING
from ..ports.slot_ads import EXPECTED
from ..state.agenda import Agenda
from ..state.job_procs import job_procs
from ..state.records import Machine
from ..state.state import ExecutionPoint
from ..state_machines.slot_rules import CONDITIONS, applying
from ..units import SECOND
from . import time_limits, updates
from .evaluation import PolicyEvaluation
from .moment_attributes import SlotSnapshot, asks_busy, moving_attributes
from .policy_rounds import drain_can_advance, interval, next_round
from .slot_policy_evaluation import SlotPolicyEvaluation
from .startd_settings import setting


class RoundSchedule(Struct):
    """The agenda of rounds, by the machines' names."""

    _agenda: Agenda[str] = field(default_factory=Agenda)
    _looked: int = 0  #: the instant up to which every round that was due has been held
    _woken_by_world: bool = False  #: whether what is decided next is what the world said at this instant
    _held: dict[str, int] = field(default_factory=dict)  #: when each machine's last round was
    _apart: dict[str, int] = field(default_factory=dict)
    """How far apart each machine's rounds were at the last planning."""
    _horizons: dict[str, dict[str, int | None]] = field(default_factory=dict)
    _stale: dict[str, set[str] | None] = field(default_factory=dict)
    """The machines of which something has changed, with the slots that it changed; None: all."""

    # What happens

    def note(self, state: ExecutionPoint, events: Iterable[Event]) -> None:
        """Take in events that have been folded."""
        for event in events:
            if isinstance(event, SlotEvent):
                # One slot of a machine at a time may run benchmarks.
                alone = isinstance(event, SlotTransitioned) and BENCHMARKING in (event.source, event.target)
                self._slot(state, event.slot, together=alone)
            elif isinstance(event, MachineEvent):
                self._stale[event.machine] = None
            elif isinstance(event, ClusterEvent):
                self._jobs(state, event)

    def _jobs(self, state: ExecutionPoint, event: ClusterEvent) -> None:
        """Something is new of these jobs, which the policies of their slots may read."""
        slot = getattr(event, "slot", "")
        if slot:
            self._slot(state, slot)
            return
        cluster, ranges = job_procs(event) or (0, ())
        if sum(last - first + 1 for first, last in ranges) > len(state.starters):
            running = [each for each in state.starters.values() if each.cluster == cluster]
        else:
            procs = (proc for first, last in ranges for proc in range(first, last + 1))
            found = (state.starters.get((cluster, proc)) for proc in procs)
            running = [each for each in found if each is not None]
        for starter in running:
            self._slot(state, starter.slot)

    def _slot(self, state: ExecutionPoint, name: str, together: bool = False) -> None:
        slot = state.slots.get(name)
        machine = slot.machine if slot is not None else name.partition("@")[2]
        known = self._stale.setdefault(machine, set())
        if together:
            self._stale[machine] = None
        elif known is not None:
            known.add(name)

    def held(self, machines: Iterable[str], now: int) -> None:
        """Take in that these machines' rounds were held."""
        for name in machines:
            self._held[name] = now
            self._stale[name] = None

    # What is asked

    def next(self, moment: Moment[ExecutionPoint]) -> int | None:
        """Return the instant of the next round of any machine; None: there will be none."""
        if moment.simulated:
            self._stale.update(dict.fromkeys(moment.changed_machines()))
        for name in moment.state.machines.keys() - self._apart.keys():
            self._stale[name] = None
        for name in list(self._stale):
            machine = moment.state.machines.get(name)
            self._agenda.note(name, None if machine is None else self._first(moment, machine))
            if machine is None:
                self._apart.pop(name, None)
                self._horizons.pop(name, None)
        self._stale.clear()
        return self._agenda.next()

    def due(self, moment: Moment[ExecutionPoint]) -> tuple[str, ...]:
        """Return the machines whose round is due by now."""
        self.next(moment)
        return tuple(self._agenda.take(moment.now))

    def wait_is_over(self, moment: Moment[ExecutionPoint], woken: bool) -> None:
        """Take in that the pool has waited until now; ``woken``: something came in, or is due, and is decided next."""
        self._woken_by_world = woken
        if not woken:
            self._looked = moment.now

    def due_at_once(self, moment: Moment[ExecutionPoint]) -> tuple[str, ...]:
        """Return the machines whose round, of the grid that was in force when this instant came, is due at this very
        instant because of what the world has just said, as if it had been due all along."""
        if not self._woken_by_world:
            return ()
        self._woken_by_world = False
        state, now = moment.state, moment.now
        for name in self._stale if moment.simulated and self._looked < now else ():
            machine = state.machines.get(name)
            if machine is None or next_round(machine, self._apart.get(name, now), now - 1) != now:
                continue
            if self._held.get(name) != now and self._something(moment, machine) == now:
                self._agenda.note(name, now)
        self._looked = now
        return tuple(name for name in self._agenda.take(now) if name in state.machines)

    def _first(self, moment: Moment[ExecutionPoint], machine: Machine) -> int | None:
        """Return the first instant of the machine's grid at which something may happen."""
        apart = self._apart[machine.name] = interval(moment.state, machine)
        last = max(self._held.get(machine.name, machine.joined), self._looked)
        if not moment.simulated:
            return next_round(machine, apart, last)
        earliest = self._something(moment, machine)
        return None if earliest is None else next_round(machine, apart, max(last, earliest - 1, moment.now - 1))

    def _something(self, moment: Moment[ExecutionPoint], machine: Machine) -> int | None:
        """Return the first instant at which a round may change anything; None: there is none."""
        return moment.now if drain_can_advance(machine) else self._horizon(moment, machine)

    def _horizon(self, moment: Moment[ExecutionPoint], machine: Machine) -> int | None:
        state = moment.state
        known = self._horizons.setdefault(machine.name, {})
        changed = self._stale.get(machine.name)
        readings = moment.sense(machine.name)
        shared = readings.load > readings.pool_load  # the owner's load goes where the slots' states say
        together = shared or machine.drain is not None or bool(setting(state, machine, "STARTD_SLOT_ATTRS"))
        if changed is None or together:
            known.clear()
        context = moment.context()
        for name, slot in machine.slots.items():
            if name not in known or (changed is not None and name in changed):
                known[name] = next_policy_change(
                    SlotPolicyEvaluation(state, slot, moment.sense, moment.now, context, moment.caches)
                )
        for name in [name for name in known if name not in machine.slots]:
            del known[name]
        self._stale[machine.name] = set()
        return min((when for when in known.values() if when is not None), default=None)


# The first instant at which a rule of a slot's policy may hold, if nothing happens but time passing

_DUE = frozenset({"Unclaimed/Idle", "Owner/Idle"})


def next_policy_change(policy: SlotPolicyEvaluation) -> int | None:
    """Return the first instant (microseconds) at which a rule may hold: now if one does, None if none ever will."""
    slot = policy.slot
    unheld = slot.kind == "dynamic" and slot.name not in policy.state.slot_matches and slot.waiting is None
    if applying(policy.state.dialect.rules, policy) is not None or (unheld and slot.state_activity in _DUE):
        return policy.now
    return min(_instants(policy), default=None)


def _instants(policy: SlotPolicyEvaluation) -> Iterator[int]:
    rules = policy.state.dialect.rules.get(policy.slot.state_activity, ())
    names = {name for rule in rules for name in CONDITIONS[rule.when].expressions}
    wanted = policy.compiled.names
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
    yield from _changes(policy, names | {f"{name}_VANILLA" for name in names} if policy.compiled.varied else names)
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
            yield from _changes(policy.beside(slot), {"MaxJobRetirementTime"})


def _changes(policy: PolicyEvaluation, names: Iterable[str]) -> Iterator[int]:
    """Yield the first instant at which the time may change each of these expressions."""
    found = ((name, policy.expression(name)) for name in sorted(names))
    asked = [(name, one) for name, one in found if one is not None and not isinstance(one, Literal)]
    moving = moving_attributes(policy.snapshot()) | _moving_of_other_slots(policy.snapshot()) if asked else {}
    for name, expression in asked:
        change = next_change(expression, *policy.ads_read_by(name), policy.context, moving)
        if change is not None:
            yield policy.now if change is POLL else int(change) * SECOND


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
