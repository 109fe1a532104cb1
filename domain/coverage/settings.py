"""Describe which part of Poolbook implements a setting of HTCondor, and what other settings control (settings.txt)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pkgutil import get_data
from typing import Final, Generic, Literal, TypeVar

from ..package_data import DataSection, names_of, sections

Kind = Literal["followed", "macro", "unenforced", "subject"]

LIMIT_SUFFIX: Final = "_limit"
"""``<NAME>_LIMIT`` is the concurrency limit of a custom resource, if HTCondor has no setting of this name."""
UNKNOWN_EFFECT: Final = "what no part of Poolbook does"


@cache
def _sections() -> list[DataSection]:
    return sections(get_data(__package__, "settings.txt"))


def sections_of(kind: Kind) -> list[tuple[str, list[str]]]:
    """Return the sections of a kind: descriptions with the settings that they describe."""
    return [(section.about, section.names) for section in _sections() if section.kind == kind]


@cache
def _descriptions(kind: Kind) -> NameTable[str]:
    return NameTable({name: about for about, names in sections_of(kind) for name in names})


def macros() -> list[str]:
    """Return the names that HTCondor's defaults define only for use as ``$(NAME)``."""
    return names_of(_sections(), "macro")


def implemented_by(name: str) -> str | None:
    """Return the part of Poolbook that implements a setting, given without prefixes; None if none does."""
    return _descriptions("macro").get(name) or _descriptions("followed").get(name)


def restriction(name: str) -> str | None:
    """Return what a setting restricts that Poolbook does not enforce, else None. Callers handle ``LIMIT_SUFFIX``."""
    return _descriptions("unenforced").get(name)


def describe_effect(name: str) -> str:
    """Return what a setting controls in HTCondor that Poolbook does not implement."""
    return _descriptions("subject").get(name) or UNKNOWN_EFFECT


# Case-insensitive look-up of names with placeholders, such as ``GROUP_QUOTA_<groupname>``.

T = TypeVar("T")

_PART = re.compile("<[^>]*>")
_DAEMONS = (
    "c_gahp|collector|credd|dagman|defrag|gangliad|gridmanager|had|job_router|kbdd|librarian|master|negotiator|"
    "placementd|preen|procd|replication|rooster|schedd|shadow|shared_port|startd|starter|submit|tool|transferer|vm_gahp"
)
_PART_PATTERNS = {"<N>": "[0-9]+", "<SUBSYS>": f"(?:{_DAEMONS})"}


def _regex(pattern: str) -> str:
    """Convert a pattern to a regular expression: ``<N>`` is a number, ``<SUBSYS>`` a daemon, any other any text."""
    pieces = (re.escape(piece.lower()) for piece in _PART.split(pattern))
    parts = [_PART_PATTERNS.get(part, ".+") for part in _PART.findall(pattern)]
    return "".join(piece + part for piece, part in zip(pieces, [*parts, ""], strict=True))


class NameTable(Generic[T]):
    """A table of values by name or pattern. Names come first, then patterns in their order."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._names = {name.lower(): value for name, value in table.items() if "<" not in name}
        self._patterns = [(re.compile(_regex(name)), value) for name, value in table.items() if "<" in name]

    def get(self, name: str) -> T | None:
        """Return the value of a name; None if the table has none."""
        key = name.lower()
        if key in self._names:
            return self._names[key]
        return next((value for pattern, value in self._patterns if pattern.fullmatch(key)), None)


# DAEMON_LIST, the daemons that a configuration starts.
#
# A pool is one process that always has the ``ROLES``. The list only determines which of the ``OPTIONS`` it has.

DAEMON_LIST: Final = "DAEMON_LIST"
ROLES: Final = frozenset({"COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD"})
"""The daemons whose work every pool does."""
DEFRAG: Final = "DEFRAG"
"""The daemon that defragments a pool."""
OPTIONS: Final = frozenset({DEFRAG})
"""The daemons whose work a pool does if they are listed."""
_INVISIBLE: Final = frozenset({"MASTER", "SHARED_PORT"})
"""Daemons that a pool does not need, so listing them is harmless."""
_EXTRA_NEGOTIATOR: Final = re.compile(r"^NEGOTIATOR_[A-Z0-9_]+$", re.ASCII)
"""Additional negotiators (``domain/state/negotiators``)."""


def parse_daemon_list(text: str) -> frozenset[str]:
    """Return the names of a list in upper case."""
    return frozenset(text.upper().replace(",", " ").split())


def is_possible(text: str) -> bool:
    """Check whether a pool can do what the list says: it has no unknown daemon, and either all roles or none (which
    only adds daemons)."""
    named = {_EXTRA_NEGOTIATOR.sub("NEGOTIATOR", name) for name in parse_daemon_list(text) - _INVISIBLE}
    return named <= ROLES | OPTIONS and named & ROLES in (frozenset(), ROLES)
