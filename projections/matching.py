"""Why jobs wait: what the latest cycles said of the jobs that got nothing. A match takes back what was said."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import msgspec

from ..domain.events import CycleHeld, Event, Unmatched
from .schema import insertion


class MatchingFold:
    """Folds a batch of events; ``flush`` writes what they changed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._refusals: dict[str, tuple[int, Unmatched] | None] = {}
        self.handlers: dict[type[Event], Callable[..., None]] = {CycleHeld: self._cycle}

    def _cycle(self, position: int, event: CycleHeld) -> None:
        for match in event.matches:
            self._refusals[match.job] = None
        for unmatched in event.unmatched:
            self._refusals[unmatched.job] = (event.at, unmatched)

    def flush(self) -> None:
        execute = self._connection.executemany
        execute("DELETE FROM refusals WHERE cluster=? AND proc=?", [_id(job) for job in self._refusals])
        execute(
            insertion("refusals"),
            [
                (*_id(u.job), at, u.jobs, u.slots, msgspec.json.encode(u.clauses).decode(), u.refused_by_slot, u.taken)
                for at, u in filter(None, self._refusals.values())
            ],
        )


def _id(job: str) -> tuple[int, int]:
    cluster, _, proc = job.partition(".")
    return int(cluster), int(proc)
