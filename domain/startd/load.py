"""Share out the load of a machine over its slots.

The load of a slot's own job belongs to that slot, that of the backfill client to the slots in Backfill, by their cores.
The rest is the owner's: it goes to slots in Owner first, then to those in Unclaimed, then to the others. One slot takes
at most 1.0 at a time, and when each has that, those in use included, the turns begin anew. Or a slot takes as much as
it has cores, and the rest belongs to nobody (``Dialect.shares_load_by_cores``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from ..ports.sensor_readings import Readings
from ..state.caches import Caches
from ..state.records import Slot
from ..state.state import ExecutionPoint

STEP = 1.0
"""The share of one turn, where slots do not take by their cores."""
_EXCESS = 0.05
"""The cores beyond its free ones that a partitionable slot must have before its dynamic slots get load of it."""
_TURNS = ("Owner", "Unclaimed")
"""The states whose slots are served before all others."""


class LoadedSlot(Struct, frozen=True):
    name: str
    state: str
    cpus: float
    free: float
    """Cores that are not in dynamic slots."""
    parent: str = ""


class Load(Struct, frozen=True):
    """LoadAvg and CondorLoadAvg of one slot."""

    load: float
    condor: float


def distribute(owner_load: float, places: Sequence[LoadedSlot], by_cores: bool) -> dict[str, float]:
    """Return the owner's load on each slot, by name. ``places`` are in slot order, dynamic ones behind their parent."""
    turn = _in_turn(places)
    return _by_cores(owner_load, turn, places) if by_cores else _by_steps(owner_load, turn)


def _in_turn(places: Sequence[LoadedSlot]) -> list[LoadedSlot]:
    return sorted(places, key=lambda place: _TURNS.index(place.state) if place.state in _TURNS else len(_TURNS))


def _by_steps(left: float, turn: Sequence[LoadedSlot]) -> dict[str, float]:
    if not turn:
        return {}
    everyone = STEP * (left // (STEP * len(turn)))  # the turns in which each slot takes a whole step
    left -= everyone * len(turn)
    given = {}
    for place in turn:
        given[place.name] = everyone + min(left, STEP)
        left -= min(left, STEP)
    return given


def _by_cores(left: float, turn: Sequence[LoadedSlot], places: Sequence[LoadedSlot]) -> dict[str, float]:
    given: dict[str, float] = {}
    for place in turn:
        if not place.parent:
            given[place.name] = min(left, place.cpus)
            left -= given[place.name]
    free = {place.name: place.free for place in places}
    for place in places:
        if place.parent:
            excess = given.get(place.parent, 0.0) - free.get(place.parent, 0.0)
            given[place.name] = min(excess, place.cpus) if excess > _EXCESS else 0.0
            if place.parent in given:
                given[place.parent] -= given[place.name]
    return given


def load_of(state: ExecutionPoint, slot: Slot, readings: Readings, caches: Caches) -> Load:
    """Return the load of a slot under its machine's ``readings``, in hundredths as the ads have it."""
    if not readings.load and not readings.condor_load and not readings.backfill_load:
        return _NO_LOAD
    shares = _shares(state, slot.machine, readings, caches)
    if slot.name not in shares.owner:
        return _NO_LOAD
    condor = readings.condor_load.get(slot.name, 0.0) + shares.client.get(slot.name, 0.0)
    return Load(round(shares.owner[slot.name] + condor, 2), round(condor, 2))


_NO_LOAD: Final = Load(0.0, 0.0)


class _SlotPlace(NamedTuple):
    """A slot's place among those of its machine, kept until its ad or its state changes."""

    order: tuple[float, float]
    version: int
    slot: LoadedSlot


class _Shares(NamedTuple):
    """The shares of a machine's slots by their names, and the position and readings that they hold for."""

    position: int
    readings: Readings
    places: dict[str, _SlotPlace]
    owner: dict[str, float]
    client: dict[str, float]


class _Kept(dict[str, _Shares]):
    """By the machines' names."""


def _shares(state: ExecutionPoint, machine: str, readings: Readings, caches: Caches) -> _Shares:
    """Return the shares of a machine's slots, kept until an event or another reading."""
    kept = caches.of(_Kept)
    known = kept.get(machine)
    if known is None or known.position != state.position or known.readings is not readings:
        slots = state.machines[machine].slots.values() if machine in state.machines else ()
        places = _places(slots, {} if known is None else known.places)
        order = [place.slot for place in sorted(places.values(), key=lambda place: place.order)]
        left = max(0.0, readings.load - readings.pool_load)
        owner = distribute(left, order, state.dialect.shares_load_by_cores)
        known = _Shares(state.position, readings, places, owner, _of_client(readings.backfill_load, order))
        kept[machine] = known
    return known


def _of_client(load: float, places: Sequence[LoadedSlot]) -> dict[str, float]:
    """Return the backfill client's load on each slot that it may use."""
    theirs = {place.name: place.free for place in places if place.state == "Backfill"}
    cores = sum(theirs.values())
    return {name: load * free / cores for name, free in theirs.items()} if cores else {}


def _places(slots: Iterable[Slot], known: Mapping[str, _SlotPlace]) -> dict[str, _SlotPlace]:
    """Return the places of these slots; of those that are ``known``, what still holds."""
    found = {}
    for slot in slots:
        name, state = slot.name, slot.state
        place = known.get(name)
        if place is None or place.version != slot.version or place.slot.state != state:
            cpus, free = _number(slot, "TotalSlotCpus", "Cpus"), _number(slot, "Cpus")
            order = _number(slot, "SlotID"), _number(slot, "DSlotId")
            place = _SlotPlace(order, slot.version, LoadedSlot(name, state, cpus, free, slot.parent))
        found[name] = place
    return found


def _number(slot: Slot, *names: str) -> float:
    for name in names:
        try:
            return float(slot.ad[name])
        except (KeyError, ValueError):
            continue
    return 0.0
