"""The views next to a log: find, open and update them (docs/log.md).

The views of ``pool.db`` are in ``pool.db.views``, unless the log belongs to another user (`views_path`); the views of a
log on a server are next to its mark; the views of a log in memory are in memory. Views that a user without write access
to the log could have written are not trusted. Readers update the views in batches, each in one transaction with its
checkpoint, so that several processes can do it at the same time without repeating work.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, NoReturn

from ...projections.checkpoint import BEGINNING, Checkpoint, fingerprint, read_checkpoint, write_checkpoint
from ...projections.schema import APPLICATION_ID, create, create_past, is_current
from ...projections.views import Views
from ..stores.fast_head import head_of
from ..stores.location import locate
from ..stores.sqlite_files import is_trusted, make_private, reading_uri

if TYPE_CHECKING:
    from ...domain.events import Event
    from ...domain.ports.log import EventStore, Head

BATCH = 10_000  #: events in a transaction: a crash costs no more work than this, and another process waits no longer
BATCH_BYTES = 1 << 22  #: stored data in a transaction: an event of an import can have thousands of job log entries
LOCK_TIMEOUT = 60  #: seconds to wait for another process that is updating the views


def views_path(url: str) -> str | None:
    """Return the file with this user's views of the log at `url`, or None if they are in memory. The file is next to
    the user's own log, or in the user's cache (``$XDG_CACHE_HOME/poolbook`` or ``~/.cache/poolbook``) if the log
    belongs to another user, its folder cannot be written, or another user's file is in the place of the views. Raise
    `LogError` if the URL is invalid."""
    beside = _path_beside(url)
    location = locate(url)
    if beside is None or location.kind != "sqlite":
        return beside
    folder = os.path.dirname(os.path.abspath(beside))
    ours = _owner(location.place) in (None, os.geteuid()) and (_allowed(folder) or not os.path.isdir(folder))
    if ours and is_trusted(beside, location.place):
        return beside
    return _in_cache(location.place)


def _path_beside(url: str) -> str | None:
    location = locate(url)
    if location.kind == "sqlite":
        return f"{location.place}.views"
    if location.kind == "memory":
        return None
    from ..stores.opening import mark_of

    mark = mark_of(location)
    return None if mark is None else f"{mark.removesuffix('.head')}.views"


def _in_cache(log: str) -> str | None:
    """Return the file of a log's views in the user's cache, or None if no file can be created there."""
    from hashlib import blake2b

    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "poolbook")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return None
    name = blake2b(os.fsencode(os.path.realpath(log)), digest_size=16).hexdigest()
    path = os.path.join(folder, f"{name}.views")
    return path if is_trusted(path) and _allowed(folder) else None


def _owner(path: str) -> int | None:
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def views_current(url: str) -> Views:
    """Return the current views of the log at `url`, as a snapshot. Close them after use. Raise `LogError` if the log
    does not exist, `LogUnavailable` if the log or its views cannot be read."""
    return views_if_current(url) or _caught_up(url, views_path(url))


def views_if_current(url: str) -> Views | None:
    """Return the stored views of the log at `url`, as a snapshot, or None if they are not current. Close them after
    use."""
    head = head_of(url)
    connection = None if head is None else _open_reading(url, lambda now: now[:2] == head[1:])
    return None if connection is None else Views(connection)


def views_at(url: str, log: EventStore, position: int, *, history: bool = False) -> Views:
    """Return the views at a position of a pool's log, as a snapshot. Close them after use.

    :param url: the log's URL; empty: its views are not stored
    :param history: whether they have the history; if not, it is missing if no views of the log are stored
    :raises LogError: the log or its views cannot be read
    """
    stored = bool(url) and locate(url).kind != "memory"
    connection = _open_reading(url, lambda now: _reach(now, log, position)) if stored else None
    if connection is None and history and stored:
        connection = views_current(url).connection
    if connection is None:
        connection = open_tables(None)
        create(connection)
        _fold_until(connection, log, 0, position, history)
        if not history:
            connection.execute("DROP TABLE history")  # so that no answer is based on it
    elif read_checkpoint(connection).position != position:
        from ...projections.snapshots import restore_snapshot

        create_past(connection, position)
        start = restore_snapshot(connection, position, lambda at: _fingerprint_at(log, at))
        _fold_until(connection, log, start, position, False)
    return Views(connection)


def _fold_until(connection: sqlite3.Connection, log: EventStore, start: int, position: int, history: bool) -> None:
    from ...projections.projector import FOLDS, WITHOUT_HISTORY, apply

    events: list[tuple[int, Event]] = []
    while start < position:
        events = list(log.read(start, min(BATCH, position - start), BATCH_BYTES))
        apply(connection, events, log=log.id, folds=FOLDS if history else WITHOUT_HISTORY)
        start = events[-1][0]
    if not events:
        ((_, last),) = log.read(position - 1, 1)
        write_checkpoint(connection, Checkpoint(position, "", fingerprint(last), last.at, log.id))


def _reach(now: Checkpoint, log: EventStore, position: int) -> bool:
    """Return True if these are views of the log, at this position or later."""
    if now.position < position or now.log != log.id:
        return False
    log.refresh()
    return _fingerprint_at(log, now.position) == now.last


def _fingerprint_at(log: EventStore, position: int) -> str:
    return next((fingerprint(event) for _, event in log.read(position - 1, 1)), "")


def rebuild(url: str) -> int:
    """Rebuild the views of the log at `url`, even if their file is damaged; return their new position."""
    path = views_path(url)
    if path is not None and os.path.exists(path):
        try:
            # In place, as other processes may have the file open.
            with closing(open_tables(path)) as tables:
                tables.execute("BEGIN IMMEDIATE")
                create(tables)
                tables.execute("COMMIT")
        except _UNREADABLE as error:
            if _sqlite_code(error) in _DAMAGES:
                _remove(path)
    with _caught_up(url, path) as views:
        return views.position


def open_tables(path: str | None) -> sqlite3.Connection:
    """Return a connection to the views in a file, for writing; create the file if necessary. If `path` is None, create
    views in memory. Raise `LogUnavailable` if the file does not contain views, `sqlite3.Error` if SQLite cannot open
    it."""
    if path is not None:
        try:
            make_private(path, path.removesuffix(".views"))
        except OSError as error:
            refused = sqlite3.OperationalError(error.strerror)
            refused.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise refused from error
    place = path or ":memory:"  # a pool's calls may come from several threads, one after the other
    connection = sqlite3.connect(place, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        if path is not None:
            _check_owner(connection, path)
            _write_ahead(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def catch_up(log: EventStore, connection: sqlite3.Connection, shared: bool = False, batch: int = BATCH) -> int:
    """Update views to the head of `log`, `batch` events per transaction; return their new position. With `shared`,
    others may append to the log and update the views, so the head is read again while the views are locked."""
    checked = False
    while True:
        connection.execute("BEGIN IMMEDIATE")
        try:
            head = log.refresh() if shared else log.head
            now = _standing(connection, log, head, checked)
            checked = True
            if now.position < head.position:
                from ...projections.projector import apply
                from ...projections.snapshots import store_snapshot

                events = list(log.read(now.position, batch, BATCH_BYTES))
                digest = head.digest if now.position + len(events) == head.position else ""
                apply(connection, events, digest, log.id)
                before, now = now, read_checkpoint(connection)
                store_snapshot(connection, before.position, now)
            elif now.position == head.position and now.digest != head.digest:
                write_checkpoint(connection, now._replace(digest=head.digest))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        if now.position >= head.position:
            return now.position


def _standing(connection: sqlite3.Connection, log: EventStore, head: Head, checked: bool) -> Checkpoint:
    """Return the checkpoint of the views in this log. Replace views of another log or format with empty ones."""
    if is_current(connection):
        now = read_checkpoint(connection)
        if checked or not now.position or _are_views_of(now, log, head):
            return now
    create(connection)
    return BEGINNING


def _are_views_of(now: Checkpoint, log: EventStore, head: Head) -> bool:
    """Return True if the views were folded from this log, and their last event is still at its position."""
    if now.log != log.id:
        return False
    if now.position == head.position and now.digest not in ("", head.digest):
        return False
    return _fingerprint_at(log, now.position) == now.last


def _open_reading(url: str, accepts: Callable[[Checkpoint], bool]) -> sqlite3.Connection | None:
    """Return a read-only connection to the stored views of a log, as a snapshot, or None if there are no trusted views
    with an accepted checkpoint."""
    location = locate(url)
    log = location.place if location.kind == "sqlite" else ""
    for path in dict.fromkeys((views_path(url), _path_beside(url))):
        if path is not None and is_trusted(path, log):
            connection = _open_file(path, accepts)
            if connection is not None:
                return connection
    return None


def _open_file(path: str, accepts: Callable[[Checkpoint], bool]) -> sqlite3.Connection | None:
    if not os.path.exists(path):
        return None
    from ...domain.ports.log import LogUnavailable

    # Opening the file for writing shows what is wrong with it.
    with suppress(OSError, LogUnavailable, *_UNREADABLE):
        connection = sqlite3.connect(
            reading_uri(path), uri=True, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as unless_current:
            unless_current.callback(connection.close)
            connection.execute("BEGIN")
            if is_current(connection) and accepts(read_checkpoint(connection)):
                unless_current.pop_all()
                return connection
    return None


def _caught_up(url: str, path: str | None) -> Views:
    from ..stores.opening import open_log

    log = open_log(url, create=False, read_only=True)
    try:
        if path is not None and _writable(path):
            try:
                return _update_views(log, open_tables(path))
            except _UNREADABLE as error:
                # Unwritable views must not keep the log from being read.
                if _sqlite_code(error) not in _HINDRANCES:
                    raise_unavailable(path, _advice(error))
        return _update_views(log, open_tables(None))
    finally:
        log.close()


def _update_views(log: EventStore, connection: sqlite3.Connection) -> Views:
    try:
        catch_up(log, connection, shared=True)
        connection.execute("BEGIN")
    except BaseException:
        connection.close()
        raise
    return Views(connection)


def _writable(path: str) -> bool:
    folder = os.path.dirname(os.path.abspath(path))
    return _allowed(folder) and (not os.path.exists(path) or _allowed(path))


def _allowed(path: str) -> bool:
    return os.access(path, os.W_OK, effective_ids=True)


_HINDRANCES = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)
_DAMAGES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def raise_if_unreadable(url: str, error: BaseException) -> None:
    """Raise `LogUnavailable` if the error shows that the views file of the log at `url` is damaged. Ignore other
    errors."""
    from json import JSONDecodeError

    from msgspec import DecodeError

    path = views_path(url)
    if path is not None and isinstance(error, (*_UNREADABLE, JSONDecodeError, DecodeError)):
        raise_unavailable(path, _advice(error))


def _advice(error: Exception) -> str:
    if _sqlite_code(error) == sqlite3.SQLITE_BUSY:
        return f"have been locked by another process for over {LOCK_TIMEOUT} s ({error}); try again"
    trouble = "are damaged" if _sqlite_code(error) in _DAMAGES else "cannot be used"
    return f"{trouble} ({error}); `poolbook views` rebuilds them from the log"


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        try:
            os.unlink(path + suffix)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise_unavailable(path, f"cannot be removed: {error.strerror}; check the permissions of the directory")


def _sqlite_code(error: Exception) -> int:
    if isinstance(error, UnicodeDecodeError):  # SQLite's message quotes the damage
        return sqlite3.SQLITE_CORRUPT
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log, so that readers and a writer do not wait for each other. After a power failure the views
    may be older, with an older checkpoint, but they are consistent."""
    connection.execute("PRAGMA synchronous=NORMAL")
    give_up = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            # Two processes that begin the same file: SQLite does not let one of them wait here.
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if _sqlite_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.005)


def _check_owner(connection: sqlite3.Connection, path: str) -> None:
    # In this order: another process that makes the tables meanwhile sets the file's owner in the same transaction.
    has_tables = connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    if has_tables and connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise_unavailable(path, "are another program's SQLite database; move it, because Poolbook needs this file name")


def raise_unavailable(path: str, why: str) -> NoReturn:
    """Raise `LogUnavailable` with a message about the views file."""
    from ...domain.ports.log import LogUnavailable

    raise LogUnavailable(f"the views {path} {why}")
