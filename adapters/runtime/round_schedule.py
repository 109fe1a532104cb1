"""When the policy of each machine is due.

Rounds lie on a grid of each machine's own (``startd/policy_rounds.py``). In the real world each of its instants is a
round, since the sensors may say something else at any moment. In a simulated world only those are held in which a rule
may hold: after whatever happened to a machine, ``next_policy_change`` tells for each of its slots from when on that may
be. Both see the same: what the world says at an instant of the grid comes before its round, what the pool makes of it
and what is asked of it then comes behind.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from datetime import tzinfo

from attrs import define, field

from ...domain.classad import Context
from ...domain.events import ClusterEvent, Event, MachineEvent, SlotEvent, SlotTransitioned
from ...domain.ports.effects import BENCHMARKING
from ...domain.ports.sensor_readings import Sense
from ...domain.startd.next_change import next_policy_change
from ...domain.startd.policy_rounds import drain_can_advance, interval, next_round
from ...domain.startd.settings import MICROSECONDS, setting
from ...domain.startd.slot_policy import SlotPolicy
from ...domain.state.caches import Caches
from ...domain.state.job_procs import job_procs
from ...domain.state.state import Machine, State


@define
class RoundSchedule:
    """The agenda of rounds. ``due`` is what it is asked for; ``note`` tells it what has happened."""

    simulated: bool
    caches: Caches = field(factory=Caches)
    looked: int = 0  #: the instant up to which every round that was due has been held
    _held: dict[str, int] = field(factory=dict)  #: when each machine's last round was
    _due: dict[str, int | None] = field(factory=dict)  #: each machine's next round; None: none unless something happens
    _apart: dict[str, int] = field(factory=dict)  #: how far apart each machine's rounds were at the last planning
    _agenda: list[tuple[int, str]] = field(factory=list)
    _horizons: dict[str, dict[str, int | None]] = field(factory=dict)
    _stale: dict[str, set[str] | None] = field(factory=dict)
    """The machines of which something has changed, with the slots that it changed; None: all."""

    def reset(self, caches: Caches) -> None:
        """Whatever was known of the machines is to be found out again, of another state, with what is kept of that."""
        self.caches = caches
        self._due.clear()
        self._agenda.clear()
        self._horizons.clear()
        self._stale.clear()

    def note(self, state: State, events: Iterable[Event]) -> None:
        """These events are in the log."""
        for event in events:
            if isinstance(event, SlotEvent):
                # One slot of a machine at a time may run benchmarks.
                alone = isinstance(event, SlotTransitioned) and BENCHMARKING in (event.source, event.target)
                self._slot(state, event.slot, together=alone)
            elif isinstance(event, MachineEvent):
                self._stale[event.machine] = None
            elif isinstance(event, ClusterEvent):
                self._jobs(state, event)

    def _jobs(self, state: State, event: ClusterEvent) -> None:
        """Something is new of these jobs, which the policies of their slots may read."""
        slot = getattr(event, "slot", "")
        if slot:
            self._slot(state, slot)
            return
        cluster, ranges = job_procs(event) or (0, ())
        if sum(last - first + 1 for first, last in ranges) > len(state.activations):
            running = [each for each in state.activations.values() if each.cluster == cluster]
        else:
            procs = (proc for first, last in ranges for proc in range(first, last + 1))
            found = (state.by_job.get((cluster, proc)) for proc in procs)
            running = [each for each in found if each is not None]
        for activation in running:
            if activation.slot:
                self._slot(state, activation.slot)

    def _slot(self, state: State, name: str, together: bool = False) -> None:
        slot = state.slots.get(name)
        machine = slot.machine if slot is not None else name.partition("@")[2]
        known = self._stale.setdefault(machine, set())
        if together:
            self._stale[machine] = None
        elif known is not None:
            known.add(name)

    def stir(self, machines: Iterable[str]) -> None:
        """The readings of these machines have changed."""
        self._stale.update(dict.fromkeys(machines))

    def held(self, machines: Iterable[str], now: int) -> None:
        """These machines' rounds were held."""
        for name in machines:
            self._held[name] = now
            self._stale.setdefault(name, None)
            self._stale[name] = None

    def next(self, state: State, now: int, look: Callable[[], tuple[Sense, tzinfo]]) -> int | None:
        """The instant of the next round of any machine; None: there will be none."""
        for name in state.machines.keys() - self._due.keys():
            self._stale[name] = None
        sense, zone = look()
        for name in list(self._stale):
            self._plan(state, name, now, sense, zone)
        self._stale.clear()
        return self._earliest(state)

    def due(self, state: State, now: int, look: Callable[[], tuple[Sense, tzinfo]]) -> tuple[str, ...]:
        """The machines whose round is due by now."""
        self.next(state, now, look)
        return self._take(state, now)

    def due_at_once(self, state: State, now: int, look: Callable[[], tuple[Sense, tzinfo]]) -> tuple[str, ...]:
        """The machines whose round, of the grid that was in force when this instant came, is due at this very instant
        because of what has just happened to them."""
        sense, zone = look()
        for name in self._stale if self.simulated and self.looked < now else ():
            machine = state.machines.get(name)
            if machine is None or next_round(machine, self._apart.get(name, now), now - 1) != now:
                continue
            if self._held.get(name) != now and self._something(state, machine, now, sense, zone) == now:
                self._due[name] = now
                heapq.heappush(self._agenda, (now, name))
        return self._take(state, now)

    def _take(self, state: State, now: int) -> tuple[str, ...]:
        found = []
        while (when := self._earliest(state)) is not None and when <= now:
            _, name = heapq.heappop(self._agenda)
            self._due[name] = None
            found.append(name)
        return tuple(sorted(found))

    def _earliest(self, state: State) -> int | None:
        while self._agenda:
            when, name = self._agenda[0]
            if self._due.get(name) == when and name in state.machines:
                return when
            heapq.heappop(self._agenda)
        return None

    def _plan(self, state: State, name: str, now: int, sense: Sense, zone: tzinfo) -> None:
        machine = state.machines.get(name)
        if machine is None:
            self._due.pop(name, None)
            self._horizons.pop(name, None)
            return
        when = self._first(state, machine, now, sense, zone)
        self._due[name] = when
        if when is not None:
            heapq.heappush(self._agenda, (when, name))

    def _first(self, state: State, machine: Machine, now: int, sense: Sense, zone: tzinfo) -> int | None:
        """The first instant of the machine's grid at which something may happen."""
        apart = self._apart[machine.name] = interval(state, machine)
        last = self._held.get(machine.name, machine.joined)
        if not self.simulated:
            return next_round(machine, apart, max(last, self.looked))
        earliest = self._something(state, machine, now, sense, zone)
        if earliest is None:
            return None
        return next_round(machine, apart, max(last, self.looked, earliest - 1, now - 1))

    def _something(self, state: State, machine: Machine, now: int, sense: Sense, zone: tzinfo) -> int | None:
        """The first instant at which a round may change anything; None: there is none."""
        return now if drain_can_advance(machine) else self._horizon(state, machine, now, sense, zone)

    def _horizon(self, state: State, machine: Machine, now: int, sense: Sense, zone: tzinfo) -> int | None:
        known = self._horizons.setdefault(machine.name, {})
        changed = self._stale.get(machine.name)
        readings = sense(machine.name)
        shared = readings.load > readings.pool_load  # the owner's load goes where the slots' states say
        together = shared or machine.drain is not None or bool(setting(state, machine, "STARTD_SLOT_ATTRS"))
        if changed is None or together:
            known.clear()
        second = now // MICROSECONDS
        context = Context(now=second, seed=second, timezone=zone, user_maps=state.user_maps)
        for name, slot in machine.slots.items():
            if name not in known or (changed is not None and name in changed):
                known[name] = next_policy_change(SlotPolicy(state, slot, sense, now, context, self.caches))
        for name in [name for name in known if name not in machine.slots]:
            del known[name]
        return min((when for when in known.values() if when is not None), default=None)
