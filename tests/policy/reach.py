"""Which rows of the slot tables the policy stories take: a section of docs/state-machines.md."""

from __future__ import annotations

from poolbook.domain.state_machines import DIALECTS, HTCONDOR_25

from .. import markdown_tables
from .cases import STORIES

NOT_REACHED = {
    (
        HTCONDOR_25.name,
        "29",
    ): "covered by 29a, 29b and 29c: HTCondor's startd chooses the next state when it enters Killing",
    (
        HTCONDOR_25.name,
        "35",
    ): "covered by its halves, 35a and 35b: HTCondor's startd was never seen to make the whole transition",
}
"""Rows that no story reaches, and why."""
MOST = 3
"""Stories that are named for a row."""


def reached(dialect: str) -> dict[str, list[str]]:
    """Return the stories that take each row."""
    stories: dict[str, list[str]] = {row.number: [] for row in DIALECTS[dialect].slot_rows}
    for story in STORIES:
        rows = {word.partition("@")[0].rstrip("VK") for word in story.expected(dialect).split()}
        for row in rows:
            stories[row].append(story.of)
    return stories


def table(dialect: str) -> str:
    """Return the rows of a dialect as a Markdown table, with the stories that take each."""
    stories = reached(dialect)
    rows = []
    for row in DIALECTS[dialect].slot_rows:
        takers = stories[row.number]
        examples = "; ".join(takers[:MOST]) or f"none: {NOT_REACHED.get((dialect, row.number), 'MISSING')}"
        rows.append((row.number, row.letter, str(len(takers)), examples))
    return markdown_tables.table(("row", "letter", "stories", "for example"), rows)
