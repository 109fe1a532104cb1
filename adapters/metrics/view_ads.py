"""The ads that a view server holds: the ads that pools forward, and its own."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from attrs import define, field

from ...domain.classad import ClassAd
from ..condor_tools.cells import number
from ..https.messages import Advertise
from ..machine.host import host_name
from ..runtime.pool_ads import PoolInstant, daemon_ad

_Key = tuple[str, str]
_HOSTS = ("Claimed", "Owner", "Unclaimed")


@define
class _AdsOfType:
    """The ads of one type of one pool, by name and schedd, each with its round; and when the last ones arrived."""

    heard: float = 0
    ads: dict[_Key, tuple[float, ClassAd]] = field(factory=dict)


@define
class ViewAds:
    """The ads, by sender, log and type. Several threads may use it. An ad ends when a later round of its pool lacks
    it, or ``lifetime`` seconds (CLASSAD_LIFETIME) after its pool was last heard."""

    lifetime: int
    since: int  #: when the view server was started
    _held: dict[tuple[str, str, str], _AdsOfType] = field(factory=dict)
    _lock: Lock = field(factory=Lock)

    def update(self, sender: str, sent: Advertise, ads: list[ClassAd], now: float) -> None:
        """Hold the ads of a request. Each ad's CollectorHost becomes the name of its pool."""
        with self._lock:
            held = self._held.setdefault((sender, sent.log, sent.type), _AdsOfType())
            for ad in ads:
                ad["CollectorHost"], ad["LastHeardFrom"] = sent.pool, int(now)
                held.ads[ad.text("Name"), ad.text("ScheddName")] = sent.round, ad
            if sent.is_last:
                held.ads = {key: entry for key, entry in held.ads.items() if entry[0] >= sent.round}
            held.heard = now

    def ads(self, kind: str, now: float) -> Iterator[ClassAd]:
        """Yield the ads with this MyType (or all ads if it is empty)."""
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if held.heard + self.lifetime > now}
            by_type = [(type, [ad for _, ad in held.ads.values()]) for (_, _, type), held in self._held.items()]
        for type, ads in by_type:
            if kind in (type, ""):
                yield from ads
        own = {ad.eval("MyType"): ad for ad in self._own_ads(by_type, int(now))}
        yield from (ad for type, ad in own.items() if kind in (type, ""))

    def _own_ads(self, by_type: list[tuple[str, list[ClassAd]]], now: int) -> Iterator[ClassAd]:
        instant, name = PoolInstant(host_name(), now, self.since), host_name()
        slots = [ad for type, ads in by_type if type == "Machine" for ad in ads]
        submitters = [ad for type, ads in by_type if type == "Submitter" for ad in ads]
        states = [slot.text("State") for slot in slots]
        ad = daemon_ad("Collector", name, name, instant)
        ad.update({f"Hosts{state}": states.count(state) for state in _HOSTS})
        ad.update({each: sum(number(ad, each) or 0 for ad in submitters) for each in ("RunningJobs", "IdleJobs")})
        ad["HostsTotal"], ad["SubmitterAds"], ad["ViewServer"] = len(slots), len(submitters), True
        yield ad
        yield daemon_ad("DaemonMaster", name, name, instant)
