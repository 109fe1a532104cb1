"""Views of the page as streams of patches, ``GET /overview/live?view=pool``.

The first message has the whole view. Each later one has the values that changed, with their paths, and the position of
the log that they belong to. A client receives at most two messages a second, and clients of the same view share the
work.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..https.requests import Rejected
from .callers import Caller
from .endpoints import Endpoint
from .event_stream import HEADERS, MEDIA_TYPE
from .pool_access import Call, PresentQueries, version_of

_INTERVAL_S: Final = 0.5  #: the shortest time between two messages
_SHARE: Final = 4  #: a view that takes some time to compute is computed at most for this fraction of the time
_KEEP_ALIVE_S: Final = 15
_MOST_CLIENTS: Final = 500
_MOST_VIEWS: Final = 64  #: views that are kept for further clients
_MOST_CHANGES: Final = 5_000  #: changes above which the whole view is sent

Document = Any
"""A JSON value: dict, list, str, int, float, bool or None."""


def changes(old: Document, new: Document, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    """Return the values to set, each with its path, that turn one document into the other."""
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [change for key in new for change in changes(old[key], new[key], (*path, key))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [change for i, pair in enumerate(zip(old, new, strict=True)) for change in changes(*pair, (*path, i))]
    return [(path, new)]


async def versions(url: str, tag: str) -> AsyncIterator[str]:
    """Yield each version of a log after `tag`, and an empty string after a while without one. A caller that takes long
    between two versions receives them less often."""
    sent = time.monotonic()
    while True:
        began = time.monotonic()
        new_tag = await run_in_threadpool(version_of, url, None)
        if new_tag != tag or began - sent > _KEEP_ALIVE_S:
            yield "" if new_tag == tag else new_tag
            tag, sent = new_tag, time.monotonic()
        await asyncio.sleep(max(_INTERVAL_S, (time.monotonic() - began) * _SHARE))


class LiveViews:
    """Streams the views of one log to any number of clients."""

    def __init__(self, present: PresentQueries, views: Mapping[str, Endpoint]) -> None:
        self._present, self._views = present, views
        self._documents: OrderedDict[tuple[str, str], tuple[str, Document]] = OrderedDict()
        self._clients = 0

    async def answer(self, request: Request, caller: Caller) -> Response:
        """Return the stream of a view. It takes the parameters of the view's endpoint, and ``view``, its name."""
        parameters = dict(request.query_params)
        name = parameters.pop("view", "")
        if name not in self._views:
            raise ValueError(f"view: {name[:80]!r} is not a view; use one of {', '.join(self._views)}")
        if parameters.get("at"):
            raise ValueError("at: a view of the past does not change; request it from its endpoint")
        if self._clients >= _MOST_CLIENTS:
            raise Rejected(503, "busy", f"{_MOST_CLIENTS} clients follow views, which is the limit", caller.identity)
        query = self._views[name].convert(parameters)
        first = await run_in_threadpool(self._document, name, query, caller)
        messages = self._messages(name, query, caller, first)
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return StreamingResponse(messages, media_type=MEDIA_TYPE, headers=HEADERS)
        headers = {**HEADERS, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return StreamingResponse(_compressed(messages), media_type=MEDIA_TYPE, headers=headers)

    async def _messages(
        self, name: str, query: msgspec.Struct, caller: Caller, first: tuple[str, Document]
    ) -> AsyncIterator[bytes]:
        self._clients += 1
        try:
            tag, document = first
            yield _message(tag, {"whole": document})
            async for new_tag in versions(self._present.url, tag):
                if not new_tag:
                    yield b": unchanged\n\n"
                    continue
                tag, new = await run_in_threadpool(self._document, name, query, caller)
                changed = changes(document, new)
                document = new
                yield _message(tag, {"set": changed} if len(changed) <= _MOST_CHANGES else {"whole": new})
        finally:
            self._clients -= 1

    def _document(self, name: str, query: msgspec.Struct, caller: Caller) -> tuple[str, Document]:
        """Return a view at the present position of the log, with the version of the log."""
        tag, key = version_of(self._present.url, None), (name, repr(query))
        kept = self._documents.get(key)
        if kept is not None and kept[0] == tag:
            return kept
        endpoint = self._views[name]
        with Call(self._present, caller, version=tag) as call:
            document = msgspec.to_builtins(endpoint.call(call, query, None))
        self._documents[key] = tag, document
        self._documents.move_to_end(key)
        while len(self._documents) > _MOST_VIEWS:
            self._documents.popitem(last=False)
        return tag, document


async def _compressed(messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Compress a stream so that each message can be read when it arrives."""
    compressor = zlib.compressobj(5, wbits=16 + zlib.MAX_WBITS)
    async for message in messages:
        yield compressor.compress(message) + compressor.flush(zlib.Z_SYNC_FLUSH)


def _message(tag: str, content: Mapping[str, Any]) -> bytes:
    position = tag.removeprefix('W/"').partition("-")[0]
    return b"id: %s\ndata: %s\n\n" % (position.encode(), msgspec.json.encode(content))
