"""Golden and differential: the runs in a pool's own log, why they ended, and what they used."""

from __future__ import annotations

from collections import Counter

import pytest

from poolbook.domain.events import JobExited
from poolbook.domain.ports import stimuli as s
from poolbook.replay.runs.native_runs import own_runs
from poolbook.replay.runs.of_log import runs_of as log_runs

from ..domain.preempting import contested, match_slot
from ..job_commands import job_command
from ..play.test_transcripts import play_transcript
from ..replay.virtual_point import PointPool

# A command on alice's job, 10 s after it began -> why its run ended.
STORIES = {
    "hold alice 1.0": "held",
    "remove alice 1.0": "removed",
    "vacate root slot1_1@h": "vacated",
}


@pytest.mark.parametrize("line", STORIES)
def test_the_cause_of_an_eviction_is_the_command(line: str) -> None:
    pool = PointPool()
    for command in (
        "machine h Cpus=1 Memory=2048",
        "submit alice 1 seconds=3600 grace=5",
        "run 10 s",
        line,
        "run 20 s",
    ):
        pool.say(command)
    (run,) = log_runs(pool.log, evicted=True).runs[:1]
    assert (run.job, run.user, run.slot, run.machine, run.cause.name) == (
        "1.0", "alice@example.org", "slot1_1@h", "h", STORIES[line],
    )  # fmt: skip
    assert 10_000_000 <= run.duration <= 15_000_000


def test_a_run_evicted_by_condor_now_was_vacated() -> None:
    pool = PointPool()
    for command in (
        "machine h Cpus=1",
        "submit alice 1 seconds=3600",
        "run 10 s",
        "submit alice 1",
        "now alice 2.0 1.0",
    ):
        pool.say(command)
    pool.say("run 1 s")
    (run,) = log_runs(pool.log, evicted=True).runs
    assert (run.job, run.cause.name) == ("1.0", "vacated")


@pytest.mark.parametrize("slots", [["slot1_1@h"], []])
def test_a_stopped_pool_is_the_cause_of_its_runs_ends(slots: list[str]) -> None:
    """Stop as a server does: vacate the slots, and then the jobs."""
    pool = PointPool()
    for command in ("machine h Cpus=1 Memory=2048", "submit alice 1 seconds=3600 grace=5", "run 10 s"):
        pool.say(command)
    engine = pool.engine
    engine.handle([s.VacateSlot(engine.id("stop"), "root", name, False) for name in slots])
    engine.handle([job_command(engine.id("stop"), "root", "vacate", s.Selection(everything=True))])
    pool.say("run 20 s")
    (run,) = log_runs(pool.log, evicted=True).runs
    assert (run.job, run.cause.name) == ("1.0", "stopped")


# How the processes end -> outcome and cause.
ENDS = {"signal": ("completed", "unknown"), "lost": ("evicted", "lost")}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_ends_as_its_processes_do(end: str) -> None:
    pool = PointPool()
    for command in ("machine h", f"submit alice 1 seconds=30 end={end}", "run 31 s"):
        pool.say(command)
    run = log_runs(pool.log).runs[0]
    assert (run.outcome, run.cause.name) == ENDS[end]


@pytest.mark.parametrize("reason", ["rank", "priority"])
def test_a_better_match_names_its_reason(reason: str) -> None:
    pool = contested("htcondor-25")
    match_slot(pool, "2.0", reason=reason)
    pool.advance(30)
    (run, *_) = log_runs(pool.log, evicted=True).runs
    assert (run.job, run.cause.name) == ("1.0", reason)


def test_a_running_job_is_known_up_to_the_end_of_the_log() -> None:
    pool = PointPool()
    for command in ("machine h", "submit alice 1 seconds=3600", "run 10 s", "submit bob 1 memory=99999"):
        pool.say(command)
    (run,) = log_runs(pool.log).runs
    assert (run.outcome, run.duration) == ("running", 10_000_000)
    assert log_runs(pool.log, evicted=True).runs == []


# Transcript -> how many of its evictions had which cause.
TRANSCRIPTS = {
    "better_match": {"preempted": 1, "removed": 1},
    "drain_with_start": {"drained": 3},
    "retirement": {"preempt": 2},
    "shutdown": {"shutdown": 3},
    "vacate_and_kill": {"preempt": 5, "vacated": 1},
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_every_eviction_by_a_machines_policy_has_its_cause(name: str) -> None:
    log = play_transcript(name, "htcondor-25")[0].log
    evicted = [run for run in own_runs(log.read()) if run.outcome == "evicted"]
    assert Counter(run.cause.name for run in evicted) == TRANSCRIPTS[name]
    exited = [event for _, event in log.read() if isinstance(event, JobExited) and event.outcome != "exited"]
    assert [run.slot for run in evicted] == [event.slot for event in exited]
