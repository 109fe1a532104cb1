"""Whatever dies or fails, at any step, in any order: nothing is lost, and no job runs twice unnoticed.

The pool and its supervisor are the real ones. The machine below them is simulated, and the seed decides everything that
happens on it. (docs/reliability.md)
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..sampling import soak_examples
from .story import Story

PARTS = 8  # the seeds are divided among this many tests, for as many workers


def tell(seed: int, folder: Path | None = None) -> Story:
    story = Story(seed, folder)
    try:
        story.tell()
    except BaseException as error:
        more = " sqlite" if folder else ""
        raise AssertionError(f"seed {seed}: {error}\npython -m tests.simulation.tell {seed}{more}") from error
    return story


@pytest.mark.parametrize("first", range(2))
def test_whatever_dies_or_fails_at_any_step_nothing_is_lost(first: int) -> None:
    for seed in range(first, 12, 2):
        tell(seed)


def test_a_log_in_sqlite_survives_a_power_cut_in_the_middle_of_an_append(tmp_path: Path) -> None:
    cuts = 0
    for seed in range(1000, 1004):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cuts += tell(seed, folder).torn_appends
    assert cuts, "no seed cuts the power while an append is written"


def test_a_seed_gives_the_same_story_each_time() -> None:
    assert tell(3).machine.story == tell(3).machine.story


@pytest.mark.soak
@pytest.mark.parametrize("first", range(PARTS))
def test_whatever_dies_or_fails_in_thousands_of_stories(first: int, tmp_path: Path) -> None:
    for seed in range(first, soak_examples(2), PARTS):
        folder = tmp_path / str(seed) if seed % 10 == 9 else None
        if folder is not None:
            folder.mkdir()
        tell(seed, folder)
