"""The facts that the audit compares across sources, with their sources in order of reliability
(``compared_facts.txt``).

* A fact is compared if two kinds of sources state it with the same meaning. Facts that are only similar are separate:
  the placement of a job on a slot (the start of its shadow) and the start of its program are two facts.
* An amount or an instant is a range, because its writer rounds it and has its own clock. A source that counts only a
  part states a lower bound (``above`` is ``ANY``); one that learns late states an upper bound (``below`` is ``ANY``).
* Two sources contradict each other if their ranges do not overlap, or if their texts differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ....domain.imported.record_sources import KINDS
from ....domain.package_data import get_data
from ....domain.units import SECOND
from ...narration.sentence_tables import tables
from .tolerances import ANY, FAR, LINGERING, MINUTE, NEAR, ROUNDED


class FactSource(NamedTuple):
    """How one kind of source states a fact: where, and how far below or above the written value the fact may be."""

    description: str
    below: int = 0
    above: int = 0


class Fact(NamedTuple):
    subject: str  #: the subject: a job, a run (of a job), a slot or a submitter
    description: str
    unit: str  #: how its values are compared and printed: text, instant, time or count
    sources: dict[str, FactSource]  #: by the letter of the source's kind, the most reliable first


AMOUNTS: Final[dict[str, int]] = {
    "1": 1, "1s": SECOND, "1min": MINUTE, "5min": 5 * MINUTE, "rounded": ROUNDED, "near": NEAR, "far": FAR,
    "lingering": LINGERING, "any": ANY,
}  # fmt: skip
"""The amounts by which a fact may differ from the written value, by their names in the data file."""


def _fact(subject_kind: str, unit: str, description: str, rows: dict[str, str]) -> Fact:
    sources_by_letter: dict[str, FactSource] = {}
    for row, row_text in rows.items():
        letters, *bounds = row.split()
        amounts = {bound[0]: AMOUNTS[bound[1:]] for bound in bounds}
        sources_by_letter |= dict.fromkeys(letters, FactSource(row_text, amounts.get("-", 0), amounts.get("+", 0)))
    return Fact(subject_kind, description, unit, sources_by_letter)


def _facts() -> Iterator[tuple[str, Fact]]:
    for heading, rows in tables(get_data(__package__, "compared_facts.txt")).items():
        name, subject_and_unit, description = heading.split(": ", 2)
        subject_kind, unit = subject_and_unit.split(", ")
        yield name, _fact(subject_kind, unit, description, rows)


FACTS: Final = dict(_facts())
NUMBERED: Final = {"hold": "hold number", "wall_runs": "number of shadows:"}
"""The facts that a job may have several times, with the label of their number in messages."""
COUNTED_BY_SHADOWS: Final = frozenset({"starts", "stopped", "wall", "wall_runs", "run_wall"})
"""The facts on which records disagree if a job's shadow lost its starter for a while, or was replaced: the startd ends
the run when it notices this, and the shadow when the lease expires."""
LETTERS: Final[dict[str, str]] = {kind.letter: name for name, kind in KINDS.items()}
BELIEVED: Final[dict[tuple[str, str], int]] = {
    (name, letter): rank for name, fact in FACTS.items() for rank, letter in enumerate(fact.sources)
}
"""The rank of a source by (fact, letter); 0 is the most reliable."""
