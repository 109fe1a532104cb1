"""Fold an event into the state. Running pools, their startup, replays and tests all use this function.

A fold copies what the event records. It rejects nothing, because the event was checked before it was written, and the
audit checks it again.

Each role has a separate table of folds, which change only that role's state. A state with several roles combines their
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from .. import events as e
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager, State
from . import (
    accounting_fold,
    claim_fold,
    had_fold,
    job_fold,
    machine_fold,
    peer_fold,
    pool_fold,
    run_fold,
    starter_fold,
)

Role = TypeVar("Role", bound=LogState)
Fold = Callable[[Role, Any], None]
Folds = Mapping[type[e.Event], Fold[Role]]
"""A role's folds, by event class."""

ANY_ROLE: Folds[LogState] = {**pool_fold.FOLDS, **peer_fold.ANY_ROLE}
ACCESS_POINT: Folds[AccessPoint] = {**claim_fold.FOLDS, **job_fold.FOLDS, **run_fold.FOLDS}
EXECUTION_POINT: Folds[ExecutionPoint] = {**starter_fold.FOLDS, **starter_fold.JOB_ADS}
MANAGER: Folds[Manager] = accounting_fold.FOLDS
"""A manager's folds, except for those about slots (``machine_fold.FOLDS``)."""


def _combined_folds(kind: type[LogState]) -> Folds[Any]:
    """Return the folds of a state class. State that two of its roles share is folded only once: slots by the startd's
    folds, and jobs' ads by the queue's folds."""
    tables: list[Folds[Any]] = [ANY_ROLE]
    if issubclass(kind, AccessPoint):
        tables += [ACCESS_POINT, peer_fold.AT_ACCESS_POINT]
    if issubclass(kind, ExecutionPoint):
        tables += [starter_fold.FOLDS if issubclass(kind, AccessPoint) else EXECUTION_POINT]
        tables += [peer_fold.AT_EXECUTION_POINT]
    elif issubclass(kind, Manager):
        tables.append(machine_fold.FOLDS)
    if issubclass(kind, Manager):
        tables += [MANAGER, peer_fold.AT_MANAGER, had_fold.FOLDS]
    combined: dict[type[e.Event], Fold[Any]] = {}
    for table in tables:
        for event, fold in table.items():
            combined[event] = _in_order(combined[event], fold) if event in combined else fold
    return combined


def _in_order(first: Fold[Any], second: Fold[Any]) -> Fold[Any]:
    def fold_both(state: LogState, event: e.Event) -> None:
        first(state, event)
        second(state, event)

    return fold_both


class _FoldTables(dict[type[LogState], Folds[Any]]):
    def __missing__(self, kind: type[LogState]) -> Folds[Any]:
        folds = self[kind] = _combined_folds(kind)
        return folds


FOLDS_OF = _FoldTables()
"""The folds of each state class, combined on first use."""


def affects_role(kind: type[LogState], event: e.Event) -> bool:
    """Return True if an event in another role's log changes a state of this class."""
    return type(event) in FOLDS_OF[kind] and type(event) not in ANY_ROLE


def evolve(state: LogState, event: e.Event) -> None:
    """Fold the next event of the log into ``state``."""
    state.position += 1
    state.at = event.at
    FOLDS_OF[type(state)][type(event)](state, event)


def fold(events: Iterable[tuple[int, e.Event]], state: State | None = None) -> State:
    """Fold events, each with its log position, into ``state`` or a new state, and return it."""
    return fold_onto(state or State(), events)


def fold_onto(state: Role, events: Iterable[tuple[int, e.Event]]) -> Role:
    """Fold events of its log into the state of one or several roles, and return it."""
    folds = FOLDS_OF[type(state)]
    for position, event in events:
        state.position, state.at = position, event.at
        folds[type(event)](state, event)
    return state
