"""A read-only log in a program: ``from poolbook import Log``.

The log was written by Poolbook or imported, and may be served by a pool at the same time. The methods return the same
answers as the commands `q`, `status`, `history`, `userprio`, `usage`, `why`, `verify` and `audit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from ...domain.events import Event
from ...domain.negotiator.accounting import Standing
from ...domain.ports.log import EventStore as Store
from ...domain.ports.log import LogClosed, LogError
from ...domain.state.state import State
from ...projections.imported_ads import Spent
from ...replay.audit_result import Audit
from ...replay.forensics.imported_log import is_imported
from ...replay.moments.changes import Change
from ..runtime.compare_times import changes_between
from ..runtime.log_verification import Verification
from ..runtime.queries import Queries
from ..runtime.segments import Workers, map_log
from ..stores.location import safe_url
from ..stores.opening import open_log
from .log_base import CallLock, GrowingLog, LogQueries, serialized
from .python_values import instant_of, plain_ads

R = TypeVar("R")


@serialized("close", "follow")
class Log(LogQueries, GrowingLog):
    """A log, read-only. Open it with `Log.open`, use it as a context manager or `close` it.

    >>> with Log.open("pool.db") as log:
    ...     print([(job["ProcId"], job["ExitCode"]) for job in log.history()], log.why("1.0")[0])
    [(1, 0), (0, 0)] Job 1.0 completed at ..., with code 0.

    Any thread may call any method; calls are serialized (while `follow` waits, others can run). Only one thread at a
    time may use an iterator. A process that was forked after `open` must open the log again.
    """

    url: str
    _store: Store | None

    def __init__(self) -> None:
        raise TypeError("`Log.open` opens a log")

    @classmethod
    def open(cls, url: str | os.PathLike[str]) -> Self:
        """Open the log at `url`, also an imported one. It is never written, and may be served meanwhile.

        :param url: a file's path, ``sqlite:///x.db``, ``postgresql://...`` or ``memory:NAME``
        :raises LogError: there is no log, or it cannot be read
        """
        place = os.fspath(url)
        if os.path.isdir(place):
            raise LogError(f"{place} is a folder: `poolbook.import_pool({place!r}, 'audit.db')` converts it to a log")
        log = cls.__new__(cls)
        log.url = log._url = place
        log._calls, log._store = CallLock(), open_log(place, create=False, read_only=True)
        return log

    def close(self) -> None:
        """Close the log; later calls fail."""
        if self._calls.is_inherited:
            return
        with self._calls:
            if self._store is not None:
                self._store.close()
                self._store = None

    def _open_store(self) -> Store:
        if self._store is None:
            raise LogClosed(f"{safe_url(self.url)} was closed: `Log.open` opens it again")
        return self._store

    @property
    def _log(self) -> Store:
        store = self._open_store()
        store.refresh()
        return store

    def _queries(self, at: float | None = None) -> Queries:
        return Queries(self.url, self._log, None if at is None else instant_of(at, "at"))

    @property
    def imported(self) -> bool:
        """Return True if the log was imported from an HTCondor pool's records, and False if Poolbook wrote it."""
        return is_imported(self._log)

    @property
    def position(self) -> int:
        """Return the position of the last event."""
        return self._log.head.position

    def jobs(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        with self._queries(at) as queries:
            queue = queries.queue()
            return plain_ads(queue.ads, constraint, queue.at if queries.at is None else queries.at)

    def slots(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        with self._queries(at) as queries:
            now = queries.views.at if queries.at is None else queries.at
            return plain_ads(queries.slots(now // 1_000_000), constraint, now)

    def history(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        with self._queries(at) as queries:
            return plain_ads(queries.history(), constraint, queries.views.at if queries.at is None else queries.at)

    def submitters(self, *, at: float | None = None) -> list[Standing]:
        """Return, by name, the standings of submitters who have jobs or had slots: priorities, usage and settings. For
        an import: as the accountant wrote or condor_userprio printed them.

        :param at: as of this instant, in seconds since the epoch; None: as of the log's last event
        :raises NotKnown: the imported records do not include priorities at this instant
        :raises LogBeginsLater: the log begins after this instant
        """
        with self._queries(at) as queries:
            return queries.standings()

    def diff(self, since: float, until: float | None = None) -> list[Change]:
        """Return what changed between two instants, in seconds since the epoch, as in `poolbook diff`.

        >>> [(change.thing, change.what, change.after) for change in log.diff(1_800_000_000) if change.kind == "job"]
        [('1.0', 'completed', 'Completed'), ('1.1', 'completed', 'Completed')]

        :param until: None: the log's end
        :raises ValueError: an instant is not valid
        :raises LogBeginsLater: the log begins after an instant
        """
        with self._queries(since) as earlier, self._queries(until) as later:
            return changes_between(earlier, later)

    def usage(self, by: str = "user") -> list[Spent]:
        """Return the usage of the jobs that have left the queue, as in `poolbook usage`, in microseconds.

        >>> [(usage.name, usage.jobs, usage.wall // 1_000_000) for usage in log.usage(by="user")]
        [('alice@example.org', 2, 1200)]

        :param by: user, group or cluster
        :raises ValueError: `by` is invalid
        """
        with self._queries() as queries:
            return queries.usage(by)

    def verify(self, decisions: bool = False, *, workers: int = 0, scheduler: str = "") -> Verification:
        """Check that the log is unaltered and, if Poolbook wrote it, that every transition is legal.

        >>> log.verify().sound
        True

        :param decisions: also repeat the decisions of every negotiation cycle, and compare the results with the log
        :param workers: the number of processes that check parts of the log in parallel, with Dask; 0: this one
        :param scheduler: the address of a Dask scheduler whose workers do this instead
        :raises ParallelReplayError: Dask is not installed, or the scheduler does not answer
        """
        return self._queries().verify(decisions, workers=workers, scheduler=scheduler)

    def map_segments(
        self, function: Callable[[State, Iterator[tuple[int, Event]]], R], *, workers: int = 0, scheduler: str = ""
    ) -> list[R]:
        """Divide a pool's own log into segments of about 50,000 events, and return the value of a function for each
        segment, in order. The segments do not depend on the number of workers.

        >>> def count_ends(state, segment):
        ...     return sum(isinstance(event, events.JobExited) for position, event in segment)
        >>> sum(log.map_segments(count_ends))
        2

        :param function: gets the state before a segment, which it may change, and its events with their positions
        :param workers: the number of processes, started with Dask; 0: this one
        :param scheduler: the address of a Dask scheduler whose workers call the function instead; they must be able to
            read the log at its URL
        :raises LogError: the log was imported
        :raises ParallelReplayError: Dask is not installed, or the scheduler does not answer
        """
        if is_imported(self._log):
            raise LogError(f"{safe_url(self.url)} was imported, so it has no states; use `poolbook.replay.Replay`")
        return map_log(self._log, self.url, function, Workers(workers, scheduler))

    def audit(self, *others: str) -> Audit:
        """Audit the log: check its events against the rules, and compare its sources. Each finding contains its file
        and line or, in a log that Poolbook wrote, its position.

        :param others: the logs of other roles of the same pool, with which this log is compared

        >>> for finding in log.audit().violations:
        ...     print(finding.file, finding.line, finding.thing, finding.words)
        """
        return self._queries().audit_with(others)[0] if others else self._queries().audit()

    def _new_events(self, reached: int, times: Iterator[None]) -> Iterator[tuple[int, Event]]:
        for _ in times:
            for position, event in self.events(reached):
                reached = position
                yield position, event
