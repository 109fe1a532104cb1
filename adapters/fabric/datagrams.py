"""The datagrams between roles, and the pages of outboxes that they carry.

A receiver asks for the next page of the outbox that a peer keeps for it (`Read`), and receives it in one or several
parts (`Page`), because a datagram is small. A `Hint` only means that asking is worthwhile, and that its sender runs.
Any datagram may be lost or arrive twice: the receiver asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from ...domain.events import JobActivated, Sent
from ...domain.events.base import TOPIC_OF
from ...domain.peers.sent_forms import FORMS, encoded
from ...domain.ports.log import EventStore
from ...domain.ports.stimuli import Follow, OutboxEntry
from ...domain.state.peers import Outbox, outbox_of, role_of
from ...domain.state.state import LogState
from ..stores.codec import CODEC
from .carrier import LARGEST

PART = LARGEST - 10_000  #: bytes of a page in one datagram
PAGE = 4_000_000  #: bytes of entries after which a page ends


class Hint(Struct, frozen=True, tag=True):
    """The sender's outbox for the receiver ends with entry ``version``."""

    log: str
    version: int


class Read(Struct, frozen=True, tag=True):
    """A request for the entries after ``after``. ``number`` is repeated in the answer; ``part`` counts from 0. ``log``
    and ``sent`` are the reader's log, and the last entry in its outbox for the receiver."""

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


class Message(Struct, frozen=True, tag=True):
    """A small message from one manager to another, outside the outboxes: it is in no log, and may be lost."""

    data: bytes


Datagram = Hint | Read | Page | Message
ENCODE = msgspec.msgpack.Encoder().encode
DECODE = msgspec.msgpack.Decoder(Datagram).decode


class FileAccess(Struct, frozen=True):
    """How an execution point accesses the files of some runs at their access point. The keys are in no log."""

    urls: tuple[str, ...]  #: the base URLs, to try in order
    ca: str  #: the certificates (PEM) that certify their hosts
    keys: dict[str, tuple[str, str]]  #: by the run's key: its name at the access point, and its transfer key
    datagram_key: str  #: authorizes the execution point to exchange datagrams there: see ``second_path``


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
    name = outbox_of(peer)
    outbox = state.peers.outboxes.get(name, Outbox())
    after = min(after, outbox.version)
    digest, sent = outbox.digest, iter(list[Sent]())
    if after < outbox.version:
        sent = _sent_from(log, outbox, name, max(after, 1))
        digest = next(sent).digest if after else ""
    return PageContents(log.id, state.epoch, (after, digest), outbox.version, tuple(_entries(log, state, peer, sent)))


def _sent_from(log: EventStore, outbox: Outbox, name: str, version: int) -> Iterator[Sent]:
    """Yield the entries of an outbox, beginning with an entry. Entries at unknown positions are found by reading
    the log; a store would have to read the whole stream of the peer to begin in its middle."""
    first_known = outbox.version - len(outbox.last) + 1
    for _, event in log.read(outbox.position_before(version) - 1) if version < first_known else ():
        if isinstance(event, Sent) and event.peer == name and event.version >= version:
            if event.version == first_known:
                break
            yield event
    for position in outbox.last[max(0, version - first_known) :]:
        ((_, event),) = log.read(position - 1, 1)
        assert isinstance(event, Sent), "an entry is at the position that the outbox has"
        yield event


def _entries(log: EventStore, state: LogState, peer: str, outbox: Iterable[Sent]) -> Iterator[_Entry]:
    (role,) = state.roles
    forms, size = FORMS[role, role_of(peer)], 0
    followed = state.peers.followed.get(peer)
    number = 0 if followed is None else followed.number
    for sent in outbox:
        first, last = sent.positions[0], sent.positions[-1]
        between = dict(log.read(first - 1, last - first + 1))
        sent_forms = [forms[type(between[each])](between[each], number) for each in sent.positions]
        events = tuple(encoded(form) for form in sent_forms if form is not None)
        yield _Entry(sent.version, sent.digest, sent.positions, events)
        size += sum(len(fields) for _, fields in events)
        if size >= PAGE:
            return
