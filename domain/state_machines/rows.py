"""The rows of the tables: a transition with its sources, targets, cause and place in the reference.

A slot, a job, a claim, a match and a drain each begin in an initial state and move by such rows alone. Tests hold the
rules of a table:

* A row's number is unique in its table. Events name rows by it. For slots it is the manual's, with a letter where a
  dialect goes beyond the manual ("12a"); for all others it is a word ("release").
* A row's name is a word of HTCondor's. For slots ``slot_rows.SlotRow`` has it; for all others it is the number.
* A row holds for each of its sources and each of its targets, and never from a state to itself.
* A row with several targets says in ``when`` which is meant when, and whoever fires it names the target.
* For slots, at most one row leads from one state/activity to another: a transition seen in a log has one name. For jobs
  the row is what happened, so that two may lead the same way (``evict``, ``requeue``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    number: str
    """Its name in events: "10", "12a", "release"."""
    sources: tuple[str, ...]
    """State/activity ("Claimed/Busy") for slots, a status ("Held") for jobs."""
    targets: tuple[str, ...]
    place: str
    """A section of the manual, or where the row was seen."""
    cause: str
    when: str = ""
    """The condition of each of several targets."""
    letter: str = ""
    """The letter of the manual's transition between states of which this row is part; empty if none."""
    name: str = ""
    """The row's name in words, and its trigger's: "retire", "release"."""

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        return tuple((source, target) for source in self.sources for target in self.targets)


def row(number: str, sources: str, targets: str, place: str, cause: str, when: str = "") -> Row:
    """Make a row as the tables write it, with several sources or targets in one text, parted by commas."""
    return Row(number, tuple(sources.split(", ")), tuple(targets.split(", ")), place, cause, when, name=number)


def states(rows: Iterable[Row], *first: str) -> tuple[str, ...]:
    """Return every state of the rows in order of appearance, ``first`` before them."""
    return tuple(dict.fromkeys([*first, *(state for r in rows for state in (*r.sources, *r.targets))]))
