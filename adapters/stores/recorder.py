"""The library's recorder interface over a sealed log, for ``eventsourcing`` applications."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

from eventsourcing.persistence import IntegrityError, StoredEvent

from ...domain.ports.log import Fenced, Head
from .format import FORMAT
from .seal import AppendBatch, Row, seal
from .stored_log import Appended, LogTables, head_in

# What the stores in SQLite and PostgreSQL ask of their tables, each question in the SQL that both know.

_ROW = "{position}, originator_id, originator_version, topic, state"


class SqlTables(ABC):
    """The reading half of ``LogTables``. In a statement ``?`` stands for a parameter, and ``{events}``, ``{appends}``,
    ``{head}`` for the tables; ``{by_stream}`` are the events by their streams, ``{position}`` the column of a position.
    """

    @abstractmethod
    def _select(self, statement: str, *parameters: object) -> list[Any]:
        """Return the rows of a statement."""

    def heads(self) -> list[tuple[int, Head]]:
        found = self._select("SELECT format, epoch, position, digest FROM {head}")
        return [(version, Head(epoch, position, digest)) for version, epoch, position, digest in found]

    def chunk(self, after: int, upto: int, most: int) -> list[Row]:
        where = "{position}>? AND {position}<=? ORDER BY {position} LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{events}} WHERE {where}", after, upto, most)

    def chunk_of(self, stream: str, after: int, upto: int, most: int) -> list[Row]:
        where = "originator_id=? AND {position}>? AND {position}<=? ORDER BY originator_version LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{by_stream}} WHERE {where}", stream, after, upto, most)

    def sealed(self, position: int) -> tuple[int, str] | None:
        found: list[tuple[int, str]] = self._select("SELECT epoch, digest FROM {appends} WHERE position=?", position)
        return found[0] if found else None

    def appends(self, after: int, most: int) -> list[Appended]:
        statement = "SELECT position, format, epoch, digest FROM {appends} WHERE position>? ORDER BY position LIMIT ?"
        return self._select(statement, after, most)

    def last_append(self, upto: int) -> Appended | None:
        statement = (
            "SELECT position, format, epoch, digest FROM {appends} WHERE position<=? ORDER BY position DESC LIMIT 1"
        )
        found: list[Appended] = self._select(statement, upto)
        return found[0] if found else None


class _Appending(LogTables, Protocol):
    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]: ...


class SealedInserts:
    """Inserts encoded events: sealed, and moving the head, as every append does. A writer whose head an insert has
    overtaken is fenced."""

    def insert_events(self: _Appending, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Store all events or none, and return their positions in the log. Raise `IntegrityError` if a version is not
        the next of its stream, `LogUnavailable` if the store cannot take them."""
        if not stored_events:
            return []
        while True:
            head = head_in(self)
            batch = _batch(self, head, stored_events)
            try:
                self.append(head, Head(head.epoch, batch.last, seal(head.digest, FORMAT, head.epoch, batch)), batch)
            except Fenced:
                continue  # another append came between: versions are compared with what it left
            return range(batch.first, batch.last + 1)


def _batch(tables: LogTables, head: Head, events: Sequence[StoredEvent]) -> AppendBatch:
    batch = AppendBatch(head.position + 1, [], [], [], [])
    streams = [str(event.originator_id) for event in events]
    versions = dict.fromkeys(streams, 0) | tables.versions(set(streams))
    for stream, event in zip(streams, events, strict=True):
        versions[stream] += 1
        if event.originator_version != versions[stream]:
            raise IntegrityError(
                f"{tables.name}: version {event.originator_version} of stream {stream} cannot be stored: "
                f"its next version is {versions[stream]}"
            )
        batch.streams.append(stream)
        batch.versions.append(event.originator_version)
        batch.topics.append(event.topic)
        batch.states.append(event.state)
    return batch
