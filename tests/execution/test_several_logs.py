"""Property: a supervisor separates the activations of one log from another log's at the same positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution.activation import Exited, Running, Started
from poolbook.adapters.machine.execution.client import Supervisor
from poolbook.adapters.machine.execution.supervisor.records import claimed_keys
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.domain.ports.stimuli import ActivationEnded, ActivationStarted
from poolbook.domain.ports.world import Launch

from .bench import Bench, wait

FIRST, SECOND = "0123456789abcdef", "fedcba9876543210"
UNTIL_TOLD = "while ! [ -e stop ]; do sleep 0.01; done; exit 3"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a handle of the first log."""
    with Bench(tmp_path) as bench:
        bench.supervisor.close()
        bench.supervisor = Supervisor(bench.folder, FIRST)
        yield bench
        bench.supervisor.close()


def serve(bench: Bench, log: str) -> None:
    """Connect another log's pool to the supervisor."""
    bench.supervisor.close()
    bench.supervisor = Supervisor(bench.folder, log)
    bench.reports = []


@pytest.mark.parametrize("other", [SECOND, ""])
def test_a_log_starts_its_own_job_at_a_position_where_another_log_has_one_running(bench: Bench, other: str) -> None:
    bench.sh("5", UNTIL_TOLD, run_in_iwd=True)
    (first,) = bench.until(lambda: bench.of("5", Started))
    serve(bench, other)
    assert bench.supervisor.claimed_keys() == frozenset()
    assert bench.supervisor.recover(["5"]) == {"5": "unknown"}
    bench.sh("5", "exit 4")
    assert bench.end("5").code == 4
    bench.supervisor.acknowledge(["5"])
    bench.until(lambda: not bench.supervisor.claimed_keys())
    bench.supervisor.signal("5", "hard")
    (bench.home / "stop").touch()
    wait(lambda: not Path(f"/proc/{first.pid}").exists())
    bench.sh("6", "exit 6")
    bench.end("6")
    assert {report.key for report in bench.reports} == {"5", "6"}
    assert [end.code for end in bench.of("5", Exited)] == [4], "the end of the other log's job is not reported"
    serve(bench, FIRST)
    exited = bench.supervisor.recover(["5"])["5"]
    assert isinstance(exited, Exited) and exited.code == 3


def test_a_job_continues_for_its_log_after_another_log_was_served(bench: Bench) -> None:
    bench.sh("5", UNTIL_TOLD, run_in_iwd=True)
    bench.until(lambda: bench.of("5", Started))
    serve(bench, SECOND)
    bench.supervisor.acknowledge(["5"])
    serve(bench, FIRST)
    assert bench.supervisor.claimed_keys() == {"5"}
    assert isinstance(bench.supervisor.recover(["5"])["5"], Running)
    (bench.home / "stop").touch()
    assert bench.end("5").code == 3


def test_a_log_without_a_chosen_id_finds_the_claims_of_earlier_releases(bench: Bench) -> None:
    serve(bench, "")
    bench.sh("5", "exit 3")
    bench.end("5")
    assert claimed_keys(str(bench.folder)) == {"5"}
    serve(bench, "")
    assert bench.supervisor.claimed_keys() == {"5"}
    assert bench.supervisor.recover(["5"])["5"].code == 3  # type: ignore[union-attr]


def test_the_scratch_directory_is_named_by_the_log_and_the_position(bench: Bench) -> None:
    bench.supervisor.close()
    world = LocalWorld(bench.folder, log=FIRST)
    with closing(world):
        world.owners.add("eve")
        shell = {"Cmd": '"/bin/sh"', "Arguments": '"-c pwd"', "Iwd": f'"{bench.home}"', "Out": '"out"'}
        ad = {**shell, "ShouldTransferFiles": '"YES"', "TransferExecutable": "false"}
        world.start([Launch("7", 1, 0, "slot1@h", ad, {"DynamicSlot": "false"}, "eve")])
        reports = world.wait(None)
        while not any(isinstance(report, ActivationEnded) for report in reports):
            reports += world.wait(None)
        assert world.claimed_keys() == {"7"}
    scratch = f"{bench.folder}/execute/dir_{FIRST}-7/scratch"
    assert (bench.home / "out").read_text() == f"{scratch}\n"
    started_keys = {(report.key, report.scratch) for report in reports if isinstance(report, ActivationStarted)}
    assert started_keys == {("7", scratch)}
