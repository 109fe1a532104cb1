"""Carve dynamic slots from partitionable slots, and merge them back.

A dynamic slot is created for a match, with the resources that the job requests. When its claim ends, the slot is
destroyed and its resources return to its parent.
"""

from __future__ import annotations

import math

from ..classad import ClassAd, EvaluationError
from ..decision.draft import Draft, Refusal
from ..events import Ad, SlotAdChanged, SlotCreated, SlotDestroyed
from ..state.caches import ad_from_attributes
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .custom_resources import assigned_ids, attributes_of_devices, available_text, devices_in_ad
from .slot_ad import compiled_ad
from .slot_resources import SlotCarver, choose_devices, dynamic_ad, free_devices, remaining_resources, slot_carver


class _CachedCarvers(dict[str, tuple[object, ...]]):
    """Each slot's carver, with the inputs it was made from, by slot name."""


def _slot_carver(draft: Draft[ExecutionPoint], slot: Slot) -> SlotCarver:
    """Return the slot's carver, cached until the slot's ad, its machine's settings or the current second changes."""
    machine = draft.state.machines.get(slot.machine)
    cache = draft.caches.get(_CachedCarvers)
    inputs = (slot.version, machine.settings if machine else None, draft.context)
    entry = cache.get(slot.name)
    if entry is None or entry[:3] != inputs:
        new_carver = slot_carver(
            draft.state, machine, slot, compiled_ad(draft.state, slot, draft.caches).ad, draft.context
        )
        entry = cache[slot.name] = (*inputs, new_carver)
    carver = entry[3]
    assert isinstance(carver, SlotCarver)
    return carver


def carve_slot(draft: Draft[ExecutionPoint], parent: Slot, name: str, job: ClassAd) -> Slot:
    """Carve a dynamic slot for a job from ``parent``. Its initial state is Owner.

    :raises Refusal: if the parent has too few resources left
    """
    amounts = _slot_carver(draft, parent).amounts_for(job, remaining_resources(parent.ad))
    if amounts is None:
        remaining_text = ", ".join(f"{amount:g} of {key}" for key, amount in remaining_resources(parent.ad).items())
        raise Refusal(f"slot {parent.name}: the job requests more than the slot has left ({remaining_text})")
    free_ids = free_devices(parent, draft.state.slots.values())
    parent_ad = compiled_ad(draft.state, parent, draft.caches).ad
    chosen_ids = choose_devices(parent_ad, job, amounts, free_ids, draft.context)
    device_attributes: Ad = {}
    for resource, ids in chosen_ids.items():
        if len(ids) < amounts[resource]:
            raise Refusal(
                f"slot {parent.name}: only {len(ids)} of its free {resource} meet the job's Require{resource}"
            )
        device_attributes |= attributes_of_devices(resource, ids, devices_in_ad(parent_ad, resource))
    ad = dynamic_ad(parent, name, amounts, device_attributes)
    draft.emit(SlotCreated(*draft.header("carved"), name, parent.machine, "dynamic", parent.name, ad))
    _add_to_parent(draft, parent, {key: -available_amount for key, available_amount in amounts.items()}, "carved")
    return draft.state.slots[name]


def merge_slot(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Delete a dynamic slot whose claim has ended, and return its resources to its parent."""
    parent = draft.state.slots.get(slot.parent)
    amounts = {name: int(amount) for name, amount in remaining_resources(slot.ad).items()}
    for step in draft.state.dialect.steps("merge", slot.state_activity):
        draft.fire("slot", slot.state_activity, step.row)
    draft.emit(SlotDestroyed(*draft.header("merged"), slot.name))
    if parent is not None:
        _add_to_parent(draft, parent, amounts, "merged")


def return_resources(draft: Draft[ExecutionPoint], parent: Slot, slot: Slot, cause: str) -> None:
    """Return a dynamic slot's resources to its parent while the slot still exists, leaving it none."""
    amounts = {name: int(amount) for name, amount in remaining_resources(slot.ad).items() if amount}
    changes: Ad = dict.fromkeys(amounts, "0")
    for name in amounts:
        if assigned_ids(slot.ad, name):
            changes[f"Assigned{name}"] = ""
    draft.emit(SlotAdChanged(*draft.header(cause), slot.name, changes))
    _add_to_parent(draft, parent, amounts, cause)


def _add_to_parent(draft: Draft[ExecutionPoint], parent: Slot, amounts: dict[str, int], cause: str) -> None:
    remaining = remaining_resources(parent.ad)
    changes: Ad = {name: str(int(remaining.get(name, 0)) + amount) for name, amount in amounts.items() if amount}
    if any(f"Available{name}" in parent.ad for name in changes):
        for name, ids in free_devices(parent, draft.state.slots.values()).items():
            if name in changes:
                changes |= {name: str(len(ids)), f"Available{name}": available_text(name, ids)}
    if changes:
        draft.emit(SlotAdChanged(*draft.header(cause), parent.name, changes))


def usable_devices(draft: Draft[ExecutionPoint], slot: Slot, resource: str) -> Ad:
    """Return the attributes of a slot's ad that count and list its devices that are neither offline nor in use."""
    ids = free_devices(slot, draft.state.slots.values()).get(resource, [])
    return {resource: str(len(ids)), f"Available{resource}": available_text(resource, ids)}


_MAX_PLAIN_DIGITS = 9
"""The maximum number of digits of a number that is read without parsing it as an expression."""


def slot_weight(slot: Slot) -> int:
    """Return a slot's weight for accounting, in thousandths: its SlotWeight, or else its Cpus."""
    weight, cpus = (slot.ad.get(slot.ad.spelling(name) or "", "") for name in ("slotweight", "cpus"))
    text = cpus if weight in {"", "Cpus"} else weight
    if text.isascii() and text.isdecimal() and len(text) <= _MAX_PLAIN_DIGITS:
        return int(text) * 1000
    ad = ad_from_attributes(slot.ad)
    name = "SlotWeight" if "SlotWeight" in ad else "Cpus"
    try:
        value = ad.eval(name)
    except EvaluationError:
        value = 1
    return round(value * 1000) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else 1000
