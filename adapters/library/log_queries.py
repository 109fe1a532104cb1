"""The common base of `Pool` and `Log`: the events, and the answers that derive from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC
from typing import Self

from ...domain.events import Event
from ...domain.ports.log import Log
from .call_lock import CallLock

JobId = str | int | tuple[int, int]  #: a job ("12.3" or (12, 3)), a whole cluster ("12" or 12), or a user's name


class LogQueries(ABC):
    """Questions about a log of events."""

    _url = ""  #: of a log that is only read; a live pool has checked its log when it opened it
    _calls: CallLock

    @property
    @abstractmethod
    def _log(self) -> Log:
        """Return the log, whose head is known."""

    @abstractmethod
    def close(self) -> None:
        """Close the log; later calls fail."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def events(self, after: int = 0, stream: str = "") -> Iterator[tuple[int, Event]]:
        """Yield the events of the log behind a position, each with its own; `poolbook.events` has their classes.

        :param stream: only of one stream, as `poolbook log` names it: a cluster (12), a slot (slot1@host),
            machine/NAME, submitter/NAME, pool, requests, negotiator, evidence, accountant ...
        :raises ValueError: there is no such kind of stream, or it is a job's, whose events are its cluster's
        """
        from ...replay.listing import wanted

        if not stream:
            return self._calls.each(self._log.read(after))
        what = wanted(stream)
        if what.proc is not None:
            raise ValueError(
                f"{stream!r} is a job, and the events are its cluster's: ask for {stream.partition('.')[0]!r}"
            )
        return self._calls.each(self._log.read_stream(what.stream, after))

    def why(self, thing: JobId, at: float | None = None, *, verbose: bool = False) -> list[str]:
        """Return why a job or slot is in its state, in at most five lines: the state, its causes, what can be done.

        :param verbose: also return its whole life, with expressions, their values, and the places of records
        :param at: as of this instant, in seconds since the epoch; None: as of the log's end
        :raises UnknownThingError: the log knows no such job or slot
        :raises ValueError: the name is neither a job's nor a slot's, or `at` is no instant
        """
        from ..runtime.queries import Queries
        from .python_values import instant_of

        name = f"{thing[0]}.{thing[1]}" if isinstance(thing, tuple) else str(thing)
        with Queries(self._url, self._log) as queries:
            found = queries.why(name, None if at is None else instant_of(at, "at"), UTC)
        return found.texts + [sentence.full for sentence in found.life if verbose]
