"""The library's recorder interface over a sealed log, for ``eventsourcing`` applications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from eventsourcing.persistence import IntegrityError, StoredEvent

from ...domain.ports.log import Fenced, Head
from .format import FORMAT
from .seal import Batch, seal
from .stored_log import Tables, head_in


class _Appending(Tables, Protocol):
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


def _batch(tables: Tables, head: Head, events: Sequence[StoredEvent]) -> Batch:
    batch = Batch(head.position + 1, [], [], [], [])
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
