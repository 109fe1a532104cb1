"""The jobs that wait, in the order in which they are served.

Of one submitter's jobs those with the higher PreJobPrio1 go first, then PreJobPrio2, JobPrio, PostJobPrio1,
PostJobPrio2, then the earlier ones. What is no whole number comes last (JobPrio counts as 0 then). Source: the manual,
"Negotiation", and HTCondor's order where a trace shows it.

The order is kept, not made: whoever looks takes in the jobs that have changed since (``State.job_changes``), each of
which costs the logarithm of the queue's length. Of a submitter's jobs those that are alike stand in one line, so that
passing over all that are like one costs nothing for each.
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
from ..state.pool_settings import limit
from ..state.state import Manager, Queue
from .autoclusters import SignificantAttributes, significance

PRIOS: Final = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")
_UNSET: Final = {name: 0.0 if name == "JobPrio" else inf for name in PRIOS}
_LOWER: Final = frozenset(name.lower() for name in PRIOS)
_ALL: Final = -1
"""In place of a process: all jobs of the cluster that wait."""

Prios = tuple[float, ...]
"""The five priorities of a job, negated: the least goes first."""
Entry = tuple[Prios, int, int]
"""Jobs of one cluster that stand together: their priorities, the cluster's number, and the process or ``_ALL``."""


def prios(cluster: Cluster, proc: int) -> Prios:
    return tuple([_prio(cluster.value(proc, name), _UNSET[name]) for name in PRIOS])


def _prio(text: str, unset: float) -> float:
    try:
        return -float(int(text)) if text else unset
    except ValueError:
        return unset


def plain(cluster: Cluster) -> bool:
    """Whether all jobs of the cluster have the same priorities."""
    names = {name.lower() for name in cluster.variants.names}
    return _LOWER.isdisjoint(names) and _LOWER.isdisjoint(cluster.edited)


def _idle(cluster: Cluster) -> Iterator[int]:
    proc = cluster.next_idle()
    while proc >= 0:
        yield proc
        proc = cluster.next_idle(proc)


def idle_procs(cluster: Cluster, state: Queue) -> Iterator[int]:
    """The processes of a cluster that wait for a slot: not those that have been given one already, nor those of which
    something is left of an earlier run, nor those in a cool-down."""
    return (proc for proc in _idle(cluster) if is_free(cluster, proc, state))


def is_free(cluster: Cluster, proc: int, state: Queue) -> bool:
    """Whether a job that is idle waits for a slot, too."""
    job = cluster.id, proc
    return job not in state.by_job and job not in state.reserved and job not in state.cooling


@define(eq=False)
class IdleJobGroup:
    """Jobs of a submitter that are alike, in their order; or those of one cluster whose jobs are not."""

    kind: int  #: the number of their autocluster; ``~`` the cluster's number where they are not alike
    entries: SortedList[Entry] = field(factory=SortedList)
    alone: SortedList[tuple[int, int]] = field(factory=SortedList)
    """Those of the entries that are of one job: cluster and process."""
    idle: int = 0  #: how many of its jobs are idle, those included that have been given a slot


@define(eq=False)
class IdleJobs:
    """The jobs of a submitter that wait."""

    submitter: str
    lines: dict[int, IdleJobGroup] = field(factory=dict)  #: by their kinds
    heads: SortedList[tuple[Entry, int]] = field(factory=SortedList)  #: the first entry of each line, and its kind
    idle: int = 0  #: how many of its jobs are idle, those included that have been given a slot
    untold: dict[int, None] = field(factory=dict)
    """The kinds of which some jobs came or went since the log was found to say why they got nothing."""
    told_as_of: object = None  #: under which circumstances that was found of the others
    clusters: list[tuple[int, int]] = field(factory=list)
    """A heap of the submitter's clusters: what number of submission each was, and its own number. Some may be gone."""
    since: int = 0  #: what number of submission the first of its clusters was, while jobs wait (0: none does)

    def in_order(self, failed: Container[int]) -> Iterator[tuple[Entry, int]]:
        """Its entries, each with the kind of its line, without those of kinds that are, or come to be, in ``failed``.
        The queue must not change meanwhile."""
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
        """Let jobs stand in the line of their kind."""
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
        """Jobs wait no longer."""
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
    """Where the jobs of one cluster stand: all of them together, or, where their priorities differ, each by itself."""

    cluster: Cluster
    edits: int
    queue: IdleJobs
    together: bool
    idle: int = 0  #: how many of them are counted
    words: frozenset[str] = frozenset()  #: what they may read of a slot, and more (``autoclusters.words``)
    entries: dict[int, tuple[IdleJobGroup, Entry]] = field(factory=dict)  #: by the process, or under ``_ALL``


class IdleQueues:
    """The queues of all submitters, kept from one look to the next."""

    def __init__(self) -> None:
        self.restarts = 0  #: how often all was made anew
        self._restart(-1)

    def _restart(self, generation: int) -> None:
        self.by_submitter: dict[str, IdleJobs] = {}
        self.in_turn: SortedList[tuple[int, str]] = SortedList()
        """Whose jobs wait, by whose first cluster in the queue was submitted first: behind that one's number."""
        self.words: Counter[frozenset[str]] = Counter()
        """What the jobs that wait may read of a slot, with the number of clusters of which that is said."""
        self.local: SortedDict[int, str] = SortedDict()
        """The clusters of the local universe with jobs that wait, each with its submitter."""
        self.local_of: Counter[str] = Counter()
        """How many these are, by their submitters."""
        self.restarts += 1
        self.touched: dict[str, None] = {}
        """The submitters whose jobs that wait have changed since whoever goes by that has looked."""
        self._seen = -1
        self._generation = generation
        self._places: dict[int, _ClusterPlace] = {}
        self._submissions: dict[int, int] = {}
        self._submitted = 0

    def follow(self, state: Queue, likeness: SignificantAttributes) -> None:
        """Take in what has changed in the queue, or what is significant."""
        changed = state.job_changes.since(self._seen)
        if changed is None or self._generation != likeness.generation:
            self._restart(likeness.generation)
            changed = dict.fromkeys((number, _ALL) for number in state.clusters)
        self._seen = state.job_changes.total
        for number, proc in changed:
            cluster = state.clusters.get(number)
            if cluster is None:
                self._gone(number, likeness)
            elif cluster.local:
                self._set_local(number, cluster.submitter, cluster.counts[IDLE] > 0)
            else:
                self._changed(cluster, proc, likeness)

    def line_of(self, cluster: Cluster, proc: int) -> IdleJobGroup | None:
        """The line that a job that is idle stands in."""
        place = self._places[cluster.id]
        entry = place.entries.get(_ALL if place.together else proc)
        return None if entry is None else entry[0]

    def untell(self, number: int) -> None:
        """The log has another reason than before why jobs of a cluster got nothing."""
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
        if place is None or place.edits != cluster.edits:
            if place is not None:
                self._withdraw(place)
            place = self._places[cluster.id] = _ClusterPlace(
                cluster, cluster.edits, self._queue(cluster), plain(cluster)
            )
            proc = _ALL
        idle = cluster.counts[IDLE]
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
        """The cluster is gone, or its jobs are others than they were."""
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
        """A submitter's turn among others follows from its first cluster, as long as any of its jobs waits."""
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
    """The queues of this state."""
    return queues_of(state, caches, significance(state, caches))


def queues_of(state: Queue, caches: Caches, likeness: SignificantAttributes) -> IdleQueues:
    """The queues of an access point, to which the negotiator has told which attributes are significant."""
    queues = caches.of(IdleQueues)
    queues.follow(state, likeness)
    return queues


def procs_of(cluster: Cluster, only: int, state: Queue) -> Iterator[int]:
    """The processes of an entry that wait for a slot."""
    if only == _ALL:
        return idle_procs(cluster, state)
    return iter((only,) if is_free(cluster, only, state) else ())


def waiting(
    state: Queue, submitter: str, caches: Caches, likeness: SignificantAttributes, refused: Container[int]
) -> Iterator[tuple[Cluster, int, int]]:
    """The jobs of a submitter that wait for a slot, first come first, each with the number of its autocluster; without
    those whose number is, or comes to be, in ``refused``. The state must not change meanwhile."""
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
    """Return how many further jobs may begin by MAX_JOBS_RUNNING: a schedd asks for no more. Negative: more run than
    may.

    Jobs count that run on slots or have been given one; those of the local universe do not. Lowering the limit ends no
    job: claims are given up as their jobs end. Source: canSpawnShadow (schedd.cpp) of HTCondor.
    """
    most = limit(state.settings, "MAX_JOBS_RUNNING")
    if most is None:
        return inf
    clusters = state.clusters
    running = {job for job in state.by_job if job[0] in clusters and not clusters[job[0]].local}
    return most - len(running | state.reserved.keys())
