"""The files beside a log: the folder of its processes, its writer's lock, the server's socket, its views.

Beside an SQLite log they carry its name (``pool.db.d/``, ``pool.db.lock``). Those of a log on a server are in the
user's state folder, under a name made of its URL.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any, NamedTuple

from .location import locate

_SOCKET_NAME_LIMIT = 100  #: the kernel takes no longer name for a socket


class LogPaths(NamedTuple):
    """The files beside one log; their names begin with ``base``."""

    base: Path

    @property
    def folder(self) -> Path:
        """Return the folder of claims, exit records and scratch directories of the log's jobs."""
        return self.base.with_name(self.base.name + ".d")

    @property
    def lock(self) -> Path:
        return self.base.with_name(self.base.name + ".lock")

    @property
    def socket(self) -> str:
        """Return the path of the server's socket: beside the log or, where that is too long, in /tmp under a name made
        of the path, the same for every user."""
        name = str(self.base.with_name(self.base.name + ".sock"))
        if len(name.encode()) <= _SOCKET_NAME_LIMIT:
            return name
        return f"/tmp/poolbook-{_digest(name, 16).hex()}.sock"


def _digest(text: str, size: int) -> bytes:
    from hashlib import blake2b  # it brings OpenSSL, and a log beside which its files stand needs none of it

    return blake2b(text.encode(), digest_size=size).digest()


def log_paths(url: str) -> LogPaths:
    """Return the paths beside the log at `url`. Raise `LogError` if the URL is no log's."""
    location = locate(url)
    if location.kind == "sqlite":
        return LogPaths(Path(os.path.realpath(location.place)))  # one log has one lock, whatever links lead to it
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = _digest(f"{location.kind}:{location.place}?{location.schema}", 16).hex()
    folder = Path(state, "poolbook")
    folder.mkdir(parents=True, exist_ok=True)
    return LogPaths(folder / name)


class WriterLock:
    """The lock of the log's one writer. It is released when the process ends, however it ends. A log on a server is
    also locked there, so that the lock holds between machines and users."""

    def __init__(self, url: str) -> None:
        self._path = log_paths(url).lock
        self._location = locate(url)
        self._fd: int | None = None
        self._session: Any = None

    def take(self) -> bool:
        """Try to take the lock; return False if another process has it. Raise `OSError` if the lock's file cannot be
        created."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        if self._location.kind == "postgresql" and not self._take_on_server():
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd
        return True

    def _take_on_server(self) -> bool:
        import psycopg

        from ...domain.ports.log import LogUnavailable

        number = int.from_bytes(_digest(self._location.schema, 7), "big")
        try:
            session = psycopg.connect(self._location.place, autocommit=True)
            row = session.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
        except psycopg.Error as error:
            raise LogUnavailable(f"the server of the log does not answer: {error}".strip()) from None
        if row is None or not row[0]:
            session.close()
            return False
        self._session = session
        return True

    def holder(self) -> str:
        """Return the process that has the lock, as it wrote itself."""
        try:
            return self._path.read_text().strip()
        except OSError:
            return "?"

    def give_up(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
