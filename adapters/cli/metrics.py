"""``poolbook metrics``: publish a pool's metrics to Prometheus and Ganglia."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ..condor_tools.options import Arguments, ToolError, UsageError, command_table, parse
from ..machine.host import host_name
from .common import selected_log
from .stop_signal import StopSignal

if TYPE_CHECKING:
    from ...domain.config import Configuration
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
    files = [path.absolute() for path in config_files(arguments.values("config"))]
    if arguments.has("history", "send-ads", "view-server"):
        local_name = arguments.value("local-name")
        return _serve_collector(arguments, url, lambda: load(files, subsystem="COLLECTOR", local_name=local_name))
    if option := arguments.last("listen", "local-name"):
        raise UsageError(f"{option.spelling}: use this option only with -view-server")
    daemon = GANGLIAD if arguments.has("gangliad") else METRICD
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
            publisher.run(StopSignal(arguments.has("stdin")).wait, show)
        finally:
            if service is not None:
                service.close()
    return 0


def _serve_collector(arguments: Arguments, url: str, load: Callable[[], Configuration]) -> int:
    """Do what HTCondor's collector does besides its ads: keep the history, forward ads, or receive them."""
    stop = StopSignal(arguments.has("stdin"))
    if arguments.has("view-server"):
        from .view_server import serve_view

        serve_view(arguments, url, load, stop.wait, _warn)
    elif arguments.has("send-ads"):
        from ..metrics.view_sender import forward_ads

        if not load().get("CONDOR_VIEW_HOST").strip():
            raise ToolError("poolbook metrics: -send-ads: CONDOR_VIEW_HOST is not set; list the view servers in it")
        forward_ads(url, load(), stop.wait, _warn)
    else:
        from ..metrics.history_keeper import ads_of_log, keep_history

        keep_history(lambda now: ads_of_log(url, now), load(), stop.wait)
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
