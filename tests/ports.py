"""A free port for the servers of tests."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
