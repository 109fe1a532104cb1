"""The view of how many cores each submitter used over time.

Rows are only added. A row has the weight of a submitter's claimed slots before its event, the submitter's first claim
event in a period. The weight after it is in the next row, which includes further changes in the same period. Imported
logs have no rows.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.names import AccountName
from .schema import insertion

PERIOD: Final = 600_000_000  #: the shortest time between two rows of a submitter, in microseconds


class UseFold:
    """Folds a batch of events into the use of submitters; ``flush`` writes the new rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._uses: dict[str, int] = {}
        self._periods: dict[str, int] = {}
        self._weights: dict[str, int] = {}
        self._rows: list[tuple[int, int, str, int]] = []
        self.handlers = bound_handlers(self)

    def _count(self, position: int, event: e.ClaimMade | e.ClaimEnded, change: int) -> None:
        name = str(AccountName(event.negotiator, event.submitter))
        if name not in self._uses:
            self._uses[name] = self._read("SELECT in_use FROM submitters WHERE submitter=?", name)
            self._periods[name] = self._read("SELECT MAX(at) FROM uses WHERE submitter=?", name) // PERIOD
        period = event.at // PERIOD
        if period > self._periods[name]:
            self._periods[name] = period
            self._rows.append((position, event.at, name, self._uses[name]))
        self._uses[name] += change

    def _read(self, statement: str, name: str) -> int:
        row = self._connection.execute(statement, (name,)).fetchone()
        return 0 if row is None or row[0] is None else int(row[0])

    def on_claimed(self, position: int, event: e.ClaimMade) -> None:
        self._weights[event.slot] = event.weight
        self._count(position, event, event.weight)

    def on_claim_ended(self, position: int, event: e.ClaimEnded) -> None:
        weight = self._weights.pop(event.slot, None)
        if weight is None:
            weight = self._read("SELECT weight FROM claims WHERE slot=?", event.slot)
        self._count(position, event, -weight)

    def flush(self) -> None:
        self._connection.executemany(insertion("uses"), self._rows)


class Use(NamedTuple):
    """The weight of a submitter's claimed slots, in thousandths, from an instant until its next row."""

    submitter: str
    at: int
    weight: int


def uses(connection: sqlite3.Connection, since: int, now: int) -> list[Use]:
    """Return the uses between two instants, in microseconds, by submitter and time. The first of a submitter is at
    `since`, and the last weight is the present one."""
    present = dict(connection.execute("SELECT submitter, in_use FROM submitters").fetchall())
    statement = "SELECT submitter, at, used FROM uses WHERE at > ? ORDER BY submitter, at"
    rows: dict[str, list[tuple[int, int]]] = {name: [] for name in present}
    for submitter, at, used in connection.execute(statement, (since,)):
        rows.setdefault(submitter, []).append((at, used))
    result = []
    for submitter, changes in rows.items():
        starts = [since, *(at for at, _ in changes)]
        weights = [*(used for _, used in changes), present.get(submitter, 0)]
        result += [Use(submitter, at, weight) for at, weight in zip(starts, weights, strict=True) if at <= now]
    return result
