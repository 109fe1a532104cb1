"""How events change what only an execution point has: its jobs' starters, and its running timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .. import events as e
from ..names import JobId
from ..state.job_ad import fold_job
from ..state.job_procs import job_procs
from ..state.records import Claim, Starter
from ..state.state import ExecutionPoint
from . import machine_fold as slots

MATCHED = "Matched/Idle"
PREEMPTING = "Preempting/"
BACKFILL = "Backfill/"


def _machine_left(state: ExecutionPoint, event: e.MachineLeft) -> None:
    slots.machine_left(state, event)
    state.clients.pop(event.machine, None)


def _backfill_started(state: ExecutionPoint, event: e.BackfillStarted) -> None:
    slots.backfill_started(state, event)
    state.clients[event.machine] = str(state.position)


def _backfill_exited(state: ExecutionPoint, event: e.BackfillExited) -> None:
    slots.FOLDS[e.BackfillExited](state, event)
    state.clients.pop(event.machine, None)


def _backfill_leaving(state: ExecutionPoint, event: e.BackfillLeaving) -> None:
    slots.backfill_leaving(state, event)
    state.destined.pop(event.slot, None)
    if event.destination == "Matched":
        state.destined[event.slot] = None


def _slot_moved(state: ExecutionPoint, event: e.SlotTransitioned) -> None:
    slots.slot_moved(state, event)
    state.matched.pop(event.slot, None)
    state.preempting.pop(event.slot, None)
    if not event.target.startswith(BACKFILL):
        state.destined.pop(event.slot, None)
    if event.target == MATCHED:
        state.matched[event.slot] = None
    elif event.target.startswith(PREEMPTING):
        state.preempting[event.slot] = None


def _slot_died(state: ExecutionPoint, event: e.SlotDestroyed) -> None:
    slots.slot_died(state, event)
    for names in (state.matched, state.preempting, state.destined, state.silent_claims):
        names.pop(event.slot, None)


def _claim_unheard(state: ExecutionPoint, event: e.ClaimHolderSilent) -> None:
    claim = state.slots[event.slot].claim
    if claim is not None:
        claim.until = event.until
    if event.until:
        state.silent_claims[event.slot] = None
    else:
        state.silent_claims.pop(event.slot, None)


def _claim_ended(state: ExecutionPoint, event: e.ClaimEnded) -> None:
    slots.claim_ended(state, event)
    state.silent_claims.pop(event.slot, None)


# Starters


def _activated(state: ExecutionPoint, event: e.JobActivated) -> None:
    slots.job_activated(state, event)
    slot = state.slots.get(event.slot)
    if slot is not None and slot.activation is not None:
        state.starters[event.cluster, event.proc] = slot.activation


def _signalled(state: ExecutionPoint, event: e.JobSignalled) -> None:
    job = event.cluster, event.proc
    starter = state.starters.get(job)
    if starter is not None:
        state.stopping[job] = None
    _note_signal(starter, event)


def _starter_signalled(state: ExecutionPoint, event: e.StarterSignalled) -> None:
    _note_signal(state.slots[event.slot].activation, event)


def _note_signal(starter: Starter | None, event: e.JobSignalled | e.StarterSignalled) -> None:
    if starter is not None:
        starter.stop, starter.told, starter.until = event.how, event.at, event.until


def _exited(state: ExecutionPoint, event: e.JobExited) -> None:
    slots.job_exited(state, event)
    job = event.cluster, event.proc
    state.starters.pop(job, None)
    state.stopping.pop(job, None)


FOLDS: dict[type[e.Event], Callable[[ExecutionPoint, Any], None]] = {
    **slots.FOLDS,
    e.MachineLeft: _machine_left,
    e.BackfillStarted: _backfill_started,
    e.BackfillExited: _backfill_exited,
    e.BackfillLeaving: _backfill_leaving,
    e.SlotTransitioned: _slot_moved,
    e.SlotDestroyed: _slot_died,
    e.ClaimHolderSilent: _claim_unheard,
    e.ClaimEnded: _claim_ended,
    e.JobActivated: _activated,
    e.JobSignalled: _signalled,
    e.StarterSignalled: _starter_signalled,
    e.JobExited: _exited,
}


# The jobs' ads, in a log that does not have them with the queue


def _ad_changed(state: ExecutionPoint, event: e.ClusterEvent) -> None:
    """Update the ads of these jobs, running or with a waiting claim, by an event that their access point has sent."""
    for given in _given(state, event):
        ad = dict(given.ad)
        fold_job(ad, {}, event)
        given.ad = {name: text for name, text in ad.items() if text}


def _given(state: ExecutionPoint, event: e.ClusterEvent) -> Iterator[Starter | Claim]:
    cluster, ranges = job_procs(event) or (0, ())
    for job, starter in state.starters.items():
        if job[0] == cluster and _is_in(job[1], ranges):
            yield starter
    for slot in state.slots.values():
        waiting = slot.waiting
        if waiting is not None and not waiting.holder and waiting.job:
            job = JobId.parse(waiting.job)
            if job.cluster == cluster and _is_in(job.proc, ranges):
                yield waiting


def _is_in(proc: int, ranges: e.Procs) -> bool:
    return any(first <= proc <= last for first, last in ranges)


def _activated_with_ad(state: ExecutionPoint, event: e.JobActivated) -> None:
    _activated(state, event)
    _ad_changed(state, event)


JOB_ADS: dict[type[e.Event], Callable[[ExecutionPoint, Any], None]] = {
    e.JobActivated: _activated_with_ad,
    **dict.fromkeys(
        (
            e.JobsTransitioned, e.JobsEdited, e.JobsDeferred, e.JobTransferBegan, e.JobTransferEnded, e.JobExecuting,
            e.JobMeasured,
        ),
        _ad_changed,
    ),
}  # fmt: skip
"""In place of the same of ``FOLDS``."""
