"""Golden: ``poolbook audit`` as users see it, and what every command does with an imported log."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from datetime import UTC
from pathlib import Path

import pytest

from poolbook.adapters.cli.audit import as_json, report
from poolbook.adapters.cli.main import COMMANDS, main
from poolbook.adapters.library.embedded_pool import Pool
from poolbook.adapters.runtime.open_pool import open_pool_log
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.ports.log import LogError
from poolbook.domain.state_machines import DIALECTS, HTCONDOR_25
from poolbook.replay.audit_result import (
    Audit,
    AuditFinding,
    Contradiction,
    MissingRecords,
    SourceValue,
    UnaccountedTime,
    UnreadRecord,
)
from poolbook.replay.forensics.imported_log import IMPORTED
from poolbook.replay.validation.validator import audit_native_log

from .real import Folder

BEGIN = 1_795_214_200_000_000
SLOT = "slot1@node"
NUMBERS = HTCONDOR_25.job_status_numbers
KEYS = {
    *(
        "transitions",
        "beyond",
        "undocumented",
        "violations",
        "contradictions",
        "quarantined",
        "seal",
        "letters",
        "jobs",
        "gaps",
    ),
    *("unaccounted", "noted", "lost", "repeated", "torn", "sources", "dialect", "imported", "events", "verdict"),
}


def imported(path: Path) -> str:
    """Return a log like that of an import: of a StartLog that starts in the middle, and of a job's log."""
    stimulus = "1:{}".format
    log = open_log(str(path), create=True)
    text = "Job submitted from host: <10.0.0.1:9618?alias=access>"
    removed = "Job was aborted.\n\tvia condor_rm (by user alice)"
    log.append(
        [
            e.PoolFounded(BEGIN, "founded", "import", "node", "htcondor-25", "node", "0", {IMPORTED: "true"}),
            e.SourceFound(BEGIN, "read", "1:0", 1, "/var/log/condor/StartLog", "startlog", "node", "UTC"),
            e.SourceFound(BEGIN, "read", "2:0", 2, "/home/alice/job.log", "userlog", "node", "UTC"),
            e.SlotTransitioned(BEGIN, "reported", stimulus(7), SLOT, "11", "Claimed/Idle", "Claimed/Busy", "activated"),
            e.SlotTransitioned(BEGIN, "reported", stimulus(9), SLOT, "12", "Claimed/Busy", "Claimed/Cleaning", ""),
            e.JobsLogged(
                BEGIN, "reported", "2:1", 1, 2, ((BEGIN, 1, 0, 0, 0, text), (BEGIN + 9_000_000, 3, 0, 0, 9, removed))
            ),
            e.SourceRead(BEGIN, "read", "1:9", 1, "/var/log/condor/StartLog", 900, 9, 10, "a", "b", "{}", 0),
            e.SourceRead(BEGIN, "read", "2:5", 2, "/home/alice/job.log", 90, 5, 10, "a", "b", "{}", 0),
        ]
    )
    log.close()
    return str(path)


def test_the_log_of_a_run_is_sound(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue 2\n")
    folder.call("run", "job.sub", "-slots", "1")
    output = folder.call("audit")
    assert output.startswith("pool.db: sound\n")
    assert "2 jobs: 2 completed" in output
    assert "the seal holds" in output
    assert "     11           2  Claimed/Idle -> Claimed/Busy" in output
    report = folder.json("audit", "pool.db")
    assert set(report) >= KEYS
    assert (report["verdict"], report["imported"], report["jobs"]) == ("sound", False, {"completed": 2})
    assert list(map(str, range(1, 38))) == list(report["transitions"])
    moves = [line for line in folder.json("log") if line["stream"].startswith("slot/") and line["source"]]
    assert sum(report["transitions"].values()) == len(moves) > 0


def test_an_edited_log_exits_with_1_and_reports_where(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nrequest_memory = 16\nrequest_disk = 1 MB\nqueue\n")
    folder.call("run", "job.sub", "-slots", "1")
    connection = sqlite3.connect(folder.path / "pool.db")
    changed_rows = connection.execute(
        "UPDATE stored_events SET state=CAST(replace(CAST(state AS TEXT), 'Claimed/Busy', 'Owner/Idle') AS BLOB) "
        "WHERE CAST(state AS TEXT) LIKE '%Claimed/Busy%'"
    ).rowcount
    connection.commit()
    connection.close()
    assert changed_rows
    output = folder.call("audit", code=1)
    assert output.splitlines()[0].startswith("pool.db: ") and "violation" in output.splitlines()[0]
    assert "the seal is broken in" in output
    assert "not allowed (" in output and "(row)" in output
    report = json.loads(folder.call("audit", "--json", code=1))
    assert report["verdict"] == "not sound"
    assert report["seal"] and report["violations"]
    assert {"thing", "rule", "words", "at", "file", "line", "story"} == set(report["violations"][0])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_audit_of_a_pools_own_log_counts_its_events(tmp_path: Path, dialect: str) -> None:
    url = str(tmp_path / "pool.db")
    job = {"executable": "/bin/sleep", "arguments": "100", "request_memory": "128", "request_disk": "1 MB"}
    with Pool.open(url, dialect=dialect, user="alice") as pool:
        pool.add_machine("h", cpus=2, memory=2048)
        pool.submit(job, count=6)
        pool.advance(90)
        pool.vacate("1.0")
        pool.hold("1.4")
        pool.remove("1.5")
        pool.advance(200)
        status = Counter(job["JobStatus"] for job in [*pool.jobs(), *pool.history()])
        moves = sum(isinstance(event, e.SlotTransitioned) for _, event in pool.events())
    log = open_log(url, create=False, read_only=True)
    audit = audit_native_log(log, "pool.db")
    log.close()
    assert audit.sound and not audit.imported
    assert sum(audit.transitions.values()) == moves > 10
    assert audit.jobs == {name.lower(): status[number] for name, number in NUMBERS.items() if status[number]}
    beyond = {number for number in audit.transitions if not number.isdecimal()}
    assert (dialect == "manual") == (not beyond) == (not audit.beyond)
    assert set(audit.beyond) >= beyond


@pytest.mark.parametrize("arguments", [("a.db", "-log", "b.db"), ("-nosuch",)])
def test_wrong_usage_exits_with_2(folder: Folder, arguments: tuple[str, ...]) -> None:
    folder.call("audit", *arguments, code=2)


def test_a_folder_argument_is_answered_with_a_hint_to_import_it(folder: Folder) -> None:
    (folder.path / "condor").mkdir()
    assert "poolbook import condor -log audit.db" in folder.call("audit", "condor", code=1)


READ = [
    # what a folder contains; the exit code of its import, the verdict on the log
    ({"hosts": "127.0.0.1 localhost\n"}, 1, "nothing read"),
    ({"StartLog": "11/20/26 22:33:43 Changing activity"}, 0, "nothing read"),
    ({"job.log": "000 (001.000.000) 2026-11-20 22:33:43 Job submitted from host: <h>\n...\n"}, 0, "sound"),
]


@pytest.mark.parametrize(("files", "code", "verdict"), READ)
def test_only_imported_records_get_a_verdict(
    folder: Folder, capsys: pytest.CaptureFixture[str], files: dict[str, str], code: int, verdict: str
) -> None:
    (folder.path / "records").mkdir()
    for name, text in files.items():
        folder.write(f"records/{name}", text)
    url = str(folder.path / "audit.db")
    assert main(["import", str(folder.path / "records"), "-log", url]) == code
    output = capsys.readouterr().out
    assert ("Poolbook recognizes these files by their content: StartLog, " in output) == (code == 1)
    assert main(["import", str(folder.path / "records"), "-log", url, "-json"]) == code
    assert main(["follow", str(folder.path / "records"), "-log", url, "-seconds", "0"]) == (verdict != "sound")
    capsys.readouterr()
    assert main(["audit", url, "-json"]) == (verdict != "sound")
    assert json.loads(capsys.readouterr().out)["verdict"] == verdict


def test_a_pools_own_log_without_jobs_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "pool.db")
    open_pool_log(url, create=True).close()
    assert main(["audit", url]) == 0
    output = capsys.readouterr().out
    assert output.startswith(f"{url}: sound\n  a Poolbook pool: 1 event, checked by the rules of the dialect manual\n")
    assert "\n  0 jobs\n" in output


def test_a_missing_log_is_named(folder: Folder) -> None:
    assert "there is no log at nowhere.db" in folder.call("audit", "nowhere.db", code=1)


# The report


def finding(number: int) -> AuditFinding:
    story = ("22:36:40  where it was  [StartLog:3]", "22:36:41  where it went  [StartLog:4]")
    return AuditFinding(SLOT, "row", f"no row leads there ({number})", BEGIN, "StartLog", number, story)


def everything() -> Audit:
    stated = (SourceValue("history", "code 0", "history", 7), SourceValue("userlog", "code 1", "job.log", 3))
    audit = Audit("htcondor-25", True, 99, BEGIN, BEGIN + 60_000_000)
    audit.sources = [("StartLog", "startlog", 900), ("job.log", "userlog", 1)]
    audit.transitions = {"1": 3, "2": 0, "3": 0, "4": 0, "11": 0, "12a": 2}
    audit.letters, audit.beyond, audit.jobs = {"A": 3}, {"12a": 2}, {"completed": 1, "running": 1}
    audit.violations = [finding(number) for number in range(1, 26)]
    audit.lost = [AuditFinding("1.0", "lost", "nothing more is heard of it", BEGIN, "EventLog", 4, ())]
    audit.repeated = [AuditFinding("1.1", "repeated", "it began twice", BEGIN, "EventLog", 5, ())]
    audit.contradictions = [Contradiction("1.0", "exit", "two exit codes", BEGIN, 1, stated)]
    audit.quarantined = [UnreadRecord("StartLog", 40, "no time", "???")]
    audit.gaps = [MissingRecords("SchedLog", 50, "trimmed", BEGIN, 0)]
    audit.unaccounted = [UnaccountedTime(SLOT, BEGIN, BEGIN + 30_000_000, "its startd was not heard of")]
    audit.torn = [("EventLog", 17)]
    audit.seal_checked = True
    audit.judged = True
    return audit


# What an audit found -> a line of its report.
LINES = (
    "audit.db: 25 violations, 1 contradiction",
    "  imported: 2 files with 901 lines, checked by the rules of the dialect htcondor-25",
    "  from 2026-11-20 22:36:40 to 2026-11-20 22:37:40",
    "  2 jobs: 1 completed, 1 running",
    "  the seal holds: 99 events, unaltered and complete",
    "not allowed (25):",
    "  2026-11-20 22:36:40  slot1@node: no row leads there (1) (row)  [StartLog:1]",
    "      22:36:41  where it went  [StartLog:4]",
    "  ... and 5 more (use -all)",
    "  2026-11-20 22:36:40  1.0, run 1: two exit codes (exit)",
    "      code 0 in the job history  [history:7]",
    "      code 1 in a user's job event log  [job.log:3]",
    "  [StartLog:40]  no time: ???",
    "  [SchedLog:50]  trimmed, from 2026-11-20 22:36:40 to ?",
    "slot time without records, 30 s in total (1):",
    "  EventLog: the last 17 bytes",
    "slot transitions: 5",
    "      1 A         3  Owner/Idle -> Unclaimed/Idle",
    "    12a           2  Claimed/Cleaning -> Claimed/Idle",
    "    never: 2-4, 11",
    "    between states: A 3",
    "    12a          2  The starter has ended; the claim remains.",
)


def test_the_report_starts_with_the_verdict_and_contains_every_finding() -> None:
    lines = list(report("audit.db", everything(), UTC))
    assert lines[0] == LINES[0]
    assert [line for line in LINES if line not in lines] == []
    parts = list(report("audit.db", everything(), UTC, None))
    assert "  2026-11-20 22:36:40  slot1@node: no row leads there (25) (row)  [StartLog:25]" in parts
    assert not any("-all" in line for line in parts)


def test_if_nothing_was_read_there_is_no_verdict() -> None:
    lines = list(report("audit.db", Audit("htcondor-25", True), UTC))
    assert lines == [
        "audit.db: no verdict: the log has nothing to check",
        "  imported: 0 files with 0 lines, checked by the rules of the dialect htcondor-25",
        "  0 jobs",
        "  to read a pool's records, name its LOG and SPOOL folders: `poolbook import FOLDER -log FILE`",
        "  the seal was not checked",
        "",
        "slot transitions: none",
    ]


def test_a_single_contradiction_makes_a_log_not_sound() -> None:
    audit = everything()
    audit.violations = []
    assert not audit.sound
    assert next(report("audit.db", audit, UTC)) == "audit.db: 1 contradiction"
    audit.seal = [(3, "it changed")]
    assert next(report("audit.db", audit, UTC)) == "audit.db: the seal is broken, 1 contradiction"


def test_the_json_has_every_finding_with_its_time_in_utc() -> None:
    report = json.loads(json.dumps(as_json("audit.db", everything())))
    assert set(report) >= KEYS
    assert len(report["violations"]) == 25
    assert report["violations"][0]["at"] == "2026-11-20T22:36:40.000000Z"
    assert report["gaps"] == [
        {"file": "SchedLog", "line": 50, "words": "trimmed", "since": "2026-11-20T22:36:40.000000Z", "until": None}
    ]
    assert [stated["value"] for stated in report["contradictions"][0]["stated"]] == ["code 0", "code 1"]


# Imported logs

REFUSAL = "was imported from an HTCondor pool: it can be audited, but not served; create another log"
# Command -> its arguments, its exit code and the message that it prints.
ON_IMPORTED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "run": (("job.sub",), 1, REFUSAL),
    "resume": ((), 1, REFUSAL),
    "serve": ((), 1, REFUSAL),
    "submit": (("job.sub",), 1, REFUSAL),
    "rm": (("1.0",), 1, REFUSAL),
    "hold": (("1.0",), 1, REFUSAL),
    "release": (("1.0",), 1, REFUSAL),
    "prio": (("-p", "3", "1.0"), 1, REFUSAL),
    "qedit": (("1.0", "Mark", "3"), 1, REFUSAL),
    "vacate": (("1.0",), 1, REFUSAL),
    "suspend": (("1.0",), 1, REFUSAL),
    "continue": (("1.0",), 1, REFUSAL),
    "drain": (("node",), 1, REFUSAL),
    "off": (("node",), 1, REFUSAL),
    "on": ((), 1, REFUSAL),
    "reconfig": ((), 1, REFUSAL),
    "reschedule": ((), 1, REFUSAL),
    "status": ((), 0, "slot1@node"),
    "history": ((), 0, ""),
    "userprio": ((), 1, "the imported records of pool.db have priorities at no time"),
    "why": (("-verbose", "1.0"), 0, "alice removed job 1.0 (condor_rm). [job.log:3]"),
    "log": (("1",), 0, "[job.log:3]"),
    "audit": ((), 0, "imported: 2 files with 14 lines"),
    "cat": (("1.0",), 1, "was imported"),
    "verify": ((), 0, "`poolbook audit` checks them"),
    "metrics": (("-once",), 1, "was imported, and `poolbook metrics` describes a pool of its own log"),
    "views": ((), 0, "were rebuilt, up to event 8"),
    "doctor": ((), 0, "8 events, imported records"),
    "account": ((), 0, "SLOT_TIME"),
    "timeline": ((), 0, "slot1@node"),
    "diff": (("today", "now"), 0, "Nothing changed."),
    "sql": (("SELECT count(*) AS samples FROM samples",), 0, "samples"),
    "export": (("csv", "-", "-only", "transitions"), 0, "slot1@node"),
}
ELSEWHERE = {
    "q", "import", "follow", "usage", "config", "play", "completion", "man", "doc", "wait", "shell", "tools-path",
    "join", "master", "restart", "set_shutdown", "token", "top", "view",
}  # fmt: skip
"""Commands that read no log, or for which other tests say what they do with such a log."""


@pytest.mark.parametrize("command", ON_IMPORTED)
def test_every_command_works_on_an_imported_log_or_refuses_with_a_message(folder: Folder, command: str) -> None:
    imported(folder.path / "pool.db")
    before = (folder.path / "pool.db").read_bytes()
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    arguments, code, answer = ON_IMPORTED[command]
    assert answer in folder.call(command, *arguments, code=code)
    assert (folder.path / "pool.db").read_bytes() == before


def test_no_command_is_missing() -> None:
    assert set(COMMANDS) == set(ON_IMPORTED) | ELSEWHERE


def test_a_program_cannot_open_an_imported_log_as_a_pool(tmp_path: Path) -> None:
    url = imported(tmp_path / "audit.db")
    for begin in (
        lambda: Pool.open(url),
        lambda: Pool.open(url, execute=True),
        lambda: open_pool_log(url, create=False),
    ):
        with pytest.raises(LogError, match="it can be audited, but not served"):
            begin()
