"""The pool at work: what writes its log (``log_writer``), and knows what is due by itself, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from attrs import define, field
from msgspec.structs import replace

from ...domain.decide import Refusal
from ...domain.decide.timers import next_deadline
from ...domain.defrag.schedule import next_poll
from ...domain.events import CycleHeld, Event
from ...domain.negotiator.schedules import CycleSchedules
from ...domain.ports import stimuli as s
from ...domain.ports.effects import BENCHMARKING, ending
from ...domain.ports.sensor_readings import Sense
from ...domain.schedd.local_jobs import next_look
from ...domain.state.negotiators import named, short
from .deferrals import Deferrals
from .leave_in_queue import LeaveInQueue
from .log_writer import LogWriter
from .policy_passes import PolicyPasses
from .round_schedule import RoundSchedule

SECOND = 1_000_000
RETRY = SECOND  #: microseconds until what was to be done is tried again after its append has failed


@define
class Engine(LogWriter):
    executing: bool = True  #: whether jobs are run: if not, requests are decided and nothing is matched
    matching: bool = True  #: whether the pool negotiates and claims for its own queue
    _cycle_schedules: CycleSchedules = field(factory=CycleSchedules)
    _round_schedule: RoundSchedule = field(init=False)
    _leave_in_queue: LeaveInQueue = field(factory=LeaveInQueue)
    _deferrals: Deferrals = field(factory=Deferrals)
    _policy_passes: PolicyPasses = field(factory=PolicyPasses)
    _woken_by_world: bool = False  #: whether what is handled next is what the world said at this instant
    _told: int = 0  #: of how many of the events that are being appended the agenda of rounds knows
    _local_asked: tuple[int, int] = (-1, 0)  #: at which position of the log, and when, local jobs were let in last
    _cycles_held: Sequence[str] = ()  #: the negotiators whose cycles are among what is being appended

    def __attrs_post_init__(self) -> None:
        self._round_schedule = RoundSchedule(self.world.simulated)

    # Deciding

    def _loaded(self) -> None:
        self._cycle_schedules.restart()
        self._round_schedule.reset(self._caches)
        self._leave_in_queue.reset(self._state, self.zone)
        self._deferrals.reset()
        self._policy_passes.reset(self._state)

    def _decided(self, stimulus: s.Stimulus, events: Sequence[Event], now: int) -> None:
        if isinstance(stimulus, s.LeaveQueue):
            self._leave_in_queue.asked(self.state, stimulus.jobs, now, self.zone)
        if isinstance(stimulus, s.EvaluateJobPolicies):
            self._policy_passes.took(self.state, stimulus, now, self.now() - now)
            self._policy_passes.asked(self.state, stimulus, now, self.zone)
        self._policy_passes.note(self.state, events, now)
        for event in events:
            self._cycle_schedules.on_event(event)

    def _go_on(self, stimuli: Sequence[s.Stimulus], now: int, events: list[Event]) -> None:
        if any(isinstance(stimulus, s.ConfigurePool) for stimulus in stimuli):
            self._read_schedules(now, events)
        self._told = self._hold_due(stimuli, now, events)
        self._cycles_held = self._follow_up(now, events)

    def _appended(self, now: int, events: Sequence[Event]) -> None:
        if self._cycles_held:
            self._cycle_schedules.rest(self.state, self._cycles_held, now, self.now())
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

    def _follow_up(self, now: int, events: list[Event]) -> Sequence[str]:
        """Do what the pool does by itself when something came in: negotiate if that is due, and claim the matches.
        Return the negotiators whose cycles were held."""
        if not (self.executing and self.matching) or not self.state.name:
            return ()
        self._follow_deferrals(now)
        if self._poll_is_due(now):
            self._decide(s.Defragment(self.id("defrag")), now, events)
        due = self._cycle_schedules.due(self.state, now)
        for negotiator in due:
            self._decide(s.Negotiate(self.id("cycle"), negotiator), now, events)
            held = (event for event in reversed(events) if isinstance(event, CycleHeld))
            cycle = next((event for event in held if event.negotiator == negotiator), None)
            self._cycle_schedules.held(negotiator, now, cycle)
        if self.state.matches or self.state.claim_ready or self._local_due(now):
            self._decide(s.ClaimMatches(self.id("claim")), now, events)
            self._local_asked = self.state.position, now
        return due

    def _poll_is_due(self, now: int) -> bool:
        """Return whether the defragmentation is to look at the pool."""
        due = next_poll(self.state)
        return due is not None and due <= now

    def _local_due(self, now: int) -> bool:
        """Return whether jobs of the local universe, which need no cycle, may be to be started: whether any waits, and
        was not found kept already as of this instant."""
        waits = self.state.idle_local > self._deferrals.asleep_local
        return waits and self._local_asked != (self.state.position, now) and not self._cycle_schedules.paused(now)

    def _follow_deferrals(self, now: int) -> None:
        """See which jobs cannot be matched yet."""
        if self._deferrals.follow(self.state, now, self.zone):
            self._cycle_schedules.woke()
        self._cycle_schedules.asleep = self._deferrals.asleep

    def _read_schedules(self, now: int, events: list[Event]) -> None:
        """Give all jobs that wait by a schedule their next time: HTCondor's schedd does so when it starts, and when it
        reads its configuration again."""
        self._deferrals.follow(self.state, now, self.zone)
        jobs = self._deferrals.scheduled(self.state)
        if jobs:
            self._decide(s.ScheduleJobs(self.id("schedule"), jobs, again=True), now, events)

    def reschedule(self, negotiator: str = "") -> None:
        """Hold a cycle as soon as that may be, whether it may help or not.

        :param negotiator: whose, of several, in any case of letters; empty: the one that there is
        :raises Refusal: there is none of the name, or several and none is named
        """
        try:
            name = named(self.state.settings, negotiator)
        except LookupError as error:
            raise Refusal(str(error)) from None
        self._cycle_schedules.reschedule(short(name))

    def nothing_fits(self) -> bool:
        """Return whether nothing runs, and a cycle since the last change found no slot for any job that waits."""
        return not (self.busy() or self._cycle_schedules.waits_for_cycle(self.state))

    def busy(self) -> bool:
        """Return whether jobs run, cool down or are about to run, mails are on their way, or slots measure how fast
        they are, as jobs that wait may get them next; or whether a cycle that may help is still to come."""
        state = self.state
        begins = state.activations or state.reserved
        benchmarks = any(one.state_activity == BENCHMARKING for one in state.slots.values())
        cycle = self._cycle_schedules.waits_for_cycle(state) or self._deferrals.next() is not None
        return bool(begins or state.mails or state.cooling) or benchmarks or (self.matching and cycle)

    # The world

    def recover(self) -> None:
        """Find out what became of the activations and clients that were alive when the log was last written, and go
        on."""
        living = [each for each in self.state.activations.values() if not each.deferred]
        clients = [machine.backfill for machine in self.state.machines.values() if machine.backfill is not None]
        came = self.world.recover([*map(self._launch, living), *map(self._client, clients)])
        for client in clients:
            if client.told:
                self.world.signal(client.key, "hard")
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
        for position in self.state.mails:  # some may have been sent before the log could say so
            self.world.send(self._mail(position))
        self.handle(came)
        self._follow_deferrals(self.now())
        jobs = self._deferrals.scheduled(self.state)
        if jobs:
            self.handle([s.ScheduleJobs(self.id("schedule"), jobs, again=True)])

    def next_wake(self) -> int | None:
        """The instant at which something is due by itself."""
        due = next_deadline(self.state)
        self._follow_deferrals(self.now())
        cycle = self._cycle_schedules.next(self.state, self.now()) if self.matching else None
        poll = next_poll(self.state) if self.matching else None
        local = next_look(self.state, self.now()) if self.matching else None
        asked = _earliest(self._leave_in_queue.next(), self._policy_passes.next(), local)
        return _earliest(due, self._next_round(), asked, self._deferrals.next(), cycle, poll)

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
        wake = self._retry_at()
        if wake is None:
            wake = self.next_wake() if self.executing else None
            wake = None if wake is None else wake - self._clock_lead
        came = [*self.unlogged, *map(self._in_log_time, self.world.wait(_earliest(wake, until)))]
        self.unlogged = []
        if self._retry_at() is not None:  # a full disk is not asked again and again: nothing is due before that
            return came
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
        policies = self._policy_passes.next() if self.executing else None
        if policies is not None and policies <= now:
            came.append(replace(self._policy_passes.due(now), id=self.id("policy")))
        if self.executing:
            self._follow_deferrals(now)
            expired = self._deferrals.expired()
            if expired:
                came.append(s.ScheduleJobs(self.id("schedule"), expired))
            self._woken_by_world = bool(came)
            if not came:
                self._round_schedule.looked = now
        return came

    def _retry_at(self) -> int | None:
        """Until when the pool rests, by the world's clock, since its log could not be written; None if it need not."""
        refused = self._refused_at
        if refused is None or not refused <= self.world.now() < refused + RETRY:  # or the clock was set back
            return None
        return refused + RETRY

    def _in_log_time(self, said: s.Stimulus) -> s.Stimulus:
        if not self._clock_lead or not isinstance(said, s.Started | s.Ended | s.BackfillRunning | s.BackfillEnded):
            return said
        return replace(said, at=said.at + self._clock_lead)

    def step(self, until: int | None = None) -> bool:
        """Wait for the next thing to happen, `until` at most, and deal with it; False if nothing did."""
        came = self.wait(until)
        if not came and (self._retry_at() is not None or not self._work_is_due()):
            return False
        self.handle(came)
        return True

    def _work_is_due(self) -> bool:
        """Return whether a cycle or a poll of the defragmentation is due, or a job of the local universe may begin."""
        if not (self.executing and self.matching):
            return False
        now = self.now()
        return self._poll_is_due(now) or bool(self._cycle_schedules.due(self.state, now)) or self._local_due(now)


def _earliest(*instants: int | None) -> int | None:
    return min((at for at in instants if at is not None), default=None)
