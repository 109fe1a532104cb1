"""Idempotency keys: a key is for one request. The pool remembers the first answer, and repeats it also after a restart;
this table remembers for which request the key was used."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final

from ..https.requests import Rejected
from ..sockets import make_private

_KEPT_S: Final = 30 * 86_400
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS requests "
    "(user TEXT, key TEXT, digest BLOB NOT NULL, at REAL NOT NULL, PRIMARY KEY (user, key)) WITHOUT ROWID"
)


class RequestKeys:
    """The keys that users have sent, in a file in the pool's directory, or in memory if it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        try:
            make_private(folder)
            self._connection = sqlite3.connect(folder / "http-keys.db", isolation_level=None, check_same_thread=False)
            self._connection.execute(_CREATE)
        except (OSError, sqlite3.Error):
            self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._connection.execute(_CREATE)

    def check(self, user: str, key: str, *request: bytes) -> None:
        """Raise `Rejected` if the user has sent the key with another request."""
        digest, now = blake2b(b"\0".join(request)).digest(), time.time()
        with self._lock, closing(self._connection.cursor()) as cursor:
            cursor.execute("DELETE FROM requests WHERE user = ? AND at < ?", (user, now - _KEPT_S))
            cursor.execute("INSERT OR IGNORE INTO requests VALUES (?, ?, ?, ?)", (user, key, digest, now))
            (known,) = cursor.execute("SELECT digest FROM requests WHERE user = ? AND key = ?", (user, key)).fetchone()
        if known != digest:
            message = "Idempotency-Key: this key was sent with another request; use a new key for each request"
            raise Rejected(422, "key", message, user)

    def close(self) -> None:
        self._connection.close()
