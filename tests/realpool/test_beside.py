"""Differential: the same submit files in a real HTCondor pool and in one of ours (`make realpool`).

With POOLBOOK_REALPOOL_RECORD set, what became of the real pool's jobs is kept for the tests that have no such pool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..beside.cases import cases
from ..beside.differences import compared, gone, known, unlisted
from ..beside.pools import Own, Real
from ..beside.stories import live, record

pytestmark = pytest.mark.realpool


def test_both_pools_say_the_same_of_the_same_jobs_but_for_what_is_listed(tmp_path: Path) -> None:
    real = Real(Path(os.environ["POOLBOOK_REALPOOL"]).resolve(), os.environ["POOLBOOK_REALPOOL_SCRIPT"])
    with real.served(tmp_path / "scenario.conf") as pool:
        there = live(pool, cases())
    if os.environ.get("POOLBOOK_REALPOOL_RECORD"):
        record(there)
    with Own(tmp_path).served() as own:
        here = live(own, cases(), quiet=5)
    found, rows = compared(there, here), known()
    assert unlisted(found, rows) == []
    assert gone(found, rows, here) == []
