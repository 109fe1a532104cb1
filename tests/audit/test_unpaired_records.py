"""Golden: what one of two files lacks is a violation in its middle, and only noted at its beginning or end, where the
file may have been cut, or copied before the other one was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.replay.forensics.audit.examine import examine

from ..importing.folders import imported
from .falsifications import read

BUSY = read(Path(__file__).resolve().parent.parent / "data" / "recordings" / "busy")


def without(name: str, such: str, number: int) -> str:
    """A file of ads without one of those that have a pattern; the offsets of the others fit."""
    text = BUSY[name]
    ads = re.findall(r"(?:^(?!\*\*\*).*\n)*^\*\*\*.*\n", text, re.MULTILINE)
    gone = [place for place, ad in enumerate(ads) if re.search(such, ad)][number]
    kept, offset = "", 0
    for ad in ads[:gone] + ads[gone + 1 :]:
        kept += re.sub(r"(?<=^\*\*\* Offset = )\d+", str(offset), ad, flags=re.MULTILINE)
        offset = len(kept)
    return kept


@pytest.mark.parametrize(
    ("name", "such", "number", "violations", "noted"),
    [
        ("startd_history", "", 2, 1, 0),
        ("startd_history", "", 0, 0, 1),
        ("startd_history", "", -1, 0, 1),
        ("epoch_history", 'EpochAdType = "EPOCH"', 2, 1, 0),
    ],
)
def test_a_run_that_a_file_lacks(
    name: str, such: str, number: int, violations: int, noted: int, tmp_path: Path
) -> None:
    for file, text in {**BUSY, name: without(name, such, number)}.items():
        (tmp_path / file).write_text(text, encoding="latin-1")
    audit = examine(imported(tmp_path)[0])
    assert [len(audit.violations), len(audit.noted)] == [violations, noted], (audit.violations, audit.noted)
    assert {one.rule for one in (*audit.violations, *audit.noted)} == {"unpaired"}
