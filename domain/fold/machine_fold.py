"""How events about machines, their backfill clients and their slots change the state."""

from __future__ import annotations

from collections.abc import Callable

from .. import events as e
from ..state import slot_fold
from ..state.slot_fold import MACHINE_FOLDS, PUBLISHED
from ..state.state import BackfillClient, Machine, State
from .claim_fold import awaited, end_match, leave_limits, unpromise

MATCHED = "Matched/Idle"
UNCLAIMED = "Unclaimed/Idle"
PREEMPTING = "Preempting/"
BACKFILL = "Backfill/"


def _touch(state: State, machine: Machine) -> None:
    """What all slots of a machine say has changed."""
    for slot in machine.slots:
        state.slot_changes.append(slot)


def _touch_ads(state: State, machine: Machine) -> None:
    """The conditions of all slots of a machine have changed."""
    for slot in machine.slots:
        state.slot_ad_changes.append(slot)


def _joined(state: State, event: e.MachineJoined) -> None:
    state.machines[event.machine] = slot_fold.joined(event)


def _machine_changed(kind: type[e.Event], conditions: bool = False) -> Callable[..., None]:
    """A fold of an event that changes one machine, and so what all of its slots say; with `conditions`, what their
    START is as well."""
    fold = MACHINE_FOLDS[kind]

    def folded(state: State, event: e.MachineConfigured) -> None:
        machine = state.machines[event.machine]
        fold(machine, event)
        _touch(state, machine)
        if conditions:
            _touch_ads(state, machine)

    return folded


def _drain_moved(state: State, event: e.DrainTransitioned) -> None:
    machine = state.machines[event.machine]
    MACHINE_FOLDS[e.DrainTransitioned](machine, event)
    if machine.drain is None:
        _touch_ads(state, machine)
    _touch(state, machine)


def _busy(state: State, event: e.CpuBusyChanged) -> None:
    slot_fold.busy(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)


def _backfill_started(state: State, event: e.BackfillStarted) -> None:
    key = str(state.position)
    machine = state.machines[event.machine]
    machine.backfill = BackfillClient(key, event.system, event.client, event.slot, event.at)
    state.clients[event.machine] = key
    _touch(state, machine)


def _backfill_exited(state: State, event: e.BackfillExited) -> None:
    _machine_changed(e.BackfillExited)(state, event)
    state.clients.pop(event.machine, None)


def _backfill_leaving(state: State, event: e.BackfillLeaving) -> None:
    slot_fold.leaving(state.slots[event.slot], event, state.position, "")
    state.destined.pop(event.slot, None)
    if event.destination == "Matched":
        state.destined[event.slot] = None


def _machine_left(state: State, event: e.MachineLeft) -> None:
    state.machines.pop(event.machine, None)
    state.clients.pop(event.machine, None)


def _born(state: State, event: e.SlotCreated) -> None:
    slot = state.slots[event.slot] = slot_fold.created(event, state.position)
    if event.machine in state.machines:
        state.machines[event.machine].slots[event.slot] = slot
    state.slot_changes.append(event.slot)
    state.slot_ad_changes.append(event.slot)
    state.cycles.news = state.position


def _slot_moved(state: State, event: e.SlotTransitioned) -> None:
    slot_fold.moved(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    state.matched.pop(event.slot, None)
    state.preempting.pop(event.slot, None)
    if not event.target.startswith(BACKFILL):
        state.destined.pop(event.slot, None)
    if event.target == UNCLAIMED:
        state.cycles.news = state.position
    elif event.target == MATCHED:
        state.matched[event.slot] = None
    elif event.target.startswith(PREEMPTING):
        state.preempting[event.slot] = None


def _slot_changed(state: State, event: e.SlotAdChanged) -> None:
    slot_fold.ad_changed(state.slots[event.slot], event, state.position, "")
    state.slot_changes.append(event.slot)
    if event.cause != PUBLISHED:  # what sensors say is looked at in the next cycle that is due
        state.slot_ad_changes.append(event.slot)
        state.cycles.news = state.position


def _slot_died(state: State, event: e.SlotDestroyed) -> None:
    slot = state.slots.pop(event.slot, None)
    parent = None if slot is None else state.slots.get(slot.parent)
    if slot is not None and parent is not None:
        slot_fold.merged(parent, slot)
    state.slot_ad_changes.append(event.slot)
    if slot is not None and slot.machine in state.machines:
        state.machines[slot.machine].slots.pop(event.slot, None)
    state.slot_changes.append(event.slot)
    state.claims.pop(event.slot, None)
    for job in list(state.matches.get(event.slot, ())):
        end_match(state, event.slot, job)
    for promised in (state.claim_ready.pop(event.slot, None), awaited(slot)):
        unpromise(state, event.slot, promised)
    if slot is not None:
        leave_limits(state, slot.claim, slot.waiting)
    state.matched.pop(event.slot, None)
    state.preempting.pop(event.slot, None)
    state.destined.pop(event.slot, None)
    state.silent_claims.pop(event.slot, None)


FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.MachineJoined: _joined,
    e.MachineConfigured: _machine_changed(e.MachineConfigured),
    e.MachineLeft: _machine_left,
    e.BenchmarksRan: _machine_changed(e.BenchmarksRan),
    e.CpuBusyChanged: _busy,
    e.DrainBegan: _machine_changed(e.DrainBegan, conditions=True),
    e.DrainTransitioned: _drain_moved,
    e.DrainFinal: _machine_changed(e.DrainFinal),
    e.DrainBadputAdded: _machine_changed(e.DrainBadputAdded),
    e.ShutdownBegan: _machine_changed(e.ShutdownBegan),
    e.BackfillStarted: _backfill_started,
    e.BackfillExecuting: _machine_changed(e.BackfillExecuting),
    e.BackfillSignalled: _machine_changed(e.BackfillSignalled),
    e.BackfillExited: _backfill_exited,
    e.BackfillLeaving: _backfill_leaving,
    e.SlotCreated: _born,
    e.SlotTransitioned: _slot_moved,
    e.SlotAdChanged: _slot_changed,
    e.SlotDestroyed: _slot_died,
}
