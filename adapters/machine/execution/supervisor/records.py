"""The supervisor's state on disk: a claim for each activation, and the journal of their ends.

A claim is taken before its job is started, by creating a file that must not exist yet; so no activation is ever started
twice. It is not synced: only a crash of the whole machine can lose it, and no job survives that. It is removed once the
end is durable elsewhere; a record without a claim is garbage.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

Record = dict[str, Any]

_WASTE = 4 << 20  #: a journal is written anew when it holds this many bytes of which less than half are still wanted
_SPARES = 64  #: claims that are kept to be used again


class Claim(NamedTuple):
    """The holder of an activation: its process, and the number that its descendants bear. All 0 if the supervisor ended
    between taking the claim and noting the process."""

    pid: int
    started: int
    number: int
    boot: str
    at: int

    def line(self) -> bytes:
        """Return the claim's line: of fixed length, so that overwriting one leaves nothing of it."""
        return f"{self.pid:10},{self.started:20},{self.number:20},{self.boot:36},{self.at:20}\n".encode()


NOBODY = Claim(0, 0, 0, "", 0)


class Claims:
    """The folder of claims, one file each. Files of released claims are reused (see ``Scratch``)."""

    def __init__(self, folder: str, spare: str) -> None:
        self._folder = folder
        self._spare = spare
        self._spares: list[str] = []
        for needed in (folder, spare):
            os.makedirs(needed, exist_ok=True)
        # One of these may be a claim as well: its supervisor was killed between the two calls of ``take``.
        for name in os.listdir(spare):
            os.unlink(f"{spare}/{name}")

    def take(self, key: str) -> int:
        """Take a claim, and return a descriptor for ``note``. Raise `FileExistsError` if the activation was claimed
        before."""
        if not self._spares:
            return os.open(self._path(key), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        spare = self._spares.pop()
        descriptor = os.open(spare, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, NOBODY.line(), 0)
            os.link(spare, self._path(key))  # refuses a name that exists, as O_EXCL does
        except OSError:
            os.close(descriptor)
            raise
        finally:
            os.unlink(spare)
        return descriptor

    def note(self, descriptor: int, claim: Claim) -> None:
        """Write the holder, and close."""
        try:
            os.pwrite(descriptor, claim.line(), 0)
        finally:
            os.close(descriptor)

    def read(self, key: str) -> Claim | None:
        """Return the claim of an activation, None if it was never claimed or is released."""
        try:
            with open(self._path(key), encoding="ascii") as file:
                line = file.read()
        except OSError:
            return None
        try:
            pid, started, number, boot, at = line.split(",")
            return Claim(int(pid), int(started), int(number), boot.strip(), int(at))
        except ValueError:  # empty, or not written by this version: a claim all the same
            return NOBODY

    def release(self, key: str) -> None:
        """Release an activation whose end is durable elsewhere."""
        with contextlib.suppress(FileNotFoundError):
            if len(self._spares) < _SPARES:
                os.rename(self._path(key), f"{self._spare}/{key}")
                self._spares.append(f"{self._spare}/{key}")
            else:
                os.unlink(self._path(key))

    def all(self) -> set[str]:
        """Return every claimed activation."""
        return set(os.listdir(self._folder))

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}"


class Journal:
    """The records of ends that are not yet acknowledged: one JSON object a line."""

    def __init__(self, path: str, wanted: set[str]) -> None:
        """Read the file; keep the records of ``wanted`` keys. A torn last line was never reported: it is cut."""
        self._path = path
        self.records: dict[str, Record] = {}
        try:
            with open(path, "rb") as file:
                lines = file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            lines = []
        for line in lines:
            record = _parse(line)
            if record is not None and record["key"] in wanted:
                self.records[record["key"]] = record
        self._file = -1
        self._size = 0
        self._wasted = 0
        self._rewrite()

    def append(self, records: Iterable[Record]) -> None:
        """Make these durable. Raise `OSError` if none of them counts; the same call can be tried again."""
        records = list(records)
        data = b"".join(line_of(record) for record in records)
        # At a place, not at the end: what a full disk cut off half-way is written over by the next try.
        done = 0
        while done < len(data):
            done += os.pwrite(self._file, data[done:], self._size + done)
        os.fdatasync(self._file)
        self._size += len(data)
        self.records.update((record["key"], record) for record in records)

    def forget(self, keys: Iterable[str]) -> None:
        """Drop these records."""
        for key in keys:
            record = self.records.pop(key, None)
            if record is not None:
                self._wasted += len(line_of(record))
        if self._wasted > _WASTE and self._wasted * 2 > self._size:
            self._rewrite()

    def _rewrite(self) -> None:
        data = b"".join(map(line_of, self.records.values()))
        fresh = f"{self._path}.new"
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            with open(file, "wb", closefd=False) as writer:
                writer.write(data)
            os.fsync(file)
            os.rename(fresh, self._path)
            folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(folder)
            os.close(folder)
        except OSError:
            os.close(file)
            if self._file < 0:
                raise
            return  # no room for a copy: the old journal goes on
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size, self._wasted = file, len(data), 0


def line_of(record: Record) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _parse(line: bytes) -> Record | None:
    """Parse a record; return None for any other line, whose activation then counts as lost."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None
