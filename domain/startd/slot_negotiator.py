"""Whose a slot is, where a pool has several negotiators (``domain/state/negotiators``)."""

from __future__ import annotations

from ..classad import Context, EvaluationError
from ..state import negotiators
from ..state.caches import Caches
from ..state.expression_cache import expression
from ..state.state import Slot, State
from .public_ad import PublishedSlots


def negotiator_of(state: State, caches: Caches, slot: Slot, now: int, context: Context) -> str:
    """Return the negotiator whose slot this is, as events have it: it counts who claims it. Of a slot that is nobody's,
    the first."""
    if not negotiators.several(state.settings):
        return ""
    published = PublishedSlots(state, caches, now, context).ad(slot)
    named = negotiators.names(state.settings)
    for name in named:
        asked = expression(negotiators.partition(state.settings, name) or "true")
        try:
            if asked is not None and asked.evaluate(published, None, context) is True:
                return negotiators.short(name)
        except EvaluationError:
            continue
    return negotiators.short(named[0])
