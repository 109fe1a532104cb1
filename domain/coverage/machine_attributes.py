"""Tell which attributes HTCondor's manual lists and no slot of Poolbook has, by machine_attributes.txt."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Literal

from .patterns import Names
from .sections import Section, names_of, sections


@cache
def _sections() -> list[Section]:
    return sections(get_data(__package__, "machine_attributes.txt"))


def listed(kind: Literal["abilities", "facts"]) -> list[str]:
    """Return what a slot would say that it can do (``abilities``), or all that it would say beside (``facts``)."""
    return names_of(_sections(), kind)


@cache
def _abilities() -> frozenset[str]:
    return frozenset(name.lower() for name in listed("abilities"))


@cache
def _unadvertised() -> Names[str]:
    return Names({name: name for name in (*listed("abilities"), *listed("facts"))})


def unadvertised(name: str) -> str | None:
    """Return the attribute of this name that no slot here has, as HTCondor spells it; None: it is none of those."""
    return _unadvertised().get(name)


def ability(name: str) -> bool:
    """Tell whether an attribute says of a slot that it can do something which no slot here can."""
    return name.lower() in _abilities()
