"""Groups of jobs in a cluster with equal values for expressions, so that each group is evaluated only once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..classad import ClassAd, EvaluationError, Expression
from ..classad.survey import SCOPE_LEAVERS
from ..classad.tree import Call, children
from ..classad.value_evidence import DYNAMIC_REFERENCES
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster

ALL_ATTRIBUTES = "*"
"""Stands for all attributes, if an expression computes attribute names."""


def attributes_read(expressions: Iterable[Expression], cluster: Cluster, proc: int) -> frozenset[str]:
    """Return the lower-case names that the expressions read, directly or through other attributes of the job's ad."""
    ad: ClassAd = ad_from_attributes(cluster.attributes(proc))
    reads: set[str] = set()
    pending = list(expressions)
    while pending:
        expression = pending.pop()
        if _may_read_anything(expression):
            return frozenset({ALL_ATTRIBUTES})
        try:
            references = expression.references(ad)
        except EvaluationError:
            return frozenset({ALL_ATTRIBUTES})
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


def group_alike(cluster: Cluster, procs: Sequence[int], names: frozenset[str]) -> list[list[int]]:
    """Group jobs with the same history and equal values of the named attributes."""
    if ALL_ATTRIBUTES in names or "procid" in names:
        return [[proc] for proc in procs]
    names_read = [name for name in cluster.variants.names if name.lower() in names]
    groups: dict[tuple[object, ...], list[int]] = {}
    cohorts, status = cluster.cohort_of, cluster.status
    for proc in procs:
        values = [cluster.variants.of_proc(proc)[name] for name in names_read] if names_read else ()
        groups.setdefault((cohorts[proc], status[proc], *values), []).append(proc)
    return list(groups.values())
