"""A submitter's resource requests in a cycle: its idle jobs in order, each with its autocluster number.

The jobs are grouped by autocluster (``idle_jobs``), so that neither matching nor counting iterates over single jobs.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt
from attrs import define, field

from ..classad import Context, Expression
from ..classad.value_evidence import truth_of
from ..names import JOBS_PER_ACCESS_POINT, JobId
from ..requests.autoclusters import Autoclusters
from ..requests.idle_jobs import (
    IdleJobGroup,
    IdleJobs,
    IdleQueues,
    Priorities,
    idle_queues,
    unmatched_procs,
    waiting_procs,
)
from ..state.caches import Caches, ad_from_attributes
from ..state.cluster import IDLE, Cluster
from ..state.state import Manager

Request = tuple[Cluster, int, int]
"""A job: its cluster, process and autocluster number."""
_MANY = 32
"""The number of idle jobs in a cluster from which arrays are used."""


@define
class IdleJobRequests:
    """The idle jobs in one cycle."""

    state: Manager
    autoclusters: Autoclusters
    caches: Caches
    matched_procs: dict[int, set[int]] = field(factory=dict)  #: the processes matched by the cycle, by cluster
    queues: IdleQueues = field(init=False)
    begun: set[str] = field(factory=set)
    """The submitters with idle jobs that have a slot or had one when the cycle began."""
    _busy: dict[int, set[int]] = field(factory=dict)  #: includes jobs that already had a slot or still have processes
    _taken: dict[IdleJobGroup, int] = field(factory=dict)  #: how many idle jobs of each group are in ``_busy``

    def __attrs_post_init__(self) -> None:
        self.queues = idle_queues(self.state, self.caches)
        for number, proc in (*self.queues.ending, *self.state.assigned_slots, *self.state.cool_downs):
            cluster, busy = self.state.clusters.get(number), self._busy.setdefault(number, set())
            if proc not in busy and cluster is not None and proc in cluster and cluster.status[proc] == IDLE:
                self._count_taken_job(cluster, proc)
            busy.add(proc)

    def _count_taken_job(self, cluster: Cluster, proc: int) -> None:
        self.begun.add(cluster.submitter)
        job_group = None if cluster.is_local else self.queues.group_of(cluster, proc)
        if job_group is not None:
            self._taken[job_group] = self._taken.get(job_group, 0) + 1

    def exclude_jobs(self, constraint: Expression, context: Context) -> None:
        """Exclude jobs for which NEGOTIATOR_JOB_CONSTRAINT is not true."""
        for cluster in self.state.clusters.values():
            if cluster.status_counts[IDLE] and not cluster.is_local:
                for proc in self._idle(cluster).tolist():
                    if not truth_of(constraint, ad_from_attributes(cluster.attributes(proc)), None, context):
                        self.record_match(cluster, proc)

    def exclude_access_points(self, numbers: Collection[int]) -> None:
        """Exclude the jobs of access points that run as many jobs as they may."""
        for cluster in self.state.clusters.values() if numbers else ():
            if cluster.id // JOBS_PER_ACCESS_POINT in numbers and not cluster.is_local:
                for proc in self._idle(cluster).tolist():
                    self.record_match(cluster, proc)

    def exclude(self, jobs: Iterable[JobId]) -> None:
        """Exclude single jobs, if they are still idle."""
        for number, proc in jobs:
            cluster = self.state.clusters.get(number)
            if cluster is not None and proc in self._idle(cluster):
                self.record_match(cluster, proc)

    def record_match(self, cluster: Cluster, proc: int) -> None:
        self.matched_procs.setdefault(cluster.id, set()).add(proc)
        self._count_taken_job(cluster, proc)

    def _matched_procs(self, cluster: Cluster) -> Container[int]:
        return self.matched_procs.setdefault(cluster.id, set())

    def requests_of_submitter(self, submitter: str, failed: Container[int]) -> Iterator[Request]:
        """Yield a submitter's jobs in order. Skip autocluster numbers in ``failed``, which the caller may extend."""
        queue = self.queues.by_submitter.get(submitter)
        if queue is None:
            return
        for (_, number, only), autocluster in queue.in_order(failed):
            cluster = self.state.clusters[number]
            if autocluster < 0:
                yield from self._of_differing(cluster, failed)
                continue
            matched = self._matched_procs(cluster)
            for proc in waiting_procs(cluster, only, self.state):
                if proc in matched:
                    continue
                yield cluster, proc, autocluster
                if autocluster in failed:
                    break

    def access_points(self, submitter: str) -> list[int]:
        """Return the numbers of a submitter's access points, if there are several in the pool."""
        queue = self.queues.by_submitter.get(submitter) if self.state.peers.numbered > 1 else None
        return [] if queue is None else sorted({number // JOBS_PER_ACCESS_POINT for _, number in queue.clusters})

    def at_access_point(self, submitter: str, number: int, failed: Container[int]) -> Iterator[Request]:
        """Yield the requests of a submitter from one access point."""
        requests = self.requests_of_submitter(submitter, failed)
        return (request for request in requests if request[0].id // JOBS_PER_ACCESS_POINT == number)

    def in_turns(self, submitter: str, numbers: Iterable[int], failed: Container[int]) -> Iterator[Request]:
        """Yield the requests of a submitter so that each of its access points receives equally many slots, counting
        those in use."""
        used = self._slots_in_use(submitter)
        turns = [(used[number], number) for number in numbers]
        heapq.heapify(turns)
        requests = {number: self.at_access_point(submitter, number, failed) for number in numbers}
        while turns:
            count, number = heapq.heappop(turns)
            request = next(requests[number], None)
            if request is not None:
                yield request
                heapq.heappush(turns, (count + (request[1] in self._matched_procs(request[0])), number))

    def _slots_in_use(self, submitter: str) -> Counter[int]:
        """Return how many slots the submitter's jobs of each access point have, by its number."""
        state = self.state
        followed = state.peers.followed
        claims = [slot.claim for slot in state.slots.values() if slot.claim is not None]
        holders = [claim.holder for claim in claims if claim.submitter == submitter and claim.holder in followed]
        used = Counter(followed[holder].number for holder in holders)
        matched = [
            *(id for id, _ in state.assigned_slots),
            *(id for id, procs in self.matched_procs.items() for _ in procs),
        ]
        own = [id for id in matched if id in state.clusters and state.clusters[id].submitter == submitter]
        return used + Counter(id // JOBS_PER_ACCESS_POINT for id in own)

    def _of_differing(self, cluster: Cluster, failed: Container[int]) -> Iterator[Request]:
        autoclusters, matched = self.autoclusters, self._matched_procs(cluster)
        proc_numbers = autoclusters.numbers_by_proc(cluster) if cluster.status_counts[IDLE] >= _MANY else None
        if proc_numbers is None:
            for proc in unmatched_procs(cluster, self.state):
                number = autoclusters.number(autoclusters.signature(cluster, proc))
                if number not in failed and proc not in matched:
                    yield cluster, proc, number
            return
        yield from self._by_columns(cluster, np.frombuffer(proc_numbers, np.int32), failed)

    def _by_columns(
        self, cluster: Cluster, proc_numbers: npt.NDArray[np.int32], failed: Container[int]
    ) -> Iterator[Request]:
        procs = self._idle(cluster)
        if not len(procs):
            return
        numbers = proc_numbers[procs]
        starts = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1])
        ends = [*starts[1:].tolist(), len(procs)]
        for start, end, number in zip(starts.tolist(), ends, numbers[starts].tolist(), strict=True):
            if number in failed:
                continue
            for proc in procs[start:end].tolist():
                yield cluster, proc, number
                if number in failed:
                    break

    def _idle(self, cluster: Cluster) -> npt.NDArray[np.int64]:
        waits = np.frombuffer(bytes(cluster.status), np.uint8) == IDLE
        waits[[*self._busy.get(cluster.id, ()), *self.matched_procs.get(cluster.id, ())]] = False
        return np.flatnonzero(waits)

    def has_slots(self, job_group: IdleJobGroup) -> bool:
        """Check whether any idle job of the group has a slot, or had one when the cycle began."""
        return job_group in self._taken

    def tally(self, queue: IdleJobs, only: Iterable[int] | None = None) -> dict[int, tuple[Cluster, int, int]]:
        """Return the first unmatched job and the number of unmatched jobs of each autocluster.

        :param only: the autoclusters to count, or None for all
        """
        job_groups = queue.groups if only is None else {autocluster: queue.groups[autocluster] for autocluster in only}
        if len(job_groups) == 1:
            ((autocluster, job_group),) = job_groups.items()
            if autocluster >= 0 and job_group not in self._taken:
                _, number, proc = self._first(job_group)
                return {autocluster: (self.state.clusters[number], proc, job_group.idle)}
        parts: list[tuple[Priorities, int, int, int, int]] = []
        for autocluster, job_group in job_groups.items():
            unmatched = job_group.idle - self._taken.get(job_group, 0)
            if unmatched and autocluster < 0:
                (order, number, _) = job_group.entries[0]
                parts += [(order, number, *part) for part in self._counts(self.state.clusters[number])]
            elif unmatched:
                parts.append((*self._first(job_group), autocluster, unmatched))
        tally: dict[int, tuple[Cluster, int, int]] = {}
        for _, number, proc, autocluster, count in sorted(parts):
            known = tally.get(autocluster)
            first = (self.state.clusters[number], proc) if known is None else known[:2]
            tally[autocluster] = (*first, count + (0 if known is None else known[2]))
        return tally

    def _first(self, job_group: IdleJobGroup) -> tuple[Priorities, int, int]:
        """Return the priorities, cluster and process of a group's first unmatched job. If the jobs of a cluster differ
        in priority, they come before all others, sorted by process."""
        if job_group not in self._taken:
            if job_group.single_jobs:
                return ((), *job_group.single_jobs[0])
            order, number, _ = job_group.entries[0]
            return order, number, self.state.clusters[number].next_idle()
        entries = ((order, number, only) for order, number, only in job_group.entries if only < 0)
        for order, number, only in chain((((), *job) for job in job_group.single_jobs), entries):
            cluster = self.state.clusters[number]
            matched = self.matched_procs.get(number, ())
            for proc in waiting_procs(cluster, only, self.state):
                if proc not in matched:
                    return order, number, proc
        raise AssertionError("unreachable: the group has unmatched jobs")

    def _counts(self, cluster: Cluster) -> Iterator[tuple[int, int, int]]:
        autoclusters, procs = self.autoclusters, self._idle(cluster)
        proc_numbers = autoclusters.numbers_by_proc(cluster)
        if proc_numbers is None:
            numbers = np.array([autoclusters.number(autoclusters.signature(cluster, proc)) for proc in procs.tolist()])
        else:
            numbers = np.frombuffer(proc_numbers, np.int32)[procs]
        distinct, at, counts = np.unique(numbers, return_index=True, return_counts=True)
        columns = procs[at], distinct, counts
        yield from zip(*(column.tolist() for column in columns), strict=True)
