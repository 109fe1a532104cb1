"""Custom resources: a machine's resources beside cores, memory and disk, as numbers or as named things.

Source: the manual, "Dividing System Resources in Multi-core Machines" and "Configuring GPUs"; the assignment of things
to slots, and the attributes of their properties in a slot's ad, are the startd's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ..classad import ClassAd, ClassAdSyntaxError, EvaluationError, Expression, Value, parse, unparse
from ..events import Ad
from ..state.job_ad import quoted, unquoted
from .slot_types import Cut, SlotTypeError

if TYPE_CHECKING:
    from ..config import Configuration


class Custom(Struct, frozen=True):
    """A resource of a machine; ``quantity`` and ``ids`` leave offline things out. ``facts``: the rest of its
    inventory."""

    name: str
    quantity: float
    ids: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    properties: Mapping[str, ClassAd] = field(default_factory=dict)
    facts: Ad = field(default_factory=dict)


PREFIX: Final = "MACHINE_RESOURCE_"
INVENTORY: Final = "INVENTORY_"
_TAKEN: Final = frozenset({"cpu", "cpus", "disk", "swap", "mem", "memory", "ram"})
_NAME: Final = re.compile("[a-z_][a-z0-9_]*", re.ASCII)
_GPUS: Final = "GPUs"


def inventories(configuration: Configuration) -> dict[str, str]:
    """Return the commands that list what a machine has of a resource, by the resource's name."""
    begins = (PREFIX + INVENTORY).lower()
    return {
        name[len(begins) :]: configuration.get(name)
        for name in configuration.names()
        if name.lower().startswith(begins) and configuration.get(name)
    }


def custom_resources(configuration: Configuration, told: Mapping[str, str]) -> list[Custom]:
    """Return the custom resources of a machine, by name. ``told`` is the output of each inventory command.

    :raises SlotTypeError: a name is no identifier, or one of the standard resources'
    """
    found = {name.lower(): _of_ad(configuration, name, text) for name, text in told.items()}
    for setting in configuration.names():
        name = setting[len(PREFIX) :]
        lower = name.lower()
        value = configuration.get(setting) if setting.lower().startswith(PREFIX.lower()) else ""
        if not value:
            continue
        if lower == "names" or lower.startswith(INVENTORY.lower()):
            continue
        found[lower] = _of_ad(configuration, name, value) if "\n" in value else _of_value(configuration, name, value)
    if _GPUS.lower() not in found and configuration.get("STARTD_DETECT_GPUS").lower() not in ("", "0", "false"):
        found[_GPUS.lower()] = Custom(_GPUS, 0)
    allowed = {name.lower() for name in _words(configuration.get(f"{PREFIX}NAMES"))}
    for name in found:
        if name in _TAKEN:
            raise SlotTypeError(f"{PREFIX}{found[name].name}: {found[name].name} is a standard resource: rename yours")
        if not _NAME.fullmatch(name):
            raise SlotTypeError(f"{PREFIX}{found[name].name}: a resource is named by letters, digits and underscores")
    return [found[name] for name in sorted(found) if not allowed or name in allowed]


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _count(text: str) -> tuple[float, list[str]]:
    """Return how many things a text means, and their names if it lists names."""
    try:
        value = parse(text).evaluate(ClassAd())
    except (ClassAdSyntaxError, EvaluationError):
        value = None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value), []
    names = _words(text)
    return float(len(names)), names


def _at_hand(name: str, all_of_it: str, offline: str) -> Custom:
    quantity, ids = _count(all_of_it)
    out, names = _count(offline) if offline else (0.0, [])
    if not ids:
        return Custom(name, max(0.0, quantity - out))
    gone = tuple(one for one in ids if one in names)
    return Custom(name, float(len(ids) - len(gone)), tuple(one for one in ids if one not in names), gone)


def _of_value(configuration: Configuration, name: str, value: str) -> Custom:
    return _at_hand(name, value, configuration.get(f"OFFLINE_{PREFIX}{name}"))


def _of_ad(configuration: Configuration, name: str, text: str) -> Custom:
    """Return the resource that an ad describes: Detected<name> is how many or which, nested ads are properties of
    single things (or, under ``common``, of all)."""
    ad = ClassAd.from_old(text)
    offline = _text(ad, f"Offline{name}") or configuration.get(f"OFFLINE_{PREFIX}{name}")
    found = _at_hand(name, _text(ad, f"Detected{name}") or "0", offline)
    nested = {key: value for key in ad if isinstance(value := _value(ad, key), ClassAd)}
    common = next((nested[key] for key in nested if key.lower() == "common"), ClassAd())
    properties = {one: common.copy() for one in found.ids} if common else {}
    known = {one: key for key, one in ((key, _text(value, "id") or key) for key, value in nested.items())}
    for one in found.ids:
        if one in known:
            own = properties.setdefault(one, ClassAd())
            for key in nested[known[one]]:
                if key.lower() != "id":
                    own[key] = nested[known[one]][key]
    facts = {key: unparse(ad[key]) for key in ad if key not in nested and key.lower() != name.lower()}
    return Custom(name, found.quantity, found.ids, found.offline, properties, facts)


def _value(ad: ClassAd, name: str) -> Value | None:
    try:
        return ad.eval(name) if name in ad else None
    except EvaluationError:
        return None


def _text(ad: ClassAd, name: str) -> str:
    value = _value(ad, name)
    return value if isinstance(value, str) else "" if value is None else str(value)


# Things with names, slot by slot


def fits(custom: Custom, number: int, constraint: str) -> bool:
    """Tell whether a thing meets a constraint: by its position, by its name (one of several, parted by commas), or by
    an expression over its properties."""
    one = custom.ids[number]
    if not constraint or one in _words(constraint):
        return True
    try:
        wanted = parse(constraint)
        value = wanted.evaluate(custom.properties.get(one, ClassAd()))
    except (ClassAdSyntaxError, EvaluationError):
        return False
    if isinstance(value, str):
        return value.lower() == one.lower()
    if isinstance(value, int) and not isinstance(value, bool) and unparse(wanted).strip("()").isdigit():
        return value == number
    return one in custom.properties and value not in (False, 0) and isinstance(value, int | float)


def hand_out(customs: Iterable[Custom], cuts: Iterable[Cut]) -> dict[int, dict[str, tuple[str, ...]]]:
    """Return the things of each slot, by slot number and resource: in the slots' order, the first that fit.

    :raises SlotTypeError: too few things meet a slot's constraint
    """
    named = [custom for custom in customs if custom.ids]
    free = {custom.name: list(range(len(custom.ids))) for custom in named}
    given: dict[int, dict[str, tuple[str, ...]]] = {}
    for cut in cuts:
        given[cut.number] = {}
        for custom in named:
            wanted, constraint = int(cut.amount(custom.name)), cut.type.constraints.get(custom.name, "")
            chosen = [number for number in free[custom.name] if fits(custom, number, constraint)][:wanted]
            if len(chosen) < wanted:
                raise SlotTypeError(
                    f"SLOT_TYPE_{cut.type.number}: slot {cut.number} is to have {wanted} {custom.name} such that "
                    f"{constraint}, and {len(chosen)} are left that are: ask for fewer, or for others"
                )
            free[custom.name] = [number for number in free[custom.name] if number not in chosen]
            if chosen:
                given[cut.number][custom.name] = tuple(custom.ids[number] for number in chosen)
    return given


def assigned(ad: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the things of a resource that a slot's ad lists as assigned."""
    return tuple(filter(None, unquoted(ad.get(f"Assigned{name}", '""')).split(",")))


def things(ad: ClassAd, name: str) -> dict[str, ClassAd]:
    """Return the properties of the things of one resource in a slot's ad, by the things' names."""
    begins = f"{name}_".lower()
    found = {}
    for key in ad:
        if key.lower().startswith(begins) and isinstance(value := _value(ad, key), ClassAd) and "Id" in value:
            found[_text(value, "Id")] = value
    return found


def of_things(name: str, ids: Sequence[str], known: Mapping[str, ClassAd]) -> Ad:
    """Return a slot ad's attributes for its things of one resource: names, shared properties, an ad for each."""
    ad = {f"Assigned{name}": quoted(",".join(ids)), f"Available{name}": available(name, ids)}
    properties = [(one, known[one]) for one in ids if one in known]
    shared: dict[str, Expression] = dict(properties[0][1]) if properties else {}
    for _, other in properties[1:]:
        shared = {key: value for key, value in shared.items() if key in other and other[key] == value}
    ad |= {f"{name}_{key}": unparse(value) for key, value in shared.items() if key.lower() != "id"}
    for one, own in properties:
        whole = own.copy()
        whole["Id"] = one
        ad[_attribute(name, one)] = whole.to_new()
    return ad


def available(name: str, ids: Iterable[str]) -> str:
    """Return Available<name>: the list of the attributes with the properties of these things."""
    return "{" + ",".join(_attribute(name, one) for one in ids) + "}"


def _attribute(name: str, one: str) -> str:
    return f"{name}_{re.sub('[^A-Za-z0-9_]+', '_', one)}"
