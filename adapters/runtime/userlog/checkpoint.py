"""How far the user logs are written: a small file to which a line is added whenever that changes.

The last whole line counts. A line that a crash cut off never counted, and the one before it says the truth: a batch was
announced and no file touched yet, or all of it is written and will be found to be.

A file is not replaced for each line: where a file replaces another, some file systems write it to disk first, which
takes longer than all the rest. It is made anew, one line long, when it has grown.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from attrs import define, field, frozen

from .files import problem

PROGRESS = "userlogs.progress"
GROWN = 1_000_000
"""The size in bytes at which the file is made anew."""


class UserLogError(Exception):
    """The user logs cannot be kept; the text names the file, the rule and the way out."""


@frozen
class Failure:
    """A log that could not be written: why, at which position of the pool's log first, and how many events it lacks."""

    path: str
    reason: str
    position: int
    lost: int


@define
class Progress:
    """`position`: up to here everything is written. `until`: where the batch that was begun ends, and `sizes` what its
    files measured before it. Equal positions: no batch was begun."""

    position: int = 0
    until: int = 0
    sizes: dict[str, int] = field(factory=dict)
    failures: dict[str, Failure] = field(factory=dict)


class ProgressFile:
    """The file of that name in `folder`, which is made if there is none; `durable`: each line is on disk before
    `save` returns."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self.path = folder / PROGRESS
        self._durable = durable
        self._size = 0

    def read(self) -> Progress:
        """The progress; none if there is no file. What a crash left of a line is taken off.

        :raises UserLogError: the folder or file cannot be used, or is no progress
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            text = self.path.read_bytes() if self.path.exists() else b""
            self._size = text.rfind(b"\n") + 1
            if self._size < len(text):
                os.truncate(self.path, self._size)
        except OSError as error:
            raise UserLogError(f"{self.path}: {problem(error)}; user logs need a folder to write to") from None
        if not text:
            return Progress()
        last = text[: self._size].rstrip(b"\n").rpartition(b"\n")[2]
        try:
            return msgspec.json.decode(last, type=Progress) if last else Progress()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UserLogError(
                f"{self.path}: this is no progress of user logs ({error}); take the file away, and every user log is "
                "written again from the first event"
            ) from None

    def save(self, progress: Progress) -> None:
        """Add a line, all of it or nothing.

        :raises UserLogError: it could not be written
        """
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


def _write(fd: int, text: bytes, durable: bool) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(fd, rest) :]
    if durable:
        os.fsync(fd)
