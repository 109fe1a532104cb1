"""Write a log: decide stimuli, append the events, and perform their effects.

Stimuli that arrive together are decided one by one and appended as one batch (group commit). After the append, commands
are answered and effects performed. The state is folded from the log: if an append fails, the state is discarded, and
the log is folded again before the next decision.

Short commands need only this module and `NullWorld`; ``engine`` adds timed actions.
"""

from __future__ import annotations

import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Any

import msgspec

from ...domain.decide import Refusal, Tables, decide
from ...domain.events import Ad, Event, JobExited, JobsEdited, JobsTransitioned
from ...domain.fold.evolve import fold
from ...domain.names import JobId
from ...domain.ports import stimuli as s
from ...domain.ports.effects import Benchmark, DeleteRecord, Send, Signal, Start, StartClient, effects
from ...domain.ports.log import EventStore, LogError
from ...domain.ports.sensor_readings import Readings
from ...domain.ports.world import ClientLaunch, Launch, Mail, World
from ...domain.schedd.constraints import EvaluationBudget, NeedsPreEvaluation
from ...domain.startd.slot_records import with_slot_records
from ...domain.state.caches import Caches
from ...domain.state.job_ad import launch_ad, unquoted
from ...domain.state.pool_settings import TRANSFER_LIMITS
from ...domain.state.records import Activation, BackfillClient, Slot
from ...domain.state.state import AccessPoint, State, acts_as
from .requests import POLICY
from .snapshot import Snapshot

Subscriber = Callable[[int, Sequence[Event]], None]  #: called with the first position and the events of each append
_REPORTED_ONCE = (
    s.ActivationStarted
    | s.ActivationChirped
    | s.ActivationMeasured
    | s.ActivationEnded
    | s.BenchmarksDone
    | s.DevicesFailed
    | s.BackfillRunning
    | s.BackfillEnded
)  #: what the world says once and will not say again
_ENDING = JobExited | JobsEdited | JobsTransitioned  #: the events after which jobs may leave the queue
_MAX_STARTS = 1000  #: how many jobs are started together, because the ads of a start take several kB


class StimulusResult(msgspec.Struct):
    """The result of a stimulus: an answer, the reason for a rejection, or the jobs that must be evaluated first."""

    text: str = "null"  #: the answer as JSON; for a command about many separate jobs it can be megabytes long
    refusal: str = ""
    code: str = ""  #: the kind of rejection, for programs
    tool: str = ""  #: the message of the HTCondor tool, if it differs
    first: NeedsPreEvaluation | None = None  #: nothing was decided, because these jobs must be evaluated first

    @property
    def value(self) -> Any:
        return msgspec.json.decode(self.text)


@dataclass(eq=False, repr=False)
class LogWriter:
    """Owns one state and writes one log."""

    log: EventStore
    world: World
    tables: Tables | None = None
    snapshot: Snapshot | None = None  #: stores the state between two starts
    zone: tzinfo = UTC  #: the time zone of the machines' local times (ClockMin, ClockDay)
    _state: State = field(default_factory=State)
    _caches: Caches = field(default_factory=Caches)  #: values computed from the state; discarded together with it
    _stale: bool = True  #: whether the log must be folded again: it was not read yet, or an append has failed
    _subscribers: list[Subscriber] = field(default_factory=list)
    _serial: int = 0
    _clock_lead: int = 0
    _untold: deque[tuple[int, Sequence[Event]]] = field(default_factory=deque)
    _publishing: bool = False
    _unperformed: deque[tuple[int, Sequence[Event]]] = field(default_factory=deque)
    performing: bool = False  #: whether effects are being performed
    deadline_of: Callable[[Slot], int] = lambda slot: 0  #: the deadline (``World.renew``) of a slot's external job
    _readings: dict[str, Readings] = field(default_factory=dict)  #: of this instant, by machine: each is asked once
    unlogged: list[s.Stimulus] = field(default_factory=list)  #: what the log could not take, until the next wait
    _refused_at: int | None = None  #: when the log last failed to take an append or to be read, by the world's clock

    @property
    def state(self) -> State:
        """Return the state of the folded log. Callers must not change it. Raise `LogError` if the log must be folded
        again and cannot be read."""
        if self._stale:
            try:
                self.load()
            except LogError:
                self._refused_at = self.world.now()
                raise
        return self._state

    def now(self) -> int:
        """Return the log's time: the world's time or, if the world's clock was set back, a time that continues from the
        log's last event."""
        self._clock_lead = max(self._clock_lead, self.state.at - self.world.now())
        return self.world.now() + self._clock_lead

    def load(self) -> None:
        """Fold the log."""
        # The folded state is long-lived; repeatedly searching it for garbage would cost a tenth of the time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            state = State() if self.snapshot is None else self.snapshot.load_state(self.log)
            self._state = fold(self.log.read(state.position), state)
            if self.snapshot is not None:
                self.snapshot.store_state(self.log, self._state)
        finally:
            if collecting:
                gc.enable()
        self._stale = False
        self._caches = Caches()

    def close(self) -> None:
        """Store the state for the next start, and close the log."""
        if self.snapshot is not None and not self._stale:
            self.snapshot.store_state(self.log, self._state)
        self.log.close()

    def _tables(self) -> Tables:
        if self.tables is None:
            self.tables = Tables(dialect=self.state.dialect.name)
        return self.tables

    def read_on(self) -> None:
        """Fold the events after the state's position in the log."""
        fold(self.log.read(self.state.position), self.state)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def id(self, kind: str) -> str:
        """Return an id, unique in the log, for a stimulus that the pool creates."""
        self._serial += 1
        return f"{kind}-{self.state.position + 1}-{self._serial}"

    def handle(self, stimuli: Sequence[s.Stimulus], patience: EvaluationBudget | None = None) -> list[StimulusResult]:
        """Decide `stimuli` and their immediate consequences, append the events, and perform the effects.

        Return one answer for each stimulus, after the append. A rejected stimulus changes nothing. `patience` limits
        how many jobs are evaluated individually against a command's constraint. None means no limit.

        :raises LogError: the append failed, or the log cannot be read; nothing was changed
        """
        events: list[Event] = []
        try:
            before, now = self.state.position, self.now()
            self._caches.get(EvaluationBudget).copy_from(patience or EvaluationBudget())
            self._readings.clear()
            answers = self._decide_all(stimuli, now, events)
            self._append(events, before, now)
        except BaseException:  # also KeyboardInterrupt
            self._stale = True  # the state contains events that are not in the log
            self._refused_at = self.world.now()
            self.unlogged += [stimulus for stimulus in stimuli if isinstance(stimulus, _REPORTED_ONCE)]
            raise
        self._refused_at = None
        if events:
            self._unperformed.append((before, events))
        self._perform_effects()
        self._publish()
        return answers

    def ask(self, stimulus: s.Stimulus) -> Any:
        """Decide a stimulus and return its answer. Raise `Refusal` if it is rejected, and the errors of ``handle``."""
        (answer,) = self.handle([stimulus])
        if answer.refusal:
            raise Refusal(answer.refusal)
        return answer.value

    def _append(self, events: Sequence[Event], before: int, began: int) -> None:
        """Append the events, which were decided at the time `began` for a log that ends at position `before`."""
        if events:
            self.log.append(events, before)

    def _decide_all(self, stimuli: Sequence[s.Stimulus], now: int, events: list[Event]) -> list[StimulusResult]:
        """Decide each stimulus. Jobs that have ended leave the queue before a stimulus of another kind is decided, so
        that a single event can record many ends."""
        answers: list[StimulusResult] = []
        looked = 0
        for stimulus in stimuli:
            if not isinstance(stimulus, s.ActivationEnded):
                looked = self._let_leave(now, events, looked)
            answers.append(self._decide(stimulus, now, events))
        self._let_leave(now, events, looked)
        return answers

    def _let_leave(self, now: int, events: list[Event], looked: int) -> int:
        """Remove jobs from the queue that ended, or changed after their end, in the events from ``looked`` on. Return
        the new number of events."""
        new_events = events[looked:]
        if any(isinstance(event, _ENDING) for event in new_events) and acts_as(self.state, AccessPoint):
            from ...domain.schedd.leave_queue import jobs_to_evaluate

            if jobs := jobs_to_evaluate(self.state, new_events):
                self._decide(s.LeaveQueue(self.id("leave"), jobs), now, events)
        return len(events)

    def _publish(self) -> None:
        """Pass the events to the subscribers, in the order of the log. If a subscriber causes further events, these
        follow after all subscribers have received the event that caused them."""
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

    def _decide(self, stimulus: s.Stimulus, now: int, events: list[Event]) -> StimulusResult:
        tables = Tables() if isinstance(stimulus, s.FoundPool) else self._tables()
        position = self.state.position
        try:
            decided = decide(self.state, stimulus, now, tables, self._sense, self.zone, self._caches)
        except Refusal as refusal:
            if self.state.position != position:
                raise
            return StimulusResult(refusal=str(refusal), code=refusal.code, tool=refusal.tool)
        except NeedsPreEvaluation as first:
            return StimulusResult(first=first)
        events += decided
        earlier = StimulusResult(self.state.answers.get(stimulus.id, "null"))
        if earlier.text.startswith("{") and "refusal" in earlier.value:
            reason = earlier.value["refusal"]  # a rejection by the schedd's policy; no other rejection is recorded
            return StimulusResult(refusal=reason, code=POLICY, tool=reason.rstrip())
        return earlier

    def _sense(self, machine: str) -> Readings:
        readings = self._readings.get(machine)
        if readings is None:
            record = self.state.machines.get(machine)
            if record is not None:
                self.world.describe(record.ad)
            readings = self.world.sense(machine)
            if readings.records and record is not None:
                readings = with_slot_records(readings, record.slots.values())
            self._readings[machine] = readings
        return readings

    def _perform_effects(self) -> None:
        """Perform effects in the order of the log. Effects of a nested request (which a virtual job's behaviour can
        make) wait for the others. After an error, the effects of the same append are performed again."""
        if self.performing:
            return
        self.performing = True
        try:
            while self._unperformed:
                before, events = self._unperformed[0]
                self._perform(before, events)
                self._unperformed.popleft()
                self._untold.append((before + 1, events))
        finally:
            self.performing = False

    def _perform(self, before: int, events: Sequence[Event]) -> None:
        starts: list[Launch | ClientLaunch] = []
        forget: list[str] = []
        for offset, event in enumerate(events, 1):
            for effect in effects(self.state, before + offset, event):
                if isinstance(effect, DeleteRecord):
                    forget.append(effect.key)
                elif isinstance(effect, Benchmark):
                    self.world.benchmark(effect.slot)
                elif isinstance(effect, Send):
                    if effect.mail in self.state.mails:
                        self.world.send(self._mail(effect.mail))
                elif isinstance(effect, Start):
                    starts += self.launches([effect.key])
                    if len(starts) >= _MAX_STARTS:
                        self.world.start(starts)
                        starts = []
                elif isinstance(effect, StartClient):
                    machine = self.state.machines.get(effect.machine)
                    if machine is not None and machine.backfill is not None:
                        starts.append(self._client(machine.backfill))
                elif isinstance(effect, Signal):
                    if starts:
                        self.world.start(starts)
                        starts = []
                    self.world.signal(effect.key, effect.how)
        if starts:
            self.world.start(starts)
        if forget:
            self.world.acknowledge(forget)

    def _mail(self, position: int) -> Mail:
        due = self.state.mails[position]
        return Mail(position, due.to, due.subject, due.text)

    def launches(self, keys: Iterable[str]) -> list[Launch]:
        """Return the launches of the runs with these keys that have not ended."""
        state, launches = self.state, []
        for key in keys:
            if key in state.activations:
                launches.append(self._launch(state.activations[key]))
            elif key in state.remote_runs:
                launches.append(self._remote_launch(state.slots[state.remote_runs[key]]))
        return launches

    def _launch(self, activation: Activation) -> Launch:
        cluster = self.state.clusters[activation.cluster]
        slot = self.state.slots.get(activation.slot)
        owner = self.state.owner(cluster)
        ids = activation.cluster, activation.proc
        job = launch_ad(cluster.attributes(activation.proc), self.state.name, ids)
        machine = {} if slot is None else slot.ad.as_plain_dict()
        limits = self._transfer_limits()
        waits = bool(activation.deferred)
        return Launch(activation.key, *ids, activation.slot, job, machine, owner, limits, waits=waits)

    def _remote_launch(self, slot: Slot) -> Launch:
        """Return the launch of an external access point's job."""
        starter, claim = slot.activation, slot.claim
        assert starter is not None and claim is not None, "a run needs a claim until its end"
        owner = unquoted(starter.ad.get("Owner", "")) or claim.submitter.partition("@")[0]
        job, machine = JobId.parse(starter.job), slot.ad.as_plain_dict()
        ad = launch_ad(starter.ad, claim.holder.rpartition("/")[2], job)
        limits, deadline = self._transfer_limits(), self.deadline_of(slot)
        waits = bool(starter.deferred)
        return Launch(starter.key, *job, slot.name, ad, machine, owner, limits, deadline, claim.holder, waits)

    def renew_deadlines(self) -> None:
        """Set the deadlines of the processes of all external jobs again, from ``deadline_of``. Deadlines in the past
        renew nothing; 0 means that there is none."""
        deadlines = {key: self.deadline_of(self.state.slots[name]) for key, name in self.state.remote_runs.items()}
        now = self.world.boot_time()
        self.world.renew({key: deadline for key, deadline in deadlines.items() if not deadline or deadline > now})

    def _transfer_limits(self) -> Ad:
        return {name: self.state.settings[name] for name in TRANSFER_LIMITS if name in self.state.settings}

    def _client(self, client: BackfillClient) -> ClientLaunch:
        slot = self.state.slots.get(client.slot)
        return ClientLaunch(client.key, client.slot, client.client, {} if slot is None else slot.ad.as_plain_dict())


class NullWorld(World):
    """A world that has only a clock."""

    def now(self) -> int:
        return time.time_ns() // 1000
