"""What the pool asks of a log: the one place where events are kept, in the order in which they were appended.

A log has one **head**: the epoch of its writer, the position of its last event, and the digest of all that was ever
appended. Each append compares the head with the writer's own and replaces it, in the transaction that stores the
events: a writer that has been overtaken fails, whatever streams it writes to, and changes nothing. Positions count from
1 without a gap. An append is durable when the call returns, or nothing happened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from ..errors import PoolbookError

if TYPE_CHECKING:
    from ..events import Event


class Head(NamedTuple):
    """Where a log ends. ``digest`` is hexadecimal and covers every event before it. (A tuple, and the events are not
    imported here: a short command asks for no more than this and the errors.)"""

    epoch: int
    position: int
    digest: str


ID_LENGTH: Final = 16  #: hexadecimal digits of a log's id
_REFERENCE: Final = re.compile(rf"([0-9a-f]{{{ID_LENGTH}}})-([1-9][0-9]*)", re.ASCII)


class LogPosition(NamedTuple):
    """A position of a log, as everything outside of that log refers to it: ``3f2a9c01d4e5b678-37``. Within the log the
    position alone is enough. (The text can be a part of a file's name.)"""

    log: str  #: the log's id
    position: int

    def __str__(self) -> str:
        return f"{self.log}-{self.position}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what ``str`` has made of a reference. Raise ValueError for any other text."""
        found = _REFERENCE.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is not a reference to a log's position: it needs an id of {ID_LENGTH} hexadecimal digits, "
                "a hyphen and a position (for example 3f2a9c01d4e5b678-37)"
            )
        return cls(found[1], int(found[2]))


class LogError(PoolbookError):
    """Something about a log that its user has to know; the text names the log, the rule and the way out."""


class Fenced(LogError):
    """Another writer has appended since this one read the head: this one must stop, or read on and decide anew."""


class LogUnavailable(LogError):
    """The log could not be read or written: a full disk, missing rights, a server that does not answer."""


class LogMissing(LogError):
    """There is no log where one was looked for; ``name`` is how that was called."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"there is no log at {name}; look at the name, or start one: `poolbook run job.sub -log {name}`"
        )
        self.name = name


class LogDamaged(LogError):
    """What is stored is not what was appended."""


class LogNewer(LogError):
    """The log was written by a later version of Poolbook, and holds what this one does not know."""


class AlreadyServed(LogError):
    """Another process serves this log, or is writing it."""


class LogClosed(LogError):
    """The pool or log was closed by this program, which goes on asking it."""


class EventStore(Protocol):
    """A store of events. Every implementation passes the same suite (``tests/stores``)."""

    @property
    def head(self) -> Head:
        """The head as this handle knows it: of its opening, its last append or refresh. Reading goes as far as it."""

    @property
    def id(self) -> str:
        """The log's id, the same in every copy of the log; empty as long as the log is. Raises as `read`."""

    def append(self, events: Sequence[Event], after: int | None = None) -> int:
        """Store all of `events` or none, durably; return the position of the last. Raises `LogError`: `Fenced` unless
        the log ends at `after`, the position that they were decided on (None: they depend on no earlier event)."""

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Event]]:
        """The events behind position `after`, in order, each with its position."""

    def read_stream(self, stream: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        """The events of one stream behind position `after`, in order, each with its position in the log."""

    def raise_epoch(self, writer: str, at: int, stimulus: str) -> int:
        """Become the writer: append a `WriterBegan` with the next epoch, so that every earlier writer fails."""

    def refresh(self) -> Head:
        """Read the head anew, as another process may have moved it."""

    def digest_at(self, position: int) -> str | None:
        """Return the digest of the append that ended at `position`; None if none did. Raises as `read`."""

    def close(self) -> None: ...
