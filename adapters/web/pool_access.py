"""How a request reads and changes the pool: the same queries and requests as the commands."""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack, closing, suppress
from datetime import UTC
from functools import cached_property, partial
from itertools import count
from typing import Any, Final, Self

from ...domain.units import SECOND
from ...replay.listing.time_texts import since
from ..machine.host import user_name
from ..runtime.pool_client import ServerConnection, ask, is_served
from ..runtime.queries import Queries
from ..runtime.requests import Request, RequestRefused, new_id
from ..stores.fast_head import head_of
from ..stores.log_paths import log_paths
from .callers import Caller
from .problems import is_of_request

_LONGEST_KEY: Final = 200


class PresentQueries:
    """The queries of the present views that no request uses. Requests at the same position share the cost of opening
    them. Those that are not used for a while are closed, because an open snapshot keeps SQLite from reusing its
    write-ahead log."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: deque[tuple[str, float, Queries]] = deque()

    def take(self, version: str) -> Queries:
        """Return queries of the log with this version; `version_of` has just returned it."""
        while self._idle:
            with suppress(IndexError):  # another thread has taken the last
                kept_version, _, queries = self._idle.pop()
                if kept_version == version:
                    return queries
                queries.__exit__(None, None, None)
        return Queries(self.url)

    def give_back(self, version: str, queries: Queries) -> None:
        self._idle.append((version, time.monotonic(), queries))

    def close_idle(self, seconds: float) -> None:
        """Close the queries that were not used for some seconds."""
        with suppress(IndexError):
            while self._idle and self._idle[0][1] <= time.monotonic() - seconds:
                self._idle.popleft()[2].__exit__(None, None, None)


class Call:
    """A request in progress, as a context manager: its caller, and access to the pool's log.

    :param version: the `version_of` the view, for a request that may share open views; empty: it opens them
    :param at: the time of the answer in microseconds; None: now
    :param key: the caller's idempotency key: a repeated request with the same key has its effect only once
    """

    def __init__(
        self, present: PresentQueries, caller: Caller, at: int | None = None, key: str = "", version: str = ""
    ) -> None:
        self.url, self.caller, self.at = present.url, caller, at
        self._present, self._key, self._version = present, key, version
        self._stack = ExitStack()
        self._requests = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # After an error that the request did not cause, queries check the log and its views, which takes long.
        if error is None or is_of_request(error):
            self._stack.close()
        else:
            self._stack.__exit__(type(error), error, error.__traceback__)

    @cached_property
    def queries(self) -> Queries:
        """The queries of the log at the time of the answer."""
        if self.at is not None or not self._version:
            return self._stack.enter_context(Queries(self.url, at=self.at))
        queries = self._present.take(self._version)
        self._stack.push(partial(self._leave, queries))
        return queries

    def _leave(self, queries: Queries, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._present.give_back(self._version, queries)
        else:
            queries.__exit__(kind, error, trace)

    @cached_property
    def now(self) -> int:
        """The time of the answer, in seconds."""
        return self.queries.now(int(time.time()))

    @property
    def can_change(self) -> bool:
        """True if the caller can send requests: the pool is running, or the service runs as the caller."""
        return bool(self.caller.user) and (self.caller.user == user_name() or is_served(self.url))

    def ask(self, request: Request) -> Any:
        """Send a request to the pool in the caller's name, and return the answer. Raise the errors of
        `pool_client.ask`."""
        identified = {**request, "id": self._request_id()}
        if self.caller.user == user_name():
            return ask(self.url, identified)
        if not is_served(self.url):
            message = f"only {user_name()} can change the log of a pool that is not running; start `poolbook serve`"
            raise RequestRefused(message)
        with closing(ServerConnection(log_paths(self.url))) as server:
            return server.ask({**identified, "on_behalf": self.caller.user})

    def _request_id(self) -> str:
        return f"{self.caller.user}:{self._key}:{next(self._requests)}" if self._key else new_id()


def checked_key(key: str) -> str:
    """Return an idempotency key. Raise `ValueError` if it is too long or contains other characters than ASCII."""
    if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise ValueError(f"Idempotency-Key: use at most {_LONGEST_KEY} printable ASCII characters, such as a UUID")
    return key


def instant_of(text: str) -> int | None:
    """Parse the time of a view, in UTC unless it contains an offset; None if the text is empty. Raise `ValueError`."""
    return since(text, round(time.time() * SECOND), UTC) if text else None


def version_of(url: str, at: int | None) -> str:
    """Return the ETag of a view: the position of the log, and the time of the view."""
    head = head_of(url)
    _, position, digest = head or (0, 0, "")
    return f'W/"{position}-{digest[:8]}' + (f'@{at}"' if at is not None else '"')
