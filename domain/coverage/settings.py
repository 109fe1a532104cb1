"""Tell what follows a setting of HTCondor's configuration here, and what the others would do, by settings.txt."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Final, Literal

from ..package_data import Section, names_of, sections
from .patterns import Names

Kind = Literal["followed", "macro", "unenforced", "subject"]

LIMIT_SUFFIX: Final = "_limit"
"""``<NAME>_LIMIT`` is the concurrency limit of a resource that the site names, if HTCondor has no such setting: the
negotiator follows it."""
OTHER_SUBJECT: Final = "what no part of Poolbook does"


@cache
def _sections() -> list[Section]:
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
