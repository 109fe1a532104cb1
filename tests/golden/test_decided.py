"""Golden: what the pool decides of stories that never change is what it decided when they were recorded."""

from __future__ import annotations

import os

import pytest

from poolbook.domain.state_machines import DIALECTS

from ..sampling import marked
from .decided import RECORDED, STORY_SEEDS, WRONG, by_story, crowd, crowds, difference, stories

TOLD_ELSEWHERE = "policies"
"""Stories that ``tests/policy/test_rules.py`` tells, and compares with what was recorded."""
CROWDS = "crowds"
SEEDS = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000")) // 50


def agree(recorded: dict[str, list[str]], now: dict[str, list[str]]) -> None:
    assert [*now] == [*recorded]
    assert not {story: found for story in now if (found := difference(recorded[story], now[story]))}
    assert not [line for lines in now.values() for line in lines if line.startswith(WRONG)]


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.startswith((TOLD_ELSEWHERE, CROWDS))])
def test_what_was_decided_is_decided_again(name: str) -> None:
    agree(stories(name), by_story(RECORDED[name]()))


@pytest.mark.parametrize(
    ("dialect", "seed"),
    [(one, seed) if seed % 2 == (one == "manual") else marked((one, seed)) for one in DIALECTS for seed in STORY_SEEDS],
)
def test_what_was_decided_of_a_crowded_pool_is_decided_again(dialect: str, seed: int) -> None:
    """Every story in one of the dialects, in the soak in both."""
    recorded = stories(f"{CROWDS}-{dialect}")
    assert [*recorded] == [*map(str, STORY_SEEDS)]
    agree({str(seed): recorded[str(seed)]}, by_story(crowds(dialect, [seed])))


@pytest.mark.soak
@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_happens_in_a_crowded_pool_is_legal(dialect: str) -> None:
    for seed in range(1000, 1000 + SEEDS):
        assert not [line for line in crowd(dialect, seed) if line.startswith(WRONG)], seed
