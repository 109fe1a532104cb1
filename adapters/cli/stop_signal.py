"""Wait until a program that serves is to stop."""

from __future__ import annotations

import select
import signal
import socket
import sys


class StopSignal:
    """Waits for a signal or, with ``at_eof``, for the end of standard input."""

    def __init__(self, at_eof: bool) -> None:
        self._out, self._in = socket.socketpair()
        self._out.setblocking(False)
        signal.set_wakeup_fd(self._out.fileno())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._sources = [self._in, *([sys.stdin] if at_eof else [])]

    def wait(self, seconds: float | None = None) -> bool:
        """Return True once the program is to stop, or False after a number of seconds."""
        return bool(select.select(self._sources, [], [], seconds)[0])
