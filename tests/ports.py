"""A free port for the servers of tests."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

_generator = random.SystemRandom()


def free_port() -> int:
    """Return a port of 127.0.0.1 on which no process listens. The kernel gives such a port to no other socket: its own
    choices begin at 32768."""
    while True:
        port = _generator.randrange(10_000, 32_768)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
