"""Which jobs cannot be matched yet because of the time, and when the schedules of jobs are read again.

All of it follows from the jobs and the time. A cluster is evaluated again when something happens to its jobs, and at
the instants computed then (``job_deferral``). A cluster whose Requirements do not name the clock is evaluated once.
"""

from __future__ import annotations

from msgspec import Struct, field

from ..classad import Context
from ..decision.draft import ranges
from ..decision.moment import Moment
from ..events import Procs
from ..state.agenda import Agenda
from ..state.caches import ad_of
from ..state.cluster import IDLE, Cluster
from ..state.state import AccessPoint
from ..units import SECOND
from .crontab import ATTRIBUTES
from .job_deferral import asleep, expiry, has_schedule, names_read, timed_parts


class _Sleepers(Struct):
    """The state of a cluster's idle jobs."""

    local: bool
    asleep: int = 0  #: how many cannot be matched yet
    due: int | None = None  #: when some can be matched, or have missed their schedule's time, in microseconds
    scheduled: bool = False  #: whether any has a schedule
    expired: list[int] = field(default_factory=list)  #: the jobs that have missed their schedule's time


class SleepingJobs(Struct):
    """The jobs that sleep. ``follow`` updates it; all other methods return what it computed."""

    asleep: int = 0  #: how many jobs that wait for a slot cannot be matched yet
    asleep_local: int = 0  #: how many jobs of the local universe cannot begin yet
    _seen: int = -1
    _clusters: dict[int, _Sleepers] = field(default_factory=dict)
    _agenda: Agenda[int] = field(default_factory=Agenda)  #: by cluster

    def follow(self, moment: Moment[AccessPoint]) -> bool:
        """Update to the changes until now. Return whether the time alone may have woken a job: in a folded state, any
        job whose Requirements name the clock."""
        state, first = moment.state, self._seen < 0
        changed = state.job_changes.since(self._seen)
        self._seen = state.job_changes.total
        numbers = state.clusters if changed is None else dict.fromkeys(number for number, _ in changed)
        woken = self._agenda.pop_due(moment.now)
        for number in dict.fromkeys((*numbers, *woken)):
            self._look(number, moment)
        return bool(self._clusters if first else woken)

    def next(self) -> int | None:
        """Return the instant at which the next job wakes, or misses the time that its schedule gave it."""
        return self._agenda.next_due()

    def expired(self) -> tuple[tuple[int, Procs], ...]:
        """Return the jobs that have missed their schedule's time."""
        return tuple((number, ranges(jobs.expired)) for number, jobs in self._clusters.items() if jobs.expired)

    def scheduled(self, state: AccessPoint) -> tuple[tuple[int, Procs], ...]:
        """Return the clusters in which any job that waits has a schedule, with all of their processes."""
        numbers = (number for number, each in self._clusters.items() if each.scheduled)
        return tuple((number, ((0, state.clusters[number].count - 1),)) for number in numbers)

    def _look(self, number: int, moment: Moment[AccessPoint]) -> None:
        before = self._clusters.pop(number, None)
        if before is not None:
            self._count(before, -1)
        cluster = moment.state.clusters.get(number)
        if cluster is None or not _may_sleep(cluster):
            self._agenda.schedule(number, None)
            return
        sleepers = _sleepers(cluster, moment)
        self._clusters[number] = sleepers
        self._count(sleepers, 1)
        self._agenda.schedule(number, sleepers.due)

    def _count(self, sleepers: _Sleepers, times: int) -> None:
        if sleepers.local:
            self.asleep_local += times * sleepers.asleep
        else:
            self.asleep += times * sleepers.asleep


def _may_sleep(cluster: Cluster) -> bool:
    """Check whether any job of the cluster may have Requirements that name the clock, or a schedule. Every cluster is
    asked whenever its jobs change: of most, a look at two texts is enough."""
    if cluster.variants.names or cluster.edited_names:
        varied = {name.lower() for name in cluster.variants.names} | cluster.edited_names
        given = {name.lower() for name in cluster.ad} | varied
        if not _SCHEDULE.isdisjoint(given) or "requirements" in varied:
            return True
    # A schedule under other letters has given its jobs a DeferralTime, which counts as edited.
    return not cluster.ad.keys().isdisjoint(ATTRIBUTES) or bool(timed_parts(cluster.ad.get("Requirements", "")))


_SCHEDULE = frozenset(name.lower() for name in ATTRIBUTES)


def _sleepers(cluster: Cluster, moment: Moment[AccessPoint]) -> _Sleepers:
    """Look at the idle jobs of a cluster: once at those that are alike in what matters."""
    sleepers = _Sleepers(cluster.is_local)
    first = cluster.next_idle()
    if first < 0:
        return sleepers
    ads = {first: ad_of(cluster.attributes(first))}
    names = names_read(cluster.requested_value(first, "Requirements"), ads[first])
    if all(cluster.is_uniform(name) for name in names):
        groups = {first: cluster.status_counts[IDLE]}
        members = {first: cluster.procs(IDLE.__eq__)}
    else:
        together = cluster.variants.names.isdisjoint(names)
        kinds: dict[int, list[int]] = {}
        for proc in cluster.procs(IDLE.__eq__):
            kinds.setdefault(cluster.cohort_of[proc] if together else proc, []).append(proc)
        groups = {procs[0]: len(procs) for procs in kinds.values()}
        members = {procs[0]: iter(procs) for procs in kinds.values()}
    instants = []
    now = moment.now
    context = Context(now=now // SECOND, seed=now // SECOND, timezone=moment.zone)
    for proc, number in groups.items():
        ad = ads[proc] if proc in ads else ad_of(cluster.attributes(proc))
        sleep = asleep(cluster.requested_value(proc, "Requirements"), ad, now, moment.zone)
        if sleep is not None:
            sleepers.asleep += number
            if sleep.until is not None:
                instants.append(sleep.until)
        if has_schedule(cluster, proc):
            sleepers.scheduled = True
            last = expiry(ad, context)
            if last is None or now // SECOND > last:
                sleepers.expired += members[proc]
            else:
                instants.append(last + 1)
    sleepers.due = min(instants, default=0) * SECOND or None
    sleepers.expired.sort()
    return sleepers
