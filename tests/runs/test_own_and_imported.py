"""Differential: one fold gives the same runs for a pool's own log and for an import of the job log that the pool wrote;
and ``why`` gives each run's end the cause that the runs have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook.adapters.runtime.views import catch_up, open_tables
from poolbook.domain.classad.values import UNDEFINED
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.log import EventStore
from poolbook.domain.ports.world import Launch
from poolbook.projections.views import Views
from poolbook.replay.runs.job_run import EVICTED, JobRun
from poolbook.replay.runs.native_runs import own_runs
from poolbook.replay.runs.of_log import pool_events, runs_of
from poolbook.replay.usage.usage_sums import sums
from poolbook.replay.virtual_world import Behaviour, VirtualWorld
from poolbook.replay.why.answer import why

from ..domain.preempting import contested, match_slot
from ..importing.folders import imported, write
from ..play.test_transcripts import play_transcript
from ..userlog.pool import JOB, Pool
from .test_accounts_agree import SHOWN, ad_contradictions

SECOND = 1_000_000
STORY: dict[str, Callable[[Pool], object]] = {
    "completes": lambda pool: None,
    "is held": lambda pool: pool.act("hold", (1, 0)),
    "is removed": lambda pool: pool.act("remove", (1, 0)),
    "is vacated": lambda pool: pool.act("vacate", (1, 0)),
    "loses its slot": lambda pool: pool.ask(s.VacateSlot(pool.next_id(), "root", "slot1@localhost", False)),
}


def ended_runs(log: EventStore) -> list[tuple[object, ...]]:
    """Return the ended runs, in whole seconds, as a job event log has them, by the one fold."""
    return [
        (run.job, run.slot, run.began // SECOND, run.ended // SECOND, run.outcome, run.cause.name)
        for run in own_runs(pool_events(log))
        if run.outcome != "running"
    ]


def behave(launch: Launch) -> Behaviour:
    return Behaviour(30.0, grace=2.0)


@pytest.mark.parametrize("command", STORY)
def test_a_pools_log_and_its_job_log_give_the_same_runs(command: str, tmp_path: Path) -> None:
    pool = Pool(VirtualWorld(behave))
    pool.machine("localhost", 2, Cpus="1", Memory="1024", Disk="4096")
    pool.submit(JOB, 2)
    pool.run(10)
    STORY[command](pool)
    pool.run(100)
    write(tmp_path / "job.log", pool.log())
    log, _ = imported(tmp_path)
    own_runs = ended_runs(pool.engine.log)
    assert len(own_runs) >= 2
    assert ended_runs(log) == own_runs
    sums_of_both = [sums(runs_of(source_log).runs, ["slot"], 0, 1 << 62)[1] for source_log in (log, pool.engine.log)]
    assert sums_of_both[0].evictions == sums_of_both[1].evictions
    assert {(job) for job, _ in sums_of_both[0].jobs} == {(job) for job, _ in sums_of_both[1].jobs}


def ends_of(log: EventStore) -> list[tuple[str, int, str]]:
    """Return the evictions that ``why`` reports: job, position, cause."""
    jobs = dict.fromkeys(run.job for run in runs_of(log).runs)
    ends = [
        (job, sentence)
        for job in jobs
        for sentence in why(log, job).life
        if sentence.code in ("evicted", "exited") and sentence.cause != "exited"
    ]
    return sorted((job, sentence.position, sentence.cause) for job, sentence in ends)


@pytest.mark.parametrize("name", ["better_match", "drain_with_start", "retirement", "shutdown", "vacate_and_kill"])
def test_why_and_the_runs_agree_on_causes(name: str) -> None:
    log = play_transcript(name, "htcondor-25")[0].log
    expected = [(run.job, run.position, run.cause.name) for run in runs_of(log).runs if run.outcome == EVICTED]
    assert ends_of(log) == sorted(expected)


@pytest.mark.parametrize("reason", ["rank", "priority"])
def test_why_gives_a_preemption_the_cause_of_its_match(reason: str) -> None:
    pool = contested("htcondor-25")
    match_slot(pool, "2.0", reason=reason)
    pool.advance(30)
    assert [(job, cause) for job, _, cause in ends_of(pool.log)] == [("1.0", reason)]


@pytest.mark.parametrize("name", ["better_match", "drain_with_start", "retirement", "shutdown", "vacate_and_kill"])
def test_q_and_history_of_a_pool_agree_with_the_runs_about_a_jobs_last_run(name: str) -> None:
    log = play_transcript(name, "htcondor-25")[0].log
    connection = open_tables(None)
    catch_up(log, connection)
    runs: dict[str, list[JobRun]] = {}
    for run in sorted(runs_of(log).runs, key=lambda run: run.began):
        runs.setdefault(run.job, []).append(run)
    with Views(connection) as views:
        ads = {
            f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}": {
                name: "" if (value := ad.eval(name)) is UNDEFINED else str(value) for name in SHOWN
            }
            for ad in (*views.history_ads(), *views.ads())
        }
    assert ads.keys() >= runs.keys()
    assert [(job, fault) for job in runs for fault in ad_contradictions(ads[job], runs[job])] == []
