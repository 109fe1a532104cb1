"""Find the idle jobs that cannot be matched yet because of their deferral times or of Requirements that read the clock.

A cluster is evaluated when its jobs change, and then whenever time alone may change the result (``job_deferral``). A
cluster whose Requirements do not read the clock is therefore evaluated only after changes.
"""

from __future__ import annotations

from msgspec import Struct, field

from ..classad import Context
from ..decision.draft import ranges
from ..decision.moment import Moment
from ..events import Procs
from ..state.agenda import Agenda
from ..state.caches import ad_from_attributes
from ..state.cluster import IDLE, Cluster
from ..state.state import Queue
from ..units import SECOND
from .crontab import ATTRIBUTES, LOWER_ATTRIBUTES
from .job_deferral import attributes_read_by_time, clauses_false_until, clock_clauses, has_schedule, last_start_second


class _Sleepers(Struct):
    """The idle jobs of a cluster that cannot be matched yet."""

    local: bool
    asleep: int = 0  #: the number of jobs that cannot be matched yet
    due: int | None = None  #: when a job can be matched, or has missed its scheduled time, in microseconds
    scheduled: bool = False  #: whether any job has a schedule
    expired: list[int] = field(default_factory=list)  #: the jobs that missed their scheduled time


class SleepingJobs(Struct):
    """The sleeping jobs. ``update`` recomputes them; the other methods return the results."""

    asleep: int = 0  #: the number of jobs needing a slot that cannot be matched yet
    asleep_local: int = 0  #: the number of local universe jobs that cannot start yet
    _seen: int = -1
    _clusters: dict[int, _Sleepers] = field(default_factory=dict)
    _agenda: Agenda[int] = field(default_factory=Agenda)  #: by cluster

    def update(self, moment: Moment[Queue]) -> bool:
        """Process the changes up to now. Return whether time alone may have woken a job. After a log is replayed, that
        is any job whose Requirements read the clock."""
        state, first = moment.state, self._seen < 0
        changed = state.job_changes.since(self._seen)
        self._seen = state.job_changes.total
        numbers = state.clusters if changed is None else dict.fromkeys(number for number, _ in changed)
        woken = self._agenda.pop_due(moment.now)
        for number in dict.fromkeys((*numbers, *woken)):
            self._reevaluate(number, moment)
        return bool(self._clusters if first else woken)

    def next_due(self) -> int | None:
        """Return when the next job wakes or misses its scheduled time."""
        return self._agenda.next_due()

    def expired_jobs(self) -> tuple[tuple[int, Procs], ...]:
        """Return the jobs that missed their scheduled time."""
        return tuple((number, ranges(jobs.expired)) for number, jobs in self._clusters.items() if jobs.expired)

    def scheduled_clusters(self, state: Queue) -> tuple[tuple[int, Procs], ...]:
        """Return the clusters that have an idle job with a schedule, each with all of its jobs."""
        numbers = (number for number, sleepers in self._clusters.items() if sleepers.scheduled)
        return tuple((number, ((0, state.clusters[number].count - 1),)) for number in numbers)

    def _reevaluate(self, number: int, moment: Moment[Queue]) -> None:
        previous = self._clusters.pop(number, None)
        if previous is not None:
            self._count(previous, -1)
        cluster = moment.state.clusters.get(number)
        if cluster is None or not _may_sleep(cluster):
            self._agenda.schedule(number, None)
            return
        sleepers = _sleepers(cluster, moment)
        self._clusters[number] = sleepers
        self._count(sleepers, 1)
        self._agenda.schedule(number, sleepers.due)

    def _count(self, sleepers: _Sleepers, sign: int) -> None:
        if sleepers.local:
            self.asleep_local += sign * sleepers.asleep
        else:
            self.asleep += sign * sleepers.asleep


def _may_sleep(cluster: Cluster) -> bool:
    """Check whether any job of the cluster may have a schedule, or Requirements that read the clock. This is called
    whenever the cluster's jobs change; for most clusters, looking at two texts is enough."""
    if cluster.variants.names or cluster.edited_names:
        varying = {name.lower() for name in cluster.variants.names} | cluster.edited_names
        names = {name.lower() for name in cluster.ad} | varying
        if not LOWER_ATTRIBUTES.isdisjoint(names) or "requirements" in varying:
            return True
    # A schedule attribute in another spelling has set a DeferralTime in its jobs, which counts as an edit.
    return not cluster.ad.keys().isdisjoint(ATTRIBUTES) or bool(clock_clauses(cluster.ad.get("Requirements", "")))


def _sleepers(cluster: Cluster, moment: Moment[Queue]) -> _Sleepers:
    sleepers = _Sleepers(cluster.is_local)
    first = cluster.next_idle()
    if first < 0:
        return sleepers
    ads = {first: ad_from_attributes(cluster.attributes(first))}
    names = attributes_read_by_time(cluster.requested_value(first, "Requirements"), ads[first])
    if all(cluster.is_uniform(name) for name in names):
        groups = {first: cluster.status_counts[IDLE]}
        members = {first: cluster.procs(IDLE.__eq__)}
    else:
        is_per_cohort = cluster.variants.names.isdisjoint(names)
        procs_by_key: dict[int, list[int]] = {}
        for proc in cluster.procs(IDLE.__eq__):
            procs_by_key.setdefault(cluster.cohort_of[proc] if is_per_cohort else proc, []).append(proc)
        groups = {procs[0]: len(procs) for procs in procs_by_key.values()}
        members = {procs[0]: iter(procs) for procs in procs_by_key.values()}
    instants = []
    now = moment.now
    context = Context(now=now // SECOND, seed=now // SECOND, timezone=moment.zone)
    for proc, number in groups.items():
        ad = ads[proc] if proc in ads else ad_from_attributes(cluster.attributes(proc))
        sleep = clauses_false_until(cluster.requested_value(proc, "Requirements"), ad, now, moment.zone)
        if sleep is not None:
            sleepers.asleep += number
            if sleep.until is not None:
                instants.append(sleep.until)
        if has_schedule(cluster, proc):
            sleepers.scheduled = True
            last = last_start_second(ad, context)
            if last is None or now // SECOND > last:
                sleepers.expired += members[proc]
            else:
                instants.append(last + 1)
    sleepers.due = min(instants, default=0) * SECOND or None
    sleepers.expired.sort()
    return sleepers
