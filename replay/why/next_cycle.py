"""Hold the next negotiation cycle on the state that a log leaves: what it would decide now. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta, timezone
from functools import cached_property

from ...domain import events as e
from ...domain.classad import Context
from ...domain.fold.evolve import fold
from ...domain.negotiator.cycle import hold
from ...domain.state.caches import Caches
from ...domain.state.state import State
from ..narration.sentences import Told
from .limit_holders import LimitHolders

SECOND = 1_000_000


class NextCycle:
    """The cycles that would be held at the last event of a log, of each of its negotiators."""

    def __init__(self, events: Iterable[Told]) -> None:
        self._events = events
        self.holders = LimitHolders()  #: who holds concurrency limits at the end, once a cycle was held
        self._held: dict[str, e.CycleHeld | None] = {}

    @cached_property
    def _state(self) -> State:
        state = fold(self._noted())
        state.rejections = {}  # else the cycle would leave out the reasons that are known
        return state

    def _noted(self) -> Iterator[Told]:
        for told in self._events:
            self.holders.note(told[1])
            yield told

    def like(self, last: e.CycleHeld) -> e.CycleHeld | None:
        """Return what the negotiator of a cycle would decide now; None if no job waits."""
        if last.negotiator not in self._held:
            state = self._state
            now = state.at // SECOND
            zone = timezone(timedelta(seconds=last.offset))
            context = Context(now=now, seed=now, timezone=zone, user_maps=state.user_maps)
            caches, whose = Caches(), last.negotiator
            cycle = hold(state, caches, lambda cause: (state.at, cause, ""), context, last.offset, whose=whose)
            self._held[last.negotiator] = cycle.held
        return self._held[last.negotiator]
