"""How events about submissions, factories and jobs change an access point's queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..state.cluster import Cluster
from ..state.job_ad import DEFERRAL_TIME, TERMINAL
from ..state.proc_ads import Variants
from ..state.records import NOTIFICATION
from ..state.state import AccessPoint
from ..state_machines import LEFT


def _submitted(state: AccessPoint, event: e.ClusterSubmitted) -> None:
    variants = Variants(event.columns)
    cluster = Cluster(
        event.cluster, event.submitter, event.ad, event.count, variants, event.status, factory=event.factory
    )
    if event.factory:
        state.factories[event.cluster] = None
    state.clusters[event.cluster] = cluster
    if not cluster.is_uniform(NOTIFICATION) or cluster.requested_value(0, NOTIFICATION) not in ("", "0"):
        state.notifying.add(event.cluster)
    state.note_cluster(cluster)
    state.unused_cluster_ids.discard(event.cluster)
    state.unused_cluster_ids.update(range(state.next_cluster, event.cluster))
    state.next_cluster = max(state.next_cluster, event.cluster + 1)
    state.job_news = state.requested = state.position


def _refused(state: AccessPoint, event: e.SubmissionRefused) -> None:
    """The number of a submission that was refused is used up."""
    state.unused_cluster_ids.discard(event.cluster)
    state.unused_cluster_ids.update(range(state.next_cluster, event.cluster))
    state.next_cluster = max(state.next_cluster, event.cluster + 1)


def ends(state: AccessPoint, cluster: Cluster) -> None:
    """Jobs of the cluster have left the queue, perhaps its last."""
    if cluster.live or cluster.unmaterialized:
        state.note_idle(cluster, -1)
        return
    state.note_cluster(cluster)
    del state.clusters[cluster.id]
    state.notifying.discard(cluster.id)
    state.factories.pop(cluster.id, None)
    for rejections in (state.rejections, *state.further_rejections.values()):
        rejections.pop(cluster.id, None)


def _materialized(state: AccessPoint, event: e.JobsMaterialized) -> None:
    cluster = state.clusters[event.cluster]
    cluster.make(event.procs, event, event.status)
    if not cluster.unmaterialized:
        state.factories.pop(event.cluster, None)
    state.note_idle(cluster, _one(event.procs))
    state.job_news = state.requested = state.position


def _factory_moved(state: AccessPoint, event: e.FactoryTransitioned) -> None:
    cluster = state.clusters[event.cluster]
    if cluster.factory is not None:
        cluster.factory.mode, cluster.factory.reason = event.target, event.reason
    if event.target == "Removed":
        state.factories.pop(event.cluster, None)
        ends(state, cluster)


def _jobs_moved(state: AccessPoint, event: e.JobsTransitioned) -> None:
    cluster = state.clusters[event.cluster]
    if event.target == LEFT:
        cluster.end_all(event.procs)
        ends(state, cluster)
        return
    if event.target == "Idle":
        state.job_news = state.position
        if event.row == "release":
            state.requested = state.position
    cluster.edit_all(event.procs, event, event.target)
    state.note_idle(cluster, _one(event.procs))
    if event.left and event.target in TERMINAL:
        for first, last in event.procs:
            for proc in range(first, last + 1):
                if proc in cluster and (cluster.id, proc) not in state.by_job:
                    cluster.end(proc)
        ends(state, cluster)


def _one(procs: e.Procs) -> int:
    """The process if it is one alone; else -1."""
    return procs[0][0] if len(procs) == 1 and procs[0][0] == procs[0][1] else -1


def _jobs_edited(state: AccessPoint, event: e.JobsEdited) -> None:
    state.job_news = state.position
    cluster = state.clusters[event.cluster]
    cluster.edit_all(event.procs, event, None)
    if cluster.factory is not None and event.procs[-1][1] == cluster.count - 1:
        cluster.factory.changes.update(event.changes)
    cluster.edited.update(name.lower() for name in event.changes)
    cluster.edits += 1
    if NOTIFICATION.lower() in cluster.edited:
        state.notifying.add(cluster.id)
    state.note_cluster(cluster)
    if event.number:
        state.by_job[event.cluster, event.procs[0][0]].chirped = event.number


def _deferred(state: AccessPoint, event: e.JobsDeferred) -> None:
    cluster = state.clusters[event.cluster]
    cluster.edit_all(event.procs, event, None)
    cluster.edited.add(DEFERRAL_TIME.lower())
    cluster.edits += 1
    state.note_cluster(cluster)


def _cooled_down(state: AccessPoint, event: e.JobCooledDown) -> None:
    del state.cooling[event.cluster, event.proc]
    state.job_news = state.position
    cluster = state.clusters.get(event.cluster)
    if cluster is not None:
        state.note_cluster(cluster)


def _mail_due(state: AccessPoint, event: e.MailDue) -> None:
    state.mails[state.position] = event


def _mailed(state: AccessPoint, event: e.Mailed) -> None:
    del state.mails[event.mail]


FOLDS: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.JobsTransformed: lambda state, event: None,
    e.SubmissionRefused: _refused,
    e.ClusterSubmitted: _submitted,
    e.JobsMaterialized: _materialized,
    e.FactoryTransitioned: _factory_moved,
    e.JobsTransitioned: _jobs_moved,
    e.JobsEdited: _jobs_edited,
    e.JobsDeferred: _deferred,
    e.JobCooledDown: _cooled_down,
    e.MailDue: _mail_due,
    e.Mailed: _mailed,
}
