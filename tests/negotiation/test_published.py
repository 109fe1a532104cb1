"""Table: which sensor readings slots publish for the negotiator, and when."""

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
    """Return what a slot has published, and when."""
    return [
        ((event.at - BEGIN) / SECOND, event.changes)
        for event in point.events()
        if isinstance(event, e.SlotAdChanged) and event.cause == "published" and event.slot == slot
    ]


def sensed(dialect: str = "manual", slots: int = 1, policy: dict[str, str] | None = None, **more: object) -> Point:
    """Return an execution point whose sensors report values that its own policy does not read; it updates every 20
    seconds."""
    point = Point(dialect)
    point.read(load=0.25)
    point.say(Room='"B12"', Noise="3")
    point.point(policy or {}, slots=slots, **more)  # type: ignore[arg-type]
    return point


@both
def test_readings_that_no_one_reads_are_not_published(dialect: str) -> None:
    point = sensed(dialect)
    at(point, 100)
    assert {name for _, readings in published(point) for name in readings} == {
        "LoadAvg",
        "CondorLoadAvg",
        "TotalLoadAvg",
        "TotalCondorLoadAvg",
        "KeyboardIdle",
        "ConsoleIdle",
    }


@both
@pytest.mark.parametrize(
    ("requirements", "name", "value"),
    [
        ('TARGET.Room == "B12"', "Room", '"B12"'),
        ("target.NOISE < 5", "Noise", "3"),
        ("Noise < 5", "Noise", "3"),
    ],
)
def test_readings_that_a_job_requires_are_published_before_the_cycle_that_reads_them(
    dialect: str, requirements: str, name: str, value: str
) -> None:
    point = sensed(dialect)
    at(point, 30)
    assert not any(name in readings for _, readings in published(point))
    point.job("alice", Requirements=requirements)
    assert published(point)[-1] == (30, {name: value})
    assert point.status("1.0") == "Running"
    log = point.events()
    published_at = next(number for number, event in enumerate(log) if name in getattr(event, "changes", {}))
    cycle_position = next(number for number, event in enumerate(log) if isinstance(event, e.CycleHeld))
    assert published_at < cycle_position
    assert list(validate(point.log.read())) == []


def test_only_the_first_slot_publishes_the_load_of_the_machine_until_a_job_requires_it() -> None:
    point = sensed(slots=2, policy={"Start": "SlotID == 2"})
    at(point, 30)
    assert "TotalLoadAvg" not in point.state.slots["slot2@h"].published_ad
    point.job("alice", Requirements="TARGET.TotalLoadAvg == 0.25")
    assert point.status("1.0") == "Running"
    assert point.state.slots["slot2@h"].published_ad["TotalLoadAvg"] == "0.25"


def test_readings_in_job_ranks_and_the_negotiators_own_expressions_are_published_too() -> None:
    point = sensed(slots=2)
    point.job("alice", Rank="TARGET.Noise")
    assert any("Noise" in readings for _, readings in published(point))
    assert not any("Room" in readings for _, readings in published(point))
    point.handle(s.ConfigurePool(point.id(), {"NEGOTIATOR_POST_JOB_RANK": 'Room == "B12"'}))
    point.job("bob")
    assert any("Room" in readings for _, readings in published(point))


def test_a_slot_attribute_may_refer_to_sensor_readings() -> None:
    point = sensed(policy={"Quiet": "Noise < 5"})
    point.job("alice", Requirements="TARGET.Quiet")
    assert point.status("1.0") == "Running"
    assert [readings for _, readings in published(point) if "Noise" in readings] == [{"Noise": "3"}]


def test_later_readings_are_published_at_most_once_per_update_interval() -> None:
    point = sensed()
    at(point, 5)
    point.job("alice", Requirements=f"TARGET.Noise > 50 && {NOBODYS}")
    for second in range(6, 60):
        at(point, second)
        point.say(Noise=str(second))
    at(point, 100)
    noise = [(when, readings["Noise"]) for when, readings in published(point) if "Noise" in readings]
    assert noise == [(5, "3"), (20, "19"), (40, "39"), (60, "59")]


def test_a_published_reading_is_not_published_again_for_another_job() -> None:
    point = sensed()
    for user in ("alice", "bob", "carol"):
        point.job(user, Requirements=f"TARGET.Noise > 50 && {NOBODYS}")
    at(point, 100)
    assert len([readings for _, readings in published(point) if "Noise" in readings]) == 1


def test_a_machine_that_joins_later_publishes_too() -> None:
    point = sensed()
    point.job("alice", Requirements="TARGET.Noise > 50")
    at(point, 7)
    point.say("k", Noise="60")
    point.point({}, name="k")
    assert point.status("1.0") == "Running"
    assert point.state.slots["slot1@k"].published_ad["Noise"] == "60"


def test_a_sensor_that_starts_to_report_later_is_published_in_the_next_cycle() -> None:
    point = sensed()
    point.job("alice", Requirements="TARGET.Smell is undefined && TARGET.Noise > 50 || TARGET.Smell == 4")
    at(point, 7)
    point.say(Smell="4")
    at(point, 59)
    assert point.status("1.0") == "Idle"
    at(point, 61)
    assert point.status("1.0") == "Running"


def test_a_machine_without_sensors_publishes_nothing() -> None:
    point = Point("manual")
    point.point({})
    point.job("alice", Requirements="TARGET.LoadAvg < 0.5 && TARGET.KeyboardIdle >= 0 && TARGET.Noise is undefined")
    at(point, 100)
    assert point.status("1.0") == "Running"
    assert published(point) == []


def test_the_negotiator_sees_published_values_and_not_current_readings() -> None:
    point = sensed()
    point.job("alice", Requirements=f"TARGET.Noise > 50 && {NOBODYS}")
    point.say(Noise="60")
    point.job("bob", Requirements="TARGET.Noise > 50")
    assert point.status("2.0") == "Idle", "it says 3 until the next update"
    at(point, 61)
    assert point.status("2.0") == "Running"


@both
def test_a_slot_publishes_its_readings_with_each_change_of_state_or_activity(dialect: str) -> None:
    """HTCondor's startd also sends an update with each change of state or activity."""
    point = sensed(dialect, policy={"Start": "LoadAvg < 0.5"})
    at(point, 23)
    point.read(load=0.31)
    at(point, 24)
    assert published(point)[-1][0] < 23
    point.job("alice", behaviour=Behaviour(10))
    assert published(point)[-1] == (24, {"LoadAvg": "0.31", "TotalLoadAvg": "0.31"})
    at(point, 30)
    point.read(load=0.42)
    at(point, 34)
    assert published(point)[-1] == (34, {"LoadAvg": "0.42", "TotalLoadAvg": "0.42"})
    assert list(validate(point.log.read())) == []


def test_no_cycle_reads_the_sensors() -> None:
    """Each cycle gives the same result when it is repeated from the log alone."""
    point = sensed(slots=3, policy={"Start": "LoadAvg < 0.5"})
    at(point, 13)
    point.job("alice", 2, Requirements="TARGET.Noise < 5 && TARGET.LoadAvg < 1", Rank="TARGET.KeyboardIdle")
    point.read(load=0.4)
    point.job("bob", Requirements="TARGET.Noise > 5")
    point.say(Noise="7")
    at(point, 200)
    rechecked = recheck(point.log.read())
    assert rechecked.sound and rechecked.taken > 3
    assert point.status("2.0") == "Running"


@both
@pytest.mark.parametrize(("text", "runs"), [("1000", True), ("10", False), ("30 * 30", True), ('"long"', False)])
def test_the_owners_own_keyboard_sensor_counts(dialect: str, text: str, runs: bool) -> None:
    point = Point(dialect)
    point.say(KeyboardIdle=text)
    point.point({"Start": "KeyboardIdle > 500"})
    at(point, 5)
    point.job("alice")
    at(point, 70)
    assert (point.status("1.0") == "Running") == runs
