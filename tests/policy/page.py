"""The tables of docs/execution-point.md, generated from the rules, the triggers and the settings."""

from __future__ import annotations

from poolbook.domain.startd.startd_settings import EXPRESSIONS, SETTINGS
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.state_machines.slot_actions import ENTRY_ACTIONS, EXIT_ACTIONS
from poolbook.domain.state_machines.slot_rules import CONDITIONS, EVICTED, FACTS, Rule
from poolbook.replay.narration.sentence_tables import CAUSES

from .. import markdown_tables


def _rules(dialect: str) -> str:
    rows = []
    for pair, rules in DIALECTS[dialect].rules.items():
        for number, rule in enumerate(rules):
            rows.append((pair if not number else "", rule.when, _destination(rule), CAUSES[rule.cause]))
    return markdown_tables.table(("state/activity", "condition", "row", "cause in the log"), rows)


def _destination(rule: Rule) -> str:
    if not rule.row:
        return "(stays; marked as preempted)"
    row = f"{rule.row}, to Killing {rule.killing}" if rule.killing else rule.row
    return f"{row} by WANT_VACATE" if rule.target == EVICTED else row


def _triggers(dialect: str) -> str:
    rows = []
    for happening, by_pair in DIALECTS[dialect].triggers.items():
        for number, (pair, steps) in enumerate(by_pair.items()):
            chain = ", then ".join(step.row + (f" to {step.target}" if step.target else "") for step in steps)
            rows.append((happening if not number else "", pair, chain))
    return markdown_tables.table(("trigger", "state/activity", "row"), rows)


def _conditions() -> str:
    rows = []
    for name, condition in CONDITIONS.items():
        tests = [
            f"{'' if test.expected else 'not '}`{f'{test.question} {test.subject}'.strip()}`"
            for test in condition.tests
        ]
        rows.append((name, ", ".join(tests), ", ".join(condition.expressions)))
    return markdown_tables.table(("condition", "tests", "expressions read"), rows)


def _facts() -> str:
    return markdown_tables.table(("fact", "meaning"), [(f"`{name}`", meaning) for name, meaning in FACTS.items()])


def _actions() -> str:
    return markdown_tables.table(
        ("on", "state/activity", "action", "effect"),
        [
            (on, pair, f"`{action.__name__}`", " ".join(str(action.__doc__).split()))
            for on, actions in (("entering", ENTRY_ACTIONS), ("leaving", EXIT_ACTIONS))
            for pair, action in actions.items()
        ],
    )


def _expressions() -> str:
    return markdown_tables.table(
        ("expression", "default"), [(f"`{name}`", f"`{text}`") for name, text in EXPRESSIONS.items()]
    )


def _settings() -> str:
    return markdown_tables.table(
        ("setting", "default"), [(f"`{name}`", f"`{text}`" if text else "") for name, text in SETTINGS.items()]
    )


def fill(page: str) -> str:
    """Return docs/execution-point.md with its generated tables."""
    tables = {"expressions": _expressions(), "settings": _settings()}
    tables |= {"conditions": _conditions(), "facts": _facts(), "actions": _actions()}
    for name in DIALECTS:
        tables |= {f"rules-{name}": _rules(name), f"triggers-{name}": _triggers(name)}
    return markdown_tables.fill(page, tables)
