"""Golden: a claim stays idle for keep_claim_idle seconds after its last job, for the next job of the submitter."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour

from ..domain.pools import TestPool
from ..together import together


def pool_of(keep: str, dialect: str = "manual") -> TestPool:
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(10))
    pool.machine(cpus=1)
    pool.submit(KeepClaimIdle=keep)
    pool.advance(15)
    return pool


def slot_states(pool: TestPool) -> set[str]:
    return {slot.state_activity for slot in pool.state.slots.values() if slot.name.startswith("slot1")}


def claims(pool: TestPool) -> list[int]:
    """Return when each claim was made, in seconds since the first event."""
    first = pool.events()[0].at
    return [(event.at - first) // SECOND for event in pool.events() if isinstance(event, e.ClaimMade)]


def ends(pool: TestPool) -> list[int]:
    first = pool.events()[0].at
    return [(event.at - first) // SECOND for event in pool.events() if isinstance(event, e.ClaimEnded)]


@together(("keep", "kept"), [("20", 20), ("10 + 10", 20), ("0", 0), ("-1", 0), ("undefined", 0), ('"20"', 0)])
def test_a_claim_is_kept_for_this_time_after_its_last_job(keep: str, kept: int) -> None:
    pool = pool_of(keep)
    assert pool.status("1.0") == "ended"
    assert ("Claimed/Idle" in slot_states(pool)) == bool(kept)
    pool.advance(60)
    (made,), (ended,) = claims(pool), ends(pool)
    assert ended == made + 10 + kept
    assert not examine(pool.log.read()).violations


@together("dialect", ["manual", "htcondor-25"])
def test_the_submitters_next_job_runs_on_the_kept_claim(dialect: str) -> None:
    pool = pool_of("30", dialect)
    pool.submit()
    pool.advance(1)
    assert pool.status("2.0") == "Running"
    pool.advance(60)
    assert len(claims(pool)) == len(ends(pool)) == 1
    assert not examine(pool.log.read()).violations


def test_another_users_job_does_not_run_on_the_kept_claim() -> None:
    pool = pool_of("30")
    pool.submit(user="bob")
    pool.advance(5)
    assert pool.status("2.0") == "Idle"
    pool.advance(60)
    assert pool.status("2.0") == "ended"
    assert len(claims(pool)) == 2


def test_an_evicted_jobs_claim_is_not_kept() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(1000))
    pool.machine(cpus=1)
    pool.submit(KeepClaimIdle="60")
    pool.advance(5)
    pool.act("hold", "1.0")
    pool.advance(30)
    assert len(ends(pool)) == 1
