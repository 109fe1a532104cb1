"""Power cuts for code that writes real files: its steps are recorded, and the power can fail before any of them.

``disk.py`` simulates the disk for programs that run on a simulated system. Here the real code works in a real
directory, and its system calls are watched. ``cuts`` runs an action repeatedly, cuts the power before each of its steps
in turn, and leaves in the directory what the disk may contain then. The rules are as in ``disk.py``: names are made,
moved and removed in order, a sync makes all of them durable, and bytes are durable when their own file, or its file
system, is synced.
"""

from __future__ import annotations

import builtins
import ctypes
import os
import random
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attrs import define, field, frozen

_STEPS = (
    "open", "write", "pwrite", "sendfile", "copy_file_range", "ftruncate", "truncate", "fsync", "fdatasync", "rename",
    "replace", "link", "symlink", "unlink", "remove", "rmdir", "mkdir", "chmod", "fchmod",
)  # fmt: skip
_SYNCS = ("fsync", "fdatasync")


class PowerCut(BaseException):
    """The power is off: further calls get no answer."""


@frozen
class Name:
    """A file, directory or link with a name on the disk."""

    mode: int
    inode: int
    target: str = ""  #: of a symbolic link


Names = dict[str, Name]
Left = dict[str, tuple[Name, bytes]]
"""What is on the disk after a power cut: by path what has the name, and a file's content."""


@define
class Disk:
    """The directory, and which of its contents are durable."""

    folder: Path
    cut_before: int = -1  #: the number of the step before which the power fails; below 0: it does not
    steps: list[str] = field(factory=list)
    names: list[Names] = field(factory=list)  #: as of the last sync, and after each change since
    synced: dict[int, bytes] = field(factory=dict)  #: by inode
    _open: dict[int, int] = field(factory=dict)  # a descriptor of each inode, so that its number is not reused
    _is_off: bool = False

    def __attrs_post_init__(self) -> None:
        self._note_names()
        self.sync_all()

    def step(self, name: str) -> None:
        """Count one call, before which the power may fail."""
        if self._is_off or len(self.steps) == self.cut_before:
            self._is_off = True
            raise PowerCut(name)
        self.steps.append(name)

    def done(self) -> None:
        """Record the names that a finished call has changed."""
        self._note_names()

    def sync(self, descriptor: int) -> None:
        """Make one file durable, and all names on its disk."""
        if os.fstat(descriptor).st_dev != os.stat(self.folder).st_dev:
            return
        self._note_names()
        inode = os.fstat(descriptor).st_ino
        if inode in self._open:
            self.synced[inode] = self._content(inode)
        self.names = self.names[-1:]

    def sync_all(self) -> None:
        """Make everything durable."""
        self._note_names()
        self.synced = {inode: self._content(inode) for inode in self._open}
        self.names = self.names[-1:]

    def _content(self, inode: int) -> bytes:
        size = os.fstat(self._open[inode]).st_size
        return os.pread(self._open[inode], size, 0)

    def _note_names(self) -> None:
        contents: Names = {}
        for place, folders, files in os.walk(self.folder):
            for name in (*folders, *files):
                path = f"{place}/{name}"
                status = os.lstat(path)
                target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
                contents[path[len(str(self.folder)) + 1 :]] = Name(status.st_mode, status.st_ino, target)
                if stat.S_ISREG(status.st_mode) and status.st_ino not in self._open:
                    self._open[status.st_ino] = _real_open(path, os.O_RDONLY | os.O_CLOEXEC)
        if not self.names or self.names[-1] != contents:
            self.names.append(contents)

    def left(self, names: int, survives: Callable[[bytes, bytes], bytes]) -> Left:
        """Return what a power cut leaves: the names after `names` of the changes since the last sync, and for each file
        the result of `survives` for its synced and its written content."""
        image = self.names[min(names, len(self.names) - 1)]
        contents = {inode: survives(self.synced.get(inode, b""), self._content(inode)) for inode in self._open}
        return {path: (name, contents.get(name.inode, b"")) for path, name in sorted(image.items())}

    def restore(self, contents: Left) -> None:
        """Replace the contents of the directory."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        paths: dict[int, Path] = {}
        for relative, (name, content) in contents.items():
            path = self.folder / relative
            if stat.S_ISDIR(name.mode):
                path.mkdir()
            elif stat.S_ISLNK(name.mode):
                path.symlink_to(name.target)
            elif name.inode in paths:
                os.link(paths[name.inode], path)
            else:
                path.write_bytes(content)
                paths[name.inode] = path
            if not name.target:
                path.chmod(stat.S_IMODE(name.mode))

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()


_real_open = os.open


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Make a directory on a disk in memory, if the machine has one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


@contextmanager
def watched(disk: Disk) -> Iterator[None]:
    """Make every call that may change the disk a step of `disk`."""

    def watch(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any, **more: Any) -> Any:
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_TRUNC):
                return real(*arguments, **more)
            disk.step(f"{name}{arguments[:2]}")
            if name in _SYNCS:  # waiting for the real disk is not needed
                return disk.sync(arguments[0])
            result = real(*arguments, **more)
            disk.done()
            return result

        return call

    real_library, real_builtin = ctypes.CDLL, builtins.open

    class Library:
        """The C library: syncfs(2) makes the whole disk durable."""

        def __init__(self, name: str | None = None, **more: Any) -> None:
            self._real = real_library(name, **more)

        def syncfs(self, descriptor: int) -> int:
            disk.step("syncfs")
            if os.fstat(descriptor).st_dev == os.stat(disk.folder).st_dev:
                disk.sync_all()
            return 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    def opened(path: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        if not set(mode) & set("wxa+") or isinstance(path, int):
            return real_builtin(path, mode, *arguments, **more)
        disk.step(f"open({path}, {mode})")
        file = real_builtin(path, mode, *arguments, **more)
        disk.done()
        return file

    with (
        patch.multiple(os, **{name: watch(name) for name in _STEPS}),
        patch.object(ctypes, "CDLL", Library),
        patch.object(builtins, "open", opened),
    ):
        yield


Survives = Callable[[bytes, bytes], bytes]


def _torn(chance: random.Random, block: int) -> Survives:
    """Return a function that leaves the first blocks of a file's unsynced content."""

    def survives(synced: bytes, written: bytes) -> bytes:
        kept_bytes = chance.randint(0, -(-len(written) // block)) * block
        return (
            written[: max(kept_bytes, len(synced))]
            if written.startswith(synced)
            else written[:kept_bytes] + synced[kept_bytes:]
        )

    return survives


_ALL = 1 << 30


def _losses(seed: int, block: int) -> Iterator[tuple[str, int, Survives]]:
    """Yield what a cut may leave: the number of changed names that are kept, and a function for the files' contents."""
    chance = random.Random(seed)
    yield "no unsynced data is kept", 0, lambda synced, written: synced
    yield "all names are kept, and no byte that was not synced", _ALL, lambda synced, written: synced
    yield "everything is kept", _ALL, lambda synced, written: written
    yield "no name that was not synced is kept, and every byte", 0, lambda synced, written: written
    for _ in range(2):
        yield "some is kept", chance.randint(0, 8), _torn(chance, block)


def cuts(
    folder: Path, prepare: Callable[[], None], act: Callable[[], Any], block: int = 1
) -> Iterator[tuple[str, bool]]:
    """Cut the power before each step of `act`, and once after the last one; yield where, with the directory as the disk
    has it then, and whether `act` had returned. The directory is empty at first each time, and `prepare` fills it. A
    write is torn between two blocks of this many bytes."""
    number, returned = 0, False
    while not returned:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        before = Disk(folder)
        with watched(before):  # whose syncs are not waited for
            prepare()
        before.close()
        disk = Disk(folder, cut_before=number)
        returned = True
        try:
            with watched(disk):
                act()
        except PowerCut:
            returned = False
        moment = "after the last step" if returned else f"before step {number}, behind {disk.steps[-1:]}"
        contents_seen: list[Left] = []
        for loss, names, survives in _losses(number, block):
            contents = disk.left(names, survives)
            if contents not in contents_seen:
                contents_seen.append(contents)
                disk.restore(contents)
                yield f"{moment}: {loss}", returned
        disk.close()
        number += 1
