"""Serve an ASGI application over HTTPS, in a thread of this process."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn

_IDLE_S = 75  #: a connection without a request is closed after so many seconds
_END_S = 5  #: how long requests may take after `HttpsServer.close`


class HttpsServer:
    """An HTTPS server. It logs no requests.

    :param host: the address to listen at
    :param port: the port; 0: a free one
    :param certificate: a file with the certificate chain (PEM)
    :param key: a file with the private key (PEM)
    """

    def __init__(self, app: Any, host: str, port: int, certificate: Path, key: Path) -> None:
        """Raise `OSError` if the port is in use, or a file cannot be read."""
        config = uvicorn.Config(
            app,
            ssl_certfile=str(certificate),
            ssl_keyfile=str(key),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_END_S,
        )
        config.load()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, args=([self._listener],), name="https", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server; requests in progress may complete."""
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()
