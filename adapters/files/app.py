"""The ASGI application that serves the files of an access point's activations.

========================================  ==============================================================================
GET /ACTIVATION/inputs, /kept             the list of the inputs, or of the files kept from earlier runs, with an ETag
GET /ACTIVATION/inputs/data, /kept/data   a range of the stream of these files (Range, If-Match)
POST /ACTIVATION/outputs                  starts to send outputs: their list; the answer has the position, and an ETag
GET /ACTIVATION/outputs                   the position where the sender continues (If-Match)
PUT /ACTIVATION/outputs/data              a range of the stream of outputs (Content-Range, If-Match)
POST /ACTIVATION/outputs/place            brings the complete outputs to their destinations; the answer is the result
POST /datagrams/NAME                      exchanges datagrams with an execution point (``fabric/second_path``)
========================================  ==============================================================================

The transfer key, or the key for datagrams, is the bearer token of each request. Answers: 403 another key, 404 unknown
activation (it may be offered later), 409 a file that cannot be read, 412 another list of files than that of If-Match.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ...domain.state.peers import EXECUTION_POINT, peer_name
from ..fabric.second_path import DECODE, ENCODE, LARGEST_REQUEST
from ..machine.execution.supervisor.file_pieces import Layout, read_pieces
from ..machine.execution.supervisor.rights import acting_as
from ..machine.execution.supervisor.usage_meter import TransferError
from .incoming import fields_of
from .offers import PARTS, Offer, Offers, StaleRequest

T = TypeVar("T")
Exchange = Callable[[str, list[bytes]], list[bytes]]
_THREADS = 32  #: maximum number of files that are read and written at the same time
_SILENCE_S = 60.0  #: a sender that sends nothing for so long is disconnected
_PLACING_S = 15.0  #: if bringing outputs to their destinations takes longer, the client asks again
_LARGEST_LIST = 256 << 20
_BLOCK = 1 << 20
_RANGE = re.compile(r"bytes[= ]([0-9]{1,18})-([0-9]{1,18})(?:/[0-9]+)?")


def files_app(
    offers: Offers,
    exchange: Exchange = lambda peer, datagrams: [],
    reject: Callable[[Request], None] = lambda request: None,
) -> Starlette:
    """Return the application. Mount it where the base URLs in ``LaunchRequest.access_point`` point to. ``exchange``
    receives the datagrams of a peer, and returns those for it; ``reject`` is called with requests with a wrong key."""

    async def forbid(request: Request, error: Exception) -> Response:
        reject(request)
        return Response(status_code=403)

    app = _FilesApp(offers, exchange)
    return Starlette(
        routes=[
            Route("/datagrams/{name:path}", app.exchange_datagrams, methods=["POST"]),
            Route("/{activation}/outputs", app.begin_outputs, methods=["POST"]),
            Route("/{activation}/outputs", app.position, methods=["GET"]),
            Route("/{activation}/outputs/data", app.receive, methods=["PUT"]),
            Route("/{activation}/outputs/place", app.place, methods=["POST"]),
            Route("/{activation}/{part}", app.list_files, methods=["GET"]),
            Route("/{activation}/{part}/data", app.send, methods=["GET"]),
        ],
        exception_handlers={
            403: forbid,
            StaleRequest: _precondition_failed,
            ValueError: _bad_request,
            ClientDisconnect: _bad_request,
        },
    )


async def _precondition_failed(request: Request, error: Exception) -> Response:
    return Response(status_code=412)


async def _bad_request(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)


class _FilesApp:
    def __init__(self, offers: Offers, exchange: Exchange) -> None:
        self._offers, self._exchange = offers, exchange
        self._threads = ThreadPoolExecutor(_THREADS, "files")

    def _offer(self, request: Request) -> Offer:
        """Return the activation that a request is about. Raise `HTTPException` if its key is not authorized."""
        offer = self._offers.find(request.path_params["activation"])
        if offer is None:
            raise HTTPException(404)
        _check_key(request, self._offers.key(offer.order["key"], offer.run))
        return offer

    async def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, functools.partial(work, *arguments))

    async def exchange_datagrams(self, request: Request) -> Response:
        name = request.path_params["name"]
        _check_key(request, self._offers.datagram_key(name))
        datagrams = DECODE(await _read_body(request, LARGEST_REQUEST))
        return Response(ENCODE(self._exchange(peer_name(EXECUTION_POINT, name), datagrams)))

    # Inputs

    async def list_files(self, request: Request) -> Response:
        offer, part = self._offer(request), _part(request)
        listing = await self._run(offer.list_files, part)
        return Response(listing.text, media_type="application/json", headers={"ETag": listing.tag})

    async def send(self, request: Request) -> Response:
        """Send a range of the stream of a job's inputs. If its first file cannot be read, answer why, unless the list
        is out of date; if another one cannot be read, end early, and the client requests the rest."""
        offer, part = self._offer(request), _part(request)
        listing = await self._run(offer.list_files, part)
        if request.headers.get("If-Match") != listing.tag:
            raise StaleRequest
        begin, end = _range(request.headers.get("Range", ""), listing.layout)
        blocks = _Blocks(read_pieces(listing.layout, begin, end), offer)
        try:
            first = await self._run(blocks.read)
        except TransferError as error:
            offer.forget_list(part)
            if (await self._run(offer.list_files, part)).tag != listing.tag:
                raise StaleRequest from None
            return JSONResponse({"failure": fields_of(error)}, 409)

        async def stream() -> AsyncIterator[bytes]:
            block = first
            try:
                while block:
                    yield block
                    block = await self._run(blocks.read)
            except TransferError:
                return
            finally:
                blocks.close()
                if end == listing.layout.length:
                    offer.forget_list(part)

        headers = {"Content-Range": f"bytes {begin}-{end - 1}/{listing.layout.length}"}
        return StreamingResponse(stream(), 206, headers, "application/octet-stream")

    # Outputs

    async def begin_outputs(self, request: Request) -> Response:
        offer = self._offer(request)
        tag, position = await self._run(offer.begin_outputs, await _read_body(request, _LARGEST_LIST))
        return JSONResponse({"position": position}, headers={"ETag": tag})

    async def position(self, request: Request) -> Response:
        offer, tag = self._offer(request), request.headers.get("If-Match", "")
        return JSONResponse({"position": await self._run(offer.resume, tag)})

    async def receive(self, request: Request) -> Response:
        """Receive a range of the stream of outputs. Read the whole request even if the rest is not needed, because the
        client reads no answer before it has sent everything. If the connection breaks, keep what has arrived."""
        offer, tag = self._offer(request), request.headers.get("If-Match", "")
        match = _RANGE.fullmatch(request.headers.get("Content-Range", ""))
        if match is None:
            raise ValueError("the range is invalid")
        sender = await self._run(offer.start_sending, tag, int(match[1]))
        is_needed, block = bool(sender), bytearray()
        try:
            async for data in body_of(request):
                block += data
                if is_needed and len(block) >= _BLOCK:
                    is_needed = await self._run(offer.receive, sender, bytes(block))
                if not is_needed or len(block) >= _BLOCK:
                    block.clear()
        finally:
            if is_needed and block:
                await self._run(offer.receive, sender, bytes(block))
        return JSONResponse({"position": await self._run(offer.position, tag)})

    async def place(self, request: Request) -> Response:
        """Bring the outputs to their destinations. If that takes long, answer 202, and the client asks again."""
        offer, tag = self._offer(request), request.headers.get("If-Match", "")
        placing = asyncio.ensure_future(self._run(offer.place_outputs, tag))
        done, _ = await asyncio.wait([placing], timeout=_PLACING_S)
        return JSONResponse(placing.result() if done else {}, 200 if done else 202)


class _Blocks:
    """Reads blocks of files with the rights of their owner."""

    def __init__(self, blocks: Iterator[bytes], offer: Offer) -> None:
        self._blocks = blocks
        self._rights = offer.rights

    def read(self) -> bytes:
        """Return the next block, or nothing at the end. Raise `TransferError` if a file cannot be read."""
        with acting_as(self._rights):
            return next(self._blocks, b"")

    def close(self) -> None:
        self._blocks.close()  # type: ignore[attr-defined]


def _check_key(request: Request, key: str) -> None:
    kind, _, text = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(key.encode(), text.encode()):
        raise HTTPException(403)


async def _read_body(request: Request, longest: int) -> bytes:
    body = bytearray()
    async for data in body_of(request):
        body += data
        if len(body) > longest:
            raise ValueError("the request is too large")
    return bytes(body)


def _part(request: Request) -> str:
    part: str = request.path_params["part"]
    if part not in PARTS:
        raise HTTPException(404)
    return part


def _range(text: str, layout: Layout) -> tuple[int, int]:
    """Return the begin and the end of a range. Raise `ValueError` if it is not in the stream."""
    match = _RANGE.fullmatch(text)
    if match is None or not int(match[1]) <= int(match[2]) < layout.length:
        raise ValueError("the range is invalid")
    return int(match[1]), int(match[2]) + 1


async def body_of(request: Request) -> AsyncIterator[bytes]:
    """Yield the body of a request. Raise `ClientDisconnect` if the client sends nothing for too long."""
    blocks = request.stream()
    while True:
        try:
            data = await asyncio.wait_for(anext(blocks, b""), _SILENCE_S)
        except TimeoutError:
            raise ClientDisconnect from None
        if not data:
            return
        yield data
