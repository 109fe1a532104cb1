"""The manager's HTTPS service as an application: its routes, limits and errors."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .enrolment import Enrolment, Rejected
from .messages import LARGEST_BODY, Challenge, ErrorReply, JoinRequest, PoolInfo

_BODY_S: Final = 10  #: seconds that a client has to send a body
_BURST: Final = 20  #: requests of an address that may be rejected at once ...
_PER_MINUTE: Final = 60  #: ... and in each minute; then no more are read
_MOST_ADDRESSES: Final = 10_000  #: addresses whose rejected requests are counted

Body = TypeVar("Body", bound=Struct)


class Rejection(Struct, frozen=True):
    """A rejected request, for the manager's log."""

    address: str  #: the client's IP address
    path: str
    reason: str  #: for programs
    message: str
    subject: str  #: the role or identity that sent the request, as far as it is known


Record = Callable[[Rejection], None]
Handler = Callable[[Request], Awaitable[Response]]


def application(info: PoolInfo, enrolment: Enrolment, record: Record, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application with the routes for joining and further `routes`. ``record`` is called, in a thread of the
    service, with each rejected request."""
    limits = _Limits()

    async def show_pool(request: Request) -> Response:
        return _json(msgspec.structs.replace(info, time=time.time()))

    async def prove(request: Request) -> Response:
        challenge = await _body(request, Challenge)
        proof = await run_in_threadpool(enrolment.prove, challenge)
        return _json(msgspec.structs.replace(info, time=time.time(), proof=proof))

    async def join(request: Request) -> Response:
        body = await _body(request, JoinRequest)
        scheme, _, token = authorization_of(request).partition(" ")
        if scheme and (scheme.lower() != "bearer" or not token):
            raise Rejected(401, "malformed", "the header Authorization must be `Bearer TOKEN`")
        host = request.url.hostname or ""
        return _json(await run_in_threadpool(enrolment.join, body, token.strip(), address_of(request), host))

    def limited(handle: Handler) -> Handler:
        async def handle_limited(request: Request) -> Response:
            address = address_of(request)
            if not limits.allows(address, time.monotonic()):
                message = f"too many requests from {address} were rejected; the limit is {_PER_MINUTE} per minute"
                raise Rejected(429, "rate", message)
            return await handle(request)

        return handle_limited

    def reject(request: Request, error: Exception) -> Response:
        assert isinstance(error, Rejected)
        address = address_of(request)
        if error.reason != "rate":  # these would flood the log
            limits.count(address)
            record(Rejection(address, request.url.path, error.reason, str(error), error.subject))
        return error_response(error.status, str(error), error.reason)

    return Starlette(
        routes=[
            Route("/v1/pool", show_pool, methods=["GET"]),
            Route("/v1/pool", limited(prove), methods=["POST"]),
            Route("/v1/join", limited(join), methods=["POST"]),
            *routes,
        ],
        exception_handlers={Rejected: reject, HTTPException: _http_error, Exception: _unexpected_error},
    )


def address_of(request: Request) -> str:
    """Return the address of the client's machine."""
    return "" if request.client is None else request.client.host


def authorization_of(request: Request) -> str:
    """Return the header Authorization; empty if it is missing."""
    return str(request.headers.get("authorization", ""))


def error_response(status: int, message: str, reason: str = "") -> Response:
    return _json(ErrorReply(HTTPStatus(status).phrase, message, status, reason), status)


def _json(body: Struct, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = error_response(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response.headers.update(error.headers or {})
    return response


def _unexpected_error(request: Request, error: Exception) -> Response:
    return error_response(500, f"the manager could not process the request ({type(error).__name__})")


async def _body(request: Request, kind: type[Body]) -> Body:
    """Read and decode a request's body. Raise `Rejected` if it is too long, incomplete or invalid."""
    data = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for chunk in request.stream():
                data += chunk
                if len(data) > LARGEST_BODY:
                    raise Rejected(413, "size", f"the body is longer than {LARGEST_BODY} bytes, which is the limit")
    except TimeoutError:
        raise Rejected(408, "time", f"the body did not arrive within {_BODY_S} s") from None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Rejected(400, "malformed", f"the body is not a valid {kind.__name__}: {error}") from None


class _Limits:
    """Counts each address's rejected requests, with a bucket that a rejected request drains, and time refills."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, address: str, now: float) -> bool:
        """Return True unless the address's bucket is empty."""
        left, at = self._buckets.pop(address, (float(_BURST), now))
        left = min(float(_BURST), left + (now - at) * _PER_MINUTE / 60)
        self._buckets[address] = left, now
        if len(self._buckets) > _MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return left >= 1

    def count(self, address: str) -> None:
        left, at = self._buckets.get(address, (float(_BURST), 0.0))
        self._buckets[address] = left - 1, at
