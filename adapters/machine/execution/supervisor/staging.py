"""Outputs on their way to where they belong: all that were copied, or can be moved, get their names at the end."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from .copying import NEVER_WAIT, SYNCED_ALONE, File, copy, make_directory, sync_disks, sync_folder, write_all
from .scratch import STAGED, STAGING, access_lists, note, remove_now
from .usage_meter import TransferError, UsageMeter, unwritable

_BUFFER = 1 << 20


class Staging:
    """Outputs on their way: those that cannot be moved are copied into a directory of their own on the disk where they
    belong, and all are given their names when all were copied. What a killed transfer leaves of it is removed with the
    scratch directory."""

    def __init__(self, key: str, iwd: str, scratch: str, movable: Movable | None) -> None:
        self._name = f"{STAGING}{key}"
        self._iwd, self._scratch = iwd, scratch
        self._movable = movable
        self._folders: dict[int, str] = {}
        self._places: dict[str, tuple[str, str, bool]] = {}
        self._files: list[tuple[str, str]] = []
        self._many = False  #: whether a directory with many files is among them
        self._directories: dict[str, str] = {}  # with those of the scratch directory, whose rights they get

    def add(self, file: File, target: str, tally: UsageMeter, whole: bool = False) -> bool:
        """Copy a file. Tell whether a directory was taken with all that is in it, which it may be if it is wanted as a
        ``whole``. Raise `TransferError`."""
        if file.is_directory:
            taken = whole and self._moves_whole(file.source, target, tally)
            if not taken:
                tally.files += target not in self._directories
                self._directories.setdefault(target, file.source)
            return taken
        self._add_file(file, target, tally)
        return False

    def _add_file(self, file: File, target: str, tally: UsageMeter) -> None:
        try:
            if os.path.islink(target):
                target = os.path.realpath(target)
            where, there, suits = self._place(os.path.dirname(target))
            target = f"{where}/{os.path.basename(target)}"
            if not os.path.isfile(target) and os.path.lexists(target):
                self._write_into(file.source, target, tally)
                return
            if self._movable and (found := self._movable.take(file.source, suits)):
                self._moves(file.source, target, found, tally)
                return
            staged = f"{self._folder(there)}/{len(self._files)}"
        except OSError as error:
            raise unwritable(target, error) from None
        try:
            copy(file.source, staged, tally, sync=len(self._files) < SYNCED_ALONE)
        except TransferError as error:
            error.words = error.words.replace(staged, target)
            raise
        self._files.append((staged, target))

    def _moves_whole(self, source: str, target: str, tally: UsageMeter) -> bool:
        """Have a directory with many files moved by one rename, where nothing has its name."""
        if self._movable is None or os.path.lexists(target):
            return False
        try:
            where, _, suits = self._place(os.path.dirname(target))
        except OSError:
            return False
        tree = self._movable.take_tree(source, suits, SYNCED_ALONE)
        if tree is None or not tally.fits(tree.size):
            return False
        tally.moved(tree.size, tree.blocks, tree.entries)
        self._files.append((source, f"{where}/{os.path.basename(target)}"))
        self._many = True
        return True

    def _moves(self, source: str, target: str, found: os.stat_result, tally: UsageMeter) -> None:
        tally.admit(source, found.st_size)
        if len(self._files) < SYNCED_ALONE:
            descriptor = os.open(source, os.O_RDONLY | NEVER_WAIT)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        self._files.append((source, target))
        tally.moved(found.st_size, found.st_blocks)

    def _write_into(self, source: str, target: str, tally: UsageMeter) -> None:
        """Write to what is no file, a device perhaps: it cannot be replaced."""
        if os.path.isdir(target):
            raise OSError(errno.EISDIR, "")
        writer = os.open(target, os.O_WRONLY | NEVER_WAIT)
        try:
            with open(source, "rb") as reader:
                size = os.fstat(reader.fileno()).st_size
                tally.admit(source, size)
                while size and (data := reader.read(_BUFFER)):  # a device has no size, and perhaps no end
                    write_all(writer, data)
        finally:
            os.close(writer)
        tally.files += 1
        tally.size += size

    def _place(self, folder: str) -> tuple[str, str, bool]:
        """Return the true path of a directory, that of the nearest one that is there, and whether files can be moved
        into it."""
        if folder not in self._places:
            above = self._places.get(os.path.dirname(folder))
            if above is not None and above[0] != above[1]:  # what is in a directory that is missing is missing, too
                self._places[folder] = (f"{above[0]}/{os.path.basename(folder)}", *above[1:])
                return self._places[folder]
            true = os.path.realpath(folder)
            there = _nearest(true)
            suits = self._movable is not None and self._movable.suits(there)
            self._places[folder] = true, there, suits
        return self._places[folder]

    def _folder(self, there: str) -> str:
        """Return the directory for files that are copied to this disk."""
        device = os.stat(there).st_dev
        if device not in self._folders:
            here = os.stat(self._iwd).st_dev == device and os.access(self._iwd, os.W_OK | os.X_OK)
            near = self._iwd if here else there
            folder = f"{near}/{self._name}"
            note(self._scratch, STAGED, "\0".join([*self._folders.values(), folder]))
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:  # of a transfer that was killed
                remove_now(folder)
                os.mkdir(folder, 0o700)
            self._folders[device] = folder
        return self._folders[device]

    def commit(self, tally: UsageMeter) -> None:
        """Give all their names."""
        if self._many or len(self._files) > SYNCED_ALONE:
            sync_disks([self._scratch, *self._folders.values()])
        for target, source in self._directories.items():
            try:
                make_directory(target, source)
            except OSError as error:
                tally.failed(unwritable(target, error))
        made: set[str] = set()
        for staged, target in self._files:
            try:
                if (folder := os.path.dirname(target)) not in made:
                    make_directory(folder)
                    made.add(folder)
                os.replace(staged, target)
            except OSError as error:
                tally.failed(unwritable(target, error))
        for device, folder in self._folders.items():
            remove_now(folder)
            if device != os.stat(self._scratch).st_dev:  # the record of the job's end syncs another disk
                with contextlib.suppress(OSError):
                    sync_folder(os.path.dirname(folder))


def _nearest(folder: str) -> str:
    """Return this directory, or the one in which it will be made. Raise `OSError` if a file is in the way."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, "")
    return folder


# Which outputs a rename brings to their places, instead of a copy: the scratch directory that they leave goes anyway.
# A rename costs nothing, however large a file is. It is no copy where the file has other names (hard links), is another
# user's, or has rights that a copy would not have; where the place is on another mount, or gives new files a group or
# rights of its own.


_LIKE_A_COPY = 0o7400, 0o400
"""Of a file's mode: the owner may read it, and it has none of the bits that a copy loses."""
_FOLDER_LIKE_A_COPY = 0o7700, 0o700


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
            return writable and not shared and _mount(folder) == self._mount and "default" not in access_lists(folder)
        except OSError:
            return False

    def _may_leave(self, folder: str) -> bool:
        if folder not in self._left:
            self._left[folder] = os.access(folder, os.W_OK | os.X_OK)
        return self._left[folder]


def _mount(folder: str) -> str:
    """Return the number of the mount that a directory is on: the kernel renames within one alone. (proc(5), fdinfo)"""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)
