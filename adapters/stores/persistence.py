"""A persistence module for the ``eventsourcing`` library: its applications and projections can read Poolbook logs.

An application with these settings reads the log at ``LOG_URL``, with Poolbook's event classes:

    PERSISTENCE_MODULE = "poolbook.adapters.stores.persistence"
    LOG_URL = "sqlite:///pool.db"

With the application's name as a prefix (``POOL_PERSISTENCE_MODULE``), they do not affect the views of its projections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Event
from typing import Any
from uuid import UUID

from eventsourcing import popo
from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Mapper,
    Notification,
    StoredEvent,
    Subscription,
)

from ...domain.ports.log import Head
from .codec import CODEC
from .format import FORMAT
from .opening import open_recorder
from .recorder import LogRecorder, head_in
from .seal import AppendBatch, seal

_LAST = 2**63 - 1  #: the last position that any log can have
_CHUNK = 500
_POLL = 0.05  # seconds


class StoreRecorder(ApplicationRecorder):
    """A store of a log as a recorder of the library."""

    def __init__(self, store: LogRecorder) -> None:
        self._store = store

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Append all events or none after the current head, sealed as every append; return their positions. Raise
        `IntegrityError` if a version is not the next of its stream."""
        if not stored_events:
            return []
        with self._store.begin_write():
            head = head_in(self._store)
            batch = self._batch(head, stored_events)
            self._store.append(head, Head(head.epoch, batch.last, seal(head.digest, FORMAT, head.epoch, batch)), batch)
        return list(range(batch.first, batch.last + 1))

    def _batch(self, head: Head, events: Sequence[StoredEvent]) -> AppendBatch:
        batch = AppendBatch(head.position + 1, [], [], [], [])
        versions = self._store.last_versions({str(event.originator_id) for event in events})
        for event in events:
            stream, version = str(event.originator_id), event.originator_version
            last_version = versions.get(stream)
            # Another application may number a stream from 0.
            if version != (min(max(version, 0), 1) if last_version is None else last_version + 1):
                raise IntegrityError(
                    f"{self._store.name}: version {version} of stream {stream} cannot be stored: "
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
        events = [StoredEvent(*row[1:]) for row in self._store.read_stream_rows(str(originator_id), 0, _LAST, _LAST)]
        after_version, last_version = -1 if gt is None else gt, _LAST if lte is None else lte
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
        while len(chosen) < limit and (rows := self._store.read_rows(after, _LAST if stop is None else stop, limit)):
            for after, stream, version, topic, state in rows:  # the next chunk starts after it
                if not topics or topic in topics:
                    chosen.append(Notification(stream, version, topic, state, after))
        return chosen[:limit]

    def max_notification_id(self) -> int | None:
        return head_in(self._store).position or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        return _Polling(self, gt, topics)

    def close(self) -> None:
        self._store.close()


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


class LogMapper(Mapper[str]):
    """Decodes the events of a log. Only ``StoredLog`` can append them, since an event does not have its version."""

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        return CODEC.decode([(0, "", 0, stored_event.topic, stored_event.state)], "the log")[0]


class LogFactory(popo.POPOFactory):
    """Creates the recorder of the log at ``LOG_URL``. All other data of an application is in memory."""

    def mapper(self, *_: Any, **__: Any) -> Mapper[Any]:
        return LogMapper(self.transcoder())

    def application_recorder(self) -> ApplicationRecorder:
        """Return the recorder of the log at ``LOG_URL``. Raise the same exceptions as ``open_log``."""
        self._recorder = StoreRecorder(open_recorder(self.env.get("LOG_URL", "")))
        return self._recorder

    def close(self) -> None:
        super().close()
        self._recorder.close()
