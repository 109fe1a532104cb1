"""The slots to which the records of STARTD_CRON programs belong, and the use of devices that monitors measure.

A record applies to the slots of STARTD_CRON_<name>_SLOTS that its SlotMergeConstraint, SlotName (a prefix), SlotTypeID
or SlotID selects. The records of a monitor of devices (STARTD_CRON_<name>_METRICS) are combined for each slot, because
a slot may have several devices. Source: HTCondor's startd_named_classad.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from ..classad import ClassAd, EvaluationError
from ..classad.value_evidence import CALL, names_in
from ..events import Ad
from ..ports.sensor_readings import Readings, SlotRecord
from ..state.caches import parse_cached
from ..state.job_ad import unquoted
from ..state.records import Slot

RESTRICTIONS: Final = ("SlotMergeConstraint", "SlotName", "Name", "SlotTypeID", "SlotID")
"""The attributes by which a record selects slots. The first one that it has applies."""


def with_slot_records(readings: Readings, slots: Iterable[Slot]) -> Readings:
    """Return the readings with the attributes of their records in the slots to which these apply."""
    attributes = dict(readings.slots)
    for slot in slots:
        records = [record for record in readings.records if applies_to(record, slot.name, slot.ad)]
        if records:
            attributes[slot.name] = {**_combined(records), **attributes.get(slot.name, {})}
    return replace(readings, slots=attributes, records=())


def applies_to(record: SlotRecord, name: str, ad: Mapping[str, str]) -> bool:
    """Return True if a record applies to the slot with this name and ad."""
    if record.slots and ad.get("SlotID", "") not in {*map(str, record.slots)}:
        return False
    match record.restriction:
        case "":
            return True
        case "SlotMergeConstraint":
            names = _names_read(record.value)
            return _is_met(record.value, tuple([(key, text) for key, text in ad.items() if key.lower() in names]))
        case "SlotName" | "Name":
            return name.lower().startswith(unquoted(record.value).lower())
        case _:
            return ad.get(record.restriction) == record.value


@lru_cache(1000)
def _names_read(constraint: str) -> frozenset[str]:
    expression = parse_cached(constraint)
    names = () if expression is None else names_in(expression)
    return frozenset(name for scope, name in names if scope != CALL)


@lru_cache(10_000)
def _is_met(constraint: str, values: tuple[tuple[str, str], ...]) -> bool:
    expression = parse_cached(constraint)
    slot = ClassAd()
    for name, text in values:
        if (value := parse_cached(text)) is not None:
            slot[name] = value
    try:
        return expression is not None and expression.evaluate(ClassAd(), slot) is True
    except EvaluationError:
        return False


def _combined(records: Iterable[SlotRecord]) -> Ad:
    """Return the attributes that these records publish in a slot."""
    attributes: Ad = {}
    averages: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for record in records:
        attributes |= record.attributes
        for resource, average in record.averages.items():
            averages[resource] = averages.get(resource, 0.0) + average
        for resource, peak in record.peaks.items():
            peaks[resource] = max(peaks.get(resource, 0.0), peak)
    attributes |= {f"Device{resource}AverageUsage": repr(round(value, 4)) for resource, value in averages.items()}
    return attributes | {f"Device{resource}PeakUsage": repr(value) for resource, value in peaks.items()}
