"""Update the views: fold a batch of events into all tables, within the caller's transaction.

Each fold reads the rows of a batch, changes them in memory, and writes them back once. The resulting tables
do not depend on how events are divided into batches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from ..domain.events import CycleHeld, Event, Unmatched
from ..domain.names import JobId
from ..domain.negotiator.reported_rejections import rejection_reason
from .accounting_view import AccountingFold
from .activity_view import ActivityFold
from .checkpoint import Checkpoint, fingerprint, write_checkpoint
from .defrag_view import DefragFold
from .imported_ads import ArchiveFold
from .peers_view import PeersFold
from .queue_view import QueueFold
from .schema import NEGOTIATOR_KEY, insertion
from .slots_view import SlotsFold
from .use_view import UseFold

# The latest rejections of jobs (a match deletes them), and the statistics of the last cycles.

CYCLES = 4
"""The number of cycles whose statistics are stored for each negotiator: one more than the default of
NEGOTIATION_CYCLE_STATS_LENGTH."""


class MatchingFold:
    """Folds a batch of events into rejections and cycles; ``flush`` writes the changed rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rejections: dict[str, tuple[int, Unmatched] | None] = {}
        self._cycles: dict[str, list[tuple[int, int, str]]] = {}
        self.handlers: dict[type[Event], Callable[..., None]] = {CycleHeld: self._fold_cycle}

    def _fold_cycle(self, position: int, event: CycleHeld) -> None:
        for match in event.matches:
            self._rejections[match.job] = None
        for unmatched in event.unmatched:
            self._rejections[unmatched.job] = (event.at, unmatched)
        if event.statistics:
            negotiator = {NEGOTIATOR_KEY: event.negotiator} if event.negotiator else {}
            row = (position, event.at, _json({**event.statistics, **negotiator}))
            self._cycles[event.negotiator] = [*self._cycles.get(event.negotiator, ()), row][-CYCLES:]

    def flush(self) -> None:
        execute = self._connection.executemany
        execute("DELETE FROM refusals WHERE cluster=? AND proc=?", [JobId.parse(job) for job in self._rejections])
        execute(
            insertion("refusals"), [_row(at, unmatched) for at, unmatched in filter(None, self._rejections.values())]
        )
        if self._cycles:
            execute(insertion("cycles"), [row for rows in self._cycles.values() for row in rows])
            newest = f"row_number() OVER (PARTITION BY statistics->>'$.{NEGOTIATOR_KEY}' ORDER BY position DESC)"
            last = f"SELECT position FROM (SELECT position, {newest} AS age FROM cycles) WHERE age <= ?"
            self._connection.execute(f"DELETE FROM cycles WHERE position NOT IN ({last})", (CYCLES,))


def _row(at: int, unmatched: Unmatched) -> tuple[object, ...]:
    denied = "" if unmatched.denied is None else _json(unmatched.denied)
    return (
        *JobId.parse(unmatched.job), at, unmatched.jobs, unmatched.slots, _json(unmatched.clauses),
        unmatched.refused_by_slot, unmatched.taken, unmatched.submitter, denied, unmatched.limit, unmatched.allowed,
        unmatched.used, unmatched.group, rejection_reason(unmatched),
    )  # fmt: skip


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class Fold(Protocol):
    """Folds a batch of events into tables."""

    @property
    def handlers(self) -> Mapping[type[Event], Callable[..., None]]:
        """What to call with the position and the event, by the event's class."""

    def flush(self) -> None:
        """Write the changed rows."""


FOLDS: tuple[Callable[[sqlite3.Connection], Fold], ...] = (
    QueueFold, SlotsFold, AccountingFold, MatchingFold, DefragFold, ArchiveFold, ActivityFold,
    UseFold, PeersFold,
)  # fmt: skip
WITHOUT_HISTORY: tuple[Callable[[sqlite3.Connection], Fold], ...] = (partial(QueueFold, history=False), *FOLDS[1:])
"""The folds of views that get the history from elsewhere: to fold a job's history takes most of the time."""


def apply(
    connection: sqlite3.Connection,
    events: Sequence[tuple[int, Event]],
    digest: str = "",
    log: str = "",
    folds: Sequence[Callable[[sqlite3.Connection], Fold]] = FOLDS,
) -> None:
    """Fold the next `events`, each with its position, and store the checkpoint. `digest` is the digest of the log's
    head, if the last event is the head; `log` is the log's id."""
    if not events:
        return
    batch_folds = [fold(connection) for fold in folds]
    handlers: dict[type[Event], tuple[Callable[..., Any], ...]] = {}
    for fold in batch_folds:
        for kind, handler in fold.handlers.items():
            handlers[kind] = (*handlers.get(kind, ()), handler)
    no_handlers: tuple[Callable[..., Any], ...] = ()
    for position, event in events:
        for handler in handlers.get(type(event), no_handlers):
            handler(position, event)
    for fold in batch_folds:
        fold.flush()
    position, last = events[-1]
    write_checkpoint(connection, Checkpoint(position, digest, fingerprint(last), last.at, log))
