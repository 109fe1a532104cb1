"""The tables of the policy agree with the table of transitions, and docs/execution-point.md with both."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.domain.events import CAUSE_CODES, CLAIM_FLAG_CODES
from poolbook.domain.startd.startd_settings import EXPRESSIONS
from poolbook.domain.state_machines import DIALECTS, slot_machine
from poolbook.domain.state_machines.slot_rows import KILLING, VACATING
from poolbook.domain.state_machines.slot_rules import CONDITIONS, EVICTED

from ..together import together
from .page import fill

EACH_RULE = [
    (dialect, pair, rule) for dialect in DIALECTS for pair, rules in DIALECTS[dialect].rules.items() for rule in rules
]


def test_the_page_is_generated_from_the_tables() -> None:
    page = Path("docs/execution-point.md").read_text(encoding="utf-8")
    assert fill(page) == page, "docs/execution-point.md is out of date: run python docs/generate.py"


@together(("dialect", "pair", "rule"), EACH_RULE)
def test_each_rule_fires_a_row_that_the_table_has(dialect: str, pair: str, rule) -> None:  # type: ignore[no-untyped-def]
    machine = slot_machine(dialect)
    targets = [VACATING, KILLING] if rule.target == EVICTED else [rule.target or None]
    for target in targets if rule.row else ():
        row = rule.killing if target == KILLING and rule.killing else rule.row
        assert machine.fire(pair, row, target) in machine.states
    assert rule.cause in CAUSE_CODES
    assert set(rule.flags) <= set(CLAIM_FLAG_CODES)
    assert set(CONDITIONS[rule.when].expressions) <= set(EXPRESSIONS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_trigger_takes_rows_that_the_table_has(dialect: str) -> None:
    machine = slot_machine(dialect)
    for happening, by_pair in DIALECTS[dialect].triggers.items():
        for pair, steps in by_pair.items():
            for step in steps:
                # Row 5b leads back to the state before the claim, which the claim records.
                target = machine.targets_by_row(pair)["5b"][0] if happening == "revert" else step.target
                pair = machine.fire(pair, step.row, target)


def test_every_condition_is_used_by_a_rule() -> None:
    assert {rule.when for _, _, rule in EACH_RULE} == set(CONDITIONS)
