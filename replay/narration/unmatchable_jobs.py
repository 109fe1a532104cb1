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
from ...domain.classad.matching import accepts, requirements_met
from ...domain.classad.values import ContextError, EvaluationError
from ...domain.events import Ad
from ...domain.startd.moment_attributes import DYNAMIC_ATTRIBUTES
from ...domain.state.caches import ad_of
from ...domain.state.user_maps import NO_MAPS, UserMaps

REQUEST = "Request"
WHOLE = "TotalSlot"
"""How the names of what a slot has begin when no part of it is in use."""


@frozen
class Short:
    """More is asked of a resource than any slot has: how much, and what the largest slot has."""

    resource: str
    asked: float
    most: float


@frozen
class Unmet:
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
    short: tuple[Short, ...] = ()
    unmet: tuple[Unmet, ...] = ()
    nearest: str = ""
    refused: RefusingSlots | None = None


def misfit(job: Ad, slots: Iterable[tuple[str, Ad]], now: int, maps: UserMaps = NO_MAPS) -> Misfit | None:
    """Return why no slot could ever run the job; None if one could, or that is unknown.

    :param job: the job's ad
    :param slots: names and ads of the pool's slots, without dynamic ones
    :param now: the instant, in seconds
    :param maps: what ``userMap()`` looks names up in
    """
    try:
        whole = [(name, ad_of(at_full_size(ad))) for name, ad in sorted(slots)]
        return _misfit(ad_of(job), whole, Context(now=now, user_maps=maps))
    except ContextError:  # it reads a value that is drawn again in each cycle
        return None


def _misfit(mine: ClassAd, whole: Sequence[tuple[str, ClassAd]], context: Context) -> Misfit | None:
    requests = {name[len(REQUEST) :]: _number(mine, name, context) for name in mine if _is_request(name)}
    asked = {name: amount for name, amount in requests.items() if amount}
    if not whole:
        return Misfit(0)
    has = [{name: _number(ad, name, context) for name in asked} for _, ad in whole]
    enough = [all(amounts[name] >= amount for name, amount in asked.items()) for amounts in has]
    refusing = []
    for roomy, (name, ad) in zip(enough, whole, strict=True):
        if roomy and requirements_met(mine, ad, context):
            against = _against(ad, mine, context)
            if against is None:
                return None
            refusing.append((name, against))
    if refusing:
        name, (condition, value) = refusing[0]
        lacks = _missing(condition, dict(whole)[name], mine, context)
        refused = RefusingSlots(len(refusing), unparse(condition), unparse(value), lacks)
        return Misfit(len(whole), nearest=name, refused=refused)
    most = {name: max(amounts[name] for amounts in has) for name in asked}
    short = tuple(Short(name, amount, most[name]) for name, amount in asked.items() if most[name] < amount)
    if short:
        return Misfit(len(whole), short)
    if not any(enough):
        return Misfit(len(whole))
    return _by_conditions(mine, whole, context)


def at_full_size(ad: Ad) -> Ad:
    """A slot's ad as it is when no part of the slot is in use."""
    sizes = {name[len(WHOLE) :]: text for name, text in ad.items() if name.startswith(WHOLE)}
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


def _against(slot: ClassAd, mine: ClassAd, context: Context) -> ValuedClause | None:
    """Return the condition of a slot's START or Requirements that keeps the job out at all times; None if there is
    none."""
    clauses = [
        each for name in ("Start", "Requirements") if name in slot for each in explain(slot[name], slot, mine, context)
    ]
    return next((one for one in clauses if not accepts(one.value) and not _moves(one.expression, slot)), None)


def _missing(condition: Expression, slot: ClassAd, mine: ClassAd, context: Context) -> tuple[str, ...]:
    """Return the attributes that the job lacks, and without each of which a condition of the slot is undefined."""
    read = dict.fromkeys(name.rpartition(".")[2] for name in _references(condition, slot).external)
    absent = [name for name in read if name not in mine]
    return tuple(name for name in absent if _is_undefined(condition, slot, mine, set(absent) - {name}, context))


def _is_undefined(condition: Expression, slot: ClassAd, mine: ClassAd, given: set[str], context: Context) -> bool:
    """Return True if a condition of the slot is undefined or an error for the job even if these attributes are 0."""
    job = ClassAd(dict.fromkeys(given, 0), mine)
    return condition.evaluate(slot, job, context) in (UNDEFINED, ERROR)


def _by_conditions(mine: ClassAd, whole: Sequence[tuple[str, ClassAd]], context: Context) -> Misfit | None:
    """Which conditions of Requirements no slot meets at any time; None where there is none, and one of the others may
    be met at another time."""
    requirements = mine.get("Requirements")
    if requirements is None:
        return None
    met = [[accepts(clause.value) for clause in explain(requirements, mine, ad, context)] for _, ad in whole]
    conditions = [clause.expression for clause in explain(requirements, mine, whole[0][1], context)]
    moves = [_moves(condition, mine) for condition in conditions]
    unmet = [one for at, one in enumerate(conditions) if not moves[at] and not any(row[at] for row in met)]
    if any(moves) and not unmet:
        return None
    best = max(range(len(whole)), key=lambda at: (sum(met[at]), -at))
    name, ad = whole[best]
    unmet_ = tuple(_unmet(condition, mine, ad, context) for condition in unmet)
    return Misfit(len(whole), (), unmet_, name)


def _moves(condition: Expression, ad: ClassAd) -> bool:
    """Whether a condition of an ad may come to something else as time passes, all slots staying as they are."""
    read = {name.rpartition(".")[2].lower() for name in chain(*_references(condition, ad))}
    return bool(read & DYNAMIC_ATTRIBUTES.keys()) or any(word in unparse(condition).lower() for word in _CLOCKS)


_CLOCKS = ("time(", "random(", "currenttime")


def _references(condition: Expression, ad: ClassAd) -> References:
    try:
        return references(condition, ad)
    except EvaluationError:
        return References((), ())


def _unmet(condition: Expression, mine: ClassAd, ad: ClassAd, context: Context) -> Unmet:
    read = dict.fromkeys(_references(condition, mine).external)
    values = {name: _value(ad, name, context) for name in dict.fromkeys(name.rpartition(".")[2] for name in read)}
    has = {name: "undefined" if value is None else unparse(value) for name, value in values.items()}
    lacks = tuple(name for name in read if "." not in name and name not in ad)
    return Unmet(unparse(condition), has, lacks)
