"""The idle jobs in matching order.

A submitter's jobs are sorted by PreJobPrio1, PreJobPrio2, JobPrio, PostJobPrio1, PostJobPrio2 (highest first), then by
age. Values that are not integers come last (for JobPrio they count as 0). Source: the manual, "Negotiation", and
HTCondor's order where a trace shows it.

The order is cached. Each use processes only the jobs that changed since the last use (``State.job_changes``), in
logarithmic time. A submitter's jobs of one autocluster form a group, which a reader can skip in constant time.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterator
from math import inf
from typing import Final

from msgspec import Struct, field
from sortedcontainers import SortedDict, SortedList

from ..names import JOBS_PER_ACCESS_POINT
from ..state.caches import Caches
from ..state.cluster import IDLE, Cluster
from ..state.peers import ACCESS_POINT
from ..state.pool_settings import job_limit
from ..state.state import Manager, Queue
from .autoclusters import Autoclusters, autoclusters_of

PRIOS: Final = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")
_UNSET: Final = {name: 0.0 if name == "JobPrio" else inf for name in PRIOS}
FLOCK_TO: Final = "FlockTo"
_LOWER: Final = frozenset(name.lower() for name in (*PRIOS, FLOCK_TO))
_ALL: Final = -1
"""Used instead of a process number for an entry about all idle jobs of the cluster."""

Priorities = tuple[float, ...]
"""The five priorities of a job, negated so that the highest sorts first."""
Entry = tuple[Priorities, int, int]
"""An entry for one or all idle jobs of a cluster: their priorities, the cluster number, and the process number or
``_ALL``."""


def priorities(cluster: Cluster, proc: int) -> Priorities:
    """Return the negated priorities of a job."""
    return tuple([_priority(cluster.value(proc, name), _UNSET[name]) for name in PRIOS])


def _priority(text: str, unset: float) -> float:
    try:
        return -float(int(text)) if text else unset
    except ValueError:
        return unset


def _needs_one_entry(cluster: Cluster) -> bool:
    """Return True if all jobs of the cluster have the same priorities, and may be matched by the same managers."""
    names = {name.lower() for name in cluster.variants.names}
    return _LOWER.isdisjoint(names) and _LOWER.isdisjoint(cluster.edited_names)


def _idle(cluster: Cluster) -> Iterator[int]:
    proc = cluster.next_idle()
    while proc >= 0:
        yield proc
        proc = cluster.next_idle(proc)


def unmatched_procs(cluster: Cluster, state: Queue) -> Iterator[int]:
    """Return the idle jobs of a cluster that have no match and no process, and are not cooling down."""
    return (proc for proc in _idle(cluster) if waits_for_slot(cluster, proc, state))


def waits_for_slot(cluster: Cluster, proc: int, state: Queue) -> bool:
    """Return True if an idle job waits for a slot."""
    job = cluster.id, proc
    return job not in state.by_job and job not in state.assigned_slots and job not in state.cool_downs


def _is_ending(state: Queue, number: int, proc: int) -> bool:
    cluster = state.clusters.get(number)
    return (number, proc) in state.by_job and cluster is not None and cluster.status[proc] == IDLE


Offer = Callable[[int], bool] | None
"""Returns True if a manager may match a job, by process number; None: it may match all jobs of the cluster."""


def _offer_of(state: Queue, cluster: Cluster) -> Offer:
    """Return which jobs of a cluster a manager may match: another pool's jobs only as far as they flock to it."""
    submitters = state.peers.offered.get(cluster.id // JOBS_PER_ACCESS_POINT) if state.peers.offered else None
    if submitters is None:
        return None
    flocking = submitters.get(cluster.submitter)
    return lambda proc: flocking is not None and flocking.includes(state.name, cluster.requested_value(proc, FLOCK_TO))


class IdleJobGroup(Struct, eq=False):
    """A submitter's jobs of one autocluster, in order; or all jobs of a cluster that spans several autoclusters."""

    autocluster: int  #: the autocluster number, or ``~cluster`` for a cluster that spans several
    entries: SortedList[Entry] = field(default_factory=SortedList)
    single_jobs: SortedList[tuple[int, int]] = field(default_factory=SortedList)
    """The entries of single jobs, as cluster and process numbers."""
    idle: int = 0  #: the number of idle jobs, including those with a match


class IdleJobs(Struct, eq=False):
    """The idle jobs of a submitter."""

    submitter: str
    groups: dict[int, IdleJobGroup] = field(default_factory=dict)  #: by autocluster
    first_entries: SortedList[tuple[Entry, int]] = field(
        default_factory=SortedList
    )  #: each group's, with its autocluster
    idle: int = 0  #: the number of idle jobs, including those with a match
    unreported: dict[int, None] = field(default_factory=dict)
    """The autoclusters with jobs that changed since their rejection reason was last compared with the log."""
    reported_circumstances: object = None  #: the circumstances of that comparison, for other autoclusters
    clusters: list[tuple[int, int]] = field(default_factory=list)
    """A heap of the submitter's clusters, as submission and cluster numbers. Some clusters may have left the queue."""
    first_submission: int = 0  #: submission number of the first cluster with idle jobs (0: none)

    def in_order(self, failed: Container[int]) -> Iterator[tuple[Entry, int]]:
        """Yield entries with their autoclusters, but skip those in ``failed``, which the caller may extend. The queue
        must not change during the iteration."""
        first_entries = iter(self.first_entries)
        head = next(first_entries, None)
        started_groups: list[tuple[Entry, int, Iterator[Entry]]] = []
        while head is not None or started_groups:
            if head is not None and (not started_groups or head[0] < started_groups[0][0]):
                (entry, autocluster), head = head, next(first_entries, None)
                if autocluster in failed:
                    continue
                remaining = iter(self.groups[autocluster].entries)
                next(remaining)
            else:
                entry, autocluster, remaining = heapq.heappop(started_groups)
                if autocluster in failed:
                    continue
            yield entry, autocluster
            next_entry = next(remaining, None)
            if next_entry is not None:
                heapq.heappush(started_groups, (next_entry, autocluster, remaining))

    def add_jobs(self, autocluster: int, entry: Entry, idle: int) -> IdleJobGroup:
        """Add jobs to the group of their autocluster."""
        group = self.groups.get(autocluster)
        if group is None:
            group = self.groups[autocluster] = IdleJobGroup(autocluster)
        old_first = group.entries[0] if group.entries else None
        group.entries.add(entry)
        if entry[2] != _ALL:
            group.single_jobs.add(entry[1:])
        group.idle += idle
        self.unreported[autocluster] = None
        self._update_first_entry(group, old_first)
        return group

    def remove_jobs(self, group: IdleJobGroup, entry: Entry, idle: int) -> None:
        """Remove jobs that no longer wait for a slot."""
        old_first = group.entries[0]
        group.entries.remove(entry)
        if entry[2] != _ALL:
            group.single_jobs.remove(entry[1:])
        group.idle -= idle
        self.unreported[group.autocluster] = None
        self._update_first_entry(group, old_first)
        if not group.entries:
            del self.groups[group.autocluster]
            self.unreported.pop(group.autocluster, None)

    def _update_first_entry(self, group: IdleJobGroup, old_first: Entry | None) -> None:
        new_first = group.entries[0] if group.entries else None
        if new_first is old_first:
            return
        if old_first is not None:
            self.first_entries.remove((old_first, group.autocluster))
        if new_first is not None:
            self.first_entries.add((new_first, group.autocluster))


class _ClusterEntries(Struct, eq=False):
    cluster: Cluster
    edits: int
    queue: IdleJobs
    has_one_entry: bool
    idle: int = 0  #: the number of idle jobs that the queue's total includes
    words: frozenset[str] = frozenset()  #: a superset of the slot attributes that the jobs may read
    entries: dict[int, tuple[IdleJobGroup, Entry]] = field(default_factory=dict)  #: by process, or ``_ALL``


class IdleQueues:
    """The queues of all submitters, cached between uses."""

    def __init__(self) -> None:
        self.restarts = 0  #: how often everything was rebuilt
        self._restart(-1)

    def _restart(self, generation: int) -> None:
        self.by_submitter: dict[str, IdleJobs] = {}
        self.submitters_in_order: SortedList[tuple[int, str]] = SortedList()
        """The submitters with idle jobs, sorted by the submission number of their first queued cluster."""
        self.words: Counter[frozenset[str]] = Counter()
        """The slot attributes that idle jobs may read, each with the number of clusters that may read it."""
        self.local: SortedDict[int, str] = SortedDict()
        """The local universe clusters with idle jobs, each with its submitter."""
        self.local_cluster_counts: Counter[str] = Counter()
        """The number of local universe clusters with idle jobs, by submitter."""
        self.restarts += 1
        self.changed_submitters: dict[str, None] = {}
        """The submitters whose idle jobs changed since the reader last cleared this set."""
        self.ending: dict[tuple[int, int], None] = {}  #: the idle jobs that have processes from an earlier run
        self._processed_changes = -1
        self._generation = generation
        self._clusters: dict[int, _ClusterEntries] = {}
        self._submissions: dict[int, int] = {}
        self._submitted = 0

    def process_changes(self, state: Queue, autoclusters: Autoclusters) -> None:
        """Process changes of the queue and of the significant attributes."""
        changed_jobs = state.job_changes.since(self._processed_changes)
        if changed_jobs is None or self._generation != autoclusters.generation:
            self._restart(autoclusters.generation)
            changed_jobs = dict.fromkeys((number, _ALL) for number in state.clusters)
        self._processed_changes = state.job_changes.total
        for number, proc in changed_jobs:
            cluster = state.clusters.get(number)
            if cluster is None:
                self._remove_cluster(number, autoclusters)
            elif cluster.is_local:
                self._set_local(number, cluster.submitter, cluster.status_counts[IDLE] > 0)
            else:
                self._update_cluster(cluster, proc, autoclusters, _offer_of(state, cluster))
        whole_clusters = {number for number, proc in changed_jobs if proc == _ALL}
        running = [job for job in state.by_job if job[0] in whole_clusters] if whole_clusters else ()
        self.ending = {job: None for job in (*self.ending, *changed_jobs, *running) if _is_ending(state, *job)}

    def group_of(self, cluster: Cluster, proc: int) -> IdleJobGroup | None:
        """Return the group of an idle job."""
        cluster_entries = self._clusters[cluster.id]
        entry = cluster_entries.entries.get(_ALL if cluster_entries.has_one_entry else proc)
        return None if entry is None else entry[0]

    def reset_reported(self, number: int) -> None:
        """Record that the log has a new rejection reason for jobs of a cluster."""
        cluster_entries = self._clusters.get(number)
        if cluster_entries is not None:
            groups = (group for group, _ in cluster_entries.entries.values())
            cluster_entries.queue.unreported |= dict.fromkeys(group.autocluster for group in groups)

    def _remove_cluster(self, number: int, autoclusters: Autoclusters) -> None:
        autoclusters.discard_cluster(number)
        self._submissions.pop(number, None)
        if number in self.local:
            self._set_local(number, self.local[number], waits=False)
        cluster_entries = self._clusters.pop(number, None)
        if cluster_entries is not None:
            self._withdraw(cluster_entries)
            self._update_turn(cluster_entries.queue)

    def _set_local(self, number: int, submitter: str, waits: bool) -> None:
        if waits == (number in self.local):
            return
        if waits:
            self.local[number] = submitter
        else:
            del self.local[number]
        self.local_cluster_counts[submitter] += 1 if waits else -1
        if not self.local_cluster_counts[submitter]:
            del self.local_cluster_counts[submitter]

    def _update_cluster(self, cluster: Cluster, proc: int, autoclusters: Autoclusters, is_offered: Offer) -> None:
        cluster_entries = self._clusters.get(cluster.id)
        if cluster_entries is None or cluster_entries.edits != cluster.edit_count:
            if cluster_entries is not None:
                self._withdraw(cluster_entries)
            cluster_entries = self._clusters[cluster.id] = _ClusterEntries(
                cluster, cluster.edit_count, self._queue(cluster), _needs_one_entry(cluster)
            )
            proc = _ALL
        idle = cluster.status_counts[IDLE]
        if cluster_entries.has_one_entry:
            if is_offered is not None and not is_offered(0):
                idle = 0
            self._update_common_entry(cluster_entries, idle, autoclusters)
        else:
            procs = (*cluster_entries.entries, *_idle(cluster)) if proc == _ALL else (proc,)
            for idle_proc in procs:
                self._update_single_entry(cluster_entries, idle_proc, autoclusters, is_offered)
            if is_offered is not None:
                idle = len(cluster_entries.entries)
        self._update_counts(cluster_entries, idle, autoclusters)
        self._update_turn(cluster_entries.queue)

    def _queue(self, cluster: Cluster) -> IdleJobs:
        queue = self.by_submitter.get(cluster.submitter)
        if queue is None:
            queue = self.by_submitter[cluster.submitter] = IdleJobs(cluster.submitter)
        if cluster.id not in self._submissions:
            self._submitted += 1
            self._submissions[cluster.id] = self._submitted
            heapq.heappush(queue.clusters, (self._submitted, cluster.id))
        return queue

    def _update_common_entry(self, cluster_entries: _ClusterEntries, idle: int, autoclusters: Autoclusters) -> None:
        old_entry = cluster_entries.entries.get(_ALL)
        if old_entry is None and idle:
            cluster = cluster_entries.cluster
            number = autoclusters.number(autoclusters.signature(cluster, cluster.next_idle()))
            entry = (priorities(cluster, 0), cluster.id, _ALL)
            autocluster = number if autoclusters.uniform(cluster) else ~cluster.id
            cluster_entries.entries[_ALL] = cluster_entries.queue.add_jobs(autocluster, entry, idle), entry
        elif old_entry is not None and not idle:
            cluster_entries.queue.remove_jobs(*old_entry, cluster_entries.idle)
            del cluster_entries.entries[_ALL]
        elif old_entry is not None:
            old_entry[0].idle += idle - cluster_entries.idle
            cluster_entries.queue.unreported[old_entry[0].autocluster] = None

    def _update_single_entry(
        self, cluster_entries: _ClusterEntries, proc: int, autoclusters: Autoclusters, is_offered: Offer
    ) -> None:
        cluster, old_entry = cluster_entries.cluster, cluster_entries.entries.get(proc)
        idle = cluster.status[proc] == IDLE and (is_offered is None or is_offered(proc))
        if old_entry is None and idle:
            entry = (priorities(cluster, proc), cluster.id, proc)
            group = cluster_entries.queue.add_jobs(autoclusters.number(autoclusters.signature(cluster, proc)), entry, 1)
            cluster_entries.entries[proc] = group, entry
        elif old_entry is not None and not idle:
            cluster_entries.queue.remove_jobs(*old_entry, 1)
            del cluster_entries.entries[proc]

    def _withdraw(self, cluster_entries: _ClusterEntries) -> None:
        idle = cluster_entries.idle if cluster_entries.has_one_entry else 1
        for group, entry in cluster_entries.entries.values():
            cluster_entries.queue.remove_jobs(group, entry, idle)
        cluster_entries.entries.clear()
        self._update_counts(cluster_entries, 0, None)

    def _update_counts(self, cluster_entries: _ClusterEntries, idle: int, autoclusters: Autoclusters | None) -> None:
        if idle and not cluster_entries.idle and autoclusters is not None:
            cluster_entries.words = autoclusters.words_of(cluster_entries.cluster)
            self.words[cluster_entries.words] += 1
        elif cluster_entries.idle and not idle:
            self.words[cluster_entries.words] -= 1
            if not self.words[cluster_entries.words]:
                del self.words[cluster_entries.words]
        cluster_entries.queue.idle += idle - cluster_entries.idle
        cluster_entries.idle = idle

    def _update_turn(self, queue: IdleJobs) -> None:
        clusters, old_submission = queue.clusters, queue.first_submission
        self.changed_submitters[queue.submitter] = None
        while clusters and clusters[0][1] not in self._clusters:
            heapq.heappop(clusters)
        queue.first_submission = clusters[0][0] if queue.idle else 0
        if queue.first_submission != old_submission:
            if old_submission:
                self.submitters_in_order.remove((old_submission, queue.submitter))
            if queue.first_submission:
                self.submitters_in_order.add((queue.first_submission, queue.submitter))
        if not clusters:
            self.by_submitter.pop(queue.submitter, None)


def idle_queues(state: Manager, caches: Caches) -> IdleQueues:
    """Return the queues of a negotiator's state, up to date."""
    return queues_of(state, caches, autoclusters_of(state, caches))


def queues_of(state: Queue, caches: Caches, autoclusters: Autoclusters) -> IdleQueues:
    """Return an access point's queues, up to date. The autoclusters come from the negotiator."""
    queues = caches.get(IdleQueues)
    queues.process_changes(state, autoclusters)
    return queues


def waiting_procs(cluster: Cluster, only: int, state: Queue) -> Iterator[int]:
    """Return those jobs of an entry that wait for a slot."""
    if only == _ALL:
        return unmatched_procs(cluster, state)
    return iter((only,) if waits_for_slot(cluster, only, state) else ())


def waiting_jobs(
    state: Queue, submitter: str, caches: Caches, autoclusters: Autoclusters, refused: Container[int]
) -> Iterator[tuple[Cluster, int, int]]:
    """Yield a submitter's jobs that wait for a slot, in order, with their autocluster numbers. Skip autoclusters in
    ``refused``, which the caller may extend. The state must not change during the iteration."""
    queue = queues_of(state, caches, autoclusters).by_submitter.get(submitter)
    if queue is None:
        return
    for (_, number, only), autocluster in queue.in_order(refused):
        cluster = state.clusters[number]
        for proc in waiting_procs(cluster, only, state):
            autocluster = (
                autocluster if autocluster >= 0 else autoclusters.number(autoclusters.signature(cluster, proc))
            )
            if autocluster not in refused:
                yield cluster, proc, autocluster
            elif autocluster >= 0:
                break


def _running_limit(state: Queue) -> int | None:
    is_here = ACCESS_POINT in state.roles
    return job_limit(state.settings, "MAX_JOBS_RUNNING", state.dialect.setting_defaults) if is_here else None


def may_start_job(state: Queue) -> bool:
    """Return True if MAX_JOBS_RUNNING allows to start another job, without counting the jobs if they are few."""
    maximum = _running_limit(state)
    return maximum is None or len(state.by_job) + len(state.assigned_slots) < maximum or remaining_starts(state) > 0


def remaining_starts(state: Queue) -> float:
    """Return how many more jobs MAX_JOBS_RUNNING allows to start. The number is negative if too many jobs run.

    Jobs that run on slots or have a match are counted; local universe jobs are not. Lowering the limit does not end
    jobs; instead, claims are released when their jobs end. An access point with a separate log counts its jobs itself.
    Source: HTCondor's canSpawnShadow (schedd.cpp).
    """
    maximum = _running_limit(state)
    if maximum is None:
        return inf
    clusters = state.clusters
    started_jobs = {job for job in state.by_job if job[0] in clusters and not clusters[job[0]].is_local}
    return maximum - len(started_jobs | state.assigned_slots.keys())
