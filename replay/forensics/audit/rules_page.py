"""Draws the tables of rules and facts in docs/import.md, between the comments that mark its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from ....domain.imported.record_sources import KINDS
from .compared_facts import ANY, FACTS, SECOND, UNITS, Fact, Saying
from .rules import OF_FACTS, OF_JOBS, OF_SLOTS

_SECTION: Final = re.compile(r"(<!-- drawn: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_RULES: Final = {"StartLog": OF_SLOTS, "job event logs": OF_JOBS, "ads": OF_FACTS}


def fill(page: str) -> str:
    """The page with its tables drawn anew. Raises ValueError if it does not have each of them once."""
    drawn = {"rules": _rules(), "facts": _facts(), "kinds": _kinds()}
    named = [found["name"] for found in _SECTION.finditer(page)]
    if sorted(named) != sorted(drawn):
        raise ValueError(f"the page should have these tables, once each: {', '.join(sorted(drawn))}; it has {named}")
    return _SECTION.sub(lambda found: f"{found[1]}\n{drawn[found['name']]}\n\n{found[3]}", page)


def _rules() -> str:
    rows = [f"| {of} | `{name}` | {words} |" for of, rules in _RULES.items() for name, words in rules.items()]
    return "\n".join(["| of | rule | what must hold |", "|---|---|---|", *rows])


def _kinds() -> str:
    rows = [f"| {kind.letter} | {kind.name} | {kind.writer} |" for kind in KINDS.values()]
    return "\n".join(["| letter | source | written by |", "|---|---|---|", *rows])


def _facts() -> str:
    return "\n".join(["| of | fact | sources | states it by |", "|---|---|---|---|", *_rows()])


def _rows() -> Iterator[str]:
    for name, fact in FACTS.items():
        first = f"| {fact.of} | **{name}**: {fact.words}. {UNITS[fact.unit].capitalize()} |"
        for (words, less, more), letters in groupby(fact.sayings, key=lambda letter: fact.sayings[letter]):
            how = _range(fact, Saying(words, less, more))
            yield f"{first} {' '.join(letters)} | {words}{f' ({how})' if how else ''} |"
            first = "| | |"


def _range(fact: Fact, saying: Saying) -> str:
    """By how much the value may differ from what is written."""
    parts = [
        f"{sign}{'any' if amount == ANY else _amount(fact, amount)}"
        for sign, amount in (("-", saying.less), ("+", saying.more))
        if amount
    ]
    return ", ".join(parts).replace("-", "\N{MINUS SIGN}")


def _amount(fact: Fact, amount: int) -> str:
    return str(amount) if fact.unit == "count" else f"{amount / SECOND:g} s"
