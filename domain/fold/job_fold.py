"""Fold events about submissions, factories and jobs into an access point's queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..state.cluster import Cluster
from ..state.job_ad import DEFERRAL_TIME, SET_ID, TERMINAL, set_of
from ..state.proc_ads import Variants
from ..state.records import NOOP, NOTIFICATION
from ..state.state import AccessPoint, acts_as
from ..state_machines import LEFT


def _fold_cluster_submitted(state: AccessPoint, event: e.ClusterSubmitted) -> None:
    variants = Variants(event.columns)
    cluster = Cluster(event.cluster, event.submitter, event.ad, event.count, variants, event.status, event.factory)
    if event.factory:
        state.factories[event.cluster] = None
    state.clusters[event.cluster] = cluster
    if not cluster.is_uniform(NOTIFICATION) or cluster.requested_value(0, NOTIFICATION) not in ("", "0"):
        state.notifying.add(event.cluster)
    if not cluster.is_uniform(NOOP) or cluster.requested_value(0, NOOP):
        state.noop.add(event.cluster)
    if SET_ID in event.ad:
        state.job_sets.setdefault(set_of(event.ad, state.owner(cluster)), {})[event.cluster] = event.ad[SET_ID]
    state.record_cluster_change(cluster)
    _use_cluster_number(state, event)
    state.job_change_position = state.cycle_requested = state.position


def _use_cluster_number(state: AccessPoint, event: e.ClusterSubmitted | e.SubmissionRefused) -> None:
    if not acts_as(state, AccessPoint):
        return  # a copy of another log's event, whose access point allocates the numbers
    state.unused_cluster_ids.discard(event.cluster)
    state.unused_cluster_ids.update(range(state.next_cluster, event.cluster))
    state.next_cluster = max(state.next_cluster, event.cluster + 1)


def record_departure(state: AccessPoint, cluster: Cluster) -> None:
    """Update the state after jobs of a cluster left the queue. Remove the cluster if it has no jobs left."""
    if cluster.live or cluster.unmaterialized:
        state.update_idle_count(cluster, -1)
        return
    state.record_cluster_change(cluster)
    del state.clusters[cluster.id]
    state.notifying.discard(cluster.id)
    state.noop.discard(cluster.id)
    state.factories.pop(cluster.id, None)
    if SET_ID in cluster.ad:
        name = set_of(cluster.ad, state.owner(cluster))
        del state.job_sets[name][cluster.id]
        if not state.job_sets[name]:
            del state.job_sets[name]
    for rejections in (state.rejections, *state.further_rejections.values()):
        rejections.pop(cluster.id, None)


def _fold_jobs_materialized(state: AccessPoint, event: e.JobsMaterialized) -> None:
    cluster = state.clusters[event.cluster]
    cluster.materialize(event.procs, event, event.status)
    if not cluster.unmaterialized:
        state.factories.pop(event.cluster, None)
    state.update_idle_count(cluster, _single_proc(event.procs))
    state.job_change_position = state.cycle_requested = state.position


def _fold_factory_transitioned(state: AccessPoint, event: e.FactoryTransitioned) -> None:
    cluster = state.clusters[event.cluster]
    if cluster.factory is not None:
        cluster.factory.mode, cluster.factory.reason = event.target, event.reason
    if event.target == "Removed":
        state.factories.pop(event.cluster, None)
        record_departure(state, cluster)


def _fold_jobs_transitioned(state: AccessPoint, event: e.JobsTransitioned) -> None:
    cluster = state.clusters[event.cluster]
    if event.target == LEFT:
        cluster.remove_all(event.procs)
        record_departure(state, cluster)
        return
    if event.target == "Idle":
        state.job_change_position = state.position
        if event.row == "release":
            state.cycle_requested = state.position
    cluster.edit_all(event.procs, event, event.target)
    state.update_idle_count(cluster, _single_proc(event.procs))
    if event.left and event.target in TERMINAL:
        for first, last in event.procs:
            for proc in range(first, last + 1):
                if proc in cluster and (cluster.id, proc) not in state.by_job:
                    cluster.remove(proc)
        record_departure(state, cluster)


def _single_proc(procs: e.Procs) -> int:
    """Return the process number if the ranges contain exactly one; otherwise -1."""
    return procs[0][0] if len(procs) == 1 and procs[0][0] == procs[0][1] else -1


def _fold_jobs_edited(state: AccessPoint, event: e.JobsEdited) -> None:
    state.job_change_position = state.position
    cluster = state.clusters[event.cluster]
    cluster.edit_all(event.procs, event, None)
    if cluster.factory is not None and event.procs[-1][1] == cluster.count - 1:
        cluster.factory.changes.update(event.changes)
    cluster.edited_names.update(name.lower() for name in event.changes)
    cluster.edit_count += 1
    if NOTIFICATION.lower() in cluster.edited_names:
        state.notifying.add(cluster.id)
    if NOOP.lower() in cluster.edited_names:
        state.noop.add(cluster.id)
    state.record_cluster_change(cluster)
    if event.number:
        state.by_job[event.cluster, event.procs[0][0]].chirped = event.number


def _fold_jobs_deferred(state: AccessPoint, event: e.JobsDeferred) -> None:
    cluster = state.clusters[event.cluster]
    cluster.edit_all(event.procs, event, None)
    cluster.edited_names.add(DEFERRAL_TIME.lower())
    cluster.edit_count += 1
    state.record_cluster_change(cluster)


def _fold_job_cooled_down(state: AccessPoint, event: e.JobCooledDown) -> None:
    del state.cool_downs[event.cluster, event.proc]
    state.job_change_position = state.position
    cluster = state.clusters.get(event.cluster)
    if cluster is not None:
        state.record_cluster_change(cluster)


def _fold_mail_due(state: AccessPoint, event: e.MailDue) -> None:
    state.mails[state.position] = event


def _fold_mailed(state: AccessPoint, event: e.Mailed) -> None:
    del state.mails[event.mail]


def _fold_schedd_published(state: AccessPoint, event: e.ScheddPublished) -> None:
    state.cron_attributes = event.attributes


def _fold_writer_began(state: AccessPoint, event: e.WriterBegan) -> None:
    state.cron_attributes = {}  # the schedd's programs run again


FOLDS: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.JobsTransformed: lambda state, event: None,
    e.SubmissionRefused: _use_cluster_number,
    e.ClusterSubmitted: _fold_cluster_submitted,
    e.JobsMaterialized: _fold_jobs_materialized,
    e.FactoryTransitioned: _fold_factory_transitioned,
    e.JobsTransitioned: _fold_jobs_transitioned,
    e.JobsEdited: _fold_jobs_edited,
    e.JobsDeferred: _fold_jobs_deferred,
    e.JobCooledDown: _fold_job_cooled_down,
    e.MailDue: _fold_mail_due,
    e.Mailed: _fold_mailed,
    e.CheckpointsDeleted: lambda state, event: None,
    e.ScheddPublished: _fold_schedd_published,
    e.WriterBegan: _fold_writer_began,
}
