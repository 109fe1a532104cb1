"""How events about the runs of jobs change the state."""

from __future__ import annotations

from collections.abc import Callable

from .. import events as e
from ..state import slot_fold
from ..state.caches import ChangeLog
from ..state.job_ad import EXPIRATION, TERMINAL, unquoted
from ..state.state import RUNS, Activation, State
from .claim_fold import forget_rejection, unpromise
from .job_fold import ends

_OfARun = e.JobTransferBegan | e.JobTransferEnded | e.JobExecuting | e.JobMeasured


def _activated(state: State, event: e.JobActivated) -> None:
    cluster = state.clusters[event.cluster]
    cluster.edit(event.proc, event, "Running")
    state.note_idle(cluster, event.proc)
    forget_rejection(state, (event.cluster, event.proc))
    unpromise(state, event.slot, state.claim_ready.pop(event.slot, None))
    state.slot_changes.append(event.slot)
    user = unquoted(cluster.value(event.proc, "User"))
    activation = slot_fold.activation_of(event, state.position, user)
    state.activations[activation.key] = state.by_job[event.cluster, event.proc] = activation
    if activation.deferred:
        state.deferred[activation.key] = None
    slot = state.slots.get(event.slot)
    if slot is not None:  # a job of the local universe has none
        slot_fold.begin(slot, activation)


def _due(state: State, event: e.JobDue) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.deferred = 0
    state.deferred.pop(activation.key, None)


def _transfer_began(state: State, event: e.JobTransferBegan) -> None:
    state.by_job[event.cluster, event.proc].transfer = event.way
    _job_fact(state, event)


def _transfer_ended(state: State, event: e.JobTransferEnded) -> None:
    activation = state.by_job[event.cluster, event.proc]
    activation.transfer = f"{event.way} done"
    activation.checkpoints = max(activation.checkpoints, event.number)
    _job_fact(state, event)


def _executing(state: State, event: e.JobExecuting) -> None:
    state.by_job[event.cluster, event.proc].executing = True
    state.cycles.pause = 0
    _job_fact(state, event)


def _job_fact(state: State, event: _OfARun) -> None:
    state.clusters[event.cluster].edit(event.proc, event, None)


def _measured(state: State, event: e.JobMeasured) -> None:
    state.by_job[event.cluster, event.proc].measured = event.at
    _job_fact(state, event)


def _signalled(state: State, event: e.JobSignalled) -> None:
    activation = state.by_job[event.cluster, event.proc]
    runs = state.clusters[event.cluster].status_of(event.proc) in RUNS
    state.ending.setdefault(activation.key, event.cause if runs else "")
    activation.vacated = activation.vacated or event.vacated
    _told(activation, event)


def _told(activation: Activation, event: e.JobSignalled | e.StarterSignalled) -> None:
    activation.stop, activation.told, activation.until = event.how, event.at, event.until
    activation.stopped = activation.stopped or event.at


def _starter_told(state: State, event: e.StarterSignalled) -> None:
    activation = state.slots[event.slot].activation
    if activation is not None:
        _told(activation, event)


def _exited(state: State, event: e.JobExited) -> None:
    if len(state.slot_changes) > ChangeLog.KEPT:
        state.trim_changes()  # also where nobody decides
    activation = state.by_job.pop((event.cluster, event.proc))
    del state.activations[activation.key]
    state.cycles.note_end(event, state.position)
    state.ending.pop(activation.key, None)
    state.deferred.pop(activation.key, None)
    slot = state.slots.get(event.slot)
    if slot is not None:
        slot_fold.deactivated(slot, event, state.position, "")
    state.slot_changes.append(event.slot)
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


FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.StarterSignalled: _starter_told,
    e.JobActivated: _activated,
    e.JobDue: _due,
    e.JobTransferBegan: _transfer_began,
    e.JobTransferEnded: _transfer_ended,
    e.JobExecuting: _executing,
    e.JobMeasured: _measured,
    e.JobSignalled: _signalled,
    e.JobExited: _exited,
}
