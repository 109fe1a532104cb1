"""Fold events into machines, slots and claims, in the state of the startd and of roles that can see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..names import JobId
from ..state import slot_fold
from ..state.caches import ChangeLog
from ..state.job_ad import unquoted
from ..state.offline_ads import OfflineAd, is_offline, match_changes
from ..state.records import BackfillClient
from ..state.slot_fold import MACHINE_FOLDS, PUBLISHED
from ..state.state import Slots
from .matches import end_match, match_of_claim, own_job

CARVED = "carved"
UNCLAIMED = "Unclaimed/Idle"


# Machines


def _fold_machine_joined(state: Slots, event: e.MachineJoined) -> None:
    state.machines[event.machine] = slot_fold.new_machine(event)
    _drop_offline(state, event.machine)


def _drop_offline(state: Slots, machine: str) -> None:
    for name in [name for name, each in state.offline.items() if each.machine == machine]:
        del state.offline[name]


def _fold_machine_expired(state: Slots, event: e.MachineExpired) -> None:
    _expire_machine(state, event)
    if not event.expired:
        _drop_offline(state, event.machine)


def _fold_slot_absent(state: Slots, event: e.SlotAbsent) -> None:
    if is_offline(event.ad):  # only the views keep absent ads
        state.offline[event.slot] = OfflineAd(event.machine, {**event.ad}, event.until)
        state.slot_change_position = state.position


def _fold_offline_matched(state: Slots, event: e.OfflineMatched) -> None:
    for slot, changes in match_changes(event).items():
        if slot in state.offline:
            state.offline[slot].ad |= changes


def _machine_fold(kind: type[e.Event], changes_start: bool = False) -> Callable[[Slots, Any], None]:
    """Return the fold of an event that changes a machine's slots; ``changes_start``: also their START expressions."""
    fold = MACHINE_FOLDS[kind]

    def fold_machine_event(state: Slots, event: e.MachineConfigured) -> None:
        machine = state.machines[event.machine]
        fold(machine, event)
        state.slot_changes.extend(machine.slots)
        if changes_start:
            state.slot_ad_changes.extend(machine.slots)

    return fold_machine_event


_expire_machine = _machine_fold(e.MachineExpired, changes_start=True)


def _fold_drain_transitioned(state: Slots, event: e.DrainTransitioned) -> None:
    machine = state.machines[event.machine]
    MACHINE_FOLDS[e.DrainTransitioned](machine, event)
    if machine.drain is None:
        state.slot_ad_changes.extend(machine.slots)
    state.slot_changes.extend(machine.slots)


def _fold_cpu_busy_changed(state: Slots, event: e.CpuBusyChanged) -> None:
    slot_fold.fold_cpu_busy(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


def fold_backfill_started(state: Slots, event: e.BackfillStarted) -> None:
    machine = state.machines[event.machine]
    machine.backfill = BackfillClient(str(state.position), event.system, event.client, event.slot, event.at)
    state.slot_changes.extend(machine.slots)


def fold_machine_left(state: Slots, event: e.MachineLeft) -> None:
    state.machines.pop(event.machine, None)


# Slots


def _fold_slot_created(state: Slots, event: e.SlotCreated) -> None:
    slot = state.slots[event.slot] = slot_fold.new_slot(event, state.position)
    if event.machine in state.machines:
        state.machines[event.machine].slots[event.slot] = slot
    state.slot_changes.append(event.slot)
    state.slot_ad_changes.append(event.slot)
    if event.kind != "dynamic":
        state.slot_change_position = state.position


def fold_slot_transitioned(state: Slots, event: e.SlotTransitioned) -> None:
    slot_fold.fold_transition(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.target == UNCLAIMED:
        state.slot_change_position = state.position


def _fold_slot_ad_changed(state: Slots, event: e.SlotAdChanged) -> None:
    slot_fold.fold_ad_change(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.cause != PUBLISHED:  # sensor readings do not trigger a cycle
        state.slot_ad_changes.append(event.slot)
        if event.cause != CARVED:  # carving only reduces a slot's resources
            state.slot_change_position = state.position


def fold_slot_destroyed(state: Slots, event: e.SlotDestroyed) -> None:
    slot = state.slots.pop(event.slot, None)
    parent = None if slot is None else state.slots.get(slot.parent)
    if slot is not None and parent is not None:
        parent.vacated = max(parent.vacated, slot.vacated)
    state.slot_ad_changes.append(event.slot)
    if slot is not None and slot.machine in state.machines:
        state.machines[slot.machine].slots.pop(event.slot, None)
    state.slot_changes.append(event.slot)
    state.slot_matches.pop(event.slot, None)


def fold_backfill_leaving(state: Slots, event: e.BackfillLeaving) -> None:
    slot_fold.fold_backfill_leaving(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


# Matches and claims


def _fold_cycle_held(state: Slots, event: e.CycleHeld) -> None:
    regrouped = set(event.regrouped)
    for match in event.matches:
        state.slot_matches.setdefault(match.slot, {})[match.job] = match.job in regrouped


def _fold_match_voided(state: Slots, event: e.MatchVoided) -> None:
    end_match(state.slot_matches, event.slot, event.job)
    state.slot_changes.append(event.slot)


def _user(state: Slots, event: e.ClaimMade | e.ClaimQueued, job: str) -> str:
    """Return the user of a claim's job: ``job`` in the pool's own queue, or an external job."""
    is_outside = event.holder or not job
    return unquoted(event.ad.get("User", "")) if is_outside else state.job_user(JobId.parse(job), event.ad)


def _fold_claim_made(state: Slots, event: e.ClaimMade) -> None:
    slot, match = state.slots[event.slot], match_of_claim(state.slot_matches, event.slot, own_job(event))
    job = event.job or ("" if match is None else match[1])
    slot_fold.fold_claim(slot, event, state.position, _user(state, event, job))
    if match is not None and slot.claim is not None:
        slot.claim.regrouped = end_match(state.slot_matches, *match) is True
    state.slot_changes.append(event.slot)


def _fold_claim_queued(state: Slots, event: e.ClaimQueued) -> None:
    slot, job = state.slots[event.slot], own_job(event)
    match = None if job is None else match_of_claim(state.slot_matches, event.slot, job)
    slot_fold.fold_queued_claim(slot, event, state.position, _user(state, event, event.job))
    if slot.queued_claim is not None:
        slot.queued_claim.regrouped = match is not None and end_match(state.slot_matches, *match) is True
    state.slot_changes.append(event.slot)


def _claim_fold(kind: type[e.SlotEvent]) -> Callable[[Slots, Any], None]:
    fold = slot_fold.SLOT_FOLDS[kind]

    def fold_claim_event(state: Slots, event: e.SlotEvent) -> None:
        fold(state.slots[event.slot], event, state.position, "")
        state.slot_changes.append(event.slot)

    return fold_claim_event


def _fold_claim_flagged(state: Slots, event: e.ClaimFlagged) -> None:
    slot_fold.fold_claim_flags(state.slots[event.slot], event, state.position, "")


def fold_claim_ended(state: Slots, event: e.ClaimEnded) -> None:
    slot_fold.fold_claim_end(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.cause == "start_false":
        state.claims_revoked = event.at


# Jobs on slots


def _fold_claim_activated(state: Slots, event: e.ClaimActivated) -> None:
    slot_fold.fold_claim_activation(state.slots[event.slot], event, state.position, unquoted(event.ad.get("User", "")))
    state.slot_changes.append(event.slot)


def fold_job_activated(state: Slots, event: e.JobActivated) -> None:
    slot = state.slots.get(event.slot)
    if slot is not None:  # a local universe job has no slot
        user = state.job_user((event.cluster, event.proc), event.ad)
        slot_fold.fold_job_activation(slot, event, state.position, user)
        state.slot_changes.append(event.slot)


def fold_job_exited(state: Slots, event: e.JobExited) -> None:
    if len(state.slot_changes) > ChangeLog.MAX_LENGTH:
        state.trim_changes()  # decisions trim the changes, but replays may contain no decisions
    slot = state.slots.get(event.slot)
    if slot is not None:
        slot_fold.fold_deactivation(slot, event, state.position, "")
        state.slot_changes.append(event.slot)


FOLDS: dict[type[e.Event], Callable[[Slots, Any], None]] = {
    e.MachineJoined: _fold_machine_joined,
    e.MachineConfigured: _machine_fold(e.MachineConfigured),
    e.MachineLeft: fold_machine_left,
    e.BenchmarksRan: _machine_fold(e.BenchmarksRan),
    e.CpuBusyChanged: _fold_cpu_busy_changed,
    e.DrainBegan: _machine_fold(e.DrainBegan, changes_start=True),
    e.DrainTransitioned: _fold_drain_transitioned,
    e.DrainFinal: _machine_fold(e.DrainFinal),
    e.DrainBadputAdded: _machine_fold(e.DrainBadputAdded),
    e.ShutdownBegan: _machine_fold(e.ShutdownBegan),
    e.BackfillStarted: fold_backfill_started,
    e.BackfillExecuting: _machine_fold(e.BackfillExecuting),
    e.BackfillSignalled: _machine_fold(e.BackfillSignalled),
    e.BackfillExited: _machine_fold(e.BackfillExited),
    e.BackfillLeaving: fold_backfill_leaving,
    e.MachineExpired: _fold_machine_expired,
    e.SlotAbsent: _fold_slot_absent,
    e.OfflineMatched: _fold_offline_matched,
    e.SlotCreated: _fold_slot_created,
    e.SlotTransitioned: fold_slot_transitioned,
    e.SlotAdChanged: _fold_slot_ad_changed,
    e.SlotDestroyed: fold_slot_destroyed,
    e.CycleHeld: _fold_cycle_held,
    e.MatchVoided: _fold_match_voided,
    e.ClaimMade: _fold_claim_made,
    e.ClaimQueued: _fold_claim_queued,
    e.ClaimWithdrawn: _claim_fold(e.ClaimWithdrawn),
    e.ClaimFlagged: _fold_claim_flagged,
    e.ClaimEnded: fold_claim_ended,
    e.ClaimActivated: _fold_claim_activated,
    e.ClaimJobEdited: _claim_fold(e.ClaimJobEdited),
    e.ClaimDeactivated: _claim_fold(e.ClaimDeactivated),
    e.JobActivated: fold_job_activated,
    e.JobExited: fold_job_exited,
}
"""The folds about slots, for any role. ``starter_fold`` adds the startd's."""
