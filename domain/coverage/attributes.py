"""The attributes of jobs and slots that Poolbook does not write or use, from two data files.

A submit command is reported if it sets such an attribute to a value other than the attribute's neutral (harmless)
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from ..package_data import DataSection, get_data, names_of, sections
from .settings import NameTable


@cache
def _job_sections() -> list[DataSection]:
    return sections(get_data(__package__, "job_attributes.txt"))


@cache
def _slot_sections() -> list[DataSection]:
    return sections(get_data(__package__, "machine_attributes.txt"))


@cache
def attributes(kind: Literal["not acted on", "no effect"]) -> Mapping[str, frozenset[str]]:
    """Return the attributes of a kind, each with its neutral values; an empty text means that the ad lacks it."""
    table = {}
    for line in (line for section in _job_sections() if section.kind == kind for line in section.lines):
        name, _, usual = line.partition(" = ")
        table[name] = frozenset({"", "undefined", *usual.split(), *(["0"] if usual == "false" else [])})
    return table


@cache
def unwritten_attributes() -> tuple[str, ...]:
    """Return the job attributes that HTCondor's access point writes but Poolbook does not."""
    return tuple(names_of(_job_sections(), "in no ad"))


@cache
def commands(of: Literal["the parser", "condor_submit", "what is not here"]) -> tuple[str, ...]:
    """Return commands that set no attribute in Poolbook, some with placeholders in angle brackets."""
    return tuple(names_of(_job_sections(), f"commands of {of}"))


def slot_attributes(kind: Literal["abilities", "facts"]) -> list[str]:
    """Return the missing slot attributes that advertise capabilities (``abilities``), or all others (``facts``)."""
    return names_of(_slot_sections(), kind)


@cache
def _capabilities() -> frozenset[str]:
    return frozenset(name.lower() for name in slot_attributes("abilities"))


@cache
def _absent_attributes() -> NameTable[str]:
    return NameTable({name: name for name in (*slot_attributes("abilities"), *slot_attributes("facts"))})


def absent_attribute(name: str) -> str | None:
    """Return HTCondor's spelling of an attribute that no slot has, or None for any other attribute."""
    return _absent_attributes().get(name)


def is_missing_capability(name: str) -> bool:
    """Check whether an attribute advertises a capability that no slot has."""
    return name.lower() in _capabilities()
