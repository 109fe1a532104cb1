"""Specification: ``poolbook play``, and its messages when a scenario and the pool do not fit."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main

TRACES = Path(__file__).parents[1] / "data" / "traces"
SCENARIO = """\
config
    use FEATURE : StaticSlots
    RUNBENCHMARKS = False
    WANT_SUSPEND = True
    SUSPEND = OwnerIsHere =?= True
    CONTINUE = OwnerIsHere =!= True
end
at 0:20 submit alice run=10:00
at 1:00 OwnerIsHere=True
expect slot1 Claimed/Suspended 14
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POOLBOOK_CONFIG", raising=False)
    return tmp_path


def write_scenario(folder: Path, text: str, name: str = "a.play") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return name


def test_a_scenario_is_reported_line_by_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", write_scenario(folder, SCENARIO), "-audit"]) == 0
    output = capsys.readouterr().out
    suspension = next(line for line in output.splitlines() if " 14 " in line)
    assert suspension.split(maxsplit=6) == [
        "0:01:00", "slot1@ws1", "14", "Claimed/Busy", "->", "Claimed/Suspended",
        "SUSPEND became true: SUSPEND = OwnerIsHere is true; OwnerIsHere true",
    ]  # fmt: skip
    assert "   0:01:00  > OwnerIsHere=True\n" in output
    assert output.endswith("jobs: 1 submitted, 1 started\naudit: all events were allowed\n")


def test_a_failed_expectation_is_reported_with_the_slots_story(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write_scenario(folder, SCENARIO + "at 2:00 expect slot1 Claimed/Busy 15\nat 2:00 expect 1.0 Running\n")
    assert main(["play", name, "-quiet"]) == 1
    output = capsys.readouterr().out.splitlines()
    assert output[0] == (
        "   0:02:00  ! line 11: expected slot1@ws1 Claimed/Busy 15, but slot1@ws1 is Claimed/Suspended by 14"
    )
    assert output[1].startswith("            | Slot slot1@ws1 has been Claimed/Suspended since 2026-11-02 08:01:00")
    story = [line for line in output[2:] if line.startswith("            | 2026-11-02 08:")]
    assert [" ".join(re.findall(r"by transition (\w+)", line)) for line in story if "by transition" in line][:4] == [
        "6", "9", "11", "14",
    ]  # fmt: skip
    assert "   0:02:00  ! line 12: expected job 1.0 Running, but it is Suspended" in output
    assert output[-1] == "some expectations were not met"


def test_a_refusal_by_the_pool_is_reported_but_not_a_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", write_scenario(folder, "at 1:00 activate slot1\n"), "-quiet"]) == 0
    assert capsys.readouterr().out.startswith("   0:01:00  ! line 1: refused: ")


@pytest.mark.parametrize("line", ["hold 7.0", "vacate 7.3 fast", "edit 7 Rank=1"])
def test_a_job_missing_in_the_queue_is_reported(folder: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert main(["play", write_scenario(folder, f"at 1:00 {line}\n"), "-quiet"]) == 0
    job = line.split()[1]
    assert capsys.readouterr().out.startswith(f"   0:01:00  ! line 1: refused: job {job} is not in the queue\n")


@pytest.mark.parametrize(
    ("text", "ends"), [("lease=90", "2:30"), ("JobLeaseDuration=60", "2:00"), ("lease=90 JobLeaseDuration=60", "2:00")]
)
def test_a_claim_lasts_for_its_lease_or_its_jobs_duration(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, ends: str
) -> None:
    story = f"at 0:10 claim slot1 by bob {text}\nat 1:00 access-point silent\nuntil 5:00\n"
    assert (
        main(
            ["play", write_scenario(folder, "config\nuse FEATURE : StaticSlots\nRUNBENCHMARKS = False\nend\n" + story)]
        )
        == 0
    )
    end_line = next(line for line in capsys.readouterr().out.splitlines() if " 10 H " in line)
    assert end_line.split()[0] == f"0:0{ends}"


def test_json_has_the_whole_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", write_scenario(folder, SCENARIO), "-json", "-audit"]) == 0
    report = json.loads(capsys.readouterr().out)
    (suspension,) = [entry for entry in report["story"] if entry["what"] == "14"]
    assert (suspension["at"], suspension["thing"], suspension["cause"]) == (60.0, "slot1@ws1", "suspend")
    assert suspension["evidence"] == {
        "name": "SUSPEND", "expression": "OwnerIsHere is true", "value": "true", "read": {"MY.OwnerIsHere": "true"},
    }  # fmt: skip
    assert (report["as_expected"], report["failed"], report["refused"], report["violations"]) == (True, [], [], [])
    assert report["summary"]["transitions"] == {"1": 1, "6": 1, "9": 1, "11": 1, "14": 1}


def test_the_commands_dialect_overrides_the_scenarios(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write_scenario(folder, "dialect manual\n" + SCENARIO)
    assert main(["play", name, "-quiet", "-dialect", "htcondor-25"]) == 0
    assert "transitions: 1 x1, 5 x1, 11 x1, 14 x1\n" in capsys.readouterr().out


def test_an_invalid_policy_of_the_schedd_is_ignored_with_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = write_scenario(
        folder, "config\nSYSTEM_PERIODIC_HOLD = $(JobStatus != 3) && (x)\nGROUP_SORT_EXPR = (\nend\n" + SCENARIO
    )
    assert main(["play", name, "-quiet"]) == 0
    warned = capsys.readouterr().err
    assert "a.play:2: SYSTEM_PERIODIC_HOLD is not a valid expression and is ignored, as in HTCondor" in warned
    assert "a.play:3: GROUP_SORT_EXPR = (: expected an operand" in warned


def test_configurations_are_files_of_the_command_or_next_to_the_scenario(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "scenarios").mkdir()
    write_scenario(folder, "START = False\nuse FEATURE : StaticSlots\n", "base.conf")
    write_scenario(folder, "START = True\n", "scenarios/mine.conf")
    text = "config mine.conf\nat 0:10 submit alice\nexpect slot1 Claimed/Busy\n"
    assert main(["play", write_scenario(folder, text, "scenarios/a.play"), "-config", "base.conf", "-quiet"]) == 0


def test_the_log_is_written_once_to_the_requested_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = write_scenario(folder, SCENARIO)
    assert main(["play", name, "-quiet", "-log", "kept.db"]) == 0
    assert main(["why", "slot1@ws1", "-log", "kept.db"]) == 0
    assert "Slot slot1@ws1 has been Claimed/Suspended" in capsys.readouterr().out
    assert main(["play", name, "-quiet", "-log", "kept.db"]) == 1
    assert "kept.db already has events" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "arguments", "complaint"),
    [
        ("at 0:10 drian\n", [], "a.play:1: 'drian' is not a valid step; did you mean drain?"),
        ("config\nSUSPEND = (x\nend\n", [], "a.play:2: SUSPEND: (x is not an expression"),
        ("config\nA = $(B)\nB = $(A)\nSTART = $(A)\nend\n", [], "a.play:"),
        ("config none.conf\n", [], "none.conf cannot be read"),
        ("machine a cores=2\nconfig\nNUM_SLOTS_TYPE_1 = 3\nSLOT_TYPE_1 = cpus=1\nend\n", [], "a.play:1: the conf"),
        ("at 0:10 vacate slot7\n", [], "a.play:1: unknown slot slot7@ws1 at 0:00:10; the slots are slot1@ws1"),
        ("at 0:10 measure 1.0 memory=5\n", [], "a.play:1: job 1.0 is not running at 0:00:10"),
        ("at 0:10 on\n", [], "a.play:1: ws1 is already in the pool"),
        (
            "at 0:10 submit a\nat 0:20 off peaceful\nat 0:30 on\n",
            [],
            "a.play:3: ws1 is still shutting down and waiting",
        ),
        ("at 0:10 set NUM_SLOTS_TYPE_1 = 3\n", [], "a.play:1: the configuration of ws1: SLOT_TYPE_1: slot 1 cannot"),
        ("", ["-dialect", "klingon"], "use manual or htcondor-25"),
        ("", ["-seed", "x"], "-seed must be a whole number"),
        ("", ["b.play"], "specify one scenario"),
    ],
)
def test_an_unplayable_line_is_reported_with_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str], complaint: str
) -> None:
    assert main(["play", write_scenario(folder, text), *arguments]) in (1, 2)
    assert complaint in capsys.readouterr().err


def test_a_probably_misspelled_name_gives_a_warning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", write_scenario(folder, "config\nSUSPNED = True\nend\n"), "-quiet"]) == 0
    assert "did you mean SUSPEND?" in capsys.readouterr().err


def test_the_example_of_the_page_plays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "play.md").read_text(encoding="utf-8")
    assert main(["play", write_scenario(folder, page.split("```")[1]), "-audit"]) == 0
    expected = page.split("```")[3].splitlines()
    assert expected[1] in capsys.readouterr().out


YEAR = """\
start 2027-01-01 00:00 America/New_York
until 366d
config
    RUNBENCHMARKS = False
end
at 0:00 submit alice run=10:00 cron_minute=30 cron_hour=2 cron_day_of_month=14 cron_prep_time=60 on_exit_remove=false
at 1:00 submit bob run=10 count=3 max_idle=1
"""


def test_a_schedule_follows_the_owners_clock_for_a_year(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "-audit", write_scenario(folder, YEAR)]) == 0
    output = capsys.readouterr().out
    ends = re.findall(r"2027-(\d\d-\d\d \d\d:\d\d):00  job 1.0 +requeue", output)
    assert ends[:4] == ["01-14 02:40", "02-14 02:40", "03-14 03:40", "04-14 02:40"]  # on March 14 there is no 2:30
    assert ends[-2:] == ["11-14 02:40", "12-14 02:40"]
    assert "to be started in 6 min" in output
