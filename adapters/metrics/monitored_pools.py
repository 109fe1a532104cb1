"""The pools in MONITOR_MULTIPLE_COLLECTORS, whose ads are monitored instead of the ads of the log's own pool.

Source: ``StatsD::getDaemonAds`` (gangliad/statsd.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import define, field

from ...domain.classad import ClassAd
from ...domain.config import ConfigError, Configuration
from ...domain.errors import PoolbookError
from ..runtime.elsewhere import address_of
from ..runtime.queries import Queries
from .evaluation import COLLECTOR_NAME

_SETTING: Final = "MONITOR_MULTIPLE_COLLECTORS"
_PAUSE_S: Final = 1800


@define
class MonitoredPools:
    """The pools: names, and managers (as for -pool) or logs. ``warn`` is called with each problem."""

    pools: list[tuple[str, str]]
    warn: Callable[[str], None]
    _paused: dict[str, float] = field(factory=dict)

    @classmethod
    def of(cls, configuration: Configuration, warn: Callable[[str], None]) -> MonitoredPools:
        """Raise `ConfigError` if an entry is not NAME/ADDRESS."""
        entries = [entry.partition("/") for entry in configuration.get(_SETTING).replace(",", " ").split()]
        for name, slash, address in entries:
            if not (name and slash and address):
                example = "use for example pool1/cm1.example:9618, pool2/cm2.example:9618"
                raise ConfigError(f"{_SETTING}: {name}{slash}{address} is not NAME/ADDRESS; {example}")
        return cls([(name, address) for name, _, address in entries], warn)

    def ads(self, now: int) -> Iterator[ClassAd]:
        """Yield the ads of all pools. A pool that does not answer is skipped for half an hour."""
        for name, address in self.pools:
            if now < self._paused.get(address, 0):
                continue
            try:
                for ad in _ads_of(address, now):
                    ad[COLLECTOR_NAME] = name
                    yield ad
            except (PoolbookError, OSError, ValueError) as error:
                self._paused[address] = now + _PAUSE_S
                self.warn(f"{_SETTING}: the ads of {name} cannot be read, which is tried again in 30 minutes: {error}")


def _ads_of(address: str, now: int) -> list[ClassAd]:
    if Path(address).exists():
        with Queries(address) as queries:
            return list(queries.ads("", now))
    from ..https.client import ManagerError
    from ..https.messages import Query
    from ..https.remote_pool import RemotePool

    reply = RemotePool(address_of(address, None)).query(Query("poolbook", "status", ["-any", "-jsonl"]))
    if reply.code:
        raise ManagerError(reply.err.strip())
    return [ClassAd.from_json(line) for line in reply.out.splitlines()]
