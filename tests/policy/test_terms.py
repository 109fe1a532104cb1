"""What a job is granted and told, and what is counted: WANT_HOLD, drains and their accounts, configurations."""

from __future__ import annotations

import pytest

from poolbook.domain import events as e
from poolbook.domain.classad import Context
from poolbook.domain.lifecycle import DIALECTS
from poolbook.domain.policy.readings import nothing
from poolbook.domain.policy.view import moment, view
from poolbook.replay.virtual import SECOND, Behaviour

from .points import BEGIN, Point, at

WANTED = {"PREEMPT": "Wanted =?= true"}
RETIRING = {"MaxJobRetirementTime": "100", "MachineMaxVacateTime": "10"}

both = pytest.mark.parametrize("dialect", DIALECTS)


def preempted(dialect: str, policy: dict[str, str], behaviour: Behaviour | None = None, **ad: str) -> Point:
    """A slot whose job PREEMPT sends away 10 seconds after the machine has joined."""
    point = Point(dialect)
    point.point(WANTED | policy)
    at(point, 2)
    point.job("alice", 1, behaviour, **ad)
    at(point, 7)
    point.say(Wanted="true")
    at(point, 12)
    return point


@both
def test_a_job_that_want_hold_names_is_held_with_the_owners_reason(dialect: str) -> None:
    hold = {"WANT_HOLD": "true", "WANT_HOLD_REASON": 'strcat("too ", "big")', "WANT_HOLD_SUBCODE": "7"}
    point = preempted(dialect, hold)
    assert point.status("1.0") == "Held"
    changes = point.state.clusters[1].attributes(0)
    assert [changes[name] for name in ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")] == [
        '"Error from slot1@h: too big"', "21", "7",
    ]  # fmt: skip


@both
def test_want_hold_is_asked_of_a_job_that_preempt_sends_away_alone(dialect: str) -> None:
    point = Point(dialect)
    point.point({"WANT_HOLD": "true"})
    at(point, 2)
    point.job("alice")
    at(point, 7)
    point.vacate_slot("slot1@h")
    at(point, 12)
    assert point.status("1.0") == "Running", "it was sent away, and began anew"


@both
def test_a_job_is_told_softly_once_and_for_its_time_to_vacate(dialect: str) -> None:
    point = preempted(dialect, {"MachineMaxVacateTime": "40"}, Behaviour(1000, grace=None), JobMaxVacateTime="25")
    signals = [event for event in point.events() if isinstance(event, e.JobSignalled)]
    assert [(event.how, (event.until - event.at) // SECOND) for event in signals] == [("soft", 25)]
    at(point, 36)
    signals = [event for event in point.events() if isinstance(event, e.JobSignalled)]
    assert [event.how for event in signals[:2]] == ["soft", "hard"]
    assert (signals[1].at - BEGIN) // SECOND == 35


@both
def test_a_job_that_does_not_hear_is_killed_again_each_killing_timeout(dialect: str) -> None:
    point = preempted(dialect, {"MachineMaxVacateTime": "5"}, Behaviour(1000, immortal=True))
    at(point, 40)
    signals = [event for event in point.events() if isinstance(event, e.JobSignalled)]
    assert [(event.how, (event.at - BEGIN) // SECOND) for event in signals] == [
        ("soft", 10), ("hard", 15), ("hard", 25), ("hard", 35),
    ]  # fmt: skip


# Drains


@both
@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ({"schedule": "Slowly"}, "'Slowly' is no schedule of a drain"),
        ({"completion": "party"}, "'party' is nothing that can follow a drain"),
        ({"check": "Cpus > 7"}, "Draining check expression is false on slot1@h: Cpus > 7"),
        ({"check": "Nobody"}, "Draining check expression is neither true nor false on slot1@h"),
        ({"check": "1 +"}, "the check expression of the drain cannot be read"),
        ({"start": "1 +"}, "the start expression of the drain cannot be read"),
    ],
)
def test_a_drain_that_cannot_be_is_refused_in_words(dialect: str, words: dict[str, str], refusal: str) -> None:
    point = Point(dialect)
    point.point({})
    before = len(point.events())
    assert refusal in point.drain(**words).refusal
    assert len(point.events()) == before


@both
def test_a_machine_has_one_drain_at_a_time_and_it_is_canceled_by_its_number(dialect: str) -> None:
    point = Point(dialect)
    point.point({})
    assert point.drain(check="Cpus > 0").value == {"machine": "h", "request": "1"}
    assert "already in progress" in point.drain().refusal
    assert not point.undrain().refusal
    assert point.drain().value == {"machine": "h", "request": "2"}


@both
@pytest.mark.parametrize(
    ("schedule", "badput", "unclaimed"),
    [("Graceful", 95 - 2, 180 + 105), ("Quick", 20 - 2, 180 + 180), ("Fast", 20 - 2, 180 + 180)],
)
def test_what_a_drain_costs_is_counted(dialect: str, schedule: str, badput: int, unclaimed: int) -> None:
    """A job that began at 2 is drained from 20 on, and retires until 95 if it may; the other core is empty then."""
    point = Point(dialect)
    point.point(RETIRING, slots=2)
    at(point, 2)
    point.job("alice", 1)
    at(point, 20)
    point.drain(schedule)
    at(point, 200)
    machine = point.state.machines["h"]
    now = Context(now=point.world.clock // SECOND)
    ad = view(moment(point.state, point.slot(), nothing, point.world.clock, now), whole=True)
    assert ad.eval("TotalMachineDrainingBadput") == machine.badput == badput
    assert ad.eval("TotalMachineDrainingUnclaimedTime") == unclaimed
    assert all(slot.pair == "Drained/Idle" for slot in machine.slots.values())
    assert machine.drain is not None
    assert machine.drain.state == "Complete"


# Configurations


@both
def test_a_reconfiguration_is_an_event_and_changes_what_is_in_force(dialect: str) -> None:
    point = Point(dialect)
    point.point({})
    before = len(point.events())
    point.reconfigure({"IS_OWNER": "true"}, POLLING_INTERVAL="7")
    kinds = [type(event).__name__ for event in point.events()[before:]]
    assert kinds == ["MachineConfigured", "SlotChanged", "SlotMoved"]
    assert point.state.machines["h"].settings["POLLING_INTERVAL"] == "7"
    assert point.pair() == "Owner/Idle"


@both
@pytest.mark.parametrize("change", [{"SlotTypeID": "3"}, {"TotalSlotCpus": "2"}])
def test_slots_that_would_be_others_are_refused(dialect: str, change: dict[str, str]) -> None:
    point = Point(dialect)
    point.point({})
    before = len(point.events())
    assert "restart the execution point" in point.reconfigure(change).refusal
    assert len(point.events()) == before


@both
def test_the_same_configuration_again_changes_nothing(dialect: str) -> None:
    point = Point(dialect)
    point.point({})
    before = len(point.events())
    point.reconfigure({})
    assert len(point.events()) == before


# Shutdown


@both
@pytest.mark.parametrize(("how", "left"), [("Peaceful", 202), ("Graceful", 95), ("Fast", 7)])
def test_a_machine_leaves_with_its_last_claim(dialect: str, how: str, left: int) -> None:
    point = Point(dialect)
    point.point(RETIRING, slots=2)
    at(point, 2)
    point.job("alice", 1, Behaviour(200))
    at(point, 7)
    point.off(how)
    at(point, 300)
    gone = [event.at for event in point.events() if isinstance(event, e.MachineLeft)]
    assert [(instant - BEGIN) // SECOND for instant in gone] == [left]
    assert not point.state.slots


@both
def test_nothing_new_comes_to_a_machine_that_is_shut_down(dialect: str) -> None:
    point = Point(dialect)
    point.point(RETIRING)
    at(point, 2)
    point.claim("slot1@h", Behaviour(50))
    at(point, 7)
    point.claim("slot1@h", Behaviour(50))
    at(point, 8)
    point.off("Peaceful")
    assert "takes no claims" in point.claim("slot1@h").refusal
    at(point, 100)
    assert "h" not in point.state.machines
