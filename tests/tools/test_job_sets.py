"""Golden: ``q -jobset`` and ``htcondor jobset`` print what the tools of a recorded HTCondor pool printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.replay.virtual_world import Behaviour

Call = Callable[..., tuple[str, str, int]]

TABLE = """JOBSETID NAME OWNER COMPLETE REMOVED    IDLE RUNNING    HELD
       1 Fit  alice        0       0       3       2       0
       2 Fit2 alice        0       0       2       0       1
"""
SET = """name = MySet  # of two jobs
iterator = table a, b {
  1, 2
  300, 4 4
}
job {
  executable = /bin/sleep
  arguments = $(a)
  queue
}
job x=b {
  executable = /bin/sleep
  arguments = $(X)
  queue
}
"""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Return a function that calls a command as alice, in a pool whose job set 1 has two clusters."""
    monkeypatch.setenv("POOLBOOK_LOG", f"{tmp_path}/pool.db")
    monkeypatch.setattr("getpass.getuser", lambda: "alice")
    monkeypatch.chdir(tmp_path)
    work = {"executable": "/bin/work", "request_disk": 1024}
    settings = {"USE_JOBSETS": "true"}
    with Pool.open(
        f"{tmp_path}/pool.db", user="alice", settings=settings, behave=lambda launch: Behaviour(seconds=600)
    ) as pool:
        pool.add_machine("node1", cpus=2, memory=8192)
        pool.submit({**work, "jobset": "Fit"}, count=2)
        pool.advance(10)
        pool.submit({**work, "jobset": "Fit2"}, count=3)
        pool.submit({**work, "jobset": "fIT"}, count=3)
        pool.hold("2.1")

    def called(*arguments: str) -> tuple[str, str, int]:
        monkeypatch.setattr("sys.argv", list(arguments))
        code = main(list(arguments))
        return (*capsys.readouterr(), code)

    return called


def test_the_table_counts_the_jobs_of_each_set(call: Call) -> None:
    out, _, code = call("q", "-all", "-jobset")
    assert (out.partition("\n")[2].partition("\n")[2].partition("\n")[2], code) == (TABLE, 0)
    columns = ("JobSetName", "NumJobs", "RefCount", "MyType", "User")
    assert call("q", "-all", "-jobset", "-constraint", "JobSetId == 1", "-af", *columns)[0].split()[:4] == (
        ["Fit", "5", "7", "JobSet"]
    )


def test_a_job_set_has_the_attributes_that_its_clusters_gave_it(tmp_path: Path, call: Call) -> None:
    work = {"executable": "/bin/work", "request_disk": 1024, "JOBSET.Name": "Fit"}
    with Pool.open(f"{tmp_path}/pool.db", user="alice") as pool:
        pool.submit({**work, "JOBSET.Color": '"red"', "JOBSET.Size": "2 * NumJobs", "JOBSET.NumJobs": "99"})
        pool.submit({**work, "JOBSET.COLOR": '"blue"', "JOBSET.Owner": '"bob"'})
        pool.remove("4.0")
    shown = call("q", "-all", "-jobset", "-af", "JobSetId", "Color", "Size", "NumJobs", "Owner")[0]
    assert shown.splitlines() == ["1 blue 12 6 alice", "2 undefined undefined 3 alice"]
    assert 'COLOR = "blue"' in call("q", "-all", "-jobset", "-long")[0]
    assert "olor" not in call("q", "-all", "-long")[0]


def test_htcondor_jobset_lists_shows_and_removes_sets(call: Call) -> None:
    assert call("htcondor", "jobset", "list") == ("JOB_SET_NAME\nFit\nFit2\n", "", 0)
    table = "OWNER  JOB_SET_NAME\nalice  Fit\nalice  Fit2\n"
    assert call("htcondor", "jobset", "list", "--allusers") == (table, "", 0)
    status = (
        "Fit currently has 3 jobs idle, 2 jobs running, and 0 jobs completed.\nFit contains:\n"
        "\tJob cluster 1 with 2 total jobs\n\tJob cluster 3 with 3 total jobs\n"
    )
    assert call("htcondor", "jobset", "status", "fit") == ("", status, 0)
    missing = 'No active job sets found matching "nope" for user alice.\n'
    assert call("htcondor", "jobset", "status", "nope") == ("", missing, 0)
    nothing = "Removed 0 jobs matching job set Fit2 for user bob.\n"
    assert call("htcondor", "jobset", "remove", "Fit2", "--owner", "bob") == ("", nothing, 0)


def test_htcondor_jobset_submits_a_cluster_for_each_job_with_the_items_of_the_table(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.set").write_text(SET)
    submitted = "Submitted job set MySet containing 2 job clusters.\n"
    assert call("htcondor", "jobset", "submit", "a.set") == ("", submitted, 0)
    out, _, _ = call("q", "-all", "-constraint", 'JobSetName == "MySet"', "-af:jt", "JobSetId", "InJobSet", "Args")
    assert out.splitlines() == ["4.0\t4\ttrue\t1", "4.1\t4\ttrue\t300", "5.0\t4\ttrue\t2", "5.1\t4\ttrue\t4 4"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("iterator = table a {\n1\n}", "Required name not found in a.set"),
        ("name = x", "Required iterator not found in a.set"),
        ("name = x\nname = y", "Job set name can only be set once, second name found in a.set at line 2."),
        ("name = x\niterator = table a, b {\n1\n}", "Mismatch between number of iterator names (2) and values (1)"),
        ("name = x\niterator = list a {\n1\n}", 'Unknown iterator type "list" in a.set at line 2.'),
        ("name = x\njob {\nqueue", "Unclosed bracket in a.set at line 2."),
        ("nome = x", 'Unrecognized command "nome" in a.set at line 1.'),
    ],
)
def test_an_invalid_job_set_file_is_rejected(call: Call, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a.set").write_text(text)
    out, err, code = call("htcondor", "jobset", "submit", "a.set")
    assert (out, problem in err, code) == ("", True, 1), err
