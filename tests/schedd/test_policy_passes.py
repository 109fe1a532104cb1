"""Property: the interval between periodic evaluations follows from their duration (PERIODIC_EXPR_TIMESLICE,
MAX_PERIODIC_EXPR_INTERVAL), and the cost of an event about many jobs depends only on these jobs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.decide import Draft, Tables
from poolbook.domain.decision.draft import ranges
from poolbook.domain.ports import stimuli as s
from poolbook.domain.schedd.policy_times import PolicyPasses, running_procs
from poolbook.domain.state.records import Activation
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND

from ..domain.pools import TestPool
from ..together import together

MILLISECOND = SECOND // 1000
BEGIN = 1_800_000_000


@together(
    ("settings", "lengths", "rests"),
    [
        # the first duration counts; later ones are averaged: 0.4 of the last and 0.6 of the average before
        ({}, [100], 60), ({}, [1_000], 120), ({}, [1_000, 2_000], 180), ({}, [2_000, 1_000, 1_000], 180),
        # the default of the longest interval is 1200 s
        ({}, [20_000], 1200), ({"MAX_PERIODIC_EXPR_INTERVAL": "300"}, [20_000], 300),
        ({"MAX_PERIODIC_EXPR_INTERVAL": "0"}, [20_000], 2040),
        ({"PERIODIC_EXPR_TIMESLICE": "0.1"}, [20_000], 240), ({"PERIODIC_EXPR_TIMESLICE": "0"}, [20_000], 60),
        ({"PERIODIC_EXPR_TIMESLICE": "0.1", "PERIODIC_EXPR_INTERVAL": "300"}, [20_000], 300),
    ],
)  # fmt: skip
def test_slow_evaluations_are_further_apart(settings: dict[str, str], lengths: list[int], rests: int) -> None:
    """``lengths`` in milliseconds, ``rests`` in seconds."""
    pool = TestPool(settings=settings)
    pool.submit(1, Requirements="false", PeriodicHold="Wanted =?= true")
    passes, now = PolicyPasses(), BEGIN * SECOND
    passes.plan_all(pool.state, now)
    evaluation = s.EvaluateJobPolicies("", (1,))
    for length in lengths:
        passes.record_duration(pool.state, evaluation, now, length * MILLISECOND)
    passes.plan_next(Draft(pool.state, "policy", now, Tables()), evaluation)
    pool.edit("1.0", Other="1")
    passes.update_agenda(pool.state, pool.events()[-2:], now + 1)
    due = passes.next_due()
    assert due is not None
    step = int(settings.get("PERIODIC_EXPR_INTERVAL", "60"))
    assert step * -(-(due // SECOND - BEGIN) // step) == rests


def test_an_evaluation_of_running_jobs_alone_delays_no_one() -> None:
    pool = TestPool()
    pool.submit(1, Requirements="false", PeriodicHold="Wanted =?= true")
    passes, now = PolicyPasses(), BEGIN * SECOND
    passes.record_duration(pool.state, s.EvaluateJobPolicies("", (), ((1, 0),)), now, 20_000 * MILLISECOND)
    passes.plan_all(pool.state, now)
    assert passes.next_due() == now + 60 * SECOND


PROCS = st.sets(st.integers(0, 60), min_size=1)


@given(PROCS, PROCS, st.sets(st.integers(0, 60)))
def test_running_jobs_are_found_among_many(batch: set[int], running: set[int], others: set[int]) -> None:
    state = State()
    for number, procs in ((1, running), (2, others)):
        for proc in procs:
            state.by_job[number, proc] = Activation("", number, proc, "", 0)
    expected = batch if len(batch) == 1 else batch & running
    assert sorted(running_procs(state, 1, ranges(sorted(batch)))) == sorted(expected)


class CountedRuns(dict):  # type: ignore[type-arg]
    """A table of runs that counts how many are looked at."""

    looked = 0

    def __contains__(self, key: object) -> bool:
        self.looked += 1
        return super().__contains__(key)

    def __iter__(self):  # type: ignore[no-untyped-def]
        for key in super().__iter__():
            self.looked += 1
            yield key


@together(("batch", "runs"), [(2, 10_000), (10_000, 2), (10_000, 10_000)])
def test_a_batch_costs_no_more_than_its_jobs_and_no_more_than_the_runs(batch: int, runs: int) -> None:
    state = State()
    state.by_job = CountedRuns({(1, proc): Activation("", 1, proc, "", 0) for proc in range(runs)})
    assert len(running_procs(state, 1, ((0, batch - 1),))) == min(batch, runs)
    assert state.by_job.looked <= min(batch, runs)
