"""Publish a pool's metrics at regular intervals: reads the log and its views, but never writes to the log.

The settings are the same as for condor_metricd, or condor_gangliad (``GANGLIAD_`` settings, Ganglia only).
"""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from attrs import define, field, frozen

from ...domain.classad import ClassAd, Context
from ...domain.config import ConfigError, Configuration
from ...domain.events import WriterBegan
from ..bounded_text import output_of
from ..machine.host import host_name
from ..machine.local_time import local_time
from ..replaced_files import replace_file
from ..runtime.queries import Queries
from .definitions import read_definitions
from .evaluation import Evaluator, Metric
from .exposition import Family, text_format
from .ganglia import GangliaSender, destinations, hosts_in_gstat
from .monitored_pools import MonitoredPools
from .pool_metrics import pool_metrics
from .prometheus import FamilyBuilder, read_labels
from .resets import Resets
from .schedd_statistics import ScheddStatistics

METRICD, GANGLIAD = "METRICD", "GANGLIAD"
DEFAULT_DEFINITIONS: Final = Path(__file__).parent / "definitions"
"""The definitions that apply if no others are installed."""
NO_LIBRARY: Final = "NOOP"  #: the value of GANGLIA_LIB with which nothing is sent
_HEARTBEAT_S: Final = 20
_GSTAT_S: Final = 30
_DAEMONS = ("Scheduler", "Negotiator", "Collector", "Machine")


class Cycle(NamedTuple):
    """What an update published: the families for Prometheus, and the number of metrics sent to Ganglia."""

    families: list[Family]
    sent: int


@frozen
class Settings:
    """The settings of one daemon."""

    daemon: str
    configuration: Configuration

    @property
    def _ganglia(self) -> str:
        """What the names of some settings for Ganglia begin with."""
        return GANGLIAD if self.daemon == GANGLIAD else "GANGLIA"

    @property
    def interval(self) -> int:
        """Seconds between updates; negative: no updates."""
        return self.configuration.integer(f"{self.daemon}_INTERVAL", 60)

    @property
    def resets(self) -> Resets | None:
        if not self.configuration.boolean(f"{self._ganglia}_WANT_RESET_METRICS", self.daemon == METRICD):
            return None
        path = self.configuration.get(f"{self._ganglia}_RESET_METRICS_FILE").strip() or "metricsToReset"
        suffix = ".ganglia_metrics"
        file = Path(self.configuration.get("SPOOL"), path if path.endswith(suffix) else path + suffix)
        return Resets(file) if file.parent.is_dir() else None

    def evaluator(self, system: str) -> Evaluator:
        name = f"{self.daemon}_METRICS_CONFIG_DIR"
        folder = self.configuration.get(name).strip()
        if not os.path.isdir(folder) and self.configuration.source(name).kind == "default":
            folder = str(DEFAULT_DEFINITIONS)
        verbosity = self.configuration.integer(f"{self.daemon}_VERBOSITY", 0)
        defaults = {
            name: self.configuration.get(f"{self._ganglia}_DEFAULT_{name.upper()}")
            for name in ("Cluster", "Machine", "IP")
        }
        return Evaluator(
            system,
            read_definitions(folder, verbosity, defaults if system == "ganglia" else {}),
            verbosity,
            self.configuration.boolean(f"{self.daemon}_PER_EXECUTE_NODE_METRICS", True),
            self.configuration.get("METRICD_DEFAULT_EXPORT_METRIC") if self.daemon == METRICD else "",
        )

    def sender(self) -> GangliaSender | None:
        """Return the sender to Ganglia, or None if no gmond.conf is installed and none is named."""
        path = self.configuration.get("GANGLIA_CONFIG")
        lifetime = self.configuration.integer("GANGLIAD_MIN_METRIC_LIFETIME", 86400)
        if self.configuration.get("GANGLIA_LIB").strip() == NO_LIBRARY:
            return GangliaSender([], self.interval, lifetime)
        is_default = self.configuration.source("GANGLIA_CONFIG").kind == "default"
        if self.daemon == METRICD and is_default and not os.path.exists(path):
            return None
        return GangliaSender(destinations(path), self.interval, lifetime)

    def monitored_hosts(self) -> frozenset[str] | None:
        """Return the hosts that Ganglia monitors, or None if data are to be sent for all hosts."""
        if self.configuration.boolean("GANGLIA_SEND_DATA_FOR_ALL_HOSTS", False):
            return None
        command = shlex.split(self.configuration.get("GANGLIA_GSTAT_COMMAND"))
        try:
            return hosts_in_gstat(output_of(command, Path("/"), _GSTAT_S))
        except OSError as error:
            raise ConfigError(
                f"GANGLIA_GSTAT_COMMAND cannot be executed: {error.strerror}. It lists the hosts that Ganglia "
                "monitors; with GANGLIA_SEND_DATA_FOR_ALL_HOSTS = true, it is not needed"
            ) from None


@define
class Publisher:
    """Publishes the metrics of the pool whose log is at ``url``. ``warn`` is called with each problem once, and
    ``explain`` with each metric that cannot be published.

    :raises ConfigError: if a setting or a metric definition is invalid
    """

    url: str
    settings: Settings
    warn: Callable[[str], None]
    explain: Callable[[str], None] = lambda _: None
    now: Callable[[], float] = time.time
    _ganglia: Evaluator = field(init=False)
    _prometheus: Evaluator | None = field(init=False, default=None)
    _sender: GangliaSender | None = field(init=False)
    _resets: Resets | None = field(init=False)
    _labels: ClassAd = field(init=False, factory=ClassAd)
    _statistics: ScheddStatistics = field(init=False, factory=ScheddStatistics)
    _pools: MonitoredPools = field(init=False)
    _position: int = field(init=False, default=-1)
    _told: set[str] = field(init=False, factory=set)
    _processes: dict[int, object] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self._ganglia = self.settings.evaluator("ganglia")
        self._sender, self._resets = self.settings.sender(), self.settings.resets
        self._pools = MonitoredPools.of(self.settings.configuration, self.warn)
        library = self.settings.configuration.get("GANGLIA_LIB").strip()
        if library not in ("", NO_LIBRARY):
            reason = f"packets are sent without libganglia; only {NO_LIBRARY}, which sends none, has an effect"
            self._once(f"GANGLIA_LIB = {library} has no effect: {reason}", self.warn)
        if self.settings.daemon == METRICD:
            self._prometheus = self.settings.evaluator("prometheus")
            self._labels = read_labels(self.settings.configuration.get("PROMETHEUS_DEFAULT_LABELS"))

    @property
    def file(self) -> str:
        """The file for Prometheus, or an empty text."""
        if self.settings.daemon == GANGLIAD:
            return ""
        return self.settings.configuration.get("PROMETHEUS_METRICS_FILE").strip()

    def run(self, is_stopped: Callable[[float], bool], publish_families: Callable[[list[Family]], None]) -> None:
        """Publish until ``is_stopped``, which waits for so many seconds, returns True."""
        interval = self.settings.interval
        due = self.now() if interval >= 0 else float("inf")
        while True:
            if self.now() >= due:
                due += interval
                publish_families(self.publish().families)
            elif self._sender is not None:
                self._sender.send_heartbeats()
            if is_stopped(max(0.0, min(due - self.now(), _HEARTBEAT_S))):
                return

    def publish(self) -> Cycle:
        """Publish the metrics once."""
        now = int(self.now())
        context = Context(now=now, timezone=local_time())
        if self._pools.pools:
            pool, ads = host_name(), list(self._selected(self._pools.ads(now), now))
            families = self._families(ads, pool, context)
        else:
            pool, ads, families = self._of_own_pool(now, context)
        sent = self._send(ads, pool, context)
        if self.file:
            self._write(text_format(families))
        self._report()
        return Cycle(families, sent)

    def families(self) -> list[Family]:
        """Return the families of the pool's metrics, without publishing them. Raise `ConfigError` for an import."""
        now = int(self.now())
        return self._of_own_pool(now, Context(now=now, timezone=local_time()))[2]

    def _of_own_pool(self, now: int, context: Context) -> tuple[str, list[ClassAd], list[Family]]:
        """Return the name of the log's pool, its ads, and the families of its metrics."""
        with Queries(self.url) as queries:
            if queries.imported:
                why = "was imported, and `poolbook metrics` describes a pool of its own log"
                raise ConfigError(f"{self.url} {why}; `poolbook usage` shows what an imported pool has done")
            self._read_events(queries)
            ads = list(self._selected(self._own_ads(queries, now), now))
            pool = queries.views.pool().name
            families = self._families(ads, pool, context)
            if self._prometheus is not None:
                families += pool_metrics(queries.views, self._statistics, self._position)
        return pool, ads, families

    def _families(self, ads: list[ClassAd], pool: str, context: Context) -> list[Family]:
        if self._prometheus is None:
            return []
        with_time = self.settings.configuration.boolean("PROMETHEUS_METRICS_INCLUDE_TIMESTAMP", True)
        builder = FamilyBuilder(self._labels, pool, with_time, self._prometheus.problems)
        metrics: Iterator[Metric] = (metric for _, metric in self._prometheus.evaluate(ads, pool, context))
        return builder.families(metrics, context)

    def _send(self, ads: list[ClassAd], pool: str, context: Context) -> int:
        if self._sender is None:
            return 0
        if self._sender.destinations:
            self._sender.hosts = self.settings.monitored_hosts()
        metrics = list(self._ganglia.evaluate(ads, pool, context))
        ended = self._resets.ended(metrics) if self._resets is not None else []
        return self._sender.send([*ended, *(metric for _, metric in metrics)])

    def _read_events(self, queries: Queries) -> None:
        """Read the events since the last update, or since the log's writer began."""
        if self._position < 0:
            began = [position for position, event in queries.log.read_stream("pool") if isinstance(event, WriterBegan)]
            self._position = began[-1] - 1 if began else 0
        for position, event in queries.log.read(self._position, queries.views.position - self._position):
            self._statistics.fold(event)
            self._position = position

    def _own_ads(self, queries: Queries, now: int) -> Iterator[ClassAd]:
        """Yield the pool's ads with what only this process knows: statistics and the server's process."""
        process = self._process_attributes()
        for ad in queries.ads("", now):
            kind = ad.eval("MyType")
            if kind == "Scheduler":
                ad.update(self._statistics.attributes())
            if kind in _DAEMONS and ad.eval("Machine") == host_name():
                ad.update(process)
            yield ad

    def _selected(self, ads: Iterable[ClassAd], now: int) -> Iterator[ClassAd]:
        """Yield the ads that METRICD_REQUIREMENTS selects, with addresses."""
        requirements = self.settings.configuration.expression(f"{self.settings.daemon}_REQUIREMENTS")
        for ad in ads:
            address = _address(str(ad.eval("Machine")))
            if address and "MyAddress" not in ad:
                ad["MyAddress"] = f"<{address}:0>"
            ad["LastHeardFrom"] = now
            if requirements is None or requirements.evaluate(ad, None, Context(now=now)) is True:
                yield ad

    def _process_attributes(self) -> dict[str, float]:
        """Return HTCondor's attributes of a daemon's own process, for the process that writes the log."""
        import psutil

        from ..stores.log_paths import WriterLock

        try:
            process = self._processes.get(pid := int(WriterLock(self.url).holder()))
            if not isinstance(process, psutil.Process) or not process.is_running():
                self._processes = {pid: (process := psutil.Process(pid))}
            memory = process.memory_info()
            return {
                "MonitorSelfAge": int(self.now() - process.create_time()),
                "MonitorSelfCPUUsage": process.cpu_percent() / 100,
                "MonitorSelfImageSize": memory.vms / 1024,
                "MonitorSelfResidentSetSize": memory.rss // 1024,
            }
        except (ValueError, psutil.Error):  # the pool is not served, or on another machine
            return {}

    def _write(self, text: str) -> None:
        try:
            replace_file(Path(self.file), text)
        except OSError as error:
            self._once(f"PROMETHEUS_METRICS_FILE = {self.file} cannot be written: {error.strerror}", self.warn)

    def _report(self) -> None:
        for evaluator in (self._ganglia, self._prometheus):
            for problem in evaluator.problems if evaluator is not None else ():
                self._once(problem, self.explain)

    def _once(self, problem: str, report: Callable[[str], None]) -> None:
        if problem not in self._told:
            self._told.add(problem)
            report(problem)

    def close(self) -> None:
        if self._sender is not None:
            self._sender.close()


@lru_cache(maxsize=10_000)
def _address(machine: str) -> str:
    try:
        return socket.gethostbyname(machine)
    except OSError:
        return ""
