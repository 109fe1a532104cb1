"""Snapshots of the tables about the present, for views at a time.

A snapshot is a cache: views at a time can be folded from the start of the log, too. Tables whose rows stay, with the
position of their event, need no snapshot: clusters with their chunks, the history, the load,
the findings and the uses.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import msgspec

from .checkpoint import Checkpoint
from .schema import insertion

EVENTS: Final = 20_000
"""A snapshot follows the last one after this many events, or after more if it has many rows or the log is long."""
MOST: Final = 100
"""The maximum number of snapshots: in a longer log they are further apart."""
EVENTS_PER_ROW: Final = 2
"""So writing snapshots takes less time than folding the events between them."""
TABLES: Final = (
    "pool", "factories", "jobs", "machines", "slots", "submitters", "claims", "refusals", "cycles", "defrag",
)  # fmt: skip
"""The tables in a snapshot."""
_decode = msgspec.msgpack.Decoder(dict[str, list[tuple[Any, ...]]]).decode


def store_snapshot(connection: sqlite3.Connection, since: int, now: Checkpoint) -> None:
    """Store a snapshot of the current tables if it is due, and delete snapshots that are too close to another.

    :param since: the position of the tables before the last batch of events
    """
    position, last = now.position, now.last
    if position // EVENTS == since // EVENTS:
        return
    before = connection.execute("SELECT MAX(position) FROM snapshots").fetchone()[0] or 0
    distance = EVENTS
    while position > distance * MOST:
        distance *= 2
    if position // distance <= before // distance:
        return
    counts = connection.execute("SELECT (SELECT COUNT(*) FROM jobs) + (SELECT COUNT(*) FROM slots)").fetchone()
    if position - before < EVENTS_PER_ROW * counts[0]:
        return
    # Machines that joined at the same instant are in the order of their rows.
    rows = {name: connection.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall() for name in TABLES}
    content = zlib.compress(msgspec.msgpack.encode(rows), 1)
    connection.execute(insertion("snapshots"), (position, last, _checksum(position, last, content), content))
    kept = "SELECT MIN(position) FROM snapshots GROUP BY position / ?"
    connection.execute(f"DELETE FROM snapshots WHERE position NOT IN ({kept})", (distance,))


def restore_snapshot(connection: sqlite3.Connection, until: int, fingerprint_at: Callable[[int], str]) -> int:
    """Fill the empty temporary tables of views at a time from the last intact snapshot up to a position. Return its
    position, or 0 if there is none.

    :param fingerprint_at: returns the digest of the log's event at a position
    """
    statement = (
        "SELECT position, last, checksum, CAST(tables AS BLOB) FROM snapshots WHERE position<=? ORDER BY position DESC"
    )
    for position, last, checksum, content in connection.execute(statement, (until,)).fetchall():
        if checksum == _checksum(position, last, content) and last == fingerprint_at(position):
            for name, rows in _decode(zlib.decompress(content)).items():
                connection.executemany(insertion(name), rows)
            return int(position)
    return 0


def _checksum(position: int, last: str, content: bytes) -> str:
    return blake2b(b"%d %s " % (position, last.encode()) + content, digest_size=16).hexdigest()
