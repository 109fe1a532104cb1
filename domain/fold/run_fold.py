"""Fold events about the runs of jobs into an access point's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import events as e
from ..classad import Context
from ..classad.value_evidence import integer_of
from ..state.caches import ChangeLog, ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import EXPIRATION, TERMINAL
from ..state.pool_settings import schedd_seconds
from ..state.records import KEEP_CLAIM_IDLE, NEXT_START_DELAY, RUNS, Activation
from ..state.state import AccessPoint
from ..units import SECOND
from .claim_fold import clear_rejections, unassign_slot
from .job_fold import record_departure

FIRST_PAUSE: Final = SECOND
MAX_PAUSE: Final = 60 * SECOND
"""The limits of the pause after the machine failed to start a job. It doubles until a start succeeds."""
_RunEvent = e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured


def _fold_job_activated(state: AccessPoint, event: e.JobActivated) -> None:
    job = event.cluster, event.proc
    cluster = state.clusters[event.cluster]
    cluster.edit(event.proc, event, "Running")
    state.update_idle_count(cluster, event.proc)
    clear_rejections(state, job)
    unassign_slot(state, event.slot, state.ready_claims.pop(event.slot, None))
    state.kept_claims.pop(event.slot, None)
    if not cluster.is_local:
        _delay_next_start(state, cluster, event)
    activation = Activation(
        str(state.position), *job, event.slot, event.at, deferred=event.deferred,
        ready=0 if event.files_first else event.at, files_first=event.files_first,
    )  # fmt: skip
    state.activations[activation.key] = state.by_job[job] = activation
    if activation.deferred:
        state.deferred[activation.key] = None


def _delay_next_start(state: AccessPoint, cluster: Cluster, event: e.JobActivated) -> None:
    """Record when the next job may start: after the job's NextJobStartDelay, and after JOB_START_DELAY if this job
    ends a burst of JOB_START_COUNT jobs (Scheduler::jobThrottle)."""
    delay = _job_seconds(cluster, event, NEXT_START_DELAY)
    delays = {NEXT_START_DELAY: min(delay, schedd_seconds(state.settings, "MAX_NEXT_JOB_START_DELAY") or delay)}
    state.burst += 1
    if state.burst >= schedd_seconds(state.settings, "JOB_START_COUNT"):
        state.burst, delays["JOB_START_DELAY"] = 0, schedd_seconds(state.settings, "JOB_START_DELAY")
    for name, seconds in delays.items():
        if seconds and event.at + seconds * SECOND > state.next_start:
            state.next_start, state.start_limit = event.at + seconds * SECOND, name
    for slot, (until, number) in state.kept_claims.items():
        state.kept_claims[slot] = max(until, state.next_start), number


def _fold_job_due(state: AccessPoint, event: e.JobDue) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.deferred = 0
    state.deferred.pop(activation.key, None)


def _fold_job_transfer_began(state: AccessPoint, event: e.JobTransferBegan) -> None:
    state.by_job[event.cluster, event.proc].transfer = event.way
    _edit_job(state, event)


def _fold_job_transfer_ended(state: AccessPoint, event: e.JobTransferEnded) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.transfer = f"{event.way} done"
    activation.ready = activation.ready or event.ended or event.at
    activation.checkpoints = max(activation.checkpoints, event.number)
    _edit_job(state, event)


def _fold_job_executing(state: AccessPoint, event: e.JobExecuting) -> None:
    state.by_job[event.cluster, event.proc].executing = True
    state.pause = 0
    _edit_job(state, event)


def _edit_job(state: AccessPoint, event: _RunEvent) -> None:
    state.clusters[event.cluster].edit(event.proc, event, None)


def _fold_job_measured(state: AccessPoint, event: e.JobMeasured) -> None:
    state.by_job[event.cluster, event.proc].measured = event.at
    _edit_job(state, event)


def _fold_job_signalled(state: AccessPoint, event: e.JobSignalled) -> None:
    activation = state.by_job[event.cluster, event.proc]
    is_running = state.clusters[event.cluster].status_of(event.proc) in RUNS
    state.ending.setdefault(activation.key, event.cause if is_running else "")
    activation.vacate_reason = activation.vacate_reason or event.vacated
    activation.stop_signal, activation.last_signalled, activation.next_signal = event.how, event.at, event.until
    activation.first_signalled = activation.first_signalled or event.at


def _fold_job_exited(state: AccessPoint, event: e.JobExited) -> None:
    if len(state.job_changes) > ChangeLog.MAX_LENGTH:
        state.trim_changes()  # decisions trim the changes, but replays may contain no decisions
    activation = state.by_job.pop((event.cluster, event.proc))
    del state.activations[activation.key]
    record_run_end(state, event)
    _keep_claim(state, event)
    state.ending.pop(activation.key, None)
    state.deferred.pop(activation.key, None)
    cluster = state.clusters[event.cluster]
    status = event.target or cluster.status_of(event.proc)
    if event.left and status in TERMINAL:
        cluster.remove(event.proc)
        record_departure(state, cluster)
        return
    if EXPIRATION in event.changes and status not in TERMINAL:
        state.cool_downs[event.cluster, event.proc] = int(event.changes[EXPIRATION])
    cluster.edit(event.proc, event, status)
    state.update_idle_count(cluster, event.proc)


def _keep_claim(state: AccessPoint, event: e.JobExited) -> None:
    """Record how long the claim of a job that has exited is kept for a new job: KeepClaimIdle, in seconds, and at least
    until the next job may start."""
    if event.outcome != "exited" or event.slot not in state.claims:
        return
    cluster = state.clusters[event.cluster]
    until = max(event.at + _job_seconds(cluster, event, KEEP_CLAIM_IDLE) * SECOND, state.next_start)
    if until > event.at:
        state.kept_claims[event.slot] = until, event.cluster


def _job_seconds(cluster: Cluster, event: e.JobActivated | e.JobExited, name: str) -> int:
    """Return the value of a job's expression for a number of seconds; 0 if it has none."""
    expression = parse_cached(text) if (text := cluster.requested_value(event.proc, name)) else None
    if expression is None:
        return 0
    context = Context(now=event.at // SECOND, seed=event.at // SECOND)
    return max(0, integer_of(expression, ad_from_attributes(cluster.attributes(event.proc)), None, context) or 0)


def record_run_end(state: AccessPoint, event: e.JobExited) -> None:
    """Record that a job may become idle. Start a pause if the machine failed to start the job."""
    if event.target != "Completed":
        state.job_change_position = state.position
    if event.outcome != "failed" or event.row != "evict" or EXPIRATION in event.changes:
        return
    if event.at >= state.paused_until:  # otherwise it was started before the current pause
        state.pause = min(state.pause * 2 or FIRST_PAUSE, MAX_PAUSE)
        state.paused_until = event.at + state.pause


FOLDS: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.JobActivated: _fold_job_activated,
    e.JobDue: _fold_job_due,
    e.JobTransferBegan: _fold_job_transfer_began,
    e.JobTransferEnded: _fold_job_transfer_ended,
    e.JobExecuting: _fold_job_executing,
    e.JobMeasured: _fold_job_measured,
    e.JobSignalled: _fold_job_signalled,
    e.JobExited: _fold_job_exited,
}
