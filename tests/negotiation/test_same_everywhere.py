"""Property: the same story gives a log with the same digest under any PYTHONHASHSEED, and on any processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

DIALECTS = ("manual", "htcondor-25")
ROOT = Path(__file__).resolve().parent.parent.parent
STORY = """
import sys
sys.path[:0] = [{root!r}]
from tests.replay.contested_pool import contested_pool
from poolbook.replay.recheck_cycles import recheck
for dialect in {dialects}:
    pool = contested_pool(dialect)
    found = recheck(pool.log.read())
    print(dialect, pool.log.head.position, pool.log.head.digest, found.taken, found.differing)
"""
FOUND = " ".join(name for name in core.__cpu_dispatch__ if core.__cpu_features__[name])
"""What numpy has found this processor to be able to do, beyond what every one can."""


def digest_of_story(seed: str, disabled: str, *dialects: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", STORY.format(root=str(ROOT), dialects=dialects)],
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(ROOT / ".path"),
            "NPY_DISABLE_CPU_FEATURES": disabled,
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_same_story_gives_the_same_digest_under_other_seeds_and_on_other_processors() -> None:
    first = digest_of_story("0", "", "htcondor-25")
    assert [line.split()[-1] for line in first.splitlines()] == ["0"]
    assert digest_of_story("1", FOUND, "htcondor-25") == first


@pytest.mark.soak
def test_the_same_story_gives_the_same_digest_under_eight_seeds_with_and_without_features() -> None:
    assert len({digest_of_story(str(seed), disabled, *DIALECTS) for seed in range(8) for disabled in ("", FOUND)}) == 1
