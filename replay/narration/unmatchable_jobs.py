"""Find jobs that no slot could run, even if all slots were free, and what they request that no slot has.

A partitionable slot counts with its full size (TotalSlotCpus instead of Cpus). Conditions of the job's Requirements
and of a slot's START count only if time does not change their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from attrs import frozen

from ...domain.classad import ERROR, UNDEFINED, ClassAd, Context, Expression, Value, explain, unparse
from ...domain.classad.analysis import ValuedClause, references_or_empty
from ...domain.classad.matching import is_satisfied, requirements_met
from ...domain.classad.unparse import unparse_old
from ...domain.classad.values import ContextError, EvaluationError
from ...domain.events import Ad
from ...domain.startd.custom_resources import assigned_ids, available_text, devices_in_ad, offline_ids
from ...domain.startd.dynamic_attributes import DYNAMIC_ATTRIBUTES
from ...domain.state.caches import ad_from_attributes
from ...domain.state.state import ExecutionPoint
from ...domain.state.user_maps import NO_MAPS, UserMaps

REQUEST = "Request"
_TOTAL_PREFIX = "TotalSlot"  #: the prefix of the attributes with a partitionable slot's full size


@frozen
class Shortage:
    """A resource of which the job requests more than any slot has: the request, and the largest slot's amount."""

    resource: str
    asked: float
    most: float


@frozen
class UnmetCondition:
    """A condition of Requirements that no slot meets: the values that it reads in the nearest slot, and the attributes
    that neither this slot nor the job has."""

    condition: str
    has: Mapping[str, str]
    lacks: tuple[str, ...] = ()
    resource: str = ""  #: a condition on devices, such as GPUs; then ``has`` contains the values of all devices


@frozen
class RefusingSlots:
    """Slots that fit a job but reject it by START: how many, and for the ``nearest`` one a condition, its value, and
    the missing job attributes that make it undefined."""

    slots: int
    condition: str
    value: str
    lacks: tuple[str, ...] = ()


@frozen
class Misfit:
    """Why none of ``slots`` slots can run a job: resources that are too ``short``; else ``unmet`` conditions, with the
    name of the ``nearest`` slot; else slots whose START ``refused`` it. All empty: no single slot has everything."""

    slots: int
    short: tuple[Shortage, ...] = ()
    unmet: tuple[UnmetCondition, ...] = ()
    nearest: str = ""
    refused: RefusingSlots | None = None


def undivided_slots(state: ExecutionPoint) -> list[tuple[str, Ad]]:
    """Return the names and ads of the static and partitionable slots, which have their full sizes (TotalSlotCpus)."""
    slots = (slot for slot in state.slots.values() if slot.kind != "dynamic")
    return [(slot.name, {**slot.ad, **slot.published_ad}) for slot in slots]


def misfit(job: Ad, slots: Iterable[tuple[str, Ad]], now: int, user_maps: UserMaps = NO_MAPS) -> Misfit | None:
    """Return why no slot could ever run the job, or None if one could, or that is unknown.

    :param job: the job's ad
    :param slots: names and ads of the pool's slots, without dynamic ones
    :param now: the instant, in seconds
    :param user_maps: the tables that ``userMap()`` reads
    """
    try:
        full_slots = [(name, ad_from_attributes(at_full_size(ad))) for name, ad in sorted(slots)]
        return _misfit(ad_from_attributes(job), full_slots, Context(now=now, user_maps=user_maps))
    except ContextError:  # it reads a value that changes with each cycle
        return None


def _misfit(job_ad: ClassAd, full_slots: Sequence[tuple[str, ClassAd]], context: Context) -> Misfit | None:
    requests = {name[len(REQUEST) :]: _number(job_ad, name, context) for name in job_ad if _is_request(name)}
    wanted = {name: size for name, size in requests.items() if size}
    if not full_slots:
        return Misfit(0)
    slot_amounts = [{name: _number(ad, name, context) for name in wanted} for _, ad in full_slots]
    have_room = [all(amounts[name] >= size for name, size in wanted.items()) for amounts in slot_amounts]
    refusing_slots = []
    for has_room, (name, ad) in zip(have_room, full_slots, strict=True):
        if has_room and requirements_met(job_ad, ad, context):
            refusing_clause = _refusing_condition(ad, job_ad, context)
            if refusing_clause is None:
                return None
            refusing_slots.append((name, refusing_clause))
    if refusing_slots:
        name, (condition, value) = refusing_slots[0]
        missing_names = _missing_attributes(condition, dict(full_slots)[name], job_ad, context)
        refusing = RefusingSlots(len(refusing_slots), unparse(condition), unparse(value), missing_names)
        return Misfit(len(full_slots), nearest=name, refused=refusing)
    largest = {name: max(amounts[name] for amounts in slot_amounts) for name in wanted}
    shortages = tuple(Shortage(name, size, largest[name]) for name, size in wanted.items() if largest[name] < size)
    if shortages:
        return Misfit(len(full_slots), shortages)
    if not any(have_room):
        return Misfit(len(full_slots))
    return _misfit_by_conditions(job_ad, full_slots, context)


def at_full_size(ad: Ad) -> Ad:
    """Return a slot's ad with its full size, as if no part of it were in use."""
    sizes = {name[len(_TOTAL_PREFIX) :]: text for name, text in ad.items() if name.startswith(_TOTAL_PREFIX)}
    usable = {
        f"Available{name}": available_text(name, [id for id in ids if id not in offline_ids(ad, name)])
        for name in sizes
        if (ids := assigned_ids(ad, name))
    }
    return {**ad, **{name: text for name, text in sizes.items() if name in ad}, **usable}


def _is_request(name: str) -> bool:
    return name.lower().startswith(REQUEST.lower()) and len(name) > len(REQUEST)


def _number(ad: ClassAd, name: str, context: Context) -> float:
    """Return the value of a numeric attribute, or 0 if it is not a number, or missing."""
    value = _value(ad, name, context)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _value(ad: ClassAd, name: str, context: Context) -> Value | None:
    expression = ad.get(name)
    try:
        return None if expression is None else expression.evaluate(ad, None, context)
    except EvaluationError:
        return None


def _refusing_condition(slot: ClassAd, job_ad: ClassAd, context: Context) -> ValuedClause | None:
    names = [name for name in ("Start", "Requirements") if name in slot]
    clauses = [clause for name in names for clause in explain(slot[name], slot, job_ad, context)]
    refusing = (c for c in clauses if not is_satisfied(c.value) and not _changes_with_time(c.expression, slot))
    return next(refusing, None)


def _missing_attributes(condition: Expression, slot: ClassAd, job_ad: ClassAd, context: Context) -> tuple[str, ...]:
    """Return the attributes that the job lacks, and without each of which a condition of the slot is undefined."""
    names = dict.fromkeys(name.rpartition(".")[2] for name in references_or_empty(condition, slot).external)
    absent = [name for name in names if name not in job_ad]
    return tuple(name for name in absent if _is_undefined(condition, slot, job_ad, set(absent) - {name}, context))


def _is_undefined(condition: Expression, slot: ClassAd, job_ad: ClassAd, given: set[str], context: Context) -> bool:
    """Return True if a condition of the slot is undefined or an error for the job even if these attributes are 0."""
    job = ClassAd(dict.fromkeys(given, 0), job_ad)
    return condition.evaluate(slot, job, context) in (UNDEFINED, ERROR)


def _misfit_by_conditions(job_ad: ClassAd, slots: Sequence[tuple[str, ClassAd]], context: Context) -> Misfit | None:
    """Return the conditions of Requirements that no slot meets at any time, or None if there are none, and another one
    may be met later."""
    requirements = job_ad.get("Requirements")
    if requirements is None:
        return None
    met = [[is_satisfied(clause.value) for clause in explain(requirements, job_ad, ad, context)] for _, ad in slots]
    conditions = [clause.expression for clause in explain(requirements, job_ad, slots[0][1], context)]
    are_changing = [_changes_with_time(condition, job_ad) for condition in conditions]
    unmet = [i for i, changing in enumerate(are_changing) if not changing and not any(row[i] for row in met)]
    if any(are_changing) and not unmet:
        return None
    nearest_index = max(range(len(slots)), key=lambda at: (sum(met[at]), -at))
    name, ad = slots[nearest_index]
    unmet_conditions = tuple(
        condition
        for i in unmet
        for condition in _unmet_by_devices(conditions[i], job_ad, slots, context)
        or [_unmet_condition(conditions[i], job_ad, ad, context)]
    )
    return Misfit(len(slots), (), unmet_conditions, name)


_COUNTS_DEVICES: Final = re.compile(r"countMatches\(MY\.Require(\w+), ?TARGET\.Available\1\)", re.IGNORECASE)
"""The condition that condor_submit adds for require_gpus."""


def _unmet_by_devices(
    condition: Expression, job_ad: ClassAd, slots: Sequence[tuple[str, ClassAd]], context: Context
) -> list[UnmetCondition]:
    """Return the job's conditions on devices that no device meets, if the condition counts the devices that do."""
    match = _COUNTS_DEVICES.search(unparse(condition))
    required = None if match is None else job_ad.get(f"Require{match[1]}")
    if match is None or required is None:
        return []
    devices = [device for _, ad in slots for device in devices_in_ad(ad, match[1]).values()]
    unmet = []
    for number, clause in enumerate(explain(required, devices[0], job_ad, context) if devices else ()):
        if any(is_satisfied(explain(required, device, job_ad, context)[number].value) for device in devices):
            continue
        names = [name.rpartition(".")[2] for name in chain(*references_or_empty(clause.expression, ClassAd()))]
        values = {
            name: ", ".join(dict.fromkeys(unparse_old(device[name]) for device in devices if name in device))
            for name in dict.fromkeys(names)
        }
        own = {name: unparse_old(job_ad[name]) for name in values if name in job_ad}
        condition_text = unparse_old(clause.expression)
        unmet.append(UnmetCondition(condition_text, {**values, **own}, (), match[1]))
    return unmet


def _changes_with_time(condition: Expression, ad: ClassAd) -> bool:
    """Return True if the value of an ad's condition may change with time while no slot changes."""
    names = {name.rpartition(".")[2].lower() for name in chain(*references_or_empty(condition, ad))}
    return bool(names & DYNAMIC_ATTRIBUTES.keys()) or any(word in unparse(condition).lower() for word in _CLOCKS)


_CLOCKS = ("time(", "random(", "currenttime")


def _unmet_condition(condition: Expression, job_ad: ClassAd, ad: ClassAd, context: Context) -> UnmetCondition:
    names = dict.fromkeys(references_or_empty(condition, job_ad).external)
    values = {name: _value(ad, name, context) for name in dict.fromkeys(name.rpartition(".")[2] for name in names)}
    slot_values = {name: "undefined" if value is None else unparse(value) for name, value in values.items()}
    missing_names = tuple(name for name in names if "." not in name and name not in ad)
    return UnmetCondition(unparse(condition), slot_values, missing_names)
