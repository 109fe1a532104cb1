"""A row of a table: which transition, from where, to where, why, and who says so.

A slot, a job, a claim, a match and a drain each begin in an initial state and move by such rows alone. The rules of a
table, each of which a test holds:

* A row's number stands on no other row of its table. An event names its row by it. For slots it is the manual's, with a
  letter behind it where a dialect goes beyond the manual ("12a"); for all others it is a word ("release").
* A row's name is a word of HTCondor's. For slots ``slot_rows.SlotRow`` has it; for all others it is the number.
* A row holds for each of its sources and each of its targets, and never from a state to itself.
* A row with several targets says in ``when`` which is meant when, and whoever fires it says which it was.
* For slots, from one state/activity to another leads one row or none: a transition that was seen in a log can be named.
  For jobs the row is what happened, so that two may lead the same way (``evict``, ``requeue``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """One transition of a table."""

    number: str
    """By what events name the row: "10", "12a", "release"."""
    sources: tuple[str, ...]
    """From where: state/activity ("Claimed/Busy") for slots, a status ("Held") for jobs."""
    targets: tuple[str, ...]
    place: str
    """Where the reference says so: a section of the manual, or where it was seen."""
    cause: str
    when: str = ""
    """For a row with several targets: which is meant when."""
    letter: str = ""
    """The letter of the manual's transition between states that this row takes part in; empty if in none."""
    name: str = ""
    """The row's name in words, which also is its trigger's: "retire", "release"."""

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Each (source, target) that the row allows."""
        return tuple((source, target) for source in self.sources for target in self.targets)


def row(number: str, sources: str, targets: str, place: str, cause: str, when: str = "") -> Row:
    """Make a row as the tables write it: several sources or targets stand in one text, with commas."""
    return Row(number, tuple(sources.split(", ")), tuple(targets.split(", ")), place, cause, when, name=number)


def states(rows: Iterable[Row], *first: str) -> tuple[str, ...]:
    """Every state that the rows name, those of ``first`` before them, in the order in which they come up."""
    return tuple(dict.fromkeys([*first, *(state for r in rows for state in (*r.sources, *r.targets))]))
