"""Specification: `why` names the slot that a job would get if the job there had no retirement time."""

from __future__ import annotations

from poolbook.domain.state.job_ad import quoted
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..domain.pools import TestPool
from ..together import together

EXPECTED = (
    "It would get slot1@h, but the job there has retirement time (MAXJOBRETIREMENTTIME) until 2027-01-15 08:10:00, and "
    "the negotiator does not preempt it earlier, because NEGOTIATOR_CONSIDER_EARLY_PREEMPTION is false."
)


@together(
    ("rank", "retirement", "owner", "is_explained"),
    [
        ("TARGET.Wanted is true", "600", "bob", True),
        ("TARGET.Wanted is true", "0", "bob", False),
        ("0", "600", "bob", False),
        ("TARGET.Wanted is true", "600", "alice", True),
    ],
)
def test_why_names_the_retirement_that_a_preferred_job_waits_for(
    rank: str, retirement: str, owner: str, is_explained: bool
) -> None:
    pool = TestPool(behave=lambda launch: Behaviour(3600, grace=None))
    pool.machine(static=1, cpus=1, Rank=rank, MaxJobRetirementTime=retirement)
    pool.submit(1)
    pool.advance(5)
    pool.submit(1, user=owner, Wanted="true", Owner=quoted(owner))
    pool.advance(1)
    assert pool.status("1.0") == "Running"
    texts = why_job(pool.log.read(), 2, 0).texts
    assert (EXPECTED in texts) == is_explained, texts
    assert any("retirement time" in text for text in texts) == is_explained
