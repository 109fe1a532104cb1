"""Golden, property: next_job_start_delay and JOB_START_DELAY delay the start of the next jobs on slots."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.domain import events as e
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.answer import why

from ..domain.pools import TestPool
from ..together import together


def starts(
    delay: str, cpus: int = 3, runs: int = 100, dialect: str = "manual", jobs: int = 3, **settings: str
) -> list[int]:
    """Return when the jobs start, in seconds since the first one."""
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(runs), settings=settings)
    pool.machine(cpus=cpus)
    pool.submit(jobs, NextJobStartDelay=delay)
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


@together(
    ("count", "delay", "next_delay", "seconds"),
    [
        ("1", "0", "0", [0, 0, 0, 0, 0]),
        ("1", "10", "0", [0, 10, 20, 30, 40]),
        ("2", "10", "0", [0, 0, 10, 10, 20]),
        ("3", "10", "0", [0, 0, 0, 10, 10]),
        ("2", "10", "3", [0, 3, 13, 16, 26]),
        ("2", "10", "15", [0, 15, 30, 45, 60]),
    ],
)
def test_jobs_start_in_bursts_as_in_the_schedd(count: str, delay: str, next_delay: str, seconds: list[int]) -> None:
    """Recorded: with JOB_START_COUNT = 2 and JOB_START_DELAY = 5, HTCondor 25.14 started six jobs at 0, 0, 5, 5, 10
    and 10 seconds."""
    assert starts(next_delay, cpus=5, jobs=5, JOB_START_COUNT=count, JOB_START_DELAY=delay) == seconds


@settings(max_examples=15)
@given(
    count=st.integers(1, 4), delay=st.integers(0, 40), cpus=st.integers(1, 5), runs=st.integers(1, 60),
    dialect=st.sampled_from(["manual", "htcondor-25"]),
)  # fmt: skip
def test_no_more_jobs_than_a_burst_start_within_the_delay(
    count: int, delay: int, cpus: int, runs: int, dialect: str
) -> None:
    instants = starts("0", cpus, runs, dialect, jobs=8, JOB_START_COUNT=str(count), JOB_START_DELAY=str(delay))
    assert len(instants) == 8
    assert all(later - first >= delay for first, later in zip(instants, instants[count:], strict=False))


@together(
    ("delay", "setting", "sentence"),
    [
        ("0", "60", "before 2027-01-15 08:01:00: JOB_START_DELAY."),
        ("90", "60", "before 2027-01-15 08:01:30: NextJobStartDelay."),
    ],
)
def test_why_names_the_limit_that_delays_a_job(delay: str, setting: str, sentence: str) -> None:
    pool = TestPool(settings={"JOB_START_DELAY": setting}, behave=lambda launch: Behaviour(100))
    pool.machine(cpus=2)
    pool.submit(2, NextJobStartDelay=delay)
    pool.advance(20)
    expected = f"It is matched with slot1_2@h. The access point starts no job on a slot {sentence}"
    assert expected in why(pool.log, "1.1").texts
