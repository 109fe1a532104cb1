"""The interface of a log's stores: a recorder of the ``eventsourcing`` library that seals appends and moves the head.

``LogRecorder`` implements the library's abstract ``ApplicationRecorder`` with a few methods that each store defines;
``SqlRecorder`` defines them for SQLite and PostgreSQL, with the same SQL. The library's contract tests run on every
store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from threading import Event
from typing import Any, Final
from uuid import UUID

from eventsourcing.persistence import ApplicationRecorder, IntegrityError, Notification, StoredEvent, Subscription

from ...domain.ports.log import Head, LogDamaged, LogNewer
from .format import FORMAT
from .seal import AppendBatch, Row, seal

Appended = tuple[int, int, int, str]  #: an append: position of its last event, format, epoch, digest
LAST: Final = 2**63 - 1  #: the last position that any log can have
_CHUNK = 500
_POLL = 0.05  # seconds


class LogRecorder(ApplicationRecorder, ABC):
    """A store of one log. Methods raise `LogUnavailable` and `LogDamaged` with the store's own message."""

    name: str  #: the log's name in messages

    @abstractmethod
    def heads(self) -> list[tuple[int, Head]]:
        """Return the rows of the table of heads, each with its format: exactly one in an undamaged log."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Any]:
        """Begin a transaction that blocks all other appends. This thread's reads and appends inside it are part of
        it."""

    @abstractmethod
    def append(self, old: Head, new: Head, batch: AppendBatch) -> None:
        """Replace the head `old` by `new` and store `batch`, in one durable transaction. Raise `Fenced` if the head is
        not `old`."""

    @abstractmethod
    def chunk(self, after: int, upto: int, limit: int) -> list[Row]:
        """Return the first `limit` events after position `after`, up to position `upto`."""

    @abstractmethod
    def chunk_of(self, stream: str, after: int, upto: int, limit: int) -> list[Row]:
        """Return the first `limit` events of one stream after position `after`, up to position `upto`."""

    @abstractmethod
    def versions(self, streams: Collection[str]) -> dict[str, int]:
        """Return the last version of each of `streams` that has events."""

    @abstractmethod
    def sealed(self, position: int) -> tuple[int, str] | None:
        """Return epoch and digest of the append whose last event is at `position`."""

    @abstractmethod
    def appends(self, after: int, limit: int) -> list[Appended]:
        """Return the first `limit` appends that end after position `after`."""

    @abstractmethod
    def last_append(self, upto: int) -> Appended | None:
        """Return the last append that ends at position `upto` or before."""

    @abstractmethod
    def integrity_problems(self) -> list[str]:
        """Return the problems that the store itself finds in its files."""

    @abstractmethod
    def close(self) -> None: ...

    # The library's interface

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Append all events or none after the current head, sealed as every append; return their positions. Raise
        `IntegrityError` if a version is not the next of its stream."""
        if not stored_events:
            return []
        with self.writing():
            head = head_in(self)
            batch = self._batch(head, stored_events)
            self.append(head, Head(head.epoch, batch.last, seal(head.digest, FORMAT, head.epoch, batch)), batch)
        return list(range(batch.first, batch.last + 1))

    def _batch(self, head: Head, events: Sequence[StoredEvent]) -> AppendBatch:
        batch = AppendBatch(head.position + 1, [], [], [], [])
        versions = self.versions({str(event.originator_id) for event in events})
        for event in events:
            stream, version = str(event.originator_id), event.originator_version
            last_version = versions.get(stream)
            # Another application may number a stream from 0.
            if version != (min(max(version, 0), 1) if last_version is None else last_version + 1):
                raise IntegrityError(
                    f"{self.name}: version {version} of stream {stream} cannot be stored: "
                    f"its next version is {(last_version or 0) + 1}"
                )
            batch.streams.append(stream)
            batch.versions.append(version)
            batch.topics.append(event.topic)
            batch.states.append(event.state)
            versions[stream] = version
        return batch

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        events = [StoredEvent(*row[1:]) for row in self.chunk_of(str(originator_id), 0, LAST, LAST)]
        after_version, last_version = -1 if gt is None else gt, LAST if lte is None else lte
        chosen_events = [event for event in events if after_version < event.originator_version <= last_version]
        return (chosen_events[::-1] if desc else chosen_events)[:limit]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        after = 0 if start is None else start - inclusive_of_start
        chosen: list[Notification] = []
        while len(chosen) < limit and (rows := self.chunk(after, LAST if stop is None else stop, limit)):
            for after, stream, version, topic, state in rows:  # the next chunk starts after it
                if not topics or topic in topics:
                    chosen.append(Notification(stream, version, topic, state, after))
        return chosen[:limit]

    def max_notification_id(self) -> int | None:
        return head_in(self).position or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        return _Polling(self, gt, topics)


class _Polling(Subscription[ApplicationRecorder]):
    """A subscription that polls for new events. Appends don't notify it: PostgreSQL's NOTIFY would serialize all
    appends of a server."""

    def __init__(self, recorder: ApplicationRecorder, gt: int | None, topics: Sequence[str]) -> None:
        super().__init__(recorder, gt, topics)
        self._end = Event()
        self._following = self._follow(recorder, gt or 0, topics)

    def _follow(self, recorder: ApplicationRecorder, after: int, topics: Sequence[str]) -> Iterator[Notification]:
        while not self._end.is_set():
            for notification in (new := recorder.select_notifications(after + 1, _CHUNK, topics=topics)):
                if self._end.is_set():
                    return
                yield notification
            if new:
                after = new[-1].id
            else:
                self._end.wait(_POLL)

    def stop(self) -> None:
        super().stop()
        self._end.set()

    def __next__(self) -> Notification:
        return next(self._following)


def head_in(recorder: LogRecorder) -> Head:
    """Return the head of a log. Raise `LogNewer` if it has a later format, `LogDamaged` if there is not exactly one."""
    stored_heads = recorder.heads()
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

    def heads(self) -> list[tuple[int, Head]]:
        rows = self._select("SELECT format, epoch, position, digest FROM {head}")
        return [(version, Head(epoch, position, digest)) for version, epoch, position, digest in rows]

    def chunk(self, after: int, upto: int, limit: int) -> list[Row]:
        where = "{position}>? AND {position}<=? ORDER BY {position} LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{events}} WHERE {where}", after, upto, limit)

    def chunk_of(self, stream: str, after: int, upto: int, limit: int) -> list[Row]:
        where = "originator_id=? AND {position}>? AND {position}<=? ORDER BY originator_version LIMIT ?"
        return self._select(f"SELECT {_ROW} FROM {{by_stream}} WHERE {where}", stream, after, upto, limit)

    def sealed(self, position: int) -> tuple[int, str] | None:
        rows: list[tuple[int, str]] = self._select("SELECT epoch, digest FROM {appends} WHERE position=?", position)
        return rows[0] if rows else None

    def appends(self, after: int, limit: int) -> list[Appended]:
        return self._select(f"{_APPEND} WHERE position>? ORDER BY position LIMIT ?", after, limit)

    def last_append(self, upto: int) -> Appended | None:
        rows: list[Appended] = self._select(f"{_APPEND} WHERE position<=? ORDER BY position DESC LIMIT 1", upto)
        return rows[0] if rows else None
