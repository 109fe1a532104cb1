"""When each of a pool's negotiators holds its cycles.

Cycles are NEGOTIATOR_INTERVAL apart at most, as long as jobs wait or somebody's priority changes. A cycle is held
earlier on request: of an administrator; where no pace is configured (NEGOTIATOR_CYCLE_DELAY), of whatever may make it
come to something else than the last one; where one is, of the access point, for new and for released jobs. Requests
wait for a while behind a cycle in which somebody had to go, and as long as the last one took. While a machine cannot
start jobs, as with a full disk, there is none, so that what is matched is not tried again and again.

When cycles were held, and what has happened since, is in the log (``Cycles``, ``Queue`` and ``Slots``). What no event
says is remembered here: a cycle that came to nothing, how long the last one took, and that an administrator asks for
one.

All instants are microseconds of the log's time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from ..events import CycleHeld
from ..state import negotiators
from ..state.state import Manager, Queue, Submitter
from ..units import SECOND
from .accounting import accounts_of

SETTLES: Final = 5 * SECOND
"""How far the next cycle on request is from one in which somebody had to go, or whose claim its startd took back (the
default of NEGOTIATOR_MIN_INTERVAL): who had to go waits again, and may make the other go in turn."""


class _Memory(Struct):
    """What no event says of a negotiator's last cycle, and since."""

    position: int = 0  #: the position of the log behind the last cycle
    at: int = 0  #: when the last one was held
    appended: bool = True  #: whether it is in the log
    came_to_nothing: bool = False  #: whether it left no event
    woken: bool = False  #: whether jobs may be matched since that could not be before
    rescheduled: bool = False  #: whether an administrator has asked for a cycle
    rests_until: int = 0  #: until when no cycle is held on request, so that cycles do not take all the time

    def follow_clock(self, now: int) -> None:
        """Take in that the clock was set back: the log has nothing of a cycle that came to nothing since it was set
        forward, so its time does not go on from there."""
        if now < self.at:
            self.at = self.rests_until = now


class _Schedule(Struct):
    """The cycles of one negotiator: what the state says of them, and what is remembered."""

    state: Manager
    settings: Mapping[str, str]  #: as this negotiator has them
    name: str  #: as events have it
    memory: _Memory
    asleep: int

    def due(self, now: int) -> bool:
        """Return whether a cycle is to be held now."""
        if paused(self.state, now) and not self.memory.rescheduled:
            return False
        if self._heard(now):
            return now >= self._rests_until()
        due = self._by_itself()
        return due is not None and now >= due and not (self.paced() and now < self._rests_until())

    def next(self, now: int) -> int | None:
        """Return when a cycle may be due next; None: nothing is known that would make one due."""
        if paused(self.state, now) and not self.memory.rescheduled:
            return self.state.paused_until
        instants = []
        due, rests = self._by_itself(), self._rests_until()
        if due is not None:
            instants.append(max(due, rests) if self.paced() or self._heard(now) else due)
        if self._on_request():
            instants += [each for each in (self._settles_at(), rests) if each > now]
        return min(instants, default=None)

    def waits(self) -> bool:
        """Return whether a cycle that may help is still to come: by the configured pace, behind the rest from the last
        one, or when things have settled."""
        return self._may_help() and self._awake()

    def rest(self, began: int, ended: int) -> None:
        """Rest from the last cycle: for as long as it took with its append, but no longer than the interval, and for as
        long as the configured pace says. In virtual time a cycle takes none."""
        took = min(max(0, ended - began), self._interval())
        self.memory.rests_until = max(ended + took, self._earliest(began, ended))

    def paced(self) -> bool:
        """Return whether somebody has said how far cycles are apart: if not, one is held whenever it may help."""
        return "NEGOTIATOR_CYCLE_DELAY" in self.settings

    def _earliest(self, began: int, ended: int) -> int:
        """Return when the next cycle may begin at the earliest after one that began and ended then."""
        if not self.paced():
            return ended
        delay, least = map(self._setting, ("NEGOTIATOR_CYCLE_DELAY", "NEGOTIATOR_MIN_INTERVAL"))
        return max(ended + delay, began + least)

    def _rests_until(self) -> int:
        """Return until when no cycle is held on request: as far as the log says, and as is remembered."""
        _, logged = self.state.cycles.held.get(self.name, (0, 0))
        return max(self.memory.rests_until, self._earliest(logged, logged))

    def _last(self) -> tuple[int, int]:
        """Return the position of the log behind the last cycle, and when that was held."""
        position, at = self.state.cycles.held.get(self.name, (0, 0))
        return max(position, self.memory.position), max(at, self.memory.at)

    def _settles_at(self) -> int:
        return max(self.state.cycles.preempted.get(self.name, 0), self.state.taken_back) + SETTLES

    def _may_help(self) -> bool:
        """Return whether a cycle may come to something else than the last one: jobs wait that did not, a slot may have
        become better, or somebody may have more than before."""
        state = self.state
        news = max(state.job_news, state.slot_news, state.cycles.news, state.configured)
        again = self.name in self.state.cycles.cut_short and not self.memory.came_to_nothing
        return self.memory.woken or again or news > self._last()[0]

    def _awake(self) -> bool:
        """Return whether any job that waits could be matched now."""
        return self.state.idle > self.asleep

    def _heard(self, now: int) -> bool:
        """Return whether there is a request that does not wait until things have settled."""
        return self._on_request() and (self.memory.rescheduled or now >= self._settles_at())

    def _on_request(self) -> bool:
        """Return whether a cycle is to be held before it is due by itself."""
        if self.memory.rescheduled or not self._awake():
            return self.memory.rescheduled
        return self.state.requested > self._last()[0] if self.paced() else self._may_help()

    def _by_itself(self) -> int | None:
        """Return when a cycle is due by itself: while jobs wait for slots, or priorities change since somebody uses
        some. None: it is not."""
        at = self._last()[1]
        if self._awake():
            return at + self._interval()
        if any(submitter.slots for submitter in self._submitters().values()):
            return max(at, self._accounted()) + self._interval()
        return None

    def _submitters(self) -> Mapping[str, Submitter]:
        return accounts_of(self.state.submitters, self.name) if self._of_several() else self.state.submitters

    def _accounted(self) -> int:
        return self.state.accounted.get(self.name, 0) if self.name else self.state.priorities_updated_at

    def _of_several(self) -> bool:
        return negotiators.NEGOTIATORS in self.state.settings

    def _interval(self) -> int:
        """Return how far cycles are apart at most."""
        return self._setting("NEGOTIATOR_INTERVAL") or SECOND

    def _setting(self, name: str) -> int:
        return round(float(self.settings[name]) * SECOND)


class CycleSchedules(Struct):
    """The schedules of all negotiators. There is one, with an empty name, unless the pool's configuration says
    otherwise."""

    asleep: int = 0  #: how many of the jobs that wait for a slot cannot be matched before some later instant
    _memories: dict[str, _Memory] = field(default_factory=dict)
    _settings: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _configured: int = 0

    # What happens

    def woke(self, state: Manager) -> None:
        """Take in that jobs may be matched that could not be before this instant."""
        for schedule in self._of(state):
            schedule.memory.woken = True

    def reschedule(self, state: Manager, negotiator: str = "") -> None:
        """Let a negotiator hold a cycle as soon as that may be, whether it may help or not."""
        for schedule in self._of(state):
            if schedule.name == negotiator:
                schedule.memory.rescheduled = True

    def held(self, state: Manager, negotiator: str, now: int, cycle: CycleHeld | None) -> None:
        """Take in that a cycle was held; None: it left no event. Its own events are no news to it."""
        rests_until = self._memory(negotiator).rests_until
        self._memories[negotiator] = _Memory(
            state.position, now, appended=False, came_to_nothing=cycle is None, rests_until=rests_until
        )

    def rest(self, state: Manager, began: int, ended: int) -> None:
        """Take in how long the cycles took that were held at the instant ``began``, with their append."""
        for schedule in self._of(state):
            if not schedule.memory.appended:
                schedule.memory.appended = True
                schedule.rest(began, ended)

    # What is asked

    def due(self, state: Manager, now: int) -> list[str]:
        """Return the negotiators whose cycle is to be held now, in their order."""
        return [schedule.name for schedule in self._at(state, now) if schedule.due(now)]

    def next(self, state: Manager, now: int) -> int | None:
        """Return when a cycle of any of them may be due next."""
        instants = [schedule.next(now) for schedule in self._at(state, now)]
        return min((at for at in instants if at is not None), default=None)

    def wait_for_cycle(self, state: Manager) -> bool:
        """Return whether any of them is still to hold a cycle that may help."""
        return any(schedule.waits() for schedule in self._of(state))

    def _memory(self, name: str) -> _Memory:
        return self._memories.setdefault(name, _Memory())

    def _at(self, state: Manager, now: int) -> Iterator[_Schedule]:
        for schedule in self._of(state):
            schedule.memory.follow_clock(now)
            yield schedule

    def _of(self, state: Manager) -> Iterator[_Schedule]:
        if negotiators.NEGOTIATORS not in state.settings:
            yield _Schedule(state, state.settings, "", self._memory(""), self.asleep)
            return
        if self._configured != state.configured or not self._settings:
            self._configured = state.configured
            named = negotiators.names(state.settings)
            self._settings = {negotiators.short(each): negotiators.settings_for(state.settings, each) for each in named}
        for name, settings in self._settings.items():
            yield _Schedule(state, settings, name, self._memory(name), self.asleep)


def paused(state: Queue, now: int) -> bool:
    """Return whether nothing is to be started now, since the machine could not."""
    return now < state.paused_until
