"""A log can be folded up to any time in its past."""

from __future__ import annotations

from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.fold.evolve import fold

from .pools import TestPool


def test_the_state_at_a_time_is_that_of_the_events_until_then() -> None:
    pool = TestPool()
    pool.machine(static=1, cpus=1)
    pool.submit(count=3)
    pool.advance(200)
    events = list(pool.log.read())
    moments = sorted({event.at for _, event in events})
    assert len(moments) > 2
    for moment in (*moments, moments[0] + 1, moments[-1] + 1):
        assert plain_state(fold(pool.log.read(0, pool.log.position_at(moment)))) == plain_state(
            fold(event for event in events if event[1].at <= moment)
        )
    assert plain_state(fold(pool.log.read(0, pool.log.position_at(moments[-1])))) == plain_state(pool.state)
    assert pool.log.position_at(moments[0] - 1) == 0


def test_the_policy_of_a_slot_sees_edits_of_its_running_job() -> None:
    """In HTCondor the schedd sends the starter an update of the job's ad."""
    pool = TestPool()
    pool.machine(static=1, cpus=1, PREEMPT="TARGET.Wish =?= 2", Start="TARGET.Wish =!= 2", MaxJobRetirementTime="0")
    pool.submit(Wish="1", Args='"100000"')
    pool.advance(100)
    assert pool.status("1.0") == "Running"
    pool.edit("1.0", Wish="2")
    pool.advance(100)
    assert pool.status("1.0") == "Idle"
