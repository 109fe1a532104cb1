"""Which jobs cannot be matched yet because of the time, and when the schedules of jobs are read again.

Looked at anew when something happens to the jobs of a cluster, and at the instants that were found then
(``domain/schedd/deferral``). Clusters whose Requirements do not name the clock cost one look.
"""

from __future__ import annotations

import heapq
from datetime import tzinfo

from attrs import define, field

from ...domain.classad import Context
from ...domain.decision.draft import ranges
from ...domain.events import Procs
from ...domain.schedd.crontab import ATTRIBUTES
from ...domain.schedd.deferral import SECOND, asleep, expiry, has_schedule, names_read, timed_parts
from ...domain.state.caches import ad_of
from ...domain.state.cluster import IDLE, Cluster
from ...domain.state.state import State


@define
class _Sleepers:
    """What was found of a cluster's idle jobs."""

    local: bool
    asleep: int = 0  #: how many cannot be matched yet
    due: int | None = None  #: when some may be, or have missed the time of their schedule, in microseconds
    scheduled: bool = False  #: whether any has a schedule
    expired: list[int] = field(factory=list)  #: those that have a schedule and have missed its time


@define
class Deferrals:
    """``follow`` brings it up to date; all else is what was found then."""

    asleep: int = 0  #: how many jobs that wait for a slot cannot be matched yet
    asleep_local: int = 0  #: how many jobs of the local universe cannot begin yet
    _seen: int = -1
    _clusters: dict[int, _Sleepers] = field(factory=dict)
    _agenda: list[tuple[int, int]] = field(factory=list)

    def reset(self) -> None:
        """Look at everything again, of another state."""
        self._seen, self.asleep, self.asleep_local = -1, 0, 0
        self._clusters.clear()
        self._agenda.clear()

    def follow(self, state: State, now: int, zone: tzinfo) -> bool:
        """Take in what has changed until now. Return whether the time alone may have woken any job."""
        changed = state.job_changes.since(self._seen)
        self._seen = state.job_changes.total
        numbers = state.clusters if changed is None else dict.fromkeys(number for number, _ in changed)
        woken = []
        while self._agenda and self._agenda[0][0] <= now:
            _, number = heapq.heappop(self._agenda)
            found = self._clusters.get(number)
            if found is not None and found.due is not None and found.due <= now:
                woken.append(number)
        for number in dict.fromkeys((*numbers, *woken)):
            self._look(state, number, now, zone)
        return bool(woken)

    def next(self) -> int | None:
        """The instant at which the next job wakes, or misses the time that its schedule gave it."""
        agenda = self._agenda
        while agenda and not self._stands(*agenda[0]):
            heapq.heappop(agenda)
        return agenda[0][0] if agenda else None

    def _stands(self, when: int, number: int) -> bool:
        found = self._clusters.get(number)
        return found is not None and found.due == when

    def expired(self) -> tuple[tuple[int, Procs], ...]:
        """The jobs that have missed the time that their schedule gave them."""
        return tuple((number, ranges(found.expired)) for number, found in self._clusters.items() if found.expired)

    def scheduled(self, state: State) -> tuple[tuple[int, Procs], ...]:
        """The clusters in which any job that waits has a schedule, with all of their processes."""
        found = (number for number, each in self._clusters.items() if each.scheduled)
        return tuple((number, ((0, state.clusters[number].count - 1),)) for number in found)

    def _look(self, state: State, number: int, now: int, zone: tzinfo) -> None:
        before = self._clusters.pop(number, None)
        if before is not None:
            self._count(before, -1)
        cluster = state.clusters.get(number)
        if cluster is None or not _may_sleep(cluster):
            return
        found = _sleepers(cluster, now, zone)
        self._clusters[number] = found
        self._count(found, 1)
        if found.due is not None:
            heapq.heappush(self._agenda, (found.due, number))

    def _count(self, found: _Sleepers, times: int) -> None:
        if found.local:
            self.asleep_local += times * found.asleep
        else:
            self.asleep += times * found.asleep


def _may_sleep(cluster: Cluster) -> bool:
    """Return whether any job of the cluster may have Requirements that name the clock, or a schedule. Every cluster is
    asked whenever its jobs change: of most, a look at two texts is enough."""
    if cluster.variants.names or cluster.edited:
        varied = {name.lower() for name in cluster.variants.names} | cluster.edited
        given = {name.lower() for name in cluster.ad} | varied
        if not _SCHEDULE.isdisjoint(given) or "requirements" in varied:
            return True
    # A schedule under other letters has given its jobs a DeferralTime, which counts as edited.
    return not cluster.ad.keys().isdisjoint(ATTRIBUTES) or bool(timed_parts(cluster.ad.get("Requirements", "")))


_SCHEDULE = frozenset(name.lower() for name in ATTRIBUTES)


def _sleepers(cluster: Cluster, now: int, zone: tzinfo) -> _Sleepers:
    """Look at the idle jobs of a cluster: once at those that are alike in what matters."""
    found = _Sleepers(cluster.local)
    first = cluster.next_idle()
    if first < 0:
        return found
    ads = {first: ad_of(cluster.attributes(first))}
    names = names_read(cluster.wish(first, "Requirements"), ads[first])
    if all(cluster.agree(name) for name in names):
        groups = {first: cluster.counts[IDLE]}
        members = {first: cluster.procs(IDLE.__eq__)}
    else:
        together = cluster.variants.names.isdisjoint(names)
        kinds: dict[int, list[int]] = {}
        for proc in cluster.procs(IDLE.__eq__):
            kinds.setdefault(cluster.of[proc] if together else proc, []).append(proc)
        groups = {procs[0]: len(procs) for procs in kinds.values()}
        members = {procs[0]: iter(procs) for procs in kinds.values()}
    instants = []
    context = Context(now=now // SECOND, seed=now // SECOND, timezone=zone)
    for proc, number in groups.items():
        ad = ads[proc] if proc in ads else ad_of(cluster.attributes(proc))
        sleep = asleep(cluster.wish(proc, "Requirements"), ad, now, zone)
        if sleep is not None:
            found.asleep += number
            if sleep.until is not None:
                instants.append(sleep.until)
        if has_schedule(cluster, proc):
            found.scheduled = True
            last = expiry(ad, context)
            if last is None or now // SECOND > last:
                found.expired += members[proc]
            else:
                instants.append(last + 1)
    found.due = min(instants, default=0) * SECOND or None
    found.expired.sort()
    return found
