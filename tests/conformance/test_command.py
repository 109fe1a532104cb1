"""Golden: a recording of a real pool is played and compared, and records that cannot be compared are named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .__main__ import main

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "3 slots, 42 transitions: all equal"),
        (["--dialect", "manual"], "slot1@localhost, entry 4: really Claimed/Busy"),
        (["--cycles"], "28 cycles compared"),
        (["--json"], '"entries": 42'),
    ],
)
def test_a_recorded_pool_is_played_and_compared(
    options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(TRACES / "01-plain"), *options])
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("cycles", [[], ["--cycles"]])
@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("StartLog", None, "there is no StartLog"),
        ("StartLog", "", "has no slot that a startd made"),
        ("scenario.conf", "use FEA", "scenario.conf:1: 'use FEA' is not a setting"),
    ],
)
def test_records_that_cannot_be_compared_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cycles: list[str], file: str, text: str | None, complaint: str
) -> None:
    folder = shutil.copytree(TRACES / "20c-kill-for-better-match", tmp_path / "records")
    for path in folder.glob(f"{file}*"):
        path.unlink()
    if text is not None:
        (folder / file).write_text(text)
    assert main([str(folder), *cycles]) == 2
    assert complaint in capsys.readouterr().err
