"""Golden: the end of a job on a slot whose claim holder is outside of the pool."""

from __future__ import annotations

import pytest

from poolbook.domain.events import StarterSignalled
from poolbook.replay.virtual_world import Behaviour

from .points import Point, at
from .stories import run_act


@pytest.mark.parametrize(("dialect", "killed_as"), [("manual", "vacate_timeout"), ("htcondor-25", "kill_timeout")])
def test_a_job_that_does_not_end_in_time_is_killed(dialect: str, killed_as: str) -> None:
    point = Point(dialect)
    point.point({"MachineMaxVacateTime": "30"})
    at(point, 2)
    point.claim(behaviour=Behaviour(1000, grace=None))
    at(point, 10)
    run_act(point, "slot1@h", "vacate")
    at(point, 39)
    assert point.pair() == "Preempting/Vacating"
    at(point, 42)
    ends = [(event.how, event.cause) for event in point.events() if isinstance(event, StarterSignalled)]
    assert ends == [("soft", "retirement_over"), ("hard", killed_as)]
    assert point.pair() == "Unclaimed/Idle"
