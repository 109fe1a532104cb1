"""Bringing the views forward: a batch of events onto all tables, in the caller's transaction.

Each fold reads the rows that the batch is about, changes them in memory, and writes them back once. What the tables
hold after an event depends on the events before it alone, never on where a batch ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..domain.events import CycleHeld, Event, Unmatched
from ..domain.names import JobId
from ..domain.negotiator.reported_rejections import rejection_reason
from .accounting_view import AccountingFold
from .checkpoint import Checkpoint, fingerprint, write_checkpoint
from .defrag_view import DefragFold
from .imported_ads import ArchiveFold
from .queue_view import QueueFold
from .schema import WHOSE, insertion
from .slots_view import SlotsFold

# Why jobs wait: what the latest cycles said of the jobs that got nothing. A match takes back what was said. And the
# statistics of the last cycles.

CYCLES = 4
"""Of so many cycles of each negotiator the statistics are kept: HTCondor's NEGOTIATION_CYCLE_STATS_LENGTH, and the one
before these."""


class MatchingFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._refusals: dict[str, tuple[int, Unmatched] | None] = {}
        self._cycles: dict[str, list[tuple[int, int, str]]] = {}
        self.handlers: dict[type[Event], Callable[..., None]] = {CycleHeld: self._cycle}

    def _cycle(self, position: int, event: CycleHeld) -> None:
        for match in event.matches:
            self._refusals[match.job] = None
        for unmatched in event.unmatched:
            self._refusals[unmatched.job] = (event.at, unmatched)
        if event.statistics:
            whose = {WHOSE: event.negotiator} if event.negotiator else {}
            row = (position, event.at, _json({**event.statistics, **whose}))
            self._cycles[event.negotiator] = [*self._cycles.get(event.negotiator, ()), row][-CYCLES:]

    def flush(self) -> None:
        execute = self._connection.executemany
        execute("DELETE FROM refusals WHERE cluster=? AND proc=?", [JobId.parse(job) for job in self._refusals])
        execute(
            insertion("refusals"),
            [_row(at, unmatched) for at, unmatched in filter(None, self._refusals.values())],
        )
        if self._cycles:
            execute(insertion("cycles"), [row for rows in self._cycles.values() for row in rows])
            newest = f"row_number() OVER (PARTITION BY statistics->>'$.{WHOSE}' ORDER BY position DESC)"
            last = f"SELECT position FROM (SELECT position, {newest} AS age FROM cycles) WHERE age <= ?"
            self._connection.execute(f"DELETE FROM cycles WHERE position NOT IN ({last})", (CYCLES,))


def _row(at: int, u: Unmatched) -> tuple[object, ...]:
    denied = "" if u.denied is None else _json(u.denied)
    return (
        *JobId.parse(u.job), at, u.jobs, u.slots, _json(u.clauses), u.refused_by_slot, u.taken, u.submitter, denied,
        u.limit, u.allowed, u.used, u.group, rejection_reason(u),
    )  # fmt: skip


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


FOLDS = (QueueFold, SlotsFold, AccountingFold, MatchingFold, DefragFold, ArchiveFold)


def apply(connection: sqlite3.Connection, events: Sequence[tuple[int, Event]], digest: str = "", log: str = "") -> None:
    """Fold `events`, each with its position, the first of them next to the last that was folded, and remember how far
    the views have come. `digest`: of the log's head, if the last of them stands there. `log`: the log's id."""
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
    write_checkpoint(connection, Checkpoint(position, digest, fingerprint(last), last.at, log))
