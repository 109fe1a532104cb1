"""The rows of the tables: transitions with sources, targets, causes and references to the manual.

Slots, jobs, claims, matches and drains move only along the rows of ``rows.txt``. A row's number, which events record,
is unique within its table. Slot rows have the manual's numbers; other rows have a word ("release"). A row with several
sources and targets allows every combination, except from a state to itself; code that fires such a row must name the
target. At most one row connects two states/activities of a slot, but several rows may connect two job statuses
(``evict``, ``requeue``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..package_data import get_data, sections


class TransitionRow(NamedTuple):
    number: str  #: the row's number in events: "10", "12a", "release"
    sources: tuple[str, ...]  #: state/activity ("Claimed/Busy") for slots, a status ("Held") for jobs
    targets: tuple[str, ...]
    reference: str  #: the section of the manual, or the recorded trace, that shows the row
    cause: str
    when: str = ""  #: the conditions that select one of several targets
    letter: str = ""  #: the letter of the manual's state transition to which this row belongs
    name: str = ""  #: the row's name: "retire", "release"

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        return tuple((source, target) for source in self.sources for target in self.targets)


def make_row(number: str, sources: str, targets: str, reference: str, cause: str, when: str = "") -> TransitionRow:
    """Create a row from the columns of a table; multiple sources or targets are separated by commas."""
    return TransitionRow(
        number, tuple(sources.split(", ")), tuple(targets.split(", ")), reference, cause, when, name=number
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
    """Return the manual's rows with a dialect's overrides: rows of the same number are replaced, others are added."""
    return tuple(({r.number: r for r in rows} | {r.number: r for r in overrides}).values())


def states(rows: Iterable[TransitionRow], *first: str) -> tuple[str, ...]:
    """Return ``first`` and then all states of the rows, in order of appearance."""
    return tuple(dict.fromkeys([*first, *(state for r in rows for state in (*r.sources, *r.targets))]))
