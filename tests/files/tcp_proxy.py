"""A TCP proxy that counts bytes and cuts connections."""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress


class TcpProxy:
    """Forwards connections to a port of this machine. Each connection is cut after as many bytes (of both directions
    together) as the next number in ``cuts``; when there are no more numbers, connections are not cut. The server reads
    all bytes before the cut. With ``stays_down``, further connections after a cut are closed immediately, until
    ``is_down`` is reset."""

    def __init__(self, target: int, cuts: Iterable[int] = (), stays_down: bool = False) -> None:
        self.target = target
        self.cuts = deque(cuts)
        self.stays_down, self.is_down = stays_down, False
        self.sent = self.received = 0  #: bytes from clients and to clients
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}/files"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.is_down:
                    client.close()
                    continue
                self.connections += 1
                threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        remaining = self.cuts.popleft() if self.cuts else 1 << 62
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self.target)) as server:
            while remaining > 0:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(min(remaining, 1 << 16))
                    if not data:
                        return
                    (server if source is client else client).sendall(data)
                    remaining -= len(data)
                    self.sent += len(data) if source is client else 0
                    self.received += len(data) if source is server else 0
                    if not remaining:
                        break
            self._end(server)
            self.is_down = self.stays_down

    def _end(self, server: socket.socket) -> None:
        """End a connection to the server, and wait until the server has read everything and ends it, too."""
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)
            while server.recv(1 << 16):
                pass
