"""The HTTP service as an application: it turns the tables of endpoints into routes, with the same checks for each."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import IO, Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ..https.peers import Peer
from ..https.requests import RateLimit, Rejected, authorization_of, body_chunks, read_body
from ..stores.log_paths import log_paths
from .callers import Caller, Callers
from .endpoints import Content, Endpoint, Upload
from .pool_access import Call, PresentQueries, checked_key, instant_of, version_of
from .problems import problem, problem_of
from .request_keys import RequestKeys
from .validation import describe

BASE: Final = "/api/v1"
_BURST: Final = 5_000  #: requests of a caller that are answered at once ...
_PER_MINUTE: Final = 300_000  #: ... and in each minute
_UNAUTHENTICATED_PER_MINUTE: Final = 600
_CHUNK: Final = 1 << 16
_IDLE_S: Final = 1.0  #: seconds after which unused views are closed
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


_FORWARDED: Final = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})
"""Headers that a proxy adds. A proxy on this machine connects as its own user, who is not the sender."""
_SECURITY: Final = {
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}  # fmt: skip


class Site:
    """What is common to all requests of a service.

    :param hosts: the host names and addresses of the service, without ports; a request that names another one is
        rejected, so that no other site can reach the service through a browser under its own name
    :param origins: other origins whose pages may use the API (`https://portal.example`)
    """

    def __init__(self, url: str, callers: Callers, hosts: Iterable[str], origins: Iterable[str] = ()) -> None:
        self.url, self.callers = url, callers
        self.present, self.keys = PresentQueries(url), RequestKeys(log_paths(url).folder)
        self._hosts, self._origins = frozenset(hosts) | _LOOPBACK, frozenset(origins)
        self._rates = RateLimit(_BURST, _PER_MINUTE)
        self._unauthenticated_rates = RateLimit(_UNAUTHENTICATED_PER_MINUTE // 2, _UNAUTHENTICATED_PER_MINUTE)

    def caller(self, request: Request) -> Caller:
        """Authenticate the sender of a request. Raise `Rejected`."""
        peer: Peer = getattr(request.state, "peer", Peer(request.client.host if request.client else ""))
        self._check_host(request, peer)
        if peer.uid is not None and not _FORWARDED.isdisjoint(request.headers):
            peer = peer._replace(uid=None)  # the user of this machine is a proxy's
        authorization, failures = authorization_of(request), f"rejected {peer.address}"
        if authorization:
            self._count(self._unauthenticated_rates, failures, peer.address, 0)
        try:
            caller = self.callers.caller(peer, authorization)
        except Rejected:
            self._unauthenticated_rates.count(failures)
            raise
        rates = self._rates if caller.name else self._unauthenticated_rates
        self._count(rates, caller.name or caller.address, caller.identity)
        return caller

    def _count(self, rates: RateLimit, key: str, identity: str, requests: int = 1) -> None:
        """Raise `Rejected` if a sender has no requests left; count this one."""
        if not rates.allows(key, time.monotonic()):
            raise Rejected(429, "rate", f"{identity} sends too many requests; wait a minute", identity)
        for _ in range(requests):
            rates.count(key)

    def _check_host(self, request: Request, peer: Peer) -> None:
        host = request.headers.get("host", "")
        name = urlsplit(f"//{host}").hostname or ""
        known = _LOOPBACK if peer.uid is not None and not authorization_of(request) else self._hosts
        if name not in known:
            message = f"this service has another host name than {name[:80]!r}; use the URL that it prints"
            raise Rejected(421, "host", message)

    def check_origin(self, request: Request) -> None:
        """Reject a request that changes the pool if a page of another site sends it."""
        origin = request.headers.get("origin")
        if origin is None or origin in self._origins or urlsplit(origin).netloc == request.headers.get("host"):
            return
        raise Rejected(403, "origin", f"pages of {origin[:80]} may not change this pool")

    @property
    def middleware(self) -> list[Middleware]:
        """Return what lets pages of the configured other origins send requests and read the responses."""
        if not self._origins:
            return []
        headers = ["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID"]
        sharing = Middleware(
            CORSMiddleware, allow_origins=sorted(self._origins), allow_headers=headers, expose_headers=["ETag"],
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        )  # fmt: skip
        return [sharing]


Answer = Callable[[Request, Caller], Awaitable[Response]]


_COMPRESSING: Final = (Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),)


def route(
    site: Site, path: str, methods: Sequence[str], answer: Answer, level: str, middleware: Sequence[Middleware] = ()
) -> Route:
    """Return a route whose caller is authenticated and authorized before `answer` runs."""

    async def guarded(request: Request) -> Response:
        try:
            if request.method not in ("GET", "HEAD"):
                site.check_origin(request)
            has_token = bool(authorization_of(request))  # verifying one reads files
            caller = await run_in_threadpool(site.caller, request) if has_token else site.caller(request)
            site.callers.authorize(caller, level)
            response = await answer(request, caller)
        except Exception as error:
            known = problem_of(error)
            if known is None:
                raise
            response = known
        for name, value in _SECURITY.items():
            response.headers.setdefault(name, value)
        return response

    return Route(path, guarded, methods=list(methods), middleware=middleware)


def endpoint_route(site: Site, endpoint: Endpoint) -> Route:
    answer = partial(_answer, site, endpoint)
    middleware = _COMPRESSING if endpoint.is_compressed else ()
    path = endpoint.path if endpoint.is_at_root else BASE + endpoint.path
    return route(site, path, [endpoint.method], answer, endpoint.level, middleware)


async def _answer(site: Site, endpoint: Endpoint, request: Request, caller: Caller) -> Response:
    if endpoint.unsupported:
        raise Rejected(501, "unsupported", endpoint.unsupported)
    parameters = endpoint.convert(_parameters(request))
    at = instant_of(getattr(parameters, "at", ""))
    if endpoint.check is not None:
        await run_in_threadpool(_check, site, caller, endpoint.check, parameters)
    data = b"" if endpoint.body in (None, Upload) else await read_body(request, endpoint.largest_body)
    body = await _body(endpoint, request, data)
    key = checked_key(request.headers.get("idempotency-key", "")) if endpoint.changes else ""

    def call() -> Response:
        tag = "" if endpoint.changes or endpoint.is_live else version_of(site.url, at)
        if tag and request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers={"ETag": tag})
        if key:
            target = f"{request.method} {request.url.path}?{request.url.query}"
            site.keys.check(caller.user, key, target.encode(), data)
        with Call(site.present, caller, at, key, tag) as call:
            response = _response(endpoint, endpoint.call(call, parameters, body))
        response.headers["Cache-Control"] = "no-cache" if tag else "no-store"
        if tag:
            response.headers["ETag"] = tag
        return response

    return call() if endpoint.is_quick and at is None else await run_in_threadpool(call)


def _check(site: Site, caller: Caller, check: Callable[[Any, Any], object], parameters: Any) -> None:
    with Call(site.present, caller) as call:
        check(call, parameters)


def _parameters(request: Request) -> dict[str, str]:
    query = request.query_params
    for name in query:
        if len(query.getlist(name)) > 1:
            raise ValueError(f"the parameter {name[:80]!r} is repeated; name it once")
    return {**query, **request.path_params}


async def _body(endpoint: Endpoint, request: Request, data: bytes) -> Any:
    if endpoint.body is None:
        return None
    if endpoint.body is Upload:
        return await _upload(request, endpoint.largest_body)
    if not data and endpoint.default_body is not None:
        return endpoint.default_body
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":  # a form of another site can send other types without asking
        raise Rejected(415, "type", f"the body must have the type application/json, not {media_type[:80]!r}")
    return await run_in_threadpool(_decoded, data, endpoint.body)


def _decoded(data: bytes, kind: Any) -> Any:
    try:
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as error:
            message = describe(error, kind, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Rejected(400, "malformed", f"the body is not valid JSON: {error}") from None
    raise ValueError(message)


async def _upload(request: Request, largest: int) -> Upload:
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the handler reads it)
    try:
        async for chunk in body_chunks(request, largest):
            await run_in_threadpool(file.write, chunk)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return Upload(file, request.headers.get("content-type", ""))


def _response(endpoint: Endpoint, result: object) -> Response:
    if isinstance(result, Content):
        quoted = quote(result.file_name, safe="")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quoted}"} if quoted else {}
        if isinstance(result.data, bytes):
            return Response(result.data, endpoint.status, headers, media_type=result.media_type)
        size = os.fstat(result.data.fileno()).st_size
        headers["Content-Length"] = str(size)
        return StreamingResponse(_chunks(result.data, size), endpoint.status, headers, media_type=result.media_type)
    return Response(msgspec.json.encode(result), endpoint.status, media_type="application/json")


def _chunks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the first bytes of a file, which may grow meanwhile, and close it."""
    with file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK))):
            size -= len(chunk)
            yield chunk


def application(site: Site, endpoints: Sequence[Endpoint], others: Sequence[BaseRoute]) -> Starlette:
    """Return the application with the API's endpoints and `others`: the page, streams and documents."""

    def http_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = f"{request.method} {request.url.path}: {error.detail}; {BASE}/docs lists the paths"
        return problem(error.status_code, message, headers=error.headers)

    def fault(request: Request, error: Exception) -> Response:
        return problem(500, f"the service could not process the request ({type(error).__name__})")

    @asynccontextmanager
    async def closing_idle(_: Starlette) -> AsyncIterator[None]:
        async def close_idle() -> None:
            while True:
                await asyncio.sleep(_IDLE_S)
                site.present.close_idle(_IDLE_S)

        task = asyncio.create_task(close_idle())
        yield
        task.cancel()
        site.present.close_idle(0)
        site.keys.close()

    routes = [endpoint_route(site, endpoint) for endpoint in endpoints]
    handlers = {HTTPException: http_problem, Exception: fault}
    return Starlette(
        routes=[*others, *routes], exception_handlers=handlers, middleware=site.middleware, lifespan=closing_idle
    )
