"""The table of a job event log's entries (``entry_rules.txt``): the conditions from which each may come, and the job's
condition after it."""

from __future__ import annotations

from functools import cache
from pkgutil import get_data
from typing import Final, NamedTuple

from ...narration.sentence_tables import tables


class EntryRule(NamedTuple):
    number: int
    sources: str  #: the conditions from which it may come; blank: any, and the condition stays
    target: str  #: the job's condition after it. With a ``rule``, the one the auditor assumes after the violation.
    rule: str = ""  #: the rule that the entry breaks; empty if it is legal
    repeats: bool = False


def _rule(number: int, sources: str, words: str) -> EntryRule:
    target, _, rule = words.removesuffix(" again").partition(" ! ")
    return EntryRule(number, sources, target, rule, words.endswith(" again"))


_TABLES: Final = tables(get_data(__package__, "entry_rules.txt"))
_CONDITIONS: Final = {name: words.split(", ", 1) for name, words in _TABLES.pop("conditions").items()}
OUTCOMES: Final = {name: outcome for name, (outcome, _) in _CONDITIONS.items()}
DESCRIPTIONS: Final = {name: words for name, (_, words) in _CONDITIONS.items()}
_ENTRIES: Final = {heading.partition(" "): rows for heading, rows in _TABLES.items()}
ENTRY_RULES: Final = tuple(_rule(int(key[0]), *row) for key, rows in _ENTRIES.items() for row in rows.items())
TARGETS: Final = {int(number): target for number, _, target in _ENTRIES}
"""The conditions after an entry that leaves several possible."""
_BY_CONDITION: Final = {(step.number, source): step for step in ENTRY_RULES for source in step.sources.split(", ")}
ANY_CONDITION: Final = frozenset(source for _, source in _BY_CONDITION)
OVER: Final = frozenset({"Completed", "Skipped", "Removed", "Aborting"})
NOT_BEGUN: Final = frozenset({"Submitted", "Idle"})
ON_A_SLOT: Final = frozenset({"Running", "Suspended"})
ELSEWHERE: Final = frozenset({17, 18, 19, 20, 25, 26, 27, 29, 30})
"""The entries of jobs that run elsewhere than on a slot of the pool."""


class EntryEffect(NamedTuple):
    conditions: frozenset[str]  #: the conditions in which the job may be afterwards
    rules: tuple[str, ...]  #: the rules broken, if the entry may come from none of the conditions before
    repeats: bool


@cache
def effect_of(number: int, conditions: frozenset[str]) -> EntryEffect:
    steps = [
        _BY_CONDITION.get((number, condition), EntryRule(number, "", condition)) for condition in sorted(conditions)
    ]
    legal = [step for step in steps if not step.rule]
    rules = () if legal else tuple(step.rule for step in steps)
    return EntryEffect(
        frozenset(step.target for step in legal or steps), rules, bool(legal) and all(step.repeats for step in legal)
    )
