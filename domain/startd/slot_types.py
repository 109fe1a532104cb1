"""Parse slot types, and divide a machine into slots.

A slot type defines a slot's share of each resource: an amount, a part of the machine's total (a fraction or a
percentage), or ``auto``, an equal part of what the other slots leave. Source: the manual, "Dividing System Resources in
Multi-core Machines"; shares are rounded as in HTCondor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

from ..errors import PoolbookError

Share = float | Literal["auto"]
"""An amount, or ``auto`` for an equal part of what is left."""
AUTO: Final = "auto"

CPUS, MEMORY, DISK, SWAP = "Cpus", "Memory", "Disk", "Swap"
_NAMES: Final = {"cpus": CPUS, "ram": MEMORY, "memory": MEMORY, "swap": SWAP, "virtualmemory": SWAP, "disk": DISK}
"""The resource names allowed in a slot type; they can be abbreviated."""
_MINIMA: Final = {CPUS: 1.0, MEMORY: 1.0, DISK: 1024.0, SWAP: 0.0}
"""The minimum for a slot whose type sets a share of this resource: cores, MiB, KiB, KiB."""
_COMMON_MINIMA: Final = {CPUS: 1.0, MEMORY: 1.0, DISK: 0.0, SWAP: 0.0}
"""The minimum for a slot whose type sets one common share for all resources."""
_UNITS: Final = {MEMORY: 2, DISK: 1, SWAP: 1}
"""The unit of each resource, as a power of 1024 bytes."""
_SUFFIXES: Final = "kmgtp"
_MINIMAL_PART: Final = 1 / 128
"""The part that the keyword ``minimal`` means."""
_TOLERANCE: Final = -0.000001


class SlotTypeError(PoolbookError, ValueError):
    """A machine cannot be divided into the configured slots. The message names the setting, the problem and the fix.

    >>> pool.configure("SLOT_TYPE_1 = cpus=8\\nNUM_SLOTS_TYPE_1 = 1")
    >>> pool.add_machine("node2", cpus=2)
    Traceback (most recent call last):
    SlotTypeError: ...
    """


class DivisibleResources(Struct, frozen=True):
    """The resources of a machine that are divided among its slots."""

    cpus: float
    memory: int
    """MiB."""
    swap: int
    """Virtual memory in KiB."""
    disks: Mapping[str, int]
    """Disk space of each execute volume, in KiB."""
    custom: Mapping[str, float] = field(default_factory=dict)

    def amount_of(self, resource: str, volume: str) -> float:
        standard: dict[str, float] = {CPUS: self.cpus, MEMORY: self.memory, SWAP: self.swap}
        if resource == DISK:
            return self.disks[volume]
        return standard[resource] if resource in standard else self.custom[resource]


class SlotType(Struct, frozen=True):
    """A slot's share of each resource. ``constraints`` select the devices of a custom resource. A ``fractional`` slot
    may have less than one core."""

    number: int
    shares: Mapping[str, Share]
    constraints: Mapping[str, str]
    fractional: bool = False


class ConfiguredSlots(Struct, frozen=True):
    """The slots of one type: ``count`` slots of type ``number``, which SLOT_TYPE_<number> defines as ``text``."""

    number: int
    text: str
    count: int


class SlotAllocation(Struct):
    """The resources of one slot. A machine's slots are numbered from 1."""

    number: int
    type: SlotType
    volume: str
    amounts: dict[str, Share] = field(default_factory=dict)

    def amount(self, resource: str) -> float:
        amount = self.amounts[resource]
        assert amount != AUTO
        return amount


# One share: 1/4, 25%, auto, 64, 2g


class _Value(Struct, frozen=True):
    """A share as written. ``kind`` is auto, minimal, part or amount."""

    kind: str
    value: float = 0.0
    scale: int = 0


_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)", re.DOTALL)


def _number(text: str) -> tuple[float, str]:
    match = _NUMBER.match(text)
    return (float(match[1]), match[2]) if match else (0.0, text.strip())


def _parse_share(text: str, number: int) -> _Value:
    lower_text = text.lower()
    if lower_text in ("auto", "automatic"):
        return _Value("auto")
    if lower_text in ("min", "minimal"):
        return _Value("minimal", _MINIMAL_PART)
    amount, suffix = _number(text)
    if "%" in text:
        return _Value("part", amount / 100)
    if "/" in text:
        denominator, _ = _number(text.partition("/")[2])
        if denominator <= 0:
            raise SlotTypeError(f"SLOT_TYPE_{number}: {text} is not a fraction; write it like 1/4")
        return _Value("part", amount / denominator)
    if not _NUMBER.match(text) or amount < 0 or (suffix and suffix[0].lower() not in _SUFFIXES):
        raise SlotTypeError(
            f"SLOT_TYPE_{number}: {text} is not a share of a resource; write a number (64, 2g), a fraction (1/4), "
            "a percentage (25%) or auto"
        )
    return _Value("amount", amount, _SUFFIXES.index(suffix[0].lower()) + 1 if suffix else 0)


# One type: cpus=2, ram=128, swap=25%, disk=1/2


def _items(text: str) -> list[str]:
    """Split a slot type into items, at line breaks, or else at commas, or else at blanks."""
    if "\n" in text:
        parts = text.split("\n")
    elif "," in text:
        parts = re.split(r"[,\r]", text)
    else:
        parts = text.split()
    return [part.strip() for part in parts if part.strip()]


def parse_slot_type(number: int, text: str, total: DivisibleResources, volume: str) -> SlotType:
    """Parse a slot type, and compute its shares of ``total``.

    :raises SlotTypeError: if an item is not a share, or the machine lacks the resource
    """
    common_share, fractional = _Value("auto"), False
    shares: dict[str, Share] = {}
    constraints: dict[str, str] = {}
    for item in _items(text):
        name, equals, share_text = (part.strip() for part in item.partition("="))
        if not equals:
            common_share = _parse_common_share(item, number)
            fractional = fractional or common_share.kind == "minimal"
            continue
        share_text, _, constraint = (part.strip() for part in share_text.partition(":"))
        if not share_text:
            raise SlotTypeError(f"SLOT_TYPE_{number}: {item}: a value is missing after the equals sign")
        value = _parse_share(share_text, number)
        resource = _full_name(name, total)
        if resource is None:
            if value.kind == "amount" and value.value > 0:
                names = ", ".join((CPUS, MEMORY, DISK, SWAP, *total.custom))
                raise SlotTypeError(
                    f"SLOT_TYPE_{number}: {name} is not a resource of this machine, which has {names}: define it with "
                    f"MACHINE_RESOURCE_{name}"
                )
            continue  # allows machines with and without a resource to share a configuration
        minimum = 0.0 if resource == CPUS and fractional else _MINIMA.get(resource, 0.0)
        shares[resource] = _share_of(resource, value, total, volume, minimum)
        if constraint and resource in total.custom:
            constraints[resource] = constraint
    for resource in (CPUS, MEMORY, SWAP, DISK, *total.custom):
        if resource not in shares:
            minimum = 0.0 if fractional else _COMMON_MINIMA.get(resource, 0.0)
            shares[resource] = _share_of(resource, common_share, total, volume, minimum)
    return SlotType(number, shares, constraints, fractional)


def _parse_common_share(item: str, number: int) -> _Value:
    value = _parse_share(item, number)
    if (value.kind == "amount" and value.value) or (value.kind == "part" and not 0 <= value.value <= 1):
        raise SlotTypeError(
            f'SLOT_TYPE_{number}: "{item}" is not a share of all resources; write a part (25% or 1/4), or name '
            "each resource (c=1, m=25%, s=25%, d=25%)"
        )
    return value


def _full_name(name: str, total: DivisibleResources) -> str | None:
    lower_name = name.lower()
    custom = next((resource for resource in total.custom if resource.lower() == lower_name), None)
    return custom or next((resource for long, resource in _NAMES.items() if long.startswith(lower_name)), None)


def _share_of(resource: str, value: _Value, total: DivisibleResources, volume: str, minimum: float) -> Share:
    if value.kind == "auto":
        return AUTO
    unit = _UNITS.get(resource, 0)
    amount = value.value
    if value.kind in ("part", "minimal"):
        amount *= total.amount_of(resource, volume)
    amount = float(int(amount)) if unit else amount
    if value.kind == "amount" and unit:
        amount *= 1024 ** max(0, value.scale - unit)
    return max(amount, minimum)


# The division


class _Remaining(Struct):
    """The resources left while a machine is being divided, and the number of slots whose share is ``auto``."""

    cpus: float
    amounts: dict[str, float]
    auto_slots: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_total(cls, total: DivisibleResources) -> _Remaining:
        amounts: dict[str, float] = {MEMORY: total.memory, SWAP: total.swap, **total.custom}
        amounts |= {_disk_key(volume): space for volume, space in total.disks.items()}
        return cls(total.cpus, amounts)


def _disk_key(volume: str) -> str:
    return f"{DISK} {volume}"


def _key(resource: str, volume: str) -> str:
    return _disk_key(volume) if resource == DISK else resource


def divide_machine(
    total: DivisibleResources, groups: list[ConfiguredSlots], volumes: Mapping[int, str]
) -> list[SlotAllocation]:
    """Return the slots of a machine in order, numbered from 1. Jobs on slot N use the volume ``volumes[N]``.

    :raises SlotTypeError: if a type is invalid, or the slots need more than the machine has
    """
    remaining, allocations = _Remaining.from_total(total), list[SlotAllocation]()
    for group in groups:
        for _ in range(group.count):
            number = len(allocations) + 1
            type = parse_slot_type(group.number, group.text, total, volumes[number])
            allocation = SlotAllocation(number, type, volumes[number], dict(type.shares))
            _take_fixed_shares(remaining, allocation)
            allocations.append(allocation)
    custom_left = dict(remaining.amounts), dict(remaining.auto_slots)
    for allocation in allocations:
        _set_auto_shares(remaining, allocation, *custom_left)
    return allocations


def _take_fixed_shares(remaining: _Remaining, allocation: SlotAllocation) -> None:
    for resource, amount in allocation.amounts.items():
        key = _key(resource, allocation.volume)
        if amount == AUTO:
            remaining.auto_slots[key] = remaining.auto_slots.get(key, 0) + 1
        elif resource != CPUS:
            if remaining.amounts[key] - amount < _TOLERANCE:
                raise _shortage(allocation, resource, amount, remaining.amounts[key])
            remaining.amounts[key] -= amount
        elif not (allocation.type.fractional and amount < 0.5):
            if int(remaining.cpus - amount) < _TOLERANCE:
                raise _shortage(allocation, resource, amount, remaining.cpus)
            remaining.cpus = int(remaining.cpus - amount)


def _set_auto_shares(
    left: _Remaining, allocation: SlotAllocation, remaining: dict[str, float], auto_slots: dict[str, int]
) -> None:
    """Assign a slot its equal part of what is left. Custom resources are whole, so the first slots may receive one
    more."""
    for resource, amount in allocation.amounts.items():
        if amount != AUTO:
            continue
        key = _key(resource, allocation.volume)
        if resource == CPUS:
            share = left.cpus / left.auto_slots[key]
            if share <= 0 if allocation.type.fractional else share < 1:
                raise _shortage(allocation, resource, 1, left.cpus, left.auto_slots[key])
        elif resource in _UNITS:
            share = left.amounts[key] // left.auto_slots[key]
            if share < 1:
                raise _shortage(allocation, resource, 1, left.amounts[key], left.auto_slots[key])
        else:
            share = 0 if left.amounts[key] < 1 else math.ceil(remaining[key] / auto_slots[key])
            remaining[key] -= share
            auto_slots[key] -= 1
        allocation.amounts[resource] = float(share)


def _shortage(allocation: SlotAllocation, resource: str, needed: float, left: float, slots: int = 0) -> SlotTypeError:
    setting = f"SLOT_TYPE_{allocation.type.number}" if allocation.type.number else "NUM_SLOTS"
    if slots:
        problem = f"{slots} slots share {left:g} of {resource}, but each needs at least {needed:g}"
    else:
        problem = f"it needs {needed:g} of {resource}, but {left:g} is left"
    return SlotTypeError(
        f"{setting}: slot {allocation.number} cannot be made: {problem}; configure less, or fewer slots"
    )
