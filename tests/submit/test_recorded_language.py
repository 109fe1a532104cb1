"""golden: macros, booleans, numbers, names and queue statements mean the same as in condor_submit (record.py)."""

from __future__ import annotations

from typing import Any

import pytest

from ..sampling import spread, thorough
from ..together import together
from .recording import Recording, known_differences

LANGUAGE = Recording("language.json.gz")
OTHERS = [case for case in LANGUAGE.cases if case["name"].startswith("other ")]


@pytest.mark.parametrize("most", thorough(200))
def test_values_are_read_as_condor_submit_reads_them(most: int) -> None:
    results = [(case, LANGUAGE.differences(case)) for case in spread(LANGUAGE.cases, most)]
    assert {case["name"]: differing for case, differing in results if differing != known_differences(case)} == {}


@together("case", OTHERS)
def test_aliases_and_queue_statements_are_read_as_condor_submit_reads_them(case: dict[str, Any]) -> None:
    assert LANGUAGE.differences(case) == known_differences(case)
