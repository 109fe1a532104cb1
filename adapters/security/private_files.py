"""Files that only their owner can read: signing keys, tokens, private keys of certificates."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import mkstemp

from ...domain.errors import PoolbookError

LONGEST = 1 << 20  #: maximum number of bytes in a private file
_MAY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class PrivateFileError(PoolbookError):
    """A private file cannot be read safely: it is missing or too long, or other users have access to it."""


def security_folder(base: Path) -> Path:
    """Return the private directory next to a log whose files start with `base` (``LogPaths.base``)."""
    return base.with_name(base.name + ".security")


def make_private_folder(folder: Path) -> None:
    """Create a directory, and its missing parents, that only this user can enter. Raise `PrivateFileError` if it exists
    with other permissions or belongs to another user."""
    if not folder.parent.exists():
        make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_owner(folder, os.stat(folder), "chmod 700")


def read_private(path: Path) -> bytes:
    """Return the content of a private file.

    :raises PrivateFileError: the file is missing, unreadable, no regular file, or longer than `LONGEST`; it belongs to
        another user; or other users have access to it
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise PrivateFileError(f"{path} cannot be read: {error.strerror}") from None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise PrivateFileError(f"{path} is not a regular file; replace it by one")
        _check_owner(path, status, "chmod 600")
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise PrivateFileError(f"{path} is longer than {LONGEST >> 20} MB, which is the limit")
    return content


def _check_owner(path: Path, status: os.stat_result, fix: str) -> None:
    if status.st_uid != os.geteuid():
        raise PrivateFileError(
            f"{path} belongs to user {status.st_uid}; only that user may use it: run this as that user"
        )
    if status.st_mode & _MAY_OTHERS:
        raise PrivateFileError(f"other users have access to {path}; run `{fix} {path}`")


def write_private(path: Path, content: bytes, replace: bool = True) -> None:
    """Write a private file (mode 0600) as a whole: a reader never sees a part of it.

    :raises FileExistsError: the file exists and `replace` is False
    :raises OSError: the file cannot be written
    """
    fd, new_path = mkstemp(".new", f".{path.name}.", path.parent)  # only this user may read it
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(fd)
        if replace:
            os.replace(new_path, path)
        else:
            os.link(new_path, path)  # fails if the path exists
    finally:
        Path(new_path).unlink(missing_ok=True)
