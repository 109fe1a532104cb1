"""How a command reaches the pool: it becomes the log's writer for its own duration, or hands its request to the server.

A request is a stimulus in a form that JSON can carry: ``{"kind": "Act", "id": ..., ...}``. The client makes its id, and
may send it again when it heard no answer: a repeated id gets the first answer.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...domain.ports.log import LogError
from ..stores.log_paths import Place, WriterLock, place_of

if TYPE_CHECKING:
    from ...domain.state.state import State

Request = Mapping[str, Any]
PATIENCE = 30.0
"""Seconds that a command waits for the server, or for another short command, at most."""


class Terms(NamedTuple):
    """What a submission has to know of the pool: the number that its cluster will have, and of the settings in force
    those that it goes by (``settings.for_submissions``)."""

    cluster: int
    settings: Mapping[str, str]

    @classmethod
    def of(cls, state: State, cluster: int) -> Terms:
        """The terms of a pool in this state."""
        from ...domain.state.settings import for_submissions

        return cls(cluster, for_submissions(state.settings))


class Refused(Exception):
    """The pool refused the request; the text says why and what would be accepted."""


def new_id() -> str:
    """An id for a request, unlike any other."""
    return f"{time.time_ns():x}-{os.urandom(4).hex()}"


def ask(url: str, request: Callable[[Terms], Request] | Request, *, create: Mapping[str, str] | None = None) -> Any:
    """Have `request` dealt with, and return the answer.

    `request` may be a function of the terms, for what has to know them (a submission). `create`: make the log if there
    is none, with these settings.

    :raises Refused: the pool says no
    :raises LogError: the log cannot be read or written, or its writer does not answer
    """
    place = place_of(url)
    until = time.monotonic() + PATIENCE
    while True:
        lock = WriterLock(url)
        try:
            taken = lock.take()
        except OSError as error:
            rule = "the log's folder must be writable"
            raise LogError(f"{place.lock} cannot be written: {error.strerror}; {rule}") from None
        if taken:
            try:
                return _by_ourselves(url, request, create)
            finally:
                lock.give_up()
        try:
            return _by_server(place, request)
        except (ConnectionError, FileNotFoundError):
            # Nobody listens: another short command holds the lock, or the server is about to begin or to end.
            if time.monotonic() > until:
                raise LogError(
                    f"process {lock.holder()} has been writing this log for {PATIENCE:.0f} s without taking requests; "
                    "try again when it is done"
                ) from None
            time.sleep(0.02)


def is_served(url: str) -> bool:
    """Whether a server takes requests for the log now."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(place_of(url).socket)
        except OSError:
            return False
    return True


def is_written(url: str) -> bool:
    """Whether a process has the log now: a server, also one that is about to take requests, or a short command. It may
    be so where nobody else may look; then `ask` says what is not allowed."""
    lock = WriterLock(url)
    try:
        free = lock.take()
    except PermissionError:
        return True
    except OSError:
        return False
    lock.give_up()
    return not free


def _by_server(place: Place, request: Callable[[Terms], Request] | Request) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(place.socket)
        stream = connection.makefile("rwb")
        if callable(request):
            request = request(Terms(**_exchange(stream, {"kind": "reserve"})))
        return _exchange(stream, request)


def _exchange(stream: Any, request: Request) -> Any:
    stream.write(json.dumps(request).encode() + b"\n")
    stream.flush()
    line = stream.readline()
    if not line:
        raise ConnectionResetError
    answer = json.loads(line)
    if "error" in answer:
        raise LogError(answer["error"])
    if "refusal" in answer:
        raise Refused(answer["refusal"])
    return answer["answer"]


def _by_ourselves(url: str, request: Callable[[Terms], Request] | Request, create: Mapping[str, str] | None) -> Any:
    from .command_codec import stimulus_of
    from .engine import Engine
    from .null_world import IdleWorld
    from .open_pool import open_pool_log

    log = open_pool_log(url, create=create is not None, settings=create)
    try:
        engine = Engine(log, IdleWorld(), executing=False)
        engine.load()
        if callable(request):
            request = request(Terms.of(engine.state, engine.state.next_cluster))
        (answer,) = engine.handle([stimulus_of(request)])
    finally:
        log.close()
    if answer.refusal:
        raise Refused(answer.refusal)
    return answer.value
