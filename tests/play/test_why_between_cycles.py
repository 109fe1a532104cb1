"""Specification: between two cycles, `why` and `q -better-analyze` quote the last verdict with its time, and report the
present situation."""

from __future__ import annotations

from pathlib import Path

import pytest

from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.simulation import ScenarioMachines, Simulation, play
from poolbook.adapters.stores.opening import open_log
from poolbook.replay.scenario import parse_scenario
from poolbook.replay.why.answer import why

STATIC = """config
    use FEATURE : StaticSlots
    NEGOTIATOR_INTERVAL = 300
    NEGOTIATOR_CYCLE_DELAY = 300
    CLAIM_WORKLIFE = 0
    {}
end
machine w cores={} memory=8000 disk=50000000
until {}
"""
ROOM = "a slot is free; the next cycle decides"
CYCLE = "The cycle at 2026-11-02 08:05:10 reported: "
IN_USE = f"{CYCLE}all matching slots are in use, and PREEMPTION_REQUIREMENTS does not allow their preemption. Now: "


def second_line(url: str, scenario: str, job: str = "2.0") -> str:
    """Return the second line of `why` for a job at the end of a scenario, whose log is stored at this URL."""
    parsed = parse_scenario(scenario)
    log = open_log(url, create=True)
    play(Simulation(parsed, ScenarioMachines(parsed), log, lambda _: None))
    text = why(log, job).texts[1]
    log.close()
    return text


LIMITED = """at 0:10 submit ann count=2 run=10:20 concurrency_limits=XSW
at 0:20 submit bob run=20:00 concurrency_limits=XSW
"""
CASES = [
    (
        "a concurrency limit has room",
        STATIC.format("XSW_LIMIT = 2", 4, "10:30") + LIMITED,
        f"{CYCLE}a concurrency limit is reached: XSW: 2 of 2, held by 1.0, 1.1. Now: {ROOM}.",
    ),
    (
        "a concurrency limit is still reached",
        STATIC.format("XSW_LIMIT = 2", 4, "9:00") + LIMITED,
        "A concurrency limit is reached: XSW: 2 of 2, held by 1.0, 1.1.",
    ),
    (
        "a concurrency limit was raised",
        STATIC.format("XSW_LIMIT = 1", 4, "9:00")
        + "at 0:10 submit ann run=10:20 concurrency_limits=XSW\nat 0:20 submit bob run=20:00 concurrency_limits=XSW\n"
        "at 8:00 set XSW_LIMIT = 5",
        f"{CYCLE}a concurrency limit is reached: XSW: 1 of 1, held by 1.0. Now: {ROOM}.",
    ),
    (
        "a slot in use has become free",
        STATIC.format("", 1, "10:30") + "at 0:10 submit ann run=10:20\nat 0:20 submit bob run=10:20",
        f"{IN_USE}{ROOM}.",
    ),
    (
        "a slot in use is still in use",
        STATIC.format("", 1, "9:00") + "at 0:10 submit ann run=10:20\nat 0:20 submit bob run=10:20",
        "All matching slots are in use, and PREEMPTION_REQUIREMENTS does not allow their preemption.",
    ),
    (
        "the machine is gone",
        STATIC.format("", 1, "9:00")
        + "at 0:10 submit ann run=10:20\nat 0:20 submit bob run=10:20\nat 8:00 remove 1.0\nat 8:10 off",
        "No slot can run it: the pool has no slots.",
    ),
    (
        "the machine drains",
        STATIC.format("", 1, "9:00")
        + "at 0:10 submit ann run=10:20\nat 0:20 submit bob run=10:20\nat 8:00 drain fast start=False",
        f"{IN_USE}no slot is available for it: 1 is draining.",
    ),
    (
        "START refuses it no longer",
        STATIC.format("START = RequestMemory < 500", 1, "9:00")
        + "at 0:10 submit ann memory=600\nat 8:00 set START = True",
        f"The cycle at 2026-11-02 08:00:10 reported: the slots that meet its Requirements reject it. Now: {ROOM}.",
    ),
    (
        "the job asks for less now",
        STATIC.format("START = RequestMemory < 500", 1, "9:00")
        + "at 0:10 submit ann memory=600\nat 8:00 edit 1.0 RequestMemory=400",
        f"The cycle at 2026-11-02 08:00:10 reported: the slots that meet its Requirements reject it. Now: {ROOM}.",
    ),
    (
        "the job asks for too much now",
        STATIC.format("", 1, "9:00")
        + "at 0:10 submit ann run=10:20\nat 0:20 submit bob\nat 8:00 edit 2.0 RequestMemory=9000",
        "No slot can run it: it requests 8.8 GiB of memory; the largest slot has 7.8 GiB (request_memory).",
    ),
    (
        "a quota has room",
        STATIC.format("GROUP_NAMES = g\n GROUP_QUOTA_g = 1", 2, "10:30")
        + "at 0:10 submit ann run=10:20 accounting_group=g\nat 0:20 submit bob run=10:20 accounting_group=g",
        f"{CYCLE}the quota of g is used up: 1 of 1 core. Now: {ROOM}.",
    ),
]


@pytest.mark.parametrize(("scenario", "line"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_why_quotes_the_verdict_with_its_time_and_the_present_situation(
    tmp_path: Path, scenario: str, line: str
) -> None:
    job = "2.0" if "submit bob" in scenario else "1.0"
    assert second_line(str(tmp_path / "p.db"), scenario, job) == line


@pytest.mark.parametrize(
    ("until", "now", "limits"),
    [("10:30", ROOM, []), ("9:00", "", ["XSW: 2 of 2, held by 1.0, 1.1"])],
)
def test_the_analysis_of_a_job_reports_the_present_situation(
    tmp_path: Path, until: str, now: str, limits: list[str]
) -> None:
    url = str(tmp_path / "p.db")
    second_line(url, CASES[0][1].replace("until 10:30", f"until {until}"))
    with Queries(url) as queries:
        rejections = queries.job_rejections()(2, 0)
    assert (rejections.now, list(rejections.limits)) == (now, limits)
