"""Logs in memory: for tests, simulations and pools that end with their process.

Each opening of ``memory:`` creates a new log; ``memory:NAME`` is shared in this process as long as it is open
somewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import RLock
from weakref import WeakValueDictionary

from ...domain.ports.log import Fenced, Head
from .format import FORMAT
from .recorder import Appended, LogRecorder
from .seal import GENESIS, AppendBatch, Row


class MemoryRecorder(LogRecorder):
    """A log stored in lists: its rows, its appends, and the rows of each stream."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._head = Head(0, 0, GENESIS)
        self._rows: list[Row] = []
        self._streams: dict[str, list[Row]] = {}
        self._appends: list[Appended] = []
        self._lock = RLock()

    def begin_write(self) -> RLock:
        return self._lock

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        with self._lock:
            if self._head != old:
                raise Fenced(f"{self.name}: another writer has appended; refresh, read the new events and decide again")
            numbers = range(batch.first, batch.last + 1)
            for row in zip(numbers, batch.streams, batch.versions, batch.topics, batch.states, strict=True):
                self._rows.append(row)
                self._streams.setdefault(row[1], []).append(row)
            self._appends.append((new.position, FORMAT, new.epoch, new.digest))
            self._head = new

    def head_rows(self) -> list[tuple[int, Head]]:
        return [(FORMAT, self._head)]

    def read_rows(self, after: int, upto: int, limit: int) -> list[Row]:
        after = max(after, 0)
        with self._lock:
            return self._rows[after : max(after, min(upto, after + limit))]

    def read_stream_rows(self, stream: str, after: int, upto: int, limit: int) -> list[Row]:
        with self._lock:
            return [row for row in self._streams.get(stream, ()) if after < row[0] <= upto][:limit]

    def last_versions(self, streams: Collection[str]) -> dict[str, int]:
        with self._lock:
            return {stream: self._streams[stream][-1][2] for stream in streams if stream in self._streams}

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
