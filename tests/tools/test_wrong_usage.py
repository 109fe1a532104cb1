"""Golden: condor_q, condor_history and condor_status report options without their values as HTCondor's do."""

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
def test_wrong_usage_is_reported_as_by_htcondor(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = capture(name)
    tool = "condor_" + name.partition("_")[0]
    monkeypatch.setattr("sys.argv", [tool, *expected.argv])
    assert (main(), *capsys.readouterr()) == (expected.exit_code, expected.out, expected.err)


def test_poolbooks_own_command_names_the_correct_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["q", "-limit", "x"]) == 2
    assert capsys.readouterr().err == "poolbook q: -limit must be a whole number, at least 1, not 'x'\n"
