"""The jobs that wait, in the order in which they are served.

Of one submitter's jobs those with the higher PreJobPrio1 go first, then PreJobPrio2, JobPrio, PostJobPrio1,
PostJobPrio2, then the earlier ones. What is no whole number comes last (JobPrio counts as 0 then). Source: the manual,
"Negotiation", and the reference's order where a trace shows it.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping
from math import inf
from types import MappingProxyType
from typing import Final

from ..state.caches import Caches
from ..state.cluster import IDLE, Cluster
from ..state.state import State

PRIOS: Final = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")
_UNSET: Final = {name: 0.0 if name == "JobPrio" else inf for name in PRIOS}
_LOWER: Final = frozenset(name.lower() for name in PRIOS)

Prios = tuple[float, ...]
"""The five priorities of a job, negated: the least goes first."""
Entry = tuple[Prios, int, Cluster]
"""A cluster whose jobs have the same priorities (else they are those of none): these, its number, the cluster."""


def waits(state: State) -> bool:
    """Return whether any job waits for a slot."""
    return any(cluster.counts[IDLE] and not cluster.local for cluster in state.clusters.values())


def prios(cluster: Cluster, proc: int) -> Prios:
    return tuple(_prio(cluster.value(proc, name), _UNSET[name]) for name in PRIOS)


def _prio(text: str, unset: float) -> float:
    try:
        return -float(int(text))
    except ValueError:
        return unset


def plain(cluster: Cluster) -> bool:
    """Whether all jobs of the cluster have the same priorities."""
    names = {name.lower() for name in cluster.variants.names}
    return _LOWER.isdisjoint(names) and _LOWER.isdisjoint(cluster.edited)


def idle_procs(cluster: Cluster, state: State) -> Iterator[int]:
    """The processes of a cluster that wait for a slot: not those that have been given one already, nor those of which
    something is left of an earlier run."""
    number, by_job, promised = cluster.id, state.by_job, state.reserved
    proc = cluster.next_idle()
    while proc >= 0:
        if (number, proc) not in by_job and (number, proc) not in promised:
            yield proc
        proc = cluster.next_idle(proc)


class _Queues:
    """The queues, and the version of the state's queue that they are of."""

    version = -1
    by_submitter: Mapping[str, list[Entry]] = MappingProxyType({})


def queues(state: State, caches: Caches) -> Mapping[str, list[Entry]]:
    """Each submitter's clusters in their order: kept until a cluster comes or goes or is edited."""
    known = caches.of(_Queues)
    if known.version != state.queue_version:
        known.version, known.by_submitter = state.queue_version, _sorted(state.clusters.values())
    return known.by_submitter


def _sorted(clusters: Iterable[Cluster]) -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for cluster in clusters:
        if not cluster.local:
            order = prios(cluster, 0) if plain(cluster) else ()
            found.setdefault(cluster.submitter, []).append((order, cluster.id, cluster))
    for entries in found.values():
        entries.sort(key=lambda entry: entry[:2])
    return found


def waiting(
    state: State, submitter: str, caches: Caches, skipped: Container[int] = ()
) -> Iterator[tuple[Cluster, int]]:
    """The jobs of a submitter that wait for a slot, first come first. A cluster that comes to be in `skipped` while
    this is read is left; the state must not change."""
    entries = [entry for entry in queues(state, caches).get(submitter, []) if entry[2].counts[IDLE]]
    mixed = [cluster for order, _, cluster in entries if not order]
    if not mixed:
        return ((cluster, proc) for _, _, cluster in entries for proc in _unskipped(cluster, state, skipped))
    each = [
        sorted((prios(cluster, proc), cluster.id, proc) for proc in idle_procs(cluster, state)) for cluster in mixed
    ]
    rest = (
        (order, number, proc)
        for order, number, cluster in entries
        if order
        for proc in _unskipped(cluster, state, skipped)
    )
    return ((state.clusters[number], proc) for _, number, proc in heapq.merge(rest, *each))


def _unskipped(cluster: Cluster, state: State, skipped: Container[int]) -> Iterator[int]:
    for proc in idle_procs(cluster, state):
        if cluster.id in skipped:
            return
        yield proc
