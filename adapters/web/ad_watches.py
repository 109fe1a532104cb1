"""The ads of jobs or slots and their changes as server-sent events, as golang-htcondor sends them: ``GET /jobs/watch``
and ``/collector/watch``.

A client receives ``reset``, an ``upsert`` for each ad, and ``synced``; later each ad that changed or appeared
(``upsert``) or left (``delete``), and ``synced`` again. Only ``synced`` has an id: a client that connects again with
it receives either nothing, because the log has not changed, or ``reset`` and all ads.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..https.requests import Rejected
from .ads import as_json, condition_of
from .callers import Caller
from .event_stream import HEADERS, MEDIA_TYPE
from .jobs import context_of
from .live_views import versions
from .pool_access import Call, PresentQueries, version_of
from .pool_queries import ads_of_type

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_MOST_CLIENTS: Final = 100
_AT_ONCE: Final = 100  #: ads in a chunk of a response
NAMES: Final = frozenset({"constraint", "cursor", "type"})  #: the parameters
KeyedAds = Iterable[tuple[str, "ClassAd"]]


def jobs(call: Call, parameters: Mapping[str, str]) -> KeyedAds:
    """Return the jobs in the queue by their ids."""
    return ((f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}", ad) for ad in call.queries.queue_after((0, -1), []))


def collector_ads(call: Call, parameters: Mapping[str, str]) -> KeyedAds:
    """Return the ads of a type by their names."""
    return ((str(ad.eval("Name")), ad) for ad in ads_of_type(call, parameters.get("type") or "Machine"))


class AdWatch:
    """Sends the ads that a function selects, and their changes, to any number of clients."""

    def __init__(self, present: PresentQueries, select: Callable[[Call, Mapping[str, str]], KeyedAds]) -> None:
        self._present, self._select = present, select
        self._clients = 0

    async def answer(self, request: Request, caller: Caller) -> Response:
        """Return the stream of the ads that satisfy the parameter ``constraint``."""
        parameters = dict(request.query_params)
        if unknown := sorted(parameters.keys() - NAMES):
            raise ValueError(f"the parameter {unknown[0][:80]!r} is unknown; use {', '.join(sorted(NAMES))}")
        if self._clients >= _MOST_CLIENTS:
            raise Rejected(503, "busy", f"{_MOST_CLIENTS} clients watch ads, which is the limit", caller.identity)
        tag, known = version_of(self._present.url, None), dict[str, int]()
        is_current = (request.headers.get("last-event-id") or parameters.get("cursor", "")) == _cursor(tag)
        chunks = self._changes(tag, caller, parameters, known)
        first = await run_in_threadpool(next, chunks)  # an error is answered with its status
        messages = self._messages(tag, caller, parameters, known, first, chunks, is_current)
        return StreamingResponse(messages, media_type=MEDIA_TYPE, headers=HEADERS)

    async def _messages(
        self, tag: str, caller: Caller, parameters: Mapping[str, str], known: dict[str, int], first: bytes,
        chunks: Iterator[bytes], is_current: bool,
    ) -> AsyncIterator[bytes]:  # fmt: skip
        self._clients += 1
        try:
            yield b": connected\n\n" if is_current else _frame("reset") + first
            async for chunk in iterate_in_threadpool(chunks):
                if not is_current:
                    yield chunk
            async for new_tag in versions(self._present.url, tag):
                if not new_tag:
                    yield b": ping\n\n"
                    continue
                async for chunk in iterate_in_threadpool(self._changes(new_tag, caller, parameters, known)):
                    yield chunk
        finally:
            self._clients -= 1

    def _changes(
        self, tag: str, caller: Caller, parameters: Mapping[str, str], known: dict[str, int]
    ) -> Iterator[bytes]:
        """Yield the differences between the ads and `known`, a hash of each ad by its key, and update it."""
        gone, chunk = set(known), list[bytes]()
        with Call(self._present, caller, version=tag) as call:
            condition = condition_of(parameters.get("constraint", ""), context_of(call))
            for key, ad in self._select(call, parameters):
                if not condition(ad):
                    continue
                gone.discard(key)
                text = as_json([ad])[0]
                if known.get(key) != (digest := hash(bytes(text))):
                    known[key] = digest
                    chunk.append(_frame("upsert", {"key": key, "ad": text}))
                if len(chunk) == _AT_ONCE:
                    yield b"".join(chunk)
                    chunk = []
        for key in gone:
            del known[key]
            chunk.append(_frame("delete", {"key": key}))
        yield b"".join(chunk) + b"id: %s\n" % _cursor(tag).encode() + _frame("synced")


def _cursor(tag: str) -> str:
    return base64.b64encode(tag.encode()).decode()


def _frame(event: str, data: Mapping[str, object] | None = None) -> bytes:
    text = msgspec.json.encode(data or {}).replace(b"\n", b"")  # an ad has line breaks between its members
    return b"event: %s\ndata: %s\n\n" % (event.encode(), text)
