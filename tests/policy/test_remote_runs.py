"""Golden: an execution point runs the jobs of an external access point, and reports to it."""

from __future__ import annotations

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from .points import BEGIN, at
from .remote_holder import RunningPoint

SLOT = "slot1@h"


def point_with_job(behaviour: Behaviour | None = None, policy: dict[str, str] | None = None, **ad: str) -> RunningPoint:
    """Return an execution point whose only slot has run an external job for ten seconds."""
    point = RunningPoint()
    point.point(policy or {})
    at(point, 2)
    point.claim(lease=60)
    point.activate(SLOT, behaviour, **ad)
    at(point, 12)
    return point


def assert_ended(point: RunningPoint, pair: str) -> None:
    """Check the slot's state after the end of its job, and that the log is valid."""
    assert point.pair() == pair
    assert point.state.remote_runs == {}
    assert point.state.slots[SLOT].activation is None
    assert list(validate(point.log.read())) == []


def test_a_job_of_an_external_access_point_runs_and_its_end_follows_the_slots() -> None:
    point = point_with_job(Behaviour(30, code=3))
    assert point.engine.busy()
    (key,) = point.state.remote_runs
    assert key in point.world.started_keys
    at(point, 100)
    started, ended = point.reports()
    assert isinstance(started, s.ActivationStarted) and isinstance(ended, s.ActivationEnded)
    assert (started.key, started.at) == ("run-3", BEGIN + 2_000_000)
    assert (ended.key, ended.code, ended.at) == ("run-3", 3, BEGIN + 32_000_000)
    last_events = [event for event in point.events() if event.at == ended.at]
    assert isinstance(last_events[0], e.SlotTransitioned) and isinstance(last_events[-1], e.RunReported)
    deactivated = next(event for event in last_events if isinstance(event, e.ClaimDeactivated))
    assert deactivated.starter == key
    assert not point.engine.busy()
    assert_ended(point, "Claimed/Idle")
