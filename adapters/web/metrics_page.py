"""The metrics for Prometheus at /metrics: the families of `poolbook metrics`, computed at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from ...domain.config import ConfigError
from ..https.requests import Rejected
from ..metrics.exposition import OPEN_METRICS, TEXT, Family, open_metrics_format, text_format
from ..metrics.publisher import METRICD, Publisher, Settings
from .callers import Caller

if TYPE_CHECKING:
    from ...domain.config import Configuration

_KEPT_S: Final = 5.0


class MetricsPage:
    """:param load: reads the configuration, whose METRICD_ settings apply"""

    def __init__(self, url: str, load: Callable[[], Configuration]) -> None:
        self._url, self._load = url, load
        self._lock = Lock()
        self._publisher: Publisher | None = None
        self._families: list[Family] = []
        self._at = float("-inf")

    async def answer(self, request: Request, caller: Caller) -> Response:
        families = await run_in_threadpool(self._current)
        is_open = "application/openmetrics-text" in request.headers.get("accept", "")
        text = open_metrics_format(families) if is_open else text_format(families)
        return Response(text, headers={"Content-Type": OPEN_METRICS if is_open else TEXT})

    def _current(self) -> list[Family]:
        with self._lock:
            if time.monotonic() - self._at > _KEPT_S:
                try:
                    if self._publisher is None:
                        self._publisher = Publisher(self._url, Settings(METRICD, self._load()), lambda problem: None)
                    self._families = self._publisher.families()
                except ConfigError as error:
                    raise Rejected(404, "metrics", str(error)) from None
                self._at = time.monotonic()
            return self._families
