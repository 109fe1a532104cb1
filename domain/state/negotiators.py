"""The negotiators of a pool: which there are, and what each of them reads of the settings.

A pool has one, NEGOTIATOR, unless its configuration names others in DAEMON_LIST. What it sets for one of them alone
stands in the log as NEGOTIATOR_A.PREEMPTION_RANK. Each has the slots for which its NEGOTIATOR_SLOT_CONSTRAINT is true
and that of none before it is; the one without a constraint, of which there is one at most, has the rest. Source: the
manual, "Running Multiple Negotiators in One Pool", which leaves it to the administrator that no slot is of two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ..names import NEGOTIATOR

NEGOTIATORS: Final = "NEGOTIATORS"
"""The setting with the names of a pool's negotiators, where it has several or another one than NEGOTIATOR."""
CONSTRAINT: Final = "NEGOTIATOR_SLOT_CONSTRAINT"
_NAME: Final = re.compile(r"NEGOTIATOR(_[A-Z0-9_]+)?", re.ASCII)


def names(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the negotiators that there are, in the order in which DAEMON_LIST names them."""
    return tuple(settings.get(NEGOTIATORS, NEGOTIATOR).split())


def has_several(settings: Mapping[str, str]) -> bool:
    """Tell whether a pool has other negotiators than NEGOTIATOR alone."""
    return NEGOTIATORS in settings


def unnamed(settings: Mapping[str, str], name: str) -> str:
    """Say what is wrong with the name by which one of a pool's negotiators is asked for; empty: nothing."""
    there = names(settings)
    which = ", ".join(there)
    if not name:
        return f"this pool has several negotiators ({which}): say which one, with -name" if len(there) > 1 else ""
    return "" if name in there else f"there is no negotiator {name}; there {'are' if len(there) > 1 else 'is'} {which}"


def negotiator_named(settings: Mapping[str, str], name: str) -> str:
    """Return the negotiator that is asked for by a name, in any case of letters, as its settings have it.

    :raises LookupError: there is none of the name, or several and none is named
    """
    upper = name.upper()
    if words := unnamed(settings, upper):
        raise LookupError(words)
    return upper or names(settings)[0]


def short(name: str) -> str:
    """Return a negotiator's name as events have it: empty for NEGOTIATOR."""
    return "" if name == NEGOTIATOR else name


def is_name(text: str) -> bool:
    """Tell whether this can be the name of a negotiator: NEGOTIATOR, or NEGOTIATOR_ with something behind it."""
    return _NAME.fullmatch(text) is not None


def own_part(name: str) -> tuple[str, str]:
    """Return the negotiator and the setting of NEGOTIATOR_A.PREEMPTION_RANK; an empty negotiator for any other name."""
    negotiator, dot, setting = name.partition(".")
    return (negotiator, setting) if dot and is_name(negotiator) else ("", name)


def settings_for(settings: Mapping[str, str], negotiator: str) -> dict[str, str]:
    """Return the settings as one of several negotiators has them, its slots among them."""
    begins = f"{negotiator}."
    own = {name[len(begins) :]: text for name, text in settings.items() if name.startswith(begins)}
    found = {name: text for name, text in settings.items() if not own_part(name)[0]} | own
    constraint = partition(settings, negotiator)
    if constraint:
        found[CONSTRAINT] = constraint
    return found


def as_one(settings: Mapping[str, str], negotiator: str) -> Mapping[str, str]:
    """Return the settings as the named negotiator has them; of a pool with one, those that there are."""
    return settings_for(settings, negotiator or NEGOTIATOR) if NEGOTIATORS in settings else settings


def partition(settings: Mapping[str, str], negotiator: str) -> str:
    """Return the constraint of the slots of one of several negotiators; empty: all are."""
    return _partitions(tuple((name, _constraint(settings, name)) for name in names(settings))).get(negotiator, "")


def _constraint(settings: Mapping[str, str], negotiator: str) -> str:
    return settings.get(f"{negotiator}.{CONSTRAINT}", settings.get(CONSTRAINT, "")).strip()


@lru_cache(100)
def _partitions(constraints: tuple[tuple[str, str], ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    before: list[str] = []
    for name, text in sorted(constraints, key=lambda one: not one[1]):
        found[name] = " && ".join(
            [*([f"({text})"] if text else []), *(f"((({one}) ? true : false) =!= true)" for one in before)]
        )
        before += [text] if text else []
    return found


def misnamed(settings: Mapping[str, str]) -> str:
    """Say what is wrong with the names of the negotiators; empty: nothing."""
    named = names(settings)
    for name in named:
        if not is_name(name):
            return f"{name} is no name of a negotiator: NEGOTIATOR, or NEGOTIATOR_ with letters and digits behind it"
    if len(set(named)) < len(named):
        return f"{NEGOTIATORS} = {settings[NEGOTIATORS]}: a negotiator is named twice"
    return ""


def wrong(settings: Mapping[str, str]) -> str:
    """Say what is wrong with the negotiators of these settings; empty: nothing. Two that have the same slots are."""
    if words := misnamed(settings):
        return words
    seen: dict[str, str] = {}
    for name in names(settings):
        text = _constraint(settings, name)
        if text in seen:
            of = f"the same {CONSTRAINT} ({text})" if text else f"no {CONSTRAINT}"
            return f"{seen[text]} and {name} have {of}: set {name}.{CONSTRAINT} to the slots that are to be its own"
        seen[text] = name
    return ""
