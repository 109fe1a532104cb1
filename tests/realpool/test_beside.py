"""Differential: the same submit files in an HTCondor pool and in a Poolbook pool (`make realpool`).

With POOLBOOK_REALPOOL_RECORD set, HTCondor's results are recorded for the tests that run without such a pool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..beside.cases import cases
from ..beside.differences import all_differences, known_differences, unlisted_differences, unmatched_rows
from ..beside.pools import Own, Real
from ..beside.stories import run_stories, write_outcomes

pytestmark = pytest.mark.realpool


def test_both_pools_have_the_same_results_except_for_listed_differences(tmp_path: Path) -> None:
    real = Real(Path(os.environ["POOLBOOK_REALPOOL"]).resolve(), os.environ["POOLBOOK_REALPOOL_SCRIPT"])
    with real.served(tmp_path / "scenario.conf") as pool:
        htcondor_results = run_stories(pool, cases())
    if os.environ.get("POOLBOOK_REALPOOL_RECORD"):
        write_outcomes(htcondor_results)
    with Own(tmp_path).served() as own:
        our_results = run_stories(own, cases(), quiet=5)
    differences, rows = all_differences(htcondor_results, our_results), known_differences()
    assert unlisted_differences(differences, rows) == []
    assert unmatched_rows(differences, rows, our_results) == []
