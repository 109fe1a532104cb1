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

Finding = list[dict[str, str]]
Doctor = Callable[..., tuple[int, Finding]]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.lower().startswith(("_condor_", "poolbook_"))]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def doctor(folder: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Return a function that calls the command and returns its findings, without those about this machine and the
    tests' own PATH."""

    def called(*arguments: str) -> tuple[int, Finding]:
        capsys.readouterr()
        code = main(["doctor", "-json", *arguments])
        findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        of_here = ("python", "command", "cores", "memory", "open files", "processes", "sensors", "folder", "space")
        return code, [
            finding
            for finding in findings
            if finding["level"] != "ok" and finding["check"] not in (*of_here, "scratch")
        ]

    return called


def create_log(jobs: int = 0, **description: str) -> None:
    """Create a pool's log pool.db, with jobs for which slots were requested."""
    with Pool.open("sqlite:///pool.db", user="alice", start=time.time() - 1e6) as pool:
        if not pool.slots():
            pool.add_machine("node1", cpus=2, memory=2048)
        if jobs:
            pool.submit({"executable": "/bin/true", **description}, count=jobs)
            pool.advance(120)


def test_an_empty_folder_is_fine_and_stays_empty(folder: Path, doctor: Doctor) -> None:
    assert doctor() == (0, [])
    assert list(folder.iterdir()) == []


def test_findings_are_sorted_by_severity_with_the_remedy_below(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    ("text", "code", "check", "message"),
    [
        ("START = (\n", 1, "configuration", "the configuration is not valid: "),
        ("NUM_SLOTS = many\n", 1, "configuration", "NUM_SLOTS"),
        ("include : /nonexistent.conf\n", 1, "configuration", "/nonexistent.conf"),
        ("START = False\n", 1, "START", "so this machine never starts a job"),
        ("START = False && KeyboardIdle > 60\n", 1, "START", "so this machine never starts a job"),
        ("STRAT = True\n", 0, "configuration", "STRAT"),
    ],
)
def test_problems_of_a_configuration_are_found(
    folder: Path, doctor: Doctor, text: str, code: int, check: str, message: str
) -> None:
    (folder / "poolbook.conf").write_text(text)
    exit_code, (finding,) = doctor()
    assert (exit_code, finding["check"]) == (code, check)
    assert message in finding["words"]


def test_a_configuration_that_offers_too_much_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "poolbook.conf").write_text("NUM_CPUS = 9999\nMEMORY = 999999999\n")
    main(["doctor", "-json"])
    findings = {finding["check"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert "the configuration offers 9999 cores, but this machine has " in findings["cores"]["words"]
    assert "offers 999999999 MiB of memory, but this machine has " in findings["memory"]["words"]
    assert findings["cores"]["level"] == findings["memory"]["level"] == "warning"


def test_an_empty_file_may_become_a_log_unless_it_was_one(folder: Path, doctor: Doctor) -> None:
    (folder / "pool.db").touch()
    assert doctor() == (0, [])
    (folder / "pool.db").unlink()
    create_log()
    (folder / "pool.db").write_bytes(b"")
    assert doctor()[0] == 1


def test_the_configuration_is_the_one_that_serve_would_read(
    folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "good.conf").write_text("START = True\n")
    (folder / "bad.conf").write_text("START = False\n")
    monkeypatch.setenv("POOLBOOK_CONFIG", "bad.conf")
    assert doctor()[0] == 1
    assert doctor("-config", "good.conf") == (0, [])
    monkeypatch.setenv("_CONDOR_START", "False")
    code, findings = doctor("-config", "good.conf")
    assert (code, [finding["check"] for finding in findings]) == (1, ["environment", "START"])
    assert doctor("-config", "missing.conf")[0] == 1


def test_settings_from_the_environment_are_checked_without_a_file(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CONDOR_SCRATCH_DIR", "/tmp")  # a job's own variable, not a setting
    assert doctor() == (0, [])
    monkeypatch.setenv("_CONDOR_START", "False")
    code, findings = doctor()
    assert (code, [finding["check"] for finding in findings]) == (1, ["environment", "START"])
    assert "a pool here uses them without a configuration file" in findings[0]["words"]


def test_a_misspelled_time_zone_is_found(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, count in (("Europe/Berlni", 1), ("Asia/Tokyo", 0), ("CET-1CEST,M3.5.0,M10.5.0/3", 0)):
        with monkeypatch.context() as patched:
            patched.setenv("TZ", name)
            time.tzset()
            assert len(doctor()[1]) == count, name
    time.tzset()


def test_a_truncated_log_or_another_file_is_a_problem(folder: Path, doctor: Doctor) -> None:
    create_log()
    shutil.copy("pool.db", "before.db")
    create_log(jobs=1)
    assert doctor() == (0, [])
    shutil.copy("before.db", "pool.db")
    code, (truncated,) = doctor()
    assert (code, truncated["check"]) == (1, "log") and "its end was truncated" in truncated["words"]
    (folder / "pool.db").write_text("no log at all\n")
    code, (not_a_log,) = doctor()
    assert (code, not_a_log["check"]) == (1, "log") and "not an SQLite database" in not_a_log["words"]
    code, (url,) = doctor("-log", "mysql://host/db")
    assert (code, url["check"]) == (1, "log") and "is not a valid log URL" in url["words"]


def test_a_log_in_a_missing_folder_is_a_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "-quiet", "-log", "no/such/x.db"]) == 1
    assert f"-> mkdir -p {folder}/no/such, or" in capsys.readouterr().out
    (folder / "no/such").mkdir(parents=True)
    assert main(["doctor", "-quiet", "-log", "no/such/x.db"]) == 0


def test_a_log_without_its_mark_is_found(folder: Path, doctor: Doctor) -> None:
    create_log()
    (folder / "pool.db.head").unlink()
    code, (finding,) = doctor()
    assert (code, finding["check"]) == (0, "log") and "has no .head file" in finding["words"]


def test_a_server_that_does_not_answer_is_a_problem(
    folder: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    code, (finding,) = doctor("-log", "postgresql://u:secret@localhost:9/db")
    assert (code, finding["check"]) == (1, "log")
    assert "secret" not in finding["words"]


def test_held_jobs_and_jobs_that_fit_no_slot_are_found(doctor: Doctor) -> None:
    create_log(jobs=3, request_cpus="64")
    code, (no_fit,) = doctor()
    assert (code, no_fit["check"]) == (0, "jobs")
    assert no_fit["words"].startswith("no slot matches job 1.0, or 2 more like it")
    create_log(jobs=2, hold="true")
    code, findings = doctor()
    assert (code, [finding["check"] for finding in findings]) == (0, ["jobs", "jobs"])
    assert findings[0]["words"].startswith("2 jobs are on hold; 2.0: ")


def test_a_clock_set_back_is_found(doctor: Doctor) -> None:
    with Pool.open("sqlite:///pool.db", user="alice", start=time.time() + 3600) as pool:
        pool.add_machine("node1", cpus=1, memory=512)
    code, (finding,) = doctor()
    assert (code, finding["check"]) == (0, "clock")


def test_the_logs_writer_and_leftover_processes_are_found(folder: Path, doctor: Doctor) -> None:
    create_log()
    (folder / "pool.db.d" / "claims").mkdir(parents=True)
    (folder / "pool.db.d" / "claims" / "1.0-1").write_text("")
    code, (leftover,) = doctor()
    assert (code, leftover["check"]) == (0, "server") and leftover["words"].startswith("1 started job is not managed")
    lock = WriterLock("pool.db")
    assert lock.try_acquire()
    try:
        code, (writer,) = doctor()
    finally:
        lock.give_up()
    assert (code, writer["check"]) == (0, "server")
    assert writer["words"].startswith(f"process {os.getpid()} writes the log")


def test_an_imported_log_is_checked_as_an_import(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["import", str(ROOT / "docs/examples/owner-return"), "-log", "audit.db"])
    before = head_of("audit.db")
    capsys.readouterr()
    assert main(["doctor", "-log", "audit.db"]) == 0
    assert "imported records" in capsys.readouterr().out
    assert head_of("audit.db") == before


def test_wrong_usage_is_explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "pool.db"]) == 2
    assert "-log pool.db" in capsys.readouterr().err
