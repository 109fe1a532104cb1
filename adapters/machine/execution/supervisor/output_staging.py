"""Stage outputs: once all are copied, or known to be movable, rename them to their final names."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from .copying import NEVER_WAIT, SYNCED_ALONE, File, copy, make_directory, sync_disks, sync_path, write_all
from .rights import UserIds
from .scratch import STAGED, STAGING, access_lists, remove_now, write_note
from .usage_meter import TransferError, UsageMeter, write_error

_BUFFER = 1 << 20


class Staging:
    """The outputs of one transfer. Outputs that cannot be moved are copied to a staging directory on the disk of their
    destination. When all copies are complete, all outputs are renamed. The removal of the scratch directory also
    removes the staging directories that a killed transfer left."""

    def __init__(self, key: str, iwd: str, scratch: str, movable: MovableOutputs | None) -> None:
        self._name = f"{STAGING}{key}"
        self._iwd, self._scratch = iwd, scratch
        self._movable = movable
        self._folders: dict[int, str] = {}
        self._places: dict[str, tuple[str, str, bool]] = {}
        self._files: list[tuple[str, str]] = []
        self._many = False  #: whether a directory with many files is among them
        self._directories: dict[str, str] = {}  # with the source directories, whose permissions they get

    def copy_or_move(self, file: File, target: str, meter: UsageMeter, as_tree: bool = False) -> bool:
        """Copy a file. Return True if a directory will be moved with all its contents, which needs ``as_tree``. Raise
        `TransferError`."""
        if file.is_directory:
            is_taken = as_tree and self._move_tree(file.source, target, meter)
            if not is_taken:
                meter.files += target not in self._directories
                self._directories.setdefault(target, file.source)
            return is_taken
        self._add_file(file, target, meter)
        return False

    def _add_file(self, file: File, target: str, meter: UsageMeter) -> None:
        try:
            if os.path.islink(target):
                target = os.path.realpath(target)
            where, nearest, is_suitable = self._place(os.path.dirname(target))
            target = f"{where}/{os.path.basename(target)}"
            if not os.path.isfile(target) and os.path.lexists(target):
                self._write_into(file.source, target, meter)
                return
            if self._movable and (info := self._movable.take_movable_file(file.source, is_suitable)):
                self._move(file.source, target, info, meter)
                return
            staged_path = f"{self._folder(nearest)}/{len(self._files)}"
        except OSError as error:
            raise write_error(target, error) from None
        try:
            copy(file.source, staged_path, meter, must_sync=len(self._files) < SYNCED_ALONE)
        except TransferError as error:
            error.reason = error.reason.replace(staged_path, target)
            raise
        self._files.append((staged_path, target))

    def _move_tree(self, source: str, target: str, meter: UsageMeter) -> bool:
        """Move a directory with many files by one rename, if the target does not exist."""
        if self._movable is None or os.path.lexists(target):
            return False
        try:
            where, _, is_suitable = self._place(os.path.dirname(target))
        except OSError:
            return False
        tree = self._movable.take_tree(source, is_suitable, SYNCED_ALONE)
        if tree is None or not meter.has_room(tree.size):
            return False
        meter.count_moved(tree.size, tree.blocks, tree.entries)
        self._files.append((source, f"{where}/{os.path.basename(target)}"))
        self._many = True
        return True

    def _move(self, source: str, target: str, info: os.stat_result, meter: UsageMeter) -> None:
        meter.admit(source, info.st_size)
        if len(self._files) < SYNCED_ALONE:
            sync_path(source)
        self._files.append((source, target))
        meter.count_moved(info.st_size, info.st_blocks)

    def _write_into(self, source: str, target: str, meter: UsageMeter) -> None:
        """Write to a device or another special file, which cannot be replaced."""
        if os.path.isdir(target):
            raise OSError(errno.EISDIR, "")
        writer = os.open(target, os.O_WRONLY | NEVER_WAIT)
        try:
            with open(source, "rb") as reader:
                size = os.fstat(reader.fileno()).st_size
                meter.admit(source, size)
                while size and (data := reader.read(_BUFFER)):  # a device has no size, and perhaps no end
                    write_all(writer, data)
        finally:
            os.close(writer)
        meter.files += 1
        meter.size += size

    def _place(self, folder: str) -> tuple[str, str, bool]:
        """Return the resolved path of a directory, its nearest existing ancestor, and whether files can be moved into
        it."""
        if folder not in self._places:
            above = self._places.get(os.path.dirname(folder))
            if above is not None and above[0] != above[1]:  # below a missing directory all are missing
                self._places[folder] = (f"{above[0]}/{os.path.basename(folder)}", *above[1:])
                return self._places[folder]
            real_path = os.path.realpath(folder)
            nearest = nearest_ancestor(real_path)
            is_suitable = self._movable is not None and self._movable.can_move_into(nearest)
            self._places[folder] = real_path, nearest, is_suitable
        return self._places[folder]

    def _folder(self, nearest: str) -> str:
        """Return the staging directory for files that are copied to this disk."""
        device = os.stat(nearest).st_dev
        if device not in self._folders:
            can_use_iwd = os.stat(self._iwd).st_dev == device and may_write(self._iwd)
            stage_folder = self._iwd if can_use_iwd else nearest
            folder = f"{stage_folder}/{self._name}"
            write_note(self._scratch, STAGED, "\0".join([*self._folders.values(), folder]))
            try:
                os.mkdir(folder, 0o700)
            except FileExistsError:  # left by a killed transfer
                remove_now(folder)
                os.mkdir(folder, 0o700)
            self._folders[device] = folder
        return self._folders[device]

    def commit(self, meter: UsageMeter) -> None:
        """Rename all outputs to their final names."""
        if self._many or len(self._files) > SYNCED_ALONE:
            sync_disks([self._scratch, *self._folders.values()])
        for target, source in self._directories.items():
            try:
                make_directory(target, source)
            except OSError as error:
                meter.count_failed(write_error(target, error))
        made_folders: set[str] = set()
        for staged_path, target in self._files:
            try:
                if (folder := os.path.dirname(target)) not in made_folders:
                    make_directory(folder)
                    made_folders.add(folder)
                os.replace(staged_path, target)
            except OSError as error:
                meter.count_failed(write_error(target, error))
        for device, folder in self._folders.items():
            remove_now(folder)
            if device != os.stat(self._scratch).st_dev:  # the journal syncs only the scratch directory's disk
                with contextlib.suppress(OSError):
                    sync_path(os.path.dirname(folder))


def may_write(folder: str) -> bool:
    """Return True if the user whose rights this thread has may create files in a directory."""
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=True)


def nearest_ancestor(folder: str) -> str:
    """Return this directory, or its nearest existing ancestor. Raise `OSError` if that ancestor is a file."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOTDIR, "")
    return folder


# Which outputs can be renamed instead of copied: the scratch directory is removed anyway, and a rename costs nothing,
# however large a file is. A rename is not equal to a copy if the file has other names (hard links), belongs to another
# user, or has permissions that a copy would lose; or if the target directory is on another mount, or gives new files a
# certain group or permissions.


_LIKE_A_COPY = 0o7400, 0o400
"""Mask and value of a file's mode: the owner may read it, and it has none of the bits that a copy loses."""
_FOLDER_LIKE_A_COPY = 0o7700, 0o700


class Tree(NamedTuple):
    """A directory tree: the number of files and directories, the files' bytes, and their blocks."""

    entries: int
    size: int
    blocks: int


class MovableOutputs:
    """Decides which outputs of one scratch directory can be moved. ``user``: the user with whose rights this thread
    acts, if not this process's user."""

    def __init__(self, scratch: str, user: UserIds | None = None) -> None:
        self._inside = f"{scratch}/"
        self._mount = _mount_id(scratch)
        self._user = (os.geteuid(), os.getegid()) if user is None else (user.uid, user.gid)
        self._writable: dict[str, bool] = {}
        self._small = ""  # the last directory that had few files: its subdirectories have no more
        self._taken: set[int] = set()  # inodes: two names may request the same file

    def take_movable_file(self, source: str, place: bool) -> os.stat_result | None:
        """Return the status of a file that can be moved (only once per file), or None if it must be copied. ``place``:
        whether the target directory ``suits``."""
        try:
            info = os.lstat(source)
        except OSError:
            return None
        is_inside = source.startswith(self._inside)
        if not (place and is_inside and self._is_plain(info) and self._is_writable(os.path.dirname(source))):
            return None
        self._taken.add(info.st_ino)
        return info

    def take_tree(self, source: str, place: bool, least: int) -> Tree | None:
        """Return the size of a directory tree that can be moved unchanged, or None if its files must be handled one by
        one, which is also the case for at most ``least`` files."""
        if not (place and source.startswith(self._inside) and self._is_writable(os.path.dirname(source))):
            return None
        if self._small and source.startswith(self._small):
            return None
        folders, files = [source], dict[int, os.stat_result]()
        try:
            device = os.lstat(source).st_dev
            for folder in folders:  # the list grows in the loop
                if not self._is_plain_folder(os.lstat(folder), device):
                    return None
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif self._is_plain(info := entry.stat(follow_symlinks=False)):
                            files[info.st_ino] = info
                        else:
                            return None
        except OSError:
            return None
        if len(files) <= least:
            self._small = f"{source}/"
            return None
        self._taken.update(files)
        size, blocks = (sum(getattr(info, name) for info in files.values()) for name in ("st_size", "st_blocks"))
        return Tree(len(folders) + len(files), size, blocks)

    def _is_plain(self, info: os.stat_result) -> bool:
        """Return True if a file is equal to its copy, and was not taken before."""
        mask, mode = _LIKE_A_COPY
        has_mode = stat.S_ISREG(info.st_mode) and info.st_nlink == 1 and info.st_mode & mask == mode
        return has_mode and (info.st_uid, info.st_gid) == self._user and info.st_ino not in self._taken

    def _is_plain_folder(self, info: os.stat_result, device: int) -> bool:
        mask, mode = _FOLDER_LIKE_A_COPY
        has_mode = stat.S_ISDIR(info.st_mode) and info.st_mode & mask == mode and info.st_dev == device
        return has_mode and (info.st_uid, info.st_gid) == self._user

    def can_move_into(self, folder: str) -> bool:
        """Return True if a file that is moved into this directory is equal to one created there."""
        try:
            setgid = os.stat(folder).st_mode & stat.S_ISGID
            is_suitable = may_write(folder) and not setgid and _mount_id(folder) == self._mount
            return is_suitable and "default" not in access_lists(folder)
        except OSError:
            return False

    def _is_writable(self, folder: str) -> bool:
        if folder not in self._writable:
            self._writable[folder] = may_write(folder)
        return self._writable[folder]


def _mount_id(folder: str) -> str:
    """Return the mount id of a directory: the kernel renames only within one mount. (proc(5), fdinfo)"""
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next(line.split()[1] for line in file if line.startswith("mnt_id:"))
    finally:
        os.close(descriptor)
