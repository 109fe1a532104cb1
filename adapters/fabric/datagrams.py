"""The datagrams between roles, and the pages of outboxes that they carry.

A receiver asks for the next page of the outbox that a peer keeps for it (`Read`), and receives it in one or several
parts (`Page`), because a datagram is small. A `Hint` only means that asking is worthwhile, and that its sender runs.
Any datagram may be lost or arrive twice: the receiver asks again.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from ...domain.events import Event, JobActivated
from ...domain.peers.sent_forms import FORMS, TOPIC_OF, encoded
from ...domain.ports.log import EventStore
from ...domain.ports.stimuli import Follow, OutboxEntry
from ...domain.state.peers import Outbox, role_of
from ...domain.state.state import LogState
from ..stores.codec import CODEC
from .carrier import LARGEST
from .file_access import FileAccess

PART = LARGEST - 10_000  #: bytes of a page in one datagram
PAGE = 4_000_000  #: bytes of entries after which a page ends


class Hint(Struct, frozen=True, tag=True):
    """The sender's outbox for the receiver ends with entry ``version``."""

    log: str
    version: int


class Read(Struct, frozen=True, tag=True):
    """A request for the entries after ``after``. ``number`` is repeated in the answer; ``part`` counts from 0. ``log``
    and ``sent`` are the reader's log, and the last entry of its own outbox for the receiver."""

    number: int
    after: int
    part: int
    log: str
    sent: int


class Page(Struct, frozen=True, tag=True):
    """A part of the answer to a `Read`: a piece of the encoded contents (`PageContents`)."""

    number: int
    part: int
    parts: int
    data: bytes
    check: int  #: identifies the page: all parts of one page have the same


Datagram = Hint | Read | Page
ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(Datagram).decode


class _Entry(Struct, frozen=True):
    version: int
    digest: str
    positions: tuple[int, ...]
    events: tuple[tuple[str, bytes], ...]


class PageContents(Struct, frozen=True):
    """A page of an outbox."""

    log: str  #: the id of the sender's log
    epoch: int
    base: tuple[int, str]  #: the version and digest of the entry before the page
    last: int  #: the version of the outbox's last entry
    entries: tuple[_Entry, ...]
    files: FileAccess | None = None  #: the access to the files of the jobs that the entries start

    @property
    def is_complete(self) -> bool:
        """True if the outbox had no further entries when the page was read."""
        return (self.entries[-1].version if self.entries else self.base[0]) >= self.last

    def stimulus(self, id: str, peer: str) -> Follow:
        """Return the stimulus with which the receiver decides the page. Raise the errors of the codec for events that
        cannot be decoded."""
        entries = []
        for entry in self.entries:
            rows = [
                (position, "", 0, topic, fields)
                for position, (topic, fields) in zip(entry.positions, entry.events, strict=True)
            ]
            events = tuple(CODEC.decode(rows, f"the log of {peer}"))
            entries.append(OutboxEntry(entry.version, entry.digest, entry.positions, events))
        return Follow(id, peer, self.log, self.epoch, self.base, self.last, tuple(entries))

    def starts(self) -> list[str]:
        """Return the keys of the runs that the entries start."""
        topic = TOPIC_OF[JobActivated]
        return [
            str(position)
            for entry in self.entries
            for position, (each, _) in zip(entry.positions, entry.events, strict=True)
            if each == topic
        ]


PACK = msgspec.msgpack.Encoder().encode
UNPACK = msgspec.msgpack.Decoder(PageContents).decode


def read_page(log: EventStore, state: LogState, peer: str, after: int) -> PageContents:
    """Return the page of the outbox for ``peer`` that begins after an entry."""
    outbox = state.peers.outboxes.get(peer, Outbox())
    last = len(outbox.positions)
    after = min(after, last)
    base = after, _digest(log, outbox, after)
    followed = state.peers.followed.get(peer)
    entries = tuple(_entries(log, state, peer, outbox, after, 0 if followed is None else followed.number))
    return PageContents(log.id, state.epoch, base, last, entries)


def _event_at(log: EventStore, position: int) -> Event:
    ((_, event),) = log.read(position - 1, 1)
    return event


def _digest(log: EventStore, outbox: Outbox, version: int) -> str:
    if version == len(outbox.positions):
        return outbox.digest
    return _event_at(log, outbox.positions[version - 1]).digest if version else ""  # type: ignore[attr-defined]


def _entries(log: EventStore, state: LogState, peer: str, outbox: Outbox, after: int, number: int) -> Iterator[_Entry]:
    (role,) = state.roles
    forms, size = FORMS[role, role_of(peer)], 0
    for version, position in enumerate(outbox.positions[after:], after + 1):
        sent = _event_at(log, position)
        positions: tuple[int, ...] = sent.positions  # type: ignore[attr-defined]
        between = dict(log.read(positions[0] - 1, positions[-1] - positions[0] + 1))
        sent_forms = [forms[type(between[each])](between[each], number) for each in positions]
        events = tuple(encoded(form) for form in sent_forms if form is not None)
        yield _Entry(version, sent.digest, positions, events)  # type: ignore[attr-defined]
        size += sum(len(fields) for _, fields in events)
        if size >= PAGE:
            return
