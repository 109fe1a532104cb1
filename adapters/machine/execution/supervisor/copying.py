"""Copy files and directories with their permissions, and make the copies durable.

The kernel moves the bytes from one descriptor to the other. Until a file is complete it has another name, or is in a
directory that is removed if the transfer fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from .usage_meter import UsageMeter, read_error, write_error

SYNCED_ALONE = 64  #: up to this many files are synced one by one; for more files, their whole disk is synced
NEVER_WAIT = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_AT_ONCE = 1 << 30  #: maximum number of bytes that the kernel moves in one call
_SMALL = 1 << 16  #: a file below this many bytes is copied with one read and one write
_ELSEWHERE = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
"""The errors of copy_file_range(2) after which sendfile(2) is used instead."""


class File(NamedTuple):
    """A file or directory to copy; directories in ``name`` are created."""

    source: str
    name: str
    is_directory: bool = False
    on_the_way: bool = False  #: a directory of which only a part is copied


def make_directory(path: str, like_path: str = "") -> None:
    """Create a missing directory with the permissions of ``like_path``, and its missing parents. Raise `OSError` if
    that fails."""
    if os.path.isdir(path):
        return
    missing = [path]
    while not os.path.lexists(parent := os.path.dirname(missing[-1])):
        missing.append(parent)
    for missing_path in reversed(missing):
        os.mkdir(missing_path, 0o700)
    if like_path:
        os.chmod(path, stat.S_IMODE(os.stat(like_path).st_mode) & 0o777 | 0o700)


def copy_in(file: File, folder: str, made_folders: set[str], meter: UsageMeter, must_sync: bool = False) -> None:
    """Copy a file into a directory; ``made_folders`` are the directories that exist. Raise `TransferError` if that
    fails."""
    target = _make_place(file, folder, made_folders)
    if not file.is_directory:
        copy(file.source, target, meter, must_sync)


def link_in(file: File, folder: str, made_folders: set[str], must_sync: bool = False) -> None:
    """Link a file into a directory, in place of any file with this name. Raise `TransferError` if that fails."""
    target = _make_place(file, folder, made_folders)
    if file.is_directory:
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        if must_sync:
            sync_path(file.source)
        os.link(file.source, target)
    except OSError as error:
        raise write_error(target, error) from None


def _make_place(file: File, folder: str, made_folders: set[str]) -> str:
    """Create the directories of a file in a directory; return the path of the file."""
    target = f"{folder}/{file.name}"
    parent = target if file.is_directory else os.path.dirname(target)
    if parent not in made_folders:
        try:
            make_directory(parent, file.source if file.is_directory else "")
        except OSError as error:
            raise write_error(target, error) from None
        made_folders.add(parent)
    return target


def copy(source: str, target: str, meter: UsageMeter, must_sync: bool) -> None:
    """Copy a file and its mode. Raise `TransferError` if that fails; the error contains the end (sending or receiving)
    that failed."""
    try:
        reader = os.open(source, os.O_RDONLY | NEVER_WAIT)
    except OSError as error:
        raise read_error(source, error) from None
    try:
        info = os.fstat(reader)
        meter.admit(source, info.st_size)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | NEVER_WAIT
        try:
            writer = os.open(target, flags, 0o600)
        except OSError as error:
            raise write_error(target, error) from None
        try:
            size = carry(reader, writer) if stat.S_ISREG(info.st_mode) else 0  # a device has no size
            os.fchmod(writer, stat.S_IMODE(info.st_mode) & 0o777)
            if must_sync:
                os.fsync(writer)
        except OSError as error:
            raise write_error(target, error) from None
        finally:
            os.close(writer)
    finally:
        os.close(reader)
    meter.files += 1
    meter.size += size


def carry(source: int, target: int) -> int:
    """Copy all bytes of an open file to another, empty one; return the number of bytes. Raise `OSError` if that
    fails."""
    data = os.read(source, _SMALL)
    size = copied_size = len(data)
    write_all(target, data)
    if size < _SMALL:  # all bytes were copied
        return copied_size
    try:
        while moved_size := os.copy_file_range(source, target, _AT_ONCE):
            copied_size += moved_size
    except OSError as error:
        if error.errno not in _ELSEWHERE:
            raise
    while moved_size := os.sendfile(target, source, None, _AT_ONCE):  # the rest; nothing, if that was all
        copied_size += moved_size
    return copied_size


def write_all(target: int, data: bytes) -> None:
    """Write all of ``data``. Raise `OSError` if only a part could be written."""
    while data:
        data = data[os.write(target, data) :]


def sync_disks(folders: Iterable[str]) -> None:
    """Sync the file systems of these directories (syncfs(2))."""
    library = ctypes.CDLL(None)
    for folder in folders:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            library.syncfs(descriptor)
            os.close(descriptor)


def sync_path(path: str) -> None:
    """Sync a file, or a directory, so that the names in it are durable. Raise `OSError` if that fails."""
    descriptor = os.open(path, os.O_RDONLY | NEVER_WAIT)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
