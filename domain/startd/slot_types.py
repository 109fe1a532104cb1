"""Read slot types, and divide a machine into slots by them.

A slot type gives for each resource the share of one slot: an amount, a part of the whole (a fraction or a percentage),
or ``auto``: an equal part of what the others leave. Source: the manual, "Dividing System Resources in Multi-core
Machines"; the rounding is the startd's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct, field

from ..errors import PoolbookError

Share = float | Literal["auto"]
"""An amount; ``auto``: an equal part of what is left."""
AUTO: Final = "auto"

CPUS, MEMORY, DISK, SWAP = "Cpus", "Memory", "Disk", "Swap"
_NAMES: Final = {"cpus": CPUS, "ram": MEMORY, "memory": MEMORY, "swap": SWAP, "virtualmemory": SWAP, "disk": DISK}
"""The names of a resource in a slot type; any beginning of one will do."""
_LEAST: Final = {CPUS: 1.0, MEMORY: 1.0, DISK: 1024.0, SWAP: 0.0}
"""The least that a slot with a share or an amount gets: cores, MiB, KiB, KiB."""
_LEAST_BY_DEFAULT: Final = {CPUS: 1.0, MEMORY: 1.0, DISK: 0.0, SWAP: 0.0}
"""The same, where the share is the type's blanket value."""
_UNIT: Final = {MEMORY: 2, DISK: 1, SWAP: 1}
"""The power of 1024 bytes in which the resource is counted."""
_SUFFIXES: Final = "kmgtp"
_MINIMAL: Final = 1 / 128
"""The share of a blanket ``minimal``."""
_ENOUGH: Final = -0.000001


class SlotTypeError(PoolbookError, ValueError):
    """The slots cannot be made: the type, the error, the way out."""


class Whole(Struct, frozen=True):
    cpus: float
    memory: int
    """MiB."""
    swap: int
    """KiB of virtual memory."""
    disks: Mapping[str, int]
    """KiB of each volume on which jobs run."""
    custom: Mapping[str, float] = field(default_factory=dict)

    def of(self, resource: str, volume: str) -> float:
        standard: dict[str, float] = {CPUS: self.cpus, MEMORY: self.memory, SWAP: self.swap}
        if resource == DISK:
            return self.disks[volume]
        return standard[resource] if resource in standard else self.custom[resource]


class SlotType(Struct, frozen=True):
    """The share of one slot of each resource. ``constraints`` choose the things of a custom resource; a ``fractional``
    slot may have less than a core."""

    number: int
    shares: Mapping[str, Share]
    constraints: Mapping[str, str]
    fractional: bool = False


class ConfiguredSlots(Struct, frozen=True):
    """The configured slots of a type: ``count`` of the type ``number`` with the definition ``text``."""

    number: int
    text: str
    count: int


class Cut(Struct):
    """The resources of one slot. ``number`` counts a machine's slots from 1."""

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
    """``kind``: auto, minimal, part or amount."""

    kind: str
    value: float = 0.0
    scale: int = 0


_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)", re.DOTALL)


def _number(text: str) -> tuple[float, str]:
    """Return the number at the beginning of a text (0 if there is none) and the rest."""
    found = _NUMBER.match(text)
    return (float(found[1]), found[2]) if found else (0.0, text.strip())


def _value(text: str, number: int) -> _Value:
    lower = text.lower()
    if lower in ("auto", "automatic"):
        return _Value("auto")
    if lower in ("min", "minimal"):
        return _Value("minimal", _MINIMAL)
    amount, rest = _number(text)
    if "%" in text:
        return _Value("part", amount / 100)
    if "/" in text:
        below, _ = _number(text.partition("/")[2])
        if below <= 0:
            raise SlotTypeError(f"SLOT_TYPE_{number}: {text} is no fraction: write one such as 1/4")
        return _Value("part", amount / below)
    if not _NUMBER.match(text) or amount < 0 or (rest and rest[0].lower() not in _SUFFIXES):
        raise SlotTypeError(
            f"SLOT_TYPE_{number}: {text} is no share of a resource: write a number (64, 2g), a fraction (1/4), "
            "a percentage (25%) or auto"
        )
    return _Value("amount", amount, _SUFFIXES.index(rest[0].lower()) + 1 if rest else 0)


def _share(value: _Value, whole: float, least: float, unit: int, integer: bool) -> Share:
    if value.kind == "auto":
        return AUTO
    found = value.value * whole if value.kind in ("part", "minimal") else value.value
    found = float(int(found)) if integer else found
    if value.kind == "amount":
        found *= 1024 ** max(0, value.scale - unit) if unit else 1
    return max(found, least)


# One type: cpus=2, ram=128, swap=25%, disk=1/2


def _items(text: str) -> list[str]:
    """Return the items of a slot type, parted by lines if it has several, else by commas if any, else by blanks."""
    if "\n" in text:
        parts = text.split("\n")
    elif "," in text:
        parts = re.split(r"[,\r]", text)
    else:
        parts = text.split()
    return [part.strip() for part in parts if part.strip()]


def slot_type(number: int, text: str, whole: Whole, volume: str) -> SlotType:
    """Return the slot type of a text, with its shares of ``whole``.

    :raises SlotTypeError: an item is no share, or no resource of the machine
    """
    blanket, fractional = _Value("auto"), False
    shares: dict[str, Share] = {}
    constraints: dict[str, str] = {}
    for item in _items(text):
        name, equals, said = (part.strip() for part in item.partition("="))
        if not equals:
            blanket = _blanket(item, number)
            fractional = fractional or blanket.kind == "minimal"
            continue
        said, _, constraint = (part.strip() for part in said.partition(":"))
        if not said:
            raise SlotTypeError(f"SLOT_TYPE_{number}: {item}: nothing is behind the equals sign")
        value = _value(said, number)
        resource = _resource(name, whole)
        if resource is None:
            if value.kind == "amount" and value.value > 0:
                known = ", ".join((CPUS, MEMORY, DISK, SWAP, *whole.custom))
                raise SlotTypeError(
                    f"SLOT_TYPE_{number}: {name} is no resource of this machine, which has {known}: define it with "
                    f"MACHINE_RESOURCE_{name}"
                )
            continue  # so that machines with and without a resource can share a configuration
        least = 0.0 if resource == CPUS and fractional else _LEAST.get(resource, 0.0)
        shares[resource] = _share_of(resource, value, whole, volume, least)
        if constraint and resource in whole.custom:
            constraints[resource] = constraint
    for resource in (CPUS, MEMORY, SWAP, DISK, *whole.custom):
        if resource not in shares:
            least = 0.0 if fractional else _LEAST_BY_DEFAULT.get(resource, 0.0)
            shares[resource] = _share_of(resource, blanket, whole, volume, least)
    return SlotType(number, shares, constraints, fractional)


def _blanket(item: str, number: int) -> _Value:
    value = _value(item, number)
    if (value.kind == "amount" and value.value) or (value.kind == "part" and not 0 <= value.value <= 1):
        raise SlotTypeError(
            f'SLOT_TYPE_{number}: "{item}" says nothing of which resource it is: write a percentage (25%) or a '
            "fraction (1/4) for all of them, or name each (c=1, m=25%, s=25%, d=25%)"
        )
    return value


def _resource(name: str, whole: Whole) -> str | None:
    lower = name.lower()
    custom = next((known for known in whole.custom if known.lower() == lower), None)
    return custom or next((resource for long, resource in _NAMES.items() if long.startswith(lower)), None)


def _share_of(resource: str, value: _Value, whole: Whole, volume: str, least: float) -> Share:
    unit = _UNIT.get(resource, 0)
    return _share(value, whole.of(resource, volume), least, unit, integer=resource in _UNIT)


# The division


class _Left(Struct):
    """The rest of a machine while it is divided, and the number of slots that wait for an equal part of it."""

    cpus: float
    amounts: dict[str, float]
    waiting: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, whole: Whole) -> _Left:
        amounts: dict[str, float] = {MEMORY: whole.memory, SWAP: whole.swap, **whole.custom}
        amounts |= {_disk(volume): space for volume, space in whole.disks.items()}
        return cls(whole.cpus, amounts)


def _disk(volume: str) -> str:
    return f"{DISK} {volume}"


def _key(resource: str, volume: str) -> str:
    return _disk(volume) if resource == DISK else resource


def divide(whole: Whole, wanted: list[ConfiguredSlots], volumes: Mapping[int, str]) -> list[Cut]:
    """Return the slots of a machine: all of the types ``wanted`` in order, numbered from 1. Slot N's jobs run on the
    volume ``volumes[N]``.

    :raises SlotTypeError: a type is wrong, or the slots need more than the machine has
    """
    left, cuts = _Left.of(whole), list[Cut]()
    for one in wanted:
        for _ in range(one.count):
            number = len(cuts) + 1
            type = slot_type(one.number, one.text, whole, volumes[number])
            cut = Cut(number, type, volumes[number], dict(type.shares))
            _take(left, cut)
            cuts.append(cut)
    remains = dict(left.amounts), dict(left.waiting)
    for cut in cuts:
        _give_equal_parts(left, cut, *remains)
    return cuts


def _take(left: _Left, cut: Cut) -> None:
    for resource, amount in cut.amounts.items():
        key = _key(resource, cut.volume)
        if amount == AUTO:
            left.waiting[key] = left.waiting.get(key, 0) + 1
        elif resource != CPUS:
            if left.amounts[key] - amount < _ENOUGH:
                raise _short(cut, resource, amount, left.amounts[key])
            left.amounts[key] -= amount
        elif not (cut.type.fractional and amount < 0.5):
            if int(left.cpus - amount) < _ENOUGH:
                raise _short(cut, resource, amount, left.cpus)
            left.cpus = int(left.cpus - amount)


def _give_equal_parts(left: _Left, cut: Cut, remains: dict[str, float], waiting: dict[str, int]) -> None:
    """Give a slot its part of what is left. Custom resources are whole things: the first slots get one more."""
    for resource, amount in cut.amounts.items():
        if amount != AUTO:
            continue
        key = _key(resource, cut.volume)
        if resource == CPUS:
            part = left.cpus / left.waiting[key]
            if part <= 0 if cut.type.fractional else part < 1:
                raise _short(cut, resource, 1, left.cpus, left.waiting[key])
        elif resource in _UNIT:
            part = left.amounts[key] // left.waiting[key]
            if part < 1:
                raise _short(cut, resource, 1, left.amounts[key], left.waiting[key])
        else:
            part = 0 if left.amounts[key] < 1 else math.ceil(remains[key] / waiting[key])
            remains[key] -= part
            waiting[key] -= 1
        cut.amounts[resource] = float(part)


def _short(cut: Cut, resource: str, wanted: float, left: float, among: int = 0) -> SlotTypeError:
    name, setting = f"slot {cut.number}", f"SLOT_TYPE_{cut.type.number}" if cut.type.number else "NUM_SLOTS"
    if among:
        of = f"{among} slots are too many for what is left of {resource}, {left:g}: each needs {wanted:g} at least"
    else:
        of = f"it is to have {wanted:g} of {resource}, and {left:g} is left"
    return SlotTypeError(f"{setting}: {name} cannot be made: {of}; ask for less, or for fewer slots")
