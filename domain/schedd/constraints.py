"""Select the jobs that meet a condition: a command's constraint or a policy expression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from ..classad import ERROR, UNDEFINED, ClassAd, Context, EvaluationError, Expression
from ..classad.allowance import Allowance
from ..classad.matching import is_satisfied
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster

MIN_JOBS_FOR_COLUMNS = 500
"""The minimum number of jobs for which a condition is evaluated by columns, because loading that code takes 50 ms."""
_JOBS_PER_PAUSE = 200
"""The number of jobs to evaluate between two pauses."""
Jobs = Sequence[tuple[Cluster, list[int]]]
"""Clusters, each with a selection of its processes."""


class NeedsPreEvaluation(Exception):
    """Too many jobs would have to be evaluated one by one within a decision, so the decision was abandoned. Evaluate
    the jobs in batches (``SlowConstraint.evaluate``), then decide again."""

    def __init__(self, condition: Expression, jobs: Jobs, context: Context) -> None:
        super().__init__(condition, jobs, context)
        self.condition, self.jobs, self.context = condition, jobs, context


class SlowConstraint(Struct):
    """A slow condition's values for jobs that were evaluated before the decision."""

    context: Context  #: the context of the evaluation, with its time
    _values: dict[int, dict[int, bool]] = field(default_factory=dict)

    def evaluate(self, first: NeedsPreEvaluation) -> Iterator[None]:
        """Evaluate the condition for the remaining jobs. Yield every few milliseconds; the state may change during a
        yield. Skip jobs that have left the queue."""
        context = self.context.replace(allowance=Allowance("the constraint"))
        for cluster, procs in first.jobs:
            values = self._values.setdefault(cluster.id, {})
            remaining = [proc for proc in procs if proc not in values]
            for start in range(0, len(remaining), _JOBS_PER_PAUSE):
                for proc, ad in _job_ads(cluster, remaining[start : start + _JOBS_PER_PAUSE]):
                    values[proc] = meets_condition(first.condition, ad, context)
                yield

    def discard(self, cluster: int, procs: Sequence[tuple[int, int]]) -> None:
        """Discard the values of jobs that have changed."""
        values = self._values.get(cluster, {})
        for first, last in procs if values else ():
            for proc in range(first, last + 1):
                values.pop(proc, None)

    def values_for(self, cluster: int) -> dict[int, bool]:
        """Return the known values for the jobs of a cluster."""
        return self._values.get(cluster, {})


class EvaluationBudget(Struct):
    """How many jobs a decision may evaluate one by one, and the values computed beforehand. A pool's budget is in its
    ``Caches``; a budget without ``maximum`` is unlimited."""

    maximum: int | None = None
    slow_constraint: SlowConstraint | None = None

    def copy_from(self, other: EvaluationBudget) -> None:
        """Copy the fields of another budget."""
        self.maximum, self.slow_constraint = other.maximum, other.slow_constraint


def select_matching(
    condition: Expression, jobs: Jobs, context: Context, budget: EvaluationBudget | None = None
) -> list[list[int]]:
    """Return, for each of these clusters, the processes for which the condition is true or a nonzero number.

    :raises NeedsPreEvaluation: if ``budget`` allows fewer one-by-one evaluations than are needed
    """
    if sum(len(procs) for _, procs in jobs) >= MIN_JOBS_FOR_COLUMNS:
        from . import job_constraints

        selected = job_constraints.select_matching(condition, jobs, context)
        if selected is not None:
            return selected
    slow_constraint = None if budget is None else budget.slow_constraint
    values = [{} if slow_constraint is None else slow_constraint.values_for(cluster.id) for cluster, _ in jobs]
    if budget is not None and budget.maximum is not None:
        new_count = sum(proc not in known for (_, procs), known in zip(jobs, values, strict=True) for proc in procs)
        if new_count > budget.maximum:
            raise NeedsPreEvaluation(condition, jobs, context)
    if slow_constraint is not None:
        context = slow_constraint.context  # evaluate all jobs at the same instant
    return [_select_one_by_one(condition, *each, known, context) for each, known in zip(jobs, values, strict=True)]


def _select_one_by_one(
    condition: Expression, cluster: Cluster, procs: list[int], known: dict[int, bool], context: Context
) -> list[int]:
    unknown = [proc for proc in procs if proc not in known]
    computed = {proc: meets_condition(condition, ad, context) for proc, ad in _job_ads(cluster, unknown)}
    return [proc for proc in procs if computed.get(proc, known.get(proc))]


def _job_ads(cluster: Cluster, procs: Sequence[int]) -> Iterator[tuple[int, ClassAd]]:
    """Yield the ads of those processes that are in the queue. Jobs with the same history share a chained parent ad,
    because building a complete ad takes longer than evaluating most conditions."""
    shared: dict[int, tuple[ClassAd, tuple[str, ...]]] = {}
    for proc in procs:
        if proc not in cluster:
            continue
        cohort = cluster.cohort_of[proc]
        shared_parts = shared.get(cohort)
        if shared_parts is None or cluster.members[cohort] == 1:
            shared_parts = shared[cohort] = _shared_ad(cluster, proc)
        parent, varying = shared_parts
        ad = ClassAd(chained=parent)
        varying_texts = cluster.variants.of_proc(proc) if varying else {}
        for name in varying:
            parsed = parse_cached(varying_texts[name]) if varying_texts[name] else None
            if parsed is not None:
                ad[name] = parsed
        ad["ClusterId"], ad["ProcId"], ad["JobStatus"] = cluster.id, proc, cluster.status[proc]
        yield proc, ad


def _shared_ad(cluster: Cluster, proc: int) -> tuple[ClassAd, tuple[str, ...]]:
    """Return the ad that all jobs with this job's history share, and the names of the attributes in which they
    differ."""
    changes = cluster.changes(proc)
    changed_names = {name.lower() for name, text in changes.items() if text}
    names = cluster.variants.names
    varying = tuple(name for name in names if name not in changes and name.lower() not in changed_names)
    texts = {name: text for name, text in cluster.ad.items() if name not in names}
    return ad_from_attributes({**texts, **changes}), varying


def meets_condition(condition: Expression, job: ClassAd, context: Context) -> bool:
    """Check whether a job's ad meets the condition."""
    try:
        value = condition.evaluate(job, None, context)
    except EvaluationError:
        return False
    return value not in (UNDEFINED, ERROR) and is_satisfied(value)
