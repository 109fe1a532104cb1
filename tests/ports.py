"""Free ports for the servers of tests. As a program, it prints one that a page can use in place of a random number."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

LOWEST, END = 10_000, 62_000
AT_ONCE = 5
"""The ports after the printed one that are free, too, with itself."""
_generator = random.SystemRandom()


def free_port(count: int = 1) -> int:
    """Return a port of 127.0.0.1 on which no process listens, nor on the ``count`` - 1 ports after it. The kernel gives
    none of them to another socket, unless its range leaves too few."""
    first, last = _kernel_range()
    ports = [port for port in range(LOWEST, END) if port + count <= first or port > last]
    while True:
        port = _generator.choice(ports or range(LOWEST, END))
        with suppress(OSError), ExitStack() as sockets:
            for number in range(count):
                sockets.enter_context(socket.create_server(("127.0.0.1", port + number)))
            return port


def _kernel_range() -> tuple[int, int]:
    """Return the first and last port that the kernel chooses for sockets without one."""
    first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(first), int(last)


if __name__ == "__main__":
    print(free_port(AT_ONCE))
