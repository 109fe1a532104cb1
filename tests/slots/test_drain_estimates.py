"""The expected cost of draining a machine (ExpectedMachine*Draining*): compared with HTCondor's startd, and in ads,
drain checks and policy expressions."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from poolbook import Behaviour, Pool, Refusal
from poolbook.domain.classad import Context
from poolbook.domain.events import Ad, DrainBadputAdded, DrainBegan, JobExited
from poolbook.domain.startd.drain_estimates import DrainEstimates
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.state.job_ad import unquoted
from poolbook.domain.state.records import Claim, Machine, Slot, Starter
from poolbook.domain.state.slot_attributes import SlotAd
from poolbook.domain.state.state import State
from poolbook.domain.state_machines.slot_rows import read_pair

from ..conformance.golden_traces import trace
from ..conformance.trace_files import TraceFiles
from ..conformance.trace_play import TracePlay
from ..together import together

DATA = Path(__file__).resolve().parent.parent / "data"
FOLDERS = sorted({path.parent for group in ("traces", "recordings") for path in (DATA / group).glob("*/machine-ads-*")})
SECOND = 1_000_000
NAMES = (
    "ExpectedMachineGracefulDrainingBadput",
    "ExpectedMachineGracefulDrainingCompletion",
    "ExpectedMachineQuickDrainingBadput",
    "ExpectedMachineQuickDrainingCompletion",
)


# Recorded pools


def integer(ad: Ad, name: str) -> int:
    return int(ad.get(name, "0"))


def are_of_one_second(ads: list[Ad]) -> bool:
    """Check that a machine's ads are of the same second, in which nothing changed.

    The startd computes the estimates when it evaluates its policy, and may publish a slot between two evaluations.
    """
    if {ad.get("SlotType") for ad in ads} != {'"Static"'} or len(ads) < integer(ads[0], "TotalSlots"):
        return False  # the ads do not show what happened to dynamic slots
    same = all(len({ad.get(name) for ad in ads}) == 1 for name in (*NAMES, "MyCurrentTime"))
    return same and all(integer(ad, "EnteredCurrentActivity") < integer(ad, "MyCurrentTime") for ad in ads)


def state_of(ads: list[Ad], jobs: Any, shifts: tuple[int, ...], idle_since: int) -> State:
    """Return the state that these ads describe. ``shifts`` are the seconds between the computation of the estimates and
    the publication of the ad, for each slot with a job."""
    now = integer(ads[0], "MyCurrentTime")
    machine = Machine("h", {}, idle_since * SECOND)
    state = State(at=now * SECOND, machines={"h": machine})
    for ad, shift in zip(ads, shifts, strict=True):
        name, state_activity = unquoted(ad["Name"]), f"{unquoted(ad['State'])}/{unquoted(ad['Activity'])}"
        slot = Slot(name, "h", "static", "", SlotAd(ad), read_pair(state_activity), 0, 0)
        if "JobId" in ad and "JobStart" in ad:
            began = (now - integer(ad, "TotalJobRunTime") + shift) * SECOND
            vacate_time = 600 if ad["MachineMaxVacateTime"] == "10 * 60" else integer(ad, "MachineMaxVacateTime")
            job = unquoted(ad["JobId"])
            is_ending = ad["Requirements"] == "false" and slot.activity == "Retiring" and "Draining" not in ad
            marks = frozenset({"peaceful"} if is_ending else ())  # the recordings have no other kind of shutdown
            slot.claim = Claim("c", "alice@h", 1000, 0, holder="schedd", flags=marks)
            slot.activation = Starter(
                "1", 0, 0, name, began, max_vacate_time=vacate_time * SECOND, job=job, ad=jobs[job]
            )
        machine.slots[name] = state.slots[name] = slot
    return state


def estimates_of(state: State) -> DrainEstimates | None:
    published = PublishedSlots(state, Caches(), state.at, Context(now=state.at // SECOND))
    return published.policy_of(next(iter(state.slots.values()))).estimates()


def test_the_estimates_are_those_of_htcondor_s_startd() -> None:
    busy = idle = 0
    for folder in FOLDERS:
        files = TraceFiles(folder)
        for name in files.names("machine-ads-*.txt"):
            ads = [ad for ad in files.ads(name) if "SlotType" in ad]
            if not ads or not are_of_one_second(ads):
                continue
            recorded = tuple(integer(ads[0], name) for name in NAMES)
            running = [ad for ad in ads if "JobStart" in ad]
            shifts = product(*[(0, 1) if ad in running else (0,) for ad in ads])
            ours = [estimates_of(state_of(ads, files.jobs, shift, recorded[1])) for shift in shifts]
            assert recorded in ours, (folder.name, name, recorded, ours)
            busy, idle = busy + bool(running), idle + (not running)
    assert (busy, idle) == (21, 10)


def test_the_same_checks_reject_a_drain_as_in_htcondor() -> None:
    """Three checks of these attributes are false, the fourth is true."""
    folder = DATA / "recordings/drain-checks"
    failures = [line for line in (folder / "timeline.txt").read_text().splitlines() if "failure" in line]
    assert [line.partition("10003: ")[2] for line in failures] == [
        "Draining check expression is false on slot1@localhost."
    ] * 3
    recording = trace(folder)
    play = TracePlay(recording.files, recording.runs[0], "htcondor-25")
    drains = [move.slot for move in play.moves() if move.target == "Drained/Retiring"]
    messages = [refusal.words.partition(":")[0] for refusal in play.refused if refusal.what == "Drain"]
    assert messages == ["Draining check expression is false on slot1@localhost"] * 3
    assert set(drains) == {"slot1@localhost", "slot2@localhost", "slot3@localhost"}


def test_a_drain_has_the_same_badput_as_in_htcondor() -> None:
    """The first of these jobs ran for 5 seconds, and then took 6 seconds to vacate."""
    folder = DATA / "recordings/quick-drains"
    recording = trace(folder)
    recorded = re.findall(r"(slot\d): Adding to badput caused by draining: (\d+)", recording.files.text("StartLog"))
    play = TracePlay(recording.files, recording.runs[0], "htcondor-25")
    play.moves()
    charged = [event for _, event in play.log.read() if isinstance(event, DrainBadputAdded)]
    assert [(event.slot.partition("@")[0], str(event.badput)) for event in charged] == recorded
    assert recorded == [("slot1", "5"), ("slot3", "6"), ("slot2", "30")]


# Pools in virtual time


def pool_of(job: dict[str, str], *, dialect: str = "htcondor-25", **settings: str) -> Pool:
    """Return a pool with a partitionable slot of four cores, on which a two-core job has run for a minute."""
    config = "\n".join(f"{name} = {text}" for name, text in settings.items())
    pool = Pool.open(behave=lambda launch: Behaviour(1000, grace=None), dialect=dialect, config=config)
    pool.add_machine("h", cpus=4, memory=4096)
    pool.submit({"executable": "/bin/work", "request_cpus": "2", **job})
    while not any(slot["State"] == "Claimed" for slot in pool.slots()):
        pool.advance(1)
    pool.advance(60)
    return pool


def estimates(pool: Pool) -> tuple[int, int, int, int]:
    """Return the estimates, which are the same in all ads of the machine; times are relative to now."""
    ads = [tuple(slot[name] for name in NAMES) for slot in pool.slots()]
    assert len(set(ads)) == 1
    lost, ends, lost_quickly, ends_quickly = ads[0]
    now = pool.slots()[0]["MyCurrentTime"]
    return lost, ends - now, lost_quickly, ends_quickly - now


RETIRES = {"MaxJobRetirementTime": "300", "MachineMaxVacateTime": "20"}


@together(
    "settings, job, expected",
    [
        # settings of the machine and of the job -> core-seconds and seconds of a graceful and of a quick drain
        ({}, {}, (2 * 660, 600, 2 * 660, 600)),
        (RETIRES, {}, (2 * 300, 240, 2 * 80, 20)),
        (RETIRES, {"max_job_retirement_time": "100"}, (2 * 100, 40, 2 * 80, 20)),
        (RETIRES, {"max_job_retirement_time": "70"}, (2 * 80, 20, 2 * 80, 20)),
        (RETIRES, {"max_job_retirement_time": "900"}, (2 * 300, 240, 2 * 80, 20)),
        (RETIRES, {"job_max_vacate_time": "5"}, (2 * 300, 240, 2 * 65, 5)),
        (RETIRES, {"job_max_vacate_time": "50"}, (2 * 300, 240, 2 * 110, 50)),
        (RETIRES, {"job_max_vacate_time": "999"}, (2 * 300, 240, 2 * 300, 240)),
        (RETIRES, {"+KillSigTimeout": "5"}, (2 * 300, 240, 2 * 65, 5)),
        # the job's value is an expression; the machine's expression reads the job, or an estimate
        (RETIRES, {"+MaxJobRetirementTime": "TARGET.Cpus * 50"}, (2 * 100, 40, 2 * 80, 20)),
        (RETIRES, {"+JobMaxVacateTime": "Short ? 5 : 50", "+Short": "true"}, (2 * 300, 240, 2 * 65, 5)),
        ({**RETIRES, "MaxJobRetirementTime": "TARGET.Long =?= true ? 200 : 0"}, {"+Long": "true"},
         (2 * 200, 140, 2 * 80, 20)),
        ({**RETIRES, "MaxJobRetirementTime": "ExpectedMachineQuickDrainingBadput is undefined ? 200 : 0"}, {},
         (2 * 200, 140, 2 * 80, 20)),
    ],
)  # fmt: skip
def test_the_estimates_depend_on_the_settings_of_machine_and_job(
    settings: dict[str, str], job: dict[str, str], expected: tuple[int, int, int, int]
) -> None:
    with pool_of(job, **settings) as pool:
        assert estimates(pool) == expected


def test_an_edit_of_the_job_changes_the_estimates_immediately() -> None:
    with pool_of({}, **RETIRES) as pool:
        pool.edit("1.0", user="root", MaxJobRetirementTime=100)
        assert estimates(pool) == (2 * 100, 40, 2 * 80, 20)


def test_the_estimates_of_a_peaceful_shutdown_are_the_maximum() -> None:
    with pool_of({}, **RETIRES) as pool:
        pool.shut_down("h", how="Peaceful")
        slot_ad = pool.slots()[0]
        assert [slot_ad[name] for name in NAMES[:2]] == [2**31 - 1] * 2
        assert [slot["Requirements"] for slot in pool.slots()] == [False, False]  # as in the recordings


def test_the_run_time_of_a_job_does_not_change_while_it_is_vacated() -> None:
    with pool_of({}, **RETIRES) as pool:
        pool.drain("h", schedule="Quick")
        before = estimates(pool)
        pool.advance(10)
        ends = [slot["TotalJobRunTime"] for slot in pool.slots() if slot["State"] == "Preempting"]
        assert (estimates(pool), ends) == (before, [60])
        pool.advance(60)
        assert [slot["TotalMachineDrainingBadput"] for slot in pool.slots()] == [2 * 60]


def test_a_machine_without_jobs_has_the_time_when_its_last_job_ended() -> None:
    with Pool.open() as pool:
        pool.add_machine("h", cpus=4, memory=4096)
        pool.advance(5)
        assert estimates(pool) == (0, -5, 0, -5)
    with pool_of({}) as pool:
        pool.advance(2000)
        (exited_at,) = [event.at // SECOND for _, event in pool.events() if isinstance(event, JobExited)]
        assert len(pool.slots()) == 1  # the dynamic slot no longer exists
        since = exited_at - pool.slots()[0]["MyCurrentTime"]
        assert estimates(pool) == (0, since, 0, since) and since < -900


@pytest.mark.parametrize(
    ("check", "drains"),
    [
        ("ExpectedMachineGracefulDrainingBadput < 600", False),
        ("ExpectedMachineGracefulDrainingBadput <= 600", True),
        ("ExpectedMachineQuickDrainingBadput == 160", True),
        ("ExpectedMachineGracefulDrainingCompletion - time() <= 240", True),
        ("ExpectedMachineQuickDrainingCompletion - time() < 20", False),
    ],
)
def test_a_drain_check_can_read_the_estimates(check: str, drains: bool) -> None:
    with pool_of({}, **RETIRES) as pool:
        if drains:
            assert pool.drain("h", check=check) == "1"
        else:
            with pytest.raises(Refusal, match="Draining check expression is false on slot1@h"):
                pool.drain("h", check=check)


def test_start_preempt_and_job_requirements_can_read_the_estimates() -> None:
    start = "ExpectedMachineQuickDrainingBadput < 200"
    requirements = "TARGET.ExpectedMachineQuickDrainingBadput >= 300"
    with pool_of({}, START=start, PREEMPT="ExpectedMachineQuickDrainingBadput >= 400", **RETIRES) as pool:
        pool.submit({"executable": "/bin/work", "requirements": requirements})
        pool.submit({"executable": "/bin/work"})
        pool.advance(30)
        assert [job["JobStatus"] for job in pool.jobs()] == [2, 1, 2]
        pool.advance(400)
        assert not any(slot["Activity"] == "Busy" and slot["JobId"] == "1.0" for slot in pool.slots())


# START during a drain

DEFAULT = "TARGET.Evictable =?= true"


@together(
    "dialect, before, schedule, start, expected",
    [
        # dialect, an earlier canceled drain, schedule, -start -> START
        ("htcondor-25", "", "Graceful", "", DEFAULT),
        ("htcondor-25", "", "Graceful", "TARGET.Short", "TARGET.Short"),
        ("htcondor-25", "", "Quick", "", ""),
        ("htcondor-25", "", "Fast", "", ""),
        ("htcondor-25", "", "Quick", "TARGET.Short", ""),
        ("htcondor-25", "Graceful", "Quick", "", DEFAULT),
        ("htcondor-25", "Graceful", "Fast", "TARGET.Short", DEFAULT),
        ("htcondor-25", "Quick", "Quick", "", ""),
        ("manual", "", "Graceful", "", DEFAULT),
        ("manual", "", "Quick", "", ""),
        ("manual", "Graceful", "Quick", "", ""),
    ],
)
def test_only_a_graceful_drain_changes_start(
    dialect: str, before: str, schedule: str, start: str, expected: str
) -> None:
    with pool_of({}, dialect=dialect, DEFAULT_DRAINING_START_EXPR=DEFAULT, **RETIRES) as pool:
        if before:
            pool.drain("h", schedule=before)
            pool.cancel_drain("h")
        pool.drain("h", schedule=schedule, start=start)
        (drain_began,) = [event for _, event in pool.events() if isinstance(event, DrainBegan)][bool(before) :]
        assert drain_began.start == expected
        assert ["Start" in slot for slot in pool.slots() if slot["Name"] == "slot1@h"] == [bool(expected)]
