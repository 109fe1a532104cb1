"""A row of a table: which transition, from where, to where, why, and who says so.

Every life that this package describes (a slot's, a job's, a claim's, a match's, a drain's) is a sequence of such rows
and an initial state. The rules of a table, each of which a test holds:

* A row's number stands on no other row of its table. For slots it is the manual's, with a letter behind it where a
  dialect goes beyond the manual ("12a"); for all others it is a word ("release"). An event names its row by it.
* A row holds for each of its sources and each of its targets, and never from a state to itself.
* A row with several targets says in ``when`` which is meant when, and whoever fires it says which it was.
* For slots, from one pair to another leads one row or none: a transition that was seen in a log can be named. For jobs
  the row is what happened, so that two may lead the same way (``evict``, ``requeue``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..errors import PoolbookError

MANUAL = "manual"
"""The dialect that does what the manual says, and nothing else."""
HTCONDOR_25 = "htcondor-25"
"""The dialect that also knows what HTCondor 25's daemons do beyond the manual, for what they left in their logs."""
DIALECTS = (MANUAL, HTCONDOR_25)


class Row(NamedTuple):
    """One transition of a table."""

    number: str
    """The row's name in its table: "10", "12a", "release"."""
    letter: str
    """The letter of the manual's transition between states that this row takes part in; empty if in none."""
    sources: tuple[str, ...]
    """From where: state/activity ("Claimed/Busy") for slots, a status ("Held") for jobs."""
    targets: tuple[str, ...]
    place: str
    """Where the reference says so: a section of the manual, or where it was seen."""
    cause: str
    when: str = ""
    """For a row with several targets: which is meant when."""

    @property
    def trigger(self) -> str:
        """What the row's trigger is called in a machine of the ``transitions`` library."""
        return f"t{self.number}" if self.number[0].isdigit() else self.number

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Each (source, target) that the row allows."""
        return tuple((source, target) for source in self.sources for target in self.targets)


def row(number: str, letter: str, sources: str, targets: str, place: str, cause: str, when: str = "") -> Row:
    """A row as the tables write it: several sources or targets stand in one text, with commas."""
    return Row(number, letter, tuple(sources.split(", ")), tuple(targets.split(", ")), place, cause, when)


def states(rows: Iterable[Row], *first: str) -> tuple[str, ...]:
    """Every state that the rows name, those of ``first`` before them, in the order in which they come up."""
    return tuple(dict.fromkeys([*first, *(state for r in rows for state in (*r.sources, *r.targets))]))


class UnknownDialectError(PoolbookError, ValueError):
    """A dialect was named that does not exist."""

    def __init__(self, dialect: str) -> None:
        super().__init__(f"there is no dialect {dialect!r}: choose one of {', '.join(DIALECTS)}")
        self.dialect = dialect


def check_dialect(dialect: str) -> str:
    """The dialect itself, if there is one of this name; raises ``UnknownDialectError``."""
    if dialect not in DIALECTS:
        raise UnknownDialectError(dialect)
    return dialect
