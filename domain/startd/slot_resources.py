"""The resources that a job takes of a partitionable slot, and the ad of its dynamic slot.

A request is enlarged by MODIFY_REQUEST_EXPR_* if what is left suffices for that, and else taken as it is; under a
consumption policy it is the slot's Consumption<resource>. Source: the manual, "Dynamic provisioning" and "Resource
Consumption Policies"; the value of an undefined request is the startd's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ..classad import ClassAd, Context, EvaluationError, Expression
from ..events import Ad
from ..names import SlotName
from ..state.caches import expression
from ..state.job_ad import quoted, unquoted
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from .custom_resources import assigned, things
from .slot_types import CPUS, DISK, MEMORY, SWAP
from .startd_settings import setting

STANDARD = (CPUS, MEMORY, DISK)
_LEAST = {CPUS: 1, MEMORY: 128, DISK: 1024}
"""The amounts for a job whose requests are no numbers."""


def resources(ad: Mapping[str, str]) -> tuple[str, ...]:
    """Return the resources by which a slot is cut: cores, memory and disk, and its machine's custom ones."""
    named = ad.get("MachineResources")
    if named is None:
        return STANDARD
    return STANDARD + tuple(name for name in unquoted(named).split() if name not in (*STANDARD, SWAP) and name in ad)


def consumes(ad: Mapping[str, str]) -> bool:
    """Tell whether a partitionable slot has a consumption policy, which names each of its resources."""
    return all(f"Consumption{name}" in ad for name in resources(ad))


def left_of(ad: Mapping[str, str]) -> dict[str, float]:
    return {name: float(ad.get(name) or 0) for name in resources(ad)}


class Cutter(Struct, frozen=True):
    """A slot to be cut for jobs, with the values that are the same for each job."""

    slot: Slot
    ad: ClassAd
    context: Context
    edits: Mapping[str, Expression]
    """MODIFY_REQUEST_EXPR_* by the resource."""
    must: bool
    consumes: bool

    def taken(self, job: ClassAd, left: Mapping[str, float]) -> dict[str, int] | None:
        """Return what a job takes of what is ``left``; None if that does not suffice."""
        if self.consumes:
            return self._fits(self._consumed(job, left), left)
        asked = {name: self._asked(job, name) for name in left}
        edited = {**asked, **self._edited(job)}
        return self._fits(edited, left) or (None if self.must else self._fits(asked, left))

    def _fits(self, asked: dict[str, int], left: Mapping[str, float]) -> dict[str, int] | None:
        return asked if all(left[name] >= amount for name, amount in asked.items()) else None

    def _asked(self, job: ClassAd, name: str) -> int:
        wanted = f"Request{name}"
        value = _number(job[wanted], job, self.ad, self.context) if wanted in job else None
        return _whole(name, value)

    def _edited(self, job: ClassAd) -> dict[str, int]:
        found = {}
        for name, edit in self.edits.items():
            value = _number(edit, job, self.ad, self.context)
            if value is not None:
                found[name] = _whole(name, value)
        return found

    def _consumed(self, job: ClassAd, left: Mapping[str, float]) -> dict[str, int]:
        found = {}
        for name in left:
            value = _number(self.ad[f"Consumption{name}"], self.ad, job, self.context)
            found[name] = max(1 if name in (CPUS, MEMORY) else 0, math.ceil(value or 0))
        return found


def _whole(name: str, value: float | None) -> int:
    if value is None:
        return _LEAST.get(name, 0)
    return max(1 if name in STANDARD else 0, int(value))


def _number(asked: Expression, my: ClassAd, target: ClassAd, context: Context) -> float | None:
    try:
        value = asked.evaluate(my, target, context)
    except EvaluationError:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def cutter(state: ExecutionPoint, machine: Machine | None, slot: Slot, ad: ClassAd, context: Context) -> Cutter:
    """Return a partitionable slot, ready to be cut; ``ad`` is its own."""
    edits = {}
    for name in STANDARD:
        key = f"MODIFY_REQUEST_EXPR_REQUEST{name.upper()}"
        meaning = expression(slot.ad.get(key) or setting(state, machine, key))
        if meaning is not None:
            edits[name] = meaning
    must = setting(state, machine, "MUST_MODIFY_REQUEST_EXPRS").lower() == "true"
    return Cutter(slot, ad, context, edits, must, consumes(slot.ad))


# Things with names


def free_things(parent: Slot, slots: Iterable[Slot]) -> dict[str, list[str]]:
    """Return the things of a partitionable slot, by resource, that none of the ``slots`` cut from it has."""
    given = {name: ids for name in resources(parent.ad) if (ids := assigned(parent.ad, name))}
    if not given:
        return {}
    children = [slot for slot in slots if slot.parent == parent.name]
    taken = {(name, one) for child in children for name in given for one in assigned(child.ad, name)}
    return {name: [one for one in ids if (name, one) not in taken] for name, ids in given.items()}


def chosen_things(
    parent: ClassAd, job: ClassAd, amounts: Mapping[str, int], free: Mapping[str, list[str]], context: Context
) -> dict[str, tuple[str, ...]]:
    """Return the things for a job: the first that meet its Require<resource>, and others where those are too few."""
    chosen = {}
    for name, ids in free.items():
        require = job.get(f"Require{name}")
        known = things(parent, name)
        meets = [one for one in ids if require is None or _meets(require, known.get(one), job, context)]
        rest = [one for one in ids if one not in meets]
        chosen[name] = tuple((meets + rest)[: amounts.get(name, 0)])
    return chosen


def _meets(require: Expression, thing: ClassAd | None, job: ClassAd, context: Context) -> bool:
    try:
        return thing is not None and require.evaluate(thing, job, context) is True
    except EvaluationError:
        return False


def dynamic_ad(parent: Slot, name: str, amounts: Mapping[str, int], given: Ad) -> Ad:
    """Return the ad of a dynamic slot: its parent's, with its own amounts; ``given`` is of its things."""
    of_things = [resource for resource in amounts if assigned(parent.ad, resource)]
    ad = {
        key: text
        for key, text in parent.ad.items()
        if not any(key.startswith((f"{one}_", f"Assigned{one}", f"Available{one}")) for one in of_things)
    }
    ad |= {key: str(amount) for key, amount in amounts.items()}
    ad |= {f"TotalSlot{key}": f"{amount:.1f}" if key == DISK else str(amount) for key, amount in amounts.items()}
    ad |= given
    ad.pop("PartitionableSlot", None)
    ad |= {"Name": quoted(name), "SlotType": '"Dynamic"', "DynamicSlot": "true"}
    return ad | {"DSlotId": SlotName.parse(name).number, "ParentSlotId": parent.ad.get("SlotID", "1")}
