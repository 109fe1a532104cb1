"""The pool at work: what writes its log (``log_writer``), and knows what is due by itself, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from attrs import define, evolve, field

from ...domain.decide import load_rules
from ...domain.decide.timers import next_deadline
from ...domain.events import CycleHeld, Event
from ...domain.negotiator.schedule import CycleSchedule
from ...domain.ports import stimuli as s
from ...domain.ports.effects import BENCHMARKING, ending
from ...domain.ports.sensor_readings import Sense
from ...domain.state.cluster import IDLE
from .leave_in_queue import LeaveInQueue
from .log_writer import LogWriter
from .round_schedule import RoundSchedule

SECOND = 1_000_000
RETRY = SECOND  #: microseconds until what the world said is tried again after its append has failed


@define
class Engine(LogWriter):
    executing: bool = True  #: whether jobs are run: if not, requests are decided and nothing is matched
    matching: bool = True  #: whether the pool negotiates and claims for its own queue
    _cycle_schedule: CycleSchedule = field(factory=CycleSchedule)
    _round_schedule: RoundSchedule = field(init=False)
    _leave_in_queue: LeaveInQueue = field(factory=LeaveInQueue)
    _woken_by_world: bool = False  #: whether what is handled next is what the world said at this instant
    _told: int = 0  #: of how many of the events that are being appended the agenda of rounds knows
    _cycle_held: bool = False  #: whether a cycle is among what is being appended

    def __attrs_post_init__(self) -> None:
        load_rules()
        self._round_schedule = RoundSchedule(self.world.simulated)

    # Deciding

    def _loaded(self) -> None:
        self._cycle_schedule.restart()
        self._round_schedule.reset(self._caches)
        self._leave_in_queue.reset(self._state, self.zone)

    def _decided(self, stimulus: s.Stimulus, events: Sequence[Event], now: int) -> None:
        if isinstance(stimulus, s.LeaveQueue):
            self._leave_in_queue.asked(self.state, stimulus.jobs, now, self.zone)
        for event in events:
            self._cycle_schedule.on_event(event)

    def _go_on(self, stimuli: Sequence[s.Stimulus], now: int, events: list[Event]) -> None:
        self._told = self._hold_due(stimuli, now, events)
        self._cycle_held = self._follow_up(now, events)

    def _appended(self, now: int, events: Sequence[Event]) -> None:
        if self._cycle_held:
            self._cycle_schedule.rest(self.state, now, self.now())
        self._round_schedule.note(self.state, events[self._told :])

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
        next; or whether a cycle that may help is still to come."""
        state = self.state
        begins = state.activations or state.reserved
        benchmarks = any(one.state_activity == BENCHMARKING for one in state.slots.values())
        return bool(begins) or benchmarks or (self.matching and self._cycle_schedule.waits_for_cycle(state))

    # The world

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
