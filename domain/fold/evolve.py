"""The one fold: how each kind of event changes the state. Live, at start, in replay and in tests it is this function.

It copies what events say and never refuses, never consults policy and never computes what a decision should have
computed: whether a thing was allowed was settled before the event was written, and whether it should have been is for
the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from .. import events as e
from ..state.state import State
from . import claim_fold, job_fold, machine_fold, negotiation, pool_fold, run_fold

FOLDS: Mapping[type[e.Event], Callable[..., None]] = {
    **pool_fold.FOLDS,
    **machine_fold.FOLDS,
    **claim_fold.FOLDS,
    **negotiation.FOLDS,
    **job_fold.FOLDS,
    **run_fold.FOLDS,
}


def evolve(state: State, event: e.Event) -> None:
    """Bring `state` forward by `event`, the next of its log."""
    state.position += 1
    state.at = event.at
    FOLDS[type(event)](state, event)


def fold(events: Iterable[tuple[int, e.Event]], state: State | None = None) -> State:
    """The state after `events`, each with its position in the log."""
    state = state or State()
    folds = FOLDS
    for position, event in events:
        state.position, state.at = position, event.at
        folds[type(event)](state, event)
    return state
