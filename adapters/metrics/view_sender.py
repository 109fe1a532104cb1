"""Forward a pool's ads to the view servers in CONDOR_VIEW_HOST, as HTCondor's collector does.

Source: ``CollectorDaemon::forward_classad_to_view_collector`` (collector.cpp).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from ...domain.classad import ClassAd, Context
from ...domain.config import Configuration
from ...domain.errors import PoolbookError
from ..https.messages import Advertise
from ..https.remote_pool import RemotePool
from ..runtime.elsewhere import address_of
from ..runtime.queries import Queries

_TYPES: Final = ("Machine", "StartD", "Submitter")
"""The types of ads that are forwarded unless CONDOR_VIEW_CLASSAD_TYPES names others."""
_INTERVALS: Final = {"UPDATE_INTERVAL": 300, "POOL_HISTORY_SAMPLING_INTERVAL": 60}
"""The settings of which the shortest is the interval between rounds, with their defaults in seconds."""
_PAUSE_S: Final = 30  #: how long a view server is left alone after a failure
_PORTION: Final = 1000  #: ads in a request


def forward_ads(
    url: str, configuration: Configuration, is_stopped: Callable[[float], bool], warn: Callable[[str], None]
) -> None:
    """Forward the ads of the pool whose log is at ``url`` until ``is_stopped``, which waits for so many seconds,
    returns True. ``warn`` is called with each new problem of a view server."""
    hosts = configuration.get("CONDOR_VIEW_HOST").replace(",", " ").split()
    types = configuration.get("CONDOR_VIEW_CLASSAD_TYPES").replace(",", " ").split() or list(_TYPES)
    interval = max(1, min(configuration.integer(name, default) for name, default in _INTERVALS.items()))
    problems: dict[str, str] = {}
    paused: dict[str, float] = {}
    while True:
        now = time.time()
        with Queries(url) as queries:
            source = queries.log.id, queries.views.pool().name
            ads = [ad for ad in queries.ads("", int(now)) if ad.eval("ShouldForward") is not False]
        by_type = {kind: [ad for ad in ads if str(ad.eval("MyType")).lower() == kind.lower()] for kind in types}
        texts = {kind: [_text(ad, configuration, int(now)) for ad in ads] for kind, ads in by_type.items()}
        for host in hosts:
            if now < paused.get(host, 0):
                continue
            sent = {kind: _send(host, _requests(source, kind, now, each)) for kind, each in texts.items()}
            problem = "; ".join(dict.fromkeys(text for text in sent.values() if text))
            if problem and problem != problems.get(host):
                failed = ", ".join(kind for kind, text in sent.items() if text)
                warn(f"CONDOR_VIEW_HOST: {host} does not receive the ads of the types {failed}: {problem}")
            problems[host], paused[host] = problem, now + _PAUSE_S if problem else 0
        if is_stopped(interval):
            return


def _text(ad: ClassAd, configuration: Configuration, now: int) -> str:
    """Return an ad's text. COLLECTOR_FORWARD_PROJECTION selects attributes; MyType and names are kept."""
    projection = configuration.expression("COLLECTOR_FORWARD_PROJECTION")
    value = None if projection is None else projection.evaluate(ad, None, Context(now=now))
    if isinstance(value, str) and value.strip():
        names = {name.lower() for name in (*value.replace(",", " ").split(), "MyType", "Name", "ScheddName")}
        projected = ClassAd()
        for name in ad:
            if name.lower() in names:
                projected[name] = ad[name]
        ad = projected
    return ad.to_old()


def _requests(source: tuple[str, str], kind: str, now: float, texts: list[str]) -> Iterator[bytes]:
    for first in range(0, max(1, len(texts)), _PORTION):
        is_last = first + _PORTION >= len(texts)
        yield msgspec.json.encode(Advertise(*source, kind, now, texts[first : first + _PORTION], is_last))


def _send(host: str, requests: Iterable[bytes]) -> str:
    """Send requests to a view server; return why that failed, or an empty text. The user's tokens are read each time,
    since they may be replaced."""
    try:
        remote = RemotePool(address_of(host, None))
        for request in requests:
            remote.send(request)
    except (PoolbookError, OSError) as error:
        return str(error)
    return ""
