"""Jobs of a cluster that are alike in what expressions read: one of them is asked for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..classad import ClassAd, EvaluationError, Expression
from ..classad.evidence import DYNAMIC_REFERENCES
from ..classad.survey import SCOPE_LEAVERS
from ..classad.tree import Call, children
from ..state.caches import ad_of
from ..state.cluster import Cluster

ANYTHING = "*"
"""Stands for all attributes: an expression makes names as it is evaluated."""


def attributes_read(expressions: Iterable[Expression], cluster: Cluster, proc: int) -> frozenset[str]:
    """The attributes, in small letters, that the expressions lead to in a job's ad, those that it lacks too."""
    ad: ClassAd = ad_of(cluster.attributes(proc))
    reads: set[str] = set()
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if _may_read_anything(expression):
            return frozenset({ANYTHING})
        try:
            references = expression.references(ad)
        except EvaluationError:
            return frozenset({ANYTHING})
        names = {name.rpartition(".")[2].lower() for name in (*references.internal, *references.external)} - reads
        reads |= names
        pending += (ad[name] for name in names if name in ad)
    return frozenset(reads)


def _may_read_anything(expression: Expression) -> bool:
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Call) and node.key in DYNAMIC_REFERENCES | SCOPE_LEAVERS:
            return True
        pending.extend(children(node))
    return False


def kinds(cluster: Cluster, procs: Sequence[int], names: frozenset[str]) -> list[list[int]]:
    """The jobs by what they share: those that went the same way until now, and have the same of what differs between
    the jobs of their submission and is read."""
    if ANYTHING in names or "procid" in names:
        return [[proc] for proc in procs]
    read = [name for name in cluster.variants.names if name.lower() in names]
    groups: dict[tuple[object, ...], list[int]] = {}
    of, status = cluster.cohort_of, cluster.status
    for proc in procs:
        varied = [cluster.variants.of(proc)[name] for name in read] if read else ()
        groups.setdefault((of[proc], status[proc], *varied), []).append(proc)
    return list(groups.values())
