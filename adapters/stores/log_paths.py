"""The files beside a log: the folder of its processes, its writer's lock, the server's socket, its views.

Beside an SQLite log they carry its name (``pool.db.d/``, ``pool.db.lock``). Those of a log on a server are in the
user's state folder, under a name made of its URL.
"""

from __future__ import annotations

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
    def socket(self) -> Path:
        """Return the path of the server's socket. It may be longer than an address: see ``adapters.sockets``."""
        return self.base.with_name(self.base.name + ".sock")

    def trusted(self) -> frozenset[int]:
        """Return the users whose server is believed to be the log's: this process's, root, the owner of its file."""
        with suppress(OSError):
            return frozenset({0, os.geteuid(), os.stat(self.base).st_uid})
        return frozenset({0, os.geteuid()})


_BESIDE = ("", "-wal", "-shm", ".head", ".lock", ".views", ".views-wal", ".views-shm")


def share_with_group(url: str) -> None:
    """Let the group of an SQLite log's file read and write the log and what stands beside it, now and later: what is
    made beside a log is for whom its file is. Raise `LogError` if it is no file, or another user's."""
    _open_up(url, sqlite_files.share_with_group, "whose group could be meant", "given to its group")


def show_to_all(url: str) -> None:
    """Let everybody read an SQLite log and what stands beside it, in the same way. Raise `LogError` if it is no file,
    another user's, or in a folder through which not everybody may go."""
    place = Path(os.path.realpath(locate(url).place))
    closed = next((folder for folder in place.parents if not folder.stat().st_mode & 0o001), None)
    if locate(url).kind == "sqlite" and closed is not None:
        from ...domain.ports.log import LogError

        raise LogError(
            f"{place} cannot serve all users: nobody else may go through {closed} to come to it, and to the scratch "
            "directories beside it; keep the log elsewhere (-log /var/lib/poolbook/pool.db), or chmod o+x that folder"
        )
    _open_up(url, sqlite_files.show_to_all, "that could be shown to all", "shown to all users")


def _open_up(url: str, change: Callable[[str], None], meant: str, done: str) -> None:
    location = locate(url)
    from ...domain.ports.log import LogError

    if location.kind != "sqlite":
        raise LogError(f"{safe_url(url)} is no file, {meant}: its server says who may read it")
    path = os.path.realpath(location.place)
    try:
        for suffix in _BESIDE:
            change(path + suffix)
    except OSError as error:
        raise LogError(f"{path}{suffix} cannot be {done}: {error.strerror}; its owner can") from None


def _digest(text: str, size: int) -> bytes:
    from hashlib import blake2b  # it brings OpenSSL, and a log beside which its files stand needs none of it

    return blake2b(os.fsencode(text), digest_size=size).digest()


def log_paths(url: str) -> LogPaths:
    """Return the paths beside the log at `url`. Raise `LogError` if the URL is no log's."""
    location = locate(url)
    if location.kind == "sqlite":
        return LogPaths(Path(os.path.realpath(location.place)))  # one log has one lock, whatever links lead to it
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    name = _digest(f"{location.kind}:{location.place}?{location.schema}", 16).hex()
    folder = Path(state, "poolbook")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LogPaths(folder / name)


_FLOCK = struct.Struct("@hhqqi")  # as <fcntl.h> has it, where offsets have 64 bits
_LINE = 1 << 32
"""Where in the lock's file the places of the line begin: bytes that are locked, and never written."""


def _range(kind: int, first: int, length: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, first, length, 0)


class WriterLock:
    """The lock of the log's one writer. It is released when the process ends, however it ends. A log on a server is
    also locked there, so that the lock holds between machines and users.

    Who waits for it stands in line: it keeps a byte of the lock's file locked, whose offset is the microsecond in which
    it came. The lock goes to nobody before whom another place is locked. A place is given up when its process ends,
    too, so that nobody has to clear the line.
    """

    _fd: int | None = None
    _session: Any = None
    _line: int | None = None
    _place = 0
    _on_server = ""  #: the process that has the lock on the log's server

    def __init__(self, url: str) -> None:
        self._path = log_paths(url).lock
        self._location = locate(url)
        _LOCKS.add(self)

    def __del__(self) -> None:
        self.give_up()  # a pool that nobody closed must not keep the log from its own program

    def take_in_turn(self) -> bool:
        """Try to take the lock; return False, and stand in line until the next try, if another process has it or came
        before. Raise `OSError` if the lock's file cannot be created."""
        if self._line is None:
            self._stand()
        if self._others(self._place) or not self._take():
            return False
        self._leave()
        return True

    def take(self) -> bool:
        """Try to take the lock; return False if another process has it or stands in line. Raise as `take_in_turn`."""
        try:
            return self.take_in_turn()
        finally:
            self._leave()

    def _stand(self) -> None:
        self._line = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        for place in count(_LINE + time.monotonic_ns() // 1000):
            try:
                fcntl.fcntl(self._line, fcntl.F_OFD_SETLK, _range(fcntl.F_WRLCK, place, 1))
            except BlockingIOError:
                continue  # somebody came in the same microsecond
            self._place = place
            return

    def _others(self, before: int) -> bool:
        """Tell whether anybody stands in line at a place before this one."""
        assert self._line is not None
        asked = _range(fcntl.F_WRLCK, _LINE, before - _LINE)
        kind = _FLOCK.unpack(fcntl.fcntl(self._line, fcntl.F_OFD_GETLK, asked))[0]
        return bool(kind != fcntl.F_UNLCK)

    def _leave(self) -> None:
        if self._line is not None:
            os.close(self._line)
            self._line = None

    def _take(self) -> bool:
        self._on_server = ""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
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
            if self._session is None:
                name = f"poolbook, process {os.getpid()} on {os.uname().nodename}"[:63]
                self._session = psycopg.connect(self._location.place, autocommit=True, application_name=name)
            row = self._session.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
            if row is not None and row[0]:
                return True
            holder = self._session.execute(_HOLDER, (number >> 32, number & 0xFFFFFFFF)).fetchone()
        except psycopg.Error as error:
            self._session = None
            raise LogUnavailable(f"the server of the log does not answer: {error}".strip()) from None
        self._on_server = holder[0].removeprefix("poolbook, process ") if holder else ""
        return False

    def holder(self) -> str:
        """Return the process that has the lock, as it wrote itself: its pid; on the log's server with its machine."""
        try:
            return self._on_server or self._path.read_text().strip()
        except OSError:
            return "?"

    def give_up(self) -> None:
        """Release the lock, or leave the line."""
        self._leave()
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def disown(self) -> None:
        """Leave the lock to this process's parent, which has it: it would else be released when both have ended. The
        connection to the server is the parent's, too."""
        if self._session is not None:
            os.close(self._session.fileno())
            self._session = None
        self.give_up()


class MemoryLock:
    """The lock of the one writer of a log in memory; ``memory:``, a new log each time, needs none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def take_in_turn(self) -> bool:
        """Try to take the lock; return False if another pool of this process has it."""
        return not self._name or _IN_MEMORY.setdefault(self._name, id(self)) == id(self)

    def holder(self) -> str:
        return str(os.getpid())

    def give_up(self) -> None:
        if _IN_MEMORY.get(self._name) == id(self):
            del _IN_MEMORY[self._name]

    __del__ = give_up


_HOLDER = (
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted "
    "AND datname = current_database() AND classid = %s::bigint::oid AND objid = %s::bigint::oid AND objsubid = 1"
)
_LOCKS: WeakSet[WriterLock] = WeakSet()
_IN_MEMORY: dict[str, int] = {}
os.register_at_fork(after_in_child=_IN_MEMORY.clear)
os.register_at_fork(after_in_child=lambda: [lock.disown() for lock in list(_LOCKS)])  # type: ignore[func-returns-value]
