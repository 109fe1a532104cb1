"""Forward requests through the manager to an access point that no other machine can connect to.

The access point keeps some requests open at the manager (long polling): `RelayClient`. The manager's `Relay` answers
one of them with a request that it has received for the access point, which sends its answer in another request. The
manager forwards bodies as they arrive, and stores only some blocks of each: a slow receiver slows down the sender. The
access point stores an answer, which the client limits to some megabytes with a range.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any, Final
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from .app import body_of

_BLOCKS: Final = 8  #: maximum number of blocks of a body that wait for the receiver
_MOST_WAITING: Final = 1000  #: maximum number of requests that wait for an access point
_POLL_S: Final = 20.0  #: how long the manager keeps a request of the access point open
_CONNECTED_S: Final = 3 * _POLL_S  #: an access point that made no request for so long has disconnected
_FREE_S: Final = 5.0  #: how long a request waits until the access point can take it
_SILENCE_S: Final = 60.0  #: how long to wait for the next part of a message, or for a receiver to take it
_PAUSES_S: Final = 0.2, 10.0  #: how long the access point waits after one and after many failed requests
_HEAD: Final = "Poolbook-Head"  #: the header with the head of the forwarded message, as JSON
_HEADERS: Final = frozenset(
    {"authorization", "content-length", "content-range", "content-type", "etag", "if-match", "range"}
)
"""The headers that are forwarded."""

Application = Callable[[Any, Any, Any], Awaitable[None]]  #: an ASGI application


class _Pipe:
    """The body of a message on its way from one connection to another."""

    def __init__(self) -> None:
        self._blocks: asyncio.Queue[bytes | None] = asyncio.Queue(_BLOCKS)
        self._is_closed = False

    async def fill(self, blocks: AsyncIterator[bytes]) -> bool:
        """Take a body to its end. Return False if its sender disconnects or its receiver is too slow. Then both are
        disconnected, after the receiver has taken what the sender has sent."""
        try:
            try:
                async for block in blocks:
                    if block:
                        await self._put(block)
            except ClientDisconnect:
                await self._put(None)
                return False
            await self._put(b"")
        except TimeoutError:
            self._empty()
            self._blocks.put_nowait(None)
            return False
        return True

    def _empty(self) -> None:
        while not self._blocks.empty():
            self._blocks.get_nowait()

    async def _put(self, block: bytes | None) -> None:
        if not self._is_closed:
            async with asyncio.timeout(_SILENCE_S):
                await self._blocks.put(block)

    async def blocks(self) -> AsyncIterator[bytes]:
        """Yield the body. Raise `ConnectionError` if the sender has disconnected."""
        try:
            while block := await self._blocks.get():
                yield block
            if block is None:
                raise ConnectionError("the sender has disconnected")
        finally:
            self._is_closed = True
            self._empty()  # a sender that waits continues, and discards the rest


class _Exchange:
    """A request that is forwarded, and its answer."""

    def __init__(self, request: Request, name: str, path: str, headers: Mapping[str, str]) -> None:
        self.id = secrets.token_hex(16)
        self.name = name
        self.head = {"id": self.id, "method": request.method, "path": path, "headers": headers}
        self.body = _Pipe()
        self.taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answer: asyncio.Future[tuple[int, dict[str, str]]] = asyncio.get_running_loop().create_future()
        self.answer_body = _Pipe()


def _forwarded(message: Request | Response | httpx.Response) -> dict[str, str]:
    return {name: value for name, value in message.headers.items() if name.lower() in _HEADERS}


class Relay:
    """The manager's side.

    :param authorizes: returns whether a request of an access point of this name is authentic
    """

    def __init__(self, authorizes: Callable[[Request, str], bool]) -> None:
        self._authorizes = authorizes
        self._waiting: dict[str, asyncio.Queue[_Exchange]] = {}
        self._linked: dict[str, float] = {}  #: when each access point last made a request
        self._exchanges: dict[str, _Exchange] = {}
        self.application = Starlette(
            routes=[
                Route("/links/{name}", self._link, methods=["POST"]),
                Route("/links/{name}/{id}", self._receive_answer, methods=["POST"]),
                Route("/to/{name}/{path:path}", self._forward, methods=["GET", "POST", "PUT"]),
            ]
        )

    async def _link(self, request: Request) -> Response:
        """Answer an access point with the next request for it, or with nothing after a while."""
        name = request.path_params["name"]
        if not self._authorizes(request, name):
            return Response(status_code=403)
        await request.body()  # it is empty; what is received next is the end of the connection
        self._linked[name] = asyncio.get_running_loop().time()
        waiting = self._waiting.setdefault(name, asyncio.Queue(_MOST_WAITING))
        taking = asyncio.ensure_future(waiting.get())
        waits: list[asyncio.Future[Any]] = [taking, asyncio.ensure_future(request.receive())]
        await asyncio.wait(waits, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if not taking.done() or (exchange := taking.result()).taken.done():
            return Response(status_code=204)
        exchange.taken.set_result(None)
        return StreamingResponse(exchange.body.blocks(), headers={_HEAD: json.dumps(exchange.head)})

    def names(self) -> list[str]:
        """Return the names of the access points that are connected."""
        connected = asyncio.get_running_loop().time() - _CONNECTED_S
        return sorted(name for name, linked in self._linked.items() if linked > connected)

    def knows(self, name: str) -> bool:
        """Return True if an access point of this name has connected since the manager started."""
        return name in self._linked

    async def _forward(self, request: Request) -> Response:
        path = f"/{request.path_params['path']}"
        return await self.forward(request, request.path_params["name"], path, _forwarded(request))

    async def forward(self, request: Request, name: str, path: str, headers: Mapping[str, str]) -> Response:
        """Forward a request with these headers to an access point; return its answer."""
        exchange = _Exchange(request, name, path, headers)
        self._exchanges[exchange.id] = exchange
        if not await self._hand_over(exchange):
            self._exchanges.pop(exchange.id)
            return Response(status_code=503)
        try:
            await exchange.body.fill(body_of(request))
            async with asyncio.timeout(_SILENCE_S):
                status, headers = await exchange.answer
        except TimeoutError:
            return Response(status_code=504)
        finally:
            self._exchanges.pop(exchange.id, None)
        return StreamingResponse(exchange.answer_body.blocks(), status, headers)

    async def _hand_over(self, exchange: _Exchange) -> bool:
        """Give a request to the access point. Return False if it does not take the request for a while."""
        try:
            self._waiting[exchange.name].put_nowait(exchange)
            async with asyncio.timeout(_FREE_S):
                await exchange.taken
        except (KeyError, asyncio.QueueFull, TimeoutError):
            return False
        return True

    async def _receive_answer(self, request: Request) -> Response:
        exchange = self._exchanges.get(request.path_params["id"])
        if not self._authorizes(request, request.path_params["name"]):
            return Response(status_code=403)
        if exchange is None or exchange.name != request.path_params["name"] or exchange.answer.done():
            return Response(status_code=404)
        head = json.loads(request.headers[_HEAD])
        exchange.answer.set_result((head["status"], head["headers"]))
        is_complete = await exchange.answer_body.fill(body_of(request))
        return Response(status_code=204 if is_complete else 400)


class RelayClient:
    """The access point's side: answers the requests that the manager forwards, in a thread.

    :param application: answers the requests: `files_app`
    :param url: where the manager has mounted `Relay.application`
    :param name: the access point's name
    :param context: verifies the manager's certificate
    :param headers: returns the headers that authenticate the access point to the manager
    :param links: how many requests are answered at the same time
    """

    def __init__(
        self, application: Application, url: str, name: str, context: ssl.SSLContext,
        headers: Callable[[], Mapping[str, str]], links: int = 8,
    ) -> None:  # fmt: skip
        self._application = application
        self._url = f"{url}/links/{quote(name, safe='')}"
        self._context, self._headers, self._count = context, headers, links
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._run())
        self._thread = Thread(target=self._serve, name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Disconnect; requests in progress are cut."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _serve(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _run(self) -> None:
        timeout = httpx.Timeout(_SILENCE_S, pool=None)
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(verify=self._context, timeout=timeout, limits=limits) as client:
            await asyncio.gather(*(self._answer_requests(client) for _ in range(self._count)))

    async def _answer_requests(self, client: httpx.AsyncClient) -> None:
        pause_s = first_s = _PAUSES_S[0]
        while True:
            with suppress(Exception):  # whatever a request causes, the next one is answered
                async with client.stream("POST", self._url, headers=self._headers()) as response:
                    response.raise_for_status()
                    pause_s = first_s
                    if response.status_code == 200:
                        await self._answer(client, response)
                    continue
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSES_S[1])

    async def _answer(self, client: httpx.AsyncClient, request: httpx.Response) -> None:
        """Let the application answer a request, and send the answer to the manager."""
        head = json.loads(request.headers[_HEAD])
        transport = httpx.ASGITransport(self._application, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://access-point") as application:
            answer = await application.request(
                head["method"], quote(head["path"]), headers=head["headers"], content=request.aiter_bytes()
            )
        answer_head = json.dumps({"status": answer.status_code, "headers": _forwarded(answer)})
        headers = {**self._headers(), _HEAD: answer_head}
        await client.post(f"{self._url}/{head['id']}", content=answer.content, headers=headers)
