"""Opening a log by its URL, whichever kind of store it names. A kind's library is loaded when a URL names it."""

from __future__ import annotations

import os
from hashlib import blake2b

from ...domain.ports.log import Head, Log, LogDamaged, LogMissing
from .location import Location, locate
from .stored_log import Tables, head_in, marked_head, opened
from .verification import Problem, problems_of


def open_log(url: str, *, create: bool, read_only: bool = False, mark: str | None = None) -> Log:
    """The log at `url`: ``memory:``, ``memory:NAME``, ``sqlite:///file.db``, a file's path, or
    ``postgresql://user@host/database?schema=name`` (schema ``poolbook`` if none is named).

    `create`: make it if there is none. `read_only`: nothing is written, not even by the database. `mark`: the file that
    keeps the head outside the log, where it is not to be the usual one (`mark_of`).

    Raises `LogError` if there is none or the URL is none, `LogUnavailable`, `LogNewer`, and `LogDamaged`: for writing,
    also if the log is not the one that its mark knows.
    """
    location = locate(url)
    mark = mark or mark_of(location)
    tables = _tables(location, False, read_only)
    if tables is None and create and not read_only:
        _refuse_if_gone(location, mark)
        tables = _tables(location, True, False)
    if tables is None:
        raise LogMissing(_named(location))
    try:
        return opened(tables, mark, read_only)
    except BaseException:
        tables.close()
        raise


def verify_seal(url: str, mark: str | None = None) -> list[Problem]:
    """What in the log at `url` is not as it was appended; nothing for a sound one.

    Computes everything again: positions, each stream's versions, each append's digest and epoch, the head; then asks
    the mark, and the database about its files. Reads the whole log, and changes nothing. Raises `LogError` if there is
    no log, and `LogUnavailable` if it cannot be read.
    """
    location = locate(url)
    mark = mark or mark_of(location)
    found: list[Problem] = []
    marked = None
    try:
        from .head_witness import read_mark

        marked = read_mark(mark) if mark else None
    except LogDamaged as damage:
        found.append(Problem(None, str(damage)))
    try:
        tables = _tables(location, False, True, lenient=True)
    except LogDamaged as damage:
        return [*found, Problem(None, str(damage))]
    if tables is None:
        if marked is not None and marked.position:
            return [*found, Problem(None, f"{_named(location)} is gone: it had reached position {marked.position}")]
        raise LogMissing(_named(location))
    try:
        return found + problems_of(tables, marked)
    finally:
        tables.close()


def check_mark(url: str) -> None:
    """Make sure that the log at `url` may be written: that its head is not behind its mark. Reads no more than these,
    and changes nothing. Raises `LogError` if it cannot be read or there is none, `LogDamaged` if it may not be
    written."""
    location = locate(url)
    mark = mark_of(location)
    tables = _tables(location, False, True)
    if tables is None:
        raise LogMissing(_named(location))
    try:
        if mark is not None:
            marked_head(tables, mark)
    finally:
        tables.close()


def mark_of(location: Location) -> str | None:
    """Where a log's mark stands: beside an SQLite file, and for a log on a server in the user's state folder
    (``$XDG_STATE_HOME/poolbook`` or ``~/.local/state/poolbook``), in a file named by a digest of server, database and
    schema. None for a log in memory."""
    if location.kind == "sqlite":
        return f"{location.place}.head"
    if location.kind == "memory":
        return None
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    digest = blake2b(_named(location).encode(), digest_size=16).hexdigest()
    return os.path.join(state, "poolbook", f"{digest}.head")


def stored_head(location: Location) -> Head | None:
    """The head of a log, by the store's own means; None if there is no log."""
    tables = _tables(location, False, True)
    if tables is None:
        return None
    try:
        return head_in(tables)
    finally:
        tables.close()


def _tables(location: Location, create: bool, read_only: bool, lenient: bool = False) -> Tables | None:
    if location.kind == "memory":
        from .memory import open_memory

        return open_memory(location.place, create)
    if location.kind == "sqlite":
        from .sqlite import open_sqlite

        return open_sqlite(location.place, create=create, read_only=read_only, lenient=lenient)
    from .postgres import open_postgres

    return open_postgres(location.place, location.schema, create=create, read_only=read_only)


def _refuse_if_gone(location: Location, mark: str | None) -> None:
    """A log that has a mark was there: to begin another in its place would hide that it is gone."""
    if mark is None:
        return
    from .head_witness import read_mark

    marked = read_mark(mark)
    if marked is not None and marked.position:
        raise LogDamaged(
            f"{_named(location)} is gone: it had reached position {marked.position}. Restore it from a copy; or, to "
            f"begin a new log there, remove the mark {mark}"
        )


def _named(location: Location) -> str:
    if location.kind == "postgresql":
        from .postgres import name_of

        return name_of(location.place, location.schema)
    return f"memory:{location.place}" if location.kind == "memory" else location.place
