"""Golden: what the programs of SCHEDD_CRON print is in the schedd's ad, which START_LOCAL_UNIVERSE reads."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.runtime.configuration import load
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import examine

from ..domain.pools import TestPool
from ..execution.bench import PATIENCE_S

SECOND = 1_000_000
CONFIG = """
SCHEDD_CRON_JOBLIST = A
SCHEDD_CRON_A_EXECUTABLE = /bin/sh
SCHEDD_CRON_A_ARGS = "-c 'echo X = 1; echo Name = SCHEDD_CRON_NAME; test $SCHEDD_CRON_NAME = SCHEDD && echo Y = 2'"
SCHEDD_CRON_A_MODE = OneShot
SCHEDD_CRON_A_PREFIX = My
"""


@pytest.mark.parametrize(("has_schedd", "names"), [(True, {"MyX", "MyName", "MyY", "MyLastUpdate"}), (False, set())])
def test_a_world_reports_what_the_programs_print(tmp_path: Path, has_schedd: bool, names: set[str]) -> None:
    world = LocalWorld(tmp_path / "jobs")
    try:
        world.configure(load(text=CONFIG, environment={}), has_schedd)
        reports, until = list[s.Stimulus](), time.monotonic() + (PATIENCE_S if has_schedd else 1)
        while not reports and time.monotonic() < until:
            reports = world.wait(world.now() + SECOND // 20)
        world.configure(load(text="", environment={}), has_schedd)
        reports += world.wait(world.now())
        assert [set(each.attributes) for each in reports if isinstance(each, s.ScheddReported)] == (
            [names, set()] if has_schedd else []
        )
        assert world.sense("here").attributes == {}
    finally:
        world.close()


def report(pool: TestPool, **attributes: str) -> None:
    assert not pool.handle(s.ScheddReported(pool.id(), attributes)).refusal


def test_records_are_logged_when_they_change_and_decide_whether_local_jobs_start() -> None:
    pool = TestPool(settings={"START_LOCAL_UNIVERSE": "Load < 2 && TotalHeldJobs == 0"})
    pool.machine()
    pool.submit(1, JobUniverse="12")
    for load_average, second, status in (("3", "10", "Idle"), ("3", "20", "Idle"), ("1", "30", "Running")):
        report(pool, Load=load_average, LastUpdate=second)
        pool.advance(5)
        assert pool.status("1.0") == status
    report(pool, Load="1", TotalHeldJobs="1")
    pool.submit(1, JobUniverse="12")
    pool.advance(5)
    assert pool.status("2.0") == "Idle"
    logged = [event.attributes for event in pool.events() if isinstance(event, e.ScheddPublished)]
    assert [attributes.get("LastUpdate") for attributes in logged] == ["10", "30", None]
    assert not examine(pool.log.read()).violations


def test_status_shows_the_last_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "pool.db")
    pool = TestPool(log=open_log(path, create=True), settings={"SCHEDD_ATTRS": "Load", "ATTRS.SCHEDD.Load": "9"})
    pool.machine()
    pool.submit(1)
    for load_average in ("1", "2"):
        report(pool, Load=load_average, TotalHeldJobs="7", HeldJobs="7")
    pool.log.close()
    for view, shown in (("schedd", "2 7"), ("submitters", "2 0")):
        names = ["Load", "TotalHeldJobs" if view == "schedd" else "HeldJobs"]
        assert main(["status", f"-{view}", "-log", path, "-af", *names]) == 0
        assert capsys.readouterr().out == f"{shown}\n"


def test_a_new_server_waits_for_the_next_record() -> None:
    pool = TestPool()
    report(pool, Load="1")
    assert fold(pool.log.read()).cron_attributes == {"Load": "1"}
    pool.log.raise_epoch("another", pool.world.clock, "serve")
    assert fold(pool.log.read()).cron_attributes == {}


def test_a_repeated_record_is_a_violation() -> None:
    pool = TestPool()
    for _ in range(2):
        pool.log.append([e.ScheddPublished(pool.world.clock, "schedd_cron", "x", {"X": "1"})])
    assert [violation.rule for violation in examine(pool.log.read()).violations] == ["value"]
