"""Logs in SQLite files.

Three tables: ``stored_events`` (as in the eventsourcing library, but with an explicit column for positions, so that
nothing renumbers them), ``appends`` and ``head``. With WAL and ``synchronous=FULL``, a commit is durable when it
returns. docs/log.md has the reasons.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock, local
from time import monotonic, sleep
from typing import Any

from msgspec import json

from ...domain.ports.log import Fenced, Head, LogDamaged, LogError, LogUnavailable
from .format import FORMAT
from .recorder import SqlRecorder
from .seal import GENESIS, AppendBatch
from .sqlite_files import State, is_read_as_immutable, make_private, reading_uri, state_of, uri_of

APPLICATION_ID = 0x506F6F6C  #: the application id in the file's header: "Pool"
_MAX_REOPENS = 100  # how often to reopen a log at rest because a writer changed it
LOCK_TIMEOUT = 5  #: how many seconds an append waits while another process writes

TABLES = (
    "CREATE TABLE IF NOT EXISTS stored_events ("
    "rowid INTEGER PRIMARY KEY, originator_id TEXT NOT NULL, originator_version INTEGER NOT NULL, "
    "topic TEXT NOT NULL, state BLOB NOT NULL, UNIQUE (originator_id, originator_version))",
    "CREATE TABLE IF NOT EXISTS appends ("
    "position INTEGER PRIMARY KEY, format INTEGER NOT NULL, epoch INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS head ("
    "format INTEGER NOT NULL, epoch INTEGER NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL)",
    f"INSERT INTO head SELECT {FORMAT}, 0, 0, '{GENESIS}' WHERE NOT EXISTS (SELECT 1 FROM head)",
    f"PRAGMA application_id={APPLICATION_ID}",
)

_STATEMENT_NAMES = {
    "events": "stored_events",
    "by_stream": "stored_events INDEXED BY sqlite_autoindex_stored_events_1",
    "appends": "appends",
    "head": "head",
    "position": "rowid",
}
"""The names in statements (see ``SqlRecorder``)."""
_NO_CODE = -1  # an error of the driver: a text is not valid UTF-8
# SQLite's primary result code -> the log's error, its reason, and the fix.
_FAILURES: dict[int, tuple[type[LogError], str]] = {
    sqlite3.SQLITE_FULL: (LogUnavailable, "no space is left for it; free some and try again"),
    sqlite3.SQLITE_IOERR: (LogUnavailable, "the disk failed to read or write it; check the disk, then try again"),
    sqlite3.SQLITE_READONLY: (LogUnavailable, "it cannot be written; check the permissions of the file and directory"),
    sqlite3.SQLITE_PERM: (LogUnavailable, "the permissions of the file forbid it"),
    sqlite3.SQLITE_AUTH: (LogUnavailable, "the permissions of the file forbid it"),
    sqlite3.SQLITE_CANTOPEN: (LogUnavailable, "it cannot be opened; check the permissions of the file and directory"),
    sqlite3.SQLITE_BUSY: (LogUnavailable, f"another process was writing it for over {LOCK_TIMEOUT} s; try again"),
    sqlite3.SQLITE_LOCKED: (LogUnavailable, "another connection of this process is writing it; try again"),
    sqlite3.SQLITE_NOMEM: (LogUnavailable, "not enough memory; free some and try again"),
    sqlite3.SQLITE_TOOBIG: (LogError, "an event exceeds SQLite's limit of 1 GB"),
    sqlite3.SQLITE_NOTADB: (LogDamaged, "it is not an SQLite database: not a log, or a damaged one"),
    sqlite3.SQLITE_CORRUPT: (LogDamaged, "its file is damaged; restore it from a backup"),
    sqlite3.SQLITE_ERROR: (LogDamaged, "its tables are not a log's; restore it from a backup"),
    _NO_CODE: (LogDamaged, "a text in it is not valid UTF-8; restore it from a backup"),
    sqlite3.SQLITE_CONSTRAINT: (LogDamaged, "it has events after its head; restore it from a backup"),
}
_OTHER_FAILURE = (LogUnavailable, "SQLite failed; fix the reported problem, then try again")


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite's own message quotes the damage
        raise LogDamaged(f"{name}: its schema is damaged (invalid UTF-8); restore it from a backup") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", _NO_CODE)
        kind, reason = _FAILURES.get(code if code == _NO_CODE else code & 0xFF, _OTHER_FAILURE)
        raise kind(f"{name}: {reason} (SQLite: {error})") from error


def _decode_any_bytes(stored_bytes: bytes) -> str:
    return str(stored_bytes, "utf-8", "surrogateescape")


class SQLiteRecorder(SqlRecorder):
    def __init__(self, uri: str, name: str, *, read_only: bool = False, lenient: bool = False) -> None:
        """Store the arguments; open no connection yet. `read_only` and `lenient`: see `open_sqlite`."""
        self.name = name
        self._uri, self._read_only, self._lenient = uri, read_only, lenient
        self._idle: deque[sqlite3.Connection] = deque()  # SQLite's reads do not wait for a writer
        self._closed = False
        self._writers = Lock()  # a writer in this process waits here without polling
        self._of_thread = local()

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Cursor]:
        """Borrow a connection; within ``writing``, use the connection of the current transaction."""
        writer = getattr(self._of_thread, "writer", None)
        if writer is not None:
            yield writer
            return
        with _translate_errors(self.name):
            if self._closed:
                raise LogUnavailable(f"{self.name} was closed; open it again")
            try:
                idle_connection = self._idle.pop()
            except IndexError:
                idle_connection = self._connect()
            try:
                yield idle_connection.cursor()
            finally:
                if idle_connection.in_transaction:
                    idle_connection.rollback()
                self._idle.append(idle_connection)
                if self._closed:
                    self.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._uri, uri=True, check_same_thread=False, isolation_level=None, timeout=LOCK_TIMEOUT
        )
        # Two processes that create a log at once both set its mode, and SQLite does not wait for that lock.
        begun_at = monotonic()
        while not self._read_only:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() - begun_at > LOCK_TIMEOUT:
                    raise
            sleep(0.01)
        connection.execute("PRAGMA synchronous=FULL")
        if self._lenient:
            connection.text_factory = _decode_any_bytes
        return connection

    @contextmanager
    def begin_write(self) -> Iterator[sqlite3.Cursor]:
        if getattr(self._of_thread, "writer", None) is not None:
            yield self._of_thread.writer
            return
        with self._writers, self.connection() as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            self._of_thread.writer = cursor
            try:
                yield cursor
            finally:
                self._of_thread.writer = None
            cursor.connection.commit()

    def make_tables(self) -> None:
        with self.begin_write() as cursor:
            for statement in TABLES:
                cursor.execute(statement)

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        with self.begin_write() as cursor:
            cursor.execute(
                "UPDATE head SET format=?, epoch=?, position=?, digest=? WHERE epoch=? AND position=? AND digest=?",
                (FORMAT, new.epoch, new.position, new.digest, old.epoch, old.position, old.digest),
            )
            if cursor.rowcount != 1:
                raise Fenced(f"{self.name}: another writer has appended; refresh, read the new events and decide again")
            first_position, *columns = batch
            rows = zip(count(first_position), *columns, strict=False)
            cursor.executemany("INSERT INTO stored_events VALUES (?,?,?,?,?)", rows)
            cursor.execute("INSERT INTO appends VALUES (?,?,?,?)", (new.position, FORMAT, new.epoch, new.digest))

    def last_versions(self, streams: Collection[str]) -> dict[str, int]:
        last = "SELECT MAX(originator_version) FROM stored_events WHERE originator_id=value"
        rows = self._select(f"SELECT value, ({last}) AS last FROM json_each(?)", json.encode([*streams]).decode())
        return {stream: version for stream, version in rows if version is not None}

    def integrity_problems(self) -> list[str]:
        faults = [fault for (fault,) in self._select("PRAGMA integrity_check(10)") if fault != "ok"]
        ((application,),) = self._select("PRAGMA application_id")
        return faults if application == APPLICATION_ID else [*faults, "the file's header does not mark it as a log"]

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _select(self, statement: str, *parameters: object) -> list[Any]:
        with self.connection() as cursor:
            return cursor.execute(statement.format(**_STATEMENT_NAMES), parameters).fetchall()


def open_sqlite(path: str, *, create: bool, read_only: bool, lenient: bool = False) -> SQLiteRecorder | None:
    """Return the log in the file `path`; if there is none, create one if `create` is true, otherwise return None. With
    `lenient`, also return texts that are not UTF-8, for verification. Raise `LogError` if the file is not a log,
    `LogUnavailable` if it cannot be opened, `LogDamaged` if it is damaged."""
    size = _size(path)
    if size == 0 and not create:
        return None
    if size and not read_only and _is_truncated(path, size):
        raise LogDamaged(f"{path}: its file was truncated; reading may still work. Restore it from a backup")
    try:
        tables = _tables(path, read_only, lenient, bool(size))
    except OSError as error:
        advice = "check the permissions of the file and directory"
        raise LogUnavailable(f"{path} cannot be opened: {error.strerror}; {advice}") from error
    try:
        table_rows = tables._select("SELECT name FROM sqlite_master WHERE type='table'")
        if not table_rows and not create:
            tables.close()
            return None
        if not table_rows:
            tables.make_tables()
        elif ("head",) not in table_rows:
            raise LogError(f"{path} is an SQLite database, but not a Poolbook log; use another file")
    except BaseException:
        tables.close()
        raise
    return tables


def _size(path: str) -> int:
    if os.path.isdir(path):
        raise LogError(f"{path} is a directory, but a log is a file; use for example {os.path.join(path, 'pool.db')}")
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise LogError(f"cannot create the log {path}: the directory {folder} is missing; create it") from None
        return 0
    except OSError as error:
        raise LogUnavailable(f"{path} cannot be read: {error.strerror}") from error


def _is_truncated(path: str, size: int) -> bool:
    """Return True if the file has fewer pages than its header says, and no write-ahead log can have the rest.

    The header: page size at byte 16, number of pages at byte 28 (SQLite's page "Database File Format", section 1.3).
    SQLite itself notices a missing page only when it reads that page, which an append may never do.
    """
    wal_path = f"{path}-wal"
    if os.path.exists(wal_path) and os.path.getsize(wal_path):
        return False
    try:
        with open(path, "rb") as file:
            header = file.read(32)
    except OSError as error:
        raise LogUnavailable(f"{path} cannot be read: {error.strerror}") from error
    page, pages = int.from_bytes(header[16:18], "big"), int.from_bytes(header[28:32], "big")
    return header.startswith(b"SQLite format 3\0") and size < (65536 if page == 1 else page) * pages


def _tables(path: str, read_only: bool, lenient: bool, does_exist: bool) -> SQLiteRecorder:
    if read_only:
        return _Reader(path, lenient)
    if not does_exist:
        make_private(path)
    return SQLiteRecorder(uri_of(path, "rw"), path, lenient=lenient)


class _Reader(SQLiteRecorder):
    """A read-only log, which leaves no files next to it. It is reopened if a process starts to write it."""

    def __init__(self, path: str, lenient: bool) -> None:
        self._seen = self._state(path)
        super().__init__(reading_uri(path), path, read_only=True, lenient=lenient)

    def _state(self, path: str) -> State | None:
        return state_of(path) if is_read_as_immutable(path) else None

    def _select(self, statement: str, *parameters: object) -> list[Any]:
        for _ in range(_MAX_REOPENS):
            try:
                rows = super()._select(statement, *parameters)
            except LogError:
                if self._is_unchanged():
                    raise
            else:
                if self._is_unchanged():
                    return rows
            self.close()
            self._seen, self._uri, self._closed = self._state(self.name), reading_uri(self.name), False
        raise LogUnavailable(f"{self.name} is being written by another user; try again")

    def _is_unchanged(self) -> bool:
        return self._seen is None or self._seen == state_of(self.name)
