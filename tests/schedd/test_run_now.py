"""Property: a job that condor_now starts runs immediately in place of its victims, or nothing changes; no other job
gets the slots reserved for it. Source: HTCondor's schedd.cpp, pccc.cpp and command.cpp, and recorded runs
(tests/beside)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook import Pool, Refusal
from poolbook.adapters.runtime.engine import Engine
from poolbook.adapters.testing.invariants import plain_state
from poolbook.domain.events import ClaimsReserved, JobActivated, JobExited, JobSignalled, ReservationEnded
from poolbook.domain.fold.evolve import fold
from poolbook.domain.ports import stimuli as s
from poolbook.replay.recheck_cycles import recheck
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import Behaviour
from poolbook.replay.why.answer import why

from ..domain.pools import TestPool
from ..domain.preempting import append_cycle, match_slot
from ..sampling import soak_examples
from ..together import together

DIALECTS = ["manual", "htcondor-25"]


def crowded(dialect: str = "htcondor-25", immortal: str = "", **more: str) -> TestPool:
    """Return a machine of four cores, all in use by alice's jobs 1.0 to 1.3; others of hers wait, 2.0 first. No signal
    ends the ``immortal`` jobs."""
    pool = TestPool(
        dialect=dialect,
        behave=lambda launch: Behaviour(
            600, grace=None, immortal=f"{launch.cluster}.{launch.proc}" in immortal.split()
        ),
        settings=more,
    )
    pool.machine("h", 4, 4096)
    pool.submit(4)
    pool.advance(10)
    pool.submit(3, JobPrio="5")
    pool.advance(1)
    assert [pool.status(f"1.{proc}") for proc in range(4)] == ["Running"] * 4
    return pool


def now(pool: TestPool, job: str, *victims: str, user: str = "alice") -> str:
    """Send the request, and return its refusal."""
    ids = [tuple(map(int, job_id.split("."))) for job_id in (job, *victims)]
    return pool.handle(s.RunNow(pool.id(), user, ids[0], tuple(ids[1:]))).refusal  # type: ignore[arg-type]


def is_sound(pool: TestPool) -> bool:
    """Return True if the log is valid, folds to the same state, and its cycles have the same result when they are
    repeated."""
    violations = [str(violation) for violation in examine(pool.log.read()).violations]
    assert violations == []
    assert plain_state(pool.state) == plain_state(fold(pool.log.read()))
    return recheck(pool.log.read()).sound


def came_to(pool: TestPool) -> list[tuple[str, str]]:
    """Return why, and on which slot, each request of this kind ended."""
    return [(event.cause, event.slot) for event in pool.events() if isinstance(event, ReservationEnded)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("victims", [("1.2",), ("1.0", "1.3"), ("1.0", "1.1", "1.2", "1.3")])
def test_the_job_starts_immediately_where_the_victims_ran_before_all_other_jobs(
    dialect: str, victims: tuple[str, ...]
) -> None:
    pool = crowded(dialect)
    pool.submit(1, RequestCpus=str(len(victims)), RequestMemory=str(1024 * len(victims)))
    pool.advance(1)
    assert now(pool, "3.0", *victims) == ""
    pool.advance(0)
    assert pool.status("3.0") == "Running"
    activations = [event for event in pool.events() if isinstance(event, JobActivated)]
    assert [(event.cluster, event.proc) for event in activations[4:5]] == [(3, 0)]
    assert activations[4].provides["Cpus"] == str(len(victims))
    assert began_in_one_decision_with_the_last_end(pool)
    assert is_sound(pool)


def began_in_one_decision_with_the_last_end(pool: TestPool) -> bool:
    end_stimuli = [event.stimulus for event in pool.events() if isinstance(event, JobExited)]
    start_stimuli = [
        event.stimulus for event in pool.events() if isinstance(event, JobActivated) and event.cluster == 3
    ]
    return start_stimuli == end_stimuli[-1:]


def test_the_victims_ads_say_that_the_access_point_vacated_them() -> None:
    pool = crowded()
    assert now(pool, "2.1", "1.1") == ""
    pool.advance(0)
    ad = pool.state.clusters[1].attributes(1)
    reasons = [ad[name] for name in ("VacateReason", "VacateReasonCode", "VacateReasonSubCode")]
    assert reasons == ['"Job vacated by schedd"', "1022", "0"]
    signals = [event for event in pool.events() if isinstance(event, JobSignalled)]
    assert [(event.proc, event.how, event.cause) for event in signals] == [(1, "hard", "run_now")]


def test_the_remainder_of_the_victims_slots_returns_to_the_partitionable_slot() -> None:
    pool = crowded()
    assert now(pool, "2.0", "1.0", "1.1", "1.2") == ""
    pool.handle(s.FireTimers("tick"))
    pool.advance(0)
    assert pool.status("2.0") == "Running"
    assert pool.state.slots["slot1@h"].ad["Cpus"] in ("0", "2")  # the next cycle matches it with waiting jobs
    assert is_sound(pool)


NOBODY_HAS = "is not in the queue; `poolbook q -all` lists all jobs"


@together(
    ("job", "victims", "user", "refusal"),
    [
        ("9.0", ("1.0",), "alice", f"no such job (now-job): 9.0 {NOBODY_HAS}"),
        ("2.7", ("1.0",), "alice", f"no such job (now-job): 2.7 {NOBODY_HAS}"),
        ("2.0", ("1.0",), "bob", "you must own the now-job: 2.0 belongs to alice, and bob is not a super user"),
        ("1.0", ("1.0",), "alice", "the now-job must be idle: 1.0 is Running"),
        ("4.0", ("1.0",), "alice", "the now-job must be idle: 4.0 is Held"),
        (
            "5.0",
            ("1.0",),
            "alice",
            "the now-job must be in the vanilla universe: 5.0 is in universe 12, whose jobs run without slots",
        ),
        ("2.0", ("9.0",), "alice", f"no such job (vacate-job): 9.0 {NOBODY_HAS}"),
        ("2.0", ("1.0", "1.9"), "alice", f"no such job (vacate-job): 1.9 {NOBODY_HAS}"),
        ("3.0", ("1.0",), "bob", "you must own the vacate-job: 1.0 belongs to alice, and bob is not a super user"),
        ("2.0", ("2.1",), "alice", "vacate-job must be running: 2.1 is Idle"),
        ("2.0", ("1.0", "4.0"), "alice", "vacate-job must be running: 4.0 is Held"),
        (
            "2.0",
            ("5.0",),
            "alice",
            "vacate-job must be in the vanilla universe: 5.0 is in universe 12, whose jobs run without slots",
        ),
        (
            "2.0",
            (),
            "alice",
            "invalid vacate-job ID list: name at least one running job to vacate for 2.0",
        ),
    ],
)
def test_an_invalid_request_is_rejected_and_no_job_is_vacated(
    job: str, victims: tuple[str, ...], user: str, refusal: str
) -> None:
    pool = crowded()
    pool.submit(user="bob")
    pool.submit(JobStatus="5", HoldReasonCode="15")
    pool.submit(JobUniverse="12")
    before = len(pool.events())
    assert now(pool, job, *victims, user=user) == refusal
    assert len(pool.events()) == before


def test_a_super_user_may_give_the_slot_of_one_user_to_another() -> None:
    pool = crowded()
    pool.submit(user="bob")
    assert now(pool, "3.0", "1.0", user="root") == ""
    pool.advance(0)
    assert pool.status("3.0") == "Running"
    claims = {slot.claim.submitter for slot in pool.state.slots.values() if slot.claim is not None}
    assert claims == {"alice@example.org", "bob@example.org"}
    assert is_sound(pool)


def test_a_job_can_be_requested_once_at_a_time() -> None:
    pool = crowded(immortal="1.0")
    assert now(pool, "2.0", "1.0") == ""
    rule = "the now-job must not already be scheduled to run immediately"
    message = f"{rule}: 2.0 already waits for the jobs on slot1_1@h to be vacated"
    assert now(pool, "2.0", "1.1") == message
    pool.advance(30)
    assert now(pool, "2.0", "1.1") == ""


def test_a_victim_that_is_named_twice_counts_once() -> None:
    pool = crowded()
    assert now(pool, "2.0", "1.0", "1.0") == ""
    pool.advance(0)
    assert pool.status("2.0") == "Running"


def test_a_program_can_request_it() -> None:
    with Pool.open("memory:", user="alice", behave=lambda launch: Behaviour(600)) as pool:
        pool.add_machine("node1", cpus=1)
        for options in ({}, {"priority": "5"}, {}):
            pool.submit({"executable": "/bin/work", **options})
            pool.advance(10)
        pool.run_now("3.0", (1, 0))
        pool.advance(1)
        assert [job["JobStatus"] for job in pool.jobs()] == [1, 1, 2]
        with pytest.raises(Refusal, match=r"vacate-job must be running: 2\.0 is Idle"):
            pool.run_now("1.0", "2.0")
        with pytest.raises(ValueError, match="1 is not a single job"):
            pool.run_now("2.0", 1)


# Failed requests

Meanwhile = Callable[[TestPool], object]


def nothing(pool: TestPool) -> None:
    pass


@together(
    ("job", "victims", "meanwhile", "cause", "seconds"),
    [
        # while 1.0, which does not end, is waited for; 1.1 is gone
        ("2.0", ("1.0", "1.1"), nothing, "now_late", 20),
        ("2.0", ("1.0", "1.1"), lambda pool: pool.vacate_slot("slot1_2@h"), "now_lost", 0),
        ("2.0", ("1.0", "1.1"), lambda pool: now(pool, "2.1", "1.0"), "now_taken", 0),
        # when all are gone
        ("2.0", ("1.1", "1.2"), lambda pool: pool.act("hold", "2.0"), "now_not_idle", 0),
        ("2.0", ("1.1", "1.2"), lambda pool: pool.act("remove", "2.0"), "now_gone", 0),
        ("4.0", ("1.1", "1.2"), nothing, "now_unfit", 0),
        ("5.0", ("1.1",), nothing, "now_unfit", 0),
    ],
)
def test_a_request_without_success_changes_nothing_else(
    job: str, victims: tuple[str, ...], meanwhile: Meanwhile, cause: str, seconds: float
) -> None:
    pool = crowded(immortal="1.0")
    pool.submit(user="bob")
    pool.submit(RequestCpus="3")
    pool.submit(RequestMemory="4000")
    assert now(pool, job, *victims) == ""
    meanwhile(pool)
    if seconds:
        pool.advance(seconds - 1)
        assert came_to(pool) == []
    pool.advance(1)
    assert came_to(pool) == [(cause, "")]
    assert not any((event.cluster, event.proc) == (int(job[0]), 0) and event.cause == "run_now"
                   for event in pool.events() if isinstance(event, JobActivated))  # fmt: skip
    claims = {slot.claim.id for slot in pool.state.slots.values() if slot.claim is not None}
    assert all(claims.issuperset(reservation.claims.values()) for reservation in pool.state.reservations.values())
    assert is_sound(pool)
    reserved = next(event for event in pool.events() if isinstance(event, ClaimsReserved))
    assert len(reserved.claims) == len(victims)


def test_slots_that_are_not_parts_of_one_slot_are_released() -> None:
    for static, machines, cause in ((4, 1, "now_static"), (0, 2, "now_apart")):
        pool = TestPool(dialect="htcondor-25", behave=lambda launch: Behaviour(600))
        for number in range(machines):
            pool.machine(f"h{number}", 4 // machines, 4096 // machines, static // machines)
        pool.submit(4)
        pool.advance(10)
        pool.submit()
        homes = {f"{a.cluster}.{a.proc}": pool.state.slots[a.slot].machine for a in pool.state.activations.values()}
        first = min(homes)
        other_job = next((job for job in sorted(homes) if homes[job] != homes[first]), max(homes))
        assert now(pool, "2.0", first, other_job) == ""
        pool.advance(0)
        assert came_to(pool) == [(cause, "")]
        assert is_sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_claim_that_is_too_old_ends_with_its_job(dialect: str) -> None:
    for worklife, cause in (("11", "now_lost"), ("12", "coalesced")):
        pool = crowded(dialect, CLAIM_WORKLIFE=worklife)
        pool.advance(0.5)
        assert now(pool, "2.0", "1.0") == ""
        pool.advance(1)
        assert [outcome for outcome, _ in came_to(pool)] == [cause]
        assert is_sound(pool)


def test_the_request_times_out_as_configured() -> None:
    pool = crowded(immortal="1.0", SCHEDD_NOW_JOB_VACATE_TIMEOUT="50")
    assert now(pool, "2.0", "1.0") == ""
    pool.advance(49)
    assert came_to(pool) == []
    pool.advance(2)
    assert came_to(pool) == [("now_late", "")]


def narration(pool: TestPool, thing: str, is_complete: bool = False) -> str:
    answer = why(pool.log, thing)
    return "\n".join(sentence.text for sentence in (answer.life if is_complete else answer.lines))


def test_why_reports_each_step_of_the_request() -> None:
    pool = crowded(immortal="1.0")
    pool.submit(RequestCpus="3")
    assert now(pool, "3.0", "1.0", "1.1") == ""
    assert "Job 3.0 is to run immediately in place of the jobs on slot1_1@h and slot1_2@h: alice asked" in narration(
        pool, "3.0"
    )
    assert "reserved for job 3.0" in narration(pool, "slot1_2@h", is_complete=True)
    pool.advance(30)
    assert "Running job 3.0 immediately failed: the jobs to be evicted did not" in narration(pool, "3.0")
    assert now(pool, "2.1", "1.2", "1.3") == ""
    pool.advance(0)
    assert "The slots of the evicted jobs were combined into" in narration(pool, "2.1")
    assert "killed: alice asked for a job to run immediately in place of others" in narration(pool, "1.2")


# The job gets another slot meanwhile


def end_job(pool: TestPool, proc: int) -> None:
    """End a job of cluster 1 that no signal ends."""
    key = pool.state.by_job[1, proc].key
    pool.handle(s.ActivationEnded(pool.id(), key, pool.world.clock, signal=9))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_job_leaves_the_slot_that_it_was_matched_with_meanwhile(dialect: str) -> None:
    pool = crowded(dialect, immortal="1.0")
    pool.submit(Requirements="false")
    assert now(pool, "3.0", "1.0") == ""
    pool.machine("k", 1, 1024, 1, Start="false")
    append_cycle(pool, "3.0", "slot1@k", reason="")
    end_job(pool, 0)
    pool.advance(1)
    assert pool.state.by_job[3, 0].slot == "slot1_1@h"
    assert pool.state.matches == pool.state.assigned_slots == {}
    assert is_sound(pool)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_job_no_longer_waits_for_a_claimed_slot(dialect: str) -> None:
    pool = crowded(dialect, immortal="1.0")
    pool.submit(Requirements="false")
    assert now(pool, "3.0", "1.0") == ""
    pool.machine("k", 1, 1024, 1, MaxJobRetirementTime="1000")
    pool.advance(1)
    match_slot(pool, "3.0", "slot1@k")
    slot = pool.state.slots["slot1@k"]
    assert slot.queued_claim is not None and slot.queued_claim.job == "3.0"
    end_job(pool, 0)
    pool.advance(1)
    assert pool.state.by_job[3, 0].slot == "slot1_1@h"
    assert pool.state.slots["slot1@k"].queued_claim is None
    assert is_sound(pool)


def test_the_job_uses_the_concurrency_limits_of_its_ad() -> None:
    pool = crowded()
    pool.submit(ConcurrencyLimits='"xsw:2"', Requirements="false")
    assert now(pool, "3.0", "1.0") == ""
    pool.advance(1)
    assert pool.state.limits_in_use == {"xsw:2": 1}
    pool.vacate_slot("slot1_1@h", fast=True)
    pool.advance(1)
    assert pool.state.limits_in_use == {}
    assert is_sound(pool)


# In any order


def restarted(pool: TestPool) -> None:
    """Kill the pool and continue from its log."""
    pool.engine = Engine(pool.log, pool.world)
    pool.engine.load()


JOBS = st.sampled_from([f"{cluster}.{proc}" for cluster, procs in ((1, 6), (2, 3)) for proc in range(procs)])
STEPS = st.one_of(
    st.tuples(st.just("now"), JOBS, st.lists(JOBS, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["hold", "release", "remove", "vacate", "suspend", "continue"]), JOBS),
    st.tuples(st.just("vacate slot"), st.sampled_from(["slot1_1@h", "slot1_2@h", "h", "k"])),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 1.0, 25.0, 700.0])),
    st.tuples(st.just("off"), st.sampled_from(["Peaceful", "Graceful", "Fast"])),
    st.tuples(st.sampled_from(["drain", "restart"])),
)


def run_steps(steps: list[tuple[Any, ...]], dialect: str, immortal: str) -> None:
    """Check after each step that exactly the requested job has its reserved claims, that none is reserved indefinitely,
    and that the log is sound."""
    pool = crowded(dialect, immortal=immortal)
    pool.machine("k", 2, 2048)
    pool.submit(2, JobPrio="-5")
    pool.advance(1)
    for step, *arguments in steps:
        if step == "now":
            now(pool, arguments[0], *arguments[1])
        elif step == "vacate slot":
            pool.vacate_slot(arguments[0])
        elif step == "advance":
            pool.advance(arguments[0])
        elif step == "drain":
            pool.handle(s.Drain(pool.id(), "root", "h", "Fast", completion="resume"))
        elif step == "off":
            pool.handle(s.ShutDown(pool.id(), "root", "k", arguments[0]))
        elif step == "restart":
            restarted(pool)
        else:
            pool.act(step, arguments[0], user="root")
        assert plain_state(pool.state) == plain_state(fold(pool.log.read()))
        for reservation in pool.state.reservations.values():
            assert all(pool.state.slots[name].claim.id == claim for name, claim in reservation.claims.items())
    pool.advance(25)
    assert pool.state.reservations == {}
    assert is_sound(pool)


whatever_happens = given(
    steps=st.lists(STEPS, max_size=14), dialect=st.sampled_from(DIALECTS), immortal=st.sampled_from(["", "1.0 2.1"])
)(run_steps)


def test_reserved_claims_go_to_no_other_job_and_do_not_stay_reserved() -> None:
    settings(max_examples=25, deadline=None)(whatever_happens)()


@pytest.mark.soak
def test_reserved_claims_go_to_no_other_job_at_length() -> None:
    settings(max_examples=soak_examples(20), deadline=None, suppress_health_check=list(HealthCheck))(whatever_happens)()
