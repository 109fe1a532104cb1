"""Golden: what the pool decides of stories that never change is what it decided when they were recorded."""

from __future__ import annotations

import os

import pytest

from poolbook.domain.state_machines import DIALECTS

from .decided import RECORDED, WRONG, by_story, crowd, difference, stories

TOLD_ELSEWHERE = "policies"
"""Stories that ``tests/policy/test_rules.py`` tells, and compares with what was recorded."""
SEEDS = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // 50


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.startswith(TOLD_ELSEWHERE)])
def test_what_was_decided_is_decided_again(name: str) -> None:
    recorded, now = stories(name), by_story(RECORDED[name]())
    assert [*now] == [*recorded]
    assert not {story: found for story in now if (found := difference(recorded[story], now[story]))}
    assert not [line for lines in now.values() for line in lines if line.startswith(WRONG)]


@pytest.mark.soak
@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_happens_in_a_crowded_pool_is_legal(dialect: str) -> None:
    for seed in range(1000, 1000 + SEEDS):
        assert not [line for line in crowd(dialect, seed) if line.startswith(WRONG)], seed
