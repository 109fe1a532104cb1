"""The interface of a log's stores, which hold sealed appends and the head.

Each store defines the few methods of ``LogRecorder``; ``SqlRecorder`` defines them for SQLite and PostgreSQL, with the
same SQL. ``persistence`` makes any of them a recorder of the ``eventsourcing`` library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from ...domain.ports.log import Head, LogDamaged, LogNewer, LogUnavailable
from .format import FORMAT
from .seal import AppendBatch, Row

Appended = tuple[int, int, int, str]  #: an append: position of its last event, format, epoch, digest


class InDoubt(LogUnavailable):
    """The store failed during a commit: the append may be stored."""


class LogRecorder(ABC):
    """A store of one log. Methods raise `LogUnavailable` and `LogDamaged` with the store's own message."""

    name: str  #: the log's name in messages

    @abstractmethod
    def head_rows(self) -> list[tuple[int, Head]]:
        """Return the rows of the table of heads, each with its format: exactly one in an undamaged log."""

    @abstractmethod
    def begin_write(self) -> AbstractContextManager[Any]:
        """Begin a transaction that blocks all other appends. This thread's reads and appends inside it are part of
        it."""

    @abstractmethod
    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        """Replace the head `old` by `new` and store `batch`, in one durable transaction. Raise `Fenced` for another
        head."""

    @abstractmethod
    def read_rows(self, after: int, upto: int, limit: int) -> list[Row]:
        """Return the first `limit` events after position `after`, up to position `upto`."""

    @abstractmethod
    def read_stream_rows(self, stream: str, after: int, upto: int, limit: int, version: int = -1) -> list[Row]:
        """Return the first `limit` events of one stream after position `after`, up to position `upto`. `version` is
        that of the stream's event at `after`, or -1: with it, a store finds the next event at once."""

    @abstractmethod
    def read_back_rows(self, stream: str, upto: int, version: int, limit: int, topics: Collection[str]) -> list[Row]:
        """Return the last `limit` events of one stream up to position `upto`, with versions below `version`, newest
        first; with `topics`, only events with one of these topics."""

    @abstractmethod
    def last_versions(self, streams: Collection[str]) -> dict[str, int]:
        """Return the last version of each of `streams` that has events."""

    @abstractmethod
    def seal_at(self, position: int) -> tuple[int, str] | None:
        """Return epoch and digest of the append whose last event is at `position`."""

    @abstractmethod
    def read_appends(self, after: int, limit: int) -> list[Appended]:
        """Return the first `limit` appends that end after position `after`."""

    @abstractmethod
    def last_append(self, upto: int) -> Appended | None:
        """Return the last append that ends at position `upto` or before."""

    @abstractmethod
    def integrity_problems(self) -> list[str]:
        """Return the problems that the store itself finds in its files."""

    @abstractmethod
    def close(self) -> None: ...


def head_in(recorder: LogRecorder) -> Head:
    """Return the head of a log. Raise `LogNewer` if it has a later format, `LogDamaged` if there is not exactly one."""
    stored_heads = recorder.head_rows()
    if len(stored_heads) != 1:
        raise LogDamaged(f"{recorder.name} has {len(stored_heads)} heads instead of one; restore it from a backup")
    version, head = stored_heads[0]
    if type(version) is int and version > FORMAT:
        raise LogNewer(
            f"{recorder.name} has format {version}, but this version of Poolbook supports formats up to {FORMAT}: "
            "use the later version that wrote it"
        )
    if [type(field) for field in (version, head.epoch, head.position, head.digest)] != [int, int, int, str]:
        raise LogDamaged(f"{recorder.name} has an invalid head: {head}; restore it from a backup")
    if version < 1:
        raise LogDamaged(f"{recorder.name} has the invalid format {version}; restore it from a backup")
    return head


_ROW = "{position}, originator_id, originator_version, topic, state"
_APPEND = "SELECT position, format, epoch, digest FROM {appends}"


class SqlRecorder(LogRecorder):
    """The queries of a log in SQL. In a statement, ``?`` is a parameter; ``{events}``, ``{appends}`` and ``{head}`` are
    the tables, ``{by_stream}`` the events by stream, ``{position}`` the column of positions."""

    @abstractmethod
    def _select(self, statement: str, *parameters: object) -> list[Any]:
        """Return the rows of a statement."""

    def head_rows(self) -> list[tuple[int, Head]]:
        rows = self._select("SELECT format, epoch, position, digest FROM {head}")
        return [(version, Head(epoch, position, digest)) for version, epoch, position, digest in rows]

    def read_rows(self, after: int, upto: int, limit: int) -> list[Row]:
        where = "{position}>? AND {position}<=? ORDER BY {position} LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{events}} WHERE {where}", after, upto, limit)

    def read_stream_rows(self, stream: str, after: int, upto: int, limit: int, version: int = -1) -> list[Row]:
        where = "originator_id=? AND originator_version>? AND {position}>? AND {position}<=?"
        statement = f"SELECT {_ROW} FROM {{by_stream}} WHERE {where} ORDER BY originator_version LIMIT ?"
        return self._select(statement, stream, version, after, upto, limit)

    def read_back_rows(self, stream: str, upto: int, version: int, limit: int, topics: Collection[str]) -> list[Row]:
        of_topics = f" AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        where = f"originator_id=? AND originator_version<? AND {{position}}<=?{of_topics}"
        statement = f"SELECT {_ROW} FROM {{by_stream}} WHERE {where} ORDER BY originator_version DESC LIMIT ?"
        return self._select(statement, stream, version, upto, *topics, limit)

    def seal_at(self, position: int) -> tuple[int, str] | None:
        rows: list[tuple[int, str]] = self._select("SELECT epoch, digest FROM {appends} WHERE position=?", position)
        return rows[0] if rows else None

    def read_appends(self, after: int, limit: int) -> list[Appended]:
        return self._select(f"{_APPEND} WHERE position>? ORDER BY position LIMIT ?", after, limit)

    def last_append(self, upto: int) -> Appended | None:
        rows: list[Appended] = self._select(f"{_APPEND} WHERE position<=? ORDER BY position DESC LIMIT 1", upto)
        return rows[0] if rows else None
