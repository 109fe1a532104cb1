"""Which outputs a rename brings to their places, instead of a copy: the scratch directory that they leave goes anyway.

A rename costs nothing, however large a file is. It is no copy where the file has other names (hard links), is another
user's, or has rights that a copy would not have; where the place is on another mount, or gives new files a group or
rights of its own.
"""

from __future__ import annotations

import contextlib
import os
import stat

_LIKE_A_COPY = 0o7400, 0o400
"""Of a file's mode: the owner may read it, and it has none of the bits that a copy loses."""
_DEFAULT_RIGHTS = "system.posix_acl_default"


class Movable:
    """The outputs of one scratch directory."""

    def __init__(self, scratch: str) -> None:
        self._inside = f"{scratch}/"
        self._mount = _mount(scratch)
        self._user = os.geteuid(), os.getegid()
        self._left: dict[str, bool] = {}
        self._taken: set[int] = set()  # by their inodes: a file may be wanted by two names

    def take(self, source: str, place: bool) -> os.stat_result | None:
        """Return what a file is that can be moved, once; None: it has to be copied. ``place``: whether the directory
        where it belongs ``suits``."""
        try:
            found = os.lstat(source)
        except OSError:
            return None
        mask, mode = _LIKE_A_COPY
        plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_mode & mask == mode
        own = (found.st_uid, found.st_gid) == self._user and source.startswith(self._inside)
        if not (place and plain and own) or found.st_ino in self._taken or not self._may_leave(os.path.dirname(source)):
            return None
        self._taken.add(found.st_ino)
        return found

    def suits(self, folder: str) -> bool:
        """Tell whether a file that is moved into a directory is there as a new one would be."""
        try:
            shared = os.stat(folder).st_mode & stat.S_ISGID
            writable = os.access(folder, os.W_OK | os.X_OK)
            return (
                writable and not shared and _mount(folder) == self._mount and _DEFAULT_RIGHTS not in _attributes(folder)
            )
        except OSError:
            return False

    def _may_leave(self, folder: str) -> bool:
        if folder not in self._left:
            self._left[folder] = os.access(folder, os.W_OK | os.X_OK)
        return self._left[folder]


def _attributes(folder: str) -> list[str]:
    with contextlib.suppress(OSError):  # a file system without them
        return os.listxattr(folder)
    return []


def _mount(folder: str) -> str:
    """Return the number of the mount that a directory is on: the kernel renames within one alone. (proc(5), fdinfo)"""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)
