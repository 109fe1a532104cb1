"""What a submitter asks for in a cycle: its waiting jobs in their order, each with the number of its autocluster."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np
import numpy.typing as npt
from attrs import define, field

from ..classad import ClassAd, Context, EvaluationError, Expression
from ..classad.match import accepts
from ..state.caches import Caches
from ..state.cluster import IDLE, Cluster
from ..state.expression_cache import ad_of
from ..state.state import State
from .autoclusters import SignificantAttributes
from .idle_jobs import idle_procs, queues, waiting

Request = tuple[Cluster, int, int]
"""A job: its cluster, its process, its autocluster's number."""
_MANY = 32
"""Waiting jobs of a cluster from which on they are looked through as arrays."""


@define
class Requests:
    """The jobs that wait in one cycle."""

    state: State
    likeness: SignificantAttributes
    caches: Caches
    given: dict[int, set[int]] = field(factory=dict)  #: by cluster the processes that the cycle has found a slot for
    _busy: dict[int, list[int]] = field(factory=dict)  #: and those that had one before, or of which something is left

    def __attrs_post_init__(self) -> None:
        for number, proc in (*self.state.by_job, *self.state.reserved):
            self._busy.setdefault(number, []).append(proc)

    def leave_out(self, constraint: Expression, context: Context) -> None:
        """Only jobs for which NEGOTIATOR_JOB_CONSTRAINT is true are looked at."""
        for cluster in self.state.clusters.values():
            if cluster.counts[IDLE] and not cluster.local:
                for proc in self._idle(cluster).tolist():
                    if not _meets(constraint, ad_of(cluster.attributes(proc)), context):
                        self.give(cluster, proc)

    def give(self, cluster: Cluster, proc: int) -> None:
        """The job has a slot."""
        self.given.setdefault(cluster.id, set()).add(proc)

    def _given(self, cluster: Cluster) -> Container[int]:
        return self.given.setdefault(cluster.id, set())

    def of(self, submitter: str, failed: Container[int]) -> Iterator[Request]:
        """A submitter's jobs, first come first, without those whose number is, or comes to be, in ``failed``."""
        entries = [entry for entry in queues(self.state, self.caches).get(submitter, []) if entry[2].counts[IDLE]]
        if all(order for order, _, _ in entries):
            for _, _, cluster in entries:
                yield from self._of_cluster(cluster, failed)
            return
        for cluster, proc in waiting(self.state, submitter, self.caches):
            number = self.likeness.number(self.likeness.signature(cluster, proc))
            if number not in failed and proc not in self._given(cluster):
                yield cluster, proc, number

    def _of_cluster(self, cluster: Cluster, failed: Container[int]) -> Iterator[Request]:
        likeness, given = self.likeness, self._given(cluster)
        number = likeness.number(likeness.signature(cluster, cluster.next_idle()))
        if likeness.uniform(cluster):
            if number in failed:
                return
            for proc in idle_procs(cluster, self.state):
                if proc in given:
                    continue
                yield cluster, proc, number
                if number in failed:
                    return
            return
        kinds = likeness.kinds(cluster) if cluster.counts[IDLE] >= _MANY else None
        if kinds is None:
            for proc in idle_procs(cluster, self.state):
                number = likeness.number(likeness.signature(cluster, proc))
                if number not in failed and proc not in given:
                    yield cluster, proc, number
            return
        yield from self._by_columns(cluster, np.frombuffer(kinds, np.int32), failed)

    def _by_columns(self, cluster: Cluster, kinds: npt.NDArray[np.int32], failed: Container[int]) -> Iterator[Request]:
        """Run by run: jobs of one kind that follow each other."""
        procs = self._idle(cluster)
        if not len(procs):
            return
        mine = kinds[procs]
        starts = np.concatenate([[0], np.flatnonzero(mine[1:] != mine[:-1]) + 1])
        ends = [*starts[1:].tolist(), len(procs)]
        for start, end, number in zip(starts.tolist(), ends, mine[starts].tolist(), strict=True):
            if number in failed:
                continue
            for proc in procs[start:end].tolist():
                yield cluster, proc, number
                if number in failed:
                    break

    def _idle(self, cluster: Cluster) -> npt.NDArray[np.int64]:
        """The processes that wait, and have not been given anything."""
        waits = np.frombuffer(bytes(cluster.status), np.uint8) == IDLE
        waits[[*self._busy.get(cluster.id, ()), *self.given.get(cluster.id, ())]] = False
        return np.flatnonzero(waits)

    def tally(self, submitter: str) -> dict[int, tuple[Cluster, int, int]]:
        """Of each autocluster with jobs that have got nothing: its first job, and how many they are."""
        found: dict[int, tuple[Cluster, int, int]] = {}
        for _, _, cluster in queues(self.state, self.caches).get(submitter, []):
            if cluster.counts[IDLE]:
                for number, proc, count in self._counts(cluster):
                    known = found.get(number)
                    found[number] = (cluster, proc, count) if known is None else (known[0], known[1], known[2] + count)
        return found

    def _counts(self, cluster: Cluster) -> Iterator[tuple[int, int, int]]:
        """Numbers of autoclusters, the first process of each, and how many have it."""
        likeness, procs = self.likeness, self._idle(cluster)
        if not len(procs):
            return
        first = int(procs[0])
        number = likeness.number(likeness.signature(cluster, first))
        if len(procs) == 1 or likeness.uniform(cluster):
            yield number, first, len(procs)
            return
        kinds = likeness.kinds(cluster)
        if kinds is None:
            numbers = np.array([likeness.number(likeness.signature(cluster, proc)) for proc in procs.tolist()])
        else:
            numbers = np.frombuffer(kinds, np.int32)[procs]
        distinct, at, counts = np.unique(numbers, return_index=True, return_counts=True)
        order = np.argsort(at)  # the numbers tell which kind was met first, in whatever cycle
        columns = distinct, procs[at], counts
        yield from zip(*(column[order].tolist() for column in columns), strict=True)


def _meets(constraint: Expression, job: ClassAd, context: Context) -> bool:
    try:
        return accepts(constraint.evaluate(job, None, context))
    except EvaluationError:
        return False
