"""A slot's ad as others see it: the negotiator, `condor_status`, and who asks a `Pool` for its slots.

The startd's own ad holds its policy; others see what matches are made with, and the sensors' readings that were
published last. START stands in Requirements, and is published beside it; one that is locally true may be left out of
both (`Dialect.hides_true_start`). Requirements are false where the slot must not be matched. Sources: the manual,
"condor_startd Policy Configuration", "Matched State" and "Preempting State"; the real startd's ads for what it leaves
out.
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
from ..state.caches import Caches, expression
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from ..units import SECOND
from .drain_estimates import DrainEstimates
from .evaluation import PolicyEvaluation
from .moment_attributes import DYNAMIC_ATTRIBUTES, OF_EVENTS, SlotSnapshot, moving_attributes, unclaimed_in_drains
from .slot_ad import attributes_of_other_slots, compiled_ad, drain_start
from .slot_resources import Cutter, cutter, left_of, resources
from .startd_settings import PRIVATE, setting
from .time_limits import drain_left, retirement_left

COUNT: Final = "NumDynamicSlots"
ROLLED_UP: Final = "PslotRollupInformation"
"""True in the ads of slots that tell, and of those that are told of."""
LEFT: Final = "retirementtimeremaining"
"""The one attribute that a slot has for its parent alone, in small letters."""
_ALWAYS: Final = ("Name", "DSlotId", "CurrentRank", "RemoteUser", "RemoteOwner", "AccountingGroup", "State", "Activity",
                  "EnteredCurrentState", "RetirementTimeRemaining")  # fmt: skip

_USUAL: Final = "Start && WithinResourceLimits"
REFUSING: Final = frozenset({"Matched", "Preempting"})
"""The states in which a slot must not be matched."""
_KEPT_TO_ITSELF: Final = PRIVATE | {"claim_worklife"}
_SETTINGS, _VARIANTS = "modify_request_expr_", "_vanilla"
_NO: Final = Literal(False)


@lru_cache(10_000)
def is_published(name: str) -> bool:
    """Tell whether an attribute of a slot's own ad is published."""
    lower = name.lower()
    return lower not in _KEPT_TO_ITSELF and not lower.startswith(_SETTINGS) and not lower.endswith(_VARIANTS)


def why_not_drained(machine: Machine) -> str:
    """Return why no drain of the machine can begin; empty: one can."""
    if machine.drain is None:
        return ""
    return f"Draining already in progress on {machine.name} (request {machine.drain.number}): cancel it first"


def why_not_canceled(machine: Machine) -> str:
    """Return why the machine's drain cannot be canceled; empty: it can, or there is none."""
    if machine.drain is None or machine.drain.state != "Stopped":
        return ""
    return f"{machine.name} is drained, and was to {machine.drain.completion} then: start it again"


class PublishedSlots(SlotAds):
    """The slots of a state as they are published at an instant: attribute by attribute, or whole.

    A slot of a machine that the state does not have is a real pool's: it says itself what it publishes.
    """

    live: Mapping[str, str] = {key: name for key, (name, _) in DYNAMIC_ATTRIBUTES.items()}

    def __init__(self, state: ExecutionPoint, caches: Caches, now: int, context: Context) -> None:
        self.state, self.caches, self.now, self.context = state, caches, now, context
        self._literals: dict[Any, Literal] = {}
        self._others: tuple[str, Mapping[str, tuple[str, Any]]] = ("", {})
        self._public: tuple[str, Mapping[str, str]] = ("", {})
        self._estimates: dict[str, DrainEstimates | None] = {}

    def snapshot(self, slot: Slot) -> SlotSnapshot:
        """Return the slot, with what its sensors said when they were published last."""
        readings = Readings(slots={slot.name: slot.public}) if slot.public else NOTHING_READ
        machine = self.state.machines.get(slot.machine)
        estimates = partial(self._drain_estimates, slot)
        return SlotSnapshot(self.state, slot, machine, readings, self.now, self.context, self.caches, estimates)

    def policy_of(self, slot: Slot) -> PolicyEvaluation:
        """Return the slot's policy, with what the sensors of its machine's slots said when they were published last."""
        return PolicyEvaluation(self.state, slot, self._sense, self.now, self.context, self.caches)

    def _sense(self, machine: str) -> Readings:
        known = self.state.machines.get(machine)
        slots = {} if known is None else {name: slot.public for name, slot in known.slots.items() if slot.public}
        return Readings(slots=slots) if slots else NOTHING_READ

    def _drain_estimates(self, slot: Slot) -> DrainEstimates | None:
        """Return what all slots of a machine say of a drain: computed once."""
        if slot.machine not in self._estimates:
            self._estimates[slot.machine] = self.policy_of(slot).estimates()
        return self._estimates[slot.machine]

    def public(self, slot: Slot) -> Mapping[str, str]:
        """Return what was published of the slot's sensors, by the names in small letters."""
        if self._public[0] != slot.name:
            self._public = (slot.name, {name.lower(): text for name, text in slot.public.items()})
        return self._public[1]

    def of_others(self, m: SlotSnapshot) -> Mapping[str, tuple[str, Any]]:
        """Return what the slot says of its machine's slots (STARTD_SLOT_ATTRS), by the names in small letters."""
        if m.machine is None:
            return {}
        if self._others[0] != m.slot.name:
            said = attributes_of_other_slots(m)
            self._others = (m.slot.name, {name.lower(): (name, value) for name, value in said.items()})
        return self._others[1]

    def attribute(self, m: SlotSnapshot, key: str) -> Expression | None:
        """Return a published attribute by its name in small letters; None: the slot has none of that name."""
        slot = m.slot
        if key in ("requirements", "start") and m.machine is not None:
            if key == "requirements" and self._refuses(slot):
                return _NO
            start = drain_start(self.state, slot) if key == "start" and not m.machine.shutdown else None
            if start is not None:
                return start
        if slot.public:
            text = self.public(slot).get(key)
            if text is not None:
                return expression(text)
        if key in DYNAMIC_ATTRIBUTES and (m.machine is not None or key in OF_EVENTS):
            value = DYNAMIC_ATTRIBUTES[key][1](m)
            if value is not None:
                return self._literal(value)
        text = slot.ad.text(key)
        if text is not None:
            return expression(text)
        other = self.of_others(m).get(key)
        if other is None:
            return None if slot.kind == "static" else self._rolled_up(slot, key)
        return other[1] if isinstance(other[1], Expression) else self._literal(other[1])

    def value(self, m: SlotSnapshot, key: str) -> Any:
        return DYNAMIC_ATTRIBUTES[key][1](m)

    def moving(self, m: SlotSnapshot) -> dict[str, Moving]:
        return moving_attributes(m)

    def names(self, m: SlotSnapshot) -> Set[str]:
        found = m.slot.ad.keys() | m.slot.public.keys()
        found.update(name for name, _ in self.of_others(m).values())
        if m.slot.kind != "static":
            found.update(told_names(self.state, m.slot))
        return found

    def is_published(self, name: str) -> bool:
        return is_published(name)

    def moves_by_itself(self, m: SlotSnapshot) -> bool:
        machine = m.machine
        ends = machine is not None and (machine.drain is not None or bool(machine.shutdown))
        return ends or bool(setting(self.state, machine, "STARTD_SLOT_ATTRS"))

    def is_free(self, slot: Slot) -> bool:
        """Return True if a claim may come to a slot that nobody has: not on a machine that is to end, nor on one that
        drains, unless the drain has a START of its own for jobs that may be interrupted, and those that it found still
        have time to run."""
        machine = self.state.machines.get(slot.machine)
        steps = self.state.dialect.steps("claim", slot.state_activity)
        takes = bool(steps) and slot.state_activity != "Matched/Idle"
        takes |= slot.state == "Backfill"  # a claim waits until the client is gone
        if machine is None or (machine.drain is None and not machine.shutdown):
            return takes
        drain = machine.drain
        accepts = not machine.shutdown and drain is not None and bool(drain.start) and not drain.final
        if not accepts or slot.state_activity != "Drained/Retiring":
            return False
        if slot.kind != "partitionable" and not takes:
            return False  # the manual knows no way from Drained to Claimed
        return drain_left(self.policy_of(slot)) > 0

    def is_rolled(self, key: str) -> bool:
        """Tell whether an attribute, in small letters, may tell of dynamic slots."""
        return key.startswith("child") or key == COUNT.lower()

    def rolls_up(self, slot: Slot) -> bool:
        return rolls_up(self.state, slot)

    def left_of(self, slot: Slot) -> dict[str, float]:
        return left_of(slot.ad)

    def cutter(self, slot: Slot) -> Cutter:
        machine, own = self.state.machines.get(slot.machine), compiled_ad(self.state, slot, self.caches).ad
        return cutter(self.state, machine, slot, own, self.context)

    def why_not_drained(self, machine: str) -> str:
        known = self.state.machines.get(machine)
        return "it is not in the pool" if known is None else why_not_drained(known)

    def why_not_canceled(self, machine: str) -> str:
        known = self.state.machines.get(machine)
        return "it is not in the pool" if known is None else why_not_canceled(known)

    def unclaimed_in_drains(self, machine: Machine) -> int:
        return unclaimed_in_drains(machine, self.now)

    def ad(self, slot: Slot) -> ClassAd:
        """Return the whole published ad."""
        m = self.snapshot(slot)
        ad = ClassAd()
        for name in self._names(m):
            value = self.attribute(m, name.lower())
            if value is not None:
                ad[name] = value
        ad.setdefault("Name", slot.name)
        if m.machine is not None:
            self._settle_start(slot, ad)
        return ad

    def _names(self, m: SlotSnapshot) -> Iterator[str]:
        own = m.machine is not None
        yield from (name for name in m.slot.ad if is_published(name) or not own)
        yield from (name for key, (name, _) in DYNAMIC_ATTRIBUTES.items() if own or key in OF_EVENTS)
        yield from m.slot.public
        yield from (name for name, _ in self.of_others(m).values())
        yield from told_names(self.state, m.slot)

    def _refuses(self, slot: Slot) -> bool:
        """Tell whether the slot must not be matched: nor is it where its machine ends, or drains without a START."""
        if slot.state in REFUSING or slot.waiting is not None:
            return True
        machine = self.state.machines[slot.machine]
        return bool(machine.shutdown) or (machine.drain is not None and drain_start(self.state, slot) is None)

    def _settle_start(self, slot: Slot, ad: ClassAd) -> None:
        """Take START out of an ad that refuses all jobs, and one that is true out of an ad that may hide it."""
        if self._refuses(slot):
            ad.pop("Start", None)
            return
        plain = self.state.machines[slot.machine].drain is None and slot.ad.get("Requirements") == _USUAL
        if plain and self.state.dialect.hides_true_start and self._true(ad, "Start"):
            del ad["Start"]
            ad["Requirements"] = expression("WithinResourceLimits")

    def _true(self, ad: ClassAd, name: str) -> bool:
        try:
            return ad.eval(name, None, self.context) is True
        except EvaluationError:
            return False

    def _rolled_up(self, slot: Slot, key: str) -> Expression | None:
        """Return what a slot tells because it was carved, or may be, by the name in small letters."""
        if key == ROLLED_UP.lower():
            return self._literal(True) if rolls_up(self.state, slot) else None
        if slot.kind != "partitionable" or not self.is_rolled(key):
            return None
        carved = self._carved.get(slot.name, [])
        if key == COUNT.lower():
            return self._literal(len(carved))
        name = rolled_names(self.state, slot).get(key)
        if name is None:
            return None
        return ClassAd({name: [self._value_of(one, name) for one in carved]})[name]

    def _value_of(self, slot: Slot, name: str) -> Any:
        """Return the value of an attribute of a dynamic slot, as its parent tells it."""
        key = name.lower()
        if key == LEFT:
            return self.retires_for(slot) // SECOND
        found = self.attribute(self.snapshot(slot), key)
        if found is None and key == "name":
            return slot.name
        if found is None or isinstance(found, Literal):
            return UNDEFINED if found is None else found.value
        try:
            return self.ad(slot).eval(name, None, self.context)
        except EvaluationError:
            return UNDEFINED

    def retires_for(self, slot: Slot) -> int:
        """Return the microseconds that are left of the retirement time of the slot's job; 0 without a job."""
        if slot.activation is None or slot.ad.get("MaxJobRetirementTime", "0") == "0":
            return 0
        return retirement_left(self.policy_of(slot))

    @cached_property
    def _carved(self) -> dict[str, list[Slot]]:
        found: dict[str, list[Slot]] = {}
        for slot in self.state.slots.values():
            if slot.parent:
                found.setdefault(slot.parent, []).append(slot)
        for carved in found.values():
            carved.sort(key=lambda slot: SlotName.parse(slot.name).order)
        return found

    def _literal(self, value: Any) -> Literal:
        known = self._literals.get((type(value), value))
        if known is None:
            known = self._literals[type(value), value] = Literal(value)
        return known


# What a partitionable slot tells of the slots that were carved from it: NumDynamicSlots, and Child<attribute> lists.
# Source: the manual's ADVERTISE_PSLOT_ROLLUP_INFORMATION and STARTD_PARTITIONABLE_SLOT_ATTRS, and the real startd's
# publishDynamicChildSummaries for the order: by the numbers of the dynamic slots.


def rolls_up(state: ExecutionPoint, slot: Slot) -> bool:
    """Tell whether a slot tells of those carved from it, or is told of (ADVERTISE_PSLOT_ROLLUP_INFORMATION)."""
    said = setting(state, state.machines.get(slot.machine), "ADVERTISE_PSLOT_ROLLUP_INFORMATION")
    return slot.kind != "static" and said.lower() == "true"


def rolled_names(state: ExecutionPoint, slot: Slot) -> Mapping[str, str]:
    """Return the attributes that are rolled up in the ad of a partitionable slot, by the names in small letters of the
    lists; none where it does not tell."""
    if slot.kind != "partitionable" or not rolls_up(state, slot):
        return {}
    further = setting(state, state.machines.get(slot.machine), "STARTD_PARTITIONABLE_SLOT_ATTRS")
    return _names(resources(slot.ad), further)


def told_names(state: ExecutionPoint, slot: Slot) -> list[str]:
    """Return all attributes that a slot has because it was carved, or may be."""
    found = [f"Child{name}" for name in rolled_names(state, slot).values()]
    if slot.kind == "partitionable":
        found.insert(0, COUNT)
    return [*found, ROLLED_UP] if rolls_up(state, slot) else found


@lru_cache(1000)
def _names(resources: tuple[str, ...], further: str) -> Mapping[str, str]:
    names = (*_ALWAYS, *resources, *further.replace(",", " ").split())
    return {f"child{name.lower()}": name for name in reversed(names)}
