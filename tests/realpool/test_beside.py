"""Differential: the same submit files in an HTCondor pool and in a Poolbook pool (`make realpool`).

With POOLBOOK_REALPOOL_RECORD set, HTCondor's results are recorded for the tests that run without such a pool."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..beside.cases import cases
from ..beside.differences import compared, gone, known, unlisted
from ..beside.pools import Own, Real
from ..beside.stories import live, record

pytestmark = pytest.mark.realpool


def test_both_pools_have_the_same_results_except_for_listed_differences(tmp_path: Path) -> None:
    real = Real(Path(os.environ["POOLBOOK_REALPOOL"]).resolve(), os.environ["POOLBOOK_REALPOOL_SCRIPT"])
    with real.served(tmp_path / "scenario.conf") as pool:
        htcondor_results = live(pool, cases())
    if os.environ.get("POOLBOOK_REALPOOL_RECORD"):
        record(htcondor_results)
    with Own(tmp_path).served() as own:
        our_results = live(own, cases(), quiet=5)
    differences, rows = compared(htcondor_results, our_results), known()
    assert unlisted(differences, rows) == []
    assert gone(differences, rows, our_results) == []
