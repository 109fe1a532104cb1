"""Reads requests to an HTTPS service of the pool, limits them, and answers rejected ones."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from .messages import LARGEST_BODY, ErrorReply

_BODY_S: Final = 10  #: seconds that a client may be silent while it sends a body
_MOST_COUNTED: Final = 10_000  #: addresses or identities whose requests are counted

Body = TypeVar("Body", bound=Struct)


class Rejected(Exception):
    """A request that is rejected. ``reason`` is for programs, ``subject`` who sent it, as far as that is known."""

    def __init__(self, status: int, reason: str, message: str, subject: str = "") -> None:
        super().__init__(message)
        self.status, self.reason, self.subject = status, reason, subject


class Rejection(Struct, frozen=True):
    """A rejected request, for the role's log."""

    address: str  #: the client's IP address
    path: str
    reason: str  #: for programs
    message: str
    subject: str  #: the role or identity that sent the request, as far as it is known


Record = Callable[[Rejection], None]


def recording_application(
    routes: Sequence[BaseRoute], record: Record, sender_address: Callable[[Request], str] | None = None
) -> Starlette:
    """Return an application whose routes raise `Rejected`. ``record`` is called, in a thread of the service, with each
    rejected request; ``sender_address`` returns the address of its sender, if that is not the client's."""

    def reject(request: Request, error: Exception) -> Response:
        assert isinstance(error, Rejected)
        address = (sender_address or address_of)(request)
        record(Rejection(address, request.url.path, error.reason, str(error), error.subject))
        return error_response(error.status, str(error), error.reason)

    handlers = {Rejected: reject, HTTPException: _http_error, Exception: _unexpected_error}
    return Starlette(routes=routes, exception_handlers=handlers)


def address_of(request: Request) -> str:
    """Return the address of the client's machine."""
    return "" if request.client is None else request.client.host


def authorization_of(request: Request) -> str:
    """Return the header Authorization; empty if it is missing."""
    return str(request.headers.get("authorization", ""))


def error_response(status: int, message: str, reason: str = "") -> Response:
    return json_response(ErrorReply(HTTPStatus(status).phrase, message, status, reason), status)


def json_response(body: Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = error_response(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response.headers.update(error.headers or {})
    return response


def _unexpected_error(request: Request, error: Exception) -> Response:
    return error_response(500, f"the service could not process the request ({type(error).__name__})")


async def read_body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """Return a request's body. Raise `Rejected` if it is too long, or incomplete."""
    data = bytearray()
    async for chunk in body_chunks(request, largest):
        data += chunk
    return bytes(data)


async def body_chunks(request: Request, largest: int) -> AsyncIterator[bytes]:
    """Yield the parts of a request's body. Raise `Rejected` if it is too long, or incomplete."""
    stream, size, until = aiter(request.stream()), 0, asyncio.get_running_loop().time() + _BODY_S
    while True:
        try:
            async with asyncio.timeout_at(until):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise Rejected(408, "time", f"the body did not arrive within {_BODY_S} s") from None
        if chunk is None:
            return
        size += len(chunk)
        if size > largest:
            raise Rejected(413, "size", f"the body is longer than {largest} bytes, which is the limit")
        if largest > LARGEST_BODY:  # a long body may take longer
            until = asyncio.get_running_loop().time() + _BODY_S
        yield chunk


async def body_as(kind: type[Body], request: Request) -> Body:
    """Read and decode a request's body. Raise `Rejected` if it is too long, incomplete or invalid."""
    data = await read_body(request)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Rejected(400, "malformed", f"the body is not a valid {kind.__name__}: {error}") from None


class RateLimit:
    """Limits the requests of each sender, with a bucket that requests drain, and time refills."""

    def __init__(self, burst: int, per_minute: int) -> None:
        self._burst, self._per_minute = float(burst), per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, sender: str, now: float) -> bool:
        """Return True unless the sender's bucket is empty."""
        left, at = self._buckets.pop(sender, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_minute / 60)
        self._buckets[sender] = left, now
        if len(self._buckets) > _MOST_COUNTED:
            self._buckets.popitem(last=False)
        return left >= 1

    def count(self, sender: str) -> None:
        left, at = self._buckets.get(sender, (self._burst, 0.0))
        self._buckets[sender] = left - 1, at
