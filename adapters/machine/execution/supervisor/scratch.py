"""A job's own directories: made at its start, measured while it runs, removed after its end is acknowledged.

Trees can be large, and the supervisor does nothing else while it walks one. So measuring and removing are generators:
each step is short, and the caller decides how many to take in a row.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import stat
from collections.abc import Generator, Iterable, Iterator

from . import rights
from .rights import UserIds

_STEP = 128  #: entries of a directory that are looked at in one step
_SPARES = 64  #: directories that are kept for another job
_INNER = "scratch"
STAGED = "staged"  #: beside the scratch directory: the directories in which its outputs are staged, with NULs between
STAGING = ".poolbook-"  #: how the names of these begin; the activation's key follows
CATALOG = "catalog"  #: beside it, too: what was in it when the job began
_LONGEST = 3000  #: bytes of a path that one more name makes no longer than the system takes
_ADS = (".job.ad", ".machine.ad")
_FOLDER_MODE = 0o700
_SMALL = 4096  #: bytes of a directory's own that holds few files
_ACCESS_LIST = "system.posix_acl_"  #: how the names of these begin among a file's attributes (acl(5))
_PASSABLE = 0o711  #: the mode of what another user has to go through, and may not read
_AD_MODE = 0o644
_GETFLAGS, _SETFLAGS, _TOPDIR = 0x80086601, 0x40086602, 0x00020000  # ioctl_iflags(2)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


_UMASK = _umask()


class Scratch:
    """The directories of all activations: dir_KEY with ``scratch`` in it, and the two ads in that. They are made in
    ``execute``, or in the directory that a start names, of which a link in ``elsewhere`` tells a successor. Making an
    inode takes most of a short job's start, so directories are used again in the same place, emptied, if the job has
    left them as they were made: renamed, and the ads overwritten.

    What is another user's is given to that user: the scratch directory and all in it, and the two files beside it that
    a transfer writes. It is measured and removed with that user's rights, and never used again."""

    def __init__(self, execute: str, elsewhere: str) -> None:
        self._execute, self._elsewhere = execute, elsewhere
        os.makedirs(execute, exist_ok=True)
        _spread(execute)
        os.makedirs(elsewhere, exist_ok=True)
        links = (f"{elsewhere}/{name}" for name in os.listdir(elsewhere))
        self._spares: dict[str, list[str]] = {place: [] for place in (execute, *map(os.readlink, links))}

    def make(self, key: str, job_ad: str, machine_ad: str, place: str = "", user: UserIds | None = None) -> str:
        """Make an activation's scratch directory, in ``place`` if given, with the two ads in it; return its path. With
        ``user``, it is that user's."""
        place = place or self._execute
        if place not in self._spares:
            os.symlink(place, f"{self._elsewhere}/{len(self._spares)}")
            self._spares[place] = []
        outer = f"{place}/dir_{key}"
        inner = f"{outer}/{_INNER}"
        spares = self._spares[place]
        if outer in spares:  # of an earlier start of the same activation
            spares.remove(outer)
        elif spares and user is None:
            os.rename(spares.pop(), outer)
        else:
            os.mkdir(outer, _FOLDER_MODE)
            os.mkdir(inner, _FOLDER_MODE)
        for name, text in zip(_ADS, (job_ad, machine_ad), strict=True):
            _write(f"{inner}/{name}", text.encode("utf-8", "surrogateescape"))
        if user is not None:
            _give(outer, user)
        return inner

    def discard(self, key: str) -> Generator[None, None, None]:
        """Remove an activation's directories, or keep them for another."""
        for place, spares in list(self._spares.items()):
            outer = f"{place}/dir_{key}"
            if outer in spares:
                continue
            if len(spares) < _SPARES and (yield from _emptied(outer)):
                spares.append(outer)
            else:
                yield from _clear(outer)

    def clear(self, kept: Iterable[str]) -> Generator[None, None, None]:
        """Remove everything present but what belongs to these activations."""
        wanted = {f"dir_{key}" for key in kept}
        waste = [entry.path for place in self._spares for entry in _entries(place) if entry.name not in wanted]

        def steps() -> Generator[None, None, None]:
            for path in waste:
                yield from _clear(path)

        return steps()


def _spread(folder: str) -> None:
    """Have the file system put what comes into each directory here at a place of its own (chattr(1), T). Else all of it
    stands together, and for each new inode an ext4 without a journal looks through those that were removed there within
    minutes: a job with ten thousand inputs waits seconds for that. A file system without this does as it likes."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flags = array.array("l", [0])
            fcntl.ioctl(descriptor, _GETFLAGS, flags)
            flags[0] |= _TOPDIR
            fcntl.ioctl(descriptor, _SETFLAGS, flags)
        finally:
            os.close(descriptor)


def _give(outer: str, user: UserIds) -> None:
    """Give a new scratch directory to a user, and let that user come to it. Nobody else could before."""
    inner = f"{outer}/{_INNER}"
    for name in (CATALOG, STAGED):
        os.close(os.open(f"{outer}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    for path in (*(f"{inner}/{name}" for name in _ADS), f"{outer}/{CATALOG}", f"{outer}/{STAGED}", inner):
        os.chown(path, user.uid, user.gid, follow_symlinks=False)
    os.chmod(outer, _PASSABLE)


def hand_over(scratch: str, giver: UserIds, taker: UserIds) -> None:
    """Give what a user has in a scratch directory to another user. Only what belongs to the giver changes hands,
    whatever links to other files are there: what is looked at is what is changed. Raise `OSError` if that fails."""
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
                found = os.fstat(handle)
                if found.st_uid == giver and stat.S_ISDIR(found.st_mode):
                    inside = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    try:
                        _hand_over(inside, giver, taker)
                    finally:
                        os.close(inside)
                elif found.st_uid == giver and stat.S_ISREG(found.st_mode):
                    os.chown(f"/proc/self/fd/{handle}", taker.uid, taker.gid)
                    os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(found.st_mode) & 0o1777)
            finally:
                os.close(handle)
    if os.fstat(folder).st_uid == giver:
        os.fchown(folder, taker.uid, taker.gid)


def _clear(outer: str) -> Generator[None, None, None]:
    """Remove an activation's directories, with the rights of the users that have something in them."""
    others = _others(outer)
    for user in others:
        yield from rights.in_steps(user, _remove_staged(outer))
        yield from rights.in_steps(user, remove(f"{outer}/{_INNER}"))
    if not others:
        yield from _remove_staged(outer)
        yield from remove(outer)
        return
    with contextlib.suppress(OSError):
        for name in (CATALOG, STAGED):
            os.unlink(f"{outer}/{name}")
        os.rmdir(f"{outer}/{_INNER}")
        os.rmdir(outer)


def _others(outer: str) -> list[UserIds]:
    """Return the other users to whom a part of an activation's directories belongs."""
    found = {}
    for name in (_INNER, CATALOG):
        with contextlib.suppress(OSError):
            status = os.lstat(f"{outer}/{name}")
            if status.st_uid != os.geteuid():
                found[status.st_uid] = UserIds(status.st_uid, status.st_gid)
    return list(found.values())


def size_kb(path: str) -> Generator[None, None, int]:
    """Return the disk space of a tree in KiB."""
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
                continue  # the job removed it meanwhile
            steps += 1
            if steps % _STEP == 0:
                yield
    return blocks // 2


def _remove_staged(outer: str) -> Generator[None, None, None]:
    """Remove what a killed transfer left where outputs were to go. Only directories of the name that it gives them are
    touched, whatever a job has written into the note."""
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
    """Remove a tree, whatever modes its directories have; links are removed, not followed. What lies so deep that its
    path is too long for the system is moved up first."""
    left = [(path, False)]
    moved = 0
    while left:
        folder, emptied = left.pop()
        with contextlib.suppress(OSError):
            if emptied:
                os.rmdir(folder)
            else:
                os.chmod(folder, 0o700)
                left.append((folder, True))
        if emptied:
            yield
            continue
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                inner = entry.path
                if len(os.fsencode(inner)) > _LONGEST:
                    moved += 1
                    with contextlib.suppress(OSError):
                        inner = f"{path}/{STAGING}{moved}"
                        os.rename(entry.path, inner)
                left.append((inner, False))
                continue
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            yield


def remove_now(path: str) -> None:
    """Remove a tree in one go: see `remove`."""
    for _ in remove(path):
        pass


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def note(scratch: str, name: str, text: str) -> None:
    """Write a note beside a scratch directory. Raise `OSError`."""
    with open(f"{os.path.dirname(scratch)}/{name}", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _write(path: str, data: bytes) -> None:
    """Overwrite a file. It is truncated after that, not before: ext4 flushes a file that was emptied first."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, _AD_MODE)
    try:
        done = 0
        while done < len(data):
            done += os.write(file, data[done:])
        os.ftruncate(file, len(data))
    finally:
        os.close(file)


def _emptied(outer: str) -> Generator[None, None, bool]:
    """Leave nothing of a job in its directories but the two ads; tell whether all is then as it was made. What is to be
    removed with them, since it is not, may stay as it is."""
    inner = f"{outer}/{_INNER}"
    if not (_is_as_made(outer) and _is_as_made(inner)):
        return False
    for folder, kept in ((outer, (_INNER,)), (inner, _ADS)):
        for entry in _entries(folder):
            if entry.name in kept:
                continue
            if folder == outer and entry.name == STAGED:
                yield from _remove_staged(outer)
            if entry.is_dir(follow_symlinks=False):
                yield from remove(entry.path)
                continue
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            yield
    try:
        return (
            os.listdir(outer) == [_INNER]
            and set(os.listdir(inner)) == set(_ADS)
            and all(_is_ad(os.lstat(f"{inner}/{name}")) for name in _ADS)
        )
    except OSError:
        return False


def _is_as_made(folder: str) -> bool:
    """Tell whether a directory is this user's and has the rights that it was made with. One in which many files were is
    slow from then on."""
    try:
        found = os.lstat(folder)
        mode, own = stat.S_IFDIR | _FOLDER_MODE, found.st_uid == os.geteuid()
        return found.st_mode == mode and own and found.st_size <= _SMALL and not access_lists(folder)
    except OSError:
        return False


def access_lists(folder: str) -> list[str]:
    """Return the names of a file's access control lists, without their beginning: access, default."""
    with contextlib.suppress(OSError):  # a file system without them
        return [name.removeprefix(_ACCESS_LIST) for name in os.listxattr(folder) if name.startswith(_ACCESS_LIST)]
    return []


def _is_ad(found: os.stat_result) -> bool:
    return found.st_mode == stat.S_IFREG | _AD_MODE & ~_UMASK and found.st_nlink == 1
