"""Read a log's head fast, for commands that only check whether their views are up to date."""

from __future__ import annotations

from contextlib import closing

from .format import FORMAT
from .location import locate
from .sqlite_files import is_read_as_immutable, reading_uri, state_of


def head_of(url: str) -> tuple[int, int, str] | None:
    """Return epoch, position and digest of the log at `url` (the fields of `Head`), or None if there is none. This
    loads neither events nor codec, and for an SQLite log only sqlite3. Raise `LogError` in the same cases as opening
    the log for reading."""
    location = locate(url)
    file_head = _head_in_file(location.place) if location.kind == "sqlite" else None
    if file_head is not None:
        return file_head
    from .opening import stored_head

    head = stored_head(location)
    return (head.epoch, head.position, head.digest) if head else None


def _head_in_file(path: str) -> tuple[int, int, str] | None:
    import sqlite3

    try:
        state_before = state_of(path)
        is_resting = is_read_as_immutable(path)
        with closing(sqlite3.connect(reading_uri(path), uri=True)) as connection:
            rows = connection.execute("SELECT format, epoch, position, digest FROM head").fetchall()
        if is_resting and state_before != state_of(path):
            return None
    except (OSError, sqlite3.Error, UnicodeDecodeError):  # opening the log reports what is wrong with it
        return None
    return (rows[0][1], rows[0][2], rows[0][3]) if len(rows) == 1 and rows[0][0] == FORMAT else None
