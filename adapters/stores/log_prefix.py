"""A log as it was at an earlier position, for queries about the past."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import takewhile

from ...domain.events import Event
from ...domain.ports.log import EventStore, Head, LogUnavailable


class LogPrefix:
    """The first events of a log, read-only. It has the log's id; ``close`` closes the log."""

    def __init__(self, log: EventStore, position: int) -> None:
        self._log = log
        self.head = Head(log.head.epoch, position, log.digest_at(position) or "")

    @property
    def id(self) -> str:
        return self._log.id

    def append(self, events: Sequence[Event], after: int | None = None) -> int:
        raise LogUnavailable("the past of a log cannot be changed")

    def raise_epoch(self, writer: str, at: int, stimulus: str) -> int:
        raise LogUnavailable("the past of a log cannot be changed")

    def read(self, after: int = 0, limit: int | None = None, size: int | None = None) -> Iterator[tuple[int, Event]]:
        remaining = max(self.head.position - max(after, 0), 0)
        return self._log.read(after, remaining if limit is None else min(limit, remaining), size)

    def read_stream(self, stream: str, after: int = 0) -> Iterator[tuple[int, Event]]:
        return takewhile(lambda pair: pair[0] <= self.head.position, self._log.read_stream(stream, after))

    def read_back(
        self, stream: str, before: int | None = None, kinds: Collection[type[Event]] = ()
    ) -> Iterator[tuple[int, Event]]:
        end = self.head.position + 1
        return self._log.read_back(stream, end if before is None else min(before, end), kinds)

    def refresh(self) -> Head:
        return self.head

    def position_at(self, at: int) -> int:
        return min(self._log.position_at(at), self.head.position)

    def digest_at(self, position: int) -> str | None:
        return self._log.digest_at(position) if position <= self.head.position else None

    def close(self) -> None:
        self._log.close()
