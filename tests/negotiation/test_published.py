"""Table: what slots publish of their machines' sensors for the negotiator, and when."""

from __future__ import annotations

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state_machines import DIALECTS
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from ..policy.points import BEGIN, Point, at

SECOND = 1_000_000
NOBODYS = "TARGET.NoSuchThing =?= 1"
both = pytest.mark.parametrize("dialect", DIALECTS)


def published(point: Point, slot: str = "slot1@h") -> list[tuple[float, dict[str, str]]]:
    """When, and what, a slot has published."""
    return [
        ((event.at - BEGIN) / SECOND, event.changes)
        for event in point.events()
        if isinstance(event, e.SlotAdChanged) and event.cause == "published" and event.slot == slot
    ]


def sensed(dialect: str = "manual", slots: int = 1, policy: dict[str, str] | None = None, **more: object) -> Point:
    """A point whose sensors tell things that its own policy does not read; it updates every 20 seconds."""
    point = Point(dialect)
    point.read(load=0.25)
    point.say(Room='"B12"', Noise="3")
    point.point(policy or {}, slots=slots, **more)  # type: ignore[arg-type]
    return point


@both
def test_nothing_is_published_of_what_nobody_reads(dialect: str) -> None:
    point = sensed(dialect)
    at(point, 100)
    assert {name for _, said in published(point) for name in said} == {"LoadAvg", "CondorLoadAvg", "KeyboardIdle"}


@both
@pytest.mark.parametrize(
    ("requirements", "name", "value"),
    [
        ('TARGET.Room == "B12"', "Room", '"B12"'),
        ("target.NOISE < 5", "Noise", "3"),
        ("Noise < 5", "Noise", "3"),
        ("TARGET.TotalLoadAvg < 1", "TotalLoadAvg", "0.25"),
        ("TARGET.ConsoleIdle > 5", "ConsoleIdle", f"time() - {BEGIN // SECOND}"),
    ],
)
def test_what_a_job_asks_for_is_published_before_the_cycle_that_sees_it(
    dialect: str, requirements: str, name: str, value: str
) -> None:
    point = sensed(dialect)
    at(point, 30)
    assert not any(name in said for _, said in published(point))
    point.job("alice", Requirements=requirements)
    assert published(point)[-1] == (30, {name: value})
    assert point.status("1.0") == "Running"
    log = point.events()
    told = next(number for number, event in enumerate(log) if name in getattr(event, "changes", {}))
    held = next(number for number, event in enumerate(log) if isinstance(event, e.CycleHeld))
    assert told < held
    assert list(validate(point.log.read())) == []


def test_what_a_job_ranks_slots_by_and_the_negotiator_s_own_expressions_are_asked_for_as_well() -> None:
    point = sensed(slots=2)
    point.job("alice", Rank="TARGET.Noise")
    assert any("Noise" in said for _, said in published(point))
    assert not any("Room" in said for _, said in published(point))
    point.handle(s.ConfigurePool(point.id(), {"NEGOTIATOR_POST_JOB_RANK": 'Room == "B12"'}))
    point.job("bob")
    assert any("Room" in said for _, said in published(point))


def test_a_slot_s_attribute_may_lead_to_what_its_sensors_tell() -> None:
    point = sensed(policy={"Quiet": "Noise < 5"})
    point.job("alice", Requirements="TARGET.Quiet")
    assert point.status("1.0") == "Running"
    assert [said for _, said in published(point) if "Noise" in said] == [{"Noise": "3"}]


def test_from_then_on_it_is_published_as_the_rest_at_most_once_in_update_interval() -> None:
    point = sensed()
    at(point, 5)
    point.job("alice", Requirements=f"TARGET.Noise > 50 && {NOBODYS}")
    for second in range(6, 60):
        at(point, second)
        point.say(Noise=str(second))
    at(point, 100)
    told = [(when, said["Noise"]) for when, said in published(point) if "Noise" in said]
    assert told == [(5, "3"), (20, "19"), (40, "39"), (60, "59")]


def test_what_was_published_once_is_not_published_again_for_another_job() -> None:
    point = sensed()
    for user in ("alice", "bob", "carol"):
        point.job(user, Requirements=f"TARGET.Noise > 50 && {NOBODYS}")
    at(point, 100)
    assert len([said for _, said in published(point) if "Noise" in said]) == 1


def test_a_machine_that_joins_later_tells_it_too() -> None:
    point = sensed()
    point.job("alice", Requirements="TARGET.Noise > 50")
    at(point, 7)
    point.say("k", Noise="60")
    point.point({}, name="k")
    assert point.status("1.0") == "Running"
    assert point.state.slots["slot1@k"].public["Noise"] == "60"


def test_a_sensor_that_begins_to_tell_it_later_is_heard_in_the_next_cycle() -> None:
    point = sensed()
    point.job("alice", Requirements="TARGET.Smell is undefined && TARGET.Noise > 50 || TARGET.Smell == 4")
    at(point, 7)
    point.say(Smell="4")
    at(point, 59)
    assert point.status("1.0") == "Idle"
    at(point, 61)
    assert point.status("1.0") == "Running"


def test_a_machine_without_sensors_publishes_nothing_whatever_is_asked_for() -> None:
    point = Point("manual")
    point.point({})
    point.job("alice", Requirements="TARGET.LoadAvg < 0.5 && TARGET.KeyboardIdle >= 0 && TARGET.Noise is undefined")
    at(point, 100)
    assert point.status("1.0") == "Running"
    assert published(point) == []


def test_the_negotiator_sees_what_was_published_and_not_what_the_sensors_say_by_now() -> None:
    point = sensed()
    point.job("alice", Requirements=f"TARGET.Noise > 50 && {NOBODYS}")
    point.say(Noise="60")
    point.job("bob", Requirements="TARGET.Noise > 50")
    assert point.status("2.0") == "Idle", "it says 3 until the next update"
    at(point, 61)
    assert point.status("2.0") == "Running"


@both
def test_a_slot_whose_state_or_activity_changes_tells_its_news_with_it(dialect: str) -> None:
    """As the real startd, which sends an update with each change of state or activity."""
    point = sensed(dialect, policy={"Start": "LoadAvg < 0.5"})
    at(point, 23)
    point.read(load=0.31)
    at(point, 24)
    assert published(point)[-1][0] < 23
    point.job("alice", behaviour=Behaviour(10))
    assert published(point)[-1] == (24, {"LoadAvg": "0.31"})
    at(point, 30)
    point.read(load=0.42)
    at(point, 34)
    assert published(point)[-1] == (34, {"LoadAvg": "0.42"})
    assert list(validate(point.log.read())) == []


def test_no_cycle_asks_the_sensors_anything() -> None:
    """Taken again from the log alone, each cycle comes to the same."""
    point = sensed(slots=3, policy={"Start": "LoadAvg < 0.5"})
    at(point, 13)
    point.job("alice", 2, Requirements="TARGET.Noise < 5 && TARGET.LoadAvg < 1", Rank="TARGET.KeyboardIdle")
    point.read(load=0.4)
    point.job("bob", Requirements="TARGET.Noise > 5")
    point.say(Noise="7")
    at(point, 200)
    again = recheck(point.log.read())
    assert again.sound and again.taken > 3
    assert point.status("2.0") == "Running"


@both
@pytest.mark.parametrize(("said", "runs"), [("1000", True), ("10", False), ("30 * 30", True), ('"long"', False)])
def test_what_the_owner_s_own_sensor_says_of_the_keyboard_counts(dialect: str, said: str, runs: bool) -> None:
    point = Point(dialect)
    point.say(KeyboardIdle=said)
    point.point({"Start": "KeyboardIdle > 500"})
    at(point, 5)
    point.job("alice")
    at(point, 70)
    assert (point.status("1.0") == "Running") == runs
