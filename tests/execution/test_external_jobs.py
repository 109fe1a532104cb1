"""Golden: real processes of an external access point's jobs: signals, restarts and deadlines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from poolbook.adapters.machine.execution.client import Supervisor
from poolbook.adapters.machine.host import user_name
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.run_reports import decode_report
from poolbook.domain.units import SECOND
from poolbook.replay.validation import validate

from .bench import PATIENCE_S, Bench, runs, state, wait

SLOT, HOLDER = "slot1@h", "access-point/there"
SLOT_AD = {"Cpus": "1", "Memory": "1024", "Disk": "100000", "Start": "true", "Requirements": "Start"}
PATIENT = "trap 'exit 4' TERM; echo $$ > pid; while :; do sleep 0.01; done"


class ExecutionPoint:
    """An execution point with one slot, which an external access point has claimed."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = open_log(str(home / "point.db"), create=True)
        self.engine = Engine(self.log, LocalWorld(home / "pool"))
        self.handle(s.FoundPool("found", "h", "htcondor-25", "example.org", "1", {}))
        self.handle(s.AddMachine("add", "h", {}, (s.SlotPlan(SLOT, "static", SLOT_AD),)))
        self.until(lambda: self.pair() == "Unclaimed/Idle")
        self.handle(s.RequestClaim("claim", SLOT, "c", HOLDER, "bob@example.org", "1.0", {}))

    def handle(self, stimulus: s.Stimulus) -> None:
        (result,) = self.engine.handle([stimulus])
        assert not result.refusal

    def pair(self) -> str:
        return self.engine.state.slots[SLOT].state_activity

    def start_job(self, script: str, key: str) -> int:
        """Start a job, and return its process id."""
        arguments = script.replace("'", "''").replace('"', '\\"')
        ad = {"Cmd": '"/bin/sh"', "Arguments": f"\"-c '{arguments}'\"", "Iwd": f'"{self.home}"', "JobUniverse": "5"}
        ad["Owner"] = f'"{user_name()}"'
        (self.home / "pid").unlink(missing_ok=True)
        self.handle(s.ActivateClaim(f"activate-{key}", SLOT, "1.0", ad, key=key))
        self.until(lambda: (self.home / "pid").exists() and (self.home / "pid").read_text().endswith("\n"))
        return int((self.home / "pid").read_text())

    def restart(self) -> None:
        self.engine.world.close()
        self.engine = Engine(self.log, LocalWorld(self.home / "pool"))
        self.engine.recover()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, [*self.log.read()][-8:]
            self.engine.step(self.engine.world.now() + SECOND // 50)

    def end(self, key: str) -> s.ActivationEnded:
        """Wait for the end of a job, and return the only report of it."""
        ends: list[s.ActivationEnded] = []
        self.until(lambda: not self.engine.state.remote_runs)
        for _, event in self.log.read():
            if isinstance(event, e.RunReported) and event.key == key:
                report = decode_report(event)
                ends += [report] if isinstance(report, s.ActivationEnded) else []
        assert len(ends) == 1
        return ends[0]


@pytest.fixture
def point(tmp_path: Path) -> Iterator[ExecutionPoint]:
    with Bench(tmp_path) as bench:
        bench.supervisor.poll(0)  # start the supervisor quickly
        point = ExecutionPoint(tmp_path)
        yield point
        point.engine.world.close()
        assert list(validate(point.log.read())) == []
        point.log.close()
        bench.supervisor.close()
        bench.supervisor = Supervisor(bench.folder)


def test_a_job_is_suspended_continued_and_ended_across_restarts_and_its_end_is_reported_once(
    point: ExecutionPoint,
) -> None:
    pid = point.start_job(PATIENT, "ap-1")
    point.handle(s.SuspendClaim("suspend", "root", SLOT))
    wait(lambda: state(pid) == "T")
    point.restart()
    assert (point.pair(), state(pid)) == ("Claimed/Suspended", "T")
    point.handle(s.ContinueClaim("continue", "root", SLOT))
    wait(lambda: state(pid) != "T")
    point.restart()
    point.handle(s.DeactivateClaim("deactivate", SLOT, signal="hold"))
    end = point.end("ap-1")
    assert (end.code, end.signal, end.expired) == (4, None, False)
    assert point.pair() == "Claimed/Idle"
    point.restart()
    assert point.end("ap-1") == end
    assert isinstance(point.engine.world, LocalWorld)
    assert point.engine.world.claimed_keys() == frozenset()


def test_a_job_whose_lease_ends_while_the_execution_point_is_gone_is_killed_and_reported_as_expired(
    point: ExecutionPoint,
) -> None:
    point.engine.deadline_of = lambda slot: point.engine.world.boot_time() + 1_000 * SECOND
    pid = point.start_job(PATIENT, "ap-1")
    point.engine.deadline_of = lambda slot: point.engine.world.boot_time() + 3 * SECOND
    point.engine.renew_deadlines()
    point.engine.world.close()
    wait(lambda: not runs(pid))
    point.restart()
    end = point.end("ap-1")
    assert (end.signal, end.expired) == (9, True)
