"""Read a log's head fast, for commands that only ask whether their views are up to date."""

from __future__ import annotations

import os
from contextlib import closing

from .format import FORMAT
from .location import locate


def head_of(url: str) -> tuple[int, int, str] | None:
    """Return epoch, position and digest of the log at `url` (what `Head` takes), or None if there is none. Loads
    neither events nor codec, and for an SQLite log only sqlite3. Raise `LogError` as opening the log for reading."""
    location = locate(url)
    found = _of_file(location.place) if location.kind == "sqlite" else None
    if found is not None:
        return found
    from .opening import stored_head

    head = stored_head(location)
    return (head.epoch, head.position, head.digest) if head else None


def _of_file(path: str) -> tuple[int, int, str] | None:
    import sqlite3
    from urllib.parse import quote

    try:
        with closing(sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT format, epoch, position, digest FROM head").fetchall()
    except sqlite3.Error:
        return None
    return (rows[0][1], rows[0][2], rows[0][3]) if len(rows) == 1 and rows[0][0] == FORMAT else None
