"""Specification: ``poolbook doctor`` on real folders, configurations and logs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.stores.fast_head import head_of
from poolbook.adapters.stores.log_paths import WriterLock

Found = list[dict[str, str]]
Doctor = Callable[..., tuple[int, Found]]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.lower().startswith(("_condor_", "poolbook_"))]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def doctor(folder: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Calls the command; what is not in order, less what this machine and the tests' own PATH are like."""

    def called(*words: str) -> tuple[int, Found]:
        capsys.readouterr()
        code = main(["doctor", "-json", *words])
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        of_here = ("python", "command", "cores", "memory", "open files", "processes", "sensors", "folder", "space")
        return code, [one for one in found if one["level"] != "ok" and one["check"] not in (*of_here, "scratch")]

    return called


def begun(jobs: int = 0, **description: str) -> None:
    """A pool's log pool.db, with jobs that were asked a slot for."""
    with Pool.open("sqlite:///pool.db", user="alice", start=time.time() - 1e6) as pool:
        if not pool.slots():
            pool.add_machine("node1", cpus=2, memory=2048)
        if jobs:
            pool.submit({"executable": "/bin/true", **description}, count=jobs)
            pool.advance(120)


def test_an_empty_folder_is_in_order_and_stays_empty(folder: Path, doctor: Doctor) -> None:
    assert doctor() == (0, [])
    assert list(folder.iterdir()) == []


def test_it_is_told_worst_first_with_the_way_out_below(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "poolbook.conf").write_text("START = False\nSTRAT = True\n")
    assert main(["doctor", "-quiet"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("poolbook doctor: 1 problem, ") and lines[0].endswith(" in order")
    assert lines[1].split(maxsplit=2)[:2] == ["problem", "START"]
    assert lines[2].strip() == "-> `poolbook config -verbose START` shows the line that sets it"
    assert not any(line.startswith("  ok") for line in lines)
    main(["doctor"])
    assert sum(line.startswith("  ok") for line in capsys.readouterr().out.splitlines()) > 8


@pytest.mark.parametrize(
    ("text", "code", "check", "words"),
    [
        ("START = (\n", 1, "configuration", "the configuration is not valid: "),
        ("NUM_SLOTS = many\n", 1, "configuration", "NUM_SLOTS"),
        ("include : /nonexistent.conf\n", 1, "configuration", "/nonexistent.conf"),
        ("START = False\n", 1, "START", "so this machine never starts a job"),
        ("START = False && KeyboardIdle > 60\n", 1, "START", "so this machine never starts a job"),
        ("STRAT = True\n", 0, "configuration", "STRAT"),
    ],
)
def test_what_a_configuration_does_is_found(
    folder: Path, doctor: Doctor, text: str, code: int, check: str, words: str
) -> None:
    (folder / "poolbook.conf").write_text(text)
    ended, (found,) = doctor()
    assert (ended, found["check"]) == (code, check)
    assert words in found["words"]


def test_a_configuration_that_offers_more_than_there_is_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "poolbook.conf").write_text("NUM_CPUS = 9999\nMEMORY = 999999999\n")
    main(["doctor", "-json"])
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)}
    assert "the configuration offers 9999 cores, but this machine has " in found["cores"]["words"]
    assert "offers 999999999 MiB of memory, but this machine has " in found["memory"]["words"]
    assert found["cores"]["level"] == found["memory"]["level"] == "warning"


def test_an_empty_file_is_a_place_for_a_log_unless_it_had_one(folder: Path, doctor: Doctor) -> None:
    (folder / "pool.db").touch()
    assert doctor() == (0, [])
    (folder / "pool.db").unlink()
    begun()
    (folder / "pool.db").write_bytes(b"")
    assert doctor()[0] == 1


def test_a_configuration_is_looked_at_where_serve_would_look(
    folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good.conf").write_text("START = True\n")
    (folder / "bad.conf").write_text("START = False\n")
    monkeypatch.setenv("POOLBOOK_CONFIG", "bad.conf")
    assert doctor()[0] == 1
    assert doctor("-config", "good.conf") == (0, [])
    monkeypatch.setenv("_CONDOR_START", "False")
    code, found = doctor("-config", "good.conf")
    assert (code, [one["check"] for one in found]) == (1, ["environment", "START"])
    assert doctor("-config", "missing.conf")[0] == 1


def test_what_the_environment_sets_is_looked_at_without_a_file_as_a_pool_would_follow_it(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CONDOR_SCRATCH_DIR", "/tmp")  # a job's own: no setting
    assert doctor() == (0, [])
    monkeypatch.setenv("_CONDOR_START", "False")
    code, found = doctor()
    assert (code, [one["check"] for one in found]) == (1, ["environment", "START"])
    assert "a pool here uses them without a configuration file" in found[0]["words"]


def test_a_time_zone_that_is_misspelled_is_found(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("Europe/Berlni", 1), ("Asia/Tokyo", 0), ("CET-1CEST,M3.5.0,M10.5.0/3", 0)):
        with monkeypatch.context() as patched:
            patched.setenv("TZ", name)
            time.tzset()
            assert len(doctor()[1]) == count, name
    time.tzset()


def test_a_log_that_is_cut_or_no_log_is_a_problem(folder: Path, doctor: Doctor) -> None:
    begun()
    shutil.copy("pool.db", "before.db")
    begun(jobs=1)
    assert doctor() == (0, [])
    shutil.copy("before.db", "pool.db")
    code, (cut,) = doctor()
    assert (code, cut["check"]) == (1, "log") and "its end was truncated" in cut["words"]
    (folder / "pool.db").write_text("no log at all\n")
    code, (none,) = doctor()
    assert (code, none["check"]) == (1, "log") and "not an SQLite database" in none["words"]
    code, (url,) = doctor("-log", "mysql://host/db")
    assert (code, url["check"]) == (1, "log") and "is not a valid log URL" in url["words"]


def test_a_log_in_a_folder_that_is_not_there_is_a_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-quiet", "-log", "no/such/x.db"]) == 1
    assert f"-> mkdir -p {folder}/no/such, or" in capsys.readouterr().out
    (folder / "no/such").mkdir(parents=True)
    assert main(["doctor", "-quiet", "-log", "no/such/x.db"]) == 0


def test_a_log_without_its_mark_is_found(folder: Path, doctor: Doctor) -> None:
    begun()
    (folder / "pool.db.head").unlink()
    code, (found,) = doctor()
    assert (code, found["check"]) == (0, "log") and "has no .head file" in found["words"]


def test_a_server_that_does_not_answer_is_a_problem(
    folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    code, (found,) = doctor("-log", "postgresql://u:secret@localhost:9/db")
    assert (code, found["check"]) == (1, "log")
    assert "secret" not in found["words"]


def test_jobs_that_are_held_and_jobs_that_fit_no_slot_are_found(doctor: Doctor) -> None:
    begun(jobs=3, request_cpus="64")
    code, (unfit,) = doctor()
    assert (code, unfit["check"]) == (0, "jobs")
    assert unfit["words"].startswith("no slot fits job 1.0, or 2 more like it")
    begun(jobs=2, hold="true")
    code, found = doctor()
    assert (code, [one["check"] for one in found]) == (0, ["jobs", "jobs"])
    assert found[0]["words"].startswith("2 jobs are on hold; 2.0: ")


def test_a_clock_that_was_set_back_is_found(doctor: Doctor) -> None:
    with Pool.open("sqlite:///pool.db", user="alice", start=time.time() + 3600) as pool:
        pool.add_machine("node1", cpus=1, memory=512)
    code, (found,) = doctor()
    assert (code, found["check"]) == (0, "clock")


def test_who_writes_the_log_and_what_runs_beside_it_is_found(folder: Path, doctor: Doctor) -> None:
    begun()
    (folder / "pool.db.d" / "claims").mkdir(parents=True)
    (folder / "pool.db.d" / "claims" / "1.0-1").write_text("")
    code, (left,) = doctor()
    assert (code, left["check"]) == (0, "server") and left["words"].startswith("1 started job is not managed")
    lock = WriterLock("pool.db")
    assert lock.take()
    try:
        code, (written,) = doctor()
    finally:
        lock.give_up()
    assert (code, written["check"]) == (0, "server")
    assert written["words"].startswith(f"process {os.getpid()} writes the log")


def test_an_imported_log_is_looked_at_as_what_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["import", str(ROOT / "docs/examples/owner-return"), "-log", "audit.db"])
    before = head_of("audit.db")
    capsys.readouterr()
    assert main(["doctor", "-log", "audit.db"]) == 0
    assert "imported records" in capsys.readouterr().out
    assert head_of("audit.db") == before


def test_wrong_usage_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "pool.db"]) == 2
    assert "-log pool.db" in capsys.readouterr().err
