"""Bringing the views forward: a batch of events onto all tables, in the caller's transaction.

Each fold reads the rows that the batch is about, changes them in memory, and writes them back once. What the tables
hold after an event depends on the events before it alone, never on where a batch ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from ..domain.events import Event
from .accounting import AccountingFold
from .checkpoint import Reached, fingerprint, reach
from .defrag import DefragFold
from .imported_ads import ArchiveFold
from .queue import QueueFold
from .rejections import MatchingFold
from .slots import SlotsFold

FOLDS = (QueueFold, SlotsFold, AccountingFold, MatchingFold, DefragFold, ArchiveFold)


def apply(connection: sqlite3.Connection, events: Sequence[tuple[int, Event]], digest: str = "") -> None:
    """Fold `events`, each with its position, the first of them next to the last that was folded, and remember how far
    the views have come. `digest`: of the log's head, if the last of them stands there."""
    if not events:
        return
    folds = [fold(connection) for fold in FOLDS]
    handlers: dict[type[Event], tuple[Callable[..., Any], ...]] = {}
    for fold in folds:
        for kind, handler in fold.handlers.items():
            handlers[kind] = (*handlers.get(kind, ()), handler)
    nothing: tuple[Callable[..., Any], ...] = ()
    for position, event in events:
        for handler in handlers.get(type(event), nothing):
            handler(position, event)
    for fold in folds:
        fold.flush()
    position, last = events[-1]
    reach(connection, Reached(position, digest, fingerprint(last), last.at))
