"""The files next to a log: the folder of its supervisor, its writer's lock, the server's socket, its views.

For an SQLite log, their names start with its name (``pool.db.d/``, ``pool.db.lock``). For a log on a server, they are
in the user's state folder, under a digest of its URL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from . import sqlite_files
from .location import locate, safe_url


class LogPaths(NamedTuple):
    """The files next to one log; their names start with ``base``."""

    base: Path

    @property
    def folder(self) -> Path:
        """Return the folder of claims, exit records and scratch directories of the log's jobs."""
        return self.base.with_name(self.base.name + ".d")

    @property
    def lock_path(self) -> Path:
        return self.base.with_name(self.base.name + ".lock")

    @property
    def socket_path(self) -> Path:
        """Return the path of the server's socket. It may be too long for an address: see ``adapters.sockets``."""
        return self.base.with_name(self.base.name + ".sock")

    @property
    def master_folder(self) -> Path:
        """Return the private directory of the master that runs the log's roles."""
        return self.base.with_name(self.base.name + ".master")

    def trusted_users(self) -> frozenset[int]:
        """Return the users who may serve the log: this process's user, root, the owner of its file."""
        with suppress(OSError):
            return frozenset({0, os.geteuid(), os.stat(self.base).st_uid})
        return frozenset({0, os.geteuid()})


_FILE_SUFFIXES = ("", "-wal", "-shm", ".head", ".lock", ".views", ".views-wal", ".views-shm", ".snapshot")


def share_with_group(url: str) -> None:
    """Let the group of an SQLite log's file read and write the log and the files next to it, including files created
    later, which get the log's mode. Raise `LogError` if the log is not a file, or belongs to another user."""
    _share(url, sqlite_files.share_with_group, "so it has no group", "shared with its group")


def show_to_all(url: str) -> None:
    """Let all users read an SQLite log and the files next to it, like `share_with_group`. Raise `LogError` if the log
    is not a file, belongs to another user, or is in a folder that some users cannot enter."""
    place = Path(os.path.realpath(locate(url).place))
    parent = next((folder for folder in place.parents if not folder.stat().st_mode & 0o001), None)
    if locate(url).kind == "sqlite" and parent is not None:
        from ...domain.ports.log import LogError

        raise LogError(
            f"{place} cannot serve all users: other users cannot enter {parent} to reach it and the scratch "
            f"directories next to it; put the log elsewhere (-log /var/lib/poolbook/pool.db), or chmod o+x that "
            f"folder"
        )
    _share(url, sqlite_files.show_to_all, "so it has no file mode", "made readable for all users")


def _share(url: str, change: Callable[[str], None], reason: str, done_text: str) -> None:
    location = locate(url)
    from ...domain.ports.log import LogError

    if location.kind != "sqlite":
        raise LogError(f"{safe_url(url)} is not a file, {reason}: set its permissions on its server")
    path = os.path.realpath(location.place)
    try:
        for suffix in _FILE_SUFFIXES:
            change(path + suffix)
    except OSError as error:
        raise LogError(f"{path}{suffix} cannot be {done_text}: {error.strerror}; only its owner may do that") from None


def _digest(text: str, size: int) -> bytes:
    from hashlib import blake2b  # loads OpenSSL, which an SQLite log does not need

    return blake2b(os.fsencode(text), digest_size=size).digest()


def log_paths(url: str) -> LogPaths:
    """Return the paths next to the log at `url`. Raise `LogError` if the URL is invalid."""
    location = locate(url)
    if location.kind == "sqlite":
        return LogPaths(Path(os.path.realpath(location.place)))  # one log has one lock, also through links
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = _digest(f"{location.kind}:{location.place}?{location.schema}", 16).hex()
    folder = Path(state, "poolbook")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LogPaths(folder / name)


_FLOCK = struct.Struct("@hhqqi")  # as in <fcntl.h> with 64-bit offsets
_QUEUE_OFFSET = 1 << 32
"""The offset of the queue in the lock's file: its bytes are locked, but never written."""


def _lock_range(kind: int, first_byte: int, length: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, first_byte, length, 0)


class WriterLock:
    """The lock of the log's one writer. It is released when the process ends, even by a crash. A log on a server is
    also locked there, so that the lock works across machines and users.

    Waiting processes form a queue: each locks a byte of the lock's file, whose offset is the microsecond of its
    arrival, and can take the lock only if no lower offset is locked. The end of a process also unlocks its byte, so
    the queue needs no cleanup.
    """

    _fd: int | None = None
    _session: Any = None
    _queue: int | None = None
    _place = 0
    _on_server = ""  #: the process that holds the lock on the log's server

    def __init__(self, url: str) -> None:
        self._path = log_paths(url).lock_path
        self._location = locate(url)
        _LOCKS.add(self)

    def __del__(self) -> None:
        self.give_up()  # a pool that was not closed must not prevent its own program from opening the log

    def take_in_turn(self) -> bool:
        """Try to take the lock. If another process holds the lock or arrived earlier, return False and stay in the
        queue until the next try. Raise `OSError` if the lock's file cannot be created."""
        if self._queue is None:
            self._join_queue()
        if self._has_earlier(self._place) or not self._try_lock_file():
            return False
        self._leave_queue()
        return True

    def try_acquire(self) -> bool:
        """Try to take the lock; return False if another process holds it or waits for it. Raise as `take_in_turn`
        does."""
        try:
            return self.take_in_turn()
        finally:
            self._leave_queue()

    def _join_queue(self) -> None:
        self._queue = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for place in count(_QUEUE_OFFSET + time.monotonic_ns() // 1000):
            try:
                fcntl.fcntl(self._queue, fcntl.F_OFD_SETLK, _lock_range(fcntl.F_WRLCK, place, 1))
            except BlockingIOError:
                continue  # another process arrived in the same microsecond
            self._place = place
            return

    def _has_earlier(self, before_place: int) -> bool:
        """Return True if another process has an earlier place in the queue."""
        assert self._queue is not None
        query = _lock_range(fcntl.F_WRLCK, _QUEUE_OFFSET, before_place - _QUEUE_OFFSET)
        kind = _FLOCK.unpack(fcntl.fcntl(self._queue, fcntl.F_OFD_GETLK, query))[0]
        return bool(kind != fcntl.F_UNLCK)

    def _leave_queue(self) -> None:
        if self._queue is not None:
            os.close(self._queue)
            self._queue = None

    def _try_lock_file(self) -> bool:
        self._on_server = ""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        try:
            if self._location.kind == "postgresql" and not self._take_on_server():
                os.close(fd)
                return False
        except BaseException:
            os.close(fd)
            raise
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd
        return True

    def _take_on_server(self) -> bool:
        import psycopg

        from ...domain.ports.log import LogUnavailable
        from .postgres import connection_options

        number = int.from_bytes(_digest(self._location.schema, 7), "big")
        try:
            if self._session is None:
                name = f"poolbook, process {os.getpid()} on {os.uname().nodename}"[:63]
                options = {**connection_options(self._location.place), "application_name": name}
                self._session = psycopg.connect(**options, autocommit=True)  # type: ignore[arg-type]
            row = self._session.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
            if row is not None and row[0]:
                return True
            holder_row = self._session.execute(_HOLDER, (number >> 32, number & 0xFFFFFFFF)).fetchone()
        except psycopg.Error as error:
            self._session = None
            raise LogUnavailable(f"the log's server does not answer: {error}".strip()) from None
        self._on_server = holder_row[0].removeprefix("poolbook, process ") if holder_row else ""
        return False

    @property
    def needs_renewal(self) -> bool:
        return self._location.kind == "postgresql"

    def renew(self) -> bool:
        """Show the log's server that this process still works: without that, the server releases the lock after `LEASE`
        seconds. If the server has released it, or was replaced, take the lock again; return False if another process
        holds it. Raise `LogUnavailable` if the server does not answer."""
        import psycopg

        if self._session is not None:
            try:
                self._session.execute(_KEEP, (f"{LEASE}s",))
            except psycopg.Error:
                self._session.close()
                self._session = None
        return self._session is not None or self._take_on_server()

    def holder(self) -> str:
        """Return the process that holds the lock: its pid, with its machine if the lock is on the log's server."""
        try:
            return self._on_server or self._path.read_text().strip()
        except OSError:
            return "?"

    def give_up(self) -> None:
        """Release the lock, or leave the queue."""
        self._leave_queue()
        if self._session is not None:
            with contextlib.suppress(Exception):  # closing the session also releases the lock, but a moment later
                self._session.execute("SELECT pg_advisory_unlock_all()")
            self._session.close()
            self._session = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def disown(self) -> None:
        """Close the lock inherited from this process's parent, which keeps it. Otherwise the lock would be released
        only after both processes have ended. The connection to the server belongs to the parent, too."""
        if self._session is not None:
            os.close(self._session.fileno())
            self._session = None
        self.give_up()


class MemoryLock:
    """The lock of a named memory log's one writer. ``memory:`` creates a new log each time, so it needs no lock."""

    def __init__(self, name: str) -> None:
        self._name = name

    def take_in_turn(self) -> bool:
        """Try to take the lock; return False if another pool of this process holds it."""
        return not self._name or _MEMORY_LOCKS.setdefault(self._name, id(self)) == id(self)

    def holder(self) -> str:
        return str(os.getpid())

    def give_up(self) -> None:
        if _MEMORY_LOCKS.get(self._name) == id(self):
            del _MEMORY_LOCKS[self._name]

    __del__ = give_up


LEASE = 30  #: seconds after which a server releases the lock of a process that hangs, or whose machine has failed
_KEEP = "SELECT set_config(name, %s, false) FROM pg_settings WHERE name = 'idle_session_timeout'"  # since PostgreSQL 14
_HOLDER = (
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted "
    "AND datname = current_database() AND classid = %s::bigint::oid AND objid = %s::bigint::oid AND objsubid = 1"
)
_LOCKS: WeakSet[WriterLock] = WeakSet()
_MEMORY_LOCKS: dict[str, int] = {}
os.register_at_fork(after_in_child=_MEMORY_LOCKS.clear)
os.register_at_fork(after_in_child=lambda: [lock.disown() for lock in list(_LOCKS)])  # type: ignore[func-returns-value]
