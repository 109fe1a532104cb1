"""Logs in memory: for tests, simulations and pools that end with their process.

Each opening of ``memory:`` creates a new log; ``memory:NAME`` is shared in this process as long as it is open
somewhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from threading import RLock
from weakref import WeakValueDictionary

import msgspec

from ...domain.ports.log import Fenced, Head
from .format import FORMAT
from .recorder import Appended, LogRecorder
from .seal import GENESIS, AppendBatch, Row

_PACKED_ROWS = 1024
"""The number of rows that are compressed together: to a twentieth, because events resemble each other."""
_decode_rows = msgspec.msgpack.Decoder(list[Row]).decode


class MemoryRecorder(LogRecorder):
    """A log in memory: its rows, of which all but the last are compressed, and its appends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._head = Head(0, 0, GENESIS)
        self._packed: list[bytes] = []
        self._unpacked: tuple[int, list[Row]] = -1, []  #: the part of ``_packed`` that was read last, and its index
        self._rows: list[Row] = []  #: the rows after the packed ones
        self._streams: dict[str, tuple[int, int, int]] = {}
        """The positions of each stream's first and last events, and its last version."""
        self._appends: list[Appended] = []
        self._lock = RLock()

    def begin_write(self) -> RLock:
        return self._lock

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        with self._lock:
            if self._head != old:
                raise Fenced(f"{self.name}: another writer has appended; refresh, read the new events and decide again")
            numbers = range(batch.first, batch.last + 1)
            for position, stream, version in zip(numbers, batch.streams, batch.versions, strict=True):
                self._streams[stream] = self._streams.get(stream, (position,))[0], position, version
            rows = zip(numbers, batch.streams, batch.versions, batch.topics, batch.states, strict=True)
            while part := [*islice(rows, _PACKED_ROWS)]:
                self._rows += part
                if len(self._rows) >= 2 * _PACKED_ROWS:
                    self._packed.append(zlib.compress(msgspec.msgpack.encode(self._rows[:_PACKED_ROWS]), level=1))
                    del self._rows[:_PACKED_ROWS]
            self._appends.append((new.position, FORMAT, new.epoch, new.digest))
            self._head = new

    def head_rows(self) -> list[tuple[int, Head]]:
        return [(FORMAT, self._head)]

    def read_rows(self, after: int, upto: int, limit: int) -> list[Row]:
        after = max(after, 0)
        with self._lock:
            return [*self._rows_between(after, min(upto, after + limit, self._head.position))]

    def read_stream_rows(self, stream: str, after: int, upto: int, limit: int, version: int = -1) -> list[Row]:
        with self._lock:
            first, last, _ = self._streams.get(stream, (0, 0, 0))
            rows = self._rows_between(max(after, first - 1), min(upto, last))
            return [*islice((row for row in rows if row[1] == stream), limit)]

    def read_back_rows(self, stream: str, upto: int, version: int, limit: int, topics: Collection[str]) -> list[Row]:
        chosen: list[Row] = []
        with self._lock:
            first, last, _ = self._streams.get(stream, (1, 0, 0))
            end = min(upto, last)
            while end >= first and len(chosen) < limit:
                rows = [*self._rows_between(max(end - _PACKED_ROWS, 0), end)]
                of_stream = (row for row in reversed(rows) if row[1] == stream and row[2] < version)
                chosen += (row for row in of_stream if not topics or row[3] in topics)
                end -= len(rows)
        return chosen[:limit]

    def _rows_between(self, after: int, upto: int) -> Iterator[Row]:
        """Yield the rows after position `after`, up to position `upto`."""
        while after < upto:
            index = after // _PACKED_ROWS
            if index >= len(self._packed):
                part = self._rows
            else:
                if self._unpacked[0] != index:
                    self._unpacked = index, _decode_rows(zlib.decompress(self._packed[index]))
                part = self._unpacked[1]
            start = part[0][0] - 1
            yield from islice(part, after - start, upto - start)
            after = start + len(part)

    def last_versions(self, streams: Collection[str]) -> dict[str, int]:
        with self._lock:
            return {stream: self._streams[stream][2] for stream in streams if stream in self._streams}

    def seal_at(self, position: int) -> tuple[int, str] | None:
        seals = [(epoch, digest) for last_position, _, epoch, digest in self._appends if last_position == position]
        return seals[0] if seals else None

    def read_appends(self, after: int, limit: int) -> list[Appended]:
        return [append for append in self._appends if append[0] > after][:limit]

    def last_append(self, upto: int) -> Appended | None:
        return next((append for append in reversed(self._appends) if append[0] <= upto), None)

    def integrity_problems(self) -> list[str]:
        return []

    def close(self) -> None:
        """Do nothing, because the log is freed when its last user releases it."""


_SHARED: WeakValueDictionary[str, MemoryRecorder] = WeakValueDictionary()


def open_memory(name: str, create: bool) -> MemoryRecorder | None:
    """Return the log of this name; if there is none, create one if `create` is true, otherwise return None."""
    recorder = _SHARED.get(name) if name else None
    if recorder is None and create:
        recorder = MemoryRecorder(f"memory:{name}" if name else "memory")
        if name:
            _SHARED[name] = recorder
    return recorder
