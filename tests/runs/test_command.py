"""Golden: an administrator's two questions, as typed: `log -evicted` and `usage -from -to -by`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_files.importing.driver import Importer, Options
from poolbook.adapters.stores.opening import open_log

from ..importing.folders import TRACES
from ..replay.virtual_point import PointPool

OutputOf = Callable[..., str]
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "import.md"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("audit") / "audit.db")
    log = open_log(path, create=True)
    Importer(log, [str(TRACES / "05-prio-preempt")], Options(zone="UTC")).run()
    log.close()
    return path


@pytest.fixture
def output_of(audit: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> OutputOf:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def call(*arguments: str, code: int = 0, log: str = audit) -> str:
        assert main([*arguments, "-log", log]) == code
        output = capsys.readouterr()
        return output.out + output.err

    return call


def test_the_examples_on_the_page_equal_the_commands_output(output_of: OutputOf) -> None:
    page = PAGE.read_text(encoding="utf-8")
    examples = re.findall(r"```console\n\$ poolbook ([^\n]*) -log audit\.db\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    for line, answer in examples:
        assert output_of(*line.split()).splitlines() == answer.splitlines(), line


def test_evictions_as_json_are_in_seconds(output_of: OutputOf) -> None:
    listing = json.loads(output_of("log", "-since", "22:36:55", "-until", "22:36:58", "-evicted", "-json"))
    assert [eviction["job"] for eviction in listing["evictions"]] == ["1.0", "1.1"]
    first = listing["evictions"][0]
    assert (first["at"], first["lost"], first["cause"]) == ("2026-11-20T22:36:57.000000Z", 10.0, "priority")
    assert first["place"].startswith("EventLog")
    reason = "a user with a better priority was given the slot"
    assert listing["causes"] == [{"cause": "priority", "words": reason, "count": 2, "lost": 20.0}]
    assert listing["unknown"] == {"jobs": 0, "seconds": 0.0, "silent": False}


def test_usage_as_json_is_in_seconds(output_of: OutputOf) -> None:
    usage = json.loads(output_of("usage", "alice", "-from", "22:36:50", "-to", "22:37:00", "-by", "user,slot", "-json"))
    assert (usage["from"], usage["to"]) == ("2026-11-20T22:36:50.000000Z", "2026-11-20T22:37:00.000000Z")
    row = usage["rows"][0]
    assert row == {"user": "alice@localhost", "slot": row["slot"]} | {
        "jobs": row["jobs"], "runs": row["runs"], "used": row["used"], "goodput": row["goodput"],
        "wasted": row["wasted"], "evictions": row["evictions"],
    }  # fmt: skip
    assert {usage_row["user"] for usage_row in usage["rows"]} == {"alice@localhost"}
    assert usage["total"]["used"] == sum(usage_row["used"] for usage_row in usage["rows"])


# Arguments -> part of the error.
REFUSED = {
    ("log", "-since", "9 moons", "-evicted"): "'9 moons' is not a time",
    ("log", "-since", "2026-11-20", "-until", "2026-11-20"): "a date without a time is its midnight",
    ("log", "pool", "-evicted"): "pool has no evictions: give a job",
    ("usage", "-by", "machine,moon"): "use user, group, cluster, machine, slot, day, month",
    ("usage", "-by", "machine,machine"): "unknown key",
    ("usage", "-from", "moon"): "'moon' is not a time",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_an_invalid_request_is_refused_with_an_explanation(arguments: tuple[str, ...], output_of: OutputOf) -> None:
    assert REFUSED[arguments] in output_of(*arguments, code=2)


def test_a_name_without_runs_is_reported(output_of: OutputOf) -> None:
    assert "no run belongs to nobody" in output_of("usage", "nobody", "-by", "machine", code=1)


def test_a_window_without_runs_is_reported_with_the_time_that_the_log_covers(output_of: OutputOf) -> None:
    assert output_of("usage", "-from", "3:00", "-to", "3:30", "-by", "user") == (
        "There are no runs from 2026-11-20 03:00:00 until 2026-11-20 03:30:00; the log covers 2026-11-20 22:36:41 to "
        "2026-11-20 22:38:56.\n"
    )


@pytest.mark.parametrize(
    ("trace", "note"),
    [
        ("10-fairshare", " their outcomes are unknown, so their time is included only in TIME."),
        ("05-prio-preempt", ""),
    ],
)
def test_runs_with_unknown_ends_are_counted_below_the_table(
    output_of: OutputOf, tmp_path: Path, trace: str, note: str
) -> None:
    path = str(tmp_path / "audit.db")
    log = open_log(path, create=True)
    Importer(log, [str(TRACES / trace)], Options(zone="UTC")).run()
    log.close()
    *_, total, last = output_of("usage", "-by", "machine", log=path).splitlines()
    row = json.loads(output_of("usage", "-by", "machine", "-json", log=path))["total"]
    assert (row["used"] > row["goodput"] + row["wasted"]) == bool(note)
    assert last.endswith(note) and (total if note else last).startswith("total ")


def test_a_log_without_records_of_runs_says_so(output_of: OutputOf, tmp_path: Path) -> None:
    path = str(tmp_path / "match.db")
    log = open_log(path, create=True)
    Importer(log, [str(next((TRACES / "05-prio-preempt").glob("MatchLog*")))], Options(zone="UTC")).run()
    log.close()
    for arguments in (("log", "-evicted"), ("usage", "-by", "machine")):
        assert "No record of the log shows a run: import job event logs" in output_of(*arguments, log=path)


def test_a_listing_ends_before_the_end_of_its_window(output_of: OutputOf) -> None:
    lines = output_of("log", "1.0", "-since", "22:36:57", "-until", "22:36:59").splitlines()
    assert {line.split()[2] for line in lines} == {"22:36:57"}
    all_lines = output_of("log", "1.0").splitlines()
    assert set(lines) < set(all_lines)


def test_a_time_of_day_is_the_last_one_before_the_end_of_the_records(output_of: OutputOf) -> None:
    assert output_of("log", "-since", "22:36:55", "-evicted") == output_of(
        "log", "-since", "2026-11-20 22:36:55", "-evicted"
    )
    assert "has been waiting (Idle) since" in output_of("why", "1.0", "-at", "22:36:58").splitlines()[0]


def test_without_a_window_usage_is_computed_from_the_history(output_of: OutputOf) -> None:
    assert output_of("usage").splitlines()[0].split() == ["USER", "JOBS", "WALL_TIME", "CPU_TIME", "SLOT_TIME"]


def test_the_same_commands_work_on_a_pools_own_log(output_of: OutputOf, tmp_path: Path) -> None:
    pool = PointPool()
    for line in ("machine h Cpus=1 Memory=2048", "submit alice 1 seconds=3600 grace=5", "run 10 s",
                 "vacate root slot1_1@h", "run 30 s"):  # fmt: skip
        pool.say(line)
    path = str(tmp_path / "pool.db")
    log = open_log(path, create=True)
    log.append([event for _, event in pool.events()])
    log.close()
    output = output_of("log", "-evicted", log=path)
    assert re.search(
        r"1\.0 +alice@example\.org +slot1_1@h +15 s +a user asked for the slot or job to be vacated", output
    )
    row = json.loads(output_of("usage", "-by", "machine,user", "-json", log=path))["rows"][0]
    assert (row["machine"], row["user"], row["wasted"], row["evictions"]) == ("h", "alice@example.org", 15.0, 1)
