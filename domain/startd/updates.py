"""Publish changed sensor readings of a slot: when its state or activity changes, or else once per UPDATE_INTERVAL.

The policy reads the sensors directly, but the negotiator, ``poolbook status`` and an audit read only published readings
from the log. These are the load, the time of the last input, and those attributes from the owner's sensors that the
slot's expressions read. The load of the machine is published only for its first slot; ``public_ad`` shows it in the ads
of all slots. (KeyboardIdle is published as ``time() - <last input>``, because this text does not change with time.)
Further attributes are published before the first cycle with a job that reads them, and regularly from then on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..decision.draft import Draft
from ..events import Ad, SlotAdChanged
from ..ports import stimuli as s
from ..ports.messages import CheckSensors, PublishReadings
from ..ports.sensor_readings import NOTHING_READ, Readings
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .dynamic_attributes import DYNAMIC_ATTRIBUTES, MACHINE_LOADS, SlotSnapshot, first_slot, last_input
from .evaluation import PolicyEvaluation
from .slot_policy_evaluation import policy_of
from .startd_settings import duration


def next_update(policy: PolicyEvaluation) -> int | None:
    """Return when the slot publishes its changed readings, or None if nothing has changed."""
    if not changed_readings(policy):
        return None
    joined, interval = _update_schedule(policy)
    return max(policy.now, joined + _update_number(policy, policy.slot.published) * interval + interval)


def due_readings(policy: PolicyEvaluation) -> Ad:
    """Return the changed readings; none if the slot has already published in this UPDATE_INTERVAL."""
    is_due = _update_number(policy, policy.now) > _update_number(policy, policy.slot.published)
    return changed_readings(policy) if is_due else {}


def _update_schedule(policy: PolicyEvaluation) -> tuple[int, int]:
    """Return the start and the interval of the updates by the slot's machine."""
    machine = policy.state.machines.get(policy.slot.machine)
    return (machine.joined if machine else 0), max(1, duration(policy.state, machine, "UPDATE_INTERVAL"))


def _update_number(policy: PolicyEvaluation, instant: int) -> int:
    """Return the number of the UPDATE_INTERVAL that contains the given time; -1 before the first interval."""
    joined, interval = _update_schedule(policy)
    return (instant - joined) // interval if instant >= joined else -1


def _sensed_names(readings: Readings, slot: str) -> frozenset[str]:
    slot_readings = readings.slots.get(slot, {})
    return _ALWAYS.union(name.lower() for source in (readings.attributes, slot_readings) for name in source)


def changed_readings(policy: PolicyEvaluation, also: frozenset[str] = frozenset()) -> Ad:
    """Return the readings that differ from the published ones (an empty text removes an attribute), including the
    attributes in ``also`` (lower case)."""
    snapshot = policy.snapshot()
    published = policy.slot.published_ad
    # A command that opens the log only briefly reads no sensors, and therefore changes nothing.
    if snapshot.readings is NOTHING_READ or (not published and snapshot.readings == NOTHING_READ):
        return {}
    names = policy.compiled.form.names
    published_names = frozenset(name.lower() for name in published)
    shown = _ALWAYS if first_slot(policy.state, policy.slot) is policy.slot else _ALWAYS - MACHINE_LOADS
    current = dict(_current_readings(snapshot, None if names is None else names | shown | published_names | also))
    changes = {name: text for name, text in current.items() if published.get(name) != text}
    return changes | {name: "" for name in published if name not in current}


def _current_readings(snapshot: SlotSnapshot, names: frozenset[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the sensors' values for the attributes in ``names`` (lower case, or None for all)."""
    for key, name in _LOADS.items():
        if names is None or key in names:
            yield name, repr(round(float(DYNAMIC_ATTRIBUTES[key][1](snapshot)), 2))
    for key, (name, console) in _IDLES.items():
        if names is None or key in names:
            yield name, f"time() - {last_input(snapshot, console)}"
    for source in (snapshot.readings.attributes, snapshot.readings.slots.get(snapshot.slot.name, {})):
        for name, text in source.items():
            if names is None or name.lower() in names or _DEVICE_USE.fullmatch(name.lower()):
                yield name, text


class _LastCycle:
    """The attributes that the last cycle read, and each machine's readings at that time."""

    names: frozenset[str] | None = None
    readings: dict[str, Readings]


def has_sensor_readings(draft: Draft[ExecutionPoint], message: CheckSensors) -> bool:
    return any(draft.sense(name) is not NOTHING_READ for name in draft.state.machines)


def publish_for_cycle(draft: Draft[ExecutionPoint], message: PublishReadings) -> None:
    """Publish sensor readings that a cycle may read and that were not published yet. Skip a machine if its readings,
    its slots and the attributes that cycles read have not changed since the last cycle."""
    last = draft.caches.get(_LastCycle)
    if last.names != message.names:
        last.names, last.readings = message.names, {}
    for name, machine in draft.state.machines.items():
        readings = draft.sense(name)
        if readings is not NOTHING_READ and (name in message.touched or last.readings.get(name) is not readings):
            last.readings[name] = readings
            for slot in machine.slots.values():
                names = _sensed_names(readings, slot.name) & message.names
                if not names <= {key.lower() for key in slot.published_ad}:
                    publish(draft, slot, changed_readings(policy_of(draft, slot), names))


def publish_report(draft: Draft[ExecutionPoint], stimulus: s.SensorsReported) -> None:
    """Publish readings that a sensor wants to be published at once (STARTD_CRON_AUTOPUBLISH)."""
    machine = draft.state.machines.get(stimulus.machine)
    for slot in machine.slots.values() if machine is not None else ():
        publish(draft, slot, changed_readings(policy_of(draft, slot), stimulus.names))


def publish(draft: Draft[ExecutionPoint], slot: Slot, changes: Ad) -> None:
    """Record changed sensor readings of a slot, if there are any."""
    if changes:
        draft.emit(SlotAdChanged(*draft.header("published"), slot.name, changes))


_LOADS = {name.lower(): name for name in ("LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg")}
_IDLES = {"keyboardidle": ("KeyboardIdle", False), "consoleidle": ("ConsoleIdle", True)}
_DEVICE_USE = re.compile("(device.+(average|peak)|.+memory|.+average)usage")
"""The measured use of devices, which is always published."""
_ALWAYS = frozenset(_LOADS) | frozenset(_IDLES)
"""The attributes of all slots that the machine's sensors measure."""
