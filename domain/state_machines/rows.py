"""The rows of the tables: transitions with their sources, targets, causes and places in the manual.

Slots, jobs, claims, matches and drains move only along the rows of ``rows.txt``. A row's number, which events record,
is unique in its table. For slots it is the manual's, otherwise a word ("release"). A row with several sources and
targets allows every combination, except from a state to itself; code that fires it must name the target. Two
state/activity pairs of slots are connected by at most one row, but two job statuses may be connected by several
(``evict``, ``requeue``).
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
    place: str  #: a section of the manual, or a recorded trace that shows the row
    cause: str
    when: str = ""  #: the conditions for several targets
    letter: str = ""  #: the letter of the manual's transition between states to which this row belongs
    name: str = ""  #: the row's name: "retire", "release"

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        return tuple((source, target) for source in self.sources for target in self.targets)


def make_row(number: str, sources: str, targets: str, place: str, cause: str, when: str = "") -> TransitionRow:
    """Make a row from the columns of a table, in which several sources or targets are separated by commas."""
    return TransitionRow(
        number, tuple(sources.split(", ")), tuple(targets.split(", ")), place, cause, when, name=number
    )


@cache
def _tables() -> dict[str, tuple[TransitionRow, ...]]:
    tables = sections(get_data(__package__, "rows.txt"))
    return {section.kind: tuple(_parse_row(*line.split(" | ")) for line in section.lines) for section in tables}


def _parse_row(number_and_letter: str, *columns: str) -> TransitionRow:
    number, _, letter = number_and_letter.partition(" ")
    return make_row(number, *columns)._replace(letter=letter)


def table(name: str) -> tuple[TransitionRow, ...]:
    """Return the rows of a section of ``rows.txt``."""
    return _tables()[name]


def override_rows(rows: Iterable[TransitionRow], overrides: Iterable[TransitionRow]) -> tuple[TransitionRow, ...]:
    """Return a dialect's rows: the manual's rows, replaced by overrides of the same number, and the other overrides."""
    return tuple(({r.number: r for r in rows} | {r.number: r for r in overrides}).values())


def states(rows: Iterable[TransitionRow], *first: str) -> tuple[str, ...]:
    """Return ``first`` and then all states of the rows, in order of appearance."""
    return tuple(dict.fromkeys([*first, *(state for r in rows for state in (*r.sources, *r.targets))]))
