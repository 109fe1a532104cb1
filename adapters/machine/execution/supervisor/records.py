"""The supervisor's state on disk: a claim for each activation, and the journal of their ends.

A claim is taken before its job starts, by creating a file that must not exist yet. So no activation ever starts twice.
The file is not synced: only a crash of the whole machine can lose it, and no job survives that. It is removed once the
end is durable elsewhere; a record without a claim is garbage.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

Record = dict[str, Any]

_WASTE = 4 << 20  #: compact a journal that has more than this many obsolete bytes, and more than half are obsolete
_SPARES = 64  #: maximum number of claim files kept for reuse


class ActivationClaim(NamedTuple):
    """The holder of an activation: its process, and the number that marks its descendants. All fields are 0 if the
    supervisor ended between taking the claim and recording the process."""

    pid: int
    started: int
    number: int
    boot: str
    at: int

    def line(self) -> bytes:
        """Return the claim's line, of fixed length, so that it overwrites an older line completely."""
        return f"{self.pid:10},{self.started:20},{self.number:20},{self.boot:36},{self.at:20}\n".encode()


UNHELD = ActivationClaim(0, 0, 0, "", 0)


class Claims:
    """The folder of claims, one file each. Files of released claims are reused (see ``Scratch``)."""

    def __init__(self, folder: str, spare: str) -> None:
        self._folder = folder
        self._spare = spare
        self._spares: list[str] = []
        for directory in (folder, spare):
            os.makedirs(directory, exist_ok=True)
        # A spare may also be linked as a claim, if its supervisor was killed between the two calls of ``take``.
        for name in os.listdir(spare):
            os.unlink(f"{spare}/{name}")

    def claim_activation(self, key: str) -> int:
        """Take a claim; return a descriptor for ``note``. Raise `FileExistsError` if the activation was claimed
        before."""
        if not self._spares:
            return self._create_claim_file(key)
        spare = self._spares.pop()
        descriptor = os.open(spare, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _write_at(descriptor, UNHELD.line(), 0)
            os.link(spare, self._path(key))  # fails if the name exists, as O_EXCL does
        except OSError:
            os.close(descriptor)
            raise
        finally:
            with contextlib.suppress(OSError):  # the next supervisor removes it
                os.unlink(spare)
        return descriptor

    def _create_claim_file(self, key: str) -> int:
        """Create a claim's file at its final size, so that ``note`` works even if the disk is full by then."""
        descriptor = os.open(self._path(key), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            _write_at(descriptor, UNHELD.line(), 0)
        except OSError:
            os.close(descriptor)
            os.unlink(self._path(key))
            raise
        return descriptor

    def write_holder(self, descriptor: int, claim: ActivationClaim) -> None:
        """Write the holder, and close. Raise `OSError` if that fails: the descriptor stays open for another try."""
        _write_at(descriptor, claim.line(), 0)
        os.close(descriptor)

    def renote(self, key: str, claim: ActivationClaim) -> None:
        """Write another holder, if the disk allows it: the next supervisor also finds processes by their number."""
        with contextlib.suppress(OSError):
            self.write_holder(os.open(self._path(key), os.O_WRONLY | os.O_CLOEXEC), claim)

    def read_claim(self, key: str) -> ActivationClaim | None:
        """Return the claim of an activation, or None if it was never claimed or has been released."""
        try:
            with open(self._path(key), encoding="ascii") as file:
                line = file.read()
        except OSError:
            return None
        try:
            pid, started, number, boot, at = line.split(",")
            return ActivationClaim(int(pid), int(started), int(number), boot.strip(), int(at))
        except ValueError:  # empty, or written by another version: still a claim
            return UNHELD

    def release_claim(self, key: str) -> None:
        """Release an activation whose end is durable elsewhere. Raise `OSError` if its claim cannot be removed."""
        with contextlib.suppress(FileNotFoundError):
            if len(self._spares) < _SPARES:
                with contextlib.suppress(OSError):  # no space for the other name
                    os.rename(self._path(key), f"{self._spare}/{key}")
                    self._spares.append(f"{self._spare}/{key}")
                    return
            os.unlink(self._path(key))

    def claimed_keys(self) -> set[str]:
        """Return every claimed activation."""
        return set(os.listdir(self._folder))

    def _path(self, key: str) -> str:
        return f"{self._folder}/{key}"


class Journal:
    """The records of ends that are not yet acknowledged: one JSON object per line. If a write fails, earlier records
    remain, and the same call can be tried again."""

    def __init__(self, path: str, claimed: set[str]) -> None:
        """Read the file; keep the records of ``claimed`` keys. An incomplete last line was never reported: drop it."""
        self._path = path
        self.records: dict[str, Record] = {}
        try:
            with open(path, "rb") as file:
                content, _, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            content = b""
        lines = content.split(b"\n") if content else []
        for line in lines:
            record = _parse(line)
            if record is not None and record["key"] in claimed:
                self.records[record["key"]] = record
        self._file = -1
        self._in_place = False  # whether the folder's entry for the file is on disk
        self._size = sum(len(line) + 1 for line in lines)
        self._wasted = self._size - sum(len(line_of(record)) for record in self.records.values())
        if self._wasted:
            self._compact()

    def append(self, records: Iterable[Record]) -> None:
        """Make these records durable. Raise `OSError` if that fails: then no record is stored, and the same call can be
        repeated."""
        records = list(records)
        data = b"".join(line_of(record) for record in records)
        if self._file < 0:
            self._file = self._open()
        # Write at an offset, not at the end: the next try overwrites a write that a full disk cut short.
        _write_at(self._file, data, self._size)
        os.fdatasync(self._file)
        if not self._in_place:
            self._sync_folder()
        self._size += len(data)
        self.records.update((record["key"], record) for record in records)

    def drop_records(self, keys: Iterable[str]) -> None:
        """Drop these records."""
        for key in keys:
            record = self.records.pop(key, None)
            if record is not None:
                self._wasted += len(line_of(record))
        if self._wasted > _WASTE and self._wasted * 2 > self._size:
            self._compact()

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, self._size)
        except OSError:
            os.close(file)
            raise
        return file

    def _compact(self) -> None:
        """Rewrite the file with only the current records; if there is no space for a copy, keep the old file."""
        data = b"".join(map(line_of, self.records.values()))
        new_path = f"{self._path}.new"
        try:
            file = os.open(new_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            _write_at(file, data, 0)
            os.fsync(file)
            os.rename(new_path, self._path)
        except OSError:
            os.close(file)
            with contextlib.suppress(OSError):  # an incomplete copy would take space
                os.unlink(new_path)
            return
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size, self._wasted, self._in_place = file, len(data), 0, False
        with contextlib.suppress(OSError):  # ``append`` tries it again
            self._sync_folder()

    def _sync_folder(self) -> None:
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._in_place = True


def _write_at(descriptor: int, data: bytes, place: int) -> None:
    """Write all of ``data``. Raise `OSError` if only a part could be written."""
    done_count = 0
    while done_count < len(data):
        done_count += os.pwrite(descriptor, data[done_count:], place + done_count)


_encode = json.JSONEncoder(separators=(",", ":")).encode


def line_of(record: Record) -> bytes:
    return _encode(record).encode() + b"\n"


def _parse(line: bytes) -> Record | None:
    """Parse a record. Return None for any other line, whose activation then counts as lost."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and isinstance(record.get("key"), str) else None
