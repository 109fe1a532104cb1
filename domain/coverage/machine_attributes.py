"""List the slot attributes of HTCondor's manual that no slot of Poolbook has, by machine_attributes.txt."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Literal

from ..package_data import Section, names_of, sections
from .patterns import Names


@cache
def _sections() -> list[Section]:
    return sections(get_data(__package__, "machine_attributes.txt"))


def listed(kind: Literal["abilities", "facts"]) -> list[str]:
    """Return attributes that advertise an ability of the slot (``abilities``), or all others (``facts``)."""
    return names_of(_sections(), kind)


@cache
def _abilities() -> frozenset[str]:
    return frozenset(name.lower() for name in listed("abilities"))


@cache
def _unadvertised() -> Names[str]:
    return Names({name: name for name in (*listed("abilities"), *listed("facts"))})


def unadvertised(name: str) -> str | None:
    """Return the attribute of this name that no slot here has, in HTCondor's spelling; None for all others."""
    return _unadvertised().get(name)


def ability(name: str) -> bool:
    """Tell whether an attribute advertises an ability that no slot here has."""
    return name.lower() in _abilities()
