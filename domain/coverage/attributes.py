"""Tell which attributes of jobs and slots nothing here writes or acts on, by two data files.

A submit command is reported where it gives such an attribute a value that asks for something.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pkgutil import get_data
from typing import Literal

from ..package_data import DataSection, names_of, sections
from .settings import Names


@cache
def _of_jobs() -> list[DataSection]:
    return sections(get_data(__package__, "job_attributes.txt"))


@cache
def _of_slots() -> list[DataSection]:
    return sections(get_data(__package__, "machine_attributes.txt"))


# -- jobs ------------------------------------------------------------------------------------------------------------


@cache
def attributes(kind: Literal["not acted on", "no effect"]) -> Mapping[str, frozenset[str]]:
    """Return the attributes of a kind, each with its texts that ask for nothing; an empty text: not in the ad."""
    table = {}
    for line in (line for section in _of_jobs() if section.kind == kind for line in section.lines):
        name, _, usual = line.partition(" = ")
        table[name] = frozenset({"", "undefined", *usual.split(), *(["0"] if usual == "false" else [])})
    return table


@cache
def unwritten() -> tuple[str, ...]:
    """Return the attributes of jobs that HTCondor's access point writes and no ad here has."""
    return tuple(names_of(_of_jobs(), "in no ad"))


@cache
def commands(of: Literal["the parser", "condor_submit", "what is not here"]) -> tuple[str, ...]:
    """Return commands that make no attribute here, some with parts in angle brackets."""
    return tuple(names_of(_of_jobs(), f"commands of {of}"))


# -- slots -----------------------------------------------------------------------------------------------------------


def listed(kind: Literal["abilities", "facts"]) -> list[str]:
    """Return attributes that advertise an ability of the slot (``abilities``), or all others (``facts``)."""
    return names_of(_of_slots(), kind)


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
