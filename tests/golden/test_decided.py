"""Golden: the pool's decisions on stories that never change equal the recorded ones."""

from __future__ import annotations

import pytest

from poolbook.domain.state_machines import DIALECTS

from ..sampling import marked, soak_examples
from .decided import PROBLEM, RECORDED, STORY_SEEDS, by_story, crowd, crowds, difference, stories

TESTED_ELSEWHERE = "policies"
"""Stories that ``tests/policy/test_rules.py`` runs, and compares with the recorded decisions."""
CROWDS = "crowds"


def check_equal(recorded: dict[str, list[str]], now: dict[str, list[str]]) -> None:
    assert [*now] == [*recorded]
    assert not {story: change for story in now if (change := difference(recorded[story], now[story]))}
    assert not [line for lines in now.values() for line in lines if line.startswith(PROBLEM)]


@pytest.mark.parametrize("name", [name for name in RECORDED if not name.startswith((TESTED_ELSEWHERE, CROWDS))])
def test_the_decisions_equal_the_recorded_ones(name: str) -> None:
    check_equal(stories(name), by_story(RECORDED[name]()))


@pytest.mark.parametrize(
    ("dialect", "seed"),
    [(one, seed) if seed % 2 == (one == "manual") else marked((one, seed)) for one in DIALECTS for seed in STORY_SEEDS],
)
def test_the_decisions_in_a_crowded_pool_equal_the_recorded_ones(dialect: str, seed: int) -> None:
    """Every story in one of the dialects, in the soak in both."""
    recorded = stories(f"{CROWDS}-{dialect}")
    assert [*recorded] == [*map(str, STORY_SEEDS)]
    check_equal({str(seed): recorded[str(seed)]}, by_story(crowds(dialect, [seed])))


@pytest.mark.soak
@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_events_in_a_crowded_pool_are_legal(dialect: str) -> None:
    for seed in range(1000, 1000 + soak_examples(50)):
        assert not [line for line in crowd(dialect, seed) if line.startswith(PROBLEM)], seed
