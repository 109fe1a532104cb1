"""Golden: ``q -factory`` lists clusters that materialize their jobs gradually, in the columns of condor_q -factory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table
from poolbook.domain.classad import ClassAd

from .captures import capture, printed, surroundings_at

LIMITED = "executable = /bin/sleep\narguments = $(t)\nmax_idle = 2\nmax_materialize = 3\nqueue t in (1, 2, 3, 4)\n"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POOLBOOK_LOG", "pool.db")
    (tmp_path / "limited.sub").write_text(LIMITED)
    (tmp_path / "plain.sub").write_text("executable = /bin/true\nqueue 3\n")
    return Commands(capsys)


class Commands:
    """The output of commands."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> str:
        main(list(arguments))
        return self._capsys.readouterr().out

    def rows(self, *arguments: str) -> list[list[str]]:
        """Return the lines of the table: the id, and the columns after the date."""
        lines = [line.split() for line in self("q", "-factory", *arguments).splitlines()[4:]]
        return [[line[0], *line[4:]] for line in lines]


def test_each_cluster_with_a_factory_has_a_line(commands: Commands) -> None:
    commands("submit", "limited.sub")
    commands("submit", "-factory", "plain.sub")
    commands("submit", "plain.sub")
    assert commands("q", "-factory").splitlines()[3].split() == (
        ["ID", "OWNER", "SUBMITTED", "LIMIT", "PRESNT", "RUN", "IDLE", "HOLD", "NEXTID", "MODE", "DIGEST"]
    )
    assert commands.rows() == [
        ["1.", "3", "2", "0", "2", "0", "2", "Norm"],
        ["2.", "3", "3", "0", "3", "0", "3", "Done"],
    ]
    assert commands.rows("2") == commands.rows()[1:]


def test_the_table_equals_condor_qs() -> None:
    ad = ClassAd.from_old(
        'ClusterId = 55\nOwner = "alice"\nQDate = 1795214182\nJobMaterializeLimit = 1\nJobsPresent = 1\n'
        "JobsRunning = 1\nJobsIdle = 0\nJobsHeld = 0\nJobMaterializeNextProcId = 1\nJobFactoryPaused = 0\n"
        'JobMaterializeDigestFile = "/var/spool/condor/55/condor_submit.55.digest"'
    )
    expected = capture("q_factory")
    query = queue_table.parse_arguments(expected.argv)
    assert (
        printed(
            [*queue_table.title(surroundings_at()), *queue_table.group_table([ad], query, "factory", surroundings_at())]
        )
        == expected.out
    )


def test_json_and_long_output_work_as_for_jobs(commands: Commands) -> None:
    commands("submit", "limited.sub")
    assert commands("q", "-factory", "-af", "ClusterId", "JobMaterializeNextProcId", "JobsPresent") == "1 2 2\n"
    assert commands("q", "-factory", "-json", "-attributes", "JobsIdle") == '[\n{\n  "JobsIdle": 2\n}\n]\n'
    assert commands("q", "-factory", "-constraint", "JobsIdle > 2", "-af", "ClusterId") == ""


def test_a_held_factory_is_marked_and_a_removed_one_is_absent(commands: Commands) -> None:
    commands("submit", "limited.sub")
    assert commands("hold", "1") == "All jobs in cluster 1 have been held\n"
    assert commands.rows() == [["1.", "3", "2", "0", "0", "2", "2", "Held"]]
    ad = dict(re.findall(r"^(\w+) = (.*)$", commands("q", "-factory", "-long"), re.MULTILINE))
    assert (ad["JobMaterializePaused"], ad["JobMaterializeNextProcId"], ad["TotalSubmitProcs"]) == ("1", "2", "4")
    assert ad["JobMaterializePauseReason"].startswith('"via poolbook hold (by user')
    commands("rm", "1")
    assert commands.rows() == []


def test_batches_count_materialized_jobs_that_left_as_done(commands: Commands) -> None:
    commands("submit", "limited.sub")
    commands("rm", "1.0")
    batch = next(line for line in commands("q").splitlines() if "ID: 1" in line)
    assert batch.split()[5:] == ["1", "_", "2", "4", "1.1-2"]
