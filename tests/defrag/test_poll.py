"""golden: which machines a poll drains, of which it cancels the drain, and what it writes down of that."""

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


def fragmented(*names: str, retirement: int = 0, dialect: str = "manual", **settings: object) -> DefragPool:
    """A pool of four cores a machine, each of which runs a job for hours, after its first poll."""
    pool = DefragPool(dialect, **{**EACH_POLL, **settings})
    pool.machines(*names, retirement=retirement)
    pool.advance(1)
    for _ in names:
        pool.run(36_000)
    pool.advance(10)
    return pool


def test_a_fragmented_machine_is_drained_and_takes_jobs_again() -> None:
    pool = fragmented("m1", CANCEL_REQUIREMENTS=" ")
    pool.advance(60)
    began = next(event for event in pool.events() if isinstance(event, e.DrainBegan))
    assert (began.machine, began.schedule, began.reason, began.completion) == ("m1", "Graceful", REASON, "resume")
    assert began.start == "FALSE"
    pool.advance(400)
    assert any(isinstance(event, e.DrainTransitioned) and event.row == "resume" for event in pool.events())


def test_a_poll_notes_what_made_the_choice() -> None:
    pool = fragmented("m1", REQUIREMENTS="Cpus < TotalSlotCpus")
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


def test_the_machine_of_the_highest_rank_goes_first() -> None:
    pool = DefragPool(**EACH_POLL, RANK='Machine == "m2" ? 2 : 1')
    pool.machines("m1", "m2", "m3")
    pool.run(36_000, count=12)
    pool.advance(61)
    assert pool.drained() == ["m2"]


def test_machines_of_the_same_rank_have_their_turns() -> None:
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
        ("MY.Cpus", 0.0),  # MY is the ad that holds the rank alone
        ("undefined", 0.0),
        ('"high"', 0.0),
        ("true", 1.0),
        ("1.0 / 0", 0.0),
        ("", 0.0),
    ],
)
def test_a_rank_that_is_no_number_is_0(rank: str, expected: float) -> None:
    pool = fragmented("m1", RANK=rank or " ")
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
        ({"WHOLE_MACHINE_EXPR": "Cpus >= 1"}, ""),  # no limit, but whole machines are no candidates
        ({"REQUIREMENTS": "Memory > 10000"}, ""),
    ],
)
def test_what_keeps_a_poll_from_draining_is_written_down(settings: dict[str, Any], stopped: str) -> None:
    pool = fragmented("m1", **settings)
    pool.advance(120)
    assert {poll.stopped for poll in pool.polls() if poll.at > pool.state.machines["m1"].joined + 60_000_000} == {
        stopped
    }
    assert pool.drained() == []


def test_a_drain_is_canceled_when_enough_is_free() -> None:
    pool = fragmented("m1", retirement=3600, CANCEL_REQUIREMENTS="Cpus >= 3")
    pool.advance(60)
    assert pool.state.machines["m1"].drain is not None
    pool.advance(60)
    poll = list(pool.polls())[-1]
    assert [cancel.machine for cancel in poll.cancels] == ["m1"]
    moved = [event for event in pool.events() if isinstance(event, e.DrainTransitioned)]
    assert [(event.row, event.cause) for event in moved] == [("cancel", "defrag_cancel")]
    assert poll.drains == ()  # a machine whose drain was canceled is left alone for this poll


def test_no_drain_of_somebody_else_is_counted_or_canceled() -> None:
    pool = fragmented("m1", retirement=3600, CANCEL_REQUIREMENTS="true", MAX_CONCURRENT_DRAINING=1)
    pool.handle(s.Drain(pool.id(), "root", "m1", "Graceful", "an administrator's"))
    pool.advance(120)
    assert {(poll.draining, poll.cancels) for poll in pool.polls()} == {(0, ())}
    assert pool.state.machines["m1"].drain is not None


@together(("schedule", "expected"), [("graceful", "Graceful"), ("quick", "Quick"), ("fast", "Fast"), ("FAST", "Fast")])
def test_machines_are_drained_by_the_schedule(schedule: str, expected: str) -> None:
    pool = fragmented("m1", DRAINING_SCHEDULE=schedule)
    pool.advance(60)
    assert next(event for event in pool.events() if isinstance(event, e.DrainBegan)).schedule == expected


def test_jobs_that_start_expr_lets_in_run_while_a_machine_drains() -> None:
    pool = fragmented("m1", retirement=3600, DRAINING_START_EXPR="TARGET.Short =?= true")
    pool.advance(60)
    pool.submit(1, "bob", Args='"20"', Short="true", RequestMemory="10")
    pool.submit(1, "bob", Args='"20"', RequestMemory="10")
    pool.advance(10)
    assert (pool.status("2.0"), pool.status("3.0")) == ("Running", "Idle")
    late = [slot for slot in pool.state.slots.values() if slot.claim is not None and "late" in slot.claim.marks]
    assert [slot.user for slot in late] == ["bob@example.org"]


def test_several_machines_drain_at_once_within_the_maxima() -> None:
    """Of five that a poll may drain, the manual's maxima leave two; the real condor_defrag drains all five."""
    for dialect, expected in (("manual", 2), ("htcondor-25", 5)):
        pool = fragmented(
            *(f"m{number}" for number in range(6)), retirement=7200, dialect=dialect,
            DRAINING_MACHINES_PER_HOUR=300, MAX_CONCURRENT_DRAINING=2,
        )  # fmt: skip
        pool.run(36_000, count=18)
        pool.advance(170)
        assert len(pool.drained()) == expected


@together(("dialect", "drained"), [("manual", ["m1"]), ("htcondor-25", [])])
def test_an_alternative_in_the_whole_machine_expr_stands_for_itself(dialect: str, drained: list[str]) -> None:
    """The real condor_defrag joins the texts: to it, a dynamic slot of three cores makes the machine whole."""
    expr = "Cpus == 3 || Cpus == TotalSlotCpus"
    pool = DefragPool(dialect, **EACH_POLL, WHOLE_MACHINE_EXPR=expr, CANCEL_REQUIREMENTS=" ")
    pool.machines("m1")
    pool.run(36_000, cpus=3)
    pool.advance(61)
    assert pool.drained() == drained


@together(("dialect", "drains"), [("manual", 2), ("htcondor-25", 0)])
def test_an_interval_of_more_than_an_hour_drains_by_the_manual_alone(dialect: str, drains: int) -> None:
    pool = DefragPool(dialect, INTERVAL=7200, DRAINING_MACHINES_PER_HOUR=1)
    pool.machines("m1", "m2", "m3")
    pool.run(360_000, count=9)
    pool.advance(7300)
    assert len(pool.drained()) == drains


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_what_a_defragmenting_pool_writes_is_legal_and_is_decided_so_again(dialect: str) -> None:
    pool = fragmented("m1", "m2", dialect=dialect, retirement=100, CANCEL_REQUIREMENTS="Cpus >= 3")
    pool.run(50, count=3)
    pool.run(500, count=2, cpus=4, user="bob")
    pool.advance(1500)
    found = recheck(pool.log.read())
    assert found.polls == len(list(pool.polls())) > 20
    assert found.differences == []
    assert examine(pool.log.read()).violations == []
    assert any(poll.cancels for poll in pool.polls())
