"""How each kind of event changes a machine or a slot: for the live state (`evolve`) and for the views of a log alike.

A fold of a slot's is also told the event's position, and whose job the slot is for (empty: the submitter's).
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from .. import events as e
from ..state_machines.hold_codes import EVICTIONS
from ..state_machines.slot_rows import INITIAL_PAIR, read_pair
from .records import Claim, Machine, MachineDrain, Slot, Starter
from .slot_attributes import SlotAd

"""The state and activity in which every slot begins."""
SUSPENDED = "Claimed/Suspended"
PREEMPTING = "Preempting/"
ENDING = ("Claimed/Retiring", PREEMPTING)
OF_ITS_JOB = frozenset({"irrevocable", "preempted", "drained"})
"""The flags of a claim that end with the job which it had."""
PUBLISHED = "published"
"""The cause of a change that a machine's sensors told: no part of the slot's own ad."""


def change(ad: MutableMapping[str, str], changes: e.Ad) -> None:
    """Set attributes; an empty text removes one."""
    for name, text in changes.items():
        if text:
            ad[name] = text
        else:
            ad.pop(name, None)


# Machines


def joined(event: e.MachineJoined) -> Machine:
    return Machine(event.machine, event.ad, event.at, dict(event.settings))


def _configured(machine: Machine, event: e.MachineConfigured) -> None:
    change(machine.settings, event.settings)


def _benchmarks(machine: Machine, event: e.BenchmarksRan) -> None:
    machine.benchmarks, machine.benchmarked = event.published, event.at


def _drain_began(machine: Machine, event: e.DrainBegan) -> None:
    machine.drain = MachineDrain(
        event.drain, event.schedule, event.schedule, event.at, event.reason, event.completion, event.start
    )
    machine.drains, machine.drain_began, machine.drain_start = event.drain, event.at, event.start


def _drain_moved(machine: Machine, event: e.DrainTransitioned) -> None:
    if machine.drain is not None:
        machine.drain.state = event.target
    if event.row in ("cancel", "resume"):
        machine.drain, machine.drain_ended = None, event.at


def _drain_final(machine: Machine, event: e.DrainFinal) -> None:
    machine.drain_start = ""
    if machine.drain is not None:
        machine.drain.final = True


def _drain_charged(machine: Machine, event: e.DrainBadputAdded) -> None:
    machine.badput += event.badput


def _shutdown(machine: Machine, event: e.ShutdownBegan) -> None:
    machine.shutdown = event.how


def _backfill_executing(machine: Machine, event: e.BackfillExecuting) -> None:
    if machine.backfill is not None:
        machine.backfill.pid = event.pid


def _backfill_signalled(machine: Machine, event: e.BackfillSignalled) -> None:
    if machine.backfill is not None:
        machine.backfill.told, machine.backfill.until = event.at, event.until


def _backfill_exited(machine: Machine, event: e.BackfillExited) -> None:
    machine.backfill = None
    machine.backfill_failures, machine.backfill_retry = event.failures, event.retry


MACHINE_FOLDS: dict[type[e.Event], Callable[[Machine, Any], None]] = {
    e.MachineConfigured: _configured,
    e.BenchmarksRan: _benchmarks,
    e.DrainBegan: _drain_began,
    e.DrainTransitioned: _drain_moved,
    e.DrainFinal: _drain_final,
    e.DrainBadputAdded: _drain_charged,
    e.ShutdownBegan: _shutdown,
    e.BackfillExecuting: _backfill_executing,
    e.BackfillSignalled: _backfill_signalled,
    e.BackfillExited: _backfill_exited,
}


# Slots


def created(event: e.SlotCreated, position: int) -> Slot:
    return Slot(
        event.slot, event.machine, event.kind, event.parent, SlotAd(event.ad), INITIAL_PAIR, event.at, event.at,
        version=position,
    )  # fmt: skip


def moved(slot: Slot, event: e.SlotTransitioned, position: int, user: str) -> None:
    slot.drained, slot.counted = slot.drained_until(event.at), event.at
    slot.spent[slot.state_activity] = slot.spent.get(slot.state_activity, 0) + event.at - slot.entered_activity
    activation = slot.activation
    if activation is not None:
        if activation.since:
            activation.suspended += event.at - activation.since
        activation.since = event.at if event.target == SUSPENDED else 0
        if event.target.startswith(PREEMPTING):
            activation.halted = activation.halted or event.at
        if event.target.startswith(ENDING):
            activation.leaving = event.cause if event.cause in EVICTIONS else activation.leaving
        elif event.target != SUSPENDED:
            activation.leaving = ""
    if event.target.partition("/")[0] != slot.state_activity.partition("/")[0]:
        slot.entered_state = event.at
        slot.destination = ""
    slot.entered_activity = event.at
    slot.state_activity = read_pair(event.target)


def ad_changed(slot: Slot, event: e.SlotAdChanged, position: int, user: str) -> None:
    if event.cause == PUBLISHED:
        change(slot.public, event.changes)
        slot.published = event.at
        return
    slot.drained, slot.counted = slot.drained_until(event.at), event.at
    change(slot.ad, event.changes)
    slot.version = position


def leaving(slot: Slot, event: e.BackfillLeaving, position: int, user: str) -> None:
    slot.destination, slot.destined = event.destination, event.at


def busy(slot: Slot, event: e.CpuBusyChanged, position: int, user: str) -> None:
    slot.busy_since = event.at if event.busy else 0


def claimed(slot: Slot, event: e.ClaimMade, position: int, user: str) -> None:
    waited = slot.waiting is not None and slot.waiting.regrouped
    slot.claim, slot.waiting = _claim(event, event.weight, user), None
    slot.claim.regrouped = waited


def claim_waits(slot: Slot, event: e.ClaimQueued, position: int, user: str) -> None:
    slot.waiting = _claim(event, 0, user)


def _claim(event: e.ClaimMade | e.ClaimQueued, weight: int, user: str) -> Claim:
    return Claim(
        event.claim, event.submitter, weight, event.at, event.rank, event.holder, event.job, event.ad, event.lease,
        user="" if user == event.submitter else user, limits=event.limits, negotiator=event.negotiator,
    )  # fmt: skip


def claim_withdrawn(slot: Slot, event: e.ClaimWithdrawn, position: int, user: str) -> None:
    slot.waiting = None


def claim_flagged(slot: Slot, event: e.ClaimFlagged, position: int, user: str) -> None:
    claim = slot.claim
    if claim is None:
        return
    claim.marks |= set(event.flags)
    if "resumed" in event.flags:
        claim.marks -= {"by_command", "resumed"}
    if "job_over" in event.flags:
        claim.marks -= {*OF_ITS_JOB, "job_over"}
    if event.reason:
        claim.reason, claim.code, claim.subcode = event.reason, event.code, event.subcode


def claim_ended(slot: Slot, event: e.ClaimEnded, position: int, user: str) -> None:
    slot.claim = None


def claim_activated(slot: Slot, event: e.ClaimActivated, position: int, user: str) -> None:
    begin(
        slot,
        Starter(str(position), 0, 0, event.slot, event.at, vacate=event.vacate, job=event.job, ad=event.ad, user=user),
    )


def job_activated(slot: Slot, event: e.JobActivated, position: int, user: str) -> None:
    job = event.cluster, event.proc
    begin(slot, Starter(str(position), *job, event.slot, event.at, vacate=event.vacate, ad=event.ad, user=user))


def begin(slot: Slot, starter: Starter) -> None:
    """The slot has a job's processes."""
    slot.activation = starter
    if slot.claim is not None:
        slot.claim.activations += 1


def deactivated(slot: Slot, event: e.ClaimDeactivated | e.JobExited, position: int, user: str) -> None:
    slot.activation, slot.vacated = None, event.at


def merged(parent: Slot, gone: Slot) -> None:
    """A slot has back what a dynamic one was carved from it for."""
    parent.vacated = max(parent.vacated, gone.vacated)


SLOT_FOLDS: dict[type[e.Event], Callable[[Slot, Any, int, str], None]] = {
    e.SlotTransitioned: moved,
    e.SlotAdChanged: ad_changed,
    e.BackfillLeaving: leaving,
    e.CpuBusyChanged: busy,
    e.ClaimMade: claimed,
    e.ClaimQueued: claim_waits,
    e.ClaimWithdrawn: claim_withdrawn,
    e.ClaimFlagged: claim_flagged,
    e.ClaimEnded: claim_ended,
    e.ClaimActivated: claim_activated,
    e.ClaimDeactivated: deactivated,
    e.JobActivated: job_activated,
    e.JobExited: deactivated,
}
