"""The ownership and permissions of SQLite files: read one without leaving files next to it; set the mode of new files.

SQLite shares a ``-wal`` and a ``-shm`` file between processes, and also creates them for a reader. If another user owns
them, the log's owner cannot write. So another user's file is read as immutable, unless its owner's process has created
both. Imports little: every short command loads this.
"""

from __future__ import annotations

import os
from contextlib import suppress

PRIVATE = 0o600
_GROUP_WRITABLE = 0o060
_READABLE_BY_ALL = 0o044

State = tuple[object, ...]  #: changes when a process starts to write a file, or writes it


def uri_of(path: str, mode: str) -> str:
    """Return SQLite's URI of a file; `mode`: ro, rw or rwc."""
    place = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{place}?mode={mode}"


def is_read_as_immutable(path: str) -> bool:
    """Return True if the file must be read as immutable: it is another user's, or in a folder that cannot be written,
    and no process has it open. Raise `LogUnavailable` if its write-ahead log has data that cannot be read without
    creating a file next to it."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.stat(path).st_uid == os.geteuid() and os.access(folder, os.W_OK, effective_ids=True):
        return False
    if os.path.exists(f"{path}-shm") and os.path.exists(f"{path}-wal"):
        return False
    if not os.path.exists(f"{path}-wal") or not os.path.getsize(f"{path}-wal"):
        return True
    from ...domain.ports.log import LogUnavailable

    raise LogUnavailable(
        f"{path} belongs to another user, and its last writes are in {path}-wal until its owner opens it, for example "
        "with `poolbook q`; or copy both files, and read the copy"
    )


def reading_uri(path: str) -> str:
    """Return the URI that reads a file and leaves nothing next to it. Raise `OSError` if there is no such file,
    `LogUnavailable` as ``is_read_as_immutable``."""
    return uri_of(path, "ro") + ("&immutable=1" if is_read_as_immutable(path) else "")


def state_of(path: str) -> State:
    """Return the state of a file that is read at rest. Raise `OSError` if it is gone."""
    info = os.stat(path)
    is_shared = os.path.exists(f"{path}-shm") and os.path.exists(f"{path}-wal")
    return info.st_ino, info.st_size, info.st_mtime_ns, is_shared


def make_private(path: str, log: str = "") -> None:
    """Create an empty file if it is missing: private, or shared like the file `log`. Raise `OSError` if that fails."""
    mode = mode_of_files_beside(log)
    with suppress(FileExistsError):
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, PRIVATE)
        try:
            if mode != PRIVATE:
                os.fchmod(handle, mode)
        finally:
            os.close(handle)


def is_trusted(path: str, log: str = "") -> bool:
    """Check whether only users who may write the log can have written a file computed from it: it belongs to the user,
    root or the log's owner, and others may write it only if they may write the log. Accept a missing file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    trusted_uids, log_uid = {0, os.geteuid()}, 0
    if log:
        try:
            log_info = os.stat(log)
        except OSError:
            return False
        trusted_uids.add(log_info.st_uid)
        log_uid = log_info.st_mode & (0o022 if log_info.st_gid == status.st_gid else 0o002)
    return status.st_uid in trusted_uids and not status.st_mode & 0o022 & ~log_uid


def mode_of_files_beside(log: str) -> int:
    """Return the mode of the files next to a log."""
    try:
        mode = os.stat(log).st_mode
        return (
            PRIVATE
            | (mode & _GROUP_WRITABLE)
            | (_READABLE_BY_ALL if mode & _READABLE_BY_ALL == _READABLE_BY_ALL else 0)
        )
    except OSError:
        return PRIVATE


def share_with_group(path: str) -> None:
    """Let the group read and write the file, if it exists. Raise `OSError` if it belongs to another user."""
    with suppress(FileNotFoundError):
        os.chmod(path, os.stat(path).st_mode & 0o777 | _GROUP_WRITABLE)


def show_to_all(path: str) -> None:
    """Let all users read the file, if it exists. Raise `OSError` if it belongs to another user."""
    with suppress(FileNotFoundError):
        os.chmod(path, os.stat(path).st_mode & 0o777 | _READABLE_BY_ALL)
