"""Add machines to a pool, reconfigure them, and remove them."""

from __future__ import annotations

from collections.abc import Mapping

from ..decision.draft import Draft, Refusal
from ..events import Ad, MachineConfigured, MachineJoined, MachineLeft, SlotAdChanged, SlotCreated, SlotDestroyed
from ..ports import stimuli as s
from ..ports.messages import BeginDrain, EndDrain, ShowHost
from ..state.caches import parse_cached
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..state_machines.drain import RESTART
from . import draining
from .absent_ads import MACHINE_LEFT, keep_invalidated
from .dynamic_slots import usable_devices
from .public_ad import why_not_canceled, why_not_drained
from .slot_policy_evaluation import policy_of
from .slot_resources import STANDARD_RESOURCES
from .startd_settings import SETTINGS
from .transitions import reevaluate_slot
from .updates import changed_readings, publish


def add_machine(draft: Draft[ExecutionPoint], stimulus: s.AddMachine) -> None:
    """Add a machine and its slots to the pool. Slots that the owner does not need become Unclaimed (transition 1)."""
    if stimulus.machine in draft.state.machines:
        raise Refusal(f"machine {stimulus.machine} is already in the pool; remove it first, or use another name")
    for plan in stimulus.slots:
        if plan.name in draft.state.slots:
            raise Refusal(f"slot {plan.name} already exists; slot names must be unique in a pool")
    _check_attributes(stimulus.machine, stimulus.ad, stimulus.slots, stimulus.settings)
    draft.emit(MachineJoined(*draft.header("configured"), stimulus.machine, stimulus.ad, stimulus.settings))
    for plan in stimulus.slots:
        ad = {**stimulus.ad, **plan.ad}
        draft.emit(SlotCreated(*draft.header("configured"), plan.name, stimulus.machine, plan.kind, "", ad))
        reevaluate_slot(draft, draft.state.slots[plan.name])
    for plan in stimulus.slots:
        slot = draft.state.slots[plan.name]
        publish(draft, slot, changed_readings(policy_of(draft, slot)))


def _check_attributes(machine: str, ad: Ad, plans: tuple[s.SlotPlan, ...], settings: Ad) -> None:
    """Check a machine's attributes and settings.

    :raises Refusal: if an attribute is not an expression, or a setting is unknown
    """
    for plan in plans:
        for name, text in {**ad, **plan.ad}.items():
            if parse_cached(text) is None:
                raise Refusal(f"machine {machine}: {name} = {text} is not a ClassAd expression")
    for name in settings:
        if name not in SETTINGS and not name.startswith("MODIFY_REQUEST_EXPR_"):
            raise Refusal(
                f"machine {machine}: {name} is not an execution point setting; use one of {', '.join(SETTINGS)}"
            )


def remove_machine(draft: Draft[ExecutionPoint], stimulus: s.RemoveMachine) -> None:
    state = draft.state
    if stimulus.machine not in state.machines:
        raise Refusal(f"machine {stimulus.machine} is not in the pool")
    slots = list(state.machines[stimulus.machine].slots.values())
    busy = [slot.name for slot in slots if slot.claim or slot.name in state.slot_matches]
    if busy:
        raise Refusal(f"machine {stimulus.machine} is in use ({', '.join(busy)}): vacate these slots first")
    client = state.machines[stimulus.machine].backfill
    if client is not None:
        raise Refusal(f"machine {stimulus.machine} runs a backfill client ({client.system}): vacate its slots first")
    for slot in slots:
        keep_invalidated(draft, slot)
        draft.emit(SlotDestroyed(*draft.header(MACHINE_LEFT), slot.name))
    draft.emit(MachineLeft(*draft.header("left"), stimulus.machine))


def show_host(draft: Draft[ExecutionPoint], message: ShowHost) -> Ad:
    return host_ad(draft.state)


def host_ad(state: ExecutionPoint) -> Ad:
    """Return the ad of the pool's own machine merged with the ad of its first slot."""
    machine = state.machines.get(state.name) or next(iter(state.machines.values()), None)
    slot = None if machine is None else next(iter(machine.slots.values()), None)
    return {**({} if machine is None else machine.ad), **({} if slot is None else slot.ad)}


# Reconfiguration


_FIXED_PREFIXES = ("SlotType", "TotalSlot", "Assigned", "VirtualMemory")
"""The beginnings of attributes that describe the division into slots."""


def reconfigure(draft: Draft[ExecutionPoint], stimulus: s.Reconfigure) -> None:
    """Change the machine's settings and the ads of its slots. If the set of slots or their types change, drain the
    machine, and change nothing else: it joins again with the new slots.

    :raises Refusal: if the slots would change, and ``stimulus.drains`` is not set, or the machine cannot be drained now
    """
    machine = draining.find_machine(draft, stimulus.machine)
    _check_attributes(machine.name, stimulus.ad, stimulus.slots, stimulus.settings)
    plans = {plan.name: {**stimulus.ad, **plan.ad} for plan in stimulus.slots}
    slots = [slot for slot in machine.slots.values() if slot.kind != "dynamic"]
    if change := _change_of_slots(slots, stimulus.slots, plans):
        _drain_to_rebuild(draft, machine, change, stimulus.drains)
        return
    if machine.drain is not None and machine.drain.cause == draining.SLOTS_CHANGED and not why_not_canceled(machine):
        draft.send(EndDrain(machine.name, "reconfigured"))
    changed_settings = _changed_settings(machine.settings, stimulus.settings)
    ads = [(slot, _changed_attributes(slot, plans[slot.name])) for slot in slots]
    for slot in machine.slots.values():
        if slot.kind == "dynamic" and slot.parent in plans:
            ads.append((slot, _inherited_changes(draft.state.slots[slot.parent], slot, plans[slot.parent])))
    if changed_settings or any(changes for _, changes in ads):
        draft.emit(MachineConfigured(*draft.header("reconfigured"), machine.name, changed_settings))
    for slot, changes in ads:
        if changes:
            draft.emit(SlotAdChanged(*draft.header("reconfigured"), slot.name, changes))
    for slot, changes in ads:
        for name in changes:
            if name.startswith("Offline") and f"Available{name.removeprefix('Offline')}" in slot.ad:
                left = usable_devices(draft, slot, name.removeprefix("Offline"))
                draft.emit(SlotAdChanged(*draft.header("reconfigured"), slot.name, left))
    draining.reevaluate_machine(draft, machine)


def _drain_to_rebuild(draft: Draft[ExecutionPoint], machine: Machine, change: str, drains: bool) -> None:
    if machine.restart or (machine.drain is not None and machine.drain.completion == RESTART):
        return  # it is about to read its configuration again
    if not drains:
        hint = "a reconfiguration cannot change slots and their types: restart the execution point"
        raise Refusal(f"machine {machine.name}: {change}; {hint}")
    if objection := why_not_drained(machine) or ("it is shutting down" if machine.shutdown else ""):
        raise Refusal(f"{change}, so the machine must be drained, but {objection}")
    reason = f"the configuration changes the slots: {change}"
    draft.send(BeginDrain(machine.name, "Graceful", reason, RESTART, "", draining.SLOTS_CHANGED))


def _change_of_slots(slots: list[Slot], plans: tuple[s.SlotPlan, ...], ads: dict[str, Ad]) -> str:
    """Return the first change to the set of slots or their types, or an empty string."""
    old_names, new_names = {slot.name for slot in slots}, set(ads)
    if old_names != new_names:
        return f"{', '.join(sorted(old_names ^ new_names))} would be added or removed"
    kinds = {plan.name: plan.kind for plan in plans}
    for slot in slots:
        if kinds[slot.name] != slot.kind:
            return f"slot {slot.name} would become {kinds[slot.name]}"
        for name in sorted(slot.ad.keys() | ads[slot.name].keys()):
            old, new = slot.ad.get(name), ads[slot.name].get(name)
            if name.startswith(_FIXED_PREFIXES) and old != new:
                return f"slot {slot.name}: {name} would change from {old} to {new}"
    return ""


def _changed_settings(old: Mapping[str, str], new: Ad) -> Ad:
    changes = {name: text for name, text in new.items() if old.get(name) != text}
    return changes | {name: "" for name in old if name not in new}


_MAINTAINED = frozenset(STANDARD_RESOURCES)
"""The attributes of a slot's ad that the pool maintains."""


def _changed_attributes(slot: Slot, new: Ad) -> Ad:
    return {name: text for name, text in _changed_settings(slot.ad, new).items() if name not in _MAINTAINED}


def _inherited_changes(parent: Slot, slot: Slot, new: Ad) -> Ad:
    """Return those changes to the parent's ad that affect attributes inherited by the dynamic slot."""
    changes = _changed_attributes(parent, new)
    return {name: text for name, text in changes.items() if slot.ad.get(name) == parent.ad.get(name)}
