"""Carve dynamic slots from partitionable ones, and merge them back.

A dynamic slot is created for a match, with what the job requests, and ends with its claim: its resources return to its
parent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..classad import ClassAd, EvaluationError
from ..decision.draft import Draft, Refusal
from ..events import Ad, SlotAdChanged, SlotCreated, SlotDestroyed
from ..state.caches import ad_of
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .custom_resources import assigned, available, of_things, things
from .slot_ad import compiled_ad
from .slot_resources import Cutter, chosen_things, cutter, dynamic_ad, free_things, left_of


def remaining(slot: Slot) -> dict[str, float]:
    """Return what is left of a partitionable slot, by resource."""
    return left_of(slot.ad)


def requested_resources(
    draft: Draft[ExecutionPoint], slot: Slot, job: ClassAd, left: Mapping[str, float]
) -> dict[str, int] | None:
    """Return what a job takes of what is ``left`` of a partitionable slot; None if that does not suffice."""
    return _cutter(draft, slot).taken(job, left)


class _Cutters(dict[str, tuple[object, ...]]):
    """By the slots' names: the inputs of each cutter, and the cutter."""


def _cutter(draft: Draft[ExecutionPoint], slot: Slot) -> Cutter:
    """Return the slot's cutter, kept for as long as its ad, its machine's settings and the second are the same."""
    machine = draft.state.machines.get(slot.machine)
    kept = draft.caches.of(_Cutters)
    stamp = (slot.version, machine.settings if machine else None, draft.context)
    known = kept.get(slot.name)
    if known is None or known[:3] != stamp:
        made = cutter(draft.state, machine, slot, compiled_ad(draft.state, slot, draft.caches).ad, draft.context)
        known = kept[slot.name] = (*stamp, made)
    found = known[3]
    assert isinstance(found, Cutter)
    return found


def carve(draft: Draft[ExecutionPoint], parent: Slot, name: str, job: ClassAd) -> Slot:
    """Carve a dynamic slot for a job from `parent`. It begins in Owner.

    :raises Refusal: too little is left of the parent
    """
    taken = requested_resources(draft, parent, job, remaining(parent))
    if taken is None:
        left = ", ".join(f"{amount:g} of {key}" for key, amount in remaining(parent).items())
        raise Refusal(f"slot {parent.name}: the job asks for more than the slot has left ({left}): ask for less")
    free = free_things(parent, draft.state.slots.values())
    own = compiled_ad(draft.state, parent, draft.caches).ad
    chosen = chosen_things(own, job, taken, free, draft.context)
    given: Ad = {}
    for resource, ids in chosen.items():
        given |= of_things(resource, ids, things(own, resource))
    ad = dynamic_ad(parent, name, taken, given)
    draft.emit(SlotCreated(*draft.why("carved"), name, parent.machine, "dynamic", parent.name, ad))
    _give(draft, parent, {key: -amount for key, amount in taken.items()}, "carved")
    return draft.state.slots[name]


def merge(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Delete a dynamic slot whose claim is over, and return its resources to its parent."""
    parent = draft.state.slots.get(slot.parent)
    amounts = {name: int(amount) for name, amount in remaining(slot).items()}
    for step in draft.state.dialect.steps("merge", slot.state_activity):
        draft.fire("slot", slot.state_activity, step.row)
    draft.emit(SlotDestroyed(*draft.why("merged"), slot.name))
    if parent is not None:
        _give(draft, parent, amounts, "merged")


def give_back(draft: Draft[ExecutionPoint], parent: Slot, slot: Slot, cause: str) -> None:
    """Return a dynamic slot's resources to its parent before it ends: from here on it has none."""
    amounts = {name: int(amount) for name, amount in remaining(slot).items() if amount}
    changes: Ad = dict.fromkeys(amounts, "0")
    for name in amounts:
        if assigned(slot.ad, name):
            changes[f"Assigned{name}"] = ""
    draft.emit(SlotAdChanged(*draft.why(cause), slot.name, changes))
    _give(draft, parent, amounts, cause)


def _give(draft: Draft[ExecutionPoint], parent: Slot, amounts: dict[str, int], cause: str) -> None:
    left = remaining(parent)
    changes: Ad = {name: str(int(left.get(name, 0)) + amount) for name, amount in amounts.items() if amount}
    if any(f"Available{name}" in parent.ad for name in changes):
        free = free_things(parent, draft.state.slots.values())
        changes |= {f"Available{name}": available(name, ids) for name, ids in free.items() if name in changes}
    if changes:
        draft.emit(SlotAdChanged(*draft.why(cause), parent.name, changes))


_PLAIN = 9
"""Digits of a number that is the same in whatever it is written."""


def weight_of(slot: Slot) -> int:
    """Return a slot's weight in the accounting, in thousandths: its SlotWeight, which is Cpus unless configured."""
    weight, cpus = (slot.ad.get(slot.ad.spelling(name) or "", "") for name in ("slotweight", "cpus"))
    text = cpus if weight in {"", "Cpus"} else weight
    if text.isascii() and text.isdecimal() and len(text) <= _PLAIN:
        return int(text) * 1000
    ad = ad_of(slot.ad)
    name = "SlotWeight" if "SlotWeight" in ad else "Cpus"
    try:
        value = ad.eval(name)
    except EvaluationError:
        value = 1
    return round(value * 1000) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else 1000
