"""What a job costs, in counts that are the same on every machine, against the table in tests/data/counters.txt.

A faster or slower machine changes nothing here, and a change that makes the pool do more is seen at once: clocks did
not show it. After a change that is meant to cost more or less, write the table again (`tests/counters/__main__.py`)
and say in the commit why.
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
NAME = 40
MARGINS = {"calls": 0.02}
"""The share by which a counter may be off. Helpers that a change adds or merges are calls, too, and cost little."""

Table = dict[str, dict[str, float]]


def read(text: str) -> Table:
    """Each workload's counters for a job."""
    rows = [(line[:NAME].strip(), line[NAME:].split()[1:]) for line in text.splitlines()[1:]]
    return {name: dict(zip(COUNTED, map(float, figures), strict=True)) for name, figures in rows}


EXPECTED = read(TABLE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def measured() -> Table:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / '.path'}:{ROOT}", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.counters"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return read(done.stdout)


def test_the_table_has_every_workload(measured: Table) -> None:
    assert list(measured) == list(EXPECTED)


@pytest.mark.parametrize("counter", COUNTED)
@pytest.mark.parametrize("workload", EXPECTED)
def test_a_job_costs_what_the_table_says(measured: Table, workload: str, counter: str) -> None:
    cost, expected = measured[workload][counter], EXPECTED[workload][counter]
    assert cost == pytest.approx(expected, rel=MARGINS.get(counter, 0)), f"{counter} a job: {workload}"
