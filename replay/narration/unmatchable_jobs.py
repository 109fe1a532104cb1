"""Jobs that no slot could have, however free all of them were: what such a job asks for that there is not.

A partitionable slot is taken whole (TotalSlotCpus in place of Cpus). Of conditions, a job's own and those of an owner's
policy (START), only those count that come to the same as time passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from attrs import frozen

from ...domain.classad import ERROR, UNDEFINED, ClassAd, Context, Expression, References, Value, explain, unparse
from ...domain.classad.analysis import ValuedClause, references
from ...domain.classad.matching import is_satisfied, requirements_met
from ...domain.classad.values import ContextError, EvaluationError
from ...domain.events import Ad
from ...domain.startd.dynamic_attributes import DYNAMIC_ATTRIBUTES
from ...domain.state.caches import ad_of
from ...domain.state.user_maps import NO_MAPS, UserMaps

REQUEST = "Request"
TOTAL_PREFIX = "TotalSlot"
"""How the names of what a slot has begin when no part of it is in use."""


@frozen
class Shortage:
    """More is asked of a resource than any slot has: how much, and what the largest slot has."""

    resource: str
    asked: float
    most: float


@frozen
class UnmetCondition:
    """A condition of Requirements that no slot meets, what the nearest slot has of what it reads, and what it reads
    that neither this slot nor the job has."""

    condition: str
    has: Mapping[str, str]
    lacks: tuple[str, ...] = ()


@frozen
class RefusingSlots:
    """Slots that have what a job asks for and refuse it by their Requirements: how many, and of the ``nearest`` one a
    condition with its value, and the attributes without which the job leaves that undefined."""

    slots: int
    condition: str
    value: str
    lacks: tuple[str, ...] = ()


@frozen
class Misfit:
    """Why none of ``slots`` slots can have a job: ``short`` of resources; else conditions that are ``unmet``, with the
    name of the slot that is ``nearest``; else ``refused`` by owners; all empty: what it asks for is there, but in no
    one slot."""

    slots: int
    short: tuple[Shortage, ...] = ()
    unmet: tuple[UnmetCondition, ...] = ()
    nearest: str = ""
    refused: RefusingSlots | None = None


def misfit(job: Ad, slots: Iterable[tuple[str, Ad]], now: int, user_maps: UserMaps = NO_MAPS) -> Misfit | None:
    """Return why no slot could ever run the job; None if one could, or that is unknown.

    :param job: the job's ad
    :param slots: names and ads of the pool's slots, without dynamic ones
    :param now: the instant, in seconds
    :param maps: what ``userMap()`` looks names up in
    """
    try:
        full_slots = [(name, ad_of(at_full_size(ad))) for name, ad in sorted(slots)]
        return _misfit(ad_of(job), full_slots, Context(now=now, user_maps=user_maps))
    except ContextError:  # it reads a value that is drawn again in each cycle
        return None


def _misfit(job_ad: ClassAd, full_slots: Sequence[tuple[str, ClassAd]], context: Context) -> Misfit | None:
    requests = {name[len(REQUEST) :]: _number(job_ad, name, context) for name in job_ad if _is_request(name)}
    wanted = {name: amount for name, amount in requests.items() if amount}
    if not full_slots:
        return Misfit(0)
    slot_amounts = [{name: _number(ad, name, context) for name in wanted} for _, ad in full_slots]
    have_room = [all(amounts[name] >= amount for name, amount in wanted.items()) for amounts in slot_amounts]
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
    shortages = tuple(
        Shortage(name, amount, largest[name]) for name, amount in wanted.items() if largest[name] < amount
    )
    if shortages:
        return Misfit(len(full_slots), shortages)
    if not any(have_room):
        return Misfit(len(full_slots))
    return _misfit_by_conditions(job_ad, full_slots, context)


def at_full_size(ad: Ad) -> Ad:
    """A slot's ad as it is when no part of the slot is in use."""
    sizes = {name[len(TOTAL_PREFIX) :]: text for name, text in ad.items() if name.startswith(TOTAL_PREFIX)}
    return {**ad, **{name: text for name, text in sizes.items() if name in ad}}


def _is_request(name: str) -> bool:
    return name.lower().startswith(REQUEST.lower()) and len(name) > len(REQUEST)


def _number(ad: ClassAd, name: str, context: Context) -> float:
    """An attribute that is a number; 0 for any other, and for one that is not there."""
    value = _value(ad, name, context)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _value(ad: ClassAd, name: str, context: Context) -> Value | None:
    expression = ad.get(name)
    try:
        return None if expression is None else expression.evaluate(ad, None, context)
    except EvaluationError:
        return None


def _refusing_condition(slot: ClassAd, job_ad: ClassAd, context: Context) -> ValuedClause | None:
    """Return the condition of a slot's START or Requirements that keeps the job out at all times; None if there is
    none."""
    clauses = [
        clause
        for name in ("Start", "Requirements")
        if name in slot
        for clause in explain(slot[name], slot, job_ad, context)
    ]
    return next(
        (
            refusing_clause
            for refusing_clause in clauses
            if not is_satisfied(refusing_clause.value) and not _changes_with_time(refusing_clause.expression, slot)
        ),
        None,
    )


def _missing_attributes(condition: Expression, slot: ClassAd, job_ad: ClassAd, context: Context) -> tuple[str, ...]:
    """Return the attributes that the job lacks, and without each of which a condition of the slot is undefined."""
    names = dict.fromkeys(name.rpartition(".")[2] for name in _references(condition, slot).external)
    absent = [name for name in names if name not in job_ad]
    return tuple(name for name in absent if _is_undefined(condition, slot, job_ad, set(absent) - {name}, context))


def _is_undefined(condition: Expression, slot: ClassAd, job_ad: ClassAd, given: set[str], context: Context) -> bool:
    """Return True if a condition of the slot is undefined or an error for the job even if these attributes are 0."""
    job = ClassAd(dict.fromkeys(given, 0), job_ad)
    return condition.evaluate(slot, job, context) in (UNDEFINED, ERROR)


def _misfit_by_conditions(
    job_ad: ClassAd, full_slots: Sequence[tuple[str, ClassAd]], context: Context
) -> Misfit | None:
    """Which conditions of Requirements no slot meets at any time; None where there is none, and one of the others may
    be met at another time."""
    requirements = job_ad.get("Requirements")
    if requirements is None:
        return None
    met = [
        [is_satisfied(clause.value) for clause in explain(requirements, job_ad, ad, context)] for _, ad in full_slots
    ]
    conditions = [clause.expression for clause in explain(requirements, job_ad, full_slots[0][1], context)]
    are_changing = [_changes_with_time(condition, job_ad) for condition in conditions]
    unmet_conditions = [
        one for at, one in enumerate(conditions) if not are_changing[at] and not any(row[at] for row in met)
    ]
    if any(are_changing) and not unmet_conditions:
        return None
    nearest_index = max(range(len(full_slots)), key=lambda at: (sum(met[at]), -at))
    name, ad = full_slots[nearest_index]
    unmet = tuple(_unmet_condition(condition, job_ad, ad, context) for condition in unmet_conditions)
    return Misfit(len(full_slots), (), unmet, name)


def _changes_with_time(condition: Expression, ad: ClassAd) -> bool:
    """Whether a condition of an ad may come to something else as time passes, all slots staying as they are."""
    names = {name.rpartition(".")[2].lower() for name in chain(*_references(condition, ad))}
    return bool(names & DYNAMIC_ATTRIBUTES.keys()) or any(word in unparse(condition).lower() for word in _CLOCKS)


_CLOCKS = ("time(", "random(", "currenttime")


def _references(condition: Expression, ad: ClassAd) -> References:
    try:
        return references(condition, ad)
    except EvaluationError:
        return References((), ())


def _unmet_condition(condition: Expression, job_ad: ClassAd, ad: ClassAd, context: Context) -> UnmetCondition:
    names = dict.fromkeys(_references(condition, job_ad).external)
    values = {name: _value(ad, name, context) for name in dict.fromkeys(name.rpartition(".")[2] for name in names)}
    slot_values = {name: "undefined" if value is None else unparse(value) for name, value in values.items()}
    missing_names = tuple(name for name in names if "." not in name and name not in ad)
    return UnmetCondition(unparse(condition), slot_values, missing_names)
