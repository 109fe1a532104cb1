"""The resources that a job takes from a partitionable slot, and the ad of the resulting dynamic slot.

MODIFY_REQUEST_EXPR_* modifies a request if the slot has enough left for the result; otherwise the request is used
unchanged. With a consumption policy, the slot's Consumption<resource> determines the amount. Source: the manual,
"Dynamic provisioning" and "Resource Consumption Policies"; undefined requests default to HTCondor's values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from sys import intern
from typing import Final

from msgspec import Struct, field

from ..classad import ClassAd, Context, EvaluationError, Expression
from ..classad.tree import ListExpression, Literal
from ..classad.value_evidence import CALL, names_in
from ..events import Ad
from ..names import SlotName
from ..state.caches import parse_cached
from ..state.job_ad import quoted, unquoted
from ..state.records import Machine, Slot
from ..state.state import ExecutionPoint
from .custom_resources import assigned_ids, devices_in_ad, offline_ids
from .slot_types import CPUS, DISK, MEMORY, SWAP
from .startd_settings import setting

STANDARD_RESOURCES = (CPUS, MEMORY, DISK)
_DEFAULT_REQUESTS = {CPUS: 1, MEMORY: 128, DISK: 1024}
"""The amounts used for requests that are not numbers."""


def resource_names(ad: Mapping[str, str]) -> tuple[str, ...]:
    """Return the resources that dynamic slots take from a slot: cores, memory, disk and custom resources."""
    text = ad.get("MachineResources")
    if text is None:
        return STANDARD_RESOURCES
    return STANDARD_RESOURCES + tuple([name for name in _custom_resources(text) if name in ad])


@lru_cache(1000)
def _custom_resources(text: str) -> tuple[str, ...]:
    return tuple(name for name in unquoted(text).split() if name not in (*STANDARD_RESOURCES, SWAP))


def has_consumption_policy(ad: Mapping[str, str]) -> bool:
    """Return True if a partitionable slot has a consumption policy, which must cover each of its resources."""
    return all(f"Consumption{name}" in ad for name in resource_names(ad))


def remaining_resources(ad: Mapping[str, str]) -> dict[str, float]:
    """Return the remaining amount of each resource of a partitionable slot."""
    return {name: float(ad.get(name) or 0) for name in resource_names(ad)}


class SlotCarver(Struct, frozen=True):
    """Computes the resources that jobs take from a partitionable slot."""

    slot: Slot
    ad: ClassAd
    context: Context
    edits: Mapping[str, Expression]
    """MODIFY_REQUEST_EXPR_* by resource."""
    must_edit: bool
    has_consumption_policy: bool
    devices: tuple[str, ...] = ()
    """The resources that are devices."""
    job_requests: dict[int, tuple[ClassAd, list[dict[str, int]]]] = field(default_factory=dict)
    """Each job's requests by the id of its ad. The ad is stored too, so that its id is not reused."""

    def amounts_for(self, job: ClassAd, left: Mapping[str, float]) -> dict[str, int] | None:
        """Return the amounts that a job takes, or None if not enough is ``left``."""
        cached = self.job_requests.get(id(job))
        if cached is None:
            cached = self.job_requests[id(job)] = job, self._requests(job, left)
        for amounts in cached[1]:
            for name, amount in amounts.items():
                if left[name] < amount:
                    break
            else:
                return amounts
        return None

    def devices_left(self, job: ClassAd, ad: ClassAd, amounts: Mapping[str, int]) -> dict[str, Expression] | None:
        """Return the Available<resource> lists of a slot's ad without the devices that a job takes, or None if too few
        of the available devices meet its Require<resource>."""
        lists: dict[str, Expression] = {}
        for name in self.devices:
            amount, available = amounts.get(name, 0), ad.get(f"Available{name}")
            if not amount or not isinstance(available, ListExpression):
                continue
            require = job.get(f"Require{name}")
            members = dict(enumerate(available.members))
            suitable = (
                number
                for number, member in members.items()
                if require is None or _meets(require, _device(member, ad, self.context), job, self.context)
            )
            taken = list(islice(suitable, amount))
            if len(taken) < amount:
                return None
            left = tuple([member for number, member in members.items() if number not in taken])
            lists[f"Available{name}"] = ListExpression(left)
        return lists

    def _requests(self, job: ClassAd, names: Iterable[str]) -> list[dict[str, int]]:
        """Return the amounts that a job requests, and then the amounts to use instead if not enough is left."""
        if self.has_consumption_policy:
            return [self._consumption(job, names)]
        dependencies = self._dependencies(job, names)
        if dependencies is None:
            return self._evaluated_requests(job, names)
        key, expressions = dependencies
        cached = _REQUESTS.get(key)
        if cached is None:
            if len(_REQUESTS) >= _MAX_CACHED:
                _REQUESTS.clear()
            cached = _REQUESTS[key] = self._evaluated_requests(job, names), expressions
        return cached[0]

    def _dependencies(self, job: ClassAd, names: Iterable[str]) -> tuple[tuple[object, ...], list[Expression]] | None:
        """Return what a job's requests depend on, with constants by value and expressions by id, and these expressions,
        or None if the requests depend on more than the job's ad."""
        expressions = list(self.edits.values())
        key: list[object] = [*names, self.must_edit]
        reads = [_names_read(edit) for edit in expressions]
        pending_names, missing_names = [f"request{name.lower()}" for name in names], set()
        for name in pending_names:
            value = job.get(name)
            if value is None:
                missing_names.add(name)
                key.append(None)
            elif type(value) is Literal:
                key.append((type(value.value), value.value))
            else:
                expressions.append(value)
                reads.append(_names_read(value))
                pending_names += [each for each in reads[-1] or () if each not in pending_names]
        if None in reads or any(
            name in missing_names or name not in pending_names for read in reads if read for name in read
        ):
            return None  # a name missing from the job's ad is looked up in the slot's ad
        return (*key, *map(id, expressions)), expressions

    def _evaluated_requests(self, job: ClassAd, names: Iterable[str]) -> list[dict[str, int]]:
        requests = {name: self._request(job, name) for name in names}
        edited_requests = {**requests, **self._edited_requests(job)}
        return [edited_requests] if self.must_edit or edited_requests == requests else [edited_requests, requests]

    def _request(self, job: ClassAd, name: str) -> int:
        attribute = f"Request{name}"
        value = _number(job[attribute], job, self.ad, self.context) if attribute in job else None
        return _whole_amount(name, value)

    def _edited_requests(self, job: ClassAd) -> dict[str, int]:
        amounts = {}
        for name, edit in self.edits.items():
            value = _number(edit, job, self.ad, self.context)
            if value is not None:
                amounts[name] = _whole_amount(name, value)
        return amounts

    def _consumption(self, job: ClassAd, names: Iterable[str]) -> dict[str, int]:
        amounts = {}
        for name in names:
            value = _number(self.ad[f"Consumption{name}"], self.ad, job, self.context)
            amounts[name] = max(1 if name in (CPUS, MEMORY) else 0, math.ceil(value or 0))
        return amounts


_REQUESTS: dict[tuple[object, ...], tuple[list[dict[str, int]], list[Expression]]] = {}
"""Requests by what they depend on. The expressions whose ids are in the key are stored, so that no id is reused."""
_NAMES_READ: dict[int, tuple[Expression, frozenset[str] | None]] = {}
_MAX_CACHED: Final = 1_000
_PURE: Final = frozenset({"quantize", "ifthenelse", "max", "min", "floor", "ceiling", "round", "int", "real"})
"""Functions whose values depend only on their arguments."""


def _names_read(expression: Expression) -> frozenset[str] | None:
    """Return the lower-case names that an expression reads from its own ad, or None if it may read anything else."""
    cached = _NAMES_READ.get(id(expression))
    if cached is None:
        if len(_NAMES_READ) >= _MAX_CACHED:
            _NAMES_READ.clear()
        read = names_in(expression)
        reads_more = any(scope == "target" or (scope == CALL and name not in _PURE) for scope, name in read)
        names = None if reads_more else frozenset(name for scope, name in read if scope != CALL)
        cached = _NAMES_READ[id(expression)] = expression, names
    return cached[1]


def _whole_amount(name: str, value: float | None) -> int:
    if value is None:
        return _DEFAULT_REQUESTS.get(name, 0)
    return max(1 if name in STANDARD_RESOURCES else 0, int(value))


def _number(expression: Expression, my: ClassAd, target: ClassAd, context: Context) -> float | None:
    try:
        value = expression.evaluate(my, target, context)
    except EvaluationError:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def slot_carver(
    state: ExecutionPoint, machine: Machine | None, slot: Slot, ad: ClassAd, context: Context
) -> SlotCarver:
    """Return the carver for a partitionable slot with the compiled ad ``ad``."""
    edits = {}
    for name in STANDARD_RESOURCES:
        key = f"MODIFY_REQUEST_EXPR_REQUEST{name.upper()}"
        edit = parse_cached(slot.ad.get(key) or setting(state, machine, key))
        if edit is not None:
            edits[name] = edit
    must_edit = setting(state, machine, "MUST_MODIFY_REQUEST_EXPRS").lower() == "true"
    custom = resource_names(slot.ad)[len(STANDARD_RESOURCES) :]
    devices = tuple([name for name in custom if f"Assigned{name}" in slot.ad]) if custom else ()
    return SlotCarver(slot, ad, context, edits, must_edit, has_consumption_policy(slot.ad), devices)


# Devices


def free_devices(parent: Slot, slots: Iterable[Slot]) -> dict[str, list[str]]:
    """Return the ids of a partitionable slot's devices that no dynamic slot uses, by resource."""
    parent_ids = {name: ids for name in resource_names(parent.ad) if (ids := assigned_ids(parent.ad, name))}
    if not parent_ids:
        return {}
    children = [slot for slot in slots if slot.parent == parent.name]
    free = {}
    for name, ids in parent_ids.items():
        offline = {*offline_ids(parent.ad, name)}
        free[name] = [id for id in ids if id not in offline]
        for id in (id for child in children for id in assigned_ids(child.ad, name) if id not in offline):
            free[name].remove(id)  # a device may be in the list several times, once for each job that may use it
    return free


def choose_devices(
    parent: ClassAd, job: ClassAd, amounts: Mapping[str, int], free: Mapping[str, list[str]], context: Context
) -> dict[str, tuple[str, ...]]:
    """Return the ids of devices for a job, by resource: the first free ones that meet its Require<resource>. The job
    cannot have the slot if these are fewer than it requests."""
    chosen = {}
    for name, ids in free.items():
        require = job.get(f"Require{name}")
        properties = devices_in_ad(parent, name)
        suitable = [id for id in ids if require is None or _meets(require, properties.get(id), job, context)]
        chosen[name] = tuple(suitable[: amounts.get(name, 0)])
    return chosen


def _device(reference: Expression, ad: ClassAd, context: Context) -> ClassAd | None:
    try:
        value = reference.evaluate(ad, None, context)
    except EvaluationError:
        return None
    return value if isinstance(value, ClassAd) else None


def _meets(require: Expression, device: ClassAd | None, job: ClassAd, context: Context) -> bool:
    try:
        return device is not None and require.evaluate(device, job, context) is True
    except EvaluationError:
        return False


def dynamic_ad(parent: Slot, name: str, amounts: Mapping[str, int], device_attributes: Ad) -> Ad:
    """Return the ad of a dynamic slot: its parent's ad with the ``amounts`` and device attributes of the new slot."""
    ad = parent.ad.as_plain_dict()
    for resource in amounts:
        if assigned_ids(parent.ad, resource):
            prefixes = (f"{resource}_", f"Assigned{resource}", f"Available{resource}")
            ad = {key: text for key, text in ad.items() if not key.startswith(prefixes)}
    texts = {key: intern(str(amount)) for key, amount in amounts.items()}  # most jobs request the same amounts
    ad |= texts
    ad |= {f"TotalSlot{key}": intern(f"{amounts[key]:.1f}") if key == DISK else text for key, text in texts.items()}
    ad |= device_attributes
    ad.pop("PartitionableSlot", None)
    ad |= {"Name": quoted(name), "SlotType": '"Dynamic"', "DynamicSlot": "true"}
    return ad | {"DSlotId": SlotName.parse(name).number, "ParentSlotId": parent.ad.get("SlotID", "1")}
