"""A disk in memory with a page cache: written data can be read immediately, and survives a power cut if it was synced.

A power cut leaves what ext4 may leave in its usual mode (data=ordered). Names are made, moved and removed in order, so
a cut reverts the last of these operations; a sync of any file makes all of them durable. Unsynced bytes of a file may
be there or not: a write may also be torn.
"""

from __future__ import annotations

import errno
import os
import random
import stat
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from attrs import define, field

_BLOCK = 512


class Stat(NamedTuple):
    st_mode: int
    st_size: int
    st_blocks: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_dev: int = 1
    st_ino: int = 1
    st_mtime_ns: int = 0


@define(eq=False)
class File:
    data: bytearray = field(factory=bytearray)
    synced: bytes = b""
    mode: int = 0o644
    links: int = 1

    def stat(self) -> Stat:
        blocks = -(-len(self.data) // _BLOCK)
        return Stat(stat.S_IFREG | self.mode, len(self.data), blocks, self.links, os.getuid(), os.getgid())


@define(eq=False)
class Link:
    target: str

    def stat(self) -> Stat:
        return Stat(stat.S_IFLNK | 0o777, len(self.target), 0, 1, os.getuid(), os.getgid())


@define(eq=False)
class Folder:
    entries: dict[str, File | Folder | Link] = field(factory=dict)
    mode: int = 0o755

    def stat(self) -> Stat:
        return Stat(stat.S_IFDIR | self.mode, 0, 0, 2, os.getuid(), os.getgid())


Node = File | Folder | Link


def os_error(number: int, path: str = "") -> OSError:
    """Return the error that the system reports with this number."""
    return OSError(number, os.strerror(number), path or None)


@define
class Disk:
    """The tree of files, and the faults of its hardware."""

    root: Folder = field(factory=Folder)
    full: bool = False  #: no write that needs room succeeds
    torn_write: int = 0  #: the errno that the next write fails with, half done; 0: none does
    _undo: list[Callable[[], None]] = field(factory=list)  #: reverts each operation on names since the last sync

    # Paths

    def find(self, path: str, follow: bool = True) -> Node:
        """Return the file or directory at `path`. Raise `OSError` if there is none."""
        node: Node = self.root
        parts = PurePosixPath(path).parts[1:]
        for depth, part in enumerate(parts):
            if not isinstance(node, Folder):
                raise os_error(errno.ENOTDIR, path)
            if part not in node.entries:
                raise os_error(errno.ENOENT, path)
            node = node.entries[part]
            if isinstance(node, Link) and (follow or depth < len(parts) - 1):
                node = self.find(node.target)
        return node

    def folder(self, path: str) -> tuple[Folder, str]:
        """Return the directory that contains `path`, and the name in it."""
        pure = PurePosixPath(path)
        parent = self.find(str(pure.parent))
        if not isinstance(parent, Folder):
            raise os_error(errno.ENOTDIR, path)
        return parent, pure.name

    def file(self, path: str) -> File:
        node = self.find(path)
        if isinstance(node, Folder):
            raise os_error(errno.EISDIR, path)
        assert isinstance(node, File)
        return node

    # Names

    def put(self, path: str, node: Node) -> None:
        """Link `node` to this name, replacing the one that has it."""
        self.needs_room(path)
        self._put(path, node)

    def _put(self, path: str, node: Node) -> None:
        parent, name = self.folder(path)
        before = parent.entries.get(name)
        parent.entries[name] = node

        def undo() -> None:
            if before is None:
                parent.entries.pop(name, None)
            else:
                parent.entries[name] = before

        self._undo.append(undo)

    def take(self, path: str) -> Node:
        """Remove the name, and return the file or directory that had it."""
        node = self.find(path, follow=False)
        parent, name = self.folder(path)
        del parent.entries[name]
        self._undo.append(lambda: parent.entries.__setitem__(name, node))
        return node

    def move(self, old: str, new: str) -> None:
        node = self.find(old, follow=False)
        parent, name = self.folder(new)
        entry = parent.entries.get(name)
        if isinstance(entry, Folder) and entry.entries:
            raise os_error(errno.ENOTEMPTY, new)
        self.take(old)
        self._put(new, node)

    # Bytes

    def needs_room(self, path: str) -> None:
        """Fail as a full disk does."""
        if self.full:
            raise os_error(errno.ENOSPC, path)

    def write(self, file: File, data: bytes, at: int) -> int:
        """Write at an offset; return how many bytes were written. Overwriting needs no room."""
        if self.torn_write and data:
            number, self.torn_write = self.torn_write, 0
            self._write(file, data[: len(data) // 2], at)
            raise os_error(number)
        room = len(data) if not self.full else max(0, min(len(data), len(file.data) - at))
        if data and not room:
            raise os_error(errno.ENOSPC)
        self._write(file, data[:room], at)
        return room

    @staticmethod
    def _write(file: File, data: bytes, at: int) -> None:
        if len(file.data) < at:
            file.data += b"\0" * (at - len(file.data))
        file.data[at : at + len(data)] = data

    def sync(self, node: Node) -> None:
        if isinstance(node, File):
            node.synced = bytes(node.data)
        self._undo.clear()

    def cut_power(self, chance: random.Random) -> None:
        """Lose unsynced data, or part of it."""
        for undo in reversed(self._undo[chance.randint(0, len(self._undo)) :]):
            undo()
        self._undo.clear()
        inodes: set[int] = set()
        for file in self._files(self.root):
            if id(file) not in inodes:
                inodes.add(id(file))
                file.data = bytearray(_survivor(file, chance))
                file.synced = bytes(file.data)

    def _files(self, folder: Folder) -> list[File]:
        files: list[File] = []
        for name in sorted(folder.entries):
            node = folder.entries[name]
            if isinstance(node, Folder):
                files += self._files(node)
            elif isinstance(node, File):
                files.append(node)
        return files


def _survivor(file: File, chance: random.Random) -> bytes:
    """Return what a power cut leaves of a file's content: as synced, as written, or as written up to some byte."""
    old, new = file.synced, bytes(file.data)
    if old == new:
        return new
    kept_blocks = chance.choice((0, len(new), chance.randint(0, len(new))))
    return new[:kept_blocks] + old[kept_blocks:] if not new.startswith(old) else new[: max(kept_blocks, len(old))]


class Path(PurePosixPath):
    """A path on the simulated disk, with the methods that the pool uses."""

    disk: Disk

    def absolute(self) -> Path:
        return self

    def _node(self) -> Node | None:
        try:
            return self.disk.find(str(self))
        except OSError:
            return None

    def exists(self) -> bool:
        return self._node() is not None

    def is_dir(self) -> bool:
        return isinstance(self._node(), Folder)

    def read_bytes(self) -> bytes:
        return bytes(self.disk.file(str(self)).data)

    def read_text(self, errors: str = "strict") -> str:
        return self.read_bytes().decode(errors=errors)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if self.exists() and exist_ok:
            return
        if parents and not self.parent.exists():
            self.parent.mkdir(mode, parents, exist_ok)
        self.disk.put(str(self), Folder(mode=mode & 0o777))

    def __truediv__(self, other: Any) -> Path:
        return type(self)(super().__truediv__(other))

    @property
    def parent(self) -> Path:
        return type(self)(super().parent)
