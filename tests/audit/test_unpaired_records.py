"""Golden: a record missing in the middle of one of two files is a violation; at its beginning or end it is only noted,
because the file may have been cut, or copied before the other one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from .falsifications import read

BUSY = read(Path(__file__).resolve().parent.parent / "data" / "recordings" / "busy")


def without_one(name: str, pattern: str, number: int) -> str:
    """Remove one of the ads that match a pattern from a file; adjust the offsets of the others."""
    text = BUSY[name]
    ads = re.findall(r"(?:^(?!\*\*\*).*\n)*^\*\*\*.*\n", text, re.MULTILINE)
    index = [place for place, ad in enumerate(ads) if re.search(pattern, ad)][number]
    remaining, offset = "", 0
    for ad in ads[:index] + ads[index + 1 :]:
        remaining += re.sub(r"(?<=^\*\*\* Offset = )\d+", str(offset), ad, flags=re.MULTILINE)
        offset = len(remaining)
    return remaining


@pytest.mark.parametrize(
    ("name", "pattern", "number", "violations", "noted"),
    [
        ("startd_history", "", 2, 1, 0),
        ("startd_history", "", 0, 0, 1),
        ("startd_history", "", -1, 0, 1),
        ("epoch_history", 'EpochAdType = "EPOCH"', 2, 1, 0),
    ],
)
def test_a_missing_run_is_a_violation_in_the_middle_and_noted_at_the_ends(
    name: str, pattern: str, number: int, violations: int, noted: int, tmp_path: Path
) -> None:
    for file, text in {**BUSY, name: without_one(name, pattern, number)}.items():
        (tmp_path / file).write_text(text, encoding="latin-1")
    audit = examine(imported(tmp_path)[0])
    assert [len(audit.violations), len(audit.noted)] == [violations, noted], (audit.violations, audit.noted)
    assert {finding.rule for finding in (*audit.violations, *audit.noted)} == {"unpaired"}
