"""The one fold: how each kind of event changes the state. Live, at start, in replay and in tests it is this function.

It copies what events say and never refuses, never consults policy and never computes what a decision should have
computed: whether a thing was allowed was settled before the event was written, and whether it should have been is for
the audit.

Each role has a table of its own, whose folds change its state alone. The fold of a state that is several roles at once
is theirs, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Protocol, TypeVar

from .. import events as e
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager, State
from . import accounting_fold, claim_fold, job_fold, machine_fold, pool_fold, run_fold, starter_fold

Role = TypeVar("Role", bound=LogState)
Fold = Callable[[Role, Any], None]
Folds = Mapping[type[e.Event], Fold[Role]]
"""What a role learns, by the kinds of events."""

ANY_ROLE: Folds[LogState] = pool_fold.FOLDS
ACCESS_POINT: Folds[AccessPoint] = {**claim_fold.FOLDS, **job_fold.FOLDS, **run_fold.FOLDS}
EXECUTION_POINT: Folds[ExecutionPoint] = {**starter_fold.FOLDS, **starter_fold.JOB_ADS}
MANAGER: Folds[Manager] = accounting_fold.FOLDS
"""What a manager learns besides what it learns of slots (``machine_fold.FOLDS``)."""


def _composed(kind: type[LogState]) -> Folds[Any]:
    """Return the folds of a state of this kind. What two of its roles know alike, it has once: slots as their startd
    knows them, and the jobs' ads as the queue has them."""
    tables: list[Folds[Any]] = [ANY_ROLE]
    if issubclass(kind, AccessPoint):
        tables.append(ACCESS_POINT)
    if issubclass(kind, ExecutionPoint):
        tables.append(starter_fold.FOLDS if issubclass(kind, AccessPoint) else EXECUTION_POINT)
    elif issubclass(kind, Manager):
        tables.append(machine_fold.FOLDS)
    if issubclass(kind, Manager):
        tables.append(MANAGER)
    found: dict[type[e.Event], Fold[Any]] = {}
    for table in tables:
        for event, fold in table.items():
            found[event] = _both(found[event], fold) if event in found else fold
    return found


def _both(first: Fold[Any], second: Fold[Any]) -> Fold[Any]:
    def both(state: LogState, event: e.Event) -> None:
        first(state, event)
        second(state, event)

    return both


class _FoldsOf(dict[type[LogState], Folds[Any]]):
    def __missing__(self, kind: type[LogState]) -> Folds[Any]:
        found = self[kind] = _composed(kind)
        return found


FOLDS_OF = _FoldsOf()
"""The folds of each kind of state."""


def learns(kind: type[LogState], event: e.Event) -> bool:
    """Return True if a state of this kind changes by an event that another role's log has."""
    return type(event) in FOLDS_OF[kind] and type(event) not in ANY_ROLE


class Readable(Protocol):
    """A log, as far as it is read from its beginning."""

    def read(self, after: int) -> Iterator[tuple[int, e.Event]]: ...


def evolve(state: LogState, event: e.Event) -> None:
    """Bring `state` forward by `event`, the next of its log."""
    state.position += 1
    state.at = event.at
    FOLDS_OF[type(state)][type(event)](state, event)


def state_at(log: Readable, at: int) -> State:
    """Return the state that a log had at an instant, in microseconds; its position is 0 if the log begins later."""
    return fold(takewhile(lambda placed: placed[1].at <= at, log.read(0)))


def fold(events: Iterable[tuple[int, e.Event]], state: State | None = None) -> State:
    """The state after `events`, each with its position in the log."""
    return fold_onto(state or State(), events)


def fold_onto(state: Role, events: Iterable[tuple[int, e.Event]]) -> Role:
    """Bring the state of one role, or of several, forward by events of its log; return it."""
    folds = FOLDS_OF[type(state)]
    for position, event in events:
        state.position, state.at = position, event.at
        folds[type(event)](state, event)
    return state
