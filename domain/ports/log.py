"""The interface of a log, which stores events in the order in which they were appended.

A log has one **head**: the epoch of its writer, the position of its last event, and the digest of all events. Each
append compares the head with the writer's copy and replaces the head, in the same transaction that stores the events.
So appends by a superseded writer fail. Positions are numbered from 1 without gaps. When an append returns, its events
are durable; a failed append has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from ..errors import PoolbookError

if TYPE_CHECKING:
    from ..events import Event


class Head(NamedTuple):
    """The end of a log. ``digest`` is hexadecimal and covers all events up to the head. This module does not import the
    events, because short commands need only this class and the errors."""

    epoch: int
    position: int
    digest: str


ID_LENGTH: Final = 16  #: the number of hexadecimal digits of a log's id
_REFERENCE: Final = rf"([0-9a-f]{{{ID_LENGTH}}})-([1-9][0-9]*)"


class LogPosition(NamedTuple):
    """A reference to a log position from outside that log: ``3f2a9c01d4e5b678-37``. It can be used in file names."""

    log: str  #: the log's id
    position: int

    def __str__(self) -> str:
        return f"{self.log}-{self.position}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a reference. Raise ValueError if it is invalid."""
        match = re.fullmatch(_REFERENCE, text)
        if match is None:
            raise ValueError(
                f"{text!r} is not a reference to a log position; it needs an id of {ID_LENGTH} hexadecimal digits, "
                "a hyphen and a position (for example 3f2a9c01d4e5b678-37)"
            )
        return cls(match[1], int(match[2]))


class LogError(PoolbookError):
    """Base class of the errors about a log. The message names the log, the rule and the fix.

    >>> try:
    ...     Log.open("missing.db")
    ... except LogError as error:
    ...     print(error)
    there is no log at missing.db; check the name, or start one: `poolbook run job.sub -log missing.db`
    """


class Fenced(LogError):
    """Another process has appended to the log of this pool. Open the pool again.

    >>> try:
    ...     pool.advance(60)
    ... except Fenced:
    ...     pool = Pool.open(url)
    """


class LogUnavailable(LogError):
    """The log cannot be read or written: the disk is full, access is denied, or the server does not answer.

    >>> try:
    ...     jobs = log.jobs()
    ... except LogUnavailable as error:
    ...     print(f"try again later: {error}")
    """


class LogMissing(LogError):
    """There is no log called ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no log at {name}; check the name, or start one: `poolbook run job.sub -log {name}`")
        self.name = name


class LogDamaged(LogError):
    """The stored log differs from the events that were appended.

    >>> try:
    ...     events = list(log.events())
    ... except LogDamaged as error:
    ...     print(f"restore a backup: {error}")
    """


class LogNewer(LogError):
    """A later version of Poolbook wrote the log, and this version cannot read it.

    >>> try:
    ...     jobs = log.jobs()
    ... except LogNewer as error:
    ...     print(f"upgrade Poolbook: {error}")
    """


class AlreadyServed(LogError):
    """Another process serves or writes this log.

    >>> first = Pool.open("memory:shared")
    >>> Pool.open("memory:shared", wait=0)
    Traceback (most recent call last):
    AlreadyServed: ...
    """


class LogClosed(LogError):
    """This program called a method of a pool or log that it has closed.

    >>> pool.close()
    >>> pool.jobs()
    Traceback (most recent call last):
    LogClosed: the pool was closed: `Pool.open` opens its log again
    """


class EventStore(Protocol):
    """A store of events. Every implementation passes the same suite (``tests/stores``)."""

    @property
    def head(self) -> Head:
        """The head when this handle was opened, last appended, or was refreshed. Reads stop at this head."""

    @property
    def id(self) -> str:
        """Return the log's id, the same in every copy; empty if the log is empty. Raises the errors of ``read``."""

    def append(self, events: Sequence[Event], after: int | None = None) -> int:
        """Store all events durably, or none. Return the position of the last one.

        :param after: the position up to which the decision read the log; None: the events do not depend on earlier ones
        :raises Fenced: if the log does not end at ``after``
        """

    def read(self, after: int = 0, limit: int | None = None, size: int | None = None) -> Iterator[tuple[int, Event]]:
        """Yield the events after position ``after`` in order, each with its position.

        :param limit: the maximum number of events, or None for no limit
        :param size: stop soon after this many bytes of stored data, or None for no limit
        """

    def read_stream(self, stream: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield the events of one stream after position ``after``, in order, each with its position in the log."""

    def read_back(
        self, stream: str, before: int | None = None, kinds: Collection[type[Event]] = ()
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events of one stream before position ``before``, newest first, each with its position in the log.

        :param before: None: all events of the stream
        :param kinds: only events of these classes; empty: all
        """

    def raise_epoch(self, writer: str, at: int, stimulus: str) -> int:
        """Become the writer: append a ``WriterBegan`` with the next epoch, so that earlier writers' appends fail."""

    def refresh(self) -> Head:
        """Read the head again, in case another process changed it, and return it."""

    def position_at(self, at: int) -> int:
        """Return the position of the last event at or before an instant, in microseconds; 0 if the log starts later.
        This needs a log whose times never decrease: that of a pool. Raises the errors of ``read``."""

    def digest_at(self, position: int) -> str | None:
        """Return the digest of the append that ended at ``position``, or None if none did. Raises the errors of
        ``read``."""

    def close(self) -> None: ...
