"""Golden: what claims, waiting claims and evicted jobs leave behind when they are over."""

from __future__ import annotations

from dataclasses import fields

import pytest

from poolbook.domain import events as e
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour

from ..policy.points import Point
from .pools import TestPool
from .preempting import DIALECTS, RETIRES, SLOT, append_cycle, contested

LIMITED = "xsw"


def promised(dialect: str, **policy: str) -> TestPool:
    """Return a pool in which bob's 2.0, which uses a limit, waits for the slot of alice's 1.0."""
    pool = contested(dialect, Behaviour(1000, grace=3), **policy)
    append_cycle(pool, "2.0")
    assert pool.state.limits_in_use == {}
    note = e.EvaluationRecorded(pool.engine.now(), "negotiated", "again", "Requirements", "true", "true", {})
    match = e.Match("2.0", SLOT, reason="rank", limits=LIMITED)
    pool.log.append([note, e.CycleHeld(pool.engine.now(), "negotiated", "again", (match,), ())])
    pool.engine.read_on()
    pool.engine.handle([])
    return pool


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_waiting_claim_uses_its_limits_until_it_is_made_and_over(dialect: str) -> None:
    pool = promised(dialect)
    assert pool.state.limits_in_use == {LIMITED: 1}
    pool.advance(5)
    assert (pool.status("2.0"), pool.state.limits_in_use) == ("Running", {LIMITED: 1})
    pool.act("remove", "2", user="bob")
    pool.advance(5)
    assert pool.state.limits_in_use == {}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "why", ["its job is held", "START refuses it", "the machine is drained", "the slot withdraws it"]
)
def test_a_withdrawn_claim_releases_its_limits(dialect: str, why: str) -> None:
    configuration = {"Start": 'TARGET.Owner =!= "bob"'} if why == "START refuses it" else {}
    pool = promised(dialect, **(configuration or RETIRES))
    assert pool.state.limits_in_use == {LIMITED: 1}
    if why == "its job is held":
        pool.act("hold", "2.0", user="bob")
    elif why == "the machine is drained":
        pool.handle(s.Drain(pool.id(), "root", "h", "Quick"))
    elif why == "the slot withdraws it":
        pool.handle(s.WithdrawClaim(pool.id(), SLOT))
    pool.advance(5)
    assert [event.slot for event in pool.events() if isinstance(event, e.ClaimWithdrawn)] == [SLOT]
    assert pool.state.limits_in_use == {}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("end", ["released", "lease over"])
def test_a_missing_keepalive_is_forgotten_with_its_claim(dialect: str, end: str) -> None:
    point = Point(dialect)
    point.point({})
    point.claim(lease=30)
    point.silence()
    assert list(point.state.silent_claims) == [SLOT]
    if end == "released":
        point.tell(s.ReleaseClaim)
    point.advance(40)
    assert point.slot().claim is None and not point.state.silent_claims
    point.claim(lease=30)
    point.advance(500)
    assert point.pair() == "Claimed/Idle", "the next holder is not silent"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("ended_at", "outcome"),
    [
        (9, "exited"),  # before it was signalled
        (12, "evicted"),  # between the soft and the hard signal
        (17, "evicted"),
    ],
)
def test_a_job_that_ends_after_its_first_signal_is_evicted_whenever_its_end_is_reported(
    dialect: str, ended_at: int, outcome: str
) -> None:
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(1000, immortal=True))
    pool.machine("h", 2, 2048, 1, MachineMaxVacateTime="5")
    start = pool.world.clock
    pool.submit(user="alice")
    pool.advance(10)
    pool.vacate_slot(SLOT)
    pool.advance(8)
    assert [event.how for event in pool.events() if isinstance(event, e.JobSignalled)] == ["soft", "hard"]
    (key,) = pool.state.activations
    pool.handle(s.ActivationEnded("end", key, start + ended_at * SECOND, code=0))
    (exited,) = (event for event in pool.events() if isinstance(event, e.JobExited))
    assert exited.outcome == outcome


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("since", ["", "hold", "remove"])
def test_the_first_cause_of_a_vacate_counts_whatever_happens_until_the_kill(dialect: str, since: str) -> None:
    pool = TestPool(dialect=dialect, behave=lambda launch: Behaviour(1000, grace=None))
    pool.machine("h", 2, 2048, 1, MachineMaxVacateTime="5")
    pool.submit(user="alice", LeaveJobInQueue="true")
    pool.advance(10)
    pool.act("vacate", "1.0")
    pool.advance(1)
    if since:
        pool.act(since, "1.0")
    pool.advance(10)
    assert [event.how for event in pool.events() if isinstance(event, e.JobSignalled)] == ["soft", "hard"]
    exited = next(event for event in pool.events() if isinstance(event, e.JobExited))
    assert exited.changes["VacateReasonCode"] == "1022"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("when", ["its holder is silent", "a preempting claim waits", "its job is ended"])
def test_no_part_of_the_state_names_a_destroyed_slot(dialect: str, when: str) -> None:
    pool: TestPool
    if when == "its holder is silent":
        pool = point = Point(dialect)
        point.point({})
        point.claim(lease=30)
        point.silence()
    else:
        pool = promised(dialect, **(RETIRES if when == "a preempting claim waits" else {}))
    state = pool.state
    tables = {field.name: value for field in fields(State) if isinstance(value := getattr(state, field.name), dict)}
    assert sum(SLOT in value or SLOT in value.values() for value in tables.values()) >= 2
    evolve(state, e.SlotDestroyed(state.at, "left", "s", SLOT))
    assert {name for name, value in tables.items() if SLOT in value or SLOT in value.values()} == set()
    assert state.limits_in_use == {}


@pytest.mark.parametrize(("dialect", "reached"), [("manual", "Claimed/Busy"), ("htcondor-25", "Preempting/Vacating")])
def test_a_deactivation_that_closes_also_ends_the_claim_of_the_pools_own_access_point(
    dialect: str, reached: str
) -> None:
    """Only HTCondor's startd has a row for it; by the manual, only the job ends."""
    pool = contested(dialect, Behaviour(1000, grace=50))
    pool.handle(s.DeactivateClaim(pool.id(), SLOT, closing=True))
    assert pool.state.slots[SLOT].state_activity == reached
