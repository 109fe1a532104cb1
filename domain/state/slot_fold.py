"""Fold events into a machine or a slot, for the live state (`evolve`) and for the views of a log.

A slot's fold also receives the event's position, and the user of the slot's job (empty: the submitter).
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from sys import intern
from typing import Any

from .. import events as e
from ..state_machines.hold_codes import EVICTION_REASONS
from ..state_machines.slot_rows import INITIAL_PAIR, read_pair
from .records import Claim, Machine, MachineDrain, Slot, Starter
from .slot_attributes import SlotAd

SUSPENDED = "Claimed/Suspended"
DRAINED = "Drained/"
PREEMPTING = "Preempting/"
ENDING = ("Claimed/Retiring", PREEMPTING)
JOB_FLAGS = frozenset({"irrevocable", "preempted", "drained"})
"""The flags that a claim loses when its job ends."""
PUBLISHED = "published"
"""The cause of a change reported by sensors, which does not change the slot's own ad."""


def change_ad(ad: MutableMapping[str, str], changes: e.Ad) -> None:
    """Set attributes of an ad; an empty text removes one."""
    for name, text in changes.items():
        if text:
            ad[name] = text
        else:
            ad.pop(name, None)


# Machines


def new_machine(event: e.MachineJoined) -> Machine:
    ad = dict(zip(event.ad, map(intern, event.ad.values()), strict=True))  # machines have many equal values
    return Machine(event.machine, ad, event.at, dict(event.settings))


def _fold_configuration(machine: Machine, event: e.MachineConfigured) -> None:
    change_ad(machine.settings, event.settings)


def _fold_benchmarks(machine: Machine, event: e.BenchmarksRan) -> None:
    machine.benchmarks, machine.benchmarked = event.published, event.at


def _fold_drain_start(machine: Machine, event: e.DrainBegan) -> None:
    machine.drain = MachineDrain(
        event.drain, event.schedule, event.schedule, event.at, event.reason, event.completion, event.start,
        cause=event.cause,
    )  # fmt: skip
    machine.drains, machine.drain_began, machine.drain_start = event.drain, event.at, event.start


def _fold_drain_transition(machine: Machine, event: e.DrainTransitioned) -> None:
    if machine.drain is not None:
        machine.drain.state = event.target
    if event.row in ("cancel", "resume"):
        machine.drain, machine.drain_ended = None, event.at


def _fold_drain_final(machine: Machine, event: e.DrainFinal) -> None:
    machine.drain_start = ""
    if machine.drain is not None:
        machine.drain.final = True


def _fold_drain_badput(machine: Machine, event: e.DrainBadputAdded) -> None:
    machine.badput += event.badput


def _fold_shutdown(machine: Machine, event: e.ShutdownBegan) -> None:
    machine.shutdown, machine.restart = event.how, event.restart


def _fold_backfill_start(machine: Machine, event: e.BackfillExecuting) -> None:
    if machine.backfill is not None:
        machine.backfill.pid = event.pid


def _fold_backfill_signal(machine: Machine, event: e.BackfillSignalled) -> None:
    if machine.backfill is not None:
        machine.backfill.last_signalled, machine.backfill.next_signal = event.at, event.until


def _fold_backfill_exit(machine: Machine, event: e.BackfillExited) -> None:
    machine.backfill = None
    machine.backfill_failures, machine.backfill_retry = event.failures, event.retry


def _fold_expiry(machine: Machine, event: e.MachineExpired) -> None:
    machine.expired, machine.gone = event.expired, event.gone


MACHINE_FOLDS: dict[type[e.Event], Callable[[Machine, Any], None]] = {
    e.MachineConfigured: _fold_configuration,
    e.BenchmarksRan: _fold_benchmarks,
    e.DrainBegan: _fold_drain_start,
    e.DrainTransitioned: _fold_drain_transition,
    e.DrainFinal: _fold_drain_final,
    e.DrainBadputAdded: _fold_drain_badput,
    e.ShutdownBegan: _fold_shutdown,
    e.BackfillExecuting: _fold_backfill_start,
    e.BackfillSignalled: _fold_backfill_signal,
    e.BackfillExited: _fold_backfill_exit,
    e.MachineExpired: _fold_expiry,
}


# Slots


def new_slot(event: e.SlotCreated, position: int) -> Slot:
    return Slot(
        event.slot, event.machine, event.kind, event.parent, SlotAd(event.ad), INITIAL_PAIR, event.at, event.at,
        version=position,
    )  # fmt: skip


def fold_transition(slot: Slot, event: e.SlotTransitioned, position: int, user: str) -> None:
    at, source, target = event.at, slot.state_activity, event.target
    if source.startswith(DRAINED):
        slot.drained_core_time = slot.drained_until(at)
    slot.drained_counted_until = at
    if at > slot.entered_activity:
        slot.time_spent[source] = slot.time_spent.get(source, 0) + at - slot.entered_activity
    starter = slot.activation
    if starter is not None:
        if starter.suspended_since:
            starter.suspended_time += at - starter.suspended_since
        starter.suspended_since = at if target == SUSPENDED else 0
        if target.startswith(ENDING):
            if target.startswith(PREEMPTING):
                starter.preempting_since = starter.preempting_since or at
            starter.leave_cause = event.cause if event.cause in EVICTION_REASONS else starter.leave_cause
        elif target != SUSPENDED:
            starter.leave_cause = ""
    if target.partition("/")[0] != source.partition("/")[0]:
        slot.entered_state = at
        slot.destination = ""
    slot.entered_activity = at
    slot.state_activity = read_pair(target)


def fold_ad_change(slot: Slot, event: e.SlotAdChanged, position: int, user: str) -> None:
    if event.cause == PUBLISHED:
        change_ad(slot.published_ad, event.changes)
        slot.published = event.at
        return
    slot.drained_core_time, slot.drained_counted_until = slot.drained_until(event.at), event.at
    change_ad(slot.ad, event.changes)
    slot.version = position


def fold_backfill_leaving(slot: Slot, event: e.BackfillLeaving, position: int, user: str) -> None:
    slot.destination, slot.destination_since = event.destination, event.at


def fold_cpu_busy(slot: Slot, event: e.CpuBusyChanged, position: int, user: str) -> None:
    slot.busy_since = event.at if event.busy else 0


def fold_claim(slot: Slot, event: e.ClaimMade, position: int, user: str) -> None:
    regrouped = slot.queued_claim is not None and slot.queued_claim.regrouped
    slot.claim, slot.queued_claim = _claim(event, event.weight, user), None
    slot.claim.regrouped = regrouped


def fold_queued_claim(slot: Slot, event: e.ClaimQueued, position: int, user: str) -> None:
    slot.queued_claim = _claim(event, 0, user)


def _claim(event: e.ClaimMade | e.ClaimQueued, weight: int, user: str) -> Claim:
    return Claim(
        event.claim, event.submitter, weight, event.at, event.rank, event.holder, event.job, event.ad, event.lease,
        user="" if user == event.submitter else user, limits=event.limits, negotiator=event.negotiator,
    )  # fmt: skip


def fold_claim_withdrawal(slot: Slot, event: e.ClaimWithdrawn, position: int, user: str) -> None:
    slot.queued_claim = None


def fold_claim_flags(slot: Slot, event: e.ClaimFlagged, position: int, user: str) -> None:
    claim = slot.claim
    if claim is None:
        return
    claim.flags |= set(event.flags)
    if "resumed" in event.flags:
        claim.flags -= {"by_command", "resumed"}
    if "job_over" in event.flags:
        claim.flags -= {*JOB_FLAGS, "job_over"}
    if event.reason:
        claim.reason, claim.code, claim.subcode = event.reason, event.code, event.subcode


def fold_claim_end(slot: Slot, event: e.ClaimEnded, position: int, user: str) -> None:
    slot.claim = None


def fold_claim_activation(slot: Slot, event: e.ClaimActivated, position: int, user: str) -> None:
    starter = Starter(
        str(position), 0, 0, event.slot, event.at,
        max_vacate_time=event.vacate, job=event.job, remote_key=event.key, deferred=event.deferred,
        ready=0 if event.files_first else event.at, files_first=event.files_first, ad=event.ad, user=user,
    )  # fmt: skip
    add_starter(slot, starter)


def fold_job_edit(slot: Slot, event: e.ClaimJobEdited, position: int, user: str) -> None:
    starter = slot.activation
    if starter is not None and starter.job == event.job:
        starter.ad = starter.ad | event.changes


def fold_job_activation(slot: Slot, event: e.JobActivated, position: int, user: str) -> None:
    starter = Starter(
        str(position), event.cluster, event.proc, event.slot, event.at,
        max_vacate_time=event.vacate, ad=event.ad, user=user,
    )  # fmt: skip
    add_starter(slot, starter)


def add_starter(slot: Slot, starter: Starter) -> None:
    """Set the starter of a slot, and count the activation."""
    slot.activation = starter
    if slot.claim is not None:
        slot.claim.activations += 1


def fold_deactivation(slot: Slot, event: e.ClaimDeactivated | e.JobExited, position: int, user: str) -> None:
    slot.activation, slot.vacated = None, event.at


SLOT_FOLDS: dict[type[e.Event], Callable[[Slot, Any, int, str], None]] = {
    e.SlotTransitioned: fold_transition,
    e.SlotAdChanged: fold_ad_change,
    e.BackfillLeaving: fold_backfill_leaving,
    e.CpuBusyChanged: fold_cpu_busy,
    e.ClaimMade: fold_claim,
    e.ClaimQueued: fold_queued_claim,
    e.ClaimWithdrawn: fold_claim_withdrawal,
    e.ClaimFlagged: fold_claim_flags,
    e.ClaimEnded: fold_claim_end,
    e.ClaimActivated: fold_claim_activation,
    e.ClaimJobEdited: fold_job_edit,
    e.ClaimDeactivated: fold_deactivation,
    e.JobActivated: fold_job_activation,
    e.JobExited: fold_deactivation,
}
