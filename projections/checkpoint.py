"""How far the views have come in a log, and in which one.

One row, written in the transaction that writes the rows it speaks of. ``digest`` is the log's own where the views have
reached its head, and empty on the way there. ``log`` is the id of the log that was folded: another log in its place is
never continued. ``last`` is a digest of the event at ``position``: it shows whether the same log has been cut and
written on, wherever its head is. ``at`` is that event's instant.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..domain.events import Event

_ROW = "views"


class Checkpoint(NamedTuple):
    position: int
    digest: str
    last: str
    at: int
    log: str


BEGINNING = Checkpoint(0, "", "", 0, "")


def read_checkpoint(connection: sqlite3.Connection) -> Checkpoint:
    """How far the views have come; 0 for views that have folded nothing."""
    row = connection.execute("SELECT position, digest, last, at, log FROM tracking WHERE name=?", (_ROW,)).fetchone()
    return Checkpoint(*row) if row else BEGINNING


def write_checkpoint(connection: sqlite3.Connection, now: Checkpoint) -> None:
    """Remember how far the views have come."""
    connection.execute("INSERT OR REPLACE INTO tracking VALUES (?,?,?,?,?,?)", (_ROW, *now))


def fingerprint(event: Event) -> str:
    """A digest of one event, the same whatever store it was read from."""
    from hashlib import blake2b

    import msgspec

    content = type(event).__name__.encode() + msgspec.json.encode(event)
    return blake2b(content, digest_size=16).hexdigest()
