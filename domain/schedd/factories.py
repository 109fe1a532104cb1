"""Factories: clusters that create their jobs gradually ("late materialization").

A cluster with JobMaterializeLimit or JobMaterializeMaxIdle has a factory. It materializes jobs while the queue contains
fewer than JobMaterializeLimit of them and fewer than JobMaterializeMaxIdle are idle or held. Source: the manual's
"Submitting Lots of Jobs"; HTCondor's MaterializeJobs and CheckMaterializePolicyExpression (qmgmt.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..classad import EvaluationError, Expression
from ..classad.matching import is_satisfied
from ..decision.draft import Draft
from ..events import Ad, ClusterEvent, FactoryTransitioned, JobsMaterialized, PoolConfigured
from ..ports.stimuli import Selection
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster, Factory
from ..state.job_ad import STATUS_NUMBERS
from ..state.state import AccessPoint
from .crontab import ATTRIBUTES
from .job_deferral import integer_attribute, schedule_runs
from .queue_limits import SHARED_LIMITS, max_new_jobs

# The attributes that control a factory.

LIMIT_ATTRIBUTE: Final = "JobMaterializeLimit"
MAX_IDLE: Final = "JobMaterializeMaxIdle"
PAUSED: Final = "JobMaterializePaused"
LIMITS: Final = frozenset({LIMIT_ATTRIBUTE.lower(), MAX_IDLE.lower()})
FACTORY_ATTRIBUTES: Final = frozenset({"jobmaterializenextprocid", "jobmaterializenextrow", "totalsubmitprocs"})
"""The attributes that only factories set."""


def has_factory(ad: Iterable[str]) -> bool:
    """Check whether a submission with these attributes creates a factory."""
    return not LIMITS.isdisjoint(map(str.lower, ad))


_IDLE_OR_HELD: Final = tuple(STATUS_NUMBERS[name] for name in ("Idle", "Held"))


def factory_ad(cluster: Cluster) -> Ad:
    """Return the cluster ad of a factory, which applies to the jobs that are not materialized yet."""
    assert cluster.factory is not None
    computed = {
        "ClusterId": str(cluster.id),
        "JobMaterializeNextProcId": str(cluster.factory.materialized),
        "JobStatus": "1",
    }
    if cluster.factory.mode == "Paused":
        computed |= {PAUSED: "1"}
    return {**cluster.ad, **cluster.factory.changes, **computed}


def materialize(draft: Draft[AccessPoint]) -> None:
    """Materialize jobs of those clusters that changed in this decision."""
    state = draft.state
    numbers = {event.cluster for event in draft.events if isinstance(event, ClusterEvent)}
    configured = any(isinstance(event, PoolConfigured) for event in draft.events)
    if state.factories and (configured or (numbers and any(name in state.settings for name in SHARED_LIMITS))):
        numbers = set(state.factories)  # a limit shared by several clusters may allow more jobs again
    for number in sorted(numbers & state.factories.keys()):
        cluster = state.clusters[number]
        assert cluster.factory is not None
        count = _jobs_to_materialize(draft, cluster)
        if count > 0:
            first = cluster.factory.materialized
            procs = ((first, first + count - 1),)
            draft.emit(JobsMaterialized(*draft.header("materialized"), number, procs, cluster.initial_status))
            if cluster.initial_status == "Idle" and any(cluster.requested_value(first, name) for name in ATTRIBUTES):
                schedule_runs(draft, cluster, list(range(first, first + count)))


def _jobs_to_materialize(draft: Draft[AccessPoint], cluster: Cluster) -> int:
    assert cluster.factory is not None
    if cluster.factory.mode != "Running":
        return 0
    count = cluster.unmaterialized
    limit, max_idle = (_limit_value(draft, cluster, cluster.factory, name) for name in (LIMIT_ATTRIBUTE, MAX_IDLE))
    if limit is not None and limit > 0:
        count = min(count, limit - cluster.live)
    if max_idle is not None and max_idle >= 0:
        count = min(count, max_idle - sum(cluster.status_counts[number] for number in _IDLE_OR_HELD))
    maximum = max_new_jobs(draft.state, cluster)
    return count if maximum is None else min(count, maximum)


def _limit_value(draft: Draft[AccessPoint], cluster: Cluster, factory: Factory, name: str) -> int | None:
    text = factory.changes.get(name) or cluster.ad.get(name, "")
    if text.isdecimal():
        return int(text)
    return integer_attribute(ad_from_attributes({**cluster.ad, **factory.changes}), name, draft.context)


# Commands


def selected_factories(draft: Draft[AccessPoint], selection: Selection, constraint: Expression | None) -> list[Cluster]:
    """Return the factories whose whole clusters a command selects."""
    factories = []
    state = draft.state
    only_constraint = constraint is not None and not (selection.clusters or selection.jobs or selection.owners)
    for number in state.factories:
        cluster = state.clusters[number]
        is_named = number in selection.clusters or state.owner(cluster) in selection.owners
        if (is_named or selection.everything or only_constraint) and _meets_constraint(draft, cluster, constraint):
            factories.append(cluster)
    return factories


def _meets_constraint(draft: Draft[AccessPoint], cluster: Cluster, constraint: Expression | None) -> bool:
    if constraint is None:
        return True
    try:
        return is_satisfied(constraint.evaluate(ad_from_attributes(factory_ad(cluster)), None, draft.context))
    except EvaluationError:
        return False


_TARGETS: Final = {"hold": "Paused", "release": "Running", "remove": "Removed"}


def move_factory(draft: Draft[AccessPoint], cluster: Cluster, action: str, cause: str, reason: str) -> bool:
    """Pause, resume or end a cluster's factory. Return False if nothing changed."""
    target, factory = _TARGETS.get(action, ""), cluster.factory
    if factory is None or not target or factory.mode == target or cluster.id not in draft.state.factories:
        return False
    draft.emit(FactoryTransitioned(*draft.header(cause), cluster.id, factory.mode, target, reason))
    return True
