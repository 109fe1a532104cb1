"""Property: whatever is done to a poll of a sound log, the judge or the poll that is held again says so; what neither
can see is listed here, with why."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from poolbook.domain import events as e
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine

from ..replay.edits import other_values, undetected_omissions, undetected_repeats
from .pools import DefragPool


@cache
def sound(dialect: str) -> tuple[e.Event, ...]:
    pool = DefragPool(dialect, INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, CANCEL_REQUIREMENTS="Cpus == 1")
    pool.machines("m1", "m2", retirement=1000)
    pool.run(50, cpus=1)
    pool.run(36_000, count=6)
    pool.advance(190)
    return tuple(pool.events())


OF_POLLS = (e.DefragPolled, e.DrainBegan, e.DrainTransitioned, e.EvaluationRecorded)
CHANGED_UNSEEN: dict[tuple[type[e.Event], str], str] = {
    (e.DefragPolled, "stimulus"): "one that drained nothing is alone under its name",
    (e.DefragPolled, "offset"): "no expression of this pool asks for local times",
}


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_poll_that_is_left_out_is_missed(dialect: str) -> None:
    assert undetected_omissions(sound(dialect)) & set(OF_POLLS) == set()


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_poll_that_stands_there_twice_is_noticed(dialect: str) -> None:
    assert undetected_repeats(sound(dialect)) & set(OF_POLLS) == {e.EvaluationRecorded}  # there may be any number


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_field_of_a_poll_that_is_changed_is_noticed(dialect: str) -> None:
    unseen = set()
    log = sound(dialect)
    for index, event in enumerate(log):
        for name in event.__struct_fields__ if isinstance(event, e.DefragPolled) else ():
            for value in other_values(getattr(event, name)):
                if value == getattr(event, name):
                    continue
                told = [*log]
                told[index] = replace(event, **{name: value})
                if not examine(enumerate(told, 1)).violations and not recheck(enumerate(told, 1)).differing:
                    unseen.add((type(event), name))
    assert unseen == set(CHANGED_UNSEEN)
