"""Serialize the callers of a `Pool` or `Log`: each public call holds its `CallLock`.

A call waits for those of other threads, in turn. Within a callback (`behave`, a subscriber) the same thread may call
again. Elsewhere a second call of the same thread comes from a signal handler, in the middle of a decision.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from threading import RLock
from typing import Any, TypeVar

from ...domain.ports.log import LogClosed

R = TypeVar("R")
C = TypeVar("C", bound=type)

_AT_ONCE = 500  #: items of an iterator that are read in one call


class CallLock:
    """A lock that one call at a time holds, of any thread."""

    def __init__(self) -> None:
        self.wake: Callable[[], object] = lambda: None  #: ends the wait of a call that waits for the world
        self._line, self._lock = RLock(), RLock()
        self._in_call = False
        self._process = os.getpid()

    @property
    def inherited(self) -> bool:
        """Return True in a process that was forked after this lock was made."""
        return self._process != os.getpid()

    def __enter__(self) -> None:
        if self.inherited:
            raise LogClosed(
                f"process {self._process}, from which this one was forked, opened this pool or log, and no other can "
                "use it; open the log again here (a pool: when that process has closed it)"
            )
        with self._line:  # a thread that calls again and again cannot overtake those that wait
            if not self._lock.acquire(blocking=False):
                self.wake()
                self._lock.acquire()
        if self._in_call:
            self._lock.release()
            raise RuntimeError(
                "a signal handler cannot call a pool or log in the middle of another call of the same thread: set a "
                "flag in the handler, and make the call when the other one has returned"
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
        """Yield `items`, which are read in calls, many at a time."""

        def part() -> list[R]:
            with self:
                return list(islice(items, _AT_ONCE))

        while found := part():
            yield from found


def serialized(*others: str) -> Callable[[C], C]:
    """Have each public method and property of a class hold its lock, `_calls`; `others` take it themselves."""

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

    return call
