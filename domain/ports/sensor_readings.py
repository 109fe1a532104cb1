"""The sensor readings of a machine at a given time.

Where possible, a reading is a point in time, such as that of the last key press, because it does not change as time
passes. Policies compute KeyboardIdle from it. The readings contain everything that a decision may need, and are not
part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from ..events import Ad

_NO_LOADS: Mapping[str, float] = MappingProxyType({})
_NO_TEXTS: Mapping[str, str] = MappingProxyType({})
_NO_ADS: Mapping[str, Ad] = MappingProxyType({})


class SlotRecord(Struct, frozen=True):
    """What a STARTD_CRON program printed for some of the machine's slots, such as those with a device."""

    attributes: Ad  #: the attributes to publish, as expressions
    restriction: str = ""  #: the attribute that selects the slots, such as SlotMergeConstraint (empty: all slots)
    value: str = ""  #: its value
    averages: Mapping[str, float] = _NO_LOADS  #: SUM metrics: the use of each resource since the sensors started
    peaks: Mapping[str, float] = _NO_LOADS  #: PEAK metrics: the greatest use of each resource
    slots: tuple[int, ...] = ()  #: SLOTS: the ids of the slots that may have it (empty: all)


class Readings(Struct, frozen=True):
    """The sensor readings of a machine."""

    last_input: int | None = None
    """The last keyboard or mouse input at any terminal or the console, in microseconds (None: none since the machine
    joined)."""
    last_console: int | None = None  #: the last input at the console
    load: float = 0.0  #: the load average of the last minute (TotalLoadAvg)
    condor_load: Mapping[str, float] = _NO_LOADS  #: the load of each slot's job (CondorLoadAvg)
    attributes: Mapping[str, str] = _NO_TEXTS
    """Additional attributes of all slots, as expressions: from STARTD_CRON, and for disk and swap space."""
    slots: Mapping[str, Ad] = _NO_ADS  #: additional attributes of single slots
    records: tuple[SlotRecord, ...] = ()  #: records for some slots; `startd.slot_records` adds them to ``slots``
    backfill_load: float = 0.0  #: the load of the machine's backfill client

    @property
    def pool_load(self) -> float:
        """The load of the pool's processes."""
        return sum(self.condor_load.values()) + self.backfill_load


NOTHING_READ = Readings()
"""The readings of a machine without sensors: no input and no load."""

Sense = Callable[[str], Readings]
"""A function that returns a machine's readings at the time of the decision, given its name."""


def no_readings(machine: str) -> Readings:
    """Return the readings of a machine without sensors."""
    return NOTHING_READ
