"""Looking again and again, until a time is over or somebody says that it is enough."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from threading import Event

from .values import seconds_of


def looks(interval: float, timeout: float | None = None, stop: Event | None = None) -> Iterator[None]:
    """Yield at once, then every `interval` seconds; the last time when `timeout` seconds are over since this call
    (None: never), or `stop` was set.

    :raises ValueError: one of them is no length of time
    """
    pause = seconds_of(interval, "interval")
    end = math.inf if timeout is None else time.monotonic() + seconds_of(timeout, "timeout")
    return _looks(pause, end, stop or Event())


def _looks(pause: float, end: float, enough: Event) -> Iterator[None]:
    while True:
        yield
        left = end - time.monotonic()
        if left <= 0 or enough.is_set():
            return
        enough.wait(min(pause, left))
