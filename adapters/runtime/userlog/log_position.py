"""The user logs' checkpoint: a small file that gets a line whenever it moves.

The last whole line counts: a line that a crash cut off never did, and the one before it is still true. The file is not
replaced for each line, as some file systems write a replaced file to disk first, but rewritten when it has grown.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from attrs import define, field, frozen

from ...machine.execution.supervisor.copying import sync_folder
from .files import problem

PROGRESS = "userlogs.progress"
GROWN = 1_000_000  #: the size in bytes at which the file is rewritten


class UserLogError(Exception):
    """The user logs cannot be kept; the text names the file, the rule and the remedy."""


@frozen
class Failure:
    """A log that could not be written: why, the first such position of the pool's log, and how many events it lacks."""

    path: str
    reason: str
    position: int
    lost: int


@define
class UserLogPosition:
    """All up to `position` is written. `until`: the end of the batch that was begun, with the `sizes` of its files
    before it; equal to `position` if none was."""

    position: int = 0
    until: int = 0
    sizes: dict[str, int] = field(factory=dict)
    failures: dict[str, Failure] = field(factory=dict)


class ProgressFile:
    """The file of that name in `folder`, created if missing; `durable`: each line is on disk before `save` returns."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self.path = folder / PROGRESS
        self._durable = durable
        self._size = 0

    def read(self) -> UserLogPosition:
        """Return the checkpoint; an empty one if there is no file. A line that a crash cut off is removed. Raise
        `UserLogError` if the folder or file cannot be used, or is no checkpoint."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
            self._size = text.rfind(b"\n") + 1
            if self._size < len(text):
                os.truncate(self.path, self._size)
        except OSError as error:
            raise UserLogError(f"{self.path}: {problem(error)}; user logs need a folder to write to") from None
        if not text:
            return UserLogPosition()
        last = text[: self._size].rstrip(b"\n").rpartition(b"\n")[2]
        try:
            return msgspec.json.decode(last, type=UserLogPosition) if last else UserLogPosition()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserLogError(
                f"{self.path}: this is no progress of user logs ({error}); take the file away, and every user log is "
                "written again from the first event"
            ) from None

    def save(self, progress: UserLogPosition) -> None:
        """Add a line, all of it or nothing. Raise `UserLogError` if it could not be written."""
        line = msgspec.json.encode(progress) + b"\n"
        try:
            if self._size > GROWN:
                self._begin_anew(line)
            else:
                self._add(line)
        except OSError as error:
            raise UserLogError(
                f"{self.path}: {problem(error)}; without it events could be written twice, so none is written"
            ) from None

    def _add(self, line: bytes) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _write(fd, line, self._durable)
        except OSError:
            os.ftruncate(fd, self._size)
            raise
        finally:
            os.close(fd)
        self._size += len(line)

    def _begin_anew(self, line: bytes) -> None:
        new = self.path.with_suffix(".new")
        fd = os.open(new, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
        try:
            _write(fd, line, self._durable)
        finally:
            os.close(fd)
        os.replace(new, self.path)
        self._size = len(line)
        if self._durable:  # else a power cut could undo the renaming, but keep what is written to the logs next
            sync_folder(str(self.path.parent))


def _write(fd: int, text: bytes, durable: bool) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(fd, rest) :]
    if durable:
        os.fsync(fd)
