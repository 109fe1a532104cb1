"""The idle jobs, in the order in which they are served.

A submitter's jobs are sorted by higher PreJobPrio1, PreJobPrio2, JobPrio, PostJobPrio1, PostJobPrio2, then by age. A
value that is not an integer comes last (for JobPrio it counts as 0). Source: the manual, "Negotiation", and HTCondor's
order if a trace shows it.

The order is kept between uses: each use processes the jobs that have changed since (``State.job_changes``), and each
change costs the logarithm of the queue's length. A submitter's jobs that are alike form one line, so that skipping all
jobs like one does not cost anything per job.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Container, Iterator
from math import inf
from typing import Final

from attrs import define, field
from sortedcontainers import SortedDict, SortedList

from ..state.caches import Caches
from ..state.cluster import IDLE, Cluster
from ..state.pool_settings import job_limit
from ..state.state import Manager, Queue
from .autoclusters import SignificantAttributes, significance

PRIOS: Final = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")
_UNSET: Final = {name: 0.0 if name == "JobPrio" else inf for name in PRIOS}
_LOWER: Final = frozenset(name.lower() for name in PRIOS)
_ALL: Final = -1
"""Instead of a process: all idle jobs of the cluster."""

Prios = tuple[float, ...]
"""The five priorities of a job, negated: the least is first."""
Entry = tuple[Prios, int, int]
"""Jobs of one cluster with one entry: their priorities, the cluster's number, and the process or ``_ALL``."""


def prios(cluster: Cluster, proc: int) -> Prios:
    return tuple([_prio(cluster.value(proc, name), _UNSET[name]) for name in PRIOS])


def _prio(text: str, unset: float) -> float:
    try:
        return -float(int(text)) if text else unset
    except ValueError:
        return unset


def plain(cluster: Cluster) -> bool:
    """Return whether all jobs of the cluster have the same priorities."""
    names = {name.lower() for name in cluster.variants.names}
    return _LOWER.isdisjoint(names) and _LOWER.isdisjoint(cluster.edited_names)


def _idle(cluster: Cluster) -> Iterator[int]:
    proc = cluster.next_idle()
    while proc >= 0:
        yield proc
        proc = cluster.next_idle(proc)


def idle_procs(cluster: Cluster, state: Queue) -> Iterator[int]:
    """Return the processes of a cluster that wait for a slot: without those that have a match, that still have
    processes of an earlier run, or that cool down."""
    return (proc for proc in _idle(cluster) if is_free(cluster, proc, state))


def is_free(cluster: Cluster, proc: int, state: Queue) -> bool:
    """Return whether an idle job waits for a slot."""
    job = cluster.id, proc
    return job not in state.by_job and job not in state.reserved and job not in state.cool_downs


@define(eq=False)
class IdleJobGroup:
    """A submitter's jobs that are alike, in their order; or the jobs of one cluster whose jobs differ."""

    kind: int  #: the number of their autocluster; ``~`` the cluster's number if the jobs differ
    entries: SortedList[Entry] = field(factory=SortedList)
    alone: SortedList[tuple[int, int]] = field(factory=SortedList)
    """The entries for single jobs: cluster and process."""
    idle: int = 0  #: how many of its jobs are idle, those included that have been given a slot


@define(eq=False)
class IdleJobs:
    """The idle jobs of a submitter."""

    submitter: str
    lines: dict[int, IdleJobGroup] = field(factory=dict)  #: by their kinds
    heads: SortedList[tuple[Entry, int]] = field(factory=SortedList)  #: the first entry of each line, and its kind
    idle: int = 0  #: how many of its jobs are idle, those included that have been given a slot
    untold: dict[int, None] = field(factory=dict)
    """The kinds whose jobs changed since the log was found to have their rejection reason."""
    told_as_of: object = None  #: the circumstances under which that was found for the other kinds
    clusters: list[tuple[int, int]] = field(factory=list)
    """A heap of the submitter's clusters: the submission number and the cluster number. Some may have left."""
    since: int = 0  #: the submission number of its first cluster with idle jobs (0: none)

    def in_order(self, failed: Container[int]) -> Iterator[tuple[Entry, int]]:
        """Yield the entries, each with its kind, without kinds that are, or are put, in ``failed``. The queue must not
        change meanwhile."""
        heads = iter(self.heads)
        head = next(heads, None)
        begun: list[tuple[Entry, int, Iterator[Entry]]] = []
        while head is not None or begun:
            if head is not None and (not begun or head[0] < begun[0][0]):
                (entry, kind), head = head, next(heads, None)
                if kind in failed:
                    continue
                rest = iter(self.lines[kind].entries)
                next(rest)
            else:
                entry, kind, rest = heapq.heappop(begun)
                if kind in failed:
                    continue
            yield entry, kind
            following = next(rest, None)
            if following is not None:
                heapq.heappush(begun, (following, kind, rest))

    def add(self, kind: int, entry: Entry, idle: int) -> IdleJobGroup:
        """Add jobs to the line of their kind."""
        line = self.lines.get(kind)
        if line is None:
            line = self.lines[kind] = IdleJobGroup(kind)
        before = line.entries[0] if line.entries else None
        line.entries.add(entry)
        if entry[2] != _ALL:
            line.alone.add(entry[1:])
        line.idle += idle
        self.untold[kind] = None
        self._move_head(line, before)
        return line

    def discard(self, line: IdleJobGroup, entry: Entry, idle: int) -> None:
        """Remove jobs that no longer wait."""
        before = line.entries[0]
        line.entries.remove(entry)
        if entry[2] != _ALL:
            line.alone.remove(entry[1:])
        line.idle -= idle
        self.untold[line.kind] = None
        self._move_head(line, before)
        if not line.entries:
            del self.lines[line.kind]
            self.untold.pop(line.kind, None)

    def _move_head(self, line: IdleJobGroup, before: Entry | None) -> None:
        head = line.entries[0] if line.entries else None
        if head is before:
            return
        if before is not None:
            self.heads.remove((before, line.kind))
        if head is not None:
            self.heads.add((head, line.kind))


@define(eq=False)
class _ClusterPlace:
    """The entries of one cluster's jobs: one for all of them, or if their priorities differ, one for each."""

    cluster: Cluster
    edits: int
    queue: IdleJobs
    together: bool
    idle: int = 0  #: how many of them are counted
    words: frozenset[str] = frozenset()  #: a superset of what they may read of a slot (``autoclusters.words``)
    entries: dict[int, tuple[IdleJobGroup, Entry]] = field(factory=dict)  #: by the process, or under ``_ALL``


class IdleQueues:
    """The queues of all submitters, kept between uses."""

    def __init__(self) -> None:
        self.restarts = 0  #: how often all was built again
        self._restart(-1)

    def _restart(self, generation: int) -> None:
        self.by_submitter: dict[str, IdleJobs] = {}
        self.in_turn: SortedList[tuple[int, str]] = SortedList()
        """The submitters with idle jobs, each with the submission number of its first queued cluster, by that."""
        self.words: Counter[frozenset[str]] = Counter()
        """The words that idle jobs may read of a slot, with the number of clusters that have them."""
        self.local: SortedDict[int, str] = SortedDict()
        """The local universe clusters with idle jobs, each with its submitter."""
        self.local_of: Counter[str] = Counter()
        """The number of these clusters, by submitter."""
        self.restarts += 1
        self.touched: dict[str, None] = {}
        """The submitters whose idle jobs have changed since the reader of this set last cleared it."""
        self._seen = -1
        self._generation = generation
        self._places: dict[int, _ClusterPlace] = {}
        self._submissions: dict[int, int] = {}
        self._submitted = 0

    def follow(self, state: Queue, likeness: SignificantAttributes) -> None:
        """Update to changes of the queue, or of the significant attributes."""
        changed = state.job_changes.since(self._seen)
        if changed is None or self._generation != likeness.generation:
            self._restart(likeness.generation)
            changed = dict.fromkeys((number, _ALL) for number in state.clusters)
        self._seen = state.job_changes.total
        for number, proc in changed:
            cluster = state.clusters.get(number)
            if cluster is None:
                self._gone(number, likeness)
            elif cluster.is_local:
                self._set_local(number, cluster.submitter, cluster.status_counts[IDLE] > 0)
            else:
                self._changed(cluster, proc, likeness)

    def line_of(self, cluster: Cluster, proc: int) -> IdleJobGroup | None:
        """Return the line of an idle job."""
        place = self._places[cluster.id]
        entry = place.entries.get(_ALL if place.together else proc)
        return None if entry is None else entry[0]

    def untell(self, number: int) -> None:
        """Note that the log has a new rejection reason for jobs of a cluster."""
        place = self._places.get(number)
        if place is not None:
            place.queue.untold |= dict.fromkeys(line.kind for line, _ in place.entries.values())

    def _gone(self, number: int, likeness: SignificantAttributes) -> None:
        likeness.drop(number)
        self._submissions.pop(number, None)
        if number in self.local:
            self._set_local(number, self.local[number], waits=False)
        place = self._places.pop(number, None)
        if place is not None:
            self._withdraw(place)
            self._take_turn(place.queue)

    def _set_local(self, number: int, submitter: str, waits: bool) -> None:
        if waits == (number in self.local):
            return
        if waits:
            self.local[number] = submitter
        else:
            del self.local[number]
        self.local_of[submitter] += 1 if waits else -1
        if not self.local_of[submitter]:
            del self.local_of[submitter]

    def _changed(self, cluster: Cluster, proc: int, likeness: SignificantAttributes) -> None:
        place = self._places.get(cluster.id)
        if place is None or place.edits != cluster.edit_count:
            if place is not None:
                self._withdraw(place)
            place = self._places[cluster.id] = _ClusterPlace(
                cluster, cluster.edit_count, self._queue(cluster), plain(cluster)
            )
            proc = _ALL
        idle = cluster.status_counts[IDLE]
        if place.together:
            self._settle_together(place, idle, likeness)
        else:
            procs = (*place.entries, *_idle(cluster)) if proc == _ALL else (proc,)
            for each in procs:
                self._settle_alone(place, each, likeness)
        self._count(place, idle, likeness)
        self._take_turn(place.queue)

    def _queue(self, cluster: Cluster) -> IdleJobs:
        queue = self.by_submitter.get(cluster.submitter)
        if queue is None:
            queue = self.by_submitter[cluster.submitter] = IdleJobs(cluster.submitter)
        if cluster.id not in self._submissions:
            self._submitted += 1
            self._submissions[cluster.id] = self._submitted
            heapq.heappush(queue.clusters, (self._submitted, cluster.id))
        return queue

    def _settle_together(self, place: _ClusterPlace, idle: int, likeness: SignificantAttributes) -> None:
        found = place.entries.get(_ALL)
        if found is None and idle:
            cluster = place.cluster
            number = likeness.number(likeness.signature(cluster, cluster.next_idle()))
            entry = (prios(cluster, 0), cluster.id, _ALL)
            kind = number if likeness.uniform(cluster) else ~cluster.id
            place.entries[_ALL] = place.queue.add(kind, entry, idle), entry
        elif found is not None and not idle:
            place.queue.discard(*found, place.idle)
            del place.entries[_ALL]
        elif found is not None:
            found[0].idle += idle - place.idle
            place.queue.untold[found[0].kind] = None

    def _settle_alone(self, place: _ClusterPlace, proc: int, likeness: SignificantAttributes) -> None:
        cluster, found = place.cluster, place.entries.get(proc)
        idle = cluster.status[proc] == IDLE
        if found is None and idle:
            entry = (prios(cluster, proc), cluster.id, proc)
            line = place.queue.add(likeness.number(likeness.signature(cluster, proc)), entry, 1)
            place.entries[proc] = line, entry
        elif found is not None and not idle:
            place.queue.discard(*found, 1)
            del place.entries[proc]

    def _withdraw(self, place: _ClusterPlace) -> None:
        """Forget a cluster that has left or whose jobs changed."""
        each = place.idle if place.together else 1
        for line, entry in place.entries.values():
            place.queue.discard(line, entry, each)
        place.entries.clear()
        self._count(place, 0, None)

    def _count(self, place: _ClusterPlace, idle: int, likeness: SignificantAttributes | None) -> None:
        if idle and not place.idle and likeness is not None:
            place.words = likeness.words_of(place.cluster)
            self.words[place.words] += 1
        elif place.idle and not idle:
            self.words[place.words] -= 1
            if not self.words[place.words]:
                del self.words[place.words]
        place.queue.idle += idle - place.idle
        place.idle = idle

    def _take_turn(self, queue: IdleJobs) -> None:
        """Update a submitter's turn: it follows from its first cluster, as long as any of its jobs is idle."""
        clusters, before = queue.clusters, queue.since
        self.touched[queue.submitter] = None
        while clusters and clusters[0][1] not in self._places:
            heapq.heappop(clusters)
        queue.since = clusters[0][0] if queue.idle else 0
        if queue.since != before:
            if before:
                self.in_turn.remove((before, queue.submitter))
            if queue.since:
                self.in_turn.add((queue.since, queue.submitter))
        if not clusters:
            self.by_submitter.pop(queue.submitter, None)


def idle_queues(state: Manager, caches: Caches) -> IdleQueues:
    """Return the queues of this state."""
    return queues_of(state, caches, significance(state, caches))


def queues_of(state: Queue, caches: Caches, likeness: SignificantAttributes) -> IdleQueues:
    """Return the queues of an access point that got the significant attributes from the negotiator."""
    queues = caches.of(IdleQueues)
    queues.follow(state, likeness)
    return queues


def procs_of(cluster: Cluster, only: int, state: Queue) -> Iterator[int]:
    """Return the processes of an entry that wait for a slot."""
    if only == _ALL:
        return idle_procs(cluster, state)
    return iter((only,) if is_free(cluster, only, state) else ())


def waiting(
    state: Queue, submitter: str, caches: Caches, likeness: SignificantAttributes, refused: Container[int]
) -> Iterator[tuple[Cluster, int, int]]:
    """Yield a submitter's jobs that wait for a slot, in their order, each with its autocluster's number, without
    numbers that are, or are put, in ``refused``. The state must not change meanwhile."""
    queue = queues_of(state, caches, likeness).by_submitter.get(submitter)
    if queue is None:
        return
    for (_, number, only), kind in queue.in_order(refused):
        cluster = state.clusters[number]
        for proc in procs_of(cluster, only, state):
            mine = kind if kind >= 0 else likeness.number(likeness.signature(cluster, proc))
            if mine not in refused:
                yield cluster, proc, mine
            elif kind >= 0:
                break


def room(state: Queue) -> float:
    """Return how many more jobs may begin by MAX_JOBS_RUNNING: a schedd requests no more. Negative: too many run.

    Jobs that run on slots or have a match count; local universe jobs do not. Lowering the limit does not end jobs:
    claims are released as their jobs end. Source: canSpawnShadow (schedd.cpp) of HTCondor.
    """
    most = job_limit(state.settings, "MAX_JOBS_RUNNING")
    if most is None:
        return inf
    clusters = state.clusters
    running = {job for job in state.by_job if job[0] in clusters and not clusters[job[0]].is_local}
    return most - len(running | state.reserved.keys())
