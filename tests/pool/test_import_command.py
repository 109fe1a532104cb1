"""`poolbook import` and `follow`, and queries of an imported log, as users type them."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_files.importing.session import ImportSession

from .real import PATIENCE, Folder

TRACES = Path(__file__).resolve().parent.parent / "data" / "traces"
PLAIN = TRACES / "01-plain"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    test_folder = Folder(tmp_path)
    shutil.copytree(PLAIN, tmp_path / "pool")
    yield test_folder
    test_folder.kill_everything()


def content(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def test_an_import_reports_what_it_read_and_the_next_command(folder: Folder) -> None:
    output = folder.call("import", "pool", "-log", "audit.db")
    assert output.startswith("audit.db: ")
    assert re.search(r"StartLog +1 file: \d+ lines", output)
    assert output.endswith("Next: poolbook audit audit.db\n")
    assert folder.call("audit", "audit.db").startswith("audit.db: sound\n")
    assert folder.call("import", "pool", "-log", "audit.db").startswith("audit.db: 0 events")


def test_an_import_reports_as_json(folder: Folder) -> None:
    report = folder.json("import", "pool", "-log", "audit.db")
    lines = content(next((folder.path / "pool").glob("StartLog*"))).count("\n")
    assert report["kinds"]["startlog"] == {
        "files": 1, "new": 1, "lines": lines, "bytes": report["kinds"]["startlog"]["bytes"],
        "events": report["kinds"]["startlog"]["events"], "refused": 0,
    }  # fmt: skip
    assert report["events"] > 100
    assert report["quarantined"] == []


def test_unreadable_lines_are_shown_with_their_place(folder: Folder) -> None:
    text = content(next((folder.path / "pool").glob("alice-job.log*")))
    cut = text.index("\n005 (") - 60
    folder.write("torn.log", text[:cut] + "\n" + text[text.index("\n005 (") + 1 :])
    output = folder.call("import", "torn.log", "-log", "audit.db")
    assert re.search(r"torn\.log:\d+: the entry was torn", output)
    assert len(folder.json("audit", "audit.db")["quarantined"]) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "answer"),
    [
        (("import",), 2, "specify a directory"),
        (("import", "nowhere"), 1, "nowhere does not exist"),
        (("import", "pool", "-zone", "Atlantis"), 2, "unknown time zone 'Atlantis'"),
        (("import", "pool", "-time-format", "%Q"), 2, "%Q"),
        (("follow", "pool", "-interval", "soon"), 2, "-interval takes a number of seconds, not 'soon'"),
    ],
)
def test_wrong_usage_is_explained(folder: Folder, arguments: tuple[str, ...], code: int, answer: str) -> None:
    assert answer in folder.call(*arguments, "-log", "audit.db", code=code)


def test_a_folder_without_htcondor_files_is_refused_and_reported(folder: Folder) -> None:
    (folder.path / "empty").mkdir()
    assert "There are no HTCondor files" in folder.call("import", "empty", "-log", "audit.db", code=1)


def test_an_import_into_a_pools_own_log_is_refused(folder: Folder) -> None:
    folder.write("job.sub", "executable = /bin/true\nqueue\n")
    folder.call("submit", "job.sub")
    before = (folder.path / "pool.db").read_bytes()
    assert "pool's own log" in folder.call("import", "pool", code=1)
    assert (folder.path / "pool.db").read_bytes() == before


def test_two_imports_into_one_log_do_not_run_at_the_same_time(folder: Folder) -> None:
    first = folder.start("follow", "pool", "-log", "audit.db")
    assert first.stdout is not None
    assert [first.stdout.readline().split()[0], "new events" in first.stdout.readline()] == ["Following", True]
    assert "is writing audit.db" in folder.call("import", "pool", "-log", "audit.db", code=1)
    first.send_signal(2)
    output, _ = first.communicate(timeout=PATIENCE)
    assert "sound so far" in output
    assert first.returncode == 0


def test_an_interrupt_ends_a_follow_in_the_background_of_a_script(folder: Folder) -> None:
    follower = folder.start("follow", "pool", "-log", "audit.db", ignored=[signal.SIGINT, signal.SIGQUIT])
    assert follower.stdout is not None
    assert follower.stdout.readline().split()[0] == "Following"
    follower.send_signal(signal.SIGINT)
    assert "pool" in follower.communicate(timeout=PATIENCE)[0]
    assert follower.returncode in (0, 1)


def test_follow_can_be_stopped_before_anything_was_read(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ImportSession, "rounds", interrupt)
    assert main(["follow", str(folder.path / "pool"), "-log", str(folder.path / "audit.db")]) == 1
    assert "audit.db: nothing to check yet" in capsys.readouterr().out


def test_a_violation_is_reported_while_the_pool_is_followed(folder: Folder) -> None:
    path = next((folder.path / "pool").glob("StartLog*"))
    lines = content(path).splitlines(keepends=True)
    moves = [number for number, line in enumerate(lines) if "Changing activity: Idle -> Busy" in line]
    path.unlink()
    half = folder.path / "pool" / "StartLog"
    half.write_text("".join(lines[: moves[2]]))
    follower = folder.start("follow", "pool", "-log", "audit.db", "-zone", "UTC", "-interval", "0.1")
    folder.wait_for(lambda: (folder.path / "audit.db.views").exists())
    with half.open("a") as file:
        file.writelines(lines[moves[2] + 1 :])
    output = ""
    assert follower.stdout is not None
    while "violation" not in output:
        output += follower.stdout.readline()
    follower.send_signal(2)
    remaining_output, _ = follower.communicate(timeout=PATIENCE)
    assert re.search(r"violation: slot\d@localhost: .*StartLog:\d+\]", output)
    assert "NOT SOUND" in remaining_output
    assert follower.returncode == 1
    assert "violation" in folder.call("follow", "pool", "-log", "audit.db", "-seconds", "0", code=1)


def test_slots_have_their_state_in_the_startlog_with_other_values_from_condor_status(folder: Folder) -> None:
    shutil.copytree(TRACES / "05-prio-preempt", folder.path / "busy")
    folder.call("import", "busy", "-log", "audit.db", "-zone", "UTC")
    output = folder.call("status", "-log", "audit.db")
    assert len(re.findall(r"slot\d@localhost +LINUX +X86_64 +Unclaimed Idle", output)) == 3
    assert re.search(r"Total +3 +0 +0 +3", output)
    for path in filter(Path.is_file, (folder.path / "busy").glob("*")):
        if "machine-ads-3" not in path.name:
            path.unlink()
    folder.call("import", "busy", "-log", "sample.db")
    assert folder.call("status", "-log", "sample.db").count("Claimed Busy") == 3


def test_jobs_that_only_the_history_has_are_counted(folder: Folder) -> None:
    for path in filter(Path.is_file, (folder.path / "pool").glob("*")):
        if "history.ads" not in path.name:
            path.unlink()
    folder.call("import", "pool", "-log", "audit.db")
    assert folder.json("audit", "audit.db")["jobs"] == {"completed": 6, "removed": 2}
    assert "the log has no job 1.0 at 1990" in folder.call(
        "why", "1.0", "-at", "1990-01-01", "-log", "audit.db", code=1
    )


def test_users_questions_about_an_imported_log_are_answered(folder: Folder) -> None:
    folder.call("import", "pool", "-log", "audit.db", "-zone", "UTC")
    assert len(folder.json("history", "-log", "audit.db")) == 8
    assert folder.json("usage", "-log", "audit.db")[0]["name"] == "alice@localhost"
    assert "submitted job 1.0" in folder.call("why", "-verbose", "1.0", "-log", "audit.db")
    then = ("-at", "2026-11-20T22:33:53+00:00", "-log", "audit.db")
    assert "Claimed/Busy by transition 11" in folder.call("why", "-verbose", "slot1@localhost", *then)
    log = folder.call("log", "1.0", "-log", "audit.db").splitlines()
    assert [line[10:29] for line in log] == sorted(line[10:29] for line in log)
    assert "[EventLog" in log[0]
    assert json.loads(folder.call("audit", "audit.db", "-json"))["violations"] == []


def test_follow_prints_what_happened_since_it_started(folder: Folder) -> None:
    follower = folder.start("follow", "pool", "-log", "audit.db", "-interval", "0.1")
    assert follower.stdout is not None
    assert [follower.stdout.readline().split()[0], "new events" in follower.stdout.readline()] == ["Following", True]
    folder.write("pool/later.log", HELD)
    assert "new events" in follower.stdout.readline()
    lines = [follower.stdout.readline() for _ in range(2)]
    assert ["977.0" in line for line in lines] == [True, True]
    assert ["SUBMIT" in lines[0], "JOB_HELD" in lines[1] or "HELD" in lines[1]] == [True, True]
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=PATIENCE)


HELD = """\
000 (977.000.000) 2026-11-22 06:59:00 Job submitted from host: <127.0.0.1:9618>
...
012 (977.000.000) 2026-11-22 06:59:01 Job was held.
\tvia condor_hold (by user alice)
\tCode 1 Subcode 0
...
"""
