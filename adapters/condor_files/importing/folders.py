"""List a folder's files with their kinds, in the order in which they were written.

Daemons rotate their logs: the older part of a log gets another name. All parts of one log are a family, the oldest
first; the reader of one continues in the next.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field

from .content import DAMAGED, SUFFIXES, head_of
from .detect import SNIFFED, kind_of

_ROTATED = re.compile(r"^(?P<base>.+?)\.(?:(?P<old>old)|(?P<time>\d{8}T\d{6})|(?P<number>\d{1,9}))$")
_COUNTS_UP = frozenset({"queue"})  #: kinds whose rotations are numbered as written; others count from the newest
_ADDRESS = re.compile(rb"command socket at <[^>\n]*\balias=([\w.-]+)")
_MACHINE = re.compile(rb"^Machine = \"([\w.-]+)\"", re.MULTILINE)


@define
class Candidate:
    """A file that may be imported. ``base`` and ``rank`` are its family and its place there; ``first`` is its first
    line."""

    path: str
    kind: str
    folder: str
    base: str
    rank: tuple[int, str]
    size: int
    modified: float
    identity: tuple[int, int]
    first: bytes

    @property
    def family(self) -> tuple[str, str, str]:
        return self.folder, self.base, self.kind


def uncompressed(name: str) -> str:
    """Return a file's name without the suffix of a compression."""
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def family_of(name: str, kind: str) -> tuple[str, tuple[int, str]]:
    """Return the name of the log that a file is a part of, and its rank: the older, the lower."""
    found = _ROTATED.match(uncompressed(name))
    if found is None:
        return uncompressed(name), (3, "")
    if found["time"]:
        return found["base"], (1, found["time"])
    if found["old"]:
        return found["base"], (2, "")
    number = int(found["number"])
    return found["base"], (0, f"{number if kind in _COUNTS_UP else 10**9 - number:010d}")


@define
class FolderContents:
    """Files of folders: ``candidates`` to import, ``skipped`` of no known kind, ``unreadable`` with the error."""

    candidates: list[Candidate] = field(factory=list)
    skipped: list[str] = field(factory=list)
    unreadable: list[tuple[str, str]] = field(factory=list)
    machines: dict[str, str] = field(factory=dict)  #: folder -> the host whose daemons wrote there, if a file says so


def files_below(path: str) -> Iterator[str]:
    """Yield the files below a folder, by name, or the file itself. Raise OSError if there is neither."""
    if not stat.S_ISDIR(os.stat(path).st_mode):
        yield path
        return
    if not os.access(path, os.R_OK | os.X_OK):
        raise PermissionError(13, os.strerror(13), path)
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(folder, name)


def folder_contents(paths: Sequence[str], leave_out: Iterable[str] = ()) -> FolderContents:
    """Return the files below `paths` by use, without `leave_out`: the import's own files."""
    found = FolderContents()
    own = {os.path.realpath(path) for path in leave_out}
    seen: set[tuple[int, int]] = set()
    for path in paths:
        for file in files_below(path):
            if os.path.realpath(file) in own:
                continue
            try:
                _sort_out(file, found, seen)
            except FileNotFoundError:
                continue
            except DAMAGED as error:
                found.unreadable.append((file, getattr(error, "strerror", None) or str(error)))
    found.candidates.sort(key=lambda c: (c.folder, c.base, c.kind, c.rank, c.path))
    return found


def _sort_out(file: str, found: FolderContents, seen: set[tuple[int, int]]) -> None:
    status = os.stat(file)
    identity = (status.st_dev, status.st_ino)
    if not stat.S_ISREG(status.st_mode) or identity in seen:
        return
    seen.add(identity)
    folder, name = os.path.split(file)
    if not status.st_size:
        return
    head = head_of(file, SNIFFED)
    kind = kind_of(uncompressed(name), head)
    machine = _ADDRESS.search(head) or _MACHINE.search(head)
    if machine is not None and (kind == "startlog" or folder not in found.machines):
        found.machines[folder] = machine[1].decode()
    if kind is None:
        if head.strip():
            found.skipped.append(file)
        return
    base, rank = family_of(name, kind)
    first = head.split(b"\n", 1)[0]
    found.candidates.append(Candidate(file, kind, folder, base, rank, status.st_size, status.st_mtime, identity, first))
