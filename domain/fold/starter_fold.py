"""Fold events into the state that only an execution point has: starters, and slots with timers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from .. import events as e
from ..names import JobId
from ..state.job_ad import fold_job
from ..state.job_procs import job_procs
from ..state.records import DUE, MEASUREMENT, START, Claim, Starter, report_name
from ..state.state import ExecutionPoint, acts_as
from . import machine_fold as slots

MATCHED = "Matched/Idle"
PREEMPTING = "Preempting/"
BACKFILL = "Backfill/"


def _fold_machine_left(state: ExecutionPoint, event: e.MachineLeft) -> None:
    slots.fold_machine_left(state, event)
    state.backfill_clients.pop(event.machine, None)


def _fold_backfill_started(state: ExecutionPoint, event: e.BackfillStarted) -> None:
    slots.fold_backfill_started(state, event)
    state.backfill_clients[event.machine] = str(state.position)


def _fold_backfill_exited(state: ExecutionPoint, event: e.BackfillExited) -> None:
    slots.FOLDS[e.BackfillExited](state, event)
    state.backfill_clients.pop(event.machine, None)


def _fold_backfill_leaving(state: ExecutionPoint, event: e.BackfillLeaving) -> None:
    slots.fold_backfill_leaving(state, event)
    state.matched_in_backfill.pop(event.slot, None)
    if event.destination == "Matched":
        state.matched_in_backfill[event.slot] = None


def _fold_slot_transitioned(state: ExecutionPoint, event: e.SlotTransitioned) -> None:
    slots.fold_slot_transitioned(state, event)
    slot, target = event.slot, event.target
    if state.matched:
        state.matched.pop(slot, None)
    if state.preempting:
        state.preempting.pop(slot, None)
    if state.matched_in_backfill and not target.startswith(BACKFILL):
        state.matched_in_backfill.pop(slot, None)
    if target == MATCHED:
        state.matched[slot] = None
    elif target.startswith(PREEMPTING):
        state.preempting[slot] = None


def _fold_slot_destroyed(state: ExecutionPoint, event: e.SlotDestroyed) -> None:
    slots.fold_slot_destroyed(state, event)
    for names in (state.matched, state.preempting, state.matched_in_backfill, state.silent_claims):
        names.pop(event.slot, None)


def _fold_claim_holder_silent(state: ExecutionPoint, event: e.ClaimHolderSilent) -> None:
    claim = state.slots[event.slot].claim
    if claim is not None:
        claim.lease_end = event.until
    if event.until:
        state.silent_claims[event.slot] = None
    else:
        state.silent_claims.pop(event.slot, None)


def _fold_claim_ended(state: ExecutionPoint, event: e.ClaimEnded) -> None:
    slots.fold_claim_ended(state, event)
    state.silent_claims.pop(event.slot, None)


# Starters


def _fold_job_activated(state: ExecutionPoint, event: e.JobActivated) -> None:
    slots.fold_job_activated(state, event)
    slot = state.slots.get(event.slot)
    if slot is not None and slot.activation is not None:
        state.starters[event.cluster, event.proc] = slot.activation


def _fold_job_signalled(state: ExecutionPoint, event: e.JobSignalled) -> None:
    job = event.cluster, event.proc
    starter = state.starters.get(job)
    if starter is not None:
        state.stopping[job] = None
    _record_signal(starter, event)


def _fold_claim_activated(state: ExecutionPoint, event: e.ClaimActivated) -> None:
    slots.FOLDS[e.ClaimActivated](state, event)
    if event.key and acts_as(state, ExecutionPoint):
        state.remote_runs[str(state.position)] = event.slot


def _fold_claim_deactivated(state: ExecutionPoint, event: e.ClaimDeactivated) -> None:
    slots.FOLDS[e.ClaimDeactivated](state, event)
    state.remote_runs.pop(event.starter, None)


def _fold_starter_signalled(state: ExecutionPoint, event: e.StarterSignalled) -> None:
    starter = state.slots[event.slot].activation
    _record_signal(starter, event)
    if starter is not None:
        starter.soft_signal = event.signal or starter.soft_signal


def _fold_run_reported(state: ExecutionPoint, event: e.RunReported) -> None:
    slot = state.slots.get(event.slot)
    starter = None if slot is None else slot.activation
    if starter is None or starter.remote_key != event.key:
        return  # the report of the end, which follows the end
    fields, header = msgspec.json.decode(event.fields), (event.at, event.cause, event.stimulus, 0, 0)
    if event.report == MEASUREMENT:
        sizes = fields["image"], fields["resident"], fields["disk"]
        starter.measured = event.at, *sizes
        cpu = fields["user_cpu"], fields["system_cpu"]
        _update_ad(starter, e.JobMeasured(*header, *sizes, *cpu, fields.get("usage", {})))
    elif event.report == DUE:
        starter.deferred = 0
    else:
        starter.reports[report_name(event.report, fields.get("way", ""))] = event.stimulus
        starter.ready = starter.ready or fields.get("ended", 0)
    if event.report == START:
        _update_ad(starter, e.JobExecuting(*header, fields["pid"], fields["scratch"], fields["at"]))


def _record_signal(starter: Starter | None, event: e.JobSignalled | e.StarterSignalled) -> None:
    if starter is not None:
        starter.stop_signal, starter.last_signalled, starter.next_signal = event.how, event.at, event.until


def _fold_job_exited(state: ExecutionPoint, event: e.JobExited) -> None:
    slots.fold_job_exited(state, event)
    job = event.cluster, event.proc
    state.starters.pop(job, None)
    state.stopping.pop(job, None)


FOLDS: dict[type[e.Event], Callable[[ExecutionPoint, Any], None]] = {
    **slots.FOLDS,
    e.MachineLeft: _fold_machine_left,
    e.BackfillStarted: _fold_backfill_started,
    e.BackfillExited: _fold_backfill_exited,
    e.BackfillLeaving: _fold_backfill_leaving,
    e.SlotTransitioned: _fold_slot_transitioned,
    e.SlotDestroyed: _fold_slot_destroyed,
    e.ClaimHolderSilent: _fold_claim_holder_silent,
    e.ClaimEnded: _fold_claim_ended,
    e.JobActivated: _fold_job_activated,
    e.JobSignalled: _fold_job_signalled,
    e.ClaimActivated: _fold_claim_activated,
    e.ClaimDeactivated: _fold_claim_deactivated,
    e.StarterSignalled: _fold_starter_signalled,
    e.RunReported: _fold_run_reported,
    e.JobExited: _fold_job_exited,
}


# Jobs' ads, in a log that does not contain the queue


def _update_ad(holder: Starter | Claim, event: e.Event) -> None:
    ad = dict(holder.ad)
    fold_job(ad, {}, event)
    holder.ad = {name: text for name, text in ad.items() if text}


def _update_ads(state: ExecutionPoint, event: e.ClusterEvent) -> None:
    """Fold an event received from the access point into the ads of jobs that run or have a queued claim."""
    for holder in _ad_holders(state, event):
        _update_ad(holder, event)


def _ad_holders(state: ExecutionPoint, event: e.ClusterEvent) -> Iterator[Starter | Claim]:
    cluster, ranges = job_procs(event) or (0, ())
    for job, starter in state.starters.items():
        if job[0] == cluster and _is_in(job[1], ranges):
            yield starter
    for slot in state.slots.values():
        claim = slot.queued_claim
        if claim is not None and not claim.holder and claim.job:
            job = JobId.parse(claim.job)
            if job.cluster == cluster and _is_in(job.proc, ranges):
                yield claim


def _is_in(proc: int, ranges: e.Procs) -> bool:
    return any(first <= proc <= last for first, last in ranges)


def _fold_job_activated_with_ad(state: ExecutionPoint, event: e.JobActivated) -> None:
    _fold_job_activated(state, event)
    _update_ads(state, event)


JOB_ADS: dict[type[e.Event], Callable[[ExecutionPoint, Any], None]] = {
    e.JobActivated: _fold_job_activated_with_ad,
    **dict.fromkeys(
        (
            e.JobsTransitioned, e.JobsEdited, e.JobsDeferred, e.JobTransferBegan, e.JobTransferEnded, e.JobExecuting,
            e.JobMeasured,
        ),
        _update_ads,
    ),
}  # fmt: skip
"""These folds override the entries of ``FOLDS`` for the same events."""
