"""A connection to a NATS server: what the carrier uses of NATS's client protocol, always over TLS.

It differs from the library nats-py in three points. It never sends credentials to a server that does not begin TLS; it
can abandon a connection on which nothing arrives; and it asks the server to remove headers, so that no other role can
send headers that cannot be parsed. See https://docs.nats.io, "Client Protocol".
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from .credentials import Credentials

PORT = 4222
_LONGEST_LINE = 1 << 16
_LONGEST_MESSAGE = 8 << 20  #: bytes; a server with NATS's defaults sends at most 1 MB
_PATIENCE_S = 10.0  #: for each step of connecting; and nothing arrives for so long after a PING: the connection is lost


class NatsLink(asyncio.Protocol):
    """One connection. ``deliver`` is called with the subject and data of each message, and ``resume`` whenever the
    connection can accept more data."""

    def __init__(self, deliver: Callable[[str, bytes], None], resume: Callable[[], None]) -> None:
        self._deliver, self._resume = deliver, resume
        self._unread = bytearray()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._pong: asyncio.Future[None] | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.problem = ""

    async def connect(self, url: str, context: ssl.SSLContext, credentials: Credentials, name: str) -> None:
        """Connect, and return once the server has accepted the credentials.

        :raises OSError: the server cannot be reached, does not use TLS, or refuses the connection
        """
        address = urlsplit(url if "://" in url else f"tls://{url}")
        host = address.hostname or ""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_PATIENCE_S):
            plain, greeting = await loop.create_connection(_Greeting, host, address.port or PORT)
            try:
                info = await greeting.info
                # Whatever the greeting says: this also rejects a server, or an attacker, that does not begin TLS.
                self._transport = await loop.start_tls(plain, self, context, server_hostname=host)
            except BaseException:
                plain.abort()
                raise
            assert self._transport is not None
            self._send_line("CONNECT", _connect_options(info, credentials, name))
            await self._flush()

    async def subscribe(self, subjects: str) -> None:
        """Subscribe, and return once the server has confirmed it. Raise `OSError` if it refuses."""
        async with asyncio.timeout(_PATIENCE_S):
            self._send_line("SUB", subjects, "1")
            await self._flush()
        if self.problem:
            raise ConnectionError(self.problem)

    async def monitor(self, interval: float) -> None:
        """Check the connection every `interval` seconds. Raise `OSError` when it is lost, or the server does not
        answer."""
        while True:
            await asyncio.wait([self.lost], timeout=interval)
            async with asyncio.timeout(_PATIENCE_S):
                await self._flush()

    async def _flush(self) -> None:
        """Return once the server has processed all that was sent."""
        self._pong = asyncio.get_running_loop().create_future()
        self._send_line("PING")
        await asyncio.wait([self._pong, self.lost], return_when=asyncio.FIRST_COMPLETED)
        if self.lost.done():
            raise ConnectionError(self.problem or "the broker closed the connection")

    @property
    def accepts_data(self) -> bool:
        return self._transport is not None and not (self._is_paused or self._transport.is_closing())

    def publish(self, datagrams: list[tuple[str, bytes]]) -> None:
        """Send messages; each has a subject and data."""
        assert self._transport is not None
        parts = (
            part for subject, data in datagrams for part in (f"PUB {subject} {len(data)}\r\n".encode(), data, b"\r\n")
        )
        self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Close the connection after what was written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def _send_line(self, *words: str) -> None:
        if self._transport is not None:
            self._transport.write(f"{' '.join(words)}\r\n".encode())

    def connection_lost(self, error: Exception | None) -> None:
        self.problem = self.problem or (str(error) if error else "")
        if not self.lost.done():
            self.lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._resume()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        try:
            while self._take_line():
                pass
        except (ValueError, IndexError):
            self.problem = "the broker sent invalid data; name the URL of a NATS server"
            self.abort()

    def _take_line(self) -> bool:
        """Process the first line that has arrived, with the message after it; return False if it is incomplete. Raise
        `ValueError` or `IndexError` if it is invalid."""
        end = self._unread.find(b"\r\n", 0, _LONGEST_LINE)
        if end < 0:
            if len(self._unread) >= _LONGEST_LINE:
                raise ValueError("a line is too long")
            return False
        operation, _, rest = self._unread[:end].decode().partition(" ")
        end += 2
        if operation == "MSG":  # MSG SUBJECT SID [REPLY] SIZE
            words = rest.split()
            size = int(words[-1])
            if not 0 <= size <= _LONGEST_MESSAGE:
                raise ValueError("a message is too long")
            if len(self._unread) < end + size + 2:
                return False
            data = bytes(self._unread[end : end + size])
            end += size + 2
            self._deliver(words[0], data)
        elif operation == "PING":
            self._send_line("PONG")
        elif operation == "PONG":
            if self._pong is not None and not self._pong.done():
                self._pong.set_result(None)
        elif operation == "-ERR":
            self.problem = f"the broker reports {rest}"
        elif operation not in ("INFO", "+OK"):
            raise ValueError(f"unknown operation {operation[:20]!r}")
        del self._unread[:end]
        return True


class _Greeting(asyncio.Protocol):
    """Reads the server's first line, which it sends before TLS begins. What else arrives before is discarded."""

    def __init__(self) -> None:
        self.info: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._unread = b""

    def data_received(self, data: bytes) -> None:
        self._unread += data
        line, end, _ = self._unread.partition(b"\r\n")
        if self.info.done() or not (end or len(line) > _LONGEST_LINE):
            return
        try:
            self.info.set_result(json.loads(line.removeprefix(b"INFO ")))
        except ValueError:
            self.info.set_exception(ConnectionError("it does not greet as a NATS server does; name the URL of one"))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.info.done():
            self.info.set_exception(error or ConnectionError("the server closed the connection"))


def _connect_options(info: dict[str, Any], credentials: Credentials, name: str) -> str:
    options = {
        "verbose": False,
        "pedantic": False,
        "tls_required": True,
        "lang": "python3",
        "version": "poolbook",
        "protocol": 1,
        "headers": False,
        "name": name,
        "jwt": credentials.token,
        "sig": credentials.sign(str(info.get("nonce", ""))),
    }
    return json.dumps(options)
