"""Check conditions over the past of a pool: fold its log again, and evaluate them whenever their value may change.

At an instant, a condition sees the state after all events of that instant. A job that leaves the queue is seen a last
time, with its final status. Between two events, ``next_change`` determines when time alone may change a value.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from fnmatch import fnmatchcase
from itertools import groupby
from typing import NamedTuple

from attrs import define, field, frozen

from ...domain import events as e
from ...domain.classad import POLL, ClassAd, Context, next_change
from ...domain.classad.value_evidence import truth_of
from ...domain.fold.evolve import fold
from ...domain.names import SlotName
from ...domain.ports.log import EventStore
from ...domain.ports.sensor_readings import NOTHING_READ, Readings
from ...domain.startd.dynamic_attributes import DYNAMIC_ATTRIBUTES, moving_attributes_of_machine
from ...domain.startd.evaluation import PolicyEvaluation
from ...domain.startd.slot_ad import job_classad, snapshot_ad
from ...domain.state.caches import Caches, ad_from_attributes
from ...domain.state.job_procs import job_procs
from ...domain.state.runtime_attributes import RUNTIME_ATTRIBUTES
from ...domain.state.state import State
from ...domain.state_machines import LEFT
from ...domain.submit import ATTRIBUTES
from ...domain.suggestions import did_you_mean
from ...domain.units import SECOND
from .expectations import Condition, Watch

_POLLING = 60 * SECOND  #: how often a condition is evaluated whose changes cannot be predicted
_JOB_NAMES = frozenset(name.lower() for name in ATTRIBUTES) | RUNTIME_ATTRIBUTES
_ALL = ""  #: in the agenda: every slot and job


class ReadingsChange(NamedTuple):
    """The readings of a machine from an instant on (microseconds)."""

    at: int
    machine: str
    readings: Readings


@frozen
class PoolHistory:
    """What is known of a simulated pool's past, up to ``end`` (microseconds)."""

    log: EventStore
    readings: Sequence[ReadingsChange]
    zone: tzinfo
    end: int


@frozen
class Breach:
    """The first instant at which a slot or job did not meet an expectation."""

    thing: str
    at: int
    is_missing: bool = False  #: there is no such slot or job


@define
class Watched:
    """A watch from ``since`` up to (not including) ``until``, and its results. ``times``: how often its condition was
    due; ``unknown``: an attribute that no slot or job has."""

    watch: Watch
    since: int
    until: int
    breaches: dict[str, Breach] = field(factory=dict)
    times: int = 0
    unknown: str = ""
    _triggered: dict[str, bool] = field(factory=dict)  #: slot or job -> the last value of ``after``
    _deadlines: dict[str, int] = field(factory=dict)
    _unseen: set[tuple[bool, str]] = field(init=False)  #: attributes (of jobs: True) that no ad had so far

    def __attrs_post_init__(self) -> None:
        conditions = [part for part in (self.watch.condition, self.watch.after) if part is not None]
        self._unseen = {(part.of_jobs, name) for part in conditions for name in part.names}
        self._unseen |= {(True, name) for part in conditions for name in part.job_names}
        if self._awaits_thing:
            self._begin(self.watch.thing, self.since)

    @property
    def _awaits_thing(self) -> bool:
        """Return True if one named slot or job must meet the condition in time, even if it does not exist yet."""
        watch = self.watch
        return watch.starts_at_once and bool(watch.thing) and {"*", "?"}.isdisjoint(watch.thing)

    @property
    def last(self) -> int:
        """Return the last instant at which this watch may be evaluated."""
        return self.until + (self.watch.within or 0)

    def concerns(self, thing: str, of_jobs: bool) -> bool:
        watch = self.watch
        return watch.condition.of_jobs == of_jobs and (not watch.thing or fnmatchcase(thing, watch.thing))

    def _begin(self, thing: str, now: int) -> None:
        self.times += 1
        self._deadlines.setdefault(thing, now + (self.watch.within or 0))

    def take(self, ads: _Ads, thing: str, now: int) -> Iterator[int]:
        """Evaluate the watch for a slot or job now; yield the instants at which to repeat this."""
        self._note_names(ads)
        watch, in_period = self.watch, self.since <= now < self.until
        if watch.within is None:
            self.times += in_period
            if in_period and thing not in self.breaches and ads.holds(watch.condition):
                self.breaches[thing] = Breach(thing, now)
        else:
            if watch.after is not None:
                is_due = in_period and ads.holds(watch.after)
                if is_due and not self._triggered.get(thing):
                    self._begin(thing, now)
                self._triggered[thing] = is_due
            elif now == self.since and not self._awaits_thing:
                self._begin(thing, now)
            if thing in self._deadlines and ads.holds(watch.condition):
                del self._deadlines[thing]
            yield from self._expire(thing, now)
        for condition in (watch.condition, watch.after):
            if condition is not None and self.since <= now <= self.last:
                yield from ads.next_change(condition)

    def _expire(self, thing: str, now: int, is_missing: bool = False) -> Iterator[int]:
        deadline = self._deadlines.get(thing)
        if deadline is not None and deadline <= now:
            del self._deadlines[thing]
            self.breaches.setdefault(thing, Breach(thing, deadline, is_missing))
        elif deadline is not None:
            yield deadline

    def forget(self, thing: str, now: int) -> Iterator[int]:
        """Note that a slot or job does not exist now."""
        self._triggered.pop(thing, None)
        if thing == self.watch.thing:
            yield from self._expire(thing, now, is_missing=True)
        else:
            self._deadlines.pop(thing, None)

    def _note_names(self, ads: _Ads) -> None:
        if self._unseen:
            self._unseen = {(of_job, name) for of_job, name in self._unseen if not ads.has(of_job, name)}

    def complete(self, things: Sequence[tuple[str, bool]], end: int) -> None:
        """Complete the results at the end; ``things`` are all slots and jobs (True) that ever existed."""
        named = self.watch.thing
        if self._awaits_thing:
            list(self.forget(named, end))
        if named and not self.breaches and not any(self.concerns(*thing) for thing in things):
            self.breaches[named] = Breach(named, self.since, is_missing=True)
        for of_job, name in sorted(self._unseen):
            known = _JOB_NAMES if of_job else DYNAMIC_ATTRIBUTES
            if name.lower() not in known and any(of_jobs == of_job for _, of_jobs in things):
                spellings = sorted(ATTRIBUTES) if of_job else [spelling for spelling, _ in DYNAMIC_ATTRIBUTES.values()]
                hint = did_you_mean(name, spellings, most=1)
                if not of_job and name.lower() in _JOB_NAMES:
                    hint = f"write job.{name}"
                self.unknown = f"no {'job' if of_job else 'slot'} has the attribute {name}{hint and f'; {hint}'}"


@frozen
class _Ads:
    """The ads of a slot and its job, or twice a job's ad, at an instant."""

    my: ClassAd
    target: ClassAd | None
    context: Context
    slot: PolicyEvaluation | None = None

    def holds(self, condition: Condition) -> bool:
        return truth_of(condition.expression, self.my, self.target, self.context) is True

    def has(self, of_job: bool, name: str) -> bool:
        ad = self.target if of_job else self.my
        return ad is not None and name in ad

    def next_change(self, condition: Condition) -> Iterator[int]:
        moving = {} if self.slot is None else moving_attributes_of_machine(self.slot.snapshot())
        change = next_change(condition.expression, self.my, self.target, self.context, moving)
        assert self.context.now is not None
        if change is not None:
            yield self.context.now * SECOND + _POLLING if change is POLL else int(change) * SECOND


@define
class _Pass:
    """One pass over a pool's history, for several watches."""

    history: PoolHistory
    watches: Sequence[Watched]
    state: State = field(factory=State)
    now: int = 0
    readings: dict[str, Readings] = field(factory=dict)
    caches: Caches = field(factory=Caches)
    agenda: list[tuple[int, str, bool]] = field(factory=list)
    things: dict[tuple[str, bool], int] = field(factory=dict)  #: slots and jobs (True) -> the next instant planned
    of_jobs: bool = field(init=False)
    names: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        conditions = [part for each in self.watches for part in (each.watch.condition, each.watch.after) if part]
        self.of_jobs = any(part.of_jobs for part in conditions)
        self.names = frozenset(name.lower() for part in conditions for name in part.names if not part.of_jobs)
        for each in self.watches:
            for at in (each.since, each.last):
                heapq.heappush(self.agenda, (at, _ALL, False))

    def run(self) -> None:
        last = min(self.history.end, max(each.last for each in self.watches))
        events = groupby(self.history.log.read(), lambda record: record[1].at)
        changes = groupby(self.history.readings, lambda change: change.at)
        next_events, next_readings = next(events, None), next(changes, None)
        while True:
            planned = self.agenda[0][0] if self.agenda else None
            instants = (next_events and next_events[0], next_readings and next_readings[0], planned)
            self.now = min((at for at in instants if at is not None), default=last + 1)
            if self.now > last:
                break
            touched: dict[tuple[str, bool], None] = {}
            if next_events is not None and next_events[0] == self.now:
                for position, event in next_events[1]:
                    touched |= dict.fromkeys(self._fold(position, event))
                next_events = next(events, None)
            if next_readings is not None and next_readings[0] == self.now:
                for change in next_readings[1]:
                    self.readings[change.machine] = change.readings
                    touched |= dict.fromkeys(self._slots_of(change.machine))
                next_readings = next(changes, None)
            while self.agenda and self.agenda[0][0] <= self.now:
                _, name, of_jobs = heapq.heappop(self.agenda)
                touched |= dict.fromkeys(list(self.things) if name == _ALL else [(name, of_jobs)])
            for name, of_jobs in touched:
                self._take(name, of_jobs)
        for each in self.watches:
            each.complete(list(self.things), self.history.end)

    def _fold(self, position: int, event: e.Event) -> Iterator[tuple[str, bool]]:
        """Fold an event; yield the slots and jobs whose ads it may have changed."""
        jobs = [] if not isinstance(event, e.ClusterEvent) else list(self._jobs_of(event))
        if isinstance(event, e.JobsTransitioned) and event.target == LEFT and self.of_jobs:
            for name, _ in jobs:
                self._take(name, True)
        fold([(position, event)], self.state)
        if isinstance(event, e.SlotEvent):
            yield event.slot, False
            yield from self._slots_of(SlotName.parse(event.slot).machine)
        elif isinstance(event, e.MachineEvent):
            yield from self._slots_of(event.machine)
        elif isinstance(event, e.ClusterEvent):
            jobs = jobs or list(self._jobs_of(event))
            yield from ((name, True) for name, _ in jobs) if self.of_jobs else ()
            for _, job in jobs:
                activation = self.state.by_job.get(job)
                if activation is not None and activation.slot in self.state.slots:
                    yield activation.slot, False

    def _jobs_of(self, event: e.ClusterEvent) -> Iterator[tuple[str, tuple[int, int]]]:
        jobs = job_procs(event)
        ranges = jobs[1] if jobs is not None else ()
        procs = (proc for first, last in ranges for proc in range(first, last + 1))
        return ((f"{event.cluster}.{proc}", (event.cluster, proc)) for proc in procs)

    def _slots_of(self, machine: str) -> Iterator[tuple[str, bool]]:
        present = self.state.machines.get(machine)
        return iter(()) if present is None else ((name, False) for name in present.slots)

    def _take(self, name: str, of_jobs: bool) -> None:
        """Evaluate all watches of a slot or job, and plan the next evaluation."""
        watches = [each for each in self.watches if each.concerns(name, of_jobs)]
        if not watches:
            return
        ads = self._job_ads(name) if of_jobs else self._slot_ads(name)
        planned: list[int] = []
        for each in watches:
            planned += each.forget(name, self.now) if ads is None else each.take(ads, name, self.now)
        if ads is not None:
            self.things.setdefault((name, of_jobs), 0)
        if planned and (name, of_jobs) in self.things:
            earliest = min(planned)
            if not self.now < self.things[name, of_jobs] <= earliest:
                self.things[name, of_jobs] = earliest
                heapq.heappush(self.agenda, (earliest, name, of_jobs))

    def _slot_ads(self, name: str) -> _Ads | None:
        slot = self.state.slots.get(name)
        if slot is None:
            return None
        context = self._context()
        sense = lambda machine: self.readings.get(machine, NOTHING_READ)  # noqa: E731
        policy = PolicyEvaluation(self.state, slot, sense, self.now, context, self.caches)
        return _Ads(
            snapshot_ad(policy.snapshot(), also=self.names), job_classad(self.state, slot, self.caches), context, policy
        )

    def _job_ads(self, name: str) -> _Ads | None:
        cluster_id, _, proc = name.partition(".")
        cluster = self.state.clusters.get(int(cluster_id))
        if cluster is None or int(proc) not in cluster:
            return None
        ad = ad_from_attributes(cluster.attributes(int(proc)))
        return _Ads(ad, ClassAd({}, ad), self._context())  # one object cannot match itself

    def _context(self) -> Context:
        second = self.now // SECOND
        return Context(now=second, seed=second, timezone=self.history.zone, user_maps=self.state.user_maps)


def watch_history(history: PoolHistory, watches: Sequence[Watched]) -> None:
    """Check the watches, and complete their results."""
    if watches:
        _Pass(history, watches).run()
