"""SQLite files as their owners and other users find them: how to read one and leave nothing beside it, and who may read
what is made.

SQLite shares a ``-wal`` and a ``-shm`` file between processes, and makes them for a reader, too. Those of another user
would keep the owner from writing. So another user's file is read as it stands, unless its owner's process has made
both. Imports little: every short command loads this.
"""

from __future__ import annotations

import os
from contextlib import suppress
from urllib.parse import quote

PRIVATE = 0o600
_GROUP = 0o060
_SHOWN = 0o044

State = tuple[object, ...]  #: what changes when somebody begins to write a file, or writes it


def uri_of(path: str, mode: str) -> str:
    """Return SQLite's URI of a file; `mode`: ro, rw or rwc."""
    return f"file:{quote(os.fsencode(os.path.abspath(path)))}?mode={mode}"


def is_at_rest(path: str) -> bool:
    """Tell whether the file is to be read as it stands: it is another user's, or in a folder that cannot be written,
    and nobody has it open. Raise `LogUnavailable` if what waits in its write-ahead log could only be read by making a
    file beside it."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.stat(path).st_uid == os.geteuid() and os.access(folder, os.W_OK, effective_ids=True):
        return False
    if os.path.exists(f"{path}-shm") and os.path.exists(f"{path}-wal"):
        return False
    if not os.path.exists(f"{path}-wal") or not os.path.getsize(f"{path}-wal"):
        return True
    from ...domain.ports.log import LogUnavailable

    raise LogUnavailable(
        f"{path} is another user's, and its last writes wait in {path}-wal until its owner opens it (`poolbook q` "
        "does); or copy both files, and read the copy"
    )


def reading_uri(path: str) -> str:
    """Return the URI with which to read a file and leave nothing beside it. Raise `OSError` if there is no such file,
    `LogUnavailable` as ``is_at_rest``."""
    return uri_of(path, "ro") + ("&immutable=1" if is_at_rest(path) else "")


def state_of(path: str) -> State:
    """Return the state of a file that is read at rest. Raise `OSError` if it is gone."""
    found = os.stat(path)
    shared = os.path.exists(f"{path}-shm") and os.path.exists(f"{path}-wal")
    return found.st_ino, found.st_size, found.st_mtime_ns, shared


def make_private(path: str, log: str = "") -> None:
    """Make the file, empty, if it is missing: for its user alone, or for those whom the file `log` is for. Raise
    `OSError` if it cannot be made."""
    mode = mode_like(log)
    with suppress(FileExistsError):
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, PRIVATE)
        try:
            if mode != PRIVATE:
                os.fchmod(made, mode)
        finally:
            os.close(made)


def mode_like(log: str) -> int:
    """Return the mode of what stands beside a log's file."""
    try:
        mode = os.stat(log).st_mode
        return PRIVATE | (mode & _GROUP) | (_SHOWN if mode & _SHOWN == _SHOWN else 0)
    except OSError:
        return PRIVATE


def share_with_group(path: str) -> None:
    """Let the group read and write the file, if it is there. Raise `OSError` if it is not ours to share."""
    with suppress(FileNotFoundError):
        os.chmod(path, os.stat(path).st_mode & 0o777 | _GROUP)


def show_to_all(path: str) -> None:
    """Let everybody read the file, if it is there. Raise `OSError` if it is not ours to show."""
    with suppress(FileNotFoundError):
        os.chmod(path, os.stat(path).st_mode & 0o777 | _SHOWN)
