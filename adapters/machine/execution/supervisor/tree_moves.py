"""Which outputs a rename brings to their places, instead of a copy: the scratch directory that they leave goes anyway.

A rename costs nothing, however large a file is. It is no copy where the file has other names (hard links), is another
user's, or has rights that a copy would not have; where the place is on another mount, or gives new files a group or
rights of its own.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple

_LIKE_A_COPY = 0o7400, 0o400
"""Of a file's mode: the owner may read it, and it has none of the bits that a copy loses."""
_FOLDER_LIKE_A_COPY = 0o7700, 0o700
_DEFAULT_RIGHTS = "system.posix_acl_default"


class Tree(NamedTuple):
    """A directory with all that is in it: how many files and directories, the files' bytes, and their room."""

    entries: int
    size: int
    blocks: int


class Movable:
    """The outputs of one scratch directory."""

    def __init__(self, scratch: str) -> None:
        self._inside = f"{scratch}/"
        self._mount = _mount(scratch)
        self._user = os.geteuid(), os.getegid()
        self._left: dict[str, bool] = {}
        self._small = ""  # the last directory that had few files: those in it have no more
        self._taken: set[int] = set()  # by their inodes: a file may be wanted by two names

    def take(self, source: str, place: bool) -> os.stat_result | None:
        """Return what a file is that can be moved, once; None: it has to be copied. ``place``: whether the directory
        where it belongs ``suits``."""
        try:
            found = os.lstat(source)
        except OSError:
            return None
        inside = source.startswith(self._inside)
        if not (place and inside and self._is_plain(found) and self._may_leave(os.path.dirname(source))):
            return None
        self._taken.add(found.st_ino)
        return found

    def take_tree(self, source: str, place: bool, least: int) -> Tree | None:
        """Return what is in a directory that can be moved as it is; None: what is in it goes one by one, as where these
        are not more files than ``least``."""
        if not (place and source.startswith(self._inside) and self._may_leave(os.path.dirname(source))):
            return None
        if self._small and source.startswith(self._small):
            return None
        folders, files = [source], dict[int, os.stat_result]()
        try:
            device = os.lstat(source).st_dev
            for folder in folders:  # which grows meanwhile
                if not self._is_plain_folder(os.lstat(folder), device):
                    return None
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif self._is_plain(found := entry.stat(follow_symlinks=False)):
                            files[found.st_ino] = found
                        else:
                            return None
        except OSError:
            return None
        if len(files) <= least:
            self._small = f"{source}/"
            return None
        self._taken.update(files)
        size, blocks = (sum(getattr(found, name) for found in files.values()) for name in ("st_size", "st_blocks"))
        return Tree(len(folders) + len(files), size, blocks)

    def _is_plain(self, found: os.stat_result) -> bool:
        """Whether a file is as its copy would be, and was not taken before."""
        mask, mode = _LIKE_A_COPY
        plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_mode & mask == mode
        return plain and (found.st_uid, found.st_gid) == self._user and found.st_ino not in self._taken

    def _is_plain_folder(self, found: os.stat_result, device: int) -> bool:
        mask, mode = _FOLDER_LIKE_A_COPY
        plain = stat.S_ISDIR(found.st_mode) and found.st_mode & mask == mode and found.st_dev == device
        return plain and (found.st_uid, found.st_gid) == self._user

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
