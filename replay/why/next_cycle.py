"""Hold the next negotiation cycle on the state that a log leaves: what it would decide now. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from datetime import timedelta, timezone
from functools import cached_property

from ...domain import events as e
from ...domain.classad import Context
from ...domain.fold.evolve import fold
from ...domain.negotiator.cycle import hold
from ...domain.startd.public_ad import PublishedSlots
from ...domain.state.caches import Caches
from ...domain.state.state import State
from ...domain.units import SECOND
from .limit_holders import LimitHolders


class NextCycle:
    """The cycles that would be held at the last event of a log, of each of its negotiators."""

    def __init__(self, events: Iterable[e.LoggedEvent]) -> None:
        self._events = events
        self.holders = LimitHolders()  #: who holds concurrency limits at the end, once a cycle was held
        self._held: dict[str, e.CycleHeld | None] = {}

    @cached_property
    def _state(self) -> State:
        state = fold(self._noted())
        state.rejections = {}  # else the cycle would leave out the reasons that are known
        return state

    def _noted(self) -> Iterator[e.LoggedEvent]:
        for told in self._events:
            self.holders.note(told[1])
            yield told

    def like(self, last: e.CycleHeld) -> e.CycleHeld | None:
        """Return what the negotiator of a cycle would decide now; None if no job waits."""
        if last.negotiator not in self._held:
            self._held[last.negotiator] = self._hold(self._state, last)
        return self._held[last.negotiator]

    def retiring_slot(self, last: e.CycleHeld, job: str) -> tuple[str, int] | None:
        """Return the slot that a job would get if NEGOTIATOR_CONSIDER_EARLY_PREEMPTION were true, and until when the
        job that it has may run (microseconds); None if there is none."""
        state = self._state
        slots = PublishedSlots(state, Caches(), state.at, _context(state, last))
        left = {slot.name: until for slot in state.slots.values() if (until := slots.retires_for(slot))}
        if not left:
            return None
        early = copy(state)
        early.settings = {**state.settings, "NEGOTIATOR_CONSIDER_EARLY_PREEMPTION": "true"}
        held = self._hold(early, last)
        names = [
            slot
            for match in (held.matches if held else ())
            if match.job == job
            for slot in (match.slot, *match.preempts)
        ]
        return next(((name, state.at + left[name]) for name in names if name in left), None)

    def _hold(self, state: State, last: e.CycleHeld) -> e.CycleHeld | None:
        context = _context(state, last)
        caches, whose = Caches(), last.negotiator
        return hold(
            state, caches, PublishedSlots, lambda cause: (state.at, cause, ""), context, last.offset, whose=whose
        ).held


def _context(state: State, last: e.CycleHeld) -> Context:
    now = state.at // SECOND
    return Context(now=now, seed=now, timezone=timezone(timedelta(seconds=last.offset)), user_maps=state.user_maps)
