"""Golden: an execution point runs the jobs of an external access point, and reports to it. The slots move as if the
processes ran at the access point."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from poolbook.adapters.runtime.engine import Engine
from poolbook.domain import events as e
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.run_reports import decode_report
from poolbook.domain.ports.world import Launch
from poolbook.replay.validation import validate
from poolbook.replay.virtual_world import Behaviour

from ..together import together
from .cases import STORIES
from .points import BEGIN, at
from .remote_holder import RunningPoint
from .stories import Story, moves, play

SLOT = "slot1@h"
LET_RUN = {"MaxJobRetirementTime": "0", "MachineMaxVacateTime": "20"}


def point_with_job(behaviour: Behaviour | None = None, policy: dict[str, str] | None = None, **ad: str) -> RunningPoint:
    """Return an execution point whose only slot has run an external job since second 2, with the key run-3."""
    point = RunningPoint()
    point.point({**LET_RUN, **(policy or {})})
    at(point, 2)
    point.claim(lease=60)
    point.activate(SLOT, behaviour, **ad)
    at(point, 12)
    return point


def reported_end(point: RunningPoint) -> tuple[int | None, int | None, float]:
    """Return the exit code, signal and time of the only end that was reported, and check the log."""
    assert list(validate(point.log.read())) == []
    assert point.state.remote_runs == {}
    (ended,) = [report for report in point.reports() if isinstance(report, s.ActivationEnded)]
    return ended.code, ended.signal, (ended.at - BEGIN) / 1_000_000


def signals(point: RunningPoint) -> list[tuple[str, str, str]]:
    return [(each.how, each.signal, each.cause) for each in point.events() if isinstance(each, e.StarterSignalled)]


def test_a_job_of_an_external_access_point_runs_and_the_slots_moves_precede_the_report_of_its_end() -> None:
    point = point_with_job(Behaviour(30, code=3))
    assert point.engine.busy()
    (key,) = point.state.remote_runs
    assert key in point.world.started_keys
    at(point, 100)
    started, ended = point.reports()
    assert isinstance(started, s.ActivationStarted) and isinstance(ended, s.ActivationEnded)
    assert (started.key, started.at, ended.key) == ("run-3", BEGIN + 2_000_000, "run-3")
    assert reported_end(point) == (3, None, 32)
    last_events = [event for event in point.events() if event.at == ended.at]
    assert isinstance(last_events[0], e.SlotTransitioned) and isinstance(last_events[-1], e.RunReported)
    deactivated = next(event for event in last_events if isinstance(event, e.ClaimDeactivated))
    assert deactivated.starter == key
    assert not point.engine.busy()
    assert point.pair() == "Claimed/Idle"


def test_the_launch_has_the_jobs_id_owner_and_expanded_ad() -> None:
    point = RunningPoint()
    launches: list[Launch] = []

    def behave(launch: Launch) -> Behaviour:
        launches.append(launch)
        return Behaviour(5)

    point.world.behave = behave
    point.point({})
    at(point, 2)
    point.claim()
    ad = {"Owner": '"carol"', "Cmd": '"$$(Arch)"', "MATCH_EXP_Cmd": '"X86_64"'}
    point.handle(s.ActivateClaim(point.id(), SLOT, "12.3", ad, key="run-1"))
    (launch,) = launches
    assert (launch.cluster, launch.proc, launch.slot, launch.owner) == (12, 3, SLOT, "carol")
    assert (launch.job_ad["Cmd"], launch.slot_ad["Arch"]) == ('"X86_64"', '"X86_64"')


def test_a_suspended_job_runs_on_when_the_slot_continues() -> None:
    point = point_with_job(Behaviour(30))
    point.pause()
    at(point, 52)
    assert point.pair() == "Claimed/Suspended"
    point.unpause()
    at(point, 100)
    assert reported_end(point) == (0, None, 72)


STUBBORN, SLOW = Behaviour(1000, grace=None), Behaviour(1000, grace=4)
OVER, KILLED = ("soft", "", "retirement_over"), ("hard", "", "kill_timeout")
ENDS: list[tuple[str, Behaviour, float, list[tuple[str, str, str]]]] = [
    # what happens in second 12, the job, when it has ended, the signals
    ("vacate", SLOW, 16, [OVER]),
    ("vacate", STUBBORN, 32, [OVER, KILLED]),
    ("vacate fast", STUBBORN, 12, [("hard", "", "vacate_command")]),
    ("drain", SLOW, 16, [OVER]),
    ("off", SLOW, 16, [OVER]),
    ("release", STUBBORN, 12, [("hard", "", "released")]),
    ("silence", STUBBORN, 72, [("hard", "", "lease_over")]),
    ("remove", SLOW, 16, [("soft", "remove", "deactivated")]),
    ("remove", STUBBORN, 32, [("soft", "remove", "deactivated"), KILLED]),
]


@together(("act", "behaviour", "ended_at", "expected_signals"), ENDS)
def test_whatever_ends_a_job_its_processes_are_signalled_and_their_end_is_reported_once(
    act: str, behaviour: Behaviour, ended_at: float, expected_signals: list[tuple[str, str, str]]
) -> None:
    point = point_with_job(behaviour)
    acts: dict[str, Callable[[], object]] = {
        "vacate": lambda: point.vacate_slot(SLOT),
        "vacate fast": lambda: point.vacate_slot(SLOT, fast=True),
        "drain": lambda: point.drain("Quick"),
        "off": lambda: point.off("Graceful"),
        "release": lambda: point.tell(s.ReleaseClaim),
        "silence": point.silence,
        "remove": lambda: point.tell(s.DeactivateClaim, signal="remove"),
    }
    acts[act]()
    at(point, 200)
    _, signal, instant = reported_end(point)
    assert (signal, instant) == (9 if expected_signals[-1][0] == "hard" else 15, ended_at)
    assert signals(point) == expected_signals


def test_a_suspended_job_that_its_access_point_removes_is_continued_first() -> None:
    point = point_with_job(SLOW)
    point.pause()
    at(point, 20)
    point.tell(s.DeactivateClaim, resumes=True, signal="remove")
    at(point, 60)
    assert reported_end(point) == (None, 15, 24)
    assert [target for _, target, _ in point.moves()][-4:] == [
        "Claimed/Suspended",
        "Claimed/Busy",
        "Claimed/Cleaning",
        "Claimed/Idle",
    ]


def test_the_signal_of_an_eviction_has_the_reason_for_which_the_access_point_must_hold_the_job() -> None:
    policy = {
        "PREEMPT": "TotalJobRunTime > 5",
        "WANT_HOLD": "true",
        "WANT_HOLD_REASON": '"no guests"',
        "WANT_HOLD_SUBCODE": "7",
    }
    point = point_with_job(SLOW, policy | {"WANT_VACATE": "true"})
    at(point, 60)
    assert reported_end(point)[1] == 15
    (signalled,) = [event for event in point.events() if isinstance(event, e.StarterSignalled)]
    assert (signalled.cause, signalled.code, signalled.subcode) == ("held_by_machine", 21, 7)
    assert signalled.reason == "Error from slot1@h: no guests"


def test_the_machines_policy_reads_the_measured_size_of_an_external_job() -> None:
    point = point_with_job(policy={"PREEMPT": "MemoryUsage > 50"})
    (key,) = point.state.remote_runs
    for second, resident in ((13, 40_000), (25, 60_000)):
        at(point, second)
        assert point.pair() == "Claimed/Busy"
        point.handle(s.ActivationMeasured(point.id(), key, 90_000, resident, 10, 1, 0))
    at(point, 60)
    assert reported_end(point)[1] == 15
    assert next(event.at for event in point.events() if isinstance(event, e.StarterSignalled)) > (BEGIN + 25_000_000)


def test_only_a_notable_measurement_is_reported() -> None:
    point = point_with_job()
    (key,) = point.state.remote_runs
    for second, image in ((13, 50_000), (14, 50_100), (15, 90_000), (400, 90_000)):
        at(point, second)
        point.handle(s.ActivationMeasured(point.id(), key, image, 1000, 10, second, 0))
    reports = [report for report in point.reports() if isinstance(report, s.ActivationMeasured)]
    assert [(report.key, report.image, report.user_cpu) for report in reports] == [
        ("run-3", 50_000, 13),
        ("run-3", 90_000, 15),
        ("run-3", 90_000, 400),
    ]


def test_the_starters_intervals_decide_when_a_measurement_is_reported_at_the_latest_and_first() -> None:
    point = point_with_job()
    (key,) = point.state.remote_runs
    for second in (13, 21, 22, 60, 81, 82, 83):  # the run began at second 2
        at(point, second)
        point.handle(s.ActivationMeasured(point.id(), key, 50_000, 1000, 10, second, 0, every=60, first=20))
    reports = [report for report in point.reports() if isinstance(report, s.ActivationMeasured)]
    assert [report.user_cpu for report in reports] == [22, 82]


def test_a_restarted_point_reports_nothing_twice() -> None:
    point = point_with_job(SLOW)
    point.pause()
    reports = [stimulus for stimulus in point.reports() if isinstance(stimulus, s.ActivationStarted)]
    (key,) = point.state.remote_runs
    point.engine = Engine(point.log, point.world)
    assert point.state.remote_runs == {key: SLOT}
    point.engine.recover()
    point.handle(s.ActivationStarted(f"start-{key}", key, reports[0].pid, reports[0].scratch, reports[0].at))
    point.unpause()
    point.vacate_slot(SLOT)
    at(point, 60)
    point.handle(s.ActivationEnded(f"end-{key}", key, point.world.clock, code=0))
    assert reported_end(point) == (None, 15, 16)
    assert len(point.reports()) == 2


DEADLINES: list[tuple[str, float, float, tuple[int | None, int | None, float]]] = [
    # what happens in second 12, the first deadline, the deadline set in second 12, the end
    ("", 40, 40, (None, 9, 40)),
    ("", 40, 0, (0, None, 102)),
    ("", 0, 150, (0, None, 102)),
    ("pause", 40, 60, (None, 9, 60)),
]


@together(("act", "first", "renewed", "expected_end"), DEADLINES)
def test_processes_end_at_their_deadline_even_if_the_pool_decides_nothing(
    act: str, first: float, renewed: float, expected_end: tuple[int | None, int | None, float]
) -> None:
    deadlines = [round(BEGIN + second * 1_000_000) if second else 0 for second in (first, renewed)]
    point = RunningPoint()
    point.engine.deadline_of = lambda slot: deadlines[0]
    point.point(LET_RUN)
    at(point, 2)
    point.claim()
    point.activate(SLOT, Behaviour(100))
    at(point, 12)
    if act:
        point.pause()
    point.engine.deadline_of = lambda slot: deadlines[1]
    point.engine.renew_deadlines()
    at(point, 200)
    assert reported_end(point) == expected_end
    (ended,) = [report for report in point.reports() if isinstance(report, s.ActivationEnded)]
    assert ended.expired is (expected_end[1] == 9)


def test_processes_do_not_start_after_their_deadline() -> None:
    point = RunningPoint()
    point.engine.deadline_of = lambda slot: BEGIN
    point.point(LET_RUN)
    at(point, 2)
    point.claim()
    point.activate(SLOT)
    at(point, 12)
    (ended,) = point.reports()
    assert isinstance(ended, s.ActivationEnded)
    assert (ended.failed, ended.hold_code) == (True, 1003)


@together(
    ("report", "fields", "expected"),
    [
        ("ActivationStarted", '{"id":"x","pid":1,"scratch":"","at":5}', "run-1"),
        ("ActivationStarted", '{"id":"x","key":"run-2","pid":1,"scratch":"","at":5}', "run-1"),
        ("ActivationStarted", '{"id":"x"}', None),
        ("ActivationStarted", "[]", None),
        ("ActivationStarted", "{", None),
        ("RemoveMachine", '{"id":"x","machine":"h"}', None),
    ],
)
def test_a_report_is_about_the_run_that_its_event_names_or_is_rejected(
    report: str, fields: str, expected: str | None
) -> None:
    event = e.RunReported(1, "activated", "x", SLOT, "c", "1.0", "run-1", report, fields)
    if expected is None:
        with pytest.raises(msgspec.DecodeError):
            decode_report(event)
    else:
        assert decode_report(event).key == expected


def test_only_the_processes_report_their_end() -> None:
    point = point_with_job()
    for kind in (s.StarterReported, s.StarterGone):
        answer = point.tell(kind)
        assert answer.refusal == f"{SLOT} runs job 2.0: only its own processes report its end"
    refused = RunningPoint()
    refused.point({})
    at(refused, 2)
    refused.claim()
    answer = refused.handle(s.ActivateClaim("x", SLOT, "ap#1", {}, key="run-1"))
    assert answer.refusal == "'ap#1' is not a job id: use CLUSTER.PROC, for example 12.3"


def _runs_external_jobs(story: Story) -> bool:
    """Return True if a story has jobs of an external holder, who does not report their ends itself."""
    verbs = [line.split()[1] for line in story.lines]
    return not {"claim", "activate"}.isdisjoint(verbs) and {"report", "gone"}.isdisjoint(verbs)


@together(("dialect", "story"), [(d, each) for d in ("manual", "htcondor-25") for each in STORIES])
def test_slots_move_in_every_story_as_if_the_processes_ran_at_the_access_point(dialect: str, story: Story) -> None:
    if _runs_external_jobs(story) and story.expected(dialect):
        point = RunningPoint(dialect)
        play(story, point)
        assert moves(point, story.slot) == story.expected(dialect)
        assert list(validate(point.log.read())) == []
