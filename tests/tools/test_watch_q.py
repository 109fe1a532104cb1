"""Table: condor_watch_q's output for job event logs, and when it ends, as HTCondor's script does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.adapters.machine.host import host_name, user_name
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .captures import capture

SUBMITTED = "000 (007.{:03}.000) 2026-11-20 22:36:13 Job submitted from host: <h>\n...\n"
EVENTS = {
    "transfers": "040 (007.000.000) 2026-11-20 22:36:14 Started transferring input files\n...\n",
    "runs": "001 (007.000.000) 2026-11-20 22:36:15 Job executing on host: <h>\n...\n",
    "held": "012 (007.001.000) 2026-11-20 22:36:20 Job was held.\n\tby me\n\tCode 1 Subcode 0\n...\n",
    "ended": "005 (007.000.000) 2026-11-20 22:36:28 Job terminated.\n\t(1) Normal termination (return value 0)\n...\n",
    "removed": "009 (007.001.000) 2026-11-20 22:36:30 Job was aborted.\n\tby me\n...\n",
}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    path = tmp_path / "job.log"
    path.write_text(SUBMITTED.format(0) + SUBMITTED.format(1))
    return path


def watch_output(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str, int]:
    code = main(["condor_watch_q", *arguments])
    output, err = capsys.readouterr()
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "NOW", output), err, code


TABLE = """\
BATCH   HELD  IDLE  RUN  DONE  TOTAL  JOB_IDS
ID: 7      1     -    1     -      2  7.0, 7.1 [================!!!!!!!!!!!!!!!]

Total Progress: [===============================!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!]

Total: 2 jobs; 1 running, 1 held

Updated at NOW
...
Exiting with code 4 because of condition "any held" at NOW
"""


def test_the_table_has_the_jobs_by_state(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_text(log.read_text() + EVENTS["transfers"] + EVENTS["runs"] + EVENTS["held"])
    output, err, code = watch_output(capsys, "-files", "job.log", "-exit", "any,held,4")
    heads, row = output.splitlines()[:2]
    assert heads.split() == TABLE.splitlines()[0].split()
    assert row.split("[")[0].split() == TABLE.splitlines()[1].split("[")[0].split()
    assert len(row) == 80
    assert output.splitlines()[3:] == TABLE.splitlines()[3:]
    assert (err, code) == ("", 4)


@together(
    ("events", "arguments", "line"),
    [
        (["transfers"], ["-exit", "any,active"], "Total: 2 jobs; 1 idle, 1 running"),
        (["runs", "ended", "removed"], ["-exit", "none,active"], "Total: 2 jobs; 1 completed, 1 removed"),
        (["runs", "ended", "held"], ["-exit", "any,held", "-summary-type", "percentages"],
         "Total: 2 jobs; 50% completed, 0% removed, 0% idle, 0% running, 50% held, 0% suspended"),
        (["runs"], ["-exit", "any,idle", "-groupby", "cluster", "-no-row-progress"],
         "7          1    1     -      2   7.0, 7.1 "),
        (["runs"], ["-exit", "any,idle", "-groupby", "log", "-no-row-progress"],
         "./job.log     1    1     -      2   7.0, 7.1 "),
    ],
)  # fmt: skip
def test_a_line_equals_htcondors(
    events: list[str], arguments: list[str], line: str, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_text("".join([SUBMITTED.format(0), SUBMITTED.format(1), *(EVENTS[name] for name in events)]))
    output, err, code = watch_output(capsys, "-files", "job.log", *arguments)
    assert line in output.splitlines()
    assert (err, code) == ("", 0)


def test_the_jobs_in_the_queue_are_found_by_their_logs(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLBOOK_LOG", str(log.with_name("pool.db")))
    with Pool.open(
        str(log.with_name("pool.db")), name=host_name(), user=user_name(), behave=lambda launch: Behaviour(60)
    ) as pool:
        pool.submit({"executable": "/bin/work", "log": str(log.with_name("own.log")), "batch_name": "mine"}, count=3)
    log.with_name("own.log").write_text("".join(SUBMITTED.format(proc) for proc in range(3)).replace("(007", "(001"))
    output, _, code = watch_output(capsys, "-batches", "mine", "-exit", "all,idle", "-no-row-progress")
    assert output.splitlines()[1].split() == ["mine", "3", "-", "-", "3", "1.0", "...", "1.2"]
    assert code == 0
    assert watch_output(capsys, "-clusters", "1", "-exit", "all,idle")[2] == 0


@together(
    "name",
    [
        "watch_q_both",
        "watch_q_cluster",
        "watch_q_clusters",
        "watch_q_clusters_none",
        "watch_q_exit_bad",
        "watch_q_exit_status_bad",
        "watch_q_groupby_bad",
        "watch_q_help",
        "watch_q_interval_bad",
        "watch_q_larger_than_bad",
        "watch_q_nobatch",
        "watch_q_none",
        "watch_q_totals",
        "watch_q_unknown",
        "watch_q_user",
        "watch_q_userlog",
    ],
)
def test_output_and_exit_code_equal_htcondors(
    name: str, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLBOOK_LOG", str(log.with_name("pool.db")))
    Pool.open(str(log.with_name("pool.db")), name=host_name(), user=user_name()).close()
    expected = capture(name)
    assert watch_output(capsys, *expected.argv) == (expected.out, expected.err, expected.exit_code)


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["-exit", "some,held"], 'invalid GROUPER "some", must be one of {all, any, none}', 2),
        (["-exit", "all,done,x"], 'exit_status must be an integer, but was "x"', 2),
        (["-clusters", "x"], "ERROR: -clusters takes numbers of clusters, not 'x'", 1),
        (["-files", "nosuch.log"], "File path does not exist", 0),
        (["-color"], "-color is not supported: the table has no colors", 2),
    ],
)
def test_meaningless_arguments_are_refused(
    arguments: list[str], message: str, code: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, err, exit_code = watch_output(capsys, *arguments)
    assert message in err
    assert (output, exit_code) == ("", code)
