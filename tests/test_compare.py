"""How `tests/bench/compare.py` reads a benchmark's output, and when it calls a measurement slower."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from .bench.compare import Comparison, comparisons, measurements, recorded_pairs

OUTPUT = """\
100,000 events: append                           81,235/s         60,111 events/s   aim > 0.6 of it    met
one event                                     1.5 us
one event                                     2 us
5,000 slots                    0.033 s    0.04   met     87 MB      5.39 s
5,000 slots                    0.045 s    0.04   MISSED  87 MB      5.39 s
"""


def test_numbers_with_a_unit_are_measurements_named_by_their_lines() -> None:
    assert measurements(OUTPUT) == {
        "# events: append # # [1.1]": (81235.0, "/s"),
        "# events: append # # [1.2]": (60111.0, "events/s"),
        "one event # [1.0]": (1.5, "us"),
        "one event # [2.0]": (2.0, "us"),
        "# slots # # # # [1.1]": (0.033, "s"),
        "# slots # # # # [1.3]": (87.0, "MB"),
        "# slots # # # # [1.4]": (5.39, "s"),
        "# slots # # # # [2.1]": (0.045, "s"),
        "# slots # # # # [2.3]": (87.0, "MB"),
        "# slots # # # # [2.4]": (5.39, "s"),
    }


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.2, 1.1, 1.3, 1.2, 1.1], "slower"),
        ([1.2, 1.1, 1.3, 1.2, 0.9], "slower"),
        ([1.2, 1.1, 1.3, 0.8, 0.9], "alike"),
        ([1.04, 1.03, 1.04, 1.02, 1.01], "alike"),
        ([0.8, 0.9, 0.7, 0.8, 1.1], "faster"),
    ],
)
def test_a_measurement_is_slower_if_most_pairs_agree(ratios: Sequence[float], verdict: str) -> None:
    assert Comparison("bench.py", "one event", "us", 1.0, 1.0, ratios).verdict(0.05) == verdict


def test_records_of_make_bench_are_compared_run_by_run(tmp_path: Path) -> None:
    for tree, seconds in (("before", (1.0, 2.0)), ("after", (1.5, 3.0))):
        (tmp_path / tree).mkdir()
        for number, value in enumerate(seconds):
            run = {"script": "bench.py", "arguments": ["1"], "measurements": {"one event": [value, "s"]}}
            (tmp_path / tree / f"{number}.json").write_text(json.dumps({"runs": [run]}))

    [(script, pairs)] = recorded_pairs(tmp_path / "before", tmp_path / "after")
    [comparison] = comparisons(script, pairs)

    assert (script, comparison.ratios, comparison.verdict(0.05)) == ("bench.py 1", [1.5, 1.5], "slower")
