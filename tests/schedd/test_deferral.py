"""Golden: jobs that start at a chosen time, as in the manual's "Time Scheduling for Job Execution" and in recorded
HTCondor jobs (``tests/data/recordings/schedules``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from poolbook import Behaviour, Pool
from poolbook.adapters.runtime.engine import Engine
from poolbook.domain.events import JobActivated, JobDue, JobExited, JobsDeferred, JobSignalled, JobTransferEnded
from poolbook.domain.ports import stimuli as s
from poolbook.domain.ports.world import ClientLaunch, Launch
from poolbook.domain.submit.submit_context import SubmitError
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import EPOCH, VirtualWorld

from ..domain.pools import JOB, TestPool
from ..projections.pools import folded
from ..together import together

NOW = EPOCH // SECOND
WHEN_DUE = (
    "TARGET.HasJobDeferral && (((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && "
    "(time() < (DeferralTime + DeferralWindow)))"
)


def pool_of(*, cpus: int = 1, seconds: float = 10, dialect: str = "manual") -> TestPool:
    pool = TestPool(behave=lambda launch: Behaviour(seconds), dialect=dialect)
    pool.machine(cpus=cpus, HasJobDeferral="true")
    return pool


def deferred(pool: TestPool, **ad: str) -> None:
    """Submit a job with the ad that its submission would write."""
    attributes = {"DeferralWindow": "0", "DeferralPrepTime": "300", "ScheddInterval": "5", "Requirements": WHEN_DUE}
    pool.handle(s.Submit(pool.id(), "alice", 0, JOB | attributes | ad, 1, ()))


def ad(pool: TestPool, job: str = "1.0") -> dict[str, str]:
    cluster, _, proc = job.partition(".")
    attributes: dict[str, str] = pool.state.clusters[int(cluster)].attributes(int(proc))
    return attributes


def waits(pool: TestPool) -> bool:
    """Return True if a job is on its slot, but its process is not running."""
    return bool(pool.state.deferred) and not any(activation.executing for activation in pool.state.activations.values())


def sound(pool: TestPool) -> bool:
    return examine(pool.log.read()).violations == []


# Deferral


def test_a_job_waits_on_its_slot_as_running_and_starts_at_its_time() -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 60}")
    pool.advance(59)
    assert (pool.status("1.0"), waits(pool)) == ("Running", True)
    assert "NumJobStarts" not in ad(pool)
    pool.advance(1)
    assert not waits(pool)
    assert (ad(pool)["JobCurrentStartExecutingDate"], ad(pool)["NumJobStarts"]) == (str(NOW + 60), "1")
    assert ad(pool)["JobCurrentStartDate"] == str(NOW)
    pool.advance(10)
    assert pool.status("1.0") == "ended"
    assert sound(pool)


def test_a_job_always_waits_60_seconds_after_its_submission() -> None:
    pool = pool_of()
    pool.advance(1000)
    deferred(pool, DeferralTime="(QDate + 60)")
    pool.advance(60)
    assert ad(pool)["JobCurrentStartExecutingDate"] == str(NOW + 1060)
    assert ad(pool)["DeferralTime"] == "(QDate + 60)"


@together(
    ("prep", "interval", "matched"),
    [("60", "0", 940), ("0", "0", 1000), ("60", "5", 935), ("300", "300", 400), ("60 * 2", "0", 880), ("5000", "0", 0)],
)
def test_a_job_is_matched_its_preparation_time_and_the_schedd_interval_before_its_time(
    prep: str, interval: str, matched: int
) -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 1000}", DeferralWindow="1", DeferralPrepTime=prep, ScheddInterval=interval)
    pool.advance(1000)
    assert int(ad(pool)["JobCurrentStartDate"]) - NOW == matched
    assert int(ad(pool)["JobCurrentStartExecutingDate"]) - NOW == 1000


@together(
    ("late", "window", "begins"),
    [(45, "120", True), (45, "20", False), (0, "0", False), (0, "1", True), (120, "120", False), (119, "120", True)],
)
def test_a_late_job_is_matched_only_within_its_window(late: int, window: str, begins: bool) -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"(QDate - {late})", DeferralWindow=window)
    pool.advance(5)
    assert (pool.status("1.0"), pool.state.idle) == (("Running", 0) if begins else ("Idle", 1))
    assert waits(pool) is False


@together(
    ("late", "window", "held"),
    [
        (1, "0", True),
        (0, "0", False),
        (120, "120", False),
        (121, "120", True),
        (121, "QDate", False),
        (5, "soon", True),
    ],
)
def test_a_job_that_reaches_its_slot_after_its_window_is_held(late: int, window: str, held: bool) -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"(QDate - {late})", DeferralWindow=window, Requirements="true")
    pool.advance(5)
    assert pool.status("1.0") == ("Held" if held else "Running")
    assert sound(pool)


@together("time", ["NoSuchAttribute", '"noon"', "0", "-5", "undefined"])
def test_an_invalid_time_counts_as_missed(time: str) -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=time, DeferralWindow="5000000000", Requirements="true")
    pool.advance(5)
    assert ad(pool)["HoldReasonCode"] == "20"


def test_the_ad_of_a_job_that_missed_its_time_is_as_in_htcondor() -> None:
    pool = pool_of()
    deferred(pool, DeferralTime="(QDate - 100)", Requirements="true")
    pool.advance(5)
    job_ad = ad(pool)
    # recorded: missed.q of tests/data/recordings/schedules/waiting.txt
    assert job_ad["HoldReason"] == '"Job missed deferred execution time"'
    assert job_ad["HoldReasonCode"] == "20"
    assert "HoldReasonSubCode" not in job_ad
    assert (job_ad["VacateReason"], job_ad["VacateReasonCode"], job_ad["VacateReasonSubCode"]) == ('""', "0", "0")
    assert (job_ad["NumJobStarts"], job_ad["NumShadowStarts"], job_ad["NumVacates"]) == ("1", "1", "1")
    assert job_ad["NumVacatesByReason"] == "[ Unspecified = 1 ]"
    assert job_ad["NumHoldsByReason"] == "[ MissedDeferredExecutionTime = 1 ]"
    assert "NumSystemHolds" not in job_ad
    assert job_ad["JobCurrentStartExecutingDate"] == job_ad["JobCurrentStartDate"]
    assert pool.state.slots.keys() == {"slot1@h"}


def test_the_slot_goes_to_the_next_job_when_one_has_missed_its_time() -> None:
    pool = pool_of()
    for _ in range(3):
        deferred(pool, DeferralTime="(QDate - 100)", Requirements="true")
    pool.submit()
    pool.advance(5)
    assert [pool.status(f"{number}.0") for number in (1, 2, 3, 4)] == ["Held", "Held", "Held", "Running"]
    assert sound(pool)


# Other events for a waiting job


@together(("action", "status", "code"), [("hold", "Held", "1"), ("vacate", "Idle", "1004"), ("remove", "ended", "")])
def test_a_waiting_job_receives_a_hold_removal_or_vacate_immediately(action: str, status: str, code: str) -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 60}", DeferralPrepTime="40")
    pool.advance(30)
    assert waits(pool)
    pool.act(action, "1.0")
    assert pool.status("1.0") == status or (action == "vacate" and waits(pool))
    assert any(isinstance(event, JobSignalled) for event in pool.events())
    if action == "hold":
        assert ad(pool)["VacateReasonCode"] == code
        assert ad(pool)["NumVacatesPreExecution"] == "1"
        pool.act("release", "1.0")
    pool.advance(31)
    expected = "ended" if action == "remove" else "Running"
    assert pool.status("1.0") == expected
    if expected == "Running":
        assert ad(pool)["JobCurrentStartExecutingDate"] == str(NOW + 60)
    assert sound(pool)


def test_a_suspended_slot_lets_its_job_wait_and_suspends_it_when_it_has_started() -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 60}")
    pool.advance(10)
    pool.act("suspend", "1.0")
    (slot,) = [slot for slot in pool.state.slots.values() if slot.activation]
    assert (pool.status("1.0"), slot.state_activity) == ("Running", "Claimed/Suspended")
    pool.advance(50)
    assert pool.status("1.0") == "Suspended"
    (suspended,) = [event for _, event in pool.log.read() if getattr(event, "row", "") == "suspend"]
    assert suspended.cause == "suspended_early", "no expression suspended it"
    assert (ad(pool)["NumJobStarts"], ad(pool)["TotalSuspensions"]) == ("1", "1")
    pool.advance(100)
    pool.act("continue", "1.0")
    pool.advance(9)
    assert pool.status("1.0") == "Running"
    pool.advance(1)
    assert pool.status("1.0") == "ended"
    assert sound(pool)


def test_a_job_continues_to_wait_when_its_slot_is_continued() -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 60}")
    pool.advance(10)
    pool.act("suspend", "1.0")
    assert pool.act("continue", "1.0").value
    pool.advance(50)
    assert pool.status("1.0") == "Running"
    assert "TotalSuspensions" not in ad(pool)
    assert sound(pool)


def test_a_waiting_job_is_preempted_like_any_other() -> None:
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 60}", DeferralPrepTime="20")
    pool.advance(50)
    before = set(pool.state.deferred)
    pool.vacate_slot("slot1_1@h", fast=True)
    assert before.isdisjoint(pool.state.deferred)
    assert ad(pool)["NumVacates"] == "1"
    pool.advance(11)
    assert ad(pool)["JobCurrentStartExecutingDate"] == str(NOW + 60)
    assert sound(pool)


def test_a_job_of_the_local_universe_waits_too() -> None:
    pool = TestPool(behave=lambda launch: Behaviour(10))
    requirements = WHEN_DUE.removeprefix("TARGET.HasJobDeferral && ")
    deferred(pool, JobUniverse="12", DeferralTime=f"{NOW + 60}", DeferralPrepTime="10", Requirements=requirements)
    pool.advance(44)
    assert pool.status("1.0") == "Idle"
    pool.advance(2)
    assert (pool.status("1.0"), waits(pool)) == ("Running", True)
    pool.advance(14)
    assert ad(pool)["JobCurrentStartExecutingDate"] == str(NOW + 60)


# File transfer


@dataclass(eq=False, repr=False)
class SlowFiles(VirtualWorld):
    """A world in which the transfer of input files before a deferral time takes ``seconds``."""

    seconds: int = 0
    begun: set[str] = field(default_factory=set)

    def start(self, launches: Sequence[Launch | ClientLaunch]) -> None:
        for launch in launches:
            if isinstance(launch, Launch) and launch.waits and launch.key not in self.begun:
                self.begun.add(launch.key)
                self._waiting_keys.add(launch.key)
                began, ended = self.clock, self.clock + self.seconds * SECOND
                self.plan(began, s.Transferred(f"transfer-{launch.key}-0", launch.key, "input", began))
                self.plan(ended, s.Transferred(f"transfer-{launch.key}-1", launch.key, "input", began, ended))
        super().start(launches)


def pool_with_files(seconds: int) -> TestPool:
    pool = TestPool(world=SlowFiles(lambda launch: Behaviour(10), seconds=seconds))
    pool.machine(cpus=1, HasJobDeferral="true", FileSystemDomain='"here"')
    return pool


AWAY = {"ShouldTransferFiles": '"IF_NEEDED"', "FileSystemDomain": '"elsewhere"'}


@together(
    ("late", "window", "transfer", "outcome"),
    [
        (-60, "0", 0, 60), (-60, "0", 20, 60), (-60, "0", 60, 60), (-60, "0", 61, "Held"), (-60, "30", 61, 61),
        (-60, "30", 90, 90), (-60, "30", 91, "Held"), (30, "50", 0, 0), (30, "50", 20, 20), (30, "50", 21, "Held"),
    ],
)  # fmt: skip
def test_input_files_are_transferred_first_and_must_arrive_within_the_window(
    late: int, window: str, transfer: int, outcome: int | str
) -> None:
    pool = pool_with_files(transfer)
    deferred(pool, DeferralTime=f"{NOW - late}", DeferralWindow=window, **AWAY)
    pool.advance(95)
    assert sound(pool)
    if outcome == "Held":
        assert (ad(pool)["HoldReasonCode"], ad(pool)["NumShadowStarts"]) == ("20", "1")
        return
    (due,) = [event for event in pool.events() if isinstance(event, JobDue)]
    (arrived,) = [event for event in pool.events() if isinstance(event, JobTransferEnded) and event.way == "input"]
    assert arrived.at // SECOND - NOW == transfer
    assert due.at // SECOND - NOW == outcome


def test_files_on_a_shared_file_system_are_not_transferred_first() -> None:
    pool = pool_with_files(20)
    deferred(pool, DeferralTime=f"{NOW + 60}", **AWAY | {"FileSystemDomain": '"here"'})
    pool.advance(60)
    assert ad(pool)["JobCurrentStartExecutingDate"] == str(NOW + 60)
    assert not any(isinstance(event, JobTransferEnded) for event in pool.events())


@together("transfer", [5, 40])
@together(("action", "status"), [("hold", "Held"), ("remove", "ended"), ("vacate", "Idle")])
def test_a_job_with_files_ends_when_it_is_signalled_before_its_time(action: str, status: str, transfer: int) -> None:
    pool = pool_with_files(transfer)
    deferred(pool, DeferralTime=f"{NOW + 60}", DeferralPrepTime="50", **AWAY)
    pool.advance(30)
    pool.act(action, "1.0")
    pool.advance(1)
    assert pool.status("1.0") == status or (action == "vacate" and waits(pool))
    assert sum(isinstance(event, JobActivated) for event in pool.events()) == 1 + (action == "vacate")
    assert sum(isinstance(event, JobExited) for event in pool.events()) == 1
    assert sound(pool)


# Unserved pools


class UnservedPool(TestPool):
    """A pool that is not served for some time."""

    def absent(self, seconds: int) -> None:
        self.world.clock += seconds * SECOND
        self.log.raise_epoch("again", self.engine.now(), "serve")
        self.engine = Engine(self.log, self.world)
        self.engine.recover()


@together(
    ("absent", "window", "status", "began"),
    [(10, "0", "Running", 60), (50, "0", "Running", 60), (51, "0", "Held", 0), (80, "30", "Running", 90),
     (81, "30", "Held", 0)],
)  # fmt: skip
def test_a_pool_that_was_absent_at_the_time_starts_the_job_within_its_window(
    absent: int, window: str, status: str, began: int
) -> None:
    pool = UnservedPool(behave=lambda launch: Behaviour(1000))
    pool.machine(cpus=1, HasJobDeferral="true")
    deferred(pool, DeferralTime=f"{NOW + 60}", DeferralWindow=window)
    pool.advance(10)
    pool.absent(absent)
    pool.advance(100)
    assert pool.status("1.0") == status
    if began:
        assert int(ad(pool)["JobCurrentStartExecutingDate"]) - NOW == began
    assert sound(pool)


def test_the_log_has_the_end_of_a_waiting_job_and_its_cause() -> None:
    pool = UnservedPool(behave=lambda launch: Behaviour(1000))
    pool.machine(cpus=1, HasJobDeferral="true")
    deferred(pool, DeferralTime=f"{NOW + 60}")
    pool.advance(10)
    pool.act("hold", "1.0")
    pool.absent(1)
    assert (pool.status("1.0"), pool.state.activations) == ("Held", {})


# Schedules


def cron(pool: TestPool, count: int = 1, **fields: str) -> None:
    ads = {name: f'"{text}"' for name, text in fields.items() if name.startswith("Cron")}
    attributes = {name: text for name, text in fields.items() if not name.startswith("Cron")}
    deferred(pool, OnExitRemove="false", **{**ads, **attributes})


def times(pool: TestPool) -> list[str]:
    return [
        f"{datetime.fromtimestamp(event.until / SECOND, UTC):%d %H:%M}"
        for event in pool.events()
        if isinstance(event, JobsDeferred)
    ]


def local_start_times(pool: TestPool) -> list[str]:
    return [
        f"{datetime.fromtimestamp(event.at / SECOND, UTC):%d %H:%M:%S}"
        for event in pool.events()
        if isinstance(event, JobDue)
    ]


def test_a_scheduled_job_gets_its_time_when_it_is_submitted_and_whenever_it_waits_again() -> None:
    pool = pool_of()
    cron(pool, CronMinute="*/20")
    assert ad(pool)["DeferralTime"] == str(NOW + 1200)  # the pool starts at 08:00
    pool.advance(3700)
    assert local_start_times(pool) == ["15 08:20:00", "15 08:40:00", "15 09:00:00"]
    assert times(pool) == ["15 08:20", "15 08:40", "15 09:00", "15 09:20"]
    assert (ad(pool)["NumJobStarts"], ad(pool)["NumJobCompletions"]) == ("3", "3")
    assert sound(pool)


def test_at_most_one_instance_of_a_job_runs_at_a_time() -> None:
    pool = pool_of(seconds=90)
    cron(pool, CronMinute="*")
    pool.advance(600)
    assert local_start_times(pool) == [f"15 08:{minute:02}:00" for minute in (1, 3, 5, 7, 9)]


def test_a_job_that_found_no_slot_in_time_waits_for_its_next_time() -> None:
    pool = pool_of(seconds=1900)
    pool.submit()  # has the only slot until 08:31:40
    cron(pool, CronMinute="*/20", DeferralWindow="60")
    pool.advance(2500)
    assert times(pool) == ["15 08:20", "15 08:40"]
    assert local_start_times(pool) == ["15 08:40:00"]


def test_a_job_within_its_window_starts_although_it_is_late() -> None:
    pool = pool_of(seconds=1230)
    pool.submit()  # until 08:20:30
    cron(pool, CronMinute="*/20", DeferralWindow="360")
    pool.advance(1300)
    assert ad(pool, "2.0")["JobCurrentStartExecutingDate"] == str(NOW + 1230)
    assert times(pool) == ["15 08:20"]


def test_a_job_that_ends_in_its_window_does_not_start_in_it_a_second_time() -> None:
    pool = pool_of(seconds=1)
    cron(pool, CronMinute="*/20", DeferralWindow="600")
    pool.advance(1800)
    assert local_start_times(pool) == ["15 08:20:00"]


def test_an_invalid_schedule_holds_its_job_with_code_25() -> None:
    pool = pool_of()
    cron(pool, CronMinute="fish")
    message = "Invalid cron schedule parameters: Invalid parameter value 'fish' for CronMinute"
    assert (ad(pool)["HoldReason"], ad(pool)["HoldReasonCode"]) == (f'"{message}"', "25")
    assert ad(pool)["HoldReasonSubCode"] == "0"
    assert pool.status("1.0") == "Held"
    pool.act("release", "1.0")
    assert pool.status("1.0") == "Held"
    pool.edit("1.0", CronMinute='"30"')
    pool.act("release", "1.0")
    assert (pool.status("1.0"), ad(pool)["DeferralTime"]) == ("Idle", str(NOW + 1800))
    assert sound(pool)


def test_jobs_of_one_submission_may_have_different_schedules() -> None:
    with Pool.open(user="alice") as pool:
        pool.submit("executable = /bin/x\ncron_minute = $(m)\nqueue m in (5, 10, fish, 5)")
        begin = NOW // 3600 * 3600
        states = [(job["JobStatus"], job.get("DeferralTime")) for job in pool.jobs()]
        assert states == [(1, begin + 300), (1, begin + 600), (5, None), (1, begin + 300)]


def test_a_job_submitted_on_hold_gets_its_time_at_its_release() -> None:
    pool = pool_of()
    cron(pool, CronMinute="*/20", JobStatus="5", HoldReason='"x"', HoldReasonCode="15")
    assert "DeferralTime" not in ad(pool)
    pool.advance(1300)
    pool.act("release", "1.0")
    assert ad(pool)["DeferralTime"] == str(NOW + 2400)


def test_a_release_keeps_a_future_time() -> None:
    pool = pool_of()
    cron(pool, CronMinute="*/20")
    pool.act("hold", "1.0")
    pool.advance(600)
    pool.act("release", "1.0")
    assert times(pool) == ["15 08:20"]
    pool.act("hold", "1.0")
    pool.advance(1200)
    pool.act("release", "1.0")
    assert times(pool) == ["15 08:20", "15 08:40"]


def test_an_edited_schedule_counts_immediately() -> None:
    pool = pool_of()
    cron(pool, CronMinute="*/20")
    pool.edit("1.0", CronMinute='"7"')
    assert ad(pool)["DeferralTime"] == str(NOW + 420)
    pool.edit("1.0", DeferralTime=f"{NOW + 100}")
    pool.advance(500)
    assert local_start_times(pool)[:2] == ["15 08:01:40", "15 08:07:00"]


def test_a_pool_that_starts_to_be_served_gives_all_jobs_their_next_time() -> None:
    pool = UnservedPool(behave=lambda launch: Behaviour(10))
    cron(pool, CronMinute="*/20", DeferralWindow="600")
    pool.absent(1300)
    assert times(pool) == ["15 08:20", "15 08:40"]


def test_htcondors_schedd_slips_where_the_manual_does_not() -> None:
    for dialect, day in (("manual", "02"), ("htcondor-25", "31")):
        pool = pool_of(dialect=dialect)
        cron(pool, CronDayOfWeek="2", CronMonth="2")
        begins = datetime.fromtimestamp(int(ad(pool)["DeferralTime"]), UTC)
        assert f"{begins:%d}" == day


def test_a_schedule_follows_local_time_over_both_changes_of_daylight_saving() -> None:
    pool = pool_of()
    pool.engine.zone = ZoneInfo("America/New_York")
    cron(pool, CronMinute="30", CronHour="1,2", CronDayOfMonth="7,14", CronMonth="3,11")
    pool.advance(304 * 86_400)
    assert local_start_times(pool) == [  # in UTC
        "07 06:30:00", "07 07:30:00",
        "14 06:30:00", "14 07:30:00",  # 2:30 is skipped: 3:30
        "07 05:30:00", "07 07:30:00",  # 1:30 occurs twice, and comes once
        "14 06:30:00", "14 07:30:00",
    ]  # fmt: skip
    assert sound(pool)


# A year of a schedule


def test_a_year_of_a_job_runs_in_virtual_time() -> None:
    pool = Pool.open(user="alice", behave=lambda launch: Behaviour(600))
    pool.add_machine("node1", cpus=1)
    every_first = {"cron_minute": "0", "cron_hour": "4", "cron_day_of_month": "1", "cron_prep_time": "60"}
    pool.submit({"executable": "/bin/report", "on_exit_remove": "false", **every_first})
    pool.advance(366 * 86_400)
    (job,) = pool.jobs()
    assert job["NumJobStarts"] == 12
    start_times = [event.at // SECOND for _, event in pool.events() if isinstance(event, JobDue)]
    assert [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}" for at in start_times] == [
        *(f"2027-{month:02}-01 04:00" for month in range(2, 13)),
        "2028-01-01 04:00",
    ]


def test_an_idle_pool_evaluates_no_second_twice() -> None:
    """A job far in the future costs nothing until its time comes."""
    pool = pool_of()
    deferred(pool, DeferralTime=f"{NOW + 10 * 365 * 86_400}")
    pool.advance(10)
    position = pool.state.position
    steps = 0
    until = pool.world.clock + 9 * 365 * 86_400 * SECOND
    while pool.world.clock < until:
        pool.engine.step(until)
        steps += 1
    assert (pool.state.position, steps < 5) == (position, True)


# Submission


def attributes_of(text: str) -> dict[str, Any]:
    with Pool.open(user="alice") as pool:
        pool.submit(f"executable = /bin/x\n{text}\nqueue")
        (job,) = pool.jobs()
        return dict(job)


@together(
    ("text", "attributes"),
    [
        # The manual's examples
        ("deferral_time = 1136138400", {"DeferralTime": 1136138400, "DeferralWindow": 0, "DeferralPrepTime": 300}),
        ("deferral_time = (QDate + 60)", {"DeferralTime": NOW + 60}),
        ("deferral_time = QDate\ndeferral_window = 120", {"DeferralWindow": 120}),
        ("deferral_time      = 1262368800\ndeferral_prep_time = 60", {"DeferralPrepTime": 60}),
        ("cron_minute = 0\ncron_hour = *\ncron_prep_time = 300", {"CronHour": "*", "DeferralPrepTime": 300}),
        ("cron_minute = 0\ncron_hour = *\ncron_window = 360", {"CronMinute": "0", "DeferralWindow": 360}),
        # Recorded from HTCondor
        ("cron_minute=0\ncron_window=6\ndeferral_window=9\ncron_prep_time=5\ndeferral_prep_time=8",
         {"DeferralWindow": 6, "DeferralPrepTime": 5}),
        ("CronMinute=4\nCronWindow=77\nCronPrepTime=66", {"DeferralWindow": 77, "DeferralPrepTime": 66}),
        ("cron_minute = 0\ncron_window = 60*6", {"DeferralWindow": 360}),
        ("deferral_window = 100\ndeferral_prep_time = 6", {"DeferralWindow": None, "DeferralPrepTime": None}),
        ("cron_minute =", {"CronMinute": None, "DeferralWindow": None}),
        ("deferral_time = 0", {"DeferralTime": 0}),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_submission_writes_the_attributes_of_its_commands(text: str, attributes: dict[str, object]) -> None:
    pool = attributes_of(text)
    assert {name: pool.get(name) for name in attributes} == attributes


@together(
    "text",
    [
        "deferral_time = -5", 'deferral_time = "tomorrow"', "deferral_time = 1.5e9", "deferral_time = (",
        "deferral_time = true", "cron_minute = 0\ncron_window = -1", 'cron_minute = 0\ncron_window = "6"',
        "cron_minute = 0\ncron_window = 1.5", "cron_minute = 0\ncron_prep_time = -1",
        "deferral_time = QDate\ndeferral_prep_time = 1.5",
    ],
)  # fmt: skip
def test_an_invalid_number_of_seconds_is_rejected_as_by_condor_submit(text: str) -> None:
    with pytest.raises(SubmitError, match=r"must be (an expression|a number of seconds)"):
        attributes_of(text)


def test_a_deferral_of_a_scheduler_universe_job_is_a_fatal_error() -> None:
    message = "DeferralTime does not work for scheduler universe jobs; consider submitting this job using the local"
    with pytest.raises(SubmitError, match=message):
        attributes_of("universe = scheduler\ndeferral_time = 1800000000")


def test_views_and_state_agree_about_scheduled_jobs() -> None:
    pool = pool_of()
    cron(pool, CronMinute="*/20")
    deferred(pool, DeferralTime=f"{NOW + 60}")
    pool.advance(2000)
    rows = folded(list(pool.log.read())).execute("SELECT cluster, changes FROM jobs ORDER BY cluster").fetchall()
    assert [f'"DeferralTime":"{NOW + 2400}"' in row[1] for row in rows] == [True]


def test_why_reports_until_when_a_job_waits() -> None:
    with Pool.open(user="alice", behave=lambda launch: Behaviour(10)) as pool:
        pool.add_machine("node1", cpus=1)
        pool.submit({"executable": "/bin/x", "cron_minute": "5", "cron_prep_time": "60", "+ScheddInterval": "0"})
        message = "It cannot be matched before 2027-01-15 08:04:00: it is to start at 2027-01-15 08:05:00."
        assert message in pool.why("1.0")
        pool.advance(270)
        assert "Its starter waits there until 2027-01-15 08:05:00 to start the program." in pool.why("1.0")
        pool.submit({"executable": "/bin/x", "deferral_time": "QDate - 60"})
        message = "It can no longer be matched: it was to start at 2027-01-15 08:03:30, which is in the past."
        assert message in pool.why("2.0")
