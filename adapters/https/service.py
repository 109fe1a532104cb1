"""Serves an application over HTTPS, or over HTTP on this machine, in a thread."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...domain.errors import PoolbookError
from .messages import PORT
from .peers import peer_of

_MOST_CONNECTIONS: Final = 2000
_MOST_OF_A_CLIENT: Final = 500  #: connections from one address or, on this machine, from one user
_REQUEST_S: Final = 15  #: seconds after which a connection without a complete request is closed
_KEEP_ALIVE_S: Final = 30
_LARGEST_HEADER: Final = 40_000  #: bytes; a token has at most 16,384
_STOPPING_S: Final = 5
_BACKLOG: Final = 512


class ServiceError(PoolbookError):
    """The service cannot be started."""


class Address(NamedTuple):
    """Where a service listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse HOST, HOST:PORT, [IPV6]:PORT or :PORT (all addresses of this machine). Raise `ValueError`."""
        host, colon, port = text.rpartition(":")
        if not colon or (":" in host and not host.endswith("]")) or text.endswith("]"):
            host, port = text, str(PORT)
        if not port.isdecimal() or int(port) > 65_535:
            raise ValueError(f"{text!r} is not HOST:PORT; use for example 0.0.0.0:{PORT}")
        return cls(host.strip("[]") or "0.0.0.0", int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HttpsService:
    """A service that listens as soon as it is created, and serves from `start` to `close`."""

    def __init__(self, address: Address) -> None:
        """Listen. Raise `ServiceError` if the address cannot be used."""
        try:
            family, *_, place = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            self._socket = socket.create_server(place[:2], family=family, backlog=_BACKLOG)
            # Accepted connections inherit it. Otherwise each response waits 40 ms for an acknowledgement, since asyncio
            # sets it only on sockets whose protocol number is not 0.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            problem = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            is_used = error.errno == errno.EADDRINUSE
            fix = "stop the program that uses it (`ss -ltnp` lists them)" if is_used else "check the address"
            message = f"cannot listen on {address}: {problem}; {fix}, or use another port"
            raise ServiceError(message) from None
        self.address = Address(address.host, self._socket.getsockname()[1])
        self._server: uvicorn.Server | None = None
        self._thread: Thread | None = None

    def start(self, application: Starlette, certificate: Path | None, client_authority: Path | None = None) -> None:
        """Serve the application in a thread.

        :param certificate: the file with the private key and the certificates; None: serve HTTP without TLS
        :param client_authority: the file with the authority of client certificates; None: they are not requested
        """
        config = uvicorn.Config(
            application, http=_Connection, ws="none", lifespan="auto", loop="asyncio", log_config=None,
            log_level="critical", access_log=False, proxy_headers=False, server_header=False,
            limit_concurrency=_MOST_CONNECTIONS, timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_STOPPING_S, h11_max_incomplete_event_size=_LARGEST_HEADER,
            ssl_certfile=certificate, ssl_ca_certs=None if client_authority is None else str(client_authority),
            ssl_cert_reqs=ssl.CERT_NONE if client_authority is None else ssl.CERT_OPTIONAL,
        )  # fmt: skip
        config.load()
        if config.ssl is not None:
            config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="https", daemon=True)
        self._thread.start()

    def replace_certificate(self, certificate: Path) -> None:
        """Use another certificate for further connections."""
        if self._server is not None and self._server.config.ssl is not None:
            self._server.config.ssl.load_cert_chain(certificate)

    def close(self) -> None:
        """Stop serving; requests in progress have some seconds to end."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(2 * _STOPPING_S)
        self._socket.close()


class _Connection(H11Protocol):
    """A connection. The state of its requests contains ``peer``, the other end. It is closed if a request does not
    arrive completely in time, or if there are too many connections."""

    _is_awaited = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_of(transport)
        self.app_state = {**self.app_state, "peer": peer}
        own = sum(getattr(each, "app_state", {}).get("peer") == peer for each in self.connections)
        if len(self.connections) > _MOST_CONNECTIONS or own > _MOST_OF_A_CLIENT:
            transport.abort()
        else:
            self._await_request()

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is before and not self._is_busy and not self._is_awaited:
            self._await_request()

    @property
    def _is_busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _await_request(self) -> None:
        self._is_awaited = True
        self.loop.call_later(_REQUEST_S, self._close_without_request, self.cycle)

    def _close_without_request(self, cycle: object) -> None:
        self._is_awaited = False
        if self._is_busy or not (self.cycle is None or self.conn.trailing_data[0]):
            return
        if self.cycle is cycle:
            self.transport.abort()
        else:
            self._await_request()
