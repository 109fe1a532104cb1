"""Property: validation or the recheck detects every change to a poll of a valid log, except those listed here."""

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
def valid_log(dialect: str) -> tuple[e.Event, ...]:
    pool = DefragPool(dialect, INTERVAL=60, DRAINING_MACHINES_PER_HOUR=60, CANCEL_REQUIREMENTS="Cpus == 1")
    pool.machines("m1", "m2", retirement=1000)
    pool.run(50, cpus=1)
    pool.run(36_000, count=6)
    pool.advance(190)
    return tuple(pool.events())


POLL_EVENTS = (e.DefragPolled, e.DrainBegan, e.DrainTransitioned, e.EvaluationRecorded)
UNDETECTED_CHANGES: dict[tuple[type[e.Event], str], str] = {
    (e.DefragPolled, "stimulus"): "no other event has the stimulus of a poll that drained nothing",
    (e.DefragPolled, "offset"): "no expression of this pool reads the local time",
}


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_missing_poll_is_detected(dialect: str) -> None:
    assert undetected_omissions(valid_log(dialect)) & set(POLL_EVENTS) == set()


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_duplicate_poll_is_detected(dialect: str) -> None:
    assert undetected_repeats(valid_log(dialect)) & set(POLL_EVENTS) == {e.EvaluationRecorded}  # any number is valid


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_changed_field_of_a_poll_is_detected(dialect: str) -> None:
    undetected = set()
    log = valid_log(dialect)
    for index, event in enumerate(log):
        for name in event.__struct_fields__ if isinstance(event, e.DefragPolled) else ():
            for value in other_values(getattr(event, name)):
                if value == getattr(event, name):
                    continue
                edited = [*log]
                edited[index] = replace(event, **{name: value})
                if not examine(enumerate(edited, 1)).violations and not recheck(enumerate(edited, 1)).differing:
                    undetected.add((type(event), name))
    assert undetected == set(UNDETECTED_CHANGES)
