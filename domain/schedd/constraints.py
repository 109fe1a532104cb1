"""Which of many jobs meet a condition: a command's constraint, or an expression of a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from ..classad import ERROR, UNDEFINED, ClassAd, Context, EvaluationError, Expression
from ..classad.allowance import Allowance
from ..classad.matching import accepts
from ..state.caches import ad_of, parse_cached
from ..state.cluster import Cluster

MANY = 500
"""The number of jobs from which on a condition is evaluated by columns: loading that code takes 50 ms."""
_A_FEW = 200
"""The number of jobs that are evaluated between two pauses."""
Jobs = Sequence[tuple[Cluster, list[int]]]
"""Clusters, each with some of its processes."""


class NeedsPreEvaluation(Exception):
    """Too many jobs must be evaluated one by one in a decision: evaluate them before it, in parts (``AskedAhead.ask``).
    Nothing was decided."""

    def __init__(self, condition: Expression, jobs: Jobs, context: Context) -> None:
        super().__init__(condition, jobs, context)
        self.condition, self.jobs, self.context = condition, jobs, context


class AskedAhead(Struct):
    """The values of a condition for jobs that were evaluated before the decision."""

    context: Context  #: the context of the evaluation, with its instant
    _said: dict[int, dict[int, bool]] = field(default_factory=dict)

    def ask(self, first: NeedsPreEvaluation) -> Iterator[None]:
        """Evaluate the condition for the remaining jobs, and yield every few milliseconds. The state may change
        meanwhile; jobs that have left the queue are skipped."""
        context = self.context.replace(allowance=Allowance("the constraint"))
        for cluster, procs in first.jobs:
            answers = self._said.setdefault(cluster.id, {})
            silent = [proc for proc in procs if proc not in answers]
            for at in range(0, len(silent), _A_FEW):
                for proc, ad in _ads(cluster, silent[at : at + _A_FEW]):
                    answers[proc] = meets(first.condition, ad, context)
                yield

    def forget(self, cluster: int, procs: Sequence[tuple[int, int]]) -> None:
        """Forget the values for these jobs: something happened to them."""
        answers = self._said.get(cluster, {})
        for first, last in procs if answers else ():
            for proc in range(first, last + 1):
                answers.pop(proc, None)

    def of(self, cluster: int) -> dict[int, bool]:
        """Return the known values for a cluster's jobs."""
        return self._said.get(cluster, {})


class EvaluationBudget(Struct):
    """How many jobs a decision may evaluate one by one, and the values computed before it. It is kept in a pool's
    ``Caches``: an empty one has no maximum."""

    most: int | None = None
    ahead: AskedAhead | None = None

    def take(self, other: EvaluationBudget) -> None:
        """Copy the fields of another budget."""
        self.most, self.ahead = other.most, other.ahead


def select_matching(
    condition: Expression, jobs: Jobs, context: Context, patience: EvaluationBudget | None = None
) -> list[list[int]]:
    """Return, for each of these clusters, the processes for which the condition is true, or a number other than 0.

    :raises NeedsPreEvaluation: more jobs must be evaluated one by one than ``patience`` permits
    """
    if sum(len(procs) for _, procs in jobs) >= MANY:
        from . import job_constraints

        selected = job_constraints.select_matching(condition, jobs, context)
        if selected is not None:
            return selected
    ahead = None if patience is None else patience.ahead
    answers = [{} if ahead is None else ahead.of(cluster.id) for cluster, _ in jobs]
    if patience is not None and patience.most is not None:
        new = sum(proc not in known for (_, procs), known in zip(jobs, answers, strict=True) for proc in procs)
        if new > patience.most:
            raise NeedsPreEvaluation(condition, jobs, context)
    if ahead is not None:
        context = ahead.context  # all are evaluated as of one instant
    return [_one_by_one(condition, *each, known, context) for each, known in zip(jobs, answers, strict=True)]


def _one_by_one(
    condition: Expression, cluster: Cluster, procs: list[int], known: dict[int, bool], context: Context
) -> list[int]:
    new = {proc: meets(condition, ad, context) for proc, ad in _ads(cluster, [p for p in procs if p not in known])}
    return [proc for proc in procs if new.get(proc, known.get(proc))]


def _ads(cluster: Cluster, procs: Sequence[int]) -> Iterator[tuple[int, ClassAd]]:
    """Yield the ads of the processes that are in the queue. Each is chained to an ad that jobs with the same history
    share: building a complete ad takes longer than most conditions."""
    shared: dict[int, tuple[ClassAd, tuple[str, ...]]] = {}
    for proc in procs:
        if proc not in cluster:
            continue
        cohort = cluster.cohort_of[proc]
        parts = shared.get(cohort)
        if parts is None or cluster.members[cohort] == 1:
            parts = shared[cohort] = _shared_ad(cluster, proc)
        parent, varying = parts
        ad = ClassAd(chained=parent)
        own = cluster.variants.of(proc) if varying else {}
        for name in varying:
            meaning = parse_cached(own[name]) if own[name] else None
            if meaning is not None:
                ad[name] = meaning
        ad["ClusterId"], ad["ProcId"], ad["JobStatus"] = cluster.id, proc, cluster.status[proc]
        yield proc, ad


def _shared_ad(cluster: Cluster, proc: int) -> tuple[ClassAd, tuple[str, ...]]:
    """Return the common ad of all jobs with the same history as this one, and the names of the attributes that differ
    between them."""
    changes = cluster.changes(proc)
    changed = {name.lower() for name, text in changes.items() if text}
    names = cluster.variants.names
    varying = tuple(name for name in names if name not in changes and name.lower() not in changed)
    texts = {name: text for name, text in cluster.ad.items() if name not in names}
    return ad_of({**texts, **changes}), varying


def meets(condition: Expression, job: ClassAd, context: Context) -> bool:
    """Return whether one job, given by its ad, meets the condition."""
    try:
        value = condition.evaluate(job, None, context)
    except EvaluationError:
        return False
    return value not in (UNDEFINED, ERROR) and accepts(value)
