"""The rows of the tables: a transition with its sources, targets, cause and place in the reference.

A slot, a job, a claim, a match and a drain move by the rows of ``rows.txt`` alone. A row's number is unique in its
table; events name rows by it. It is the manual's for slots, and a word ("release") for all others. A row holds for each
of its sources and targets, and never from a state to itself; whoever fires one with several targets names the target.
At most one row leads a slot from one state/activity to another; of jobs several may (``evict``, ``requeue``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pkgutil import get_data
from typing import NamedTuple

from ..package_data import sections


class TransitionRow(NamedTuple):
    number: str  #: its name in events: "10", "12a", "release"
    sources: tuple[str, ...]  #: state/activity ("Claimed/Busy") for slots, a status ("Held") for jobs
    targets: tuple[str, ...]
    place: str  #: a section of the manual, or where the row was seen
    cause: str
    when: str = ""  #: the condition of each of several targets
    letter: str = ""  #: the letter of the manual's transition between states of which this row is part
    name: str = ""  #: the row's name in words, HTCondor's, and its trigger's: "retire", "release"

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        return tuple((source, target) for source in self.sources for target in self.targets)


def row(number: str, sources: str, targets: str, place: str, cause: str, when: str = "") -> TransitionRow:
    """Make a row as the tables write it, with several sources or targets in one text, parted by commas."""
    return TransitionRow(
        number, tuple(sources.split(", ")), tuple(targets.split(", ")), place, cause, when, name=number
    )


@cache
def _tables() -> dict[str, tuple[TransitionRow, ...]]:
    found = sections(get_data(__package__, "rows.txt"))
    return {section.kind: tuple(_read(*line.split(" | ")) for line in section.lines) for section in found}


def _read(first: str, *rest: str) -> TransitionRow:
    number, _, letter = first.partition(" ")
    return row(number, *rest)._replace(letter=letter)


def table(name: str) -> tuple[TransitionRow, ...]:
    """Return the rows of a section of ``rows.txt``."""
    return _tables()[name]


def changed(rows: Iterable[TransitionRow], by: Iterable[TransitionRow]) -> tuple[TransitionRow, ...]:
    """Return a dialect's rows: the manual's, those of the same number in their place, and those beyond them."""
    return tuple(({r.number: r for r in rows} | {r.number: r for r in by}).values())


def states(rows: Iterable[TransitionRow], *first: str) -> tuple[str, ...]:
    """Return every state of the rows in order of appearance, ``first`` before them."""
    return tuple(dict.fromkeys([*first, *(state for r in rows for state in (*r.sources, *r.targets))]))
