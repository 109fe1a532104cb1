"""Handle slow requests of a server without delaying other clients.

Submit files are read in threads. The client itself reads slow sources, and sources that the server must not read: files
that are long or not regular (a pipe, the client's standard input), and the output of programs that a configuration or a
submit file runs.

A constraint is evaluated job by job, between other requests, if the columnar engine cannot evaluate it (``eval``,
``unresolved``) for all jobs together. The request is decided when all its jobs are evaluated, at one instant like any
other. Jobs that changed meanwhile are evaluated again.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from attrs import define, field

from ...domain.config import ConfigError
from ...domain.events import Event
from ...domain.schedd.constraints import EvaluationBudget, NeedsPreEvaluation, SlowConstraint
from ...domain.state.job_procs import job_procs
from ...domain.submit import SubmitError
from .disk import Disk
from .requests import LONGEST_DESCRIPTION, RequestRefused, SubmitDescription, SubmitTerms
from .submit_request import ReadDescription, Reading

MOST_AT_ONCE = 4  #: maximum number of submit files read at a time; other clients read their own


class LeftToClientError(Exception):
    """The client must read its submit file itself."""


class FinishedReading(NamedTuple):
    """The result of reading a submit file, which is a request or a reply to the client."""

    client: Any
    description: ReadDescription | None
    reply: dict[str, Any]


class DescriptionReader:
    """Reads submit files. Calls `wake`, in another thread, when a file has been read."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._reading = 0
        self._finished: deque[FinishedReading] = deque()

    def start_reading(self, client: Any, description: SubmitDescription, terms: SubmitTerms) -> bool:
        """Start reading a submit file for `client`; return False if too many are being read."""
        if self._reading == MOST_AT_ONCE:
            return False
        self._reading += 1
        Thread(target=self._read, args=(client, description, terms), daemon=True).start()
        return True

    def finished(self) -> list[FinishedReading]:
        """Return the submit files that have been read since the last call."""
        readings = [self._finished.popleft() for _ in range(len(self._finished))]
        self._reading -= len(readings)
        return readings

    def _read(self, client: Any, description: SubmitDescription, terms: SubmitTerms) -> None:
        self._finished.append(_read(client, description, terms))
        self._wake()


def _read(client: Any, description: SubmitDescription, terms: SubmitTerms) -> FinishedReading:
    reading = Reading(description, _ShortDisk(Path(description.folder)))
    try:
        settings, _ = reading.user_settings()  # the server has printed its warnings
        return FinishedReading(client, reading.request(terms, settings), {})
    except RequestRefused as error:
        return FinishedReading(client, None, error.as_answer())
    except SubmitError as error:
        return FinishedReading(client, None, RequestRefused(str(error), (), error.code, error.tool).as_answer())
    except ConfigError as error:
        return FinishedReading(client, None, {"refusal": str(error)})
    except Exception:  # also a bug here, which the client then reports
        return FinishedReading(client, None, left_to_client(terms))


def left_to_client(terms: SubmitTerms) -> dict[str, Any]:
    """Return the reply that makes the client read its submit file itself."""
    return {"answer": {"terms": terms._asdict()}}


class _ShortDisk(Disk):
    """The files that a server reads for a client."""

    def read(self, path: str) -> str:
        _check_short(self.folder / path)
        return super().read(path)

    def run(self, command: str) -> NoReturn:
        raise LeftToClientError(command)

    def write(self, path: str, text: str) -> NoReturn:
        raise LeftToClientError(path)

    def standard_input(self) -> NoReturn:
        raise LeftToClientError("-")


def _check_short(path: Path) -> None:
    """Raise `LeftToClientError` for a file that is long, not regular, or relative to the process (/proc/self/fd/3), and
    `OSError` if it does not exist."""
    status = os.stat(path)
    is_special = os.path.realpath(path).startswith(("/proc/", "/dev/")) or str(path).startswith(("/proc/", "/dev/"))
    if is_special or not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST_DESCRIPTION:
        raise LeftToClientError(str(path))


MAX_JOBS = 1000
"""The maximum number of jobs that a decision evaluates one by one. This takes about 30 ms."""
TURN = 0.03
"""The length of a turn in seconds."""
MAX_ROUNDS = 5
"""How often changed jobs are evaluated again before the decision, which may then block other requests."""
Request = TypeVar("Request")


@define
class WaitingRequest(Generic[Request]):
    """A request that waits until its jobs have been evaluated."""

    request: Request
    constraint: SlowConstraint
    evaluation: Iterator[None]
    rounds: int = 1  #: the number of evaluations of its jobs before its decision

    @property
    def budget(self) -> EvaluationBudget:
        """Return the budget for deciding the request, with the results of the evaluation so far."""
        return EvaluationBudget(MAX_JOBS if self.rounds < MAX_ROUNDS else None, self.constraint)


@define
class EvaluationQueue(Generic[Request]):
    """Requests that take turns while their jobs are being evaluated."""

    _waiting: deque[WaitingRequest[Request]] = field(factory=deque)
    _evaluated: deque[WaitingRequest[Request]] = field(factory=deque)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._evaluated)

    def put(self, request: Request, first: NeedsPreEvaluation, before: WaitingRequest[Request] | None = None) -> None:
        """Queue a request whose jobs must be evaluated first. With ``before``, the request has already waited, but so
        many jobs have changed meanwhile that they must be evaluated again."""
        constraint = SlowConstraint(first.context) if before is None else before.constraint
        rounds = 1 if before is None else before.rounds + 1
        self._waiting.append(WaitingRequest(request, constraint, constraint.evaluate(first), rounds))

    def evaluate_next(self) -> None:
        """Evaluate jobs of the next request for the duration of a turn."""
        if not self._waiting:
            return
        waiting = self._waiting.popleft()
        until = time.monotonic() + TURN
        for _ in waiting.evaluation:
            if time.monotonic() > until:
                self._waiting.append(waiting)
                return
        self._evaluated.append(waiting)

    def discard_changed(self, events: Sequence[Event]) -> None:
        """Discard the results of jobs that these events have changed."""
        for event in events if self else ():
            changed = job_procs(event)
            if changed is not None:
                for waiting in (*self._waiting, *self._evaluated):
                    waiting.constraint.discard(*changed)

    def next_ready(self) -> WaitingRequest[Request] | None:
        """Return the next request that can be decided."""
        return self._evaluated.popleft() if self._evaluated else None
