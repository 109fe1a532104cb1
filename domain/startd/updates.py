"""What a slot tells the pool of its machine's sensors: when its state or activity changes, else at most once in
UPDATE_INTERVAL, and only what has changed.

The policy asks the sensors themselves. Whoever reads the log (the negotiator, ``poolbook status``, an audit) sees what
was published: the load, the instant of the last input (KeyboardIdle as ``time() - <instant>``, so that time passing is
no news), and what the owner's own sensors say of attributes that the slot's expressions read. What a job asks for
besides is published before the cycle that sees it first, and from then on as the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..events import Ad
from ..ports.sensor_readings import NOTHING_READ, Readings
from .evaluation import PolicyEvaluation
from .settings import duration
from .slot_ad import DYNAMIC_ATTRIBUTES, SlotSnapshot, compiled_ad, last_input


def next_update(policy: PolicyEvaluation) -> int | None:
    """Return when the slot publishes next, if nothing changes meanwhile: None if there is no news."""
    if not changed_readings(policy):
        return None
    joined, apart = _updates(policy)
    return max(policy.now, joined + _turn(policy, policy.slot.published) * apart + apart)


def due_readings(policy: PolicyEvaluation) -> Ad:
    """The news, unless the slot has published in this UPDATE_INTERVAL already."""
    return changed_readings(policy) if _turn(policy, policy.now) > _turn(policy, policy.slot.published) else {}


def _updates(policy: PolicyEvaluation) -> tuple[int, int]:
    """Return when the updates of the slot's machine began, and how far they are apart."""
    machine = policy.state.machines.get(policy.slot.machine)
    return (machine.joined if machine else 0), max(1, duration(policy.state, machine, "UPDATE_INTERVAL"))


def _turn(policy: PolicyEvaluation, at: int) -> int:
    """Return the number of the UPDATE_INTERVAL in which an instant lies; -1 for what never was."""
    joined, apart = _updates(policy)
    return (at - joined) // apart if at >= joined else -1


def names_sensed(readings: Readings, slot: str) -> frozenset[str]:
    """Return the attributes of a slot, in small letters, that a machine's sensors tell."""
    own = readings.slots.get(slot, {})
    return _ALWAYS.union(name.lower() for source in (readings.attributes, own) for name in source)


def changed_readings(policy: PolicyEvaluation, also: frozenset[str] = frozenset()) -> Ad:
    """What would be published now: the attributes that differ from what was published last (an empty text: gone), and
    those of ``also``, in small letters."""
    here = policy.snapshot()
    before = policy.slot.public
    # A command that writes the log for a moment asks no sensor: what was published stands.
    if here.readings is NOTHING_READ or (not before and here.readings == NOTHING_READ):
        return {}
    names = compiled_ad(policy.state, policy.slot, policy.caches).names
    known = frozenset(name.lower() for name in before)
    said = dict(_said(here, None if names is None else names | _SHOWN | known | also))
    changes = {name: text for name, text in said.items() if before.get(name) != text}
    return changes | {name: "" for name in before if name not in said}


def _said(here: SlotSnapshot, wanted: frozenset[str] | None) -> Iterator[tuple[str, str]]:
    """What the sensors say of these attributes, in small letters; None: of all."""
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


_LOADS = {name.lower(): name for name in ("LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg")}
_IDLES = {"keyboardidle": ("KeyboardIdle", False), "consoleidle": ("ConsoleIdle", True)}
_SHOWN = frozenset({"loadavg", "condorloadavg", "keyboardidle"})
"""What ``status`` shows."""
_ALWAYS = frozenset(_LOADS) | frozenset(_IDLES)
