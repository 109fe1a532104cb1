"""Tell which attributes submit commands make that nothing here acts on, and which commands make none.

A command is reported where it gives such an attribute a value that asks for something.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pkgutil import get_data
from typing import Literal

from ..package_data import Section, names_of, sections


@cache
def _sections() -> list[Section]:
    return sections(get_data(__package__, "job_attributes.txt"))


@cache
def attributes(kind: Literal["not acted on", "no effect"]) -> Mapping[str, frozenset[str]]:
    """Return the attributes of a kind, each with its texts that ask for nothing; an empty text: not in the ad."""
    found = {}
    for line in (line for section in _sections() if section.kind == kind for line in section.lines):
        name, _, usual = line.partition(" = ")
        found[name] = frozenset({"", "undefined", *usual.split(), *(["0"] if usual == "false" else [])})
    return found


@cache
def unwritten() -> tuple[str, ...]:
    """Return the attributes of jobs that HTCondor's access point writes and no ad here has."""
    return tuple(names_of(_sections(), "in no ad"))


@cache
def commands(of: Literal["the parser", "condor_submit", "what is not here"]) -> tuple[str, ...]:
    """Return commands that make no attribute here, some with parts in angle brackets."""
    return tuple(names_of(_sections(), f"commands of {of}"))
