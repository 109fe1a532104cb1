"""What a job is granted and sent, and what is counted: WANT_HOLD, drains and their costs, configurations."""

from __future__ import annotations

from itertools import pairwise

import pytest

from poolbook.domain import events as e
from poolbook.domain.classad import Context
from poolbook.domain.negotiator.schedule import SETTLES
from poolbook.domain.ports.sensor_readings import no_readings
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.startd.slot_ad import snapshot_ad
from poolbook.domain.state.caches import Caches
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.units import SECOND
from poolbook.replay.virtual_world import Behaviour

from .points import BEGIN, Point, at
from .stories import Story, run_story

WANTED = {"PREEMPT": "Wanted =?= true"}
RETIRING = {"MaxJobRetirementTime": "100", "MachineMaxVacateTime": "10"}

both = pytest.mark.parametrize("dialect", DIALECTS)


def preempted(dialect: str, policy: dict[str, str], behaviour: Behaviour | None = None, **ad: str) -> Point:
    """Return a slot whose job PREEMPT evicts 10 seconds after the machine has joined."""
    point = Point(dialect)
    point.point(WANTED | policy)
    at(point, 2)
    point.job("alice", 1, behaviour, **ad)
    at(point, 7)
    point.say(Wanted="true")
    at(point, 12)
    return point


@both
def test_a_job_selected_by_want_hold_is_held_with_the_owners_reason(dialect: str) -> None:
    hold = {"WANT_HOLD": "true", "WANT_HOLD_REASON": 'strcat("too ", "big")', "WANT_HOLD_SUBCODE": "7"}
    point = preempted(dialect, hold)
    assert point.status("1.0") == "Held"
    changes = point.state.clusters[1].attributes(0)
    assert [changes[name] for name in ("HoldReason", "HoldReasonCode", "HoldReasonSubCode")] == [
        '"Error from slot1@h: too big"', "21", "7",
    ]  # fmt: skip


@both
def test_want_hold_is_evaluated_only_for_a_job_that_preempt_evicts(dialect: str) -> None:
    point = Point(dialect)
    point.point({"WANT_HOLD": "true"})
    at(point, 2)
    point.job("alice")
    at(point, 7)
    point.vacate_slot("slot1@h")
    at(point, 12)
    assert point.status("1.0") == "Running", "it was evicted, and started again"


@both
def test_a_job_is_signalled_softly_once_and_for_its_vacate_time(dialect: str) -> None:
    point = preempted(dialect, {"MachineMaxVacateTime": "40"}, Behaviour(1000, grace=None), JobMaxVacateTime="25")
    signals = [event for event in point.events() if isinstance(event, e.JobSignalled)]
    assert [(event.how, (event.until - event.at) // SECOND) for event in signals] == [("soft", 25)]
    at(point, 36)
    signals = [event for event in point.events() if isinstance(event, e.JobSignalled)]
    assert [event.how for event in signals[:2]] == ["soft", "hard"]
    assert (signals[1].at - BEGIN) // SECOND == 35


@both
def test_a_job_that_ignores_signals_is_killed_again_each_killing_timeout(dialect: str) -> None:
    point = preempted(dialect, {"MachineMaxVacateTime": "5"}, Behaviour(1000, immortal=True))
    at(point, 40)
    signals = [event for event in point.events() if isinstance(event, e.JobSignalled)]
    assert [(event.how, (event.at - BEGIN) // SECOND) for event in signals] == [
        ("soft", 10), ("hard", 15), ("hard", 25), ("hard", 35),
    ]  # fmt: skip


@both
@pytest.mark.parametrize(("requested", "seconds"), [("25", 25), ("undefined", 0), ('"long"', 0), ("-3", 0)])
def test_a_requested_vacate_time_that_is_not_a_positive_number_counts_as_none(
    dialect: str, requested: str, seconds: int
) -> None:
    point = preempted(dialect, {"MachineMaxVacateTime": "40"}, Behaviour(1000, grace=None), JobMaxVacateTime=requested)
    first = next(event for event in point.events() if isinstance(event, e.JobSignalled))
    assert (first.how, (first.until - first.at) // SECOND) == ("soft", seconds)


@both
@pytest.mark.parametrize(("before", "after"), [("30", "0"), ("0", "30")])
def test_the_vacate_time_is_that_of_the_jobs_start(dialect: str, before: str, after: str) -> None:
    point = Point(dialect)
    point.point(WANTED | {"MachineMaxVacateTime": before})
    at(point, 2)
    point.job("alice", 1, Behaviour(1000, grace=None))
    at(point, 4)
    point.reconfigure({"MachineMaxVacateTime": after})
    at(point, 7)
    point.say(Wanted="true")
    at(point, 12)
    first = next(event for event in point.events() if isinstance(event, e.JobSignalled))
    assert (first.until - first.at) // SECOND == int(before)


@both
def test_want_hold_has_no_variant_for_the_vanilla_universe(dialect: str) -> None:
    point = preempted(dialect, {"WANT_HOLD": "false", "WANT_HOLD_VANILLA": "true"})
    assert point.status("1.0") != "Held"


@both
@pytest.mark.parametrize(
    ("policy", "target", "evidence"),
    [
        ({"MaxJobRetirementTime": "3 * SlotID"}, "Vacating", ("MaxJobRetirementTime", "3")),
        ({"WANT_VACATE": "SlotID == 1"}, "Vacating", ("WANT_VACATE", "true")),
        ({"WANT_VACATE": "SlotID == 2", "MaxJobRetirementTime": "3 * SlotID"}, "Killing", ("WANT_VACATE", "false")),
    ],
)
def test_the_evidence_is_the_expression_that_decided_the_eviction(
    dialect: str, policy: dict[str, str], target: str, evidence: tuple[str, str]
) -> None:
    point = preempted(dialect, policy, Behaviour(1000, grace=None))
    transition = next(
        e_ for e_ in point.events() if isinstance(e_, e.SlotTransitioned) and e_.cause == "retirement_over"
    )
    assert transition.target == f"Preempting/{target}"
    noted = dict(point.log.read())[transition.evidence]
    assert isinstance(noted, e.EvaluationRecorded)
    assert (noted.name, noted.value) == evidence


@both
def test_a_job_that_continues_after_it_was_told_to_retire_retires_for_the_first_reason(dialect: str) -> None:
    point = Point(dialect)
    point.point(RETIRING)
    at(point, 2)
    point.job("alice")
    at(point, 7)
    point.vacate_slot("slot1@h")
    point.pause()
    at(point, 12)
    point.unpause()
    assert point.pair() == "Claimed/Retiring"
    assert all(cause != "better_match" for _, _, cause in point.moves())


# Drains


@pytest.mark.parametrize(("dialect", "signal_at"), [("manual", 20), ("htcondor-25", 92)])
def test_a_quick_drain_grants_no_retirement_except_in_htcondor_to_a_job_that_start_rejects(
    dialect: str, signal_at: int
) -> None:
    point = Point(dialect)
    point.point(RETIRING | {"Start": "Closed =!= true", "IS_OWNER": "false"})
    at(point, 2)
    point.job("alice", 1, Behaviour(1000, grace=None))
    at(point, 7)
    point.say(Closed="true")
    at(point, 20)
    point.drain("Quick")
    at(point, 200)
    first = next(event for event in point.events() if isinstance(event, e.JobSignalled))
    assert (first.at - BEGIN) // SECOND in range(signal_at, signal_at + 5)


DESKTOP = {"IS_OWNER": "Start =?= false"}
INTERRUPTIBLE = "TARGET.Interruptible =?= true"


def test_expressions_that_read_start_get_the_one_of_the_drain() -> None:
    """Without a job START is false, so the slot is in Owner state until it is drained (seen in a recorded run)."""
    point = Point("htcondor-25")
    point.point(DESKTOP | {"MaxJobRetirementTime": "0"})
    at(point, 2)
    point.job("alice")
    at(point, 7)
    point.drain(start=INTERRUPTIBLE)
    at(point, 8)
    assert point.rows()[-3:] == ["22", "36", "33"]
    point.undrain()
    assert point.rows()[-4:] == ["34", "1", "5", "11"]


@pytest.mark.parametrize(
    ("start", "signal_times"),
    [(INTERRUPTIBLE, [50, 90]), ('TARGET.Owner == "alice"', [60, 90]), ('TARGET.Owner == "bob"', [50, 90])],
)
def test_htcondors_startd_grants_full_retirement_to_jobs_that_the_drains_start_accepts(
    start: str, signal_times: list[int]
) -> None:
    """Their vacate time may then exceed their retirement time, if another job's is longer."""
    point = Point("htcondor-25")
    point.point({"MaxJobRetirementTime": "100", "MachineMaxVacateTime": "10"}, slots=2)
    at(point, 0)
    point.job("alice", 1, Behaviour(1000, grace=None), MaxJobRetirementTime="60")
    point.job("bob", 1, Behaviour(1000, grace=None))
    at(point, 20)
    point.drain(start=start)
    at(point, 200)
    soft = [event for event in point.events() if isinstance(event, e.JobSignalled) and event.how == "soft"]
    assert [(event.at - BEGIN) // SECOND for event in soft[:2]] == signal_times


@pytest.mark.parametrize(("dialect", "rows"), [("manual", ["1", "37"]), ("htcondor-25", ["1", "37", "5c", "11"])])
def test_htcondors_startd_gives_static_slots_to_jobs_that_its_drain_accepts(dialect: str, rows: list[str]) -> None:
    point = Point(dialect)
    point.point(RETIRING, slots=2)
    at(point, 2)
    point.job("alice")
    at(point, 7)
    point.drain(start=INTERRUPTIBLE)
    point.job("bob")
    point.job("carol", Interruptible="true")
    at(point, 9)
    assert point.rows("slot2@h") == rows
    assert point.status("2.0") == "Idle"


@both
@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"schedule": "Slowly"}, "'Slowly' is not a valid drain schedule"),
        ({"completion": "party"}, "'party' is not a valid completion action"),
        ({"check": "Cpus > 7"}, "Draining check expression is false on slot1@h: Cpus > 7"),
        ({"check": "Nobody"}, "Draining check expression is neither true nor false on slot1@h"),
        ({"check": "1 +"}, "the drain's check expression is invalid"),
        ({"start": "1 +"}, "the drain's start expression is invalid"),
    ],
)
def test_an_invalid_drain_is_rejected_with_a_message(dialect: str, options: dict[str, str], refusal: str) -> None:
    point = Point(dialect)
    point.point({})
    before = len(point.events())
    assert refusal in point.drain(**options).refusal
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
def test_the_cost_of_a_drain_is_counted(dialect: str, schedule: str, badput: int, unclaimed: int) -> None:
    """A job that started at 2 is drained from 20 on, and retires until 95 if it may; the other core is empty then."""
    point = Point(dialect)
    point.point(RETIRING, slots=2)
    at(point, 2)
    point.job("alice", 1)
    at(point, 20)
    point.drain(schedule)
    at(point, 200)
    machine = point.state.machines["h"]
    now = Context(now=point.world.clock // SECOND)
    ad = snapshot_ad(
        PolicyEvaluation(point.state, point.slot(), no_readings, point.world.clock, now, Caches()).snapshot(),
        whole=True,
    )
    assert ad.eval("TotalMachineDrainingBadput") == machine.badput == badput
    assert ad.eval("TotalMachineDrainingUnclaimedTime") == unclaimed
    assert all(slot.state_activity == "Drained/Idle" for slot in machine.slots.values())
    assert machine.drain is not None
    assert machine.drain.state == "Complete"


# Configurations


@both
def test_a_reconfiguration_is_an_event_and_changes_the_settings(dialect: str) -> None:
    point = Point(dialect)
    point.point({})
    before = len(point.events())
    point.reconfigure({"IS_OWNER": "true"}, POLLING_INTERVAL="7")
    kinds = [type(event).__name__ for event in point.events()[before:]]
    assert kinds == ["MachineConfigured", "SlotAdChanged", "SlotTransitioned"]
    assert point.state.machines["h"].settings["POLLING_INTERVAL"] == "7"
    assert point.pair() == "Owner/Idle"


@both
@pytest.mark.parametrize("change", [{"SlotTypeID": "3"}, {"TotalSlotCpus": "2"}])
def test_a_change_of_slot_types_is_rejected(dialect: str, change: dict[str, str]) -> None:
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
@pytest.mark.parametrize(("how", "seconds_left"), [("Peaceful", 202), ("Graceful", 95), ("Fast", 7)])
def test_a_machine_leaves_with_its_last_claim(dialect: str, how: str, seconds_left: int) -> None:
    point = Point(dialect)
    point.point(RETIRING, slots=2)
    at(point, 2)
    point.job("alice", 1, Behaviour(200))
    at(point, 7)
    point.off(how)
    at(point, 300)
    leave_times = [event.at for event in point.events() if isinstance(event, e.MachineLeft)]
    assert [(instant - BEGIN) // SECOND for instant in leave_times] == [seconds_left]
    assert not point.state.slots


@both
def test_a_machine_that_is_shutting_down_accepts_nothing_new(dialect: str) -> None:
    point = Point(dialect)
    point.point(RETIRING)
    at(point, 2)
    point.claim("slot1@h", Behaviour(50))
    at(point, 7)
    point.claim("slot1@h", Behaviour(50))
    at(point, 8)
    point.off("Peaceful")
    assert "accepts no claims" in point.claim("slot1@h").refusal
    at(point, 100)
    assert "h" not in point.state.machines


@pytest.mark.parametrize(
    ("dialect", "rows"), [("manual", ["18", "21", "25", "1"]), ("htcondor-25", ["13", "18", "23"])]
)
def test_in_htcondors_startd_a_waiting_better_match_takes_over_during_a_shutdown(dialect: str, rows: list[str]) -> None:
    """It ends with the machine, since no job runs any more (seen in a recorded run)."""
    point = Point(dialect)
    point.point(RETIRING)
    at(point, 2)
    point.job("alice", 1, Behaviour(1000, grace=None))
    at(point, 7)
    point.claim("slot1@h")
    at(point, 12)
    point.off("Graceful")
    at(point, 120)
    assert point.rows()[-len(rows) :] == rows
    assert "h" not in point.state.machines


def test_no_job_starts_on_a_claim_that_took_over_during_a_shutdown() -> None:
    point = Point("htcondor-25")
    point.point(RETIRING, slots=2)
    at(point, 2)
    point.job("alice", 2, Behaviour(1000, grace=None))
    at(point, 7)
    point.claim("slot1@h")
    at(point, 12)
    point.off("Peaceful")
    point.vacate_slot("slot1@h", fast=True)
    at(point, 20)
    assert point.pair() == "Claimed/Idle"
    assert "it starts no more jobs" in point.activate().refusal
    at(point, 60)
    assert point.pair("slot2@h") == "Claimed/Retiring"


def test_a_claim_that_is_taken_back_immediately_is_repeated_only_in_the_next_second() -> None:
    """HTCondor's startd carves the slot in Owner state: it would be claimed again in the same second, endlessly."""
    story = Story("an owner who stays", {"IS_OWNER": "true"}, ("1 job seconds=50",), "", "", 71, 2, "partitionable")
    claim_times = [event.at for event in run_story(story, "htcondor-25").events() if isinstance(event, e.ClaimMade)]
    assert len(claim_times) == 15
    assert all(after - before >= SETTLES for before, after in pairwise(claim_times))
