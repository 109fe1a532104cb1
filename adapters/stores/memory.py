"""Logs in memory: for tests, simulations and pools that end with their process.

Each opening of ``memory:`` is a new log; ``memory:NAME`` is one log for all in this process who open it while one of
them holds it.
"""

from __future__ import annotations

from collections.abc import Collection
from weakref import WeakValueDictionary

from eventsourcing.persistence import StoredEvent
from eventsourcing.popo import POPOApplicationRecorder

from ...domain.ports.log import Fenced, Head
from .format import FORMAT
from .recorder import SealedInserts
from .seal import GENESIS, AppendBatch, Row
from .stored_log import Appended


class MemoryTables(SealedInserts, POPOApplicationRecorder):
    """A log in the library's store for plain Python objects, with a head and a list of appends."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._head = Head(0, 0, GENESIS)
        self._appends: list[Appended] = []

    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        with self._database_lock:
            if self._head != old:
                raise Fenced(f"{self.name}: another writer has appended; refresh, read on and decide anew")
            self._insert_events(list(map(StoredEvent, batch.streams, batch.versions, batch.topics, batch.states)))
            self._appends.append((new.position, FORMAT, new.epoch, new.digest))
            self._head = new
        self._notify_listeners()

    def heads(self) -> list[tuple[int, Head]]:
        return [(FORMAT, self._head)]

    def chunk(self, after: int, upto: int, most: int) -> list[Row]:
        after = max(after, 0)
        with self._database_lock:
            return [self._row(i) for i in range(after, min(upto, after + most, len(self._stored_events)))]

    def chunk_of(self, stream: str, after: int, upto: int, most: int) -> list[Row]:
        with self._database_lock:
            places = [i for i in self._stored_events_index.get(stream, {}).values() if after <= i < upto][:most]
            return [self._row(i) for i in places]

    def _row(self, index: int) -> Row:
        event = self._stored_events[index]
        return index + 1, str(event.originator_id), event.originator_version, event.topic, event.state

    def versions(self, streams: Collection[str]) -> dict[str, int]:
        with self._database_lock:
            return {stream: len(self._stored_events_index.get(stream, ())) for stream in streams}

    def sealed(self, position: int) -> tuple[int, str] | None:
        found = [(epoch, digest) for last, _, epoch, digest in self._appends if last == position]
        return found[0] if found else None

    def appends(self, after: int, most: int) -> list[Appended]:
        return [append for append in self._appends if append[0] > after][:most]

    def last_append(self, upto: int) -> Appended | None:
        return next((append for append in reversed(self._appends) if append[0] <= upto), None)

    def faults(self) -> list[str]:
        return []

    def close(self) -> None:
        """Do nothing: the log goes with its last user."""


_SHARED: WeakValueDictionary[str, MemoryTables] = WeakValueDictionary()


def open_memory(name: str, create: bool) -> MemoryTables | None:
    """Return the log of this name, or a new one; None if there is none and `create` is not set."""
    found = _SHARED.get(name) if name else None
    if found is None and create:
        found = MemoryTables(f"memory:{name}" if name else "memory")
        if name:
            _SHARED[name] = found
    return found
