"""The common base of `Pool` and `Log`: the events, and a lock that serializes their callers.

A call waits for earlier calls of other threads. Within a callback (`behave`, a subscriber) the same thread may call
again. Otherwise a second call of the same thread can only come from a signal handler, in the middle of a decision.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from functools import wraps
from itertools import islice
from threading import Event as Signal
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...domain.events import Event
from ...domain.ports.log import EventStore, LogClosed
from .python_values import instant_of, pauses, polls

if TYPE_CHECKING:
    from ..runtime.snapshot import PastSnapshots

R = TypeVar("R")
C = TypeVar("C", bound=type)

_AT_ONCE = 500  #: items of an iterator to read in one call


class CallLock:
    """A lock that serializes the calls of all threads."""

    def __init__(self) -> None:
        self.wake: Callable[[], object] = lambda: None  #: interrupts a call that waits for events from jobs or sensors
        self._line, self._lock = RLock(), RLock()
        self._in_call = False
        self._process = os.getpid()

    @property
    def is_inherited(self) -> bool:
        """Return True in a process that was forked after this lock was created."""
        return self._process != os.getpid()

    def __enter__(self) -> None:
        if self.is_inherited:
            raise LogClosed(
                f"process {self._process} opened this pool or log and then forked this one, which cannot use it; open "
                "the log again here (a pool: after that process has closed it)"
            )
        with self._line:  # a thread that calls repeatedly cannot overtake waiting ones
            if not self._lock.acquire(blocking=False):
                self.wake()
                self._lock.acquire()
        if self._in_call:
            self._lock.release()
            raise RuntimeError(
                "a signal handler cannot call a pool or log during another call of the same thread: set a flag in the "
                "handler, and make the call after the other one has returned"
            )
        self._in_call = True

    def __exit__(self, *_: object) -> None:
        self._in_call = False
        self._lock.release()

    @contextmanager
    def callback(self) -> Iterator[None]:
        """Let the same thread call again, within a callback of a call."""
        in_call, self._in_call = self._in_call, False
        try:
            yield
        finally:
            self._in_call = in_call

    def each(self, items: Iterator[R]) -> Iterator[R]:
        """Yield `items`. Each call reads many of them, so that the lock is not taken for each item."""

        def part() -> list[R]:
            with self:
                return list(islice(items, _AT_ONCE))

        while items_read := part():
            yield from items_read


def serialized(*others: str) -> Callable[[C], C]:
    """Make each public method and property of a class hold the lock `_calls`, except `others`, which take it
    themselves."""

    def decorate(kind: C) -> C:
        for name in dir(kind):
            member = inspect.getattr_static(kind, name)
            if name.startswith("_") or name in others:
                continue
            if isinstance(member, property) and member.fget is not None:
                setattr(kind, name, property(_locked(member.fget)))
            elif inspect.isfunction(member):
                setattr(kind, name, _locked(member))
        return kind

    return decorate


def _locked(method: Callable[..., R]) -> Callable[..., R]:
    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> R:
        with self._calls:
            return method(self, *args, **kwargs)

    call.__doc__ = inspect.getdoc(method)  # perhaps that of the overridden method
    return call


def stream_name(stream: str) -> str:
    """Return the name in the log of a stream that is named as in `poolbook log`. Raise `ValueError` if there is no such
    kind of stream, or this is a single job."""
    from ...replay.listing.members import parse_filter

    if not stream:
        return ""
    stream_filter = parse_filter(stream)
    if stream_filter.proc is not None:
        raise ValueError(
            f"{stream!r} is a single job; its events are in its cluster's stream: use {stream.partition('.')[0]!r}"
        )
    return stream_filter.stream


def job_name(thing: JobId) -> str:
    """Return the name of a job, cluster or slot."""
    return f"{thing[0]}.{thing[1]}" if isinstance(thing, tuple) else str(thing)


JobId = str | int | tuple[int, int]  #: a job ("12.3" or (12, 3)), a whole cluster ("12" or 12), or a user's name


class LogReader(ABC):
    """The queries that `Pool`, `Log` and `Client` have in common."""

    @abstractmethod
    def close(self) -> None:
        """Close the log or connection; later calls fail."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def jobs(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        """Return the ads of the jobs in the queue, as plain values, without undefined attributes; for an import, of the
        last recorded queue.

        >>> [(job["ProcId"], job["JobStatus"]) for job in log.jobs(at=1_800_000_030)]
        [(0, 2), (1, 2)]

        :param at: as of this instant, in seconds since the epoch; None: now, or for a `Log`, as of its end
        :raises ClassAdSyntaxError: the constraint is not a valid expression
        :raises NotKnown: the imported records do not include the queue at this instant
        :raises LogBeginsLater: the log begins after this instant
        """

    @abstractmethod
    def slots(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        """Return the ads of the slots, as in `poolbook status -long`.

        :param at: as of this instant, in seconds since the epoch; None: now, or for a `Log`, as of its end
        :raises ClassAdSyntaxError: the constraint is not a valid expression
        :raises LogBeginsLater: the log begins after this instant
        """

    @abstractmethod
    def history(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        """Return the ads of the jobs that have left the queue, the latest first.

        >>> [(job["ProcId"], job["ExitCode"]) for job in client.history("ExitCode == 0")]
        [(1, 0), (0, 0)]

        :param at: as of this instant, in seconds since the epoch; None: now, or for a `Log`, as of its end
        :raises ClassAdSyntaxError: the constraint is not a valid expression
        :raises LogBeginsLater: the log begins after this instant
        """

    @abstractmethod
    def events(self, after: int = 0, stream: str = "") -> Iterator[tuple[int, Event]]:
        """Yield the events of the log after a position, each with its position; `poolbook.events` has their classes.

        >>> [type(event).__name__ for position, event in log.events(stream="1")]
        ['ClusterSubmitted', 'JobActivated', ...]

        :param stream: only this stream, named as in `poolbook log`: a cluster (12), a slot (slot1@host),
            machine/NAME, submitter/NAME, pool, requests, negotiator, evidence, accountant ...
        :raises ValueError: unknown kind of stream, or a single job, which has no stream (its cluster has)
        """


class GrowingLog(LogReader):
    """A log that another process writes: the queries that `Log` and `Client` have in common."""

    @property
    @abstractmethod
    def position(self) -> int:
        """Return the position of the last event."""

    @abstractmethod
    def _new_events(self, reached: int, times: Iterator[None]) -> Iterator[tuple[int, Event]]:
        """Yield the events after a position and, at these times, newly appended events."""

    def follow(
        self,
        after: int | None = None,
        *,
        interval: float = 0.2,
        timeout: float | None = None,
        stop: Signal | None = None,
    ) -> Iterator[tuple[int, Event]]:
        """Yield the events after a position, each with its position, and then each new one, once another process has
        appended it.

        >>> for position, event in log.follow(after=0, timeout=0):
        ...     if isinstance(event, events.JobExited):
        ...         print(f"{event.cluster}.{event.proc} ended with code {event.code}")
        1.0 ended with code 0
        1.1 ended with code 0

        :param after: None: only events that are appended from this call on
        :param interval: the largest delay of an event, in seconds
        :param timeout: end after this many seconds (None: never)
        :param stop: end when another thread sets this
        :raises ValueError: `interval` or `timeout` is not a valid length of time
        """
        times = polls(pauses(interval, timeout), stop)
        return self._new_events(self.position if after is None else after, times)


class LogQueries(LogReader):
    """Queries about a log of events that this process can read."""

    _url = ""  #: the URL of a read-only log; a live pool checked its log when it opened it
    _calls: CallLock

    @property
    @abstractmethod
    def _log(self) -> EventStore:
        """Return the log, with a current head."""

    @property
    def _snapshots(self) -> PastSnapshots | None:
        """Return the snapshots of the pool's state in the past; None for a log that has no URL."""
        from ..runtime.snapshot import PastSnapshots

        return PastSnapshots(self._url) if self._url else None

    @property
    def id(self) -> str:
        """Return the log's id. A program that stores positions of several logs should store the id with each."""
        return self._log.id

    def events(self, after: int = 0, stream: str = "") -> Iterator[tuple[int, Event]]:
        name = stream_name(stream)
        return self._calls.each(self._log.read_stream(name, after) if name else self._log.read(after))

    def why(
        self, thing: JobId, at: float | None = None, *, verbose: bool = False, others: Sequence[str] = ()
    ) -> list[str]:
        """Explain in at most five lines why a job or slot is in its state: the state, its causes, possible actions.

        >>> log.why("1.0")[0]
        'Job 1.0 completed at ..., with code 0.'

        :param verbose: also return its history, with expressions, their values, and the positions of records
        :param at: as of this instant, in seconds since the epoch; None: as of the log's end
        :param others: the logs of other roles of the pool, whose records the history cites
        :raises UnknownThingError: the log has no such job or slot
        :raises ValueError: the name is neither a job's nor a slot's, or `at` is not a valid instant
        """
        from ..runtime.queries import Queries

        with Queries(self._url, self._log) as queries:
            answer = queries.why(job_name(thing), None if at is None else instant_of(at, "at"), UTC, others)
        return answer.texts + [sentence.full for sentence in answer.life if verbose]
