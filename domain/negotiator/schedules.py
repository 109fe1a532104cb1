"""When each of a pool's negotiators holds its cycles: a schedule for each (``schedule``)."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define, evolve, field

from ..events import CycleHeld, Event
from ..state import negotiators
from ..state.state import State, Submitter
from .accounting import accounts_of
from .schedule import CycleSchedule, Paced


@define
class _PacedAsOne:
    """What a schedule reads of a pool, as one of several negotiators sees it."""

    state: State
    settings: dict[str, str]
    negotiator: str

    @property
    def idle(self) -> int:
        return self.state.idle

    @property
    def submitters(self) -> dict[str, Submitter]:
        return accounts_of(self.state.submitters, self.negotiator)

    @property
    def priorities_updated_at(self) -> int:
        whose = self.negotiator
        return self.state.accounted.get(whose, 0) if whose else self.state.priorities_updated_at

    def setting(self, name: str) -> int:
        return round(float(self.settings[name]) * 1_000_000)


@define
class CycleSchedules:
    """The schedules by their negotiators' names, as events have them. There is one, with an empty name, unless the
    pool's configuration says otherwise."""

    _by_name: dict[str, CycleSchedule] = field(factory=lambda: {"": CycleSchedule()})
    _settings: dict[str, dict[str, str]] = field(factory=dict)
    _configured: int = 0

    # What happens

    def on_event(self, event: Event) -> None:
        for one in self._by_name.values():
            one.on_event(event)

    @property
    def asleep(self) -> int:
        """How many of the jobs that wait for a slot cannot be matched before some later instant."""
        return next(iter(self._by_name.values())).asleep

    @asleep.setter
    def asleep(self, count: int) -> None:
        for one in self._by_name.values():
            one.asleep = count

    def woke(self) -> None:
        for one in self._by_name.values():
            one.woke()

    def restart(self) -> None:
        for one in self._by_name.values():
            one.restart()

    def reschedule(self, negotiator: str = "") -> None:
        """Let a negotiator hold a cycle as soon as that may be."""
        if negotiator in self._by_name:
            self._by_name[negotiator].reschedule()

    def held(self, negotiator: str, now: int, cycle: CycleHeld | None) -> None:
        self._by_name[negotiator].held(now, cycle)

    def rest(self, state: State, names: Iterable[str], began: int, ended: int) -> None:
        paced = self._follow(state)
        for name in names:
            if name in paced:
                self._by_name[name].rest(paced[name], began, ended)

    # What is asked

    def due(self, state: State, now: int) -> list[str]:
        """Return the negotiators whose cycle is to be held now, in their order."""
        return [name for name, paced in self._follow(state).items() if self._by_name[name].due(paced, now)]

    def next(self, state: State, now: int) -> int | None:
        found = [self._by_name[name].next(paced, now) for name, paced in self._follow(state).items()]
        return min((at for at in found if at is not None), default=None)

    def paused(self, now: int) -> bool:
        return any(one.paused(now) for one in self._by_name.values())

    def waits_for_cycle(self, state: State) -> bool:
        return any(self._by_name[name].waits_for_cycle(paced) for name, paced in self._follow(state).items())

    def _follow(self, state: State) -> dict[str, Paced]:
        """Have a schedule for each negotiator that there is; return what each of them reads."""
        if negotiators.NEGOTIATORS not in state.settings and len(self._by_name) == 1 and "" in self._by_name:
            return {"": state}
        if self._configured != state.configured or not self._settings:
            self._configured = state.configured
            named = negotiators.names(state.settings)
            self._settings = {negotiators.short(one): negotiators.settings_for(state.settings, one) for one in named}
            fresh = CycleSchedule(asleep=self.asleep)
            self._by_name = {name: self._by_name.get(name) or evolve(fresh) for name in self._settings}
        return {name: _PacedAsOne(state, own, name) for name, own in self._settings.items()}
