"""A client of a running pool: ``from poolbook import Client``."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from threading import Event as Signal
from typing import TYPE_CHECKING, Any

import msgspec

from ...domain.events import Event
from ...domain.negotiator.accounting import Standing
from ...domain.ports import stimuli as s
from ...domain.state.job_ad import quoted
from ...domain.submit import SubmitWarning
from ..runtime.job_output import STREAM_ATTRIBUTES
from ..runtime.requests import SubmitTerms, new_id
from ..stores.location import safe_url
from .job_changes import left_queue
from .local_pool import LocalPool
from .log_base import CallLock, GrowingLog, JobId
from .pool_commands import PoolCommands, job_number, selection
from .python_values import seconds_of
from .submissions import Submission, submission_request

if TYPE_CHECKING:
    from .http_pool import HttpPool


class Client(PoolCommands, GrowingLog):
    """A client of a pool that another process runs. It has the methods of `Pool`, with the same results and errors.

    >>> with Client("pool.db") as client:
    ...     client.submit({"executable": "/bin/work", "request_memory": "2 GB"}, count=2)
    ...     [(job["ProcId"], job["JobStatus"]) for job in client.jobs()]
    ...     len(client.remove("2"))
    2
    [(0, 1), (1, 1)]
    1

    The client acts as the user of this process or, with a token, of the token. A method's ``user`` names another one,
    for whom only the user who runs the pool may act, and only by the log. If no server serves the log, each command
    writes it.

    Any thread may call any method. Only one thread at a time may use an iterator.
    """

    _user = _administrator = ""  #: the pool determines the user

    def __init__(self, url: str | os.PathLike[str], *, token: str = "", ca: str | os.PathLike[str] = "") -> None:
        """
        :param url: the pool's log (a path, ``sqlite:///x.db`` or ``postgresql://...``), or its HTTP service:
            ``http://127.0.0.1:8080`` or ``https://host:port``
        :param token: for HTTPS, the text of a token of the pool (`poolbook token create`)
        :param ca: for HTTPS, the file with the certificate of the pool's authority, if this machine does not trust it
        :raises LogError: there is no log, it cannot be read, or httpx is not installed
        :raises ValueError: `token` or `ca` is given without HTTP
        """
        self.url = os.fspath(url)
        self._pool: LocalPool | HttpPool
        if self.url.startswith(("http://", "https://")):
            from .http_pool import HttpPool

            self._pool = HttpPool(self.url, token, os.fspath(ca))
        elif token or ca:
            raise ValueError(f"{safe_url(self.url)} is a log, for which a client needs neither token nor ca; omit them")
        else:
            self._pool = LocalPool.open(self.url)

    @property
    def _calls(self) -> CallLock:
        return self._pool._calls

    def close(self) -> None:
        """Close the connection; later calls fail."""
        self._pool.close()

    def _ask(self, stimulus: s.Stimulus) -> Any:
        request = {"kind": type(stimulus).__name__, **msgspec.to_builtins(stimulus)}
        user = request.pop("user", "")
        if user and user != self._pool.user:
            request["on_behalf"] = user
        return self._pool.ask(request)

    def _new_id(self, command: str) -> str:
        return new_id()

    def _is_queued(self, jobs: Sequence[tuple[int, int | None]]) -> Sequence[bool]:
        if len(jobs) < 2:  # the pool's answer shows whether the queue contains it
            return [True] * len(jobs)
        queued = self._queued(
            s.Selection(jobs=tuple((cluster, -1 if proc is None else proc) for cluster, proc in jobs))
        )
        names = queued | {(cluster, None) for cluster, _ in queued}
        return [job in names for job in jobs]

    def _queued(self, selected: s.Selection) -> set[tuple[int, int | None]]:
        """Return the ids of the selected jobs in the queue."""
        terms = [f"ClusterId == {cluster}" for cluster in selected.clusters]
        terms += [f"ClusterId == {cluster} && ProcId == {proc}" for cluster, proc in selected.jobs]
        terms += [f"Owner == {quoted(owner)}" for owner in selected.owners]
        condition = " || ".join(f"({term})" for term in terms)
        parts = [f"({part})" for part in (condition, selected.constraint) if part]
        return {(job["ClusterId"], job["ProcId"]) for job in self.jobs(" && ".join(parts))}

    @property
    def id(self) -> str:
        """Return the id of the pool's log. A program that stores positions should store the id with each."""
        return self._pool.id

    @property
    def position(self) -> int:
        """Return the position of the last event."""
        return self._pool.position

    def _submit(self, submission: Submission) -> dict[str, Any]:
        submission.user = submission.user or self._pool.user
        terms = SubmitTerms(**self._pool.ask({"kind": "ReserveCluster"}))
        request, texts = submission_request(submission, terms, new_id(), int(time.time()))
        for text in texts:
            warnings.warn(text, SubmitWarning, stacklevel=3)
        return dict(self._ask(request))

    def negotiate(self, *, negotiator: str = "") -> None:
        """Start a negotiation cycle as soon as NEGOTIATOR_CYCLE_DELAY allows.

        :param negotiator: the negotiator, if the pool has several
        """
        self._pool.ask({"kind": "Reschedule", "name": negotiator})

    def jobs(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        return self._pool.jobs(constraint, at=at)

    def slots(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        return self._pool.slots(constraint, at=at)

    def history(self, constraint: str = "", *, at: float | None = None) -> list[dict[str, Any]]:
        return self._pool.history(constraint, at=at)

    def submitters(self, *, negotiator: str = "", at: float | None = None) -> list[Standing]:
        return self._pool.standings(negotiator, at)

    def usage(self) -> dict[str, float]:
        return self._pool.usage_of_claims()

    def why(self, thing: JobId, at: float | None = None, *, verbose: bool = False) -> list[str]:
        """Explain in at most five lines why a job or slot is in its state: the state, its causes, possible actions.

        >>> client.why("1.0")[0]
        'Job 1.0 completed at ..., with code 0.'

        :param verbose: also return its history, with expressions, their values, and the positions of records
        :param at: as of this instant, in seconds since the epoch; None: as of the log's end
        :raises UnknownThingError: the log has no such job or slot
        :raises ValueError: the name is neither a job's nor a slot's, or `at` is not a valid instant
        """
        return self._pool.why(thing, at, verbose=verbose)

    def output(self, job: JobId, stream: str = "stdout") -> str:
        """Return what a job has written so far: its `stdout` or `stderr`. Bytes that are not UTF-8 are replaced.

        >>> client.output("1.0")
        ''

        :raises UnknownThingError: the log has no such job, or its file does not exist
        :raises ValueError: `job` is not a single job, or the stream is unknown
        """
        if stream not in STREAM_ATTRIBUTES:
            raise ValueError(f"{stream!r} is not a stream of a job; use one of {', '.join(STREAM_ATTRIBUTES)}")
        return self._pool.output(job_number(job), stream).decode(errors="replace")

    def events(self, after: int = 0, stream: str = "") -> Iterator[tuple[int, Event]]:
        return self._pool.events(after, stream)

    def _new_events(self, reached: int, times: Iterator[None]) -> Iterator[tuple[int, Event]]:
        return self._pool._new_events(reached, times)

    def wait(
        self, *jobs: JobId, constraint: str = "", timeout: float | None = None, stop: Signal | None = None
    ) -> bool:
        """Wait until the queue contains none of these jobs. Return False if `timeout` seconds were not enough, or
        another thread has set `stop`. Jobs on hold are in the queue.

        >>> client.wait("1")
        True

        :raises ValueError: no job and no constraint is given, or `timeout` is not a valid length of time
        """
        selected = selection(jobs, constraint)
        end = None if timeout is None else time.monotonic() + seconds_of(timeout, "timeout")
        while True:
            position = self.position
            remaining = self._queued(selected)
            if not remaining:
                return True
            patience = None if end is None else max(0.0, end - time.monotonic())
            for _, event in self.follow(position, timeout=patience, stop=stop):
                remaining.difference_update(left_queue(event))
                if not remaining:
                    break
            else:
                return False
