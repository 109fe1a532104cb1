"""Poll until a time is over or an event is set."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from threading import Event

from .python_values import seconds_of


def pauses(interval: float, timeout: float | None = None) -> Iterator[float]:
    """Yield the seconds to wait before each poll: 0 before the first one, then `interval`. The last poll is due when
    `timeout` seconds have passed since this call (None: never). Raise `ValueError` if one of them is no length of
    time."""
    pause = seconds_of(interval, "interval")
    end = math.inf if timeout is None else time.monotonic() + seconds_of(timeout, "timeout")
    return _pauses(pause, end)


def _pauses(pause: float, end: float) -> Iterator[float]:
    yield 0.0
    while (left := end - time.monotonic()) > 0:
        yield min(pause, left)


def looks(waits: Iterator[float], stop: Event | None = None) -> Iterator[None]:
    """Wait, and yield, until the waits end or `stop` is set: then yield once more."""
    enough = stop or Event()
    for pause in waits:
        over = enough.wait(pause)
        yield
        if over:
            return
