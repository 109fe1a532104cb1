"""Specification: when dynamic slots are carved: on the match or, as in HTCondor's startd, when the claim is requested.

Source: HTCondor's ``request_claim`` (command.cpp). In recordings a new slot goes from Owner to Claimed in the same
second in which the startd accepts the request for the partitionable one.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from poolbook.domain.decide import Tables, decide
from poolbook.domain.events import (
    ClaimMade,
    CycleHeld,
    Event,
    JobActivated,
    Match,
    MatchVoided,
    SlotAdChanged,
    SlotCreated,
    SlotDestroyed,
    SlotTransitioned,
)
from poolbook.domain.fold.evolve import evolve
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.state import State
from poolbook.domain.units import SECOND
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from .pools import JOB, MACHINE, TestPool

DIALECTS = ["manual", "htcondor-25"]


def kinds(events: list[Event], slot: str) -> list[str]:
    return [type(event).__name__ for event in events if getattr(event, "slot", "") == slot]


def matches_of_cycle(pool: TestPool) -> list[tuple[str, str]]:
    return [
        (match.job, match.slot) for event in pool.events() if isinstance(event, CycleHeld) for match in event.matches
    ]


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("manual", [("1.0", "slot1_1@h"), ("1.1", "slot1_2@h"), ("1.2", "slot1_3@h")]),
        ("htcondor-25", [("1.0", "slot1@h"), ("1.1", "slot1@h"), ("1.2", "slot1@h")]),
    ],
)
def test_a_match_names_the_slot_that_exists_when_it_is_made(dialect: str, expected: list[tuple[str, str]]) -> None:
    """The cycle subtracts what each match takes: the fourth job finds nothing."""
    pool = TestPool(dialect=dialect)
    pool.machine("h", cpus=3)
    pool.submit(4)
    pool.advance(0)
    assert matches_of_cycle(pool) == expected
    running = [
        (f"{event.cluster}.{event.proc}", event.slot) for event in pool.events() if isinstance(event, JobActivated)
    ]
    assert running == [("1.0", "slot1_1@h"), ("1.1", "slot1_2@h"), ("1.2", "slot1_3@h")]
    assert pool.state.slots["slot1@h"].ad["Cpus"] == "0"
    assert not pool.state.matches and not pool.state.assigned_slots
    assert [str(violation) for violation in examine(pool.log.read()).violations] == []
    rechecked = recheck(pool.log.read())
    assert rechecked.sound and rechecked.taken


def test_in_htcondors_dialect_the_slot_is_carved_and_claimed_in_one_step() -> None:
    pool = TestPool(dialect="htcondor-25")
    pool.machine("h", cpus=2)
    pool.submit()
    pool.advance(0)
    events = pool.events()
    assert kinds(events, "slot1_1@h") == [
        "SlotCreated",
        "SlotTransitioned",
        "ClaimMade",
        "JobActivated",
        "SlotTransitioned",
    ]
    (claim,) = [event for event in events if isinstance(event, ClaimMade)]
    (row, *_) = [event for event in events if isinstance(event, SlotTransitioned) and event.slot == "slot1_1@h"]
    assert (claim.job, row.source, row.target) == ("1.0", "Owner/Idle", "Claimed/Idle")
    cycle_position = next(number for number, event in enumerate(events) if isinstance(event, CycleHeld))
    assert not any(isinstance(event, SlotCreated) for event in events[cycle_position : cycle_position + 1])


def pool_after_cycle(pool: TestPool, *matches: Match) -> State:
    """Return the pool after a cycle has matched, before any claim."""
    state: State = deepcopy(pool.state)
    evolve(state, CycleHeld(pool.world.clock, "negotiated", "cycle", matches, ()))
    return state


def decided(state: State, stimulus: s.Stimulus, now: int) -> list[Event]:
    return decide(state, stimulus, now, Tables(state.dialect.name))


def waiting_pool(**machine: str) -> TestPool:
    pool = TestPool(dialect="htcondor-25")
    pool.machine("h", cpus=2, **machine)  # type: ignore[arg-type]
    pool.advance(10)
    pool.submit(3, Requirements="false")
    pool.advance(10)
    return pool


def test_a_rejected_request_leaves_no_event_of_a_dynamic_slot() -> None:
    """Too little remains for the third job: its match is void."""
    pool = waiting_pool()
    state = pool_after_cycle(pool, *(Match(f"1.{proc}", "slot1@h") for proc in range(3)))
    events = decided(state, s.ClaimMatches(""), pool.world.clock)
    assert [event.slot for event in events if isinstance(event, SlotCreated)] == ["slot1_1@h", "slot1_2@h"]
    assert [(event.slot, event.job, event.cause) for event in events if isinstance(event, MatchVoided)] == [
        ("slot1@h", "1.2", "claim_failed")
    ]
    assert not state.matches and not state.assigned_slots


def test_a_machine_that_starts_to_drain_drops_all_matches_of_its_slot() -> None:
    pool = waiting_pool()
    state = pool_after_cycle(pool, Match("1.0", "slot1@h"), Match("1.1", "slot1@h"))
    events = decided(state, s.Drain("drain", "root", "h"), pool.world.clock)
    assert [event.job for event in events if isinstance(event, MatchVoided)] == ["1.0", "1.1"]
    assert state.matches == {}
    assert not [
        event for event in decided(state, s.ClaimMatches(""), pool.world.clock) if isinstance(event, SlotCreated)
    ]


def test_a_job_that_left_the_queue_drops_only_its_own_match() -> None:
    pool = waiting_pool()
    state = pool_after_cycle(pool, Match("1.0", "slot1@h"), Match("1.1", "slot1@h"))
    selection = s.Selection((), ((1, 0),), (), False)
    decided(state, s.JOB_COMMANDS["hold"](id="hold", user="alice", selection=selection), pool.world.clock)
    events = decided(state, s.ClaimMatches(""), pool.world.clock)
    assert [event.job for event in events if isinstance(event, MatchVoided)] == ["1.0"]
    assert [event.job for event in events if isinstance(event, ClaimMade)] == ["1.1"]


def test_a_slot_in_owner_state_rejects_a_claim_and_is_not_carved() -> None:
    """HTCondor's startd accepts it, and takes it back in the same second: rows 5b and 2a."""
    pool = TestPool()
    pool.machine("h", cpus=2, IS_OWNER="true")
    pool.advance(10)
    before = pool.events()
    request = s.RequestClaim(pool.id(), "slot1@h", "c1", "elsewhere", "carol@other", "7.0", {"RequestCpus": "1"})
    assert "is reserved for its owner" in pool.handle(request).refusal
    assert pool.events() == before


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("holder", ["", "elsewhere"], ids=["own", "outside"])
@pytest.mark.parametrize(
    ("slot", "ad", "message"),
    [
        ("slot1@h", {"Wish": "1"}, "with a higher RANK"),
        ("slot1@p", {"RequestCpus": "9"}, "requests more than the slot has left"),
        ("slot1@p", {}, "is draining or shut down"),
        ("slot9@h", {}, "no partitionable slot"),
    ],
)
def test_a_request_is_rejected_for_the_same_reason_for_every_requester(
    dialect: str, holder: str, slot: str, ad: dict[str, str], message: str
) -> None:
    pool = TestPool(dialect=dialect)
    pool.machine("h", static=1, cpus=1, Rank="TARGET.Wish")
    pool.machine("p", cpus=2)
    pool.advance(10)
    first = {"Owner": '"carol"', "User": '"carol@other"', "Wish": "5"}
    pool.handle(s.RequestClaim(pool.id(), "slot1@h", "c1", "elsewhere", "carol@other", "7.0", first))
    if "draining" in message:
        pool.handle(s.Drain(pool.id(), "root", "p"))
    before = pool.events()
    request = s.RequestClaim(pool.id(), slot, "c2", holder, "dave@other", "8.0", first | ad)
    assert message in pool.handle(request).refusal
    assert pool.events() == before


def test_claims_are_made_in_the_order_of_the_matches() -> None:
    pool = waiting_pool()
    pool.machine("g", cpus=2)
    pool.advance(10)
    state = pool_after_cycle(pool, Match("1.0", "slot1@h"), Match("1.1", "slot1@g"), Match("1.2", "slot1@h"))
    events = decided(state, s.ClaimMatches(""), pool.world.clock)
    claims = [(event.job, event.slot) for event in events if isinstance(event, ClaimMade)]
    assert claims == [("1.0", "slot1_1@h"), ("1.1", "slot1_1@g"), ("1.2", "slot1_2@h")]


def with_backfill() -> TestPool:
    pool = TestPool(dialect="htcondor-25")
    settings = {"ENABLE_BACKFILL": "true", "BACKFILL_SYSTEM": "EXEC", "EXEC_Executable": "/bin/burn"}
    pool.handle(
        s.AddMachine(
            "machine", "h", MACHINE | {"START_BACKFILL": "true"},
            (s.SlotPlan("slot1@h", "partitionable", {"Cpus": "2", "Memory": "2048", "Disk": "1000000"}),), settings,
        )
    )  # fmt: skip
    pool.advance(0)
    assert pool.state.slots["slot1@h"].state_activity == "Backfill/Idle"
    return pool


def test_a_slot_that_leaves_backfill_for_one_claim_keeps_its_other_matches() -> None:
    pool = with_backfill()
    pool.submit(2)
    pool.advance(1)
    assert [event.slot for event in pool.events() if isinstance(event, JobActivated)] == ["slot1_1@h", "slot1_2@h"]
    assert not [event for event in pool.events() if isinstance(event, MatchVoided)]
    assert [str(violation) for violation in examine(pool.log.read()).violations] == []


def test_a_slot_waiting_for_the_backfill_client_is_destroyed_when_its_job_no_longer_wants_it() -> None:
    pool = with_backfill()
    pool.advance(10)
    assert pool.state.slots["slot1@h"].state_activity == "Backfill/Busy"
    state = deepcopy(pool.state)
    now = pool.world.clock
    job = s.Submit("submit", "alice", 0, JOB, 1, ())
    decided(state, job, now)
    evolve(state, CycleHeld(now, "negotiated", "cycle", (Match("1.0", "slot1@h"),), ()))
    decided(state, s.ClaimMatches(""), now)
    waiting = state.slots["slot1_1@h"].queued_claim
    assert waiting is not None and waiting.job == "1.0"
    selection = s.Selection((), ((1, 0),), (), False)
    events = decided(state, s.JOB_COMMANDS["hold"](id="hold", user="alice", selection=selection), now)
    assert kinds(events, "slot1_1@h") == ["ClaimWithdrawn", "SlotDestroyed"]
    assert state.slots["slot1@h"].ad["Cpus"] == "2"


def test_a_slot_returns_its_resources_when_its_claim_ends() -> None:
    pool = TestPool(dialect="htcondor-25")
    pool.machine("h", cpus=2)
    pool.submit()
    pool.advance(60)
    events = pool.events()
    assert [event.slot for event in events if isinstance(event, SlotDestroyed)] == ["slot1_1@h"]
    changes = [
        event.changes["Cpus"] for event in events if isinstance(event, SlotAdChanged) and event.slot == "slot1@h"
    ]
    assert changes == ["1", "2"]
    assert pool.world.clock >= 60 * SECOND
