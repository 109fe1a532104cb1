"""The view of the roles elsewhere: what was read from their logs last."""

from __future__ import annotations

import sqlite3

from ..domain import events as e
from ..domain.events.handlers import bound_handlers
from ..domain.state.peers import ACCESS_POINT, role_of
from .schema import insertion


class PeersFold:
    """Folds a batch of events into the peers. An access point is numbered again when its log is a new one, as in the
    state (`domain/fold/peer_fold.py`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._peers: dict[str, tuple[str, str, int, int, int]] | None = None
        self.handlers = bound_handlers(self)

    def on_followed(self, position: int, event: e.Followed) -> None:
        if self._peers is None:
            rows = self._connection.execute("SELECT peer, log, number, version, heard FROM peers").fetchall()
            self._peers = {row[0]: row for row in rows}
        before, number = self._peers.get(event.peer), 0
        if before is not None and before[1] == event.log:
            number = before[2]
        elif role_of(event.peer) == ACCESS_POINT:
            number = 1 + max((row[2] for row in self._peers.values()), default=0)
        self._peers[event.peer] = (event.peer, event.log, number, event.version, event.at)

    def flush(self) -> None:
        if self._peers is not None:
            self._connection.executemany(insertion("peers", "INSERT OR REPLACE"), self._peers.values())
