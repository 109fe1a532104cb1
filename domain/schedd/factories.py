"""Factories: clusters whose jobs come into the queue little by little ("late materialization").

A cluster with a JobMaterializeLimit or a JobMaterializeMaxIdle has one. It makes the next jobs whenever fewer than the
limit are in the queue, and fewer than the other of them wait or are held. Source: the manual's "Submitting Lots of
Jobs"; HTCondor's MaterializeJobs and CheckMaterializePolicyExpression (qmgmt.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..classad import EvaluationError, Expression
from ..classad.matching import is_satisfied
from ..decision.draft import Draft
from ..events import Ad, ClusterEvent, FactoryTransitioned, JobsMaterialized, PoolConfigured
from ..ports.stimuli import Selection
from ..state.caches import ad_of
from ..state.cluster import Cluster, Factory
from ..state.job_ad import STATUS_NUMBERS
from ..state.state import AccessPoint
from .crontab import ATTRIBUTES
from .job_deferral import schedule, whole_of
from .queue_limits import SHARED, most_more

# The attributes by which a cluster's factory goes (``factories``).

LIMIT: Final = "JobMaterializeLimit"
MAX_IDLE: Final = "JobMaterializeMaxIdle"
PAUSED: Final = "JobMaterializePaused"
LIMITS: Final = frozenset({LIMIT.lower(), MAX_IDLE.lower()})
KEPT: Final = frozenset({"jobmaterializenextprocid", "jobmaterializenextrow", "totalsubmitprocs"})
"""What a factory itself writes."""


def makes_factory(ad: Iterable[str]) -> bool:
    """Check whether a submission with these attributes has its jobs made little by little."""
    return any(name.lower() in LIMITS for name in ad)


_NOT_RUNNING: Final = tuple(STATUS_NUMBERS[name] for name in ("Idle", "Held"))


def factory_ad(cluster: Cluster) -> Ad:
    """The ad of a cluster with a factory, as it is for the jobs that are still to come."""
    assert cluster.factory is not None
    more = {
        "ClusterId": str(cluster.id),
        "JobMaterializeNextProcId": str(cluster.factory.materialized),
        "JobStatus": "1",
    }
    if cluster.factory.mode == "Paused":
        more |= {PAUSED: "1"}
    return {**cluster.ad, **cluster.factory.changes, **more}


def materialize(draft: Draft[AccessPoint]) -> None:
    """Let the factories make jobs of whose clusters anything has changed in this decision."""
    state = draft.state
    numbers = {event.cluster for event in draft.events if isinstance(event, ClusterEvent)}
    everybody = any(isinstance(event, PoolConfigured) for event in draft.events)
    if state.factories and (everybody or (numbers and any(name in state.settings for name in SHARED))):
        numbers = set(state.factories)  # there may be room that there was not
    for number in sorted(numbers & state.factories.keys()):
        cluster = state.clusters[number]
        assert cluster.factory is not None
        room = _room(draft, cluster)
        if room > 0:
            first = cluster.factory.materialized
            procs = ((first, first + room - 1),)
            draft.emit(JobsMaterialized(*draft.why("materialized"), number, procs, cluster.initial_status))
            if cluster.initial_status == "Idle" and any(cluster.requested_value(first, name) for name in ATTRIBUTES):
                schedule(draft, cluster, list(range(first, first + room)))


def _room(draft: Draft[AccessPoint], cluster: Cluster) -> int:
    """How many jobs the cluster's factory may make now."""
    assert cluster.factory is not None
    if cluster.factory.mode != "Running":
        return 0
    room = cluster.unmaterialized
    limit, idle = (_number(draft, cluster, cluster.factory, name) for name in (LIMIT, MAX_IDLE))
    if limit is not None and limit > 0:
        room = min(room, limit - cluster.live)
    if idle is not None and idle >= 0:
        room = min(room, idle - sum(cluster.status_counts[number] for number in _NOT_RUNNING))
    most = most_more(draft.state, cluster)
    return room if most is None else min(room, most)


def _number(draft: Draft[AccessPoint], cluster: Cluster, factory: Factory, name: str) -> int | None:
    """Return a limit's value; None if it is not a number. Plain numbers, as most are, need no ad."""
    text = factory.changes.get(name) or cluster.ad.get(name, "")
    if text.isdecimal():
        return int(text)
    return whole_of(ad_of({**cluster.ad, **factory.changes}), name, draft.context)


# Commands


def selected_factories(draft: Draft[AccessPoint], selection: Selection, constraint: Expression | None) -> list[Cluster]:
    """The clusters with factories that a command means as a whole."""
    factories = []
    state = draft.state
    only_constraint = constraint is not None and not (selection.clusters or selection.jobs or selection.owners)
    for number in state.factories:
        cluster = state.clusters[number]
        named = number in selection.clusters or state.owner(cluster) in selection.owners
        if (named or selection.everything or only_constraint) and _meets(draft, cluster, constraint):
            factories.append(cluster)
    return factories


def _meets(draft: Draft[AccessPoint], cluster: Cluster, constraint: Expression | None) -> bool:
    if constraint is None:
        return True
    try:
        return is_satisfied(constraint.evaluate(ad_of(factory_ad(cluster)), None, draft.context))
    except EvaluationError:
        return False


_TARGETS: Final = {"hold": "Paused", "release": "Running", "remove": "Removed"}


def move(draft: Draft[AccessPoint], cluster: Cluster, action: str, cause: str, reason: str) -> bool:
    """Pause, resume or end a cluster's factory. Return False if that changes nothing."""
    target, factory = _TARGETS.get(action, ""), cluster.factory
    if factory is None or not target or factory.mode == target or cluster.id not in draft.state.factories:
        return False
    draft.emit(FactoryTransitioned(*draft.why(cause), cluster.id, factory.mode, target, reason))
    return True
