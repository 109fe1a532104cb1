"""The counters of each workload per job are those in tests/data/counters.txt.

The counters do not depend on the machine's speed, so they show extra work that times would hide. After an intended
change, write the table again (`tests/counters/__main__.py`), and give the reason in the commit message.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.counters.counting import COUNTED

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests/data/counters.txt"
NAME_WIDTH = 40
MARGINS = {"calls": 0.02}
"""The tolerated relative change of a counter. Extracting or merging helper functions changes the number of calls."""

Table = dict[str, dict[str, float]]


def read(text: str) -> Table:
    """Return the counters per job of each workload."""
    rows = [(line[:NAME_WIDTH].strip(), line[NAME_WIDTH:].split()[1:]) for line in text.splitlines()[1:]]
    return {name: dict(zip(COUNTED, map(float, numbers), strict=True)) for name, numbers in rows}


EXPECTED = read(TABLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def measured() -> Table:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / '.path'}:{ROOT}", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.counters"]
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return read(process.stdout)


def test_the_table_has_every_workload(measured: Table) -> None:
    assert list(measured) == list(EXPECTED)


@pytest.mark.parametrize("counter", COUNTED)
@pytest.mark.parametrize("workload", EXPECTED)
def test_the_counters_per_job_match_the_table(measured: Table, workload: str, counter: str) -> None:
    cost, expected = measured[workload][counter], EXPECTED[workload][counter]
    assert cost == pytest.approx(expected, rel=MARGINS.get(counter, 0)), f"{counter} per job: {workload}"
