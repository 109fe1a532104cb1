"""Open a log of any store by its URL. A store's library is loaded only when a URL names it."""

from __future__ import annotations

import os
from contextlib import closing
from hashlib import blake2b

from ...domain.ports.log import EventStore, Head, LogDamaged, LogMissing
from .head_witness import Mark, read_mark
from .location import Location, locate
from .recorder import LogRecorder, head_in
from .stored_log import marked_head, open_stored_log
from .verification import Problem, find_problems


def open_log(
    url: str, *, create: bool, read_only: bool = False, mark: str | None = None, checked: bool = True
) -> EventStore:
    """Open the log at `url`: ``memory:``, ``memory:NAME``, ``sqlite:///file.db``, a file's path, or
    ``postgresql://user@host/database?schema=name`` (schema ``poolbook`` if none is named).

    :param create: create the log if there is none
    :param read_only: write nothing, not even internally in the database
    :param mark: the file of the mark, if not the default one (`mark_of`)
    :param checked: recompute each append's seal before `read` yields its events; False only for verification, which
        continues after a fault
    :raises LogError: there is no log, or the URL is invalid
    :raises LogUnavailable: the log cannot be opened
    :raises LogNewer: a later release has written it
    :raises LogDamaged: the log's file is damaged or, when the log is opened for writing, disagrees with its mark
    """
    location = locate(url)
    mark = mark or mark_of(location)
    tables = _open_recorder(location, False, read_only)
    if tables is None and create and not read_only:
        _reject_if_log_missing(location, mark)
        tables = _open_recorder(location, True, False)
    if tables is None:
        raise LogMissing(_log_name(location))
    try:
        return open_stored_log(tables, mark, read_only, checked)
    except BaseException:
        tables.close()
        raise


def open_recorder(url: str) -> LogRecorder:
    """Return the store of the log at `url`, without decoding events. Raise the same exceptions as `open_log`."""
    location = locate(url)
    recorder = _open_recorder(location, False, False)
    if recorder is None:
        raise LogMissing(_log_name(location))
    return recorder


def verify_seal(url: str, mark: str | None = None) -> list[Problem]:
    """Return the problems of the log at `url`. Check positions, each stream's versions, each append's digest and epoch,
    the head, the mark, and the database's files. This reads the complete log and changes nothing. Raise `LogError` if
    there is no log, `LogUnavailable` if it cannot be read."""
    location = locate(url)
    mark = mark or mark_of(location)
    problems: list[Problem] = []
    marked = None
    try:
        marked = read_mark(mark) if mark else None
    except LogDamaged as damage:
        problems.append(Problem(None, str(damage)))
    try:
        tables = _open_recorder(location, False, True, lenient=True)
    except LogDamaged as damage:
        return [*problems, Problem(None, str(damage))]
    if tables is None:
        if marked is not None and marked.position:
            return [
                *problems,
                Problem(None, f"{_log_name(location)} is gone: it had reached position {marked.position}"),
            ]
        raise LogMissing(_log_name(location))
    with closing(tables):
        return problems + find_problems(tables, marked)


def check_mark(url: str) -> None:
    """Check that a log's head is not behind its mark. Read only the head and the mark, and change nothing. Raise
    `LogError` if the log is missing or cannot be read, `LogDamaged` if it must not be written."""
    location = locate(url)
    mark = mark_of(location)
    tables = _open_recorder(location, False, True)
    if tables is None:
        raise LogMissing(_log_name(location))
    with closing(tables):
        if mark is not None:
            marked_head(tables, mark)


def follow_mark(url: str) -> None:
    """Write the log's head to its mark, as its writer does on its own machine. Raise as `check_mark` does."""
    location = locate(url)
    mark, tables = mark_of(location), _open_recorder(location, False, False)  # the server that accepts writes
    if tables is None:
        raise LogMissing(_log_name(location))
    with closing(tables):
        if mark is not None:
            head = marked_head(tables, mark)
            with closing(Mark(mark)) as kept:
                kept.write(head)


def mark_of(location: Location) -> str | None:
    """Return the path of a log's mark: next to an SQLite file; for a log on a server, in the user's state folder
    (``$XDG_STATE_HOME/poolbook`` or ``~/.local/state/poolbook``), named after a digest of server, database and schema,
    or None for a log in memory."""
    if location.kind == "sqlite":
        return f"{location.place}.head"
    if location.kind == "memory":
        return None
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    digest = blake2b(_log_name(location).encode(), digest_size=16).hexdigest()
    return os.path.join(state, "poolbook", f"{digest}.head")


def stored_head(location: Location) -> Head | None:
    """Return the head of a log from its store, or None if there is no log."""
    tables = _open_recorder(location, False, True)
    if tables is None:
        return None
    with closing(tables):
        return head_in(tables)


def _open_recorder(location: Location, create: bool, read_only: bool, lenient: bool = False) -> LogRecorder | None:
    if location.kind == "memory":
        from .memory import open_memory

        return open_memory(location.place, create)
    if location.kind == "sqlite":
        from .sqlite import open_sqlite

        return open_sqlite(location.place, create=create, read_only=read_only, lenient=lenient)
    from .postgres import open_postgres

    return open_postgres(location.place, location.schema, create=create, read_only=read_only)


def _reject_if_log_missing(location: Location, mark: str | None) -> None:
    """Refuse to create a log in place of a missing one that has a mark, because a new log would hide the loss."""
    if mark is None:
        return
    marked = read_mark(mark)
    if marked is not None and marked.position:
        raise LogDamaged(
            f"{_log_name(location)} is gone: it had reached position {marked.position}. Restore it from a backup; or, "
            f"to create a new log there, remove the mark {mark}"
        )


def _log_name(location: Location) -> str:
    if location.kind == "postgresql":
        from .postgres import name_of

        return name_of(location.place, location.schema)
    return f"memory:{location.place}" if location.kind == "memory" else location.place
