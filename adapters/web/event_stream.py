"""The log's events as a stream of server-sent events, ``GET /events?after=N``, perhaps only some topics or one stream.

All clients share the newest events, encoded once. A client that is further behind reads the log until it has caught up,
so a slow client costs no memory, and a client that connects again with ``Last-Event-ID`` misses nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ...domain.events import TOPICS, Event
from ...domain.ports.log import EventStore
from ...replay.listing.members import StreamFilter, parse_filter
from ..https.requests import Rejected
from ..stores.codec import CODEC
from ..stores.fast_head import head_of
from ..stores.log_paths import log_paths
from ..stores.opening import open_log
from .callers import Caller

_POLL_S: Final = 0.05  #: seconds between two looks at the log while clients wait
_SHARED: Final = 20_000  #: newest events that are kept for all clients
_AT_ONCE: Final = 500  #: events in a chunk of a response
_KEEP_ALIVE_S: Final = 15
_MOST_CLIENTS: Final = 500
_FRAME: Final = b"id: %d-%s\nevent: %s\ndata: %s\n\n"
_ID: Final = re.compile(r"(\d{1,18})(?:-([0-9a-f]{8}))?", re.ASCII)
HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE: Final = "text/event-stream"


class Frame(NamedTuple):
    """An event in the format of the stream, and what selects it."""

    topic: str
    stream: str
    data: bytes


class Filter(NamedTuple):
    """Selects events; empty: all."""

    topics: frozenset[str] = frozenset()
    stream: str = ""

    def has(self, frame: Frame) -> bool:
        return (not self.topics or frame.topic in self.topics) and self.stream in ("", frame.stream)


def frames(first: int, events: list[Event]) -> list[Frame]:
    """Return events, the first of which is at the position `first`, in the format of the stream. An id has the position
    and a checksum, which shows to a client that connects again whether this is the same log."""
    topics, states = CODEC.encode(events)
    return [
        Frame(topic, event.stream, _FRAME % (at, _checksum(state), topic.encode(), state))
        for at, (topic, state, event) in enumerate(zip(topics, states, events, strict=True), first)
    ]


def _checksum(state: bytes) -> bytes:
    return b"%08x" % crc32(state)


def filter_of(parameters: QueryParams) -> Filter:
    """Return the filter that a request names. Raise `ValueError` if it is invalid."""
    topics = frozenset(filter(None, parameters.get("topic", "").split(",")))
    if unknown := sorted(topics - TOPICS.keys()):
        raise ValueError(f"topic: {unknown[0][:80]!r} is not the name of an event; use names such as job.exited")
    stream = parse_filter(parameters["stream"]) if parameters.get("stream") else StreamFilter("")
    if stream.proc is not None:
        raise ValueError("stream: the events of one job are not a stream; use its cluster, such as 12")
    return Filter(topics, stream.stream)


class EventStream:
    """Sends the events of one log to any number of clients."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._newest: deque[Frame] = deque(maxlen=_SHARED)
        self._version = 0  #: changes if another log replaces the log
        self._head = 0  #: the position of the last of the newest events
        self._changed = asyncio.Condition()
        self._clients = 0
        self._reader: asyncio.Task[None] | None = None

    async def answer(self, request: Request, caller: Caller) -> Response:
        """Return the stream of events after the position ``after`` or, if the client connects again, after the last
        one that it received; without either, of new events."""
        text = request.headers.get("last-event-id") or request.query_params.get("after", "")
        parsed = _ID.fullmatch(text or "0")
        if parsed is None:
            raise ValueError(f"after: {text[:80]!r} is not a position; use a whole number, such as 0 for all events")
        after, selected = int(parsed[1]), filter_of(request.query_params)
        if self._clients >= _MOST_CLIENTS:
            raise Rejected(503, "busy", f"{_MOST_CLIENTS} clients read the events, which is the limit", caller.identity)
        head = await run_in_threadpool(head_of, self._url)
        position = head[1] if head is not None else 0
        if after > position or (parsed[2] and not await run_in_threadpool(self._has_sent, after, parsed[2].encode())):
            message = f"after: this log, which ends at position {position}, has not sent {text}; start again without it"
            raise Rejected(410, "position", message, caller.identity)
        chunks = self._chunks(after if text else position, selected)
        return StreamingResponse(chunks, media_type=MEDIA_TYPE, headers=HEADERS)

    def _has_sent(self, position: int, checksum: bytes) -> bool:
        """Return True if the event at a position has this checksum."""
        with closing(open_log(self._url, create=False, read_only=True)) as log:
            events = [event for _, event in log.read(position - 1, 1)] if position else []
        return [_checksum(state) for state in CODEC.encode(events)[1]] == [checksum]

    async def _chunks(self, after: int, selected: Filter) -> AsyncIterator[bytes]:
        self._clients += 1
        try:
            yield b"retry: 1000\n\n"
            await self._start()
            version = self._version
            while version == self._version:  # otherwise the client connects again, and receives the status 410
                await self._start()
                batch, after = await self._next(after)
                chunk = b"".join([frame.data for frame in batch if selected.has(frame)])
                if chunk or not batch:
                    yield chunk or b": no events\n\n"
        finally:
            self._clients -= 1

    async def _start(self) -> None:
        """Start to read new events, if no task does."""
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._follow())
            await asyncio.sleep(0)

    async def _next(self, after: int) -> tuple[Sequence[Frame], int]:
        """Return the next events after a position, and the position of the last one; none after a while without
        events."""
        if after >= self._head:
            try:
                async with asyncio.timeout(_KEEP_ALIVE_S), self._changed:
                    await self._changed.wait_for(lambda: self._head > after)
            except TimeoutError:
                return (), after
        first = self._head - len(self._newest)
        if after < first:
            events = await run_in_threadpool(self._read, after)
            return frames(after + 1, events), after + len(events)
        batch = list(islice(self._newest, after - first, after - first + _AT_ONCE))
        return batch, after + len(batch)

    def _read(self, after: int) -> list[Event]:
        with closing(open_log(self._url, create=False, read_only=True)) as log:
            return [event for _, event in log.read(after, _AT_ONCE)]

    async def _follow(self) -> None:
        """Read new events while there are clients."""
        file, log = self._file(), await run_in_threadpool(open_log, self._url, create=False, read_only=True)
        with closing(log):
            self._newest.clear()
            self._head = log.head.position
            await self._announce()
            while self._clients:
                if events := await run_in_threadpool(self._new_events, log):
                    self._newest.extend(frames(self._head + 1, events))
                    self._head += len(events)
                    await self._announce()
                if self._file() != file:
                    self._version, self._head = self._version + 1, sys.maxsize  # wakes all clients
                    await self._announce()
                    return
                await asyncio.sleep(0 if len(events) == _SHARED else _POLL_S)

    def _file(self) -> tuple[int, int] | None:
        """Return the identity of the log's file; None if it is missing, or the log is not a file."""
        try:
            info = os.stat(log_paths(self._url).base)
        except OSError:
            return None
        return info.st_dev, info.st_ino

    async def _announce(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _new_events(self, log: EventStore) -> list[Event]:
        log.refresh()
        return [event for _, event in log.read(self._head, _SHARED)]
