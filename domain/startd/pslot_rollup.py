"""What a partitionable slot tells of the slots that were carved from it: NumDynamicSlots, and Child<attribute> lists.

Source: the manual's ADVERTISE_PSLOT_ROLLUP_INFORMATION and STARTD_PARTITIONABLE_SLOT_ATTRS, and the real startd's
``publishDynamicChildSummaries`` for the order: by the numbers of the dynamic slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..state.state import ExecutionPoint, Slot
from .slot_resources import resources
from .startd_settings import setting

COUNT: Final = "NumDynamicSlots"
ROLLED_UP: Final = "PslotRollupInformation"
"""True in the ads of slots that tell, and of those that are told of."""
LEFT: Final = "retirementtimeremaining"
"""The one attribute that a slot has for its parent alone, in small letters."""
_ALWAYS: Final = ("Name", "DSlotId", "CurrentRank", "RemoteUser", "RemoteOwner", "AccountingGroup", "State", "Activity",
                  "EnteredCurrentState", "RetirementTimeRemaining")  # fmt: skip


def rolls_up(state: ExecutionPoint, slot: Slot) -> bool:
    """Tell whether a slot tells of those carved from it, or is told of (ADVERTISE_PSLOT_ROLLUP_INFORMATION)."""
    said = setting(state, state.machines.get(slot.machine), "ADVERTISE_PSLOT_ROLLUP_INFORMATION")
    return slot.kind != "static" and said.lower() == "true"


def rolled_names(state: ExecutionPoint, slot: Slot) -> Mapping[str, str]:
    """Return the attributes that are rolled up in the ad of a partitionable slot, by the names in small letters of the
    lists; none where it does not tell."""
    if slot.kind != "partitionable" or not rolls_up(state, slot):
        return {}
    further = setting(state, state.machines.get(slot.machine), "STARTD_PARTITIONABLE_SLOT_ATTRS")
    return _names(resources(slot.ad), further)


def told_names(state: ExecutionPoint, slot: Slot) -> list[str]:
    """Return all attributes that a slot has because it was carved, or may be."""
    found = [f"Child{name}" for name in rolled_names(state, slot).values()]
    if slot.kind == "partitionable":
        found.insert(0, COUNT)
    return [*found, ROLLED_UP] if rolls_up(state, slot) else found


def is_rolled(key: str) -> bool:
    """Tell whether an attribute, in small letters, may tell of dynamic slots."""
    return key.startswith("child") or key == COUNT.lower()


@lru_cache(1000)
def _names(resources: tuple[str, ...], further: str) -> Mapping[str, str]:
    names = (*_ALWAYS, *resources, *further.replace(",", " ").split())
    return {f"child{name.lower()}": name for name in reversed(names)}
