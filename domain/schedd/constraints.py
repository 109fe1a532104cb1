"""Which of many jobs meet a condition: a command's constraint, or an expression of a policy."""

from __future__ import annotations

from collections.abc import Sequence

from ..classad import ERROR, UNDEFINED, ClassAd, Context, EvaluationError, Expression
from ..classad.match import accepts
from ..state.cluster import Cluster
from ..state.expression_cache import ad_of

MANY = 500
"""Jobs from which on a condition is evaluated by columns: it takes 50 ms to load what does that."""


def meeting(condition: Expression, jobs: Sequence[tuple[Cluster, list[int]]], context: Context) -> list[list[int]]:
    """Return, for each of these clusters, those of its processes that meet the condition: it is true of them, or a
    number other than 0."""
    if sum(len(procs) for _, procs in jobs) >= MANY:
        from . import job_constraints

        found = job_constraints.meeting(condition, jobs, context)
        if found is not None:
            return found
    return [
        [proc for proc in procs if meets(condition, ad_of(cluster.attributes(proc)), context)]
        for cluster, procs in jobs
    ]


def meets(condition: Expression, job: ClassAd, context: Context) -> bool:
    """Tell the same of one job, by its ad."""
    try:
        value = condition.evaluate(job, None, context)
    except EvaluationError:
        return False
    return value not in (UNDEFINED, ERROR) and accepts(value)
