"""The checkpoint of the views: the log from which they were folded, and their position in it.

The checkpoint is one row, written in the same transaction as the views' rows.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..domain.events import Event

_ROW = "views"


class Checkpoint(NamedTuple):
    position: int
    digest: str  #: the digest of the log's head, if the views have reached it (else empty)
    last: str  #: a digest of the event at ``position``, to detect that the log was truncated and then continued
    at: int  #: the instant of that event
    log: str  #: the log's id: views cannot continue with a different log


BEGINNING = Checkpoint(0, "", "", 0, "")


def read_checkpoint(connection: sqlite3.Connection) -> Checkpoint:
    """Return the checkpoint of the views, with position 0 if no events have been folded."""
    row = connection.execute("SELECT position, digest, last, at, log FROM tracking WHERE name=?", (_ROW,)).fetchone()
    return Checkpoint(*row) if row else BEGINNING


def write_checkpoint(connection: sqlite3.Connection, now: Checkpoint) -> None:
    """Store the checkpoint of the views."""
    connection.execute("INSERT OR REPLACE INTO tracking VALUES (?,?,?,?,?,?)", (_ROW, *now))


def fingerprint(event: Event) -> str:
    """Return a digest of one event. It does not depend on the store."""
    from hashlib import blake2b

    import msgspec

    content = type(event).__name__.encode() + msgspec.json.encode(event)
    return blake2b(content, digest_size=16).hexdigest()
