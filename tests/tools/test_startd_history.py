"""Golden: `poolbook history -startd` and condor_history -startd show the runs on the machines of a pool, whatever
became of the jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.cli.main import main
from poolbook.domain import events as e
from poolbook.replay.runs.startd_history import startd_history
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .captures import capture


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log in which job 1.0 completed on node1, and 2.0 was vacated there, ran again and was removed."""
    path = str(tmp_path_factory.mktemp("runs") / "pool.db")
    with Pool.open(path, user="alice", behave=lambda launch: Behaviour(seconds=600)) as pool:
        pool.add_machine("node1", cpus=1, memory=8192)
        pool.submit({"executable": "/bin/work", "request_disk": 1024})
        pool.advance(700)
        pool.submit({"executable": "/bin/work", "request_disk": 1024})
        pool.advance(30)
        pool.vacate("2.0")
        pool.advance(60)
        pool.remove("2.0")
        pool.advance(60)
    return path


def called(tool: str, *argv: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", [tool, *argv])
    return main([tool, *argv])


@together(
    ("argv", "expected"),
    [
        ([], ["2.0 4", "2.0 4", "1.0 4"]),
        (["-forwards"], ["1.0 4", "2.0 4", "2.0 4"]),
        (["-name", "node1", "-limit", "1"], ["2.0 4"]),
        (["1"], ["1.0 4"]),
        (["bob"], []),
        (["-constraint", "ExitBySignal"], ["2.0 4", "2.0 4"]),
        (["-since", "1.0"], ["2.0 4", "2.0 4"]),
        (["-type", "any", "alice"], ["2.0 4", "2.0 4", "1.0 4"]),
    ],
)
def test_each_run_is_listed_as_completed(
    argv: list[str], expected: list[str], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "-startd", *argv, "-af:j", "JobStatus", "-log", log]) == 0
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("name", ["history_startd_epochs", "history_schedd_startd", "history_startd_unknown"])
def test_errors_are_those_of_condor_history(
    name: str, log: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = capture(name)
    monkeypatch.setenv("POOLBOOK_LOG", log)
    code = called("condor_history", *expected.argv, monkeypatch=monkeypatch)
    output = capsys.readouterr()
    assert (output.out, output.err, code) == (expected.out, expected.err, expected.exit_code)


def test_the_runs_of_access_points_elsewhere_are_in_the_history_of_the_execution_point() -> None:
    fields = ("claimed", "x", "slot1@node1")
    ad = {"ClusterId": "7", "ProcId": "0", "Owner": '"alice"', "JobStatus": "2"}
    log = [
        e.ClaimActivated(10_000_000, *fields, "c", "7.0", ad, 0, "run-1"),
        e.ClaimJobEdited(11_000_000, *fields, "c", "7.0", {"JobPrio": "5"}),
        e.RunReported(
            14_000_000, *fields, "c", "7.0", "run-1", "ActivationEnded", '{"id":"x","at":14000000,"signal":15}'
        ),
        e.ClaimDeactivated(15_000_000, *fields, "c", "7.0", "1"),
    ]
    (ended,) = startd_history(lambda: enumerate(log, 1))
    assert ended == ad | {
        "JobPrio": "5", "RemoteHost": '"slot1@node1"', "JobCurrentStartDate": "10", "ExitBySignal": "true",
        "ExitSignal": "15", "CompletionDate": "15", "RemoteWallClockTime": "5.0", "JobState": '"Exited"',
        "JobStatus": "4",
    }  # fmt: skip


def test_an_import_has_no_history_of_the_startd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "history").write_text(capture("history_long").out + "*** Offset = 0 ClusterId = 62\n")
    assert main(["import", str(tmp_path / "records"), "-log", str(tmp_path / "audit.db")]) == 0
    assert main(["history", "-startd", "-log", str(tmp_path / "audit.db")]) == 1
    assert "`poolbook usage -by machine` shows runs" in capsys.readouterr().err.replace("\n", " ")
