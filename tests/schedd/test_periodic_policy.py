"""Golden: periodic policies act as in HTCondor's UserPolicy (user_job_policy.cpp, schedd.cpp) and for recorded
jobs of version 25.14 (tests/data/beside), in virtual time."""

from __future__ import annotations

import pytest

from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.state.job_ad import unquoted
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.job import why_job

from ..domain.pools import TestPool
from ..together import together

MINUTE = 60


def pool_of(ad: dict[str, str], settings: dict[str, str] | None = None, dialect: str = "manual") -> TestPool:
    """Return a pool in which a job of ten minutes runs, or waits if its Requirements are false."""
    pool = TestPool(behave=lambda launch: Behaviour(600), settings=settings, dialect=dialect)
    pool.machine(static=1, cpus=1)
    pool.submit(1, **ad)
    return pool


def moves(pool: TestPool) -> list[str]:
    """Return the policies' actions on job 1.0: after how many seconds, what, and why."""
    start = pool.events()[0].at
    actions = []
    for event in pool.events():
        if isinstance(event, e.JobsTransitioned) and "_" in event.cause and event.row not in ("leave", "submit"):
            reason = event.changes.get("HoldReason") or event.changes.get("ReleaseReason")
            reason = unquoted(reason or event.changes.get("RemoveReason", ""))
            codes = [event.changes[name] for name in ("HoldReasonCode", "HoldReasonSubCode") if event.changes.get(name)]
            actions.append(
                f"{(event.at - start) // SECOND} {event.cause}: {reason}{f' ({chr(47).join(codes)})' * bool(codes)}"
            )
        elif isinstance(event, e.JobSignalled) and event.cause.endswith("vacate"):
            reason = unquoted(event.vacated["VacateReason"])
            codes = [event.vacated["VacateReasonCode"], event.vacated["VacateReasonSubCode"]]
            actions.append(f"{(event.at - start) // SECOND} {event.cause}: {reason} ({'/'.join(codes)})")
    return actions


def own(name: str, text: str) -> str:
    return f"The job attribute {name} expression '{text}' evaluated to TRUE"


def system(name: str, text: str) -> str:
    return f"The system macro {name} expression '{text}' evaluated to TRUE"


WAITS = {"Requirements": "false"}


@together(
    ("ad", "settings", "expected"),
    [
        # true of a waiting job, in the first periodic evaluation of the access point
        ({**WAITS, "PeriodicHold": "JobStatus == 1"}, {},
         [f"60 periodic_hold: {own('PeriodicHold', 'JobStatus == 1')} (3/0)"]),
        ({**WAITS, "PeriodicHold": "true", "PeriodicHoldReason": 'strcat("for ", RequestCpus)',
          "PeriodicHoldSubCode": "3 * 4"}, {}, ["60 periodic_hold: for 1 (3/12)"]),
        ({**WAITS, "PeriodicHold": "true", "PeriodicHoldReason": "17", "PeriodicHoldSubCode": '"x"'}, {},
         [f"60 periodic_hold: {own('PeriodicHold', 'true')} (3/0)"]),
        ({**WAITS, "periodicHOLD": "1"}, {}, [f"60 periodic_hold: {own('PeriodicHold', '1')} (3/0)"]),
        ({**WAITS, "PeriodicRemove": "time() - EnteredCurrentStatus > 100"}, {},
         [f"120 periodic_remove: {own('PeriodicRemove', 'time() - EnteredCurrentStatus > 100')}"]),
        ({**WAITS, "PeriodicRemove": "time() - QDate >= 100", "QDate": "1800000000"}, {},
         [f"120 periodic_remove: {own('PeriodicRemove', 'time() - QDate >= 100')}"]),
        # the time of its change cannot be predicted: it is evaluated each time
        ({**WAITS, "PeriodicRemove": "random(1) == 0 && time() - QDate >= 100", "QDate": "1800000000"}, {},
         [f"120 periodic_remove: {own('PeriodicRemove', 'random(1) == 0 && time() - QDate >= 100')}"]),
        ({**WAITS, "PeriodicRemove": "true", "PeriodicRemoveReason": '"enough"'}, {}, ["60 periodic_remove: enough"]),
        # a value that is neither true nor a number does nothing
        ({**WAITS, "PeriodicHold": "Missing", "PeriodicRemove": '"true"', "PeriodicVacate": "1/0"}, {}, []),
        ({**WAITS, "PeriodicHold": "undefined", "PeriodicRemove": "error"}, {}, []),
        ({**WAITS, "PeriodicHold": "0.0", "PeriodicRemove": "false"}, {}, []),
        ({**WAITS, "PeriodicHold": "0.5"}, {}, [f"60 periodic_hold: {own('PeriodicHold', '0.5')} (3/0)"]),
        # a running job is evaluated from the start of its process on; conditions about Idle do not apply to it
        ({"PeriodicHold": "JobStatus == 1"}, {}, []),
        ({"PeriodicHold": "JobStatus == 2"}, {}, [f"60 periodic_hold: {own('PeriodicHold', 'JobStatus == 2')} (3/0)"]),
        ({"PeriodicHold": "time() - JobStartDate > 60"}, {},
         [f"120 periodic_hold: {own('PeriodicHold', 'time() - JobStartDate > 60')} (3/0)"]),
        ({"PeriodicRemove": "RemoteWallClockTime > 200"}, {},
         [f"240 periodic_remove: {own('PeriodicRemove', 'RemoteWallClockTime > 200')}"]),
        ({"PeriodicVacate": "NumShadowStarts < 2", "PeriodicVacateReason": '"again"', "PeriodicVacateSubCode": "9"}, {},
         ["60 periodic_vacate: again (1000/9)"]),
        ({**WAITS, "PeriodicVacate": "true"}, {}, []),
        # the order
        ({"PeriodicVacate": "NumShadowStarts < 2", "PeriodicHold": "JobStatus == 2"}, {},
         [f"60 periodic_vacate: {own('PeriodicVacate', 'NumShadowStarts < 2')} (1000/0)",
          f"120 periodic_hold: {own('PeriodicHold', 'JobStatus == 2')} (3/0)"]),
        ({**WAITS, "PeriodicHold": "true", "PeriodicRemove": "true"}, {},
         [f"60 periodic_hold: {own('PeriodicHold', 'true')} (3/0)",
          f"120 periodic_remove: {own('PeriodicRemove', 'true')}"]),
        ({**WAITS, "PeriodicHold": "NumHolds =?= undefined", "PeriodicRelease": "true",
          "PeriodicRemove": "JobStatus == 5"}, {},
         [f"60 periodic_hold: {own('PeriodicHold', 'NumHolds =?= undefined')} (3/0)",
          f"120 periodic_release: {own('PeriodicRelease', 'true')}"]),
        ({**WAITS, "PeriodicHold": "true"}, {"SYSTEM_PERIODIC_HOLD": "true"},
         [f"60 periodic_hold: {own('PeriodicHold', 'true')} (3/0)"]),
        ({**WAITS}, {"SYSTEM_PERIODIC_HOLD_NAMES": "One, Two", "SYSTEM_PERIODIC_HOLD_One": "JobStatus == 2",
                     "SYSTEM_PERIODIC_HOLD_Two": "JobStatus==1", "SYSTEM_PERIODIC_HOLD": "true"},
         [f"60 system_periodic_hold: {system('SYSTEM_PERIODIC_HOLD', 'JobStatus==1')} (26/0)"]),
        # the access point's
        ({**WAITS}, {"SYSTEM_PERIODIC_HOLD": "true", "SYSTEM_PERIODIC_HOLD_REASON": 'strcat("by ", "us")',
                     "SYSTEM_PERIODIC_HOLD_SUBCODE": "40 + 2"}, ["60 system_periodic_hold: by us (26/42)"]),
        ({"PeriodicHold": "JobStatus == 2"}, {"SYSTEM_PERIODIC_RELEASE": "HoldReasonCode == 3",
                                              "SYSTEM_MAX_RELEASES": "1"},
         [f"60 periodic_hold: {own('PeriodicHold', 'JobStatus == 2')} (3/0)"]),
        ({**WAITS}, {"SYSTEM_PERIODIC_REMOVE": "JobStatus == 1", "PERIODIC_EXPR_INTERVAL": "300"},
         [f"300 system_periodic_remove: {system('SYSTEM_PERIODIC_REMOVE', 'JobStatus == 1')}"]),
        ({**WAITS, "PeriodicHold": "true"}, {"PERIODIC_EXPR_INTERVAL": "0"}, []),
        ({}, {"SYSTEM_PERIODIC_VACATE": "NumShadowStarts < 2"},
         [f"60 system_periodic_vacate: {system('SYSTEM_PERIODIC_VACATE', 'NumShadowStarts < 2')} (1001/0)"]),
        # how long it may take: evaluated first
        ({"AllowedJobDuration": "100", "PeriodicVacate": "time() - JobStartDate > 100"}, {},
         ["120 job_duration: The job exceeded allowed job duration of 01:40 (46/0)"]),
        ({"AllowedExecuteDuration": "2 * 60"}, {},
         ["180 execute_duration: The job exceeded allowed execute duration of 02:00 (47/0)"]),
        # from its last checkpoint on
        ({"AllowedExecuteDuration": "60", "TransferOutFinished": "1800000100"}, {},
         ["180 execute_duration: The job exceeded allowed execute duration of 01:00 (47/0)"]),
        ({"AllowedJobDuration": "Missing", "AllowedExecuteDuration": '"1"'}, {}, []),
        ({**WAITS, "AllowedJobDuration": "1"}, {}, []),
        # the time from which on a job is removed
        ({**WAITS, "TimerRemove": "1800000100"}, {}, [f"120 timer_remove: {own('TimerRemove', '1800000100')}"]),
        ({**WAITS, "TimerRemove": "-1"}, {}, []),
        ({**WAITS, "TimerRemove": "Missing"}, {}, []),
        ({"TimerRemove": "Missing"}, {},
         ["60 timer_undefined: The job attribute TimerRemove expression 'Missing' evaluated to UNDEFINED (5/0)"]),
    ],
)  # fmt: skip
def test_the_first_policy_that_is_true_decides(
    ad: dict[str, str], settings: dict[str, str], expected: list[str]
) -> None:
    pool = pool_of(ad, settings)
    pool.advance(5 * MINUTE)
    assert moves(pool) == expected
    assert examine(pool.log.read()).violations == []


def test_htcondors_schedd_reads_system_periodic_vacate_and_never_evaluates_it() -> None:
    pool = pool_of({}, {"SYSTEM_PERIODIC_VACATE": "true"}, dialect="htcondor-25")
    pool.advance(5 * MINUTE)
    assert moves(pool) == []


def test_a_job_that_a_user_holds_is_released_by_no_policy() -> None:
    pool = pool_of({**WAITS, "PeriodicRelease": "true"}, {"SYSTEM_PERIODIC_RELEASE": "true"})
    pool.act("hold", "1.0")
    pool.advance(5 * MINUTE)
    assert pool.status("1.0") == "Held"


def test_after_the_maximum_number_of_holds_only_a_super_user_releases_a_job() -> None:
    """Scheduler::actOnJobs: a job that was held more than SYSTEM_MAX_RELEASES times."""
    pool = pool_of(WAITS, {"SYSTEM_MAX_RELEASES": "1"})
    for _ in range(2):
        pool.act("hold", "1.0")
        answer = pool.act("release", "1.0")
    assert [outcome["result"] for outcome in answer.value] == ["release limit"]
    assert pool.act("release", "1.0", user="root").value[0]["result"] == "done"


def test_a_running_job_that_is_held_is_signalled_and_its_claim_is_reused() -> None:
    """HTCondor's shadow holds the job and deactivates its claim (tests/data/beside/periodic-hold.sub)."""
    pool = pool_of({"PeriodicHold": "JobStatus == 2"})
    pool.submit(1)
    pool.advance(2 * MINUTE)
    ad = pool.state.clusters[1].attributes(0)
    assert (ad["VacateReason"], ad["VacateReasonCode"], ad["NumHolds"]) == ('"Claim deactivated"', "1009", "3")
    assert "NumSystemHolds" not in ad
    assert pool.status("2.0") == "Running"


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
def test_a_suspended_job_that_is_vacated_continues_before_it_is_signalled(dialect: str) -> None:
    pool = pool_of({"PeriodicVacate": "JobStatus == 7 && time() - EnteredCurrentStatus > 60"}, dialect=dialect)
    pool.advance(1)
    pool.act("suspend", "1")
    pool.advance(3 * MINUTE)
    vacated = [event for event in pool.events() if event.cause == "periodic_vacate"]
    assert [type(event) for event in vacated] == [e.JobsTransitioned, e.SlotTransitioned, e.JobSignalled]
    assert [str(violation) for violation in examine(pool.log.read()).violations] == []


@together(
    ("ad", "row", "why"),
    [
        ({"PeriodicHold": "ExitCode == 4", "OnExitHold": "true"}, "hold", own("PeriodicHold", "ExitCode == 4")),
        ({"PeriodicRemove": "ExitCode > 3", "OnExitRemove": "false"}, "remove", own("PeriodicRemove", "ExitCode > 3")),
        ({"PeriodicVacate": "ExitCode == 4"}, "complete", ""),
        ({"PeriodicRelease": "true"}, "complete", ""),
        ({"PeriodicRemove": "RemoteWallClockTime == 30"}, "remove", own("PeriodicRemove", "RemoteWallClockTime == 30")),
        ({"PeriodicHold": "ExitCode == 5", "OnExitHold": "true"}, "hold",
         "The job attribute OnExitHold expression 'true' evaluated to TRUE"),
    ],
)  # fmt: skip
def test_at_a_jobs_end_its_periodic_policy_is_evaluated_before_that_of_its_end(
    ad: dict[str, str], row: str, why: str
) -> None:
    pool = TestPool(behave=lambda launch: Behaviour(30, code=4))
    pool.machine(static=1, cpus=1)
    pool.submit(1, **ad)
    pool.advance(40)
    (end,) = [event for event in pool.events() if isinstance(event, e.JobExited)]
    reason = end.changes.get("HoldReason") or end.changes.get("RemoveReason", "")
    assert (end.row, unquoted(reason)) == (row, why)
    assert examine(pool.log.read()).violations == []


@together(
    ("wants", "settings", "how"),
    [
        ("", {}, "soft"),
        ("true", {"GRACEFULLY_REMOVE_JOBS": "false"}, "soft"),
        ("false", {}, "hard"),
        ("JobStatus == 1", {}, "hard"),
        ("Missing", {"GRACEFULLY_REMOVE_JOBS": "false"}, "hard"),
        ("Missing", {}, "soft"),
    ],
)
def test_a_job_that_wants_no_grace_is_killed_immediately(wants: str, settings: dict[str, str], how: str) -> None:
    pool = pool_of({"WantGracefulRemoval": wants} if wants else {}, settings)
    pool.act("remove", "1.0")
    assert [event.how for event in pool.events() if isinstance(event, e.JobSignalled)] == [how]


def test_nothing_wakes_a_pool_whose_policies_cannot_change() -> None:
    """A held job may be removed after a day: until then no periodic evaluation happens, not even in virtual time."""
    ad = {"QDate": "1800000000", "PeriodicHold": "JobStatus == 1", "PeriodicRemove": "time() - QDate > 86400"}
    pool = pool_of({**WAITS, **ad})
    pool.advance(3 * MINUTE)
    woken = pool.engine.next_wake()
    assert woken is not None
    assert woken >= pool.world.clock + 86000 * SECOND
    before = len(pool.events())
    pool.advance(80000)
    assert len(pool.events()) == before


def test_an_edit_is_evaluated_at_the_next_interval() -> None:
    pool = pool_of({**WAITS, "PeriodicHold": "Wanted"})
    pool.advance(5 * MINUTE)
    assert pool.status("1.0") == "Idle"
    pool.edit("1.0", Wanted="true")
    pool.advance(MINUTE)
    assert pool.status("1.0") == "Held"


def test_a_policy_set_by_an_edit_counts() -> None:
    pool = pool_of(WAITS)
    pool.advance(5 * MINUTE)
    pool.edit("1.0", PeriodicRemove="JobStatus == 1")
    pool.advance(MINUTE)
    assert pool.status("1.0") == "ended"


def test_a_job_with_new_measurements_is_evaluated_immediately() -> None:
    pool = pool_of({"PeriodicHold": "ResidentSetSize > 5000"})
    pool.advance(70)
    (key,) = pool.state.activations
    pool.handle(s.ActivationMeasured("m", key, 9000, 8000, 0, 0, 0))
    pool.advance(1)
    assert moves(pool) == [f"70 periodic_hold: {own('PeriodicHold', 'ResidentSetSize > 5000')} (3/0)"]


def test_many_jobs_are_held_by_one_event_with_one_evidence() -> None:
    pool = TestPool()
    pool.submit(2000, Requirements="false", QDate="1800000000", PeriodicHold="time() - QDate > 30 && JobPrio == 0")
    pool.advance(MINUTE)
    transitions = [event for event in pool.events() if isinstance(event, e.JobsTransitioned)]
    assert [event.procs for event in transitions] == [((0, 1999),)]
    notes = [event for event in pool.events() if isinstance(event, e.EvaluationRecorded)]
    assert [note.read for note in notes] == [{"MY.JobPrio": "0", "MY.QDate": "1800000000"}]


def test_jobs_with_different_evidence_have_separate_events() -> None:
    pool = TestPool()
    pool.submit(3, Requirements="false", PeriodicHold="ProcId != 1", PeriodicHoldReason='strcat("job ", ProcId)')
    pool.advance(MINUTE)
    transitions = [event for event in pool.events() if isinstance(event, e.JobsTransitioned)]
    assert [(event.procs, event.changes["HoldReason"]) for event in transitions] == [
        (((0, 0),), '"job 0"'), (((2, 2),), '"job 2"'),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ad", "settings", "message"),
    [
        ({"PeriodicHold": "RequestMemory > 100"}, {},
         "Job 1.0 was put on hold: PeriodicHold became true (RequestMemory = 128, limit 100)"),
        ({"PeriodicHold": "true"}, {}, "Job 1.0 was put on hold: its periodic_hold became true: The job attribute"),
        ({"PeriodicVacate": "NumShadowStarts < 2"}, {},
         "The processes of job 1.0 were asked to exit: its periodic_vacate became true; PeriodicVacate = NumShadow"),
        ({}, {"SYSTEM_PERIODIC_REMOVE_NAMES": "Big", "SYSTEM_PERIODIC_REMOVE_Big": "RequestMemory > 100"},
         "Job 1.0 was removed: SYSTEM_PERIODIC_REMOVE_Big became true (RequestMemory = 128, limit 100)"),
    ],
)  # fmt: skip
def test_why_reports_which_policy_decided_and_what_it_read(
    ad: dict[str, str], settings: dict[str, str], message: str
) -> None:
    pool = pool_of(ad, settings)
    pool.advance(61)
    sentences = [sentence.full for sentence in why_job(list(pool.log.read()), 1, 0).life]
    assert any(text.startswith(message) for text in sentences), sentences


def test_a_users_hold_replaces_a_policys_hold_and_no_policy_releases_it() -> None:
    """As in holdJobRaw, and for job 11.2 of trace 21."""
    pool = pool_of({"PeriodicHold": "NumHolds =?= undefined", "PeriodicRelease": "time() - EnteredCurrentStatus > 100"})
    pool.advance(61)
    ad = pool.state.clusters[1].attributes(0)
    assert (ad["HoldReasonCode"], ad["NumHolds"]) == ("3", "3")
    pool.act("hold", "1.0")
    pool.act("hold", "1.0")
    pool.advance(500)
    ad = pool.state.clusters[1].attributes(0)
    assert ad["HoldReason"] == '"via condor_hold (by user alice)"'
    assert (ad["HoldReasonCode"], ad["NumHolds"]) == ("1", "4")
    assert ad["NumHoldsByReason"] == "[ JobPolicy = 3; UserRequest = 1 ]"
    assert [event.row for event in pool.events() if isinstance(event, e.JobsTransitioned)] == ["hold", "hold_again"]
    assert examine(pool.log.read()).violations == []
