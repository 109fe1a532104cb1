"""Golden: the two questions of an administrator, as they are typed: `log -evicted` and `usage -from -to -by`."""

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

Said = Callable[..., str]
PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "import.md"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("audit") / "audit.db")
    log = open_log(path, create=True)
    Importer(log, [str(TRACES / "05-prio-preempt")], Options(zone="UTC")).run()
    log.close()
    return path


@pytest.fixture
def said(audit: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()

    def call(*words: str, code: int = 0, log: str = audit) -> str:
        assert main([*words, "-log", log]) == code
        told = capsys.readouterr()
        return told.out + told.err

    return call


def test_the_examples_of_the_page_are_what_the_commands_print(said: Said) -> None:
    page = PAGE.read_text(encoding="utf-8")
    shown = re.findall(r"```console\n\$ poolbook ([^\n]*) -log audit\.db\n(.*?)```", page, re.DOTALL)
    assert len(shown) == 2
    for line, answer in shown:
        assert said(*line.split()).splitlines() == answer.splitlines(), line


def test_evictions_are_told_to_programs_in_seconds(said: Said) -> None:
    found = json.loads(said("log", "-since", "22:36:55", "-until", "22:36:58", "-evicted", "-json"))
    assert [one["job"] for one in found["evictions"]] == ["1.0", "1.1"]
    first = found["evictions"][0]
    assert (first["at"], first["lost"], first["cause"]) == ("2026-11-20T22:36:57.000000Z", 10.0, "priority")
    assert first["place"].startswith("EventLog")
    words = "a user with a better priority was given the slot"
    assert found["causes"] == [{"cause": "priority", "words": words, "count": 2, "lost": 20.0}]
    assert found["unknown"] == {"jobs": 0, "seconds": 0.0, "silent": False}


def test_usage_is_told_to_programs_in_seconds(said: Said) -> None:
    found = json.loads(said("usage", "alice", "-from", "22:36:50", "-to", "22:37:00", "-by", "user,slot", "-json"))
    assert (found["from"], found["to"]) == ("2026-11-20T22:36:50.000000Z", "2026-11-20T22:37:00.000000Z")
    row = found["rows"][0]
    assert row == {"user": "alice@localhost", "slot": row["slot"]} | {
        "jobs": row["jobs"], "runs": row["runs"], "used": row["used"], "goodput": row["goodput"],
        "wasted": row["wasted"], "evictions": row["evictions"],
    }  # fmt: skip
    assert {one["user"] for one in found["rows"]} == {"alice@localhost"}
    assert found["total"]["used"] == sum(one["used"] for one in found["rows"])


# Words -> what the refusal says.
REFUSED = {
    ("log", "-since", "9 moons", "-evicted"): "'9 moons' is not a time",
    ("log", "-since", "2026-11-20", "-until", "2026-11-20"): "a date without a time is its midnight",
    ("log", "pool", "-evicted"): "pool has no evictions: give a job",
    ("usage", "-by", "machine,moon"): "use user, group, cluster, machine, slot, day, month",
    ("usage", "-by", "machine,machine"): "unknown key",
    ("usage", "-from", "moon"): "'moon' is not a time",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_asked_is_refused_in_words(words: tuple[str, ...], said: Said) -> None:
    assert REFUSED[words] in said(*words, code=2)


def test_a_name_of_which_there_is_no_run_is_told(said: Said) -> None:
    assert "no run belongs to nobody" in said("usage", "nobody", "-by", "machine", code=1)


def test_a_window_without_runs_is_named_with_the_time_of_which_the_log_tells(said: Said) -> None:
    assert said("usage", "-from", "3:00", "-to", "3:30", "-by", "user") == (
        "There are no runs from 2026-11-20 03:00:00 until 2026-11-20 03:30:00; the log covers 2026-11-20 22:36:41 to "
        "2026-11-20 22:38:56.\n"
    )


@pytest.mark.parametrize(
    ("trace", "said_of"),
    [
        ("10-fairshare", " how they ended is not known; their time is in TIME alone."),
        ("05-prio-preempt", ""),
    ],
)
def test_runs_whose_ends_are_not_known_are_counted_below_the_table(
    said: Said, tmp_path: Path, trace: str, said_of: str
) -> None:
    path = str(tmp_path / "audit.db")
    log = open_log(path, create=True)
    Importer(log, [str(TRACES / trace)], Options(zone="UTC")).run()
    log.close()
    *_, total, last = said("usage", "-by", "machine", log=path).splitlines()
    row = json.loads(said("usage", "-by", "machine", "-json", log=path))["total"]
    assert (row["used"] > row["goodput"] + row["wasted"]) == bool(said_of)
    assert last.endswith(said_of) and (total if said_of else last).startswith("total ")


def test_a_log_without_records_of_runs_says_so(said: Said, tmp_path: Path) -> None:
    path = str(tmp_path / "match.db")
    log = open_log(path, create=True)
    Importer(log, [str(next((TRACES / "05-prio-preempt").glob("MatchLog*")))], Options(zone="UTC")).run()
    log.close()
    for words in (("log", "-evicted"), ("usage", "-by", "machine")):
        assert "No record of the log shows a run: import job event logs" in said(*words, log=path)


def test_a_listing_ends_before_the_end_of_its_window(said: Said) -> None:
    lines = said("log", "1.0", "-since", "22:36:57", "-until", "22:36:59").splitlines()
    assert {line.split()[2] for line in lines} == {"22:36:57"}
    whole = said("log", "1.0").splitlines()
    assert set(lines) < set(whole)


def test_a_time_of_day_is_the_last_one_before_the_records_end(said: Said) -> None:
    assert said("log", "-since", "22:36:55", "-evicted") == said("log", "-since", "2026-11-20 22:36:55", "-evicted")
    assert "has been waiting (Idle) since" in said("why", "1.0", "-at", "22:36:58").splitlines()[0]


def test_without_a_window_usage_is_the_histories_as_before(said: Said) -> None:
    assert said("usage").splitlines()[0].split() == ["USER", "JOBS", "WALL_TIME", "CPU_TIME", "SLOT_TIME"]


def test_a_pools_own_log_is_asked_the_same(said: Said, tmp_path: Path) -> None:
    pool = PointPool()
    for line in ("machine h Cpus=1 Memory=2048", "submit alice 1 seconds=3600 grace=5", "run 10 s",
                 "vacate root slot1_1@h", "run 30 s"):  # fmt: skip
        pool.say(line)
    path = str(tmp_path / "pool.db")
    log = open_log(path, create=True)
    log.append([event for _, event in pool.events()])
    log.close()
    told = said("log", "-evicted", log=path)
    assert re.search(r"1\.0 +alice@example\.org +slot1_1@h +15 s +a user asked for the slot or job to be vacated", told)
    row = json.loads(said("usage", "-by", "machine,user", "-json", log=path))["rows"][0]
    assert (row["machine"], row["user"], row["wasted"], row["evictions"]) == ("h", "alice@example.org", 15.0, 1)
