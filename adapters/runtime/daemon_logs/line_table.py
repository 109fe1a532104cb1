"""The table of the daemons' lines (``lines.txt``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ....domain.package_data import get_data, sections

ALWAYS: Final = "D_ALWAYS"
STATUS: Final = "D_STATUS"
MATCH: Final = "D_MATCH"
MOVE: Final = "->"  #: the place of the line of a slot's transition
_LINE = re.compile(r"(?:([?!])(\w+) )?([@=+])?(?:(D_\w+)(:2)? )?(.*)", re.DOTALL)
_POLICY = re.compile(r"policy (\d+) (\S+) (.*)")


class LineTemplate(NamedTuple):
    """A line of the table: its condition ("?" or "!", and a fact), the marker of its name, category and text."""

    sign: str
    fact: str
    marker: str
    category: str
    is_verbose: bool
    text: str

    def applies(self, facts: Mapping[str, str]) -> bool:
        return not self.sign or bool(facts.get(self.fact)) == (self.sign == "?")


def _templates(line: str) -> Iterator[LineTemplate]:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    sign, fact, marker, category, verbose, text = match.groups(default="")
    if policy := _POLICY.fullmatch(text):
        code, pair, reason = policy.groups()
        for words in (f"eval_policy state should be: {pair} {code} {reason}", f"State change: {reason}."):
            yield LineTemplate(sign, fact, marker, STATUS, False, words)
    else:
        # HTCondor's D_FULLDEBUG is the verbose level of D_ALWAYS.
        is_full = category == "D_FULLDEBUG"
        category = ALWAYS if is_full or not category else category
        yield LineTemplate(sign, fact, marker, category, is_full or bool(verbose), text)


def _read_table() -> dict[tuple[str, str], tuple[LineTemplate, ...]]:
    table: dict[tuple[str, str], tuple[LineTemplate, ...]] = {}
    for section in sections(get_data(__package__, "lines.txt")):
        templates = tuple(template for line in section.lines for template in _templates(line))
        for event in section.about.split(", "):
            key = section.kind, event
            table[key] = (*table.get(key, ()), *templates)
    return table


TABLE: Final = _read_table()
"""The lines of each log and event."""


def templates_of(kind: str, event: str) -> tuple[LineTemplate, ...]:
    """Return the lines that a log has for an event; raise `KeyError` if the table has no such event."""
    return TABLE[kind, event]


def transition_templates(row: str, activity: str, cause: str) -> tuple[LineTemplate, ...]:
    """Return the lines around a slot's transition, with the row and the activity that it leads to."""
    for event in (f"{row}/{activity} {cause}", f"{row} {cause}", f"{row}/{activity}", row):
        if ("row", event) in TABLE:
            return TABLE["row", event]
    return ()
