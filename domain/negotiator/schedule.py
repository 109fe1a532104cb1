"""When each negotiator of a pool holds its cycles.

While jobs wait or priorities change, cycles are at most NEGOTIATOR_INTERVAL apart, and requests cause earlier cycles.
If no pace is configured (NEGOTIATOR_CYCLE_DELAY), every change that may lead to a different result requests a cycle. If
a pace is configured, only the access point requests cycles, for new and released jobs. An administrator can always
request a cycle. A requested cycle waits for a while after a cycle that preempted jobs, and for as long as the last
cycle took. While the machine cannot start jobs, for example because its disk is full, no cycles are held, because they
would only lead to more failing starts.

The log records when cycles were held and what happened since (``Cycles``, ``Queue`` and ``Slots``). This module stores
what no event records: a cycle without a result, the duration of the last cycle, and a request by an administrator.

All times are in microseconds, by the log's clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from ..events import CycleHeld
from ..names import NEGOTIATOR
from ..state import negotiators
from ..state.state import Manager, Queue
from ..units import SECOND
from .accounting import accounts_of

SETTLES: Final = 5 * SECOND
"""How long a requested cycle waits after a cycle that preempted a job, or after a startd ended a claim (the default of
NEGOTIATOR_MIN_INTERVAL). The preempted job is idle again, and could preempt the other job in turn."""


class _UnloggedFacts(Struct):
    """The facts about a negotiator's last cycle, and about later requests, that no event records."""

    position: int = 0  #: the log position after the last cycle
    at: int = 0  #: when the last cycle was held
    appended: bool = True  #: whether the last cycle is in the log
    left_no_event: bool = False  #: whether the last cycle left no event
    jobs_woken: bool = False  #: whether jobs that could not be matched before can be matched now
    rescheduled: bool = False  #: whether an administrator requested a cycle
    rests_until: int = 0  #: when requested cycles may be held again; limits the time that cycles take up

    def follow_clock(self, now: int) -> None:
        """Discard times in the future after the clock was set back. A cycle without a result is not in the log, so the
        log's clock does not continue from its time."""
        if now < self.at:
            self.at = self.rests_until = now


class _Schedule(Struct):
    state: Manager
    settings: Mapping[str, str]  #: the settings of this negotiator
    name: str  #: the name in events
    memory: _UnloggedFacts
    asleep: int

    def is_due(self, now: int) -> bool:
        """Check whether a cycle is due now."""
        if are_starts_paused(self.state, now) and not self.memory.rescheduled:
            return False
        if self._has_ready_request(now):
            return now >= self._rests_until()
        due = self._interval_end()
        return due is not None and now >= due and not (self.has_pace() and now < self._rests_until())

    def next_due(self, now: int) -> int | None:
        """Return when the next cycle may be due, or None if nothing known would cause one."""
        if are_starts_paused(self.state, now) and not self.memory.rescheduled:
            return self.state.paused_until
        instants = []
        due, rests = self._interval_end(), self._rests_until()
        if due is not None:
            instants.append(max(due, rests) if self.has_pace() or self._has_ready_request(now) else due)
        if self._is_requested():
            instants += [each for each in (self._settles_at(), rests) if each > now]
        return min(instants, default=None)

    def has_future_cycle(self) -> bool:
        """Check whether a useful cycle is still to come, after the pace, the rest, or the time for preemptions."""
        return self._may_help() and self._has_matchable_jobs()

    def set_rest(self, began: int, ended: int) -> None:
        """Set how long requested cycles rest after the last cycle: as long as the cycle and its append took, but at
        most one interval, and at least as long as the configured pace requires. In virtual time, a cycle takes no
        time."""
        took = min(max(0, ended - began), self._interval())
        self.memory.rests_until = max(ended + took, self._earliest_start(began, ended))

    def has_pace(self) -> bool:
        """Check whether a pace of cycles is configured. Without a pace, a cycle is held whenever it may be useful."""
        return "NEGOTIATOR_CYCLE_DELAY" in self.settings

    def _earliest_start(self, began: int, ended: int) -> int:
        if not self.has_pace():
            return ended
        delay, least = map(self._setting, ("NEGOTIATOR_CYCLE_DELAY", "NEGOTIATOR_MIN_INTERVAL"))
        return max(ended + delay, began + least)

    def _rests_until(self) -> int:
        _, logged = self.state.cycles.held.get(self.name, (0, 0))
        return max(self.memory.rests_until, self._earliest_start(logged, logged))

    def _last_cycle(self) -> tuple[int, int]:
        position, at = self.state.cycles.held.get(self.name, (0, 0))
        return max(position, self.memory.position), max(at, self.memory.at)

    def _settles_at(self) -> int:
        return max(self.state.cycles.preempted.get(self.name, 0), self.state.claims_revoked) + SETTLES

    def _may_help(self) -> bool:
        """Check whether more jobs, better slots or larger shares may give a cycle another result than the last one."""
        state = self.state
        news = max(
            state.job_change_position,
            state.slot_change_position,
            state.cycles.account_change_position,
            state.configured,
        )
        resumes = self.name in self.state.cycles.cut_short and not self.memory.left_no_event
        return self.memory.jobs_woken or resumes or news > self._last_cycle()[0]

    def _has_matchable_jobs(self) -> bool:
        return self.state.idle > self.asleep

    def _has_ready_request(self, now: int) -> bool:
        return self._is_requested() and (self.memory.rescheduled or now >= self._settles_at())

    def _is_requested(self) -> bool:
        if self.memory.rescheduled or not self._has_matchable_jobs():
            return self.memory.rescheduled
        return self.state.cycle_requested > self._last_cycle()[0] if self.has_pace() else self._may_help()

    def _interval_end(self) -> int | None:
        """Return when the interval ends, or None if no cycle is due, because no jobs wait and no slots are used."""
        at = self._last_cycle()[1]
        if self._has_matchable_jobs():
            return at + self._interval()
        is_named, submitters = negotiators.NEGOTIATORS in self.state.settings, self.state.submitters
        if any(record.slots for record in (accounts_of(submitters, self.name) if is_named else submitters).values()):
            updated = self.state.accounted.get(self.name, 0) if self.name else self.state.priorities_updated_at
            return max(at, updated) + self._interval()
        return None

    def _interval(self) -> int:
        return self._setting("NEGOTIATOR_INTERVAL") or SECOND

    def _setting(self, name: str) -> int:
        return round(float(self.settings[name]) * SECOND)


class CycleSchedules(Struct):
    """The schedules of all negotiators. Unless the configuration defines several, there is one, with an empty name."""

    asleep: int = 0  #: the number of jobs waiting for a slot that cannot be matched before a later time
    _memories: dict[str, _UnloggedFacts] = field(default_factory=dict)
    _settings: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _configured: int = 0

    def record_matchable_jobs(self, state: Manager) -> None:
        """Record that jobs which could not be matched before can be matched now."""
        for schedule in self._schedules(state):
            schedule.memory.jobs_woken = True

    def reschedule(self, state: Manager, negotiator: str = "") -> None:
        """Let a negotiator hold a cycle as soon as possible, even if no change suggests a different result."""
        for schedule in self._schedules(state):
            if schedule.name == negotiator:
                schedule.memory.rescheduled = True

    def record_cycle(self, state: Manager, negotiator: str, now: int, cycle: CycleHeld | None) -> None:
        """Record that a cycle was held. The cycle's own events do not request another cycle.

        :param cycle: the cycle's event; None: it left no event
        """
        rests_until = self._memory(negotiator).rests_until
        self._memories[negotiator] = _UnloggedFacts(
            state.position, now, appended=False, left_no_event=cycle is None, rests_until=rests_until
        )

    def record_duration(self, state: Manager, began: int, ended: int) -> None:
        """Record the duration of the cycles held at the time ``began``, including their append."""
        for schedule in self._schedules(state):
            if not schedule.memory.appended:
                schedule.memory.appended = True
                schedule.set_rest(began, ended)

    def due_negotiators(self, state: Manager, now: int) -> list[str]:
        """Return the negotiators whose cycle is due now, in order."""
        return [schedule.name for schedule in self._schedules_at(state, now) if schedule.is_due(now)]

    def next_due(self, state: Manager, now: int) -> int | None:
        """Return when the next cycle of any negotiator may be due."""
        instants = [schedule.next_due(now) for schedule in self._schedules_at(state, now)]
        return min((at for at in instants if at is not None), default=None)

    def wait_for_cycle(self, state: Manager) -> bool:
        """Check whether any negotiator still has a useful cycle to hold."""
        return any(schedule.has_future_cycle() for schedule in self._running_schedules(state))

    def _memory(self, name: str) -> _UnloggedFacts:
        return self._memories.setdefault(name, _UnloggedFacts())

    def _schedules_at(self, state: Manager, now: int) -> Iterator[_Schedule]:
        for schedule in self._running_schedules(state):
            schedule.memory.follow_clock(now)
            yield schedule

    def _running_schedules(self, state: Manager) -> Iterator[_Schedule]:
        """Yield the schedules of the negotiators that are not turned off."""
        schedules, off = self._schedules(state), state.had.off
        return (each for each in schedules if (each.name or NEGOTIATOR) not in off) if off else schedules

    def _schedules(self, state: Manager) -> Iterator[_Schedule]:
        if negotiators.NEGOTIATORS not in state.settings:
            yield _Schedule(state, state.settings, "", self._memory(""), self.asleep)
            return
        if self._configured != state.configured or not self._settings:
            self._configured = state.configured
            named = negotiators.negotiator_names(state.settings)
            self._settings = {
                negotiators.name_in_events(each): negotiators.settings_for(state.settings, each) for each in named
            }
        for name, settings in self._settings.items():
            yield _Schedule(state, settings, name, self._memory(name), self.asleep)


def are_starts_paused(state: Queue, now: int) -> bool:
    """Check whether job starts are paused now because the machine failed to start jobs."""
    return now < state.paused_until
