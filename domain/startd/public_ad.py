"""A slot's published ad, which the negotiator, ``condor_status`` and users of ``Pool`` see.

It omits the private parts of the policy, and contains the last published sensor readings. It contains START, to which
Requirements refers; if START is always true, both may be omitted (``Dialect.hides_true_start``). Requirements is false
while the slot must not be matched. Sources: the manual, "condor_startd Policy Configuration", "Matched State" and
"Preempting State"; HTCondor's ads, for the omitted attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import cached_property, lru_cache, partial
from typing import Any, Final

from ..classad import UNDEFINED, ClassAd, Context, EvaluationError, Expression, Moving
from ..classad.tree import Literal
from ..names import SlotName
from ..ports.sensor_readings import NOTHING_READ, Readings
from ..ports.slot_ads import SlotAds
from ..state.caches import Caches, parse_cached
from ..state.offline_ads import OFFLINE
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..units import SECOND
from .drain_estimates import DrainEstimates
from .dynamic_attributes import (
    DYNAMIC_ATTRIBUTES,
    MACHINE_LOADS,
    TRANSITION_ATTRIBUTES,
    SlotSnapshot,
    first_slot,
    moving_attributes,
    unclaimed_in_drains,
)
from .evaluation import PolicyEvaluation
from .slot_ad import compiled_ad, copied_attributes, drain_start
from .slot_resources import SlotCarver, remaining_resources, resource_names, slot_carver
from .startd_settings import PRIVATE, setting
from .time_limits import drain_left, retirement_left

NUM_DYNAMIC_SLOTS: Final = "NumDynamicSlots"
ROLLUP_FLAG: Final = "PslotRollupInformation"
"""An attribute that is true in the ads of a partitionable slot that summarizes its dynamic slots, and in theirs."""
RETIREMENT_LEFT: Final = "retirementtimeremaining"
"""The only attribute that a dynamic slot has only in its parent's summary, in lower case."""
_SUMMARIZED: Final = ("Name", "DSlotId", "CurrentRank", "RemoteUser", "RemoteOwner", "AccountingGroup", "State",
                      "Activity", "EnteredCurrentState", "RetirementTimeRemaining")  # fmt: skip

_DEFAULT_REQUIREMENTS: Final = "Start && WithinResourceLimits"
UNMATCHABLE_STATES: Final = frozenset({"Matched", "Preempting"})
"""The states in which a slot must not be matched."""
_UNPUBLISHED: Final = PRIVATE | {"claim_worklife"}
_SETTING_PREFIX, _VARIANT_SUFFIX = "modify_request_expr_", "_vanilla"
_FALSE: Final = Literal(False)


@lru_cache(10_000)
def is_published(name: str) -> bool:
    """Return True if an attribute of a slot's private ad is published."""
    key = name.lower()
    return key not in _UNPUBLISHED and not key.startswith(_SETTING_PREFIX) and not key.endswith(_VARIANT_SUFFIX)


def why_not_drained(machine: Machine) -> str:
    """Return why the machine cannot be drained, or an empty string if it can."""
    if machine.drain is None:
        return why_not_reached(machine)
    return f"Draining already in progress on {machine.name} (request {machine.drain.number}): cancel it first"


def why_not_reached(machine: Machine) -> str:
    """Return why a command to the machine would not arrive, or an empty string if it would."""
    return f"the execution point {machine.name} does not answer: try again when it is back" if machine.expired else ""


def why_not_canceled(machine: Machine) -> str:
    """Return why the machine's drain cannot be canceled, or an empty string if it can, or there is none."""
    if machine.drain is None or machine.drain.state != "Stopped":
        return why_not_reached(machine)
    return f"{machine.name} is drained, and its completion action is {machine.drain.completion}: start it again"


class PublishedSlots(SlotAds):
    """The published slots of a state at a given time, as single attributes or complete ads.

    A slot whose machine is not in the state was imported from an HTCondor pool. All attributes of such a slot are
    published.
    """

    live: Mapping[str, str] = {key: name for key, (name, _) in DYNAMIC_ATTRIBUTES.items()}

    def __init__(self, state: ExecutionPoint, caches: Caches, now: int, context: Context) -> None:
        self.state, self.caches, self.now, self.context = state, caches, now, context
        self._literals: dict[Any, Literal] = {}
        self._last_others: tuple[str, Mapping[str, tuple[str, Any]]] = ("", {})
        self._last_public: tuple[str, Mapping[str, str]] = ("", {})
        self._estimates: dict[str, DrainEstimates | None] = {}

    def snapshot(self, slot: Slot) -> SlotSnapshot:
        """Return a snapshot of the slot with the last published readings."""
        readings = Readings(slots={slot.name: slot.published_ad}) if slot.published_ad else NOTHING_READ
        machine = self.state.machines.get(slot.machine)
        estimates = partial(self._drain_estimates, slot)
        return SlotSnapshot(self.state, slot, machine, readings, self.now, self.context, self.caches, estimates)

    def policy_of(self, slot: Slot) -> PolicyEvaluation:
        """Return the slot's policy with the last published readings of all slots of its machine."""
        return PolicyEvaluation(self.state, slot, self._sense, self.now, self.context, self.caches)

    def _sense(self, machine: str) -> Readings:
        record = self.state.machines.get(machine)
        records = {} if record is None else record.slots
        slots = {name: slot.published_ad for name, slot in records.items() if slot.published_ad}
        return Readings(slots=slots) if slots else NOTHING_READ

    def _drain_estimates(self, slot: Slot) -> DrainEstimates | None:
        if slot.machine not in self._estimates:
            self._estimates[slot.machine] = self.policy_of(slot).estimates()
        return self._estimates[slot.machine]

    def published_ad(self, slot: Slot) -> Mapping[str, str]:
        """Return the slot's published sensor readings, by lower-case name, with the load of its machine."""
        if self._last_public[0] != slot.name:
            own = {name.lower(): text for name, text in slot.published_ad.items()}
            machine = first_slot(self.state, slot).published_ad
            load = {name.lower(): text for name, text in machine.items() if name.lower() in MACHINE_LOADS}
            self._last_public = (slot.name, load | own)
        return self._last_public[1]

    def attributes_from_others(self, snapshot: SlotSnapshot) -> Mapping[str, tuple[str, Any]]:
        """Return a slot's attributes from other ads (STARTD_SLOT_ATTRS, STARTD_JOB_ATTRS), by lower-case name."""
        if snapshot.machine is None:
            return {}
        if self._last_others[0] != snapshot.slot.name:
            attributes = copied_attributes(snapshot).items()
            self._last_others = (snapshot.slot.name, {name.lower(): (name, value) for name, value in attributes})
        return self._last_others[1]

    def attribute(self, snapshot: SlotSnapshot, key: str) -> Expression | None:
        """Return a published attribute, given its lower-case name, or None if there is none."""
        slot = snapshot.slot
        if key in ("requirements", "start") and snapshot.machine is not None:
            if key == "requirements" and self._refuses(slot):
                return _FALSE
            start = drain_start(self.state, slot) if key == "start" and not snapshot.machine.shutdown else None
            if start is not None:
                return start
        if slot.published_ad:
            text = self.published_ad(slot).get(key)
            if text is not None:
                return parse_cached(text)
        if key in DYNAMIC_ATTRIBUTES and (snapshot.machine is not None or key in TRANSITION_ATTRIBUTES):
            value = DYNAMIC_ATTRIBUTES[key][1](snapshot)
            if value is not None:
                return self._literal(value)
        text = slot.ad.text(key)
        if text is not None:
            return parse_cached(text)
        about_other = self.attributes_from_others(snapshot).get(key)
        if about_other is None:
            return None if slot.kind == "static" else self._rolled_up(slot, key)
        return about_other[1] if isinstance(about_other[1], Expression) else self._literal(about_other[1])

    def value(self, snapshot: SlotSnapshot, key: str) -> Any:
        return DYNAMIC_ATTRIBUTES[key][1](snapshot)

    def moving(self, snapshot: SlotSnapshot) -> dict[str, Moving]:
        return moving_attributes(snapshot)

    def names(self, snapshot: SlotSnapshot) -> Set[str]:
        names = snapshot.slot.ad.keys() | snapshot.slot.published_ad.keys()
        names.update(name for name, _ in self.attributes_from_others(snapshot).values())
        if snapshot.slot.kind != "static":
            names.update(rollup_attributes(self.state, snapshot.slot))
        return names

    def is_published(self, name: str) -> bool:
        return is_published(name)

    def changes_over_time(self, snapshot: SlotSnapshot) -> bool:
        machine = snapshot.machine
        is_ending = machine is not None and (machine.drain is not None or bool(machine.shutdown))
        lists = (setting(self.state, machine, name) for name in ("STARTD_SLOT_ATTRS", "STARTD_JOB_ATTRS"))
        return is_ending or any(lists)

    def is_free(self, slot: Slot) -> bool:
        """Return True if the slot is free and can be claimed. On a draining machine, this requires that the drain has
        its own START and that jobs from before the drain have retirement time left."""
        machine = self.state.machines.get(slot.machine)
        steps = self.state.dialect.steps("claim", slot.state_activity)
        can_be_claimed = bool(steps) and slot.state_activity != "Matched/Idle"
        can_be_claimed |= slot.state == "Backfill"  # a claim waits until the client has ended
        if machine is None or (machine.drain is None and not machine.shutdown):
            return can_be_claimed
        drain = machine.drain
        accepts_claims = not machine.shutdown and drain is not None and bool(drain.start) and not drain.final
        if not accepts_claims or slot.state_activity != "Drained/Retiring":
            return False
        if slot.kind != "partitionable" and not can_be_claimed:
            return False  # the manual has no transition from Drained to Claimed
        return drain_left(self.policy_of(slot)) > 0

    def is_rollup_attribute(self, key: str) -> bool:
        """Return True if an attribute (in lower case) may be a summary of dynamic slots."""
        return key.startswith("child") or key == NUM_DYNAMIC_SLOTS.lower()

    def has_rollup(self, slot: Slot) -> bool:
        return has_rollup(self.state, slot)

    def remaining_resources(self, slot: Slot) -> dict[str, float]:
        return remaining_resources(slot.ad)

    def slot_carver(self, slot: Slot) -> SlotCarver:
        machine, ad = self.state.machines.get(slot.machine), compiled_ad(self.state, slot, self.caches).ad
        return slot_carver(self.state, machine, slot, ad, self.context)

    def why_not_drained(self, machine: str) -> str:
        record = self.state.machines.get(machine)
        return "it is not in the pool" if record is None else why_not_drained(record)

    def why_not_canceled(self, machine: str) -> str:
        record = self.state.machines.get(machine)
        return "it is not in the pool" if record is None else why_not_canceled(record)

    def unclaimed_in_drains(self, machine: Machine) -> int:
        return unclaimed_in_drains(machine, self.now)

    def ad(self, slot: Slot) -> ClassAd:
        """Return the slot's complete published ad."""
        snapshot = self.snapshot(slot)
        ad = ClassAd()
        for name in self._names(snapshot):
            value = self.attribute(snapshot, name.lower())
            if value is not None:
                ad[name] = value
        ad.setdefault("Name", slot.name)
        if snapshot.machine is not None:
            self._hide_start(slot, ad)
        return ad

    def _names(self, snapshot: SlotSnapshot) -> Iterator[str]:
        is_live = snapshot.machine is not None
        yield from (name for name in snapshot.slot.ad if is_published(name) or not is_live)
        yield from (name for key, (name, _) in DYNAMIC_ATTRIBUTES.items() if is_live or key in TRANSITION_ATTRIBUTES)
        yield from snapshot.slot.published_ad
        yield from (name for name, _ in self.attributes_from_others(snapshot).values())
        yield from rollup_attributes(self.state, snapshot.slot)

    def _refuses(self, slot: Slot) -> bool:
        """Return True if the slot must not be matched, because it is taken or its machine is offline, shuts down or
        drains."""
        if slot.state in UNMATCHABLE_STATES or slot.queued_claim is not None or slot.ad.get(OFFLINE) == "true":
            return True
        machine = self.state.machines[slot.machine]
        return (
            bool(machine.shutdown)
            or machine.expired
            or (machine.drain is not None and drain_start(self.state, slot) is None)
        )

    def _hide_start(self, slot: Slot, ad: ClassAd) -> None:
        """Remove START from an ad that refuses all jobs; also remove a true START if the dialect hides it."""
        if self._refuses(slot):
            ad.pop("Start", None)
            return
        if self.state.machines[slot.machine].drain is not None or not self.state.dialect.hides_true_start:
            return
        if slot.ad.get("Requirements") == _DEFAULT_REQUIREMENTS and self._is_true(ad, "Start"):
            del ad["Start"]
            ad["Requirements"] = parse_cached("WithinResourceLimits")

    def _is_true(self, ad: ClassAd, name: str) -> bool:
        try:
            return ad.eval(name, None, self.context) is True
        except EvaluationError:
            return False

    def _rolled_up(self, slot: Slot, key: str) -> Expression | None:
        """Return an attribute, given in lower case, that summarizes the dynamic slots of a partitionable slot."""
        if key == ROLLUP_FLAG.lower():
            return self._literal(True) if has_rollup(self.state, slot) else None
        if slot.kind != "partitionable" or not self.is_rollup_attribute(key):
            return None
        dynamic_slots = self._dynamic_slots.get(slot.name, [])
        if key == NUM_DYNAMIC_SLOTS.lower():
            return self._literal(len(dynamic_slots))
        name = rolled_up_names(self.state, slot).get(key)
        if name is None:
            return None
        return ClassAd({name: [self._value_of(child, name) for child in dynamic_slots]})[name]

    def _value_of(self, slot: Slot, name: str) -> Any:
        """Return a dynamic slot's attribute value for its parent's summary."""
        key = name.lower()
        if key == RETIREMENT_LEFT:
            return self.remaining_retirement(slot) // SECOND
        attribute = self.attribute(self.snapshot(slot), key)
        if attribute is None and key == "name":
            return slot.name
        if attribute is None or isinstance(attribute, Literal):
            return UNDEFINED if attribute is None else attribute.value
        try:
            return self.ad(slot).eval(name, None, self.context)
        except EvaluationError:
            return UNDEFINED

    def remaining_retirement(self, slot: Slot) -> int:
        """Return the microseconds left of the retirement time of the slot's job, or 0 without a job."""
        if slot.activation is None or slot.ad.get("MaxJobRetirementTime", "0") == "0":
            return 0
        return retirement_left(self.policy_of(slot))

    @cached_property
    def _dynamic_slots(self) -> dict[str, list[Slot]]:
        by_parent: dict[str, list[Slot]] = {}
        for slot in self.state.slots.values():
            if slot.parent:
                by_parent.setdefault(slot.parent, []).append(slot)
        for children in by_parent.values():
            children.sort(key=lambda slot: SlotName.parse(slot.name).order)
        return by_parent

    def _literal(self, value: Any) -> Literal:
        literal = self._literals.get((type(value), value))
        if literal is None:
            literal = self._literals[type(value), value] = Literal(value)
        return literal


# A partitionable slot's summary of its dynamic slots: NumDynamicSlots, and Child<attribute> lists. Sources: the
# manual's ADVERTISE_PSLOT_ROLLUP_INFORMATION and STARTD_PARTITIONABLE_SLOT_ATTRS; HTCondor's
# publishDynamicChildSummaries for the order, which is that of the dynamic slots' numbers.


def has_rollup(state: ExecutionPoint, slot: Slot) -> bool:
    """Return True if a slot's ad contains, or contributes to, a summary (ADVERTISE_PSLOT_ROLLUP_INFORMATION)."""
    value = setting(state, state.machines.get(slot.machine), "ADVERTISE_PSLOT_ROLLUP_INFORMATION")
    return slot.kind != "static" and value.lower() == "true"


def rolled_up_names(state: ExecutionPoint, slot: Slot) -> Mapping[str, str]:
    """Return the dynamic slots' attributes that a partitionable slot lists, by the lower-case name of each list."""
    if slot.kind != "partitionable" or not has_rollup(state, slot):
        return {}
    configured_names = setting(state, state.machines.get(slot.machine), "STARTD_PARTITIONABLE_SLOT_ATTRS")
    return _names(resource_names(slot.ad), configured_names)


def rollup_attributes(state: ExecutionPoint, slot: Slot) -> list[str]:
    """Return the names of a slot's attributes that belong to a summary of dynamic slots."""
    names = [f"Child{name}" for name in rolled_up_names(state, slot).values()]
    if slot.kind == "partitionable":
        names.insert(0, NUM_DYNAMIC_SLOTS)
    return [*names, ROLLUP_FLAG] if has_rollup(state, slot) else names


@lru_cache(1000)
def _names(resource_names: tuple[str, ...], configured_names: str) -> Mapping[str, str]:
    names = (*_SUMMARIZED, *resource_names, *configured_names.replace(",", " ").split())
    return {f"child{name.lower()}": name for name in reversed(names)}
