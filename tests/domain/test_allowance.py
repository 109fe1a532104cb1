"""Golden: in a pool, one user's jobs do not delay other users' jobs, however expensive their expressions are."""

from __future__ import annotations

import pytest

from poolbook import Behaviour

from ..classad.explosions import SHAPES, within_calls
from .pools import TestPool

JOBS = 6
MOST_CALLS = 4_800_000
"""What takes some seconds: each of the jobs would take a quarter of it, or more, again and again."""


@pytest.mark.parametrize(
    "uses",
    [
        {"Requirements": "E40 =!= 3 && Number > -1", "Rank": "E40"},
        {"PeriodicHold": "E40 =?= 3", "PeriodicRemove": "E40 =?= 4", "Requirements": "false"},
        {"PeriodicHold": "true", "PeriodicHoldReason": "string(E40)", "Requirements": "false"},
        {"OnExitHold": "E40 =?= 3", "OnExitRemove": "E40 =!= 4", "LeaveJobInQueue": "E40 =?= 3"},
    ],
    ids=lambda uses: next(iter(uses)),
)
def test_many_jobs_that_use_the_whole_evaluation_budget_delay_no_other_users_job(uses: dict[str, str]) -> None:
    pool = TestPool(behave=lambda launch: Behaviour(5), settings={"PERIODIC_EXPR_INTERVAL": "60"})
    pool.machine("h", cpus=4, memory=4096, static=4)

    def walk() -> None:
        for number in range(JOBS):
            pool.submit(1, "alice", **SHAPES["contexts"], **{"Number": str(number), **uses})
        pool.submit(1, "bob")
        pool.submit(1, "bob", Requirements="false", PeriodicHold="JobStatus == 1 && QDate > 0")
        pool.advance(130)

    within_calls(MOST_CALLS, walk)
    assert pool.status(f"{JOBS + 1}.0") == "ended"
    assert pool.status(f"{JOBS + 2}.0") == "Held"
