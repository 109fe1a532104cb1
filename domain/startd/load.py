"""Divide a machine's load average among its slots.

A job's load is assigned to its slot. The backfill client's load is divided among the slots in Backfill in proportion to
their cores. The remaining load is the owner's: each slot is assigned 1.0, first slots in Owner, then slots in
Unclaimed, then the others; this is repeated while load is left. With ``Dialect.shares_load_by_cores``, each slot is
instead assigned at most its number of cores, and excess load is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from ..ports.sensor_readings import Readings
from ..state.caches import Caches
from ..state.records import Slot
from ..state.state import ExecutionPoint

LOAD_STEP = 1.0
"""The load that is assigned to a slot at a time, unless load is shared by cores."""
_EXCESS = 0.05
"""The dynamic slots of a partitionable slot share its load only if that load exceeds its free cores by this much."""
_ORDER = {"Owner": 0, "Unclaimed": 1}
"""The order in which slots are assigned the owner's load, by state. Slots in other states follow."""


class LoadedSlot(Struct, frozen=True):
    name: str
    state: str
    cpus: float
    free: float
    """The cores that are not used by dynamic slots."""
    parent: str = ""


class Load(Struct, frozen=True):
    """LoadAvg and CondorLoadAvg of one slot."""

    load: float
    condor: float


def divide_owner_load(owner_load: float, slots: Sequence[LoadedSlot], by_cores: bool) -> dict[str, float]:
    """Return the owner's load on each slot, by name. ``slots`` are in slot order, dynamic slots after their parent."""
    by_priority = sorted(slots, key=lambda slot: _ORDER.get(slot.state, len(_ORDER)))
    return _divide_by_cores(owner_load, by_priority, slots) if by_cores else _divide_by_steps(owner_load, by_priority)


def _divide_by_steps(remaining_load: float, by_priority: Sequence[LoadedSlot]) -> dict[str, float]:
    if not by_priority:
        return {}
    common_load = LOAD_STEP * (remaining_load // (LOAD_STEP * len(by_priority)))
    remaining_load -= common_load * len(by_priority)
    loads = {}
    for slot in by_priority:
        loads[slot.name] = common_load + min(remaining_load, LOAD_STEP)
        remaining_load -= min(remaining_load, LOAD_STEP)
    return loads


def _divide_by_cores(
    remaining_load: float, by_priority: Sequence[LoadedSlot], slots: Sequence[LoadedSlot]
) -> dict[str, float]:
    loads: dict[str, float] = {}
    for slot in by_priority:
        if not slot.parent:
            loads[slot.name] = min(remaining_load, slot.cpus)
            remaining_load -= loads[slot.name]
    free_cores = {slot.name: slot.free for slot in slots}
    for slot in slots:
        if slot.parent:
            excess_load = loads.get(slot.parent, 0.0) - free_cores.get(slot.parent, 0.0)
            loads[slot.name] = min(excess_load, slot.cpus) if excess_load > _EXCESS else 0.0
            if slot.parent in loads:
                loads[slot.parent] -= loads[slot.name]
    return loads


def slot_load(state: ExecutionPoint, slot: Slot, readings: Readings, caches: Caches) -> Load:
    """Return a slot's load, rounded to hundredths, from its machine's ``readings``."""
    if not readings.load and not readings.condor_load and not readings.backfill_load:
        return _NO_LOAD
    shares = _slot_loads(state, slot.machine, readings, caches)
    if slot.name not in shares.owner:
        return _NO_LOAD
    condor = readings.condor_load.get(slot.name, 0.0) + shares.client.get(slot.name, 0.0)
    return Load(round(shares.owner[slot.name] + condor, 2), round(condor, 2))


_NO_LOAD: Final = Load(0.0, 0.0)


class _CachedSlot(NamedTuple):
    """A slot and its sort key, cached until the slot's ad or state changes."""

    order: tuple[float, float]
    version: int
    slot: LoadedSlot


class _SlotLoads(NamedTuple):
    """The loads of a machine's slots by name, and the log position and readings from which they were computed."""

    position: int
    readings: Readings
    slots: dict[str, _CachedSlot]
    owner: dict[str, float]
    client: dict[str, float]


class _SlotLoadsByMachine(dict[str, _SlotLoads]): ...


def _slot_loads(state: ExecutionPoint, machine: str, readings: Readings, caches: Caches) -> _SlotLoads:
    """Return the loads of a machine's slots, cached until the next event or reading."""
    cache = caches.get(_SlotLoadsByMachine)
    shares = cache.get(machine)
    if shares is None or shares.position != state.position or shares.readings is not readings:
        slots = state.machines[machine].slots.values() if machine in state.machines else ()
        cached_slots = _cached_slots(slots, {} if shares is None else shares.slots)
        if shares is not None and shares.readings is readings and cached_slots == shares.slots:
            shares = cache[machine] = shares._replace(position=state.position)
            return shares  # most events change no slot's load
        ordered = [cached.slot for cached in sorted(cached_slots.values(), key=lambda cached: cached.order)]
        owner_load = max(0.0, readings.load - readings.pool_load)
        owner = divide_owner_load(owner_load, ordered, state.dialect.shares_load_by_cores)
        shares = _SlotLoads(
            state.position, readings, cached_slots, owner, _client_loads(readings.backfill_load, ordered)
        )
        cache[machine] = shares
    return shares


def _client_loads(load: float, slots: Sequence[LoadedSlot]) -> dict[str, float]:
    cores = {slot.name: slot.free for slot in slots if slot.state == "Backfill"}
    total = sum(cores.values())
    return {name: load * free / total for name, free in cores.items()} if total else {}


def _cached_slots(slots: Iterable[Slot], cached: Mapping[str, _CachedSlot]) -> dict[str, _CachedSlot]:
    entries = {}
    for slot in slots:
        name, state = slot.name, slot.state
        entry = cached.get(name)
        if entry is None or entry.version != slot.version or entry.slot.state != state:
            cpus, free_cores = _number(slot, "TotalSlotCpus", "Cpus"), _number(slot, "Cpus")
            order = _number(slot, "SlotID"), _number(slot, "DSlotId")
            entry = _CachedSlot(order, slot.version, LoadedSlot(name, state, cpus, free_cores, slot.parent))
        entries[name] = entry
    return entries


def _number(slot: Slot, *names: str) -> float:
    for name in names:
        try:
            return float(slot.ad[name])
        except (KeyError, ValueError):
            continue
    return 0.0
