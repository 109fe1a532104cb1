"""A job's directories: created at its start, measured while it runs, removed after its end is acknowledged.

Trees can be large, and the supervisor must not block while it walks one. So measuring and removing are generators:
each step is short, and the caller decides how many to run in a row.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator

from . import rights
from .rights import UserIds

_STEP = 128  #: the directory entries to read in one step
_SPARES = 64  #: maximum number of directories kept for reuse
_INNER = "scratch"
STAGED = "staged"  #: next to the scratch directory: the staging directories of its outputs, separated by NULs
STAGING = ".poolbook-"  #: the prefix of their names; the activation's key follows
CATALOG = "catalog"  #: also next to it: its contents when the job started
_LONGEST = 3000  #: maximum number of bytes of a path to which another name can be added within the system's limit
_ADS = (".job.ad", ".machine.ad")
_UNCHANGED_NS = time.time_ns()
"""The modification time of a directory in which nothing was created, renamed or removed since it was prepared. A job
that sets this time itself leaves its files to the same user's next jobs."""
_FOLDER_MODE = 0o700
_SMALL = 4096  #: the size of a directory that never had many files
_ACCESS_LIST = "system.posix_acl_"  #: the prefix of access control lists in a file's extended attributes (acl(5))
_PASSABLE = 0o711  #: the mode of a directory that another user may enter but not read
_AD_MODE = 0o644
_GETFLAGS, _SETFLAGS, _TOPDIR = 0x80086601, 0x40086602, 0x00020000  # ioctl_iflags(2)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_UMASK = _umask()


class Scratch:
    """The directories of all activations: dir_KEY contains ``scratch``, which contains the two ads. They are created in
    ``execute``, or in the directory named by the start request; in that case, a link in ``elsewhere`` records the
    directory for the next supervisor. Creating inodes accounts for most of a short job's start, so a directory is
    emptied, renamed and reused in the same place, and its ads are overwritten, if the job has not changed its
    permissions.

    If the job runs as another user, that user owns the scratch directory with its contents, and the two files next to
    it that a transfer writes. They are measured and removed with that user's privileges, and never reused."""

    def __init__(self, execute: str, elsewhere: str) -> None:
        self._execute, self._elsewhere = execute, elsewhere
        os.makedirs(execute, exist_ok=True)
        _spread(execute)
        os.makedirs(elsewhere, exist_ok=True)
        links = (f"{elsewhere}/{name}" for name in os.listdir(elsewhere))
        self._spares: dict[str, list[str]] = {place: [] for place in (execute, *map(os.readlink, links))}

    def make(self, key: str, job_ad: str, machine_ad: str, place: str = "", user: UserIds | None = None) -> str:
        """Create an activation's scratch directory, in ``place`` if given, with the two ads; return its path. ``user``
        is the owner of the directory."""
        place = place or self._execute
        if place not in self._spares:
            os.symlink(place, f"{self._elsewhere}/{len(self._spares)}")
            self._spares[place] = []
        outer_folder = f"{place}/dir_{key}"
        inner_folder = f"{outer_folder}/{_INNER}"
        spares, is_new = self._spares[place], False
        if outer_folder in spares:  # of an earlier start of the same activation
            spares.remove(outer_folder)
        elif spares and user is None:
            os.rename(spares.pop(), outer_folder)
        else:
            os.mkdir(outer_folder, _FOLDER_MODE)
            os.mkdir(inner_folder, _FOLDER_MODE)
            is_new = True
        for name, text in zip(_ADS, (job_ad, machine_ad), strict=True):
            _write(f"{inner_folder}/{name}", text.encode("utf-8", "surrogateescape"))
        if user is not None:
            _give_to(outer_folder, user)
        elif is_new:
            for folder in (inner_folder, outer_folder):
                os.utime(folder, ns=(_UNCHANGED_NS, _UNCHANGED_NS))
        return inner_folder

    def discard(self, key: str) -> Generator[None, None, None]:
        """Remove an activation's directories, or keep them for reuse."""
        for place, spares in list(self._spares.items()):
            outer_folder = f"{place}/dir_{key}"
            if outer_folder in spares:
                continue
            if len(spares) < _SPARES and (yield from _empty(outer_folder)):
                spares.append(outer_folder)
            else:
                yield from _clear(outer_folder)

    def clear(self, keys: Iterable[str]) -> Generator[None, None, None]:
        """Remove all directories except for these activations."""
        names = {f"dir_{key}" for key in keys}
        waste = [entry.path for place in self._spares for entry in _entries(place) if entry.name not in names]

        def steps() -> Generator[None, None, None]:
            for path in waste:
                yield from _clear(path)

        return steps()


def _spread(folder: str) -> None:
    """Ask the file system to allocate each subdirectory in a separate block group (chattr(1), T). Otherwise they share
    one, and for each new inode, ext4 without a journal searches those recently removed there, which delays a job with
    ten thousand inputs by seconds. Ignore a file system without this attribute."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = array.array("l", [0])
            fcntl.ioctl(descriptor, _GETFLAGS, flags)
            flags[0] |= _TOPDIR
            fcntl.ioctl(descriptor, _SETFLAGS, flags)
        finally:
            os.close(descriptor)


def _give_to(outer: str, user: UserIds) -> None:
    """Give a new scratch directory to a user, and let that user enter it. No other user could before."""
    inner_folder = f"{outer}/{_INNER}"
    for name in (CATALOG, STAGED):
        os.close(os.open(f"{outer}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    for path in (*(f"{inner_folder}/{name}" for name in _ADS), f"{outer}/{CATALOG}", f"{outer}/{STAGED}", inner_folder):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
    os.chmod(outer, _PASSABLE)


def hand_over(scratch: str, giver: UserIds, taker: UserIds) -> None:
    """Give a user's files in a scratch directory to another user. Change only files that belong to the giver, even if
    links point to others: check and change the same descriptor. Raise `OSError` if that fails."""
    handle = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _hand_over(handle, giver.uid, taker)
    finally:
        os.close(handle)


def _hand_over(folder: int, giver: int, taker: UserIds) -> None:
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                info = os.fstat(handle)
                if info.st_uid == giver and stat.S_ISDIR(info.st_mode):
                    inner_handle = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    try:
                        _hand_over(inner_handle, giver, taker)
                    finally:
                        os.close(inner_handle)
                elif info.st_uid == giver and stat.S_ISREG(info.st_mode):
                    os.chown(f"/proc/self/fd/{handle}", taker.uid, taker.gid)
                    os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(info.st_mode) & 0o1777)
            finally:
                os.close(handle)
    if os.fstat(folder).st_uid == giver:
        os.fchown(folder, taker.uid, taker.gid)


def _clear(outer: str) -> Generator[None, None, None]:
    """Remove an activation's directories, with the rights of the users who own something in them."""
    other_owners = _other_file_owners(outer)
    for user in other_owners:
        yield from rights.in_steps(user, remove_staged(outer))
        yield from rights.in_steps(user, remove(f"{outer}/{_INNER}"))
    if not other_owners:
        yield from remove_staged(outer)
        yield from remove(outer)
        return
    with contextlib.suppress(OSError):
        for name in (CATALOG, STAGED):
            os.unlink(f"{outer}/{name}")
        os.rmdir(f"{outer}/{_INNER}")
        os.rmdir(outer)


def _other_file_owners(outer: str) -> list[UserIds]:
    """Return the other users who own files or directories in an activation's directories."""
    users = {}
    for name in (_INNER, CATALOG):
        with contextlib.suppress(OSError):
            status = os.lstat(f"{outer}/{name}")
            if status.st_uid != os.geteuid():
                users[status.st_uid] = UserIds(status.st_uid, status.st_gid)
    return list(users.values())


def size_kb(path: str) -> Generator[None, None, tuple[int, int]]:
    """Return the disk space of a tree in KiB, and the number of its files and directories."""
    blocks = 0
    folders = [path]
    steps = 0
    while folders:
        for entry in _entries(folders.pop()):
            try:
                blocks += entry.stat(follow_symlinks=False).st_blocks
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
            except OSError:
                continue  # the job has removed the file meanwhile
            steps += 1
            if steps % _STEP == 0:
                yield
    return blocks // 2, steps


def remove_staged(outer: str) -> Generator[None, None, None]:
    """Remove the staging directories that a killed transfer left. A job may have changed the note, so touch only
    directories that have a transfer's name."""
    try:
        with open(f"{outer}/{STAGED}", encoding="utf-8", errors="surrogateescape") as file:
            folders = file.read().split("\0")
    except OSError:
        return
    name = f"{STAGING}{os.path.basename(outer).removeprefix('dir_')}"
    for folder in folders:
        if os.path.basename(folder) == name and not os.path.islink(folder):
            yield from remove(folder)


def remove(path: str) -> Generator[None, None, None]:
    """Remove a tree, even if its directories are not writable; remove links instead of following them. First move up a
    directory whose path is too long for the system."""
    pending = [(path, False)]
    moved_count = 0
    while pending:
        folder, is_emptied = pending.pop()
        with contextlib.suppress(OSError):
            if is_emptied:
                os.rmdir(folder)
            else:
                os.chmod(folder, 0o700)
                pending.append((folder, True))
        if is_emptied:
            yield
            continue
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                inner_path = entry.path
                if len(os.fsencode(inner_path)) > _LONGEST:
                    moved_count += 1
                    with contextlib.suppress(OSError):
                        inner_path = f"{path}/{STAGING}{moved_count}"
                        os.rename(entry.path, inner_path)
                pending.append((inner_path, False))
                continue
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            yield


def remove_now(path: str) -> None:
    """Remove a tree in one uninterrupted step; see `remove`."""
    for _ in remove(path):
        pass


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def write_note(scratch: str, name: str, text: str) -> None:
    """Write a file (a note) next to a scratch directory. Raise `OSError` if that fails."""
    with open(f"{os.path.dirname(scratch)}/{name}", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _write(path: str, data: bytes) -> None:
    """Overwrite a file. Truncate it afterwards: ext4 flushes a file that is emptied first."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, _AD_MODE)
    try:
        done_count = 0
        while done_count < len(data):
            done_count += os.write(file, data[done_count:])
        if os.fstat(file).st_size > len(data):
            os.ftruncate(file, len(data))
    finally:
        os.close(file)


def _empty(outer: str) -> Generator[None, None, bool]:
    """Empty a job's directories, except for the two ads. Return True if they can be reused; if not, the caller removes
    the rest."""
    inner_folder = f"{outer}/{_INNER}"
    try:
        for folder, names in ((outer, {_INNER}), (inner_folder, {*_ADS})):
            info = os.lstat(folder)
            if not _is_reusable(folder, info):
                return False
            if info.st_mtime_ns == _UNCHANGED_NS or names.issuperset(os.listdir(folder)):
                continue
            if folder == outer:
                yield from remove_staged(outer)
            for entry in _entries(folder):
                if entry.name in names:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from remove(entry.path)
                    continue
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
                yield
            if not names.issuperset(os.listdir(folder)):
                return False
            os.utime(folder, ns=(_UNCHANGED_NS, _UNCHANGED_NS))
        return all(_is_ad(os.lstat(f"{inner_folder}/{name}")) for name in _ADS)
    except OSError:
        return False


def _is_reusable(folder: str, info: os.stat_result) -> bool:
    """Return True if a directory belongs to this user, has its original permissions, and never had many files: such a
    directory stays slow."""
    mode, is_own = stat.S_IFDIR | _FOLDER_MODE, info.st_uid == os.geteuid()
    return info.st_mode == mode and is_own and info.st_size <= _SMALL and not access_lists(folder)


def access_lists(folder: str) -> list[str]:
    """Return the names of a file's access control lists, without their prefix: access, default."""
    with contextlib.suppress(OSError):  # a file system without them
        return [name.removeprefix(_ACCESS_LIST) for name in os.listxattr(folder) if name.startswith(_ACCESS_LIST)]
    return []


def _is_ad(info: os.stat_result) -> bool:
    return info.st_mode == stat.S_IFREG | _AD_MODE & ~_UMASK and info.st_nlink == 1
