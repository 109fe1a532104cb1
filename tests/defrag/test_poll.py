"""golden: which machines a poll drains, which drains it cancels, and what it logs."""

from __future__ import annotations

from typing import Any

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..together import together
from .pools import REASON, DefragPool

EACH_POLL = {"INTERVAL": 60, "DRAINING_MACHINES_PER_HOUR": 60}


def fragmented_pool(*names: str, retirement: int = 0, dialect: str = "manual", **settings: object) -> DefragPool:
    """Return a pool after its first poll; each machine has four cores and runs a job for hours."""
    pool = DefragPool(dialect, **{**EACH_POLL, **settings})
    pool.machines(*names, retirement=retirement)
    pool.advance(1)
    for _ in names:
        pool.run(36_000)
    pool.advance(10)
    return pool


def test_a_fragmented_machine_is_drained_and_then_accepts_jobs_again() -> None:
    pool = fragmented_pool("m1", CANCEL_REQUIREMENTS=" ")
    pool.advance(60)
    began = next(event for event in pool.events() if isinstance(event, e.DrainBegan))
    assert (began.machine, began.schedule, began.reason, began.completion) == ("m1", "Graceful", REASON, "resume")
    assert began.start == "FALSE"
    pool.advance(400)
    assert any(isinstance(event, e.DrainTransitioned) and event.row == "resume" for event in pool.events())


def test_a_poll_logs_the_evidence_for_its_choice() -> None:
    pool = fragmented_pool("m1", REQUIREMENTS="Cpus < TotalSlotCpus")
    pool.advance(60)
    log = dict(enumerate(pool.events(), 1))
    (drain,) = next(poll for poll in pool.polls() if poll.drains).drains
    requirements, rank = (log[position] for position in drain.evidence)
    assert isinstance(requirements, e.EvaluationRecorded)
    assert isinstance(rank, e.EvaluationRecorded)
    assert (requirements.name, requirements.value) == ("DEFRAG_REQUIREMENTS", "true")
    assert requirements.read == {"MY.Cpus": "3", "MY.PartitionableSlot": "true", "MY.TotalSlotCpus": "4"}
    assert (rank.name, rank.value) == ("DEFRAG_RANK", str(-drain.badput))
    assert rank.read == {"TARGET.ExpectedMachineGracefulDrainingBadput": str(drain.badput)}


def test_the_machine_with_the_highest_rank_is_drained_first() -> None:
    pool = DefragPool(**EACH_POLL, RANK='Machine == "m2" ? 2 : 1')
    pool.machines("m1", "m2", "m3")
    pool.run(36_000, count=12)
    pool.advance(61)
    assert pool.drained() == ["m2"]


def test_machines_with_the_same_rank_are_drained_in_turn() -> None:
    pool = DefragPool(**EACH_POLL, RANK="0", DRAINING_SCHEDULE="fast")
    pool.machines("m1", "m2", "m3")
    pool.run(36_000, count=12)
    pool.advance(61)
    for _ in range(4):
        pool.advance(600)
    assert pool.drained()[:4] == ["m1", "m2", "m3", "m1"]


@together(
    ("rank", "expected"),
    [
        ("Cpus", 3.0),
        ("TARGET.Cpus", 3.0),
        ("MY.Cpus", 0.0),  # MY is an ad with only the rank
        ("undefined", 0.0),
        ('"high"', 0.0),
        ("true", 1.0),
        ("1.0 / 0", 0.0),
        ("", 0.0),
    ],
)
def test_a_rank_that_is_not_a_number_counts_as_0(rank: str, expected: float) -> None:
    pool = fragmented_pool("m1", RANK=rank or " ")
    pool.advance(60)
    (drain,) = next(poll for poll in pool.polls() if poll.drains).drains
    assert drain.rank == expected


@together(
    ("settings", "stopped"),
    [
        ({"DRAINING_MACHINES_PER_HOUR": 0}, "rate"),
        ({"MAX_CONCURRENT_DRAINING": 0}, "concurrent"),
        ({"MAX_WHOLE_MACHINES": 0}, "whole"),
        ({"WHOLE_MACHINE_EXPR": "Cpus >= 1", "MAX_WHOLE_MACHINES": 1}, "whole"),
        ({"WHOLE_MACHINE_EXPR": "Cpus >= 1"}, ""),  # no limit, but whole machines are not candidates
        ({"REQUIREMENTS": "Memory > 10000"}, ""),
    ],
)
def test_a_poll_logs_why_it_drains_nothing(settings: dict[str, Any], stopped: str) -> None:
    pool = fragmented_pool("m1", **settings)
    pool.advance(120)
    assert {poll.stopped for poll in pool.polls() if poll.at > pool.state.machines["m1"].joined + 60_000_000} == {
        stopped
    }
    assert pool.drained() == []


def test_a_drain_is_canceled_when_enough_is_free() -> None:
    pool = fragmented_pool("m1", retirement=3600, CANCEL_REQUIREMENTS="Cpus >= 3")
    pool.advance(60)
    assert pool.state.machines["m1"].drain is not None
    pool.advance(60)
    poll = list(pool.polls())[-1]
    assert [cancel.machine for cancel in poll.cancels] == ["m1"]
    moved = [event for event in pool.events() if isinstance(event, e.DrainTransitioned)]
    assert [(event.row, event.cause) for event in moved] == [("cancel", "defrag_cancel")]
    assert poll.drains == ()  # the poll does not drain a machine whose drain it cancels


def test_an_administrator_s_drain_is_not_counted_or_canceled() -> None:
    pool = fragmented_pool("m1", retirement=3600, CANCEL_REQUIREMENTS="true", MAX_CONCURRENT_DRAINING=1)
    pool.handle(s.Drain(pool.id(), "root", "m1", "Graceful", "an administrator's"))
    pool.advance(120)
    assert {(poll.draining, poll.cancels) for poll in pool.polls()} == {(0, ())}
    assert pool.state.machines["m1"].drain is not None


@together(("schedule", "expected"), [("graceful", "Graceful"), ("quick", "Quick"), ("fast", "Fast"), ("FAST", "Fast")])
def test_machines_are_drained_with_the_configured_schedule(schedule: str, expected: str) -> None:
    pool = fragmented_pool("m1", DRAINING_SCHEDULE=schedule)
    pool.advance(60)
    assert next(event for event in pool.events() if isinstance(event, e.DrainBegan)).schedule == expected


def test_jobs_that_match_draining_start_expr_run_while_a_machine_drains() -> None:
    pool = fragmented_pool("m1", retirement=3600, DRAINING_START_EXPR="TARGET.Short =?= true")
    pool.advance(60)
    pool.submit(1, "bob", Args='"20"', Short="true", RequestMemory="10")
    pool.submit(1, "bob", Args='"20"', RequestMemory="10")
    pool.advance(10)
    assert (pool.status("2.0"), pool.status("3.0")) == ("Running", "Idle")
    late = [slot for slot in pool.state.slots.values() if slot.claim is not None and "late" in slot.claim.flags]
    assert [slot.user for slot in late] == ["bob@example.org"]


def test_several_machines_drain_at_once_within_the_limits() -> None:
    """A poll may drain five machines. The limits in the manual allow two; HTCondor's condor_defrag drains all five."""
    for dialect, expected in (("manual", 2), ("htcondor-25", 5)):
        pool = fragmented_pool(
            *(f"m{number}" for number in range(6)), retirement=7200, dialect=dialect,
            DRAINING_MACHINES_PER_HOUR=300, MAX_CONCURRENT_DRAINING=2,
        )  # fmt: skip
        pool.run(36_000, count=18)
        pool.advance(170)
        assert len(pool.drained()) == expected


@together(("dialect", "drained"), [("manual", ["m1"]), ("htcondor-25", [])])
def test_an_or_in_the_whole_machine_expr_does_not_change_other_expressions(dialect: str, drained: list[str]) -> None:
    """HTCondor's condor_defrag joins texts, so a dynamic slot of three cores makes the machine whole."""
    expr = "Cpus == 3 || Cpus == TotalSlotCpus"
    pool = DefragPool(dialect, **EACH_POLL, WHOLE_MACHINE_EXPR=expr, CANCEL_REQUIREMENTS=" ")
    pool.machines("m1")
    pool.run(36_000, cpus=3)
    pool.advance(61)
    assert pool.drained() == drained


@together(("dialect", "drains"), [("manual", 2), ("htcondor-25", 0)])
def test_only_the_manual_dialect_drains_with_an_interval_over_an_hour(dialect: str, drains: int) -> None:
    pool = DefragPool(dialect, INTERVAL=7200, DRAINING_MACHINES_PER_HOUR=1)
    pool.machines("m1", "m2", "m3")
    pool.run(360_000, count=9)
    pool.advance(7300)
    assert len(pool.drained()) == drains


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_the_log_of_a_defragmenting_pool_is_valid_and_its_polls_are_rechecked(dialect: str) -> None:
    pool = fragmented_pool("m1", "m2", dialect=dialect, retirement=100, CANCEL_REQUIREMENTS="Cpus >= 3")
    pool.run(50, count=3)
    pool.run(500, count=2, cpus=4, user="bob")
    pool.advance(1500)
    result = recheck(pool.log.read())
    assert result.polls == len(list(pool.polls())) > 20
    assert result.differences == []
    assert examine(pool.log.read()).violations == []
    assert any(poll.cancels for poll in pool.polls())
