"""How events about the runs of jobs change what an access point knows of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .. import events as e
from ..state.caches import ChangeLog
from ..state.job_ad import EXPIRATION, TERMINAL
from ..state.records import RUNS, Activation
from ..state.state import AccessPoint
from ..units import SECOND
from .claim_fold import forget_rejection, unpromise
from .job_fold import ends

FIRST_PAUSE: Final = SECOND
LAST_PAUSE: Final = 60 * SECOND
"""For how long nothing is started behind a start that failed for the machine's fault: at first, and at most; it doubles
until one succeeds."""
_OfARun = e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured


def _activated(state: AccessPoint, event: e.JobActivated) -> None:
    job = event.cluster, event.proc
    cluster = state.clusters[event.cluster]
    cluster.edit(event.proc, event, "Running")
    state.note_idle(cluster, event.proc)
    forget_rejection(state, job)
    unpromise(state, event.slot, state.claim_ready.pop(event.slot, None))
    activation = Activation(str(state.position), *job, event.slot, event.at, deferred=event.deferred)
    state.activations[activation.key] = state.by_job[job] = activation
    if activation.deferred:
        state.deferred[activation.key] = None


def _due(state: AccessPoint, event: e.JobDue) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.deferred = 0
    state.deferred.pop(activation.key, None)


def _transfer_began(state: AccessPoint, event: e.JobTransferBegan) -> None:
    state.by_job[event.cluster, event.proc].transfer = event.way
    _job_fact(state, event)


def _transfer_ended(state: AccessPoint, event: e.JobTransferEnded) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.transfer = f"{event.way} done"
    activation.checkpoints = max(activation.checkpoints, event.number)
    _job_fact(state, event)


def _executing(state: AccessPoint, event: e.JobExecuting) -> None:
    state.by_job[event.cluster, event.proc].executing = True
    state.pause = 0
    _job_fact(state, event)


def _job_fact(state: AccessPoint, event: _OfARun) -> None:
    state.clusters[event.cluster].edit(event.proc, event, None)


def _measured(state: AccessPoint, event: e.JobMeasured) -> None:
    state.by_job[event.cluster, event.proc].measured = event.at
    _job_fact(state, event)


def _signalled(state: AccessPoint, event: e.JobSignalled) -> None:
    activation = state.by_job[event.cluster, event.proc]
    runs = state.clusters[event.cluster].status_of(event.proc) in RUNS
    state.ending.setdefault(activation.key, event.cause if runs else "")
    activation.vacated = activation.vacated or event.vacated
    activation.stop, activation.told, activation.until = event.how, event.at, event.until
    activation.stopped = activation.stopped or event.at


def _exited(state: AccessPoint, event: e.JobExited) -> None:
    if len(state.job_changes) > ChangeLog.KEPT:
        state.trim_changes()  # also where nobody decides
    activation = state.by_job.pop((event.cluster, event.proc))
    del state.activations[activation.key]
    note_end(state, event)
    state.ending.pop(activation.key, None)
    state.deferred.pop(activation.key, None)
    cluster = state.clusters[event.cluster]
    status = event.target or cluster.status_of(event.proc)
    if event.left and status in TERMINAL:
        cluster.end(event.proc)
        ends(state, cluster)
        return
    if EXPIRATION in event.changes and status not in TERMINAL:
        state.cooling[event.cluster, event.proc] = int(event.changes[EXPIRATION])
    cluster.edit(event.proc, event, status)
    state.note_idle(cluster, event.proc)


def note_end(state: AccessPoint, event: e.JobExited) -> None:
    """The job may wait again, and the machine may not have been able to start it."""
    if event.target != "Completed":
        state.job_news = state.position
    if event.outcome != "failed" or event.row != "evict" or EXPIRATION in event.changes:
        return
    if event.at >= state.paused_until:  # else it was begun together with the one for which there is a pause
        state.pause = min(state.pause * 2 or FIRST_PAUSE, LAST_PAUSE)
        state.paused_until = event.at + state.pause


FOLDS: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.JobActivated: _activated,
    e.JobDue: _due,
    e.JobTransferBegan: _transfer_began,
    e.JobTransferEnded: _transfer_ended,
    e.JobExecuting: _executing,
    e.JobMeasured: _measured,
    e.JobSignalled: _signalled,
    e.JobExited: _exited,
}
