"""Golden: condor_q, condor_history and condor_status say of options without their values what HTCondor's say."""

from __future__ import annotations

import pytest

from poolbook.adapters.cli.main import main

from ..together import together
from .captures import capture


@together(
    "name",
    [
        "history_constraint_none",
        "history_format_one",
        "history_limit_none",
        "history_since_none",
        "q_af_none",
        "q_attributes_none",
        "q_constraint_none",
        "q_format_one",
        "q_limit_bad",
        "q_limit_none",
        "q_limit_zero",
        "q_name_none",
        "status_af_none",
        "status_constraint_none",
    ],
)
def test_it_says_what_the_real_one_says(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = capture(name)
    tool = "condor_" + name.partition("_")[0]
    monkeypatch.setattr("sys.argv", [tool, *real.argv])
    assert (main(), *capsys.readouterr()) == (real.exit_code, real.out, real.err)


def test_by_poolbooks_own_name_it_says_what_would_be_right(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["q", "-limit", "x"]) == 2
    assert capsys.readouterr().err == "poolbook q: -limit takes a whole number from 1, not 'x'\n"
