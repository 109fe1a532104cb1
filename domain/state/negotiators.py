"""The negotiators of a pool, and the settings of each.

A pool has one negotiator, NEGOTIATOR, unless its configuration names others in DAEMON_LIST. A setting for only one of
several negotiators is logged as NEGOTIATOR_A.PREEMPTION_RANK. A slot belongs to the first negotiator whose
NEGOTIATOR_SLOT_CONSTRAINT is true for it; all other slots belong to the negotiator without a constraint, if there is
one. Source: the manual, "Running Multiple Negotiators in One Pool", which makes the administrator responsible for
disjoint constraints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..names import NEGOTIATOR

NEGOTIATORS: Final = "NEGOTIATORS"
"""The setting with the names of a pool's negotiators, unless NEGOTIATOR is the only one."""
CONSTRAINT: Final = "NEGOTIATOR_SLOT_CONSTRAINT"
_NAME: Final = r"(?a)NEGOTIATOR(_[A-Z0-9_]+)?"


def negotiator_names(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the negotiators of a pool, in the order of DAEMON_LIST."""
    return tuple(settings.get(NEGOTIATORS, NEGOTIATOR).split())


def has_several(settings: Mapping[str, str]) -> bool:
    """Return True if a pool has negotiators other than NEGOTIATOR."""
    return NEGOTIATORS in settings


def negotiator_shown(settings: Mapping[str, str], name: str) -> str:
    """Return the negotiator that an event names, or an empty text if the pool has only one."""
    return name or (NEGOTIATOR if has_several(settings) else "")


def unknown_negotiator(settings: Mapping[str, str], name: str) -> str:
    """Return an error message if `name` does not select one of a pool's negotiators, or an empty string if it does."""
    known = negotiator_names(settings)
    listed = ", ".join(known)
    if not name:
        return f"this pool has several negotiators ({listed}): select one with -name" if len(known) > 1 else ""
    return "" if name in known else f"there is no negotiator {name}; the pool has {listed}"


def negotiator_named(settings: Mapping[str, str], name: str) -> str:
    """Return the negotiator with this name, which may be in any case. An empty name selects a pool's only negotiator.

    :raises LookupError: if the name is unknown, or is empty and the pool has several negotiators
    """
    upper = name.upper()
    if problem := unknown_negotiator(settings, upper):
        raise LookupError(problem)
    return upper or negotiator_names(settings)[0]


def name_in_events(name: str) -> str:
    """Return a negotiator's name as events record it: empty for NEGOTIATOR."""
    return "" if name == NEGOTIATOR else name


def is_negotiator_name(text: str) -> bool:
    """Return True if the text is a valid name of a negotiator: NEGOTIATOR, or NEGOTIATOR_ and a suffix."""
    return re.fullmatch(_NAME, text) is not None


def split_prefix(name: str) -> tuple[str, str]:
    """Split NEGOTIATOR_A.PREEMPTION_RANK into negotiator and setting. For other names, the negotiator is empty."""
    negotiator, dot, setting = name.partition(".")
    return (negotiator, setting) if dot and is_negotiator_name(negotiator) else ("", name)


def settings_for(settings: Mapping[str, str], negotiator: str) -> dict[str, str]:
    """Return the settings of one of several negotiators, including the constraint that selects its slots."""
    prefix = f"{negotiator}."
    overrides = {name[len(prefix) :]: text for name, text in settings.items() if name.startswith(prefix)}
    merged = {name: text for name, text in settings.items() if not split_prefix(name)[0]} | overrides
    constraint = slot_constraint(settings, negotiator)
    if constraint:
        merged[CONSTRAINT] = constraint
    return merged


def negotiator_settings(settings: Mapping[str, str], negotiator: str) -> Mapping[str, str]:
    """Return the settings of a negotiator; in a pool with one negotiator, the pool's settings."""
    return settings_for(settings, negotiator or NEGOTIATOR) if NEGOTIATORS in settings else settings


def slot_constraint(settings: Mapping[str, str], negotiator: str) -> str:
    """Return the constraint that selects the slots of one of several negotiators; empty: all slots."""
    return _partitions(tuple((name, _constraint(settings, name)) for name in negotiator_names(settings))).get(
        negotiator, ""
    )


def _constraint(settings: Mapping[str, str], negotiator: str) -> str:
    return settings.get(f"{negotiator}.{CONSTRAINT}", settings.get(CONSTRAINT, "")).strip()


@lru_cache(100)
def _partitions(constraints: tuple[tuple[str, str], ...]) -> dict[str, str]:
    partitions: dict[str, str] = {}
    earlier: list[str] = []
    for name, text in sorted(constraints, key=lambda pair: not pair[1]):
        partitions[name] = " && ".join(
            [*([f"({text})"] if text else []), *(f"((({each}) ? true : false) =!= true)" for each in earlier)]
        )
        earlier += [text] if text else []
    return partitions


def invalid_names(settings: Mapping[str, str]) -> str:
    """Return an error message if a negotiator's name is invalid, or an empty string if all are valid."""
    negotiators = negotiator_names(settings)
    for name in negotiators:
        if not is_negotiator_name(name):
            return f"{name} is not a valid negotiator name; use NEGOTIATOR, or NEGOTIATOR_ and letters or digits"
    if len(set(negotiators)) < len(negotiators):
        return f"{NEGOTIATORS} = {settings[NEGOTIATORS]}: a negotiator is named twice"
    return ""


def invalid_negotiators(settings: Mapping[str, str]) -> str:
    """Return an error message if a name is invalid or two negotiators have the same slots; empty otherwise."""
    if problem := invalid_names(settings):
        return problem
    name_by_constraint: dict[str, str] = {}
    for name in negotiator_names(settings):
        text = _constraint(settings, name)
        if text in name_by_constraint:
            shared = f"the same {CONSTRAINT} ({text})" if text else f"no {CONSTRAINT}"
            other = name_by_constraint[text]
            return f"{other} and {name} have {shared}: set {name}.{CONSTRAINT} to a constraint for its own slots"
        name_by_constraint[text] = name
    return ""
