"""How events change machines and their slots, with their claims: at their startd, and where it shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..names import JobId
from ..state import slot_fold
from ..state.caches import ChangeLog
from ..state.job_ad import unquoted
from ..state.records import BackfillClient, Machine
from ..state.slot_fold import MACHINE_FOLDS, PUBLISHED
from ..state.state import Slots
from .matches import end_match, match_of_claim, own_job

CARVED = "carved"
UNCLAIMED = "Unclaimed/Idle"


# Machines


def _touch(state: Slots, machine: Machine) -> None:
    """What all slots of a machine say has changed."""
    for slot in machine.slots:
        state.slot_changes.append(slot)


def _touch_ads(state: Slots, machine: Machine) -> None:
    """The conditions of all slots of a machine have changed."""
    for slot in machine.slots:
        state.slot_ad_changes.append(slot)


def _joined(state: Slots, event: e.MachineJoined) -> None:
    state.machines[event.machine] = slot_fold.joined(event)


def _machine_changed(kind: type[e.Event], conditions: bool = False) -> Callable[[Slots, Any], None]:
    """A fold of an event that changes one machine, and so what all of its slots say; with `conditions`, what their
    START is as well."""
    fold = MACHINE_FOLDS[kind]

    def folded(state: Slots, event: e.MachineConfigured) -> None:
        machine = state.machines[event.machine]
        fold(machine, event)
        _touch(state, machine)
        if conditions:
            _touch_ads(state, machine)

    return folded


def _drain_moved(state: Slots, event: e.DrainTransitioned) -> None:
    machine = state.machines[event.machine]
    MACHINE_FOLDS[e.DrainTransitioned](machine, event)
    if machine.drain is None:
        _touch_ads(state, machine)
    _touch(state, machine)


def _busy(state: Slots, event: e.CpuBusyChanged) -> None:
    slot_fold.busy(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


def backfill_started(state: Slots, event: e.BackfillStarted) -> None:
    machine = state.machines[event.machine]
    machine.backfill = BackfillClient(str(state.position), event.system, event.client, event.slot, event.at)
    _touch(state, machine)


def machine_left(state: Slots, event: e.MachineLeft) -> None:
    state.machines.pop(event.machine, None)


# Slots


def _born(state: Slots, event: e.SlotCreated) -> None:
    slot = state.slots[event.slot] = slot_fold.created(event, state.position)
    if event.machine in state.machines:
        state.machines[event.machine].slots[event.slot] = slot
    state.slot_changes.append(event.slot)
    state.slot_ad_changes.append(event.slot)
    if event.kind != "dynamic":
        state.slot_news = state.position


def slot_moved(state: Slots, event: e.SlotTransitioned) -> None:
    slot_fold.moved(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.target == UNCLAIMED:
        state.slot_news = state.position


def _slot_changed(state: Slots, event: e.SlotAdChanged) -> None:
    slot_fold.ad_changed(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.cause != PUBLISHED:  # what sensors say is looked at in the next cycle that is due
        state.slot_ad_changes.append(event.slot)
        if event.cause != CARVED:  # what is carved leaves less to a cycle
            state.slot_news = state.position


def slot_died(state: Slots, event: e.SlotDestroyed) -> None:
    slot = state.slots.pop(event.slot, None)
    parent = None if slot is None else state.slots.get(slot.parent)
    if slot is not None and parent is not None:
        slot_fold.merged(parent, slot)
    state.slot_ad_changes.append(event.slot)
    if slot is not None and slot.machine in state.machines:
        state.machines[slot.machine].slots.pop(event.slot, None)
    state.slot_changes.append(event.slot)
    state.slot_matches.pop(event.slot, None)


def backfill_leaving(state: Slots, event: e.BackfillLeaving) -> None:
    slot_fold.leaving(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


# Matches and claims


def _cycle(state: Slots, event: e.CycleHeld) -> None:
    regrouped = set(event.regrouped)
    for match in event.matches:
        state.slot_matches.setdefault(match.slot, {})[match.job] = match.job in regrouped


def _match_voided(state: Slots, event: e.MatchVoided) -> None:
    end_match(state.slot_matches, event.slot, event.job)
    state.slot_changes.append(event.slot)


def _user(state: Slots, event: e.ClaimMade | e.ClaimQueued, job: str) -> str:
    """Whose the job is that a claim is made for: this one of the pool's own queue, or one from outside."""
    outside = event.holder or not job
    return unquoted(event.ad.get("User", "")) if outside else state.job_user(JobId.parse(job), event.ad)


def _claim_made(state: Slots, event: e.ClaimMade) -> None:
    slot, matched = state.slots[event.slot], match_of_claim(state.slot_matches, event.slot, own_job(event))
    job = event.job or ("" if matched is None else matched[1])
    slot_fold.claimed(slot, event, state.position, _user(state, event, job))
    if matched is not None and slot.claim is not None:
        slot.claim.regrouped = end_match(state.slot_matches, *matched) is True
    state.slot_changes.append(event.slot)


def _claim_waits(state: Slots, event: e.ClaimQueued) -> None:
    slot, job = state.slots[event.slot], own_job(event)
    matched = None if job is None else match_of_claim(state.slot_matches, event.slot, job)
    slot_fold.claim_waits(slot, event, state.position, _user(state, event, event.job))
    if slot.waiting is not None:
        slot.waiting.regrouped = matched is not None and end_match(state.slot_matches, *matched) is True
    state.slot_changes.append(event.slot)


def _of_claim(kind: type[e.SlotEvent]) -> Callable[[Slots, Any], None]:
    """Return the fold of an event that changes what a slot's claim, or the one that waits, is."""
    fold = slot_fold.SLOT_FOLDS[kind]

    def folded(state: Slots, event: e.SlotEvent) -> None:
        fold(state.slots[event.slot], event, state.position, "")
        state.slot_changes.append(event.slot)

    return folded


def _claim_marked(state: Slots, event: e.ClaimFlagged) -> None:
    slot_fold.claim_flagged(state.slots[event.slot], event, state.position, "")


def claim_ended(state: Slots, event: e.ClaimEnded) -> None:
    slot_fold.claim_ended(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.cause == "start_false":
        state.taken_back = event.at


# Jobs on slots


def _claim_activated(state: Slots, event: e.ClaimActivated) -> None:
    slot_fold.claim_activated(state.slots[event.slot], event, state.position, unquoted(event.ad.get("User", "")))
    state.slot_changes.append(event.slot)


def job_activated(state: Slots, event: e.JobActivated) -> None:
    slot = state.slots.get(event.slot)
    if slot is not None:  # a job of the local universe has none
        user = state.job_user((event.cluster, event.proc), event.ad)
        slot_fold.job_activated(slot, event, state.position, user)
        state.slot_changes.append(event.slot)


def job_exited(state: Slots, event: e.JobExited) -> None:
    if len(state.slot_changes) > ChangeLog.KEPT:
        state.trim_changes()  # also where nobody decides
    slot = state.slots.get(event.slot)
    if slot is not None:
        slot_fold.deactivated(slot, event, state.position, "")
        state.slot_changes.append(event.slot)


FOLDS: dict[type[e.Event], Callable[[Slots, Any], None]] = {
    e.MachineJoined: _joined,
    e.MachineConfigured: _machine_changed(e.MachineConfigured),
    e.MachineLeft: machine_left,
    e.BenchmarksRan: _machine_changed(e.BenchmarksRan),
    e.CpuBusyChanged: _busy,
    e.DrainBegan: _machine_changed(e.DrainBegan, conditions=True),
    e.DrainTransitioned: _drain_moved,
    e.DrainFinal: _machine_changed(e.DrainFinal),
    e.DrainBadputAdded: _machine_changed(e.DrainBadputAdded),
    e.ShutdownBegan: _machine_changed(e.ShutdownBegan),
    e.BackfillStarted: backfill_started,
    e.BackfillExecuting: _machine_changed(e.BackfillExecuting),
    e.BackfillSignalled: _machine_changed(e.BackfillSignalled),
    e.BackfillExited: _machine_changed(e.BackfillExited),
    e.BackfillLeaving: backfill_leaving,
    e.SlotCreated: _born,
    e.SlotTransitioned: slot_moved,
    e.SlotAdChanged: _slot_changed,
    e.SlotDestroyed: slot_died,
    e.CycleHeld: _cycle,
    e.MatchVoided: _match_voided,
    e.ClaimMade: _claim_made,
    e.ClaimQueued: _claim_waits,
    e.ClaimWithdrawn: _of_claim(e.ClaimWithdrawn),
    e.ClaimFlagged: _claim_marked,
    e.ClaimEnded: claim_ended,
    e.ClaimActivated: _claim_activated,
    e.ClaimDeactivated: _of_claim(e.ClaimDeactivated),
    e.JobActivated: job_activated,
    e.JobExited: job_exited,
}
"""What anyone learns of slots. Their startd's own part of it is in ``starter_fold``."""
