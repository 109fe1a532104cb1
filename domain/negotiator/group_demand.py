"""The number of cores that idle jobs request, which is a group's demand without its usage."""

from __future__ import annotations

from functools import lru_cache

from ..classad import ClassAd, Context, EvaluationError
from ..classad.analysis import references_or_empty
from ..requests.idle_jobs import IdleJobs
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import IDLE, Cluster
from ..state.state import Manager

_REQUEST = "RequestCpus"


def weight_of(cluster: Cluster, proc: int) -> float:
    """Return the access point's estimate of the weight of a job's future slot: the cores that the job requests."""
    text = cluster.value(proc, _REQUEST)
    return float(text) if text.isascii() and text.isdecimal() else _evaluated(text, cluster, proc)


def _evaluated(text: str, cluster: Cluster, proc: int) -> float:
    value = _constant(text) if text else 1.0
    if value is None:
        try:
            value = _cores(ad_from_attributes(cluster.attributes(proc)).eval(_REQUEST))
        except EvaluationError:
            value = 1.0
    return value


@lru_cache(maxsize=1024)
def _constant(text: str) -> float | None:
    parsed = parse_cached(text)
    if parsed is None:
        return 1.0
    return None if references_or_empty(parsed, ClassAd()).external else _cores(parsed.evaluate(context=Context()))


def _cores(value: object) -> float:
    return float(int(value)) if isinstance(value, int | float) and 0 <= value < 1e9 else 1.0


def requested_cores(queue: IdleJobs, state: Manager) -> float:
    """Return the number of cores that a submitter's idle jobs request."""
    cores = 0.0
    for job_group in queue.groups.values():
        _, number, only = job_group.entries[0]
        cluster = state.clusters[number]
        if job_group.autocluster < 0 and not cluster.is_uniform(_REQUEST):
            cores += sum(weight_of(cluster, proc) for proc in cluster.procs(lambda status: status == IDLE))
        else:
            cores += job_group.idle * weight_of(cluster, cluster.next_idle() if only < 0 else only)
    return cores
