"""Run a pool: write its log (``log_writer``), and carry out timed actions when due (``domain/decide/agenda``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from ...domain.decide import Refusal, agenda
from ...domain.decision.moment import Moment
from ...domain.events import Event
from ...domain.negotiator.schedule import CycleSchedules
from ...domain.ports import stimuli as s
from ...domain.ports.effects import BENCHMARKING, how_to_end, how_to_resume_remote
from ...domain.schedd.policy_times import PolicyPasses
from ...domain.state.negotiators import name_in_events, negotiator_named
from ...domain.state.state import ExecutionPoint, State, acts_as
from ...domain.units import SECOND
from .log_writer import LogWriter, StimulusResult

RETRY = SECOND  #: microseconds before timed work is retried after a failed append
_NAMES: dict[type[s.Stimulus], str] = {
    s.FireTimers: "tick",
    s.EvaluatePolicies: "round",
    s.LeaveQueue: "leave",
    s.EvaluateJobPolicies: "policy",
    s.ScheduleJobs: "schedule",
    s.Defragment: "defrag",
    s.Negotiate: "cycle",
    s.ClaimMatches: "claim",
}
"""Prefixes of the ids of stimuli that the pool itself creates."""


@dataclass(eq=False, repr=False)
class Engine(LogWriter):
    executing: bool = True  #: whether jobs run; if not, requests are decided, but jobs are not matched
    matching: bool = True  #: whether the pool negotiates and claims for its own queue

    def load(self) -> None:
        """Fold the log, and compute the timed actions."""
        super().load()
        agenda.plan_agendas(self._moment())

    def _decide_all(self, stimuli: Sequence[s.Stimulus], now: int, events: list[Event]) -> list[StimulusResult]:
        """Decide each stimulus, and then the timed actions that are due at the same time."""
        answers = super()._decide_all(stimuli, now, events)
        for stimulus in agenda.following_stimuli(self._moment(now), stimuli):
            self._decide(self._with_id(stimulus), now, events)
        return answers

    def _decide(self, stimulus: s.Stimulus, now: int, events: list[Event]) -> StimulusResult:
        answer = super()._decide(stimulus, now, events)
        if isinstance(stimulus, s.EvaluateJobPolicies):
            self.state.agendas.get(PolicyPasses).record_duration(self.state, stimulus, now, self.now() - now)
        return answer

    def _append(self, events: Sequence[Event], before: int, began: int) -> None:
        super()._append(events, before, began)
        agenda.update_after_append(self._moment(), began)

    def _with_id(self, stimulus: s.Stimulus) -> s.Stimulus:
        return replace(stimulus, id=self.id(_NAMES[type(stimulus)]))

    def _moment(self, now: int | None = None) -> Moment[State]:
        world, at = self.world, self.now() if now is None else now
        matching = self.executing and self.matching
        return Moment(
            self.state, at, self.zone, self._sense, self._caches, world.simulated, self._changed_machines, matching
        )

    def _changed_machines(self) -> set[str]:
        machines = self.world.changed_machines()
        for machine in machines:
            self._readings.pop(machine, None)
        return machines

    def reschedule(self, negotiator: str = "") -> None:
        """Run a negotiation cycle as soon as allowed, even if it is not expected to change anything.

        :param negotiator: the negotiator's name, in any case, or an empty string if the pool has only one
        :raises Refusal: the name is unknown, or empty although the pool has several negotiators
        """
        try:
            name = negotiator_named(self.state.settings, negotiator)
        except LookupError as error:
            raise Refusal(str(error)) from None
        self.state.agendas.get(CycleSchedules).reschedule(self.state, name_in_events(name))

    def nothing_fits(self) -> bool:
        """Return True if no job is running, and a cycle since the last change found no slot for any idle job."""
        return not (self.busy() or agenda.waits_for_cycle(self._moment()))

    def busy(self) -> bool:
        """Return True if jobs are running or may start soon; see `agenda.is_busy`."""
        return agenda.is_busy(self._moment())

    def recover(self) -> None:
        """Determine what happened to the running activations and backfill clients since the log was last written, and
        continue them."""
        living = [each for each in self.state.runs_here if not each.deferred or each.files_first]
        has_machines = acts_as(self.state, ExecutionPoint)  # a manager's machines are copies
        machines = self.state.machines.values() if has_machines else ()
        clients = [machine.backfill for machine in machines if machine.backfill is not None]
        remote = {key: self.state.slots[name] for key, name in self.state.remote_runs.items()}
        remote = {
            key: slot for key, slot in remote.items()
            if slot.activation and (not slot.activation.deferred or slot.activation.files_first)
        }  # fmt: skip
        came = self.world.recover(
            [*map(self._launch, living), *map(self._remote_launch, remote.values()), *map(self._client, clients)]
        )
        for client in clients:
            if client.last_signalled:
                self.world.signal(client.key, "hard")
        for activation in living:
            if (
                activation.stop_signal
            ):  # it is unknown whether the signal was sent before the crash, so it may be sent twice
                self.world.signal(activation.key, how_to_end(self.state, activation, activation.stop_signal))
            elif self.state.clusters[activation.cluster].status_of(activation.proc) == "Suspended":
                self.world.signal(activation.key, "suspend")
            else:  # it may have been continued while no pool was running
                self.world.signal(activation.key, "continue")
        for key, slot in remote.items():
            self.world.signal(key, how_to_resume_remote(slot))
        for slot in self.state.slots.values() if has_machines else ():
            if slot.state_activity == BENCHMARKING:
                self.world.benchmark(slot.name)
        for position in self.state.mails:  # some may have been sent before the log could say so
            self.world.send(self._mail(position))
        self.handle(came)
        for stimulus in [*agenda.reread_schedules(self._moment())]:
            self.handle([self._with_id(stimulus)])

    def next_wake(self) -> int | None:
        """Return the time of the next timed action."""
        return agenda.next_deadline(self._moment())

    def wait(self, until: int | None = None) -> list[s.Stimulus]:
        """Wait until something happens in the world or a timed action is due, at the latest until `until` (by the
        world's clock). Return the stimuli, which the caller must handle. Raise `LogError` if the log cannot be read:
        then the next call returns the stimuli of this one, too."""
        wake = self._retry_at()
        if wake is None:
            wake = self.next_wake() if self.executing else None
            wake = None if wake is None else wake - self._clock_lead
        instants = [at for at in (wake, until) if at is not None]
        self.unlogged += map(self._in_log_time, self.world.wait(min(instants, default=None)))
        due: list[s.Stimulus] = []
        if self._retry_at() is None:  # after a failed append, nothing is due before the retry
            look = self._moment()
            timed = agenda.due_stimuli(look, self.unlogged) if self.executing else agenda.timer_stimuli(look)
            due += map(self._with_id, timed)
        came, self.unlogged = self.unlogged, []
        return [*came, *due]

    def _retry_at(self) -> int | None:
        """Return when to retry after a failed append, by the world's clock, or None if no retry is pending."""
        refused = self._refused_at
        if refused is None or not refused <= self.world.now() < refused + RETRY:  # or the clock was set back
            return None
        return refused + RETRY

    def _in_log_time(self, stimulus: s.Stimulus) -> s.Stimulus:
        timed_kinds = s.ActivationStarted | s.ActivationEnded | s.BackfillRunning | s.BackfillEnded
        if not self._clock_lead or not isinstance(stimulus, timed_kinds):
            return stimulus
        return replace(stimulus, at=stimulus.at + self._clock_lead)

    def step(self, until: int | None = None) -> bool:
        """Wait for the next stimulus, but not longer than `until`, and handle it. Return False if there was none."""
        came = self.wait(until)
        if not came and (self._retry_at() is not None or not agenda.has_following_stimulus(self._moment())):
            return False
        self.handle(came)
        return True
