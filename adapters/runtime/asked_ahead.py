"""Requests whose constraints jobs have to be asked one by one: that is done little by little, between other requests.

The columnar engine selects among a million jobs at once. What it cannot evaluate (``eval``, ``unresolved``) takes long
enough that other clients would notice. Such a request is decided when all its jobs have been asked, at one instant
like any other. Jobs to which something happened meanwhile are asked again then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from attrs import define, field

from ...domain.events import Event
from ...domain.schedd.constraints import AskedAhead, AskFirst, Patience
from ...domain.state.job_procs import job_procs

MOST = 1000
"""Jobs that a decision asks one by one: some 30 ms."""
TURN = 0.03
"""Seconds until other requests have a turn."""
ROUNDS = 5
"""How often jobs that have changed are asked ahead of the decision again: a pool that changes faster waits."""
Request = TypeVar("Request")


@define
class Waiting(Generic[Request]):
    """A request that waits until its jobs have been asked."""

    request: Request
    ahead: AskedAhead
    asking: Iterator[None]
    rounds: int = 1  #: how often jobs were asked ahead of its decision

    @property
    def patience(self) -> Patience:
        """What its decision is to know."""
        return Patience(MOST if self.rounds < ROUNDS else None, self.ahead)


@define
class RequestsAhead(Generic[Request]):
    """The requests that wait until their jobs have been asked. They have turns, one after the other."""

    _waiting: deque[Waiting[Request]] = field(factory=deque)
    _asked: deque[Waiting[Request]] = field(factory=deque)

    def __bool__(self) -> bool:
        return bool(self._waiting or self._asked)

    def put(self, request: Request, first: AskFirst, before: Waiting[Request] | None = None) -> None:
        """Let this request wait: its decision found that its jobs are to be asked first. With ``before``, it has waited
        already, and so many jobs have changed meanwhile that they are asked ahead, too."""
        ahead, rounds = (AskedAhead(first.context), 0) if before is None else (before.ahead, before.rounds)
        self._waiting.append(Waiting(request, ahead, ahead.ask(first), rounds + 1))

    def go_on(self) -> None:
        """Ask jobs for a turn of the next request."""
        if not self._waiting:
            return
        waiting = self._waiting.popleft()
        until = time.monotonic() + TURN
        for _ in waiting.asking:
            if time.monotonic() > until:
                self._waiting.append(waiting)
                return
        self._asked.append(waiting)

    def follow(self, events: Sequence[Event]) -> None:
        """These events have happened: what their jobs have said does not count any more."""
        for event in events if self else ():
            found = job_procs(event)
            if found is not None:
                for waiting in (*self._waiting, *self._asked):
                    waiting.ahead.forget(*found)

    def ready(self) -> Waiting[Request] | None:
        """Return the next request that can be decided."""
        return self._asked.popleft() if self._asked else None
