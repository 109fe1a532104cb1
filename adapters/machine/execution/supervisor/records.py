"""The supervisor's state on disk: a claim for each activation, and the journal of their ends.

A claim is written before its job starts. So no activation ever starts twice. The file of claims is not synced: only a
crash of the whole machine can lose a claim, and no job survives that. A claim is released once the end is durable
elsewhere; a record without a claim is garbage.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

Record = dict[str, Any]

_WASTE = 4 << 20  #: compact a journal that has more than this many obsolete bytes, and more than half are obsolete
_TABLE, _OLD_CLAIMS = "claims.table", "claims"
_SECTOR = 512  #: the length of a claim's line: a disk writes all of a sector or nothing
_FREE = b"-" + b" " * (_SECTOR - 2) + b"\n"
"""The line of a released claim. It has no key, so that an incomplete write of the next claim brings no key back."""


class ActivationClaim(NamedTuple):
    """The holder of an activation: its process, and the number that marks its descendants. All fields are 0 if the
    supervisor ended between taking the claim and recording the process."""

    pid: int
    started: int
    number: int
    boot: str
    at: int

    def text(self) -> bytes:
        """Return the first part of the claim's line, of fixed length, so that it overwrites an older one completely."""
        return f"{self.pid:10},{self.started:20},{self.number:20},{self.boot:36},{self.at:20},".encode()


UNHELD = ActivationClaim(0, 0, 0, "", 0)
_UNHELD_TEXT = UNHELD.text()
_KEY_LENGTH = _SECTOR - len(_UNHELD_TEXT) - 1


class Claims:
    """The claims in a supervisor's folder. Earlier versions had a file for each claim in ``claims``; these files are
    read, and removed when their claims are released."""

    def __init__(self, folder: str) -> None:
        self.by_key = dict(_claims_of_earlier_versions(folder))
        self._folder = folder
        self._file = os.open(f"{folder}/{_TABLE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._places: dict[str, int] = {}
        self._free_places: list[int] = []
        table = _read_table(folder)
        for number, entry in enumerate(parse_table(table)):
            place = number * _SECTOR
            if entry is None:
                self._free_places.append(place)
            elif entry[0] in self._places:  # a power cut undid the release of one of them
                with contextlib.suppress(OSError):  # the next supervisor tries again
                    _write_at(self._file, _FREE, place)
                self._free_places.append(place)
            else:
                self._places[entry[0]] = place
                self.by_key.update((entry,))
        self._end = _SECTOR * -(-len(table) // _SECTOR)

    def claim_activation(self, key: str) -> None:
        """Take a claim. Raise `FileExistsError` if the activation was claimed before, and another `OSError` if the
        claim cannot be written; release it also then. The line has its final size, so that ``write_holder`` works even
        if the disk is full by then."""
        if key in self.by_key:
            raise FileExistsError(key)
        if key not in self._places:
            self._places[key] = self._free_places.pop() if self._free_places else self._end
        # A write that fails may have written the line, so the place belongs to the activation until its release.
        place = self._places[key]
        self._end = max(self._end, place + _SECTOR)
        _write_at(self._file, _UNHELD_TEXT + f"{key:{_KEY_LENGTH}}\n".encode(), place)
        self.by_key[key] = UNHELD

    def write_holder(self, key: str, claim: ActivationClaim) -> None:
        """Write the holder of a claim; do nothing if the claim has been released. Raise `OSError` if that fails; it can
        be tried again."""
        if key in self._places:
            _write_at(self._file, claim.text(), self._places[key])
            self.by_key[key] = claim

    def release_claim(self, key: str) -> None:
        """Release an activation whose end is durable elsewhere. Raise `OSError` if its claim cannot be removed."""
        if key in self._places:
            _write_at(self._file, _FREE, self._places[key])
            self._free_places.append(self._places.pop(key))
        elif key in self.by_key:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._folder}/{_OLD_CLAIMS}/{key}")
        self.by_key.pop(key, None)


def claimed_keys(folder: str) -> set[str]:
    """Return every activation that is claimed in a supervisor's folder."""
    entries = parse_table(_read_table(folder))
    return {key for key, _ in _claims_of_earlier_versions(folder)} | {entry[0] for entry in entries if entry}


def parse_table(data: bytes) -> Iterator[tuple[str, ActivationClaim] | None]:
    """Yield the activation and claim of each line of a table, or None if the line is free or incomplete."""
    return (_parse_line(data[place : place + _SECTOR]) for place in range(0, len(data), _SECTOR))


def _read_table(folder: str) -> bytes:
    try:
        with open(f"{folder}/{_TABLE}", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _parse_line(line: bytes) -> tuple[str, ActivationClaim] | None:
    key = line[len(_UNHELD_TEXT) :].decode("ascii", "replace")
    if len(line) < _SECTOR or line.startswith(b"-") or not key.endswith("\n") or not key.strip():
        return None
    return key.strip(), _parse_claim(line[: len(_UNHELD_TEXT) - 1].decode("ascii", "replace"))


def _parse_claim(text: str) -> ActivationClaim:
    try:
        pid, started, number, boot, at = text.split(",")
        return ActivationClaim(int(pid), int(started), int(number), boot.strip(), int(at))
    except ValueError:  # empty, or written by another version: still a claim
        return UNHELD


def _claims_of_earlier_versions(folder: str) -> Iterator[tuple[str, ActivationClaim]]:
    with contextlib.suppress(FileNotFoundError):
        for key in os.listdir(f"{folder}/{_OLD_CLAIMS}"):
            with open(f"{folder}/{_OLD_CLAIMS}/{key}", encoding="ascii", errors="replace") as file:
                yield key, _parse_claim(file.read())


class Journal:
    """The records of ends that are not yet acknowledged: one JSON object per line. If a write fails, earlier records
    remain, and the same call can be tried again."""

    def __init__(self, path: str, claimed: set[str]) -> None:
        """Read the file; keep the records of ``claimed`` keys. An incomplete last line was never reported: drop it."""
        self._path = path
        self.records: dict[str, Record] = {}
        self._sizes: dict[str, int] = {}  # the length of each record's line
        try:
            with open(path, "rb") as file:
                content, _, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            content = b""
        lines = content.split(b"\n") if content else []
        for line in lines:
            record = _parse(line)
            if record is not None and record["key"] in claimed:
                self.records[record["key"]], self._sizes[record["key"]] = record, len(line) + 1
        self._file = -1
        self._in_place = False  # whether the folder's entry for the file is on disk
        self._size = sum(len(line) + 1 for line in lines)
        self._wasted = self._size - sum(self._sizes.values())
        if self._wasted:
            self._compact()

    def append(self, records: Iterable[Record]) -> list[bytes]:
        """Make these records durable; return their lines. Raise `OSError` if that fails: then no record is stored, and
        the same call can be repeated."""
        records = list(records)
        lines = list(map(line_of, records))
        data = b"".join(lines)
        if self._file < 0:
            self._file = self._open()
        # Write at an offset, not at the end: the next try overwrites a write that a full disk cut short.
        _write_at(self._file, data, self._size)
        os.fdatasync(self._file)
        if not self._in_place:
            self._sync_folder()
        self._size += len(data)
        for record, line in zip(records, lines, strict=True):
            self.records[record["key"]], self._sizes[record["key"]] = record, len(line)
        return lines

    def drop_records(self, keys: Iterable[str]) -> None:
        """Drop these records."""
        for key in keys:
            if self.records.pop(key, None) is not None:
                self._wasted += self._sizes.pop(key)
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
