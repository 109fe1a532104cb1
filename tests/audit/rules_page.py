"""The tables of rules and facts in docs/import.md, drawn from what the audit compares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from poolbook.domain.imported.record_sources import KINDS
from poolbook.domain.units import SECOND
from poolbook.replay.forensics.audit.audit_rules import OF_FACTS, OF_JOBS, OF_LOGS, OF_SLOTS
from poolbook.replay.forensics.audit.compared_facts import FACTS, UNITS, Fact, FactSource
from poolbook.replay.forensics.audit.tolerances import ANY

from .. import markdown_tables

_RULES: Final = {"StartLog": OF_SLOTS, "job event logs": OF_JOBS, "ads": OF_FACTS, "all files": OF_LOGS}


def fill(page: str) -> str:
    """Return docs/import.md with each of its tables drawn anew."""
    return markdown_tables.fill(page, {"rules": _rules(), "facts": _facts(), "kinds": _kinds()})


def _rules() -> str:
    rows = [(of, f"`{name}`", words) for of, rules in _RULES.items() for name, words in rules.items()]
    return markdown_tables.table(("of", "rule", "what must hold"), rows)


def _kinds() -> str:
    rows = [(kind.letter, kind.name, kind.writer) for kind in KINDS.values()]
    return markdown_tables.table(("letter", "source", "written by"), rows)


def _facts() -> str:
    return markdown_tables.table(("of", "fact", "sources", "states it by"), _rows())


def _rows() -> Iterator[tuple[str, str, str, str]]:
    for name, fact in FACTS.items():
        first = (fact.of, f"**{name}**: {fact.words}. {UNITS[fact.unit].capitalize()}")
        for (words, less, more), letters in groupby(fact.sayings, key=lambda letter: fact.sayings[letter]):
            how = _range(fact, FactSource(words, less, more))
            yield *first, " ".join(letters), f"{words} ({how})" if how else words
            first = ("", "")


def _range(fact: Fact, saying: FactSource) -> str:
    """By how much the value may differ from what is written."""
    parts = [
        f"{sign}{'any' if amount == ANY else _amount(fact, amount)}"
        for sign, amount in (("-", saying.less), ("+", saying.more))
        if amount
    ]
    return ", ".join(parts).replace("-", "\N{MINUS SIGN}")


def _amount(fact: Fact, amount: int) -> str:
    return str(amount) if fact.unit == "count" else f"{amount / SECOND:g} s"
