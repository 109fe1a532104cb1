"""Why jobs wait: what the latest cycles said of the jobs that got nothing. A match takes back what was said. And the
statistics of the last cycles."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec

from ..domain.events import CycleHeld, Event, Unmatched
from ..domain.names import JobId
from ..domain.negotiator.rejection_reason import rejection_reason
from .schema import WHOSE, insertion

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
            told = (position, event.at, _json({**event.statistics, **whose}))
            self._cycles[event.negotiator] = [*self._cycles.get(event.negotiator, ()), told][-CYCLES:]

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
