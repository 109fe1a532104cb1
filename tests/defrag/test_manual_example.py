"""golden: the manual's example, "initiate draining jobs from 1 machine per hour, but avoid initiating new draining if
there are 20 completely defragmented machines or 10 machines in a draining state"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.replay.validation import examine

from .pools import DefragPool

SECOND = 1_000_000

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
HOUR = 3600
EXAMPLE = {
    "INTERVAL": 3600,
    "DRAINING_MACHINES_PER_HOUR": 1.0,
    "MAX_WHOLE_MACHINES": 20,
    "MAX_CONCURRENT_DRAINING": 10,
}


def example_pool(dialect: str, machines: int, retirement: int) -> DefragPool:
    pool = DefragPool(dialect, **EXAMPLE)
    pool.machines(*(f"m{number}" for number in range(machines)), cpus=2, retirement=retirement)
    return pool


def test_the_example_scenario_runs_as_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", str(DOCS / "examples/defrag.play"), "-audit"]) == 0
    output = capsys.readouterr().out.splitlines()
    page = (DOCS / "central-manager.md").read_text()
    shown = [line for line in page.splitlines() if line.startswith("  10:00:00")]
    assert len(shown) == 2
    assert set(shown) <= set(output)
    (configuration,) = re.findall(r"```\n(DAEMON_LIST = .*?)```", page, re.S)
    scenario = (DOCS / "examples/defrag.play").read_text()
    assert [line for line in configuration.splitlines() if f"    {line}" not in scenario.splitlines()] == []


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_one_machine_per_hour_starts_draining_until_ten_are_draining(dialect: str) -> None:
    pool = example_pool(dialect, machines=12, retirement=30 * 24 * HOUR)
    pool.run(20 * 24 * HOUR, count=24)
    pool.advance(14 * HOUR + 60)
    polls = list(pool.polls())
    assert [poll.draining for poll in polls[:12]] == [0, *range(11)]
    assert [len(poll.drains) for poll in polls] == [0, *[1] * 10, *[0] * 4]
    assert {poll.stopped for poll in polls[11:]} == {"concurrent"}
    assert len(set(pool.drained())) == 10
    assert {poll.at // SECOND % HOUR for poll in polls[1:]} == {polls[0].at // SECOND % HOUR}
    assert examine(pool.log.read()).violations == []


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_no_machine_starts_draining_while_twenty_are_whole(dialect: str) -> None:
    pool = example_pool(dialect, machines=40, retirement=0)
    pool.run(100 * 24 * HOUR, count=17 * 2, cpus=1)  # seventeen machines are full, 23 are whole
    pool.advance(4 * HOUR)
    assert {(poll.whole, poll.stopped) for poll in list(pool.polls())[1:]} == {(23, "whole")}
    pool.run(100 * 24 * HOUR, count=8, cpus=1)  # four more: nineteen are whole
    pool.advance(2 * HOUR)
    before, _ = list(pool.polls())[-2:]
    assert (before.whole, before.stopped, len(before.drains)) == (19, "", 1)
