"""Golden: after a job with next_job_start_delay has started, no other job starts for this number of seconds."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..together import together


def starts(delay: str, cpus: int = 3, runs: int = 100, dialect: str = "manual", **settings: str) -> list[int]:
    """Return when three jobs start, in seconds since the first one."""
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(runs), settings=settings)
    pool.machine(cpus=cpus)
    pool.submit(3, NextJobStartDelay=delay)
    pool.advance(2500)
    assert not examine(pool.log.read()).violations
    instants = [event.at // SECOND for event in pool.events() if isinstance(event, e.JobActivated)]
    return [instant - instants[0] for instant in instants]


@together("dialect", ["manual", "htcondor-25"])
def test_matched_jobs_start_one_after_another(dialect: str) -> None:
    assert starts("7", dialect=dialect) == [0, 7, 14]


def test_a_claim_waits_for_the_end_of_the_delay_before_it_is_reused() -> None:
    assert starts("30", cpus=1, runs=10) == [0, 30, 60]
    assert starts("5", cpus=1, runs=10) == [0, 10, 20]
    assert starts("30", cpus=2, runs=10) == [0, 30, 60]


@together(("delay", "second"), [("2 + 3", 5), ("0", 0), ("-3", 0), ('"5"', 0), ("undefined", 0), ("10000", 600)])
def test_the_delay_is_an_expression_of_at_most_ten_minutes(delay: str, second: int) -> None:
    assert starts(delay, runs=2000)[1] == second


def test_the_administrator_sets_the_maximum() -> None:
    assert starts("50", MAX_NEXT_JOB_START_DELAY="20") == [0, 20, 40]
    assert starts("50", MAX_NEXT_JOB_START_DELAY="0") == [0, 50, 100]
