"""Publish a slot's sensor readings: when its state or activity changes, else at most once in UPDATE_INTERVAL, and only
changes.

The policy reads the sensors themselves. Readers of the log (the negotiator, ``poolbook status``, an audit) see what was
published: the load, the instant of the last input (KeyboardIdle as ``time() - <instant>``, so that time passing is no
change), and the readings of the owner's own sensors that the slot's expressions read. Attributes that a job reads
besides are published before the cycle that first sees it, and from then on like the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..decision.draft import Draft
from ..events import Ad, SlotAdChanged
from ..ports.messages import PublishReadings, SensorsSay
from ..ports.sensor_readings import NOTHING_READ, Readings
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .evaluation import PolicyEvaluation
from .moment_attributes import DYNAMIC_ATTRIBUTES, SlotSnapshot, last_input
from .slot_policy_evaluation import policy_of
from .startd_settings import duration


def next_update(policy: PolicyEvaluation) -> int | None:
    """Return when the slot publishes next, if nothing else changes; None if there are no changes."""
    if not changed_readings(policy):
        return None
    joined, apart = _updates(policy)
    return max(policy.now, joined + _turn(policy, policy.slot.published) * apart + apart)


def due_readings(policy: PolicyEvaluation) -> Ad:
    """Return the changes, unless the slot has published in this UPDATE_INTERVAL already."""
    return changed_readings(policy) if _turn(policy, policy.now) > _turn(policy, policy.slot.published) else {}


def _updates(policy: PolicyEvaluation) -> tuple[int, int]:
    """Return when the updates of the slot's machine began, and their interval."""
    machine = policy.state.machines.get(policy.slot.machine)
    return (machine.joined if machine else 0), max(1, duration(policy.state, machine, "UPDATE_INTERVAL"))


def _turn(policy: PolicyEvaluation, at: int) -> int:
    """Return the number of the UPDATE_INTERVAL of an instant; -1 for one before the first."""
    joined, apart = _updates(policy)
    return (at - joined) // apart if at >= joined else -1


def names_sensed(readings: Readings, slot: str) -> frozenset[str]:
    """Return the attributes of a slot, in small letters, that a machine's sensors tell."""
    own = readings.slots.get(slot, {})
    return _ALWAYS.union(name.lower() for source in (readings.attributes, own) for name in source)


def changed_readings(policy: PolicyEvaluation, also: frozenset[str] = frozenset()) -> Ad:
    """Return what would be published now: the attributes that differ from the last published (an empty text: removed),
    and those of ``also``, in small letters."""
    here = policy.snapshot()
    before = policy.slot.public
    # A command that writes the log for a moment asks no sensor: the published readings stand.
    if here.readings is NOTHING_READ or (not before and here.readings == NOTHING_READ):
        return {}
    names = policy.compiled.names
    known = frozenset(name.lower() for name in before)
    said = dict(_said(here, None if names is None else names | _SHOWN | known | also))
    changes = {name: text for name, text in said.items() if before.get(name) != text}
    return changes | {name: "" for name in before if name not in said}


def _said(here: SlotSnapshot, wanted: frozenset[str] | None) -> Iterator[tuple[str, str]]:
    """Yield the sensors' values of these attributes, in small letters; None: all."""
    for key, name in _LOADS.items():
        if wanted is None or key in wanted:
            yield name, repr(round(float(DYNAMIC_ATTRIBUTES[key][1](here)), 2))
    for key, (name, console) in _IDLES.items():
        if wanted is None or key in wanted:
            yield name, f"time() - {last_input(here, console)}"
    for source in (here.readings.attributes, here.readings.slots.get(here.slot.name, {})):
        for name, text in source.items():
            if wanted is None or name.lower() in wanted:
                yield name, text


class _Asked:
    """What was asked of the machines' sensors last for a cycle: ``read`` are the attributes that cycles read,
    ``readings`` what each machine said."""

    read: frozenset[str] | None = None
    readings: dict[str, Readings]


def sensors_say(draft: Draft[ExecutionPoint], message: SensorsSay) -> bool:
    return any(draft.sense(name) is not NOTHING_READ for name in draft.state.machines)


def publish_for_cycle(draft: Draft[ExecutionPoint], message: PublishReadings) -> None:
    """Publish what a cycle may read of the machines' sensors, and nobody has read before. A machine is looked at again
    when its readings are others, or one of its slots, or when more is read."""
    known = draft.caches.of(_Asked)
    if known.read != message.names:
        known.read, known.readings = message.names, {}
    for name, machine in draft.state.machines.items():
        said = draft.sense(name)
        if said is not NOTHING_READ and (name in message.touched or known.readings.get(name) is not said):
            known.readings[name] = said
            for slot in machine.slots.values():
                _publish_news(draft, slot, names_sensed(said, slot.name) & message.names)


def _publish_news(draft: Draft[ExecutionPoint], slot: Slot, wanted: frozenset[str]) -> None:
    """Publish what is new of the slot, if anything of this was never published."""
    if not wanted <= {name.lower() for name in slot.public}:
        changes = changed_readings(policy_of(draft, slot), wanted)
        if changes:
            draft.emit(SlotAdChanged(*draft.why("published"), slot.name, changes))


_LOADS = {name.lower(): name for name in ("LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg")}
_IDLES = {"keyboardidle": ("KeyboardIdle", False), "consoleidle": ("ConsoleIdle", True)}
_SHOWN = frozenset({"loadavg", "condorloadavg", "keyboardidle"})
"""The attributes that ``status`` shows."""
_ALWAYS = frozenset(_LOADS) | frozenset(_IDLES)
