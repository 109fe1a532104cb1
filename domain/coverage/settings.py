"""Tell what follows a setting of HTCondor's configuration here, and what the others would do, by settings.txt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pkgutil import get_data
from typing import Final, Generic, Literal, TypeVar

from ..package_data import DataSection, names_of, sections

Kind = Literal["followed", "macro", "unenforced", "subject"]

LIMIT_SUFFIX: Final = "_limit"
"""``<NAME>_LIMIT`` is the concurrency limit of a resource that the site names, if HTCondor has no such setting: the
negotiator follows it."""
OTHER_SUBJECT: Final = "what no part of Poolbook does"


@cache
def _sections() -> list[DataSection]:
    return sections(get_data(__package__, "settings.txt"))


def rows(kind: Kind) -> list[tuple[str, list[str]]]:
    """Return the sections of a kind: a description, and the names that it describes."""
    return [(section.about, section.names) for section in _sections() if section.kind == kind]


@cache
def _about(kind: Kind) -> Names[str]:
    return Names({name: about for about, names in rows(kind) for name in names})


def macros() -> list[str]:
    """Return the names that HTCondor's defaults define for use as ``$(NAME)``."""
    return names_of(_sections(), "macro")


def follower(name: str) -> str | None:
    """Return what follows a setting, by its name without a daemon's or a slot's prefix; None: nothing does."""
    return _about("macro").get(name) or _about("followed").get(name)


def unenforced(name: str) -> str | None:
    """Return what an unenforced setting is part of, else None; callers handle names in _LIMIT (``LIMIT_SUFFIX``)."""
    return _about("unenforced").get(name)


def subject(name: str) -> str:
    """Return what HTCondor does by a setting that is not followed here."""
    return _about("subject").get(name) or OTHER_SUBJECT


# Find values by names with a part that a site chooses, such as ``GROUP_QUOTA_<groupname>``, without case.

T = TypeVar("T")

_PART = re.compile("<[^>]*>")
_DAEMONS = (
    "c_gahp|collector|credd|dagman|defrag|gangliad|gridmanager|had|job_router|kbdd|librarian|master|negotiator|"
    "placementd|preen|procd|replication|rooster|schedd|shadow|shared_port|startd|starter|submit|tool|transferer|vm_gahp"
)
_PARTS = {"<N>": "[0-9]+", "<SUBSYS>": f"(?:{_DAEMONS})"}


def _regex(pattern: str) -> str:
    """Return a pattern as a regular expression: ``<N>`` is a number, ``<SUBSYS>`` a daemon, any other part whatever."""
    pieces = (re.escape(piece.lower()) for piece in _PART.split(pattern))
    parts = [_PARTS.get(part, ".+") for part in _PART.findall(pattern)]
    return "".join(piece + part for piece, part in zip(pieces, [*parts, ""], strict=True))


class Names(Generic[T]):
    """A value for each name. A full name goes before the patterns, which are tried in the order given."""

    def __init__(self, table: Mapping[str, T]) -> None:
        self._names = {name.lower(): value for name, value in table.items() if "<" not in name}
        self._patterns = [(re.compile(_regex(name)), value) for name, value in table.items() if "<" in name]

    def get(self, name: str) -> T | None:
        """Return the value of a name; None where the table has none."""
        key = name.lower()
        if key in self._names:
            return self._names[key]
        return next((value for pattern, value in self._patterns if pattern.fullmatch(key)), None)


# DAEMON_LIST: which daemons a configuration starts.
#
# A pool here is one process with the roles of ``ROLES``, and has them whatever the list says. What counts of the list
# is whether it names an option of ``OPTIONS``.

DAEMON_LIST: Final = "DAEMON_LIST"
ROLES: Final = frozenset({"COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD"})
"""The daemons that every pool has the work of."""
DEFRAG: Final = "DEFRAG"
"""The daemon that defragments a pool."""
OPTIONS: Final = frozenset({DEFRAG})
"""The daemons that a pool does the work of if they are listed."""
_UNSEEN: Final = frozenset({"MASTER", "SHARED_PORT"})
"""Daemons whose work nobody can miss here."""


_FURTHER: Final = re.compile(r"^NEGOTIATOR_[A-Z0-9_]+$", re.ASCII)
"""Further negotiators (``domain/state/negotiators``)."""


def daemons(text: str) -> frozenset[str]:
    """Return the names of a list, in capital letters."""
    return frozenset(text.upper().replace(",", " ").split())


def is_followed(text: str) -> bool:
    """Tell whether a pool does what the list says: it names no daemon that there is not, and leaves no role out. (One
    that names no role only adds to what there is.)"""
    named = {_FURTHER.sub("NEGOTIATOR", name) for name in daemons(text) - _UNSEEN}
    return named <= ROLES | OPTIONS and named & ROLES in (frozenset(), ROLES)
