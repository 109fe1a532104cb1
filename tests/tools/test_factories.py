"""Golden: ``q -factory`` lists clusters that make their jobs little by little, in the columns of condor_q -factory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import queue_table
from poolbook.domain.classad import ClassAd

from .captures import capture, printed, setting

LIMITED = "executable = /bin/sleep\narguments = $(t)\nmax_idle = 2\nmax_materialize = 3\nqueue t in (1, 2, 3, 4)\n"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POOLBOOK_LOG", "pool.db")
    (tmp_path / "limited.sub").write_text(LIMITED)
    (tmp_path / "plain.sub").write_text("executable = /bin/true\nqueue 3\n")
    return Told(capsys)


class Told:
    """What commands print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        main(list(words))
        return self._capsys.readouterr().out

    def rows(self, *words: str) -> list[list[str]]:
        """The lines of the table: the id and what is behind the date."""
        lines = [line.split() for line in self("q", "-factory", *words).splitlines()[4:]]
        return [[line[0], *line[4:]] for line in lines]


def test_each_cluster_with_a_factory_has_a_line(told: Told) -> None:
    told("submit", "limited.sub")
    told("submit", "-factory", "plain.sub")
    told("submit", "plain.sub")
    assert told("q", "-factory").splitlines()[3].split() == (
        ["ID", "OWNER", "SUBMITTED", "LIMIT", "PRESNT", "RUN", "IDLE", "HOLD", "NEXTID", "MODE", "DIGEST"]
    )
    assert told.rows() == [
        ["1.", "3", "2", "0", "2", "0", "2", "Norm"],
        ["2.", "3", "3", "0", "3", "0", "3", "Done"],
    ]
    assert told.rows("2") == told.rows()[1:]


def test_the_table_is_that_of_condor_q() -> None:
    ad = ClassAd.from_old(
        'ClusterId = 55\nOwner = "alice"\nQDate = 1795214182\nJobMaterializeLimit = 1\nJobsPresent = 1\n'
        "JobsRunning = 1\nJobsIdle = 0\nJobsHeld = 0\nJobMaterializeNextProcId = 1\nJobFactoryPaused = 0\n"
        'JobMaterializeDigestFile = "/var/spool/condor/55/condor_submit.55.digest"'
    )
    wanted = capture("q_factory")
    query = queue_table.read(wanted.argv)
    assert (
        printed([*queue_table.title(setting()), *queue_table.group_table([ad], query, "factory", setting())])
        == wanted.out
    )


def test_it_is_printed_as_jobs_are(told: Told) -> None:
    told("submit", "limited.sub")
    assert told("q", "-factory", "-af", "ClusterId", "JobMaterializeNextProcId", "JobsPresent") == "1 2 2\n"
    assert told("q", "-factory", "-json", "-attributes", "JobsIdle") == '[\n{\n  "JobsIdle": 2\n}\n]\n'
    assert told("q", "-factory", "-constraint", "JobsIdle > 2", "-af", "ClusterId") == ""


def test_a_held_one_says_so_and_a_removed_one_is_gone(told: Told) -> None:
    told("submit", "limited.sub")
    assert told("hold", "1") == "All jobs in cluster 1 have been held\n"
    assert told.rows() == [["1.", "3", "2", "0", "0", "2", "2", "Held"]]
    ad = dict(re.findall(r"^(\w+) = (.*)$", told("q", "-factory", "-long"), re.MULTILINE))
    assert (ad["JobMaterializePaused"], ad["JobMaterializeNextProcId"], ad["TotalSubmitProcs"]) == ("1", "2", "4")
    assert ad["JobMaterializePauseReason"].startswith('"via poolbook hold (by user')
    told("rm", "1")
    assert told.rows() == []


def test_the_batches_count_as_done_what_was_made_and_has_gone(told: Told) -> None:
    told("submit", "limited.sub")
    told("rm", "1.0")
    batch = next(line for line in told("q").splitlines() if "ID: 1" in line)
    assert batch.split()[5:] == ["1", "_", "2", "4", "1.1-2"]
