"""Restore a log from the table `events` of an export in JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import msgspec

from ...domain.events import TOPICS, Event, WriterBegan
from ...domain.ports.log import EventStore

BATCH = 10_000  #: events in one append


class InvalidExport(ValueError):
    """A line is not a row of an exported log. The message names the line and the fix."""


class _Line(msgspec.Struct):
    position: int
    kind: str
    event: msgspec.Raw


def is_exported_log(first_line: bytes) -> bool:
    """Check whether a file that begins with this line is an exported log."""
    try:
        row = json.loads(first_line)
    except ValueError:
        return False
    return isinstance(row, dict) and {"position", "stream", "kind", "event"} <= row.keys()


def check_export(lines: Iterable[bytes]) -> None:
    """Raise `InvalidExport` if a line is not valid, so that no log is created from an incomplete export."""
    epoch = 0
    for number, event in enumerate(_events(lines), 1):
        if isinstance(event, WriterBegan):
            epoch += 1
            if event.epoch != epoch:
                raise InvalidExport(
                    f"line {number} begins epoch {event.epoch} after epoch {epoch - 1}; export the log again"
                )


def restore(lines: Iterable[bytes], log: EventStore) -> int:
    """Append the events of a checked export to an empty log, and return their number. The log has the events and the id
    of the original, but its own seal."""
    batch: list[Event] = []
    count = 0
    for event in _events(lines):
        count += 1
        if isinstance(event, WriterBegan) or len(batch) >= BATCH:
            _append(log, batch)
            batch = []
        if isinstance(event, WriterBegan):
            log.raise_epoch(event.writer, event.at, event.stimulus)
        else:
            batch.append(event)
    _append(log, batch)
    return count


def _append(log: EventStore, batch: list[Event]) -> None:
    if batch:
        log.append(batch)


def _events(lines: Iterable[bytes]) -> Iterator[Event]:
    decode = msgspec.json.Decoder(_Line).decode
    decoders = {topic: msgspec.json.Decoder(kind).decode for topic, kind in TOPICS.items()}
    for number, line in enumerate(lines, 1):
        try:
            row = decode(line)
            event = decoders[row.kind](row.event)
        except (msgspec.MsgspecError, ValueError, KeyError) as error:
            raise InvalidExport(
                f"line {number} is not a row of the table `events` ({error}); export the log again, with this version"
            ) from None
        if row.position != number:
            raise InvalidExport(
                f"line {number} has position {row.position}; export the whole log, without -from and -to"
            )
        yield event
