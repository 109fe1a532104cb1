"""The tables of rules and facts in docs/import.md, generated from the facts that the audit compares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from poolbook.domain.imported.record_sources import KINDS
from poolbook.domain.package_data import get_data
from poolbook.domain.units import SECOND
from poolbook.replay.forensics.audit.compared_facts import FACTS, Fact, FactSource
from poolbook.replay.forensics.audit.tolerances import ANY
from poolbook.replay.narration.sentence_tables import tables

from .. import markdown_tables

RULES_OF: Final = tables(get_data("poolbook.replay.forensics.audit", "rules.txt"))
"""The rules that records of an import can break, by name, grouped by subject."""
RULES: Final = {name for rules in RULES_OF.values() for name in rules}
_UNITS: Final[dict[str, str]] = {
    "text": "equal text",
    "instant": "overlapping times",
    "time": "overlapping durations",
    "count": "overlapping numbers",
}
_TITLES: Final = {"slots": "StartLog", "jobs": "job event logs", "facts": "ads", "logs": "all files"}


def fill(page: str) -> str:
    """Return docs/import.md with each of its tables regenerated."""
    return markdown_tables.fill(page, {"rules": _rules(), "facts": _facts(), "kinds": _kinds()})


def _rules() -> str:
    rows = [
        (title, f"`{name}`", description)
        for subject, title in _TITLES.items()
        for name, description in RULES_OF[subject].items()
    ]
    return markdown_tables.table(("files", "rule", "what must hold"), rows)


def _kinds() -> str:
    rows = [(kind.letter, kind.name, kind.writer) for kind in KINDS.values()]
    return markdown_tables.table(("letter", "source", "written by"), rows)


def _facts() -> str:
    return markdown_tables.table(("subject", "fact", "sources", "where it is stated"), _rows())


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for name, fact in FACTS.items():
        first = (fact.subject, f"**{name}**: {fact.description}. {_UNITS[fact.unit].capitalize()}")
        for (description, below, above), letters in groupby(fact.sources, key=lambda letter: fact.sources[letter]):
            how = _range(fact, FactSource(description, below, above))
            yield *first, " ".join(letters), f"{description} ({how})" if how else description
            first = ("", "")


def _range(fact: Fact, saying: FactSource) -> str:
    """Return by how much the value may differ from the written one."""
    parts = [
        f"{sign}{'any' if amount == ANY else _amount(fact, amount)}"
        for sign, amount in (("-", saying.below), ("+", saying.above))
        if amount
    ]
    return ", ".join(parts).replace("-", "\N{MINUS SIGN}")


def _amount(fact: Fact, amount: int) -> str:
    return str(amount) if fact.unit == "count" else f"{amount / SECOND:g} s"
