"""``poolbook metrics``: publish a pool's metrics to Prometheus and Ganglia."""

from __future__ import annotations

import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ..condor_tools.options import Arguments, ToolError, command_table, parse
from ..machine.host import host_name
from .common import selected_log

if TYPE_CHECKING:
    from ..metrics.http_service import MetricsService
    from ..metrics.publisher import Settings

METRICS = command_table("metrics")


def metrics(argv: Sequence[str]) -> int:
    from ...domain.config import ConfigError

    try:
        return _publish(parse(METRICS, argv))
    except ConfigError as error:
        raise ToolError(f"poolbook metrics: {error}") from None


def _publish(arguments: Arguments) -> int:
    from ..metrics.exposition import Family, text_format
    from ..metrics.publisher import GANGLIAD, METRICD, Publisher, Settings
    from ..runtime.config_sources import config_files
    from ..runtime.configuration import load

    url = selected_log(arguments)
    if arguments.has("history"):
        from ..metrics.history_keeper import keep_history

        files = [path.absolute() for path in config_files(arguments.values("config"))]
        keep_history(url, load(files, subsystem="COLLECTOR"), _Stop(arguments.has("stdin")).wait)
        return 0
    daemon = GANGLIAD if arguments.has("gangliad") else METRICD
    files = [path.absolute() for path in config_files(arguments.values("config"))]
    settings = Settings(daemon, load(files, subsystem=daemon))
    explain = _warn if arguments.has("verbose") else _ignore
    with closing(Publisher(url, settings, _warn, explain)) as publisher:
        if arguments.has("once"):
            cycle = publisher.publish()
            print(text_format(cycle.families) or f"sent {cycle.sent} metrics to Ganglia\n", end="")
            return 0
        service = None if daemon == GANGLIAD else _service(settings)

        def show(families: list[Family]) -> None:
            if service is not None:
                service.families = families

        try:
            publisher.run(_Stop(arguments.has("stdin")).wait, show)
        finally:
            if service is not None:
                service.close()
    return 0


def _warn(problem: str) -> None:
    print(f"poolbook metrics: {problem}", file=sys.stderr, flush=True)


def _ignore(problem: str) -> None:
    """Report nothing."""


def _service(settings: Settings) -> MetricsService | None:
    """Return the service at PROMETHEUS_HTTP_PORT, or None if the port is negative or not set."""
    from ..metrics.http_service import MetricsService

    configuration = settings.configuration
    if configuration.source("PROMETHEUS_HTTP_PORT").kind == "default":  # HTCondor's shared port, which does not exist
        return None
    port = configuration.integer("PROMETHEUS_HTTP_PORT", -1)
    if port < 0:
        return None
    passwords = configuration.get("PROMETHEUS_HTTP_AUTH_FILE").strip()
    service = MetricsService(
        configuration.get("NETWORK_INTERFACE").strip("* "), port, Path(passwords) if passwords else None
    )
    print(f"poolbook: metrics at http://{host_name()}:{service.port}/metrics; Ctrl-C stops them", flush=True)
    return service


class _Stop:
    """Waits for a signal or, with ``at_eof``, for the end of standard input."""

    def __init__(self, at_eof: bool) -> None:
        self._out, self._in = socket.socketpair()
        self._out.setblocking(False)
        signal.set_wakeup_fd(self._out.fileno())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        self._sources = [self._in, *([sys.stdin] if at_eof else [])]

    def wait(self, seconds: float) -> bool:
        return bool(select.select(self._sources, [], [], seconds)[0])
