"""The pool at work: stimuli in, decisions appended, effects out.

One engine owns one state and writes one log. All that came in together is decided one by one and appended as one batch
(group commit); only then are commands answered and effects performed. The state is the log folded: when an append
fails, the state that the decision was folded onto is thrown away, and folded anew from the log before the next
decision.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from itertools import islice
from typing import Any

import msgspec
from attrs import define, evolve, field

from ...domain.decide import Refusal, Tables, decide
from ...domain.decide.timers import next_deadline
from ...domain.events import CycleHeld, Event
from ...domain.negotiator.schedule import CycleSchedule
from ...domain.ports import stimuli as s
from ...domain.ports.effects import BENCHMARKING, Benchmark, Forget, Signal, Start, effects, ending
from ...domain.ports.log import Log
from ...domain.ports.sensor_readings import Readings, Sense
from ...domain.ports.world import Launch, World
from ...domain.schedd.expansion import begun
from ...domain.schedd.leave_queue import to_be_asked
from ...domain.state.caches import Caches
from ...domain.state.cluster import IDLE
from ...domain.state.evolve import fold
from ...domain.state.state import Activation, State
from ...domain.state_machines import DEFAULT_DIALECT, job_machine, slot_machine
from .leave_in_queue import LeaveInQueue
from .round_schedule import RoundSchedule

Subscriber = Callable[[int, Sequence[Event]], None]  #: called with the first position and the events of each append
_REPORTED_ONCE = s.Started | s.Measured | s.Ended | s.BenchmarksDone  #: what the world says once and will not say again
SECOND = 1_000_000
RETRY = SECOND  #: microseconds until what the world said is tried again after its append has failed


@define
class Answer:
    """What became of a stimulus: its answer, or why it was refused."""

    value: Any = None
    refusal: str = ""


@define
class Engine:
    log: Log
    world: World
    tables: Tables | None = None
    executing: bool = True  #: whether jobs are run: if not, requests are decided and nothing is matched
    matching: bool = True  #: whether the pool negotiates and claims for its own queue
    zone: tzinfo = UTC  #: the time zone of the machines' local times (ClockMin, ClockDay)
    _state: State = field(factory=State)
    _caches: Caches = field(factory=Caches)  #: what was computed of the state: it goes with it
    _stale: bool = True  #: whether the state has to be folded anew: nothing was read yet, or an append has failed
    _cycle_schedule: CycleSchedule = field(factory=CycleSchedule)
    _subscribers: list[Subscriber] = field(factory=list)
    _serial: int = 0
    _clock_lead: int = 0
    _untold: deque[tuple[int, Sequence[Event]]] = field(factory=deque)
    _publishing: bool = False
    _round_schedule: RoundSchedule = field(init=False)
    _leave_in_queue: LeaveInQueue = field(factory=LeaveInQueue)
    _woken_by_world: bool = False  #: whether what is handled next is what the world said at this instant
    _readings: dict[str, Readings] = field(factory=dict)  #: of this instant, by machine: each is asked once
    unlogged: list[s.Stimulus] = field(factory=list)  #: what the log could not take: it is said again at the next wait

    def __attrs_post_init__(self) -> None:
        self._round_schedule = RoundSchedule(self.world.simulated)

    @property
    def state(self) -> State:
        """The log, folded. Not to be changed."""
        if self._stale:
            self.load()
        return self._state

    def now(self) -> int:
        """The log's time: the world's, unless that has been set back. Then it goes on from the log's last instant, as
        fast as the world's."""
        self._clock_lead = max(self._clock_lead, self.state.at - self.world.now())
        return self.world.now() + self._clock_lead

    def load(self) -> None:
        """Fold the log."""
        # What is folded lives on; looking through it for cycles again and again costs a tenth of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._state = fold(self.log.read())
        finally:
            if collecting:
                gc.enable()
        self._stale = False
        self._cycle_schedule.restart()
        self._caches = Caches()
        self._round_schedule.reset(self._caches)
        self._leave_in_queue.reset(self._state, self.zone)

    def _tables(self) -> Tables:
        if self.tables is None:
            self.tables = Tables(slot_machine(self.state.dialect.name), job_machine(self.state.dialect.name))
        return self.tables

    def read_on(self) -> None:
        """Fold what is behind the state's position in the log."""
        fold(self.log.read(self.state.position), self.state)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def id(self, kind: str) -> str:
        """An id for a stimulus of our own: unique in the log, as the position grows with each append."""
        self._serial += 1
        return f"{kind}-{self.state.position + 1}-{self._serial}"

    # Deciding

    def handle(self, stimuli: Sequence[s.Stimulus]) -> list[Answer]:
        """Decide about each of `stimuli`, and what follows at once; append; do what follows in the world. Return one
        answer for each stimulus, after the append; what was refused changed nothing. Raise `LogError` if nothing of all
        this happened."""
        before, now = self.state.position, self.now()
        events: list[Event] = []
        self._readings.clear()
        try:
            answers = self._decide_all(stimuli, now, events)
            told = self._hold_due(stimuli, now, events)
            held = self._follow_up(now, events)
            if events:
                self.log.append(events)
        except Exception:
            self._stale = True  # the state has folded what is not in the log
            self.unlogged += [one for one in stimuli if isinstance(one, _REPORTED_ONCE)]
            raise
        if held:
            self._cycle_schedule.rest(self.state, now, self.now())
        self._round_schedule.note(self.state, events[told:])
        self._perform(before, events)
        if events:
            self._untold.append((before + 1, events))
            self._publish()
        return answers

    def _decide_all(self, stimuli: Sequence[s.Stimulus], now: int, events: list[Event]) -> list[Answer]:
        """Decide about each; jobs that have come to their end leave the queue before anything else is decided than
        further ends, so that one event can tell of many."""
        answers: list[Answer] = []
        looked = 0
        for stimulus in stimuli:
            if not isinstance(stimulus, s.Ended):
                looked = self._let_leave(now, events, looked)
            answers.append(self._decide(stimulus, now, events))
        self._let_leave(now, events, looked)
        return answers

    def _let_leave(self, now: int, events: list[Event], looked: int) -> int:
        """Ask the jobs that the events from ``looked`` on have brought to their end, or changed behind it, whether they
        leave the queue. Returns how many events there are then."""
        jobs = to_be_asked(self.state, islice(events, looked, None))
        if jobs:
            self._decide(s.LeaveQueue(self.id("leave"), jobs), now, events)
        return len(events)

    def _publish(self) -> None:
        """Tell the subscribers, in the order of the log: what a subscriber does itself is told when all have heard of
        what it heard."""
        if self._publishing:
            return
        self._publishing = True
        try:
            while self._untold:
                first, events = self._untold.popleft()
                for subscriber in self._subscribers:
                    subscriber(first, events)
        finally:
            self._publishing = False

    def _decide(self, stimulus: s.Stimulus, now: int, events: list[Event]) -> Answer:
        if isinstance(stimulus, s.FoundPool):
            tables = Tables(slot_machine(DEFAULT_DIALECT), job_machine(DEFAULT_DIALECT))
        else:
            tables = self._tables()
        position = self.state.position
        try:
            decided = decide(self.state, stimulus, now, tables, self._sense, self.zone, self._caches)
        except Refusal as refusal:
            if self.state.position != position:
                raise
            return Answer(refusal=str(refusal))
        events += decided
        if isinstance(stimulus, s.LeaveQueue):
            self._leave_in_queue.asked(self.state, stimulus.jobs, now, self.zone)
        for event in decided:
            self._cycle_schedule.on_event(event)
        known = self.state.answers.get(stimulus.id)
        return Answer(None if known is None else msgspec.json.decode(known))

    def _hold_due(self, stimuli: Sequence[s.Stimulus], now: int, events: list[Event]) -> int:
        """The rounds that are due at this instant only because of what the world has said, as if they had been due all
        along. Returns of how many of the events the agenda of rounds knows."""
        for stimulus in stimuli:
            if isinstance(stimulus, s.EvaluatePolicies):
                self._round_schedule.held(stimulus.machines, now)
        if not self._woken_by_world:
            return 0
        self._woken_by_world = False
        told = len(events)
        self._round_schedule.note(self.state, events)
        machines = self._round_schedule.due_at_once(self.state, now, self._look)
        if machines:
            self._decide(s.EvaluatePolicies(self.id("round"), machines), now, events)
            self._round_schedule.held(machines, now)
        self._round_schedule.looked = now
        return told

    def _sense(self, machine: str) -> Readings:
        known = self._readings.get(machine)
        if known is None:
            known = self._readings[machine] = self.world.sense(machine)
        return known

    def _look(self) -> tuple[Sense, tzinfo]:
        return self._sense, self.zone

    def _follow_up(self, now: int, events: list[Event]) -> bool:
        """Do what the pool does by itself when something came in: negotiate if that is due, and claim the matches.
        Return whether a cycle was held."""
        if not (self.executing and self.matching) or not self.state.name:
            return False
        due = self._cycle_schedule.due(self.state, now)
        if due:
            self._decide(s.Negotiate(self.id("cycle")), now, events)
            cycle = next((event for event in reversed(events) if isinstance(event, CycleHeld)), None)
            self._cycle_schedule.held(now, cycle)
        local = any(cluster.local and cluster.counts[IDLE] for cluster in self.state.clusters.values())
        if self.state.matches or self.state.claim_ready or local:
            self._decide(s.ClaimMatches(self.id("claim")), now, events)
        return due

    def reschedule(self) -> None:
        """Hold a cycle as soon as that may be, whether it may help or not."""
        self._cycle_schedule.reschedule()

    def nothing_fits(self) -> bool:
        """Return whether nothing runs, and a cycle since the last change found no slot for any job that waits."""
        return not (self.busy() or self._cycle_schedule.may_help)

    def busy(self) -> bool:
        """Return whether jobs run or are about to, or slots measure how fast they are, as jobs that wait may get them
        next; or whether a cycle that may help is still to come, by the configured pace."""
        state = self.state
        begins = state.activations or state.reserved
        benchmarks = any(one.state_activity == BENCHMARKING for one in state.slots.values())
        return bool(begins) or benchmarks or self._cycle_schedule.waits_for_pace(state)

    # The world

    def _perform(self, before: int, events: Sequence[Event]) -> None:
        starts: list[Launch] = []
        forget: list[str] = []
        for offset, event in enumerate(events, 1):
            for effect in effects(self.state, before + offset, event):
                if isinstance(effect, Forget):
                    forget.append(effect.key)
                elif isinstance(effect, Benchmark):
                    self.world.benchmark(effect.slot)
                elif isinstance(effect, Start):
                    activation = self.state.activations.get(effect.key)
                    if activation is not None:
                        starts.append(self._launch(activation))
                elif isinstance(effect, Signal):
                    if starts:
                        self.world.start(starts)
                        starts = []
                    self.world.signal(effect.key, effect.how)
        if starts:
            self.world.start(starts)
        if forget:
            self.world.acknowledge(forget)

    def _launch(self, activation: Activation) -> Launch:
        cluster = self.state.clusters[activation.cluster]
        slot = self.state.slots.get(activation.slot)
        job, machine = begun(cluster.attributes(activation.proc)), {} if slot is None else dict(slot.ad)
        return Launch(activation.key, activation.cluster, activation.proc, activation.slot, job, machine)

    def recover(self) -> None:
        """Find out what became of the activations that were alive when the log was last written, and go on."""
        living = list(self.state.activations.values())
        came = self.world.recover([self._launch(activation) for activation in living])
        for activation in living:
            if activation.stop:  # whether the signal went out before the crash is not known: it may go out twice
                self.world.signal(activation.key, ending(self.state, activation, activation.stop))
            elif self.state.clusters[activation.cluster].status_of(activation.proc) == "Suspended":
                self.world.signal(activation.key, "suspend")
            else:  # it may have been told to go on while nobody was there to tell it
                self.world.signal(activation.key, "continue")
        for slot in self.state.slots.values():
            if slot.state_activity == BENCHMARKING:
                self.world.benchmark(slot.name)
        self.handle(came)

    def next_wake(self) -> int | None:
        """The instant at which something is due by itself."""
        due = next_deadline(self.state)
        cycle = self._cycle_schedule.next(self.state, self.now()) if self.matching else None
        return _earliest(due, self._next_round(), self._leave_in_queue.next(), cycle)

    def _next_round(self) -> int | None:
        """When the policy of a machine is due next."""
        if self.world.simulated:
            self._take_changed_machines()
        return self._round_schedule.next(self.state, self.now(), self._look)

    def _take_changed_machines(self) -> None:
        machines = self.world.changed_machines()
        if machines:
            self._round_schedule.stir(machines)
            for machine in machines:
                self._readings.pop(machine, None)

    def wait(self, until: int | None = None) -> list[s.Stimulus]:
        """Wait for what happens in the world or is due by itself, `until` (by the world's clock) at most, and return
        it, not yet dealt with."""
        wake = self.next_wake() if self.executing else None
        retry = self.world.now() + RETRY if self.unlogged else None
        due_at = (None if wake is None else wake - self._clock_lead, until, retry)
        came = [*self.unlogged, *map(self._in_log_time, self.world.wait(_earliest(*due_at)))]
        self.unlogged = []
        now = self.now()
        due = next_deadline(self.state)
        if due is not None and due <= now:
            came.append(s.FireTimers(self.id("tick")))
        turn = self._next_round() if self.executing else None
        if turn is not None and turn <= now:
            came.append(s.EvaluatePolicies(self.id("round"), self._round_schedule.due(self.state, now, self._look)))
        asked = self._leave_in_queue.next() if self.executing else None
        if asked is not None and asked <= now:
            came.append(s.LeaveQueue(self.id("leave"), self._leave_in_queue.due(now)))
        if self.executing:
            self._woken_by_world = bool(came)
            if not came:
                self._round_schedule.looked = now
        return came

    def _in_log_time(self, said: s.Stimulus) -> s.Stimulus:
        if not self._clock_lead or not isinstance(said, s.Started | s.Ended):
            return said
        return evolve(said, at=said.at + self._clock_lead)

    def step(self, until: int | None = None) -> bool:
        """Wait for the next thing to happen, `until` at most, and deal with it; False if nothing did."""
        came = self.wait(until)
        if not came and not (self.executing and self.matching and self._cycle_schedule.due(self.state, self.now())):
            return False
        self.handle(came)
        return True


def _earliest(*instants: int | None) -> int | None:
    return min((at for at in instants if at is not None), default=None)
