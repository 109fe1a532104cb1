"""Which transitions are reached by the stories: what docs/reach.md shows."""

from __future__ import annotations

from pathlib import Path

from poolbook.domain.state_machines import DIALECTS, HTCONDOR_25

from .cases import STORIES

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reach.md"
NOT_REACHED = {
    (HTCONDOR_25.name, "29"): "reached as 29a, 29b and 29c: the real startd knows where a slot goes from Killing",
    (HTCONDOR_25.name, "35"): "reached as its two halves, 35a and 35b: the real startd was not seen to take it whole",
}
"""Rows that no story reaches, and why."""
MOST = 3
"""Stories that are named for a row."""

HEAD = """# Reach

Every row of the slots' tables (docs/state-machines.md), and the stories that reach it by policy: no transition is made
by hand. The stories are those of tests/policy/cases.py, which the tests play through the live engine in virtual time;
this page is made from them by `python docs/generate_reach.py`, and a test holds it to that. Letters are those of the
manual's transitions between states.
"""


def reached(dialect: str) -> dict[str, list[str]]:
    """The stories that take each row."""
    found: dict[str, list[str]] = {row.number: [] for row in DIALECTS[dialect].slot_rows}
    for story in STORIES:
        rows = {word.partition("@")[0].rstrip("VK") for word in story.expected(dialect).split()}
        for row in rows:
            found[row].append(story.of)
    return found


def page() -> str:
    """docs/reach.md."""
    return "\n".join([HEAD, *(line for dialect in DIALECTS for line in _table(dialect))])


def _table(dialect: str) -> list[str]:
    stories = reached(dialect)
    lines = [f"## {dialect}", "", "| row | letter | stories | for example |", "| --- | --- | --- | --- |"]
    for row in DIALECTS[dialect].slot_rows:
        told = stories[row.number]
        some = "; ".join(told[:MOST]) or f"none: {NOT_REACHED.get((dialect, row.number), 'MISSING')}"
        lines.append(f"| {row.number} | {row.letter} | {len(told)} | {some} |")
    return [*lines, ""]
