"""The tables of docs/policy.md, drawn from the rules.

Whoever changes a rule draws the page anew (``python docs/generate_policy.py``); a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..events import CAUSES
from ..state_machines import DIALECTS
from ..state_machines.slot_rules import EVICTED, Rule
from .settings import EXPRESSIONS, SETTINGS

_BLOCK = re.compile(r"<!-- drawn: ([a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)


def fill(page: str) -> str:
    """The page with each of its drawn parts made anew."""
    return _BLOCK.sub(lambda found: f"<!-- drawn: {found[1]} -->\n{_DRAWN[found[1]]()}\n<!-- end -->", page)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _rules(dialect: str) -> str:
    rows = []
    for pair, rules in DIALECTS[dialect].rules.items():
        for number, rule in enumerate(rules):
            rows.append((pair if not number else "", rule.when, _destination(rule), CAUSES[rule.cause]))
    return _table(("in", "if", "row", "the log says"), rows)


def _destination(rule: Rule) -> str:
    if not rule.row:
        return "(marked, stays)"
    row = f"{rule.row}, to Killing {rule.killing}" if rule.killing else rule.row
    return f"{row} by WANT_VACATE" if rule.target == EVICTED else row


def _told(dialect: str) -> str:
    rows = []
    for happening, by_pair in DIALECTS[dialect].triggers.items():
        for number, (pair, steps) in enumerate(by_pair.items()):
            chain = ", then ".join(step.row + (f" to {step.target}" if step.target else "") for step in steps)
            rows.append((happening if not number else "", pair, chain))
    return _table(("told", "in", "row"), rows)


def _expressions() -> str:
    return _table(("expression", "unless set"), [(f"`{name}`", f"`{text}`") for name, text in EXPRESSIONS.items()])


def _settings() -> str:
    return _table(
        ("setting", "default"), [(f"`{name}`", f"`{text}`" if text else "") for name, text in SETTINGS.items()]
    )


_DRAWN = {
    "rules-manual": lambda: _rules("manual"),
    "rules-htcondor-25": lambda: _rules("htcondor-25"),
    "told-manual": lambda: _told("manual"),
    "told-htcondor-25": lambda: _told("htcondor-25"),
    "expressions": _expressions,
    "settings": _settings,
}
