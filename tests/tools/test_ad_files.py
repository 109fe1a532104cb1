"""Golden: ads of a file are printed as by HTCondor's tools, and held jobs by their codes. Table: files without valid
ads."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table
from poolbook.adapters.condor_tools.formats import whole_ads

from ..together import together
from .captures import NOVEMBER_23, capture, captured_ads, printed, surroundings_at


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the captures, in a folder without a log, at their second."""
    for kind, ads in (("ads", "q_now_long"), ("slots", "status_now_long"), ("hist", "history_now_long")):
        for form in ("long", "json", "xml"):
            (tmp_path / f"{kind}.{form}").write_text("".join(whole_ads(form, captured_ads(ads), None)))
    monkeypatch.chdir(tmp_path)
    surroundings = surroundings_at(me="alice@localhost")._replace(now=NOVEMBER_23 + 51)
    monkeypatch.setattr("poolbook.adapters.cli.queries.display_context", lambda: surroundings)


@pytest.mark.parametrize(
    "name",
    [
        "q_jobads", "q_jobads_nobatch", "q_jobads_json", "q_jobads_json_auto", "q_jobads_xml", "q_jobads_af",
        "q_jobads_hold", "q_jobads_missing", "status_ads", "status_ads_af", "status_ads_json",
    ],
)  # fmt: skip
def test_the_ads_of_a_file_are_printed_as_by_htcondor(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = capture(name)
    arguments = capture(name).argv
    tool = "condor_status" if name.startswith("status") else "condor_q"
    assert main([tool, *arguments]) == expected.exit_code
    assert capsys.readouterr() == (expected.out, expected.err)


def test_standard_input_may_be_the_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with open(tmp_path / "ads.long", encoding="utf-8") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert main(["condor_q", "-jobads", "-", "-totals"]) == 0
    assert capsys.readouterr().out == capture("q_jobads_stdin").out


def test_a_missing_history_file_is_reported_as_by_htcondor(capsys: pytest.CaptureFixture[str]) -> None:
    expected = capture("history_file_missing")
    assert main(["condor_history", "-file", "nosuch"]) == expected.exit_code
    assert capsys.readouterr().err == expected.err


def test_a_history_file_is_read_with_its_banners(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ads = (tmp_path / "hist.long").read_text().strip().split("\n\n")
    banner = '\n*** Offset = 0 ClusterId = 1 ProcId = 0 Owner = "alice" CompletionDate = 1795470646\n'
    (tmp_path / "history").write_text(banner.join([*ads, ""]))
    assert main(["condor_history", "-file", "history", "-af", "ClusterId", "ProcId", "ExitCode"]) == 0
    assert capsys.readouterr().out == "1 0 0\n1 1 0\n"


@together(
    "text",
    [
        '<c><a n="ClusterId"><i>1</i></a><a n="ProcId"><i>0</i></a></c>\n<c><a n="ClusterId"><i>2</i></a></c>',
        "[ClusterId = 1; ProcId = 0]\n[ClusterId = 2]",
        '{\n[\n  ClusterId = 1; ProcId = 0\n]\n,\n[ ClusterId = 2; Cmd = "]" ]\n}',
        '[{"ClusterId": 1, "ProcId": 0}, {"ClusterId": 2}]',
        "ClusterId = 1\nProcId = 0\n\nClusterId = 2",
    ],
)
@pytest.mark.parametrize("options", [["q", "-jobads"], ["status", "-ads"], ["history", "-forwards", "-file"]])
def test_ads_are_read_in_every_form(
    text: str, options: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "ads").write_text(text)
    assert main([*options, "ads", "-af", "ClusterId", "ProcId"]) == 0
    assert capsys.readouterr().out == "1 0\n2 undefined\n"


@pytest.mark.parametrize("name", ["q_hold_codes", "q_hold_codes_all"])
def test_held_jobs_are_counted_by_their_codes(name: str) -> None:
    expected = capture(name)
    surroundings = surroundings_at()._replace(now=NOVEMBER_23 + 51)
    assert (
        printed(
            queue_table.render(captured_ads("q_now_long"), queue_table.parse_arguments(expected.argv), surroundings)
        )
        == expected.out
    )


@together(
    ("arguments", "why"),
    [
        ("q -jobads:csv ads.long", "unknown format 'csv'; use auto, long, json, xml, new"),
        ("q -jobads:json ads.long", ""),
        ("q -jobads ads.long -better-analyze", "needs the log; omit -jobads"),
        ("status -ads nosuch", "Can't open file of ClassAds: nosuch"),
    ],
)
def test_a_file_without_valid_ads_is_refused(arguments: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(arguments.split())
    output, err = capsys.readouterr()
    assert (why in err, output) == (True, "") if why else ("Total for query: 0 jobs" in output, code) == (True, 0)
