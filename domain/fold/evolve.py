"""The one fold: how each kind of event changes the state. Live, at start, in replay and in tests it is this function.

It copies what events say and never refuses, never consults policy and never computes what a decision should have
computed: whether a thing was allowed was settled before the event was written, and whether it should have been is for
the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Protocol

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


class Readable(Protocol):
    """A log, as far as it is read from its beginning."""

    def read(self, after: int) -> Iterator[tuple[int, e.Event]]: ...


def evolve(state: State, event: e.Event) -> None:
    """Bring `state` forward by `event`, the next of its log."""
    state.position += 1
    state.at = event.at
    FOLDS[type(event)](state, event)


def state_at(log: Readable, at: int) -> State:
    """Return the state that a log had at an instant, in microseconds; its position is 0 if the log begins later."""
    return fold(takewhile(lambda placed: placed[1].at <= at, log.read(0)))


def fold(events: Iterable[tuple[int, e.Event]], state: State | None = None) -> State:
    """The state after `events`, each with its position in the log."""
    state = state or State()
    folds = FOLDS
    for position, event in events:
        state.position, state.at = position, event.at
        folds[type(event)](state, event)
    return state
