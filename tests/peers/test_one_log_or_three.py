"""Property: what happens to jobs does not depend on whether the roles of their pool share a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolbook.domain.ports import stimuli as s
from poolbook.domain.units import SECOND
from poolbook.replay.validation import examine
from poolbook.replay.virtual_world import EPOCH

from ..domain.pools import JOB
from ..replay.test_quotes import findings
from .one_or_three import OneLog, Pool, Shape, Step, ThreeLogs

TOLERANCE = 2.0
"""Seconds by which the messages between roles may delay what happens."""
LONG: dict[str, Any] = {"Args": '"300"'}
NOW = EPOCH // SECOND
STORIES: dict[str, tuple[Callable[[Pool], object], dict[str, Any]]] = {}
"""What happens in a pool of a shape, by name."""


def story(**shape: Any) -> Callable[[Callable[[Pool], object]], Callable[[Pool], object]]:
    def declare(act: Callable[[Pool], object]) -> Callable[[Pool], object]:
        STORIES[act.__name__] = act, shape
        return act

    return declare


def difference(one: dict[str, list[Step]], three: dict[str, list[Step]], tolerance: float) -> list[str]:
    """Return the first difference in the story of each job."""
    found = []
    for job in sorted(one.keys() | three.keys()):
        first, second = one.get(job, []), three.get(job, [])
        for number in range(max(len(first), len(second))):
            here, there = (steps[number] if number < len(steps) else None for steps in (first, second))
            is_close = here is not None and there is not None and abs(here[0] - there[0]) <= tolerance
            if here is None or there is None or here[1] != there[1] or not is_close:
                found.append(f"job {job}, one log: {here}, three logs: {there}")
                break
    return found


# Jobs run, and their users act on them


@story(machines=2, slots=2)
def users_share_the_machines(pool: Pool) -> None:
    pool.submit(8)
    pool.advance(5)
    pool.submit(4, user="bob")
    pool.advance(400)


@story()
def a_running_job_is_held_and_released(pool: Pool) -> None:
    pool.submit(**LONG, VirtualGrace="5")
    pool.advance(11)
    pool.act("hold", "1.0")
    pool.advance(30)
    pool.act("release", "1.0")
    pool.advance(400)


@story()
def a_running_job_is_removed(pool: Pool) -> None:
    pool.submit(**LONG, VirtualGrace="3000")
    pool.advance(11)
    pool.act("remove", "1.0")
    pool.advance(30)
    pool.act("remove now", "1.0")
    pool.advance(30)


@story(slots=2)
def running_jobs_are_vacated(pool: Pool) -> None:
    pool.submit(2, **LONG, VirtualGrace="20")
    pool.advance(11)
    pool.act("vacate", "1.0")
    pool.advance(50)
    pool.act("vacate", "1.1", fast=True)
    pool.advance(700)


@story()
def a_job_is_suspended_continued_suspended_and_removed(pool: Pool) -> None:
    pool.submit(**LONG)
    for action in ("suspend", "continue", "suspend", "remove"):
        pool.advance(31)
        pool.act(action, "1.0")
    pool.advance(100)


@story()
def a_job_chirps(pool: Pool) -> None:
    pool.submit(**LONG)
    pool.advance(11)
    pool.chirp("ep1", Progress="5", Owner='"bob"')
    pool.advance(400)


@story(kind="partitionable", slots=4)
def condor_now_combines_dynamic_slots(pool: Pool) -> None:
    pool.submit(4, Args='"500"')
    pool.advance(11)
    pool.submit(RequestCpus="2", Args='"20"')
    pool.run_now("2.0", "1.0", "1.1")
    pool.advance(900)


@story()
def condor_now_fails_on_a_static_slot(pool: Pool) -> None:
    pool.submit(**LONG)
    pool.advance(11)
    pool.submit(Args='"20"')
    pool.run_now("2.0", "1.0")
    pool.advance(900)


@story()
def local_and_scheduler_universe_jobs_run_at_the_access_point(pool: Pool) -> None:
    pool.submit(2, JobUniverse="12", Args='"40"')
    pool.submit(JobUniverse="7", Args='"40"', DeferralTime=str(NOW + 60))
    pool.advance(200)


# Edits of running jobs reach their execution points


@story(machine={"PREEMPT": "TARGET.JobPrio < 0", "WANT_VACATE": "false"})
def a_lower_priority_lets_the_owner_preempt(pool: Pool) -> None:
    pool.submit(**LONG)
    pool.advance(12)
    pool.edit("1.0", JobPrio="-1")
    pool.advance(4)
    pool.edit("1.0", JobPrio="1")
    pool.advance(400)


@story(machine={"WANT_SUSPEND": "true", "SUSPEND": "TARGET.Progress > 3", "CONTINUE": "TARGET.Progress < 3"})
def a_chirped_attribute_suspends_the_job_and_an_edit_continues_it(pool: Pool) -> None:
    pool.submit(Args='"100"', Progress="0")
    pool.advance(12)
    pool.chirp("ep1", Progress="5")
    pool.advance(31)
    pool.edit("1.0", Progress="1")
    pool.advance(400)


@story(machine={"MaxJobRetirementTime": "TARGET.Patience"})
def an_edit_extends_the_retirement_time(pool: Pool) -> None:
    pool.submit(**LONG, Patience="50", VirtualGrace="5")
    pool.advance(11)
    pool.edit("1.0", Patience="200")
    pool.command("ep1", s.Drain, "ep1", "Graceful", "", "resume")
    pool.advance(900)


@story(machines=2)
def an_edited_lease_does_not_change_that_of_the_run(pool: Pool) -> None:
    pool.submit(2, JobLeaseDuration="60", Args='"200"')
    pool.advance(11)
    pool.edit("1.0", JobLeaseDuration="1000")
    pool.advance(400)


# Policies of jobs and of machines


@story(settings={"PERIODIC_EXPR_INTERVAL": "10"}, slots=3)
def periodic_policies_hold_release_vacate_and_remove(pool: Pool) -> None:
    running = "JobStatus == 2 && time() - JobCurrentStartDate"
    again = "NumJobStarts < 2 && time() - EnteredCurrentStatus > 30"
    pool.submit(**LONG, PeriodicHold=f"{running} > 50", PeriodicHoldReason='"too long"', PeriodicRelease=again)
    pool.submit(**LONG, PeriodicRemove=f"{running} > 80")
    pool.submit(**LONG, PeriodicVacate="NumJobStarts < 2 && time() - JobCurrentStartDate > 50")
    pool.advance(20)
    pool.edit("2.0", PeriodicRemove=f"{running} > 100")
    pool.advance(900)


@story(settings={"PERIODIC_EXPR_INTERVAL": "10"}, slots=2)
def jobs_exceed_their_allowed_durations(pool: Pool) -> None:
    pool.submit(**LONG, AllowedJobDuration="60")
    pool.submit(**LONG, AllowedExecuteDuration="60")
    pool.advance(400)


@story(slots=3)
def the_end_of_a_job_is_decided_by_its_policy(pool: Pool) -> None:
    pool.submit(VirtualCode="1", OnExitHold="ExitCode == 1", OnExitHoldReason='"bad"')
    pool.submit(VirtualCode="1", OnExitRemove="NumJobStarts > 1")
    pool.submit(VirtualCode="1", JobMaxRetries="2", OnExitRemove="NumJobCompletions > JobMaxRetries || ExitCode == 0")
    pool.advance(600)


@story(machine={"PREEMPT": "CurrentTime - EnteredCurrentActivity > 50", "WANT_VACATE": "true", "KILL": "true"})
def the_owner_vacates_and_kills(pool: Pool) -> None:
    pool.submit(Args='"100"', VirtualGrace="500")
    pool.advance(100)
    pool.act("remove", "1.0")
    pool.advance(100)


@story(machine={"START": "TARGET.JobPrio >= 0"})
def start_refuses_a_job_until_it_is_edited(pool: Pool) -> None:
    pool.submit(JobPrio="-1")
    pool.advance(100)
    pool.edit("1.0", JobPrio="3")
    pool.advance(200)


@story(settings={"CLAIM_WORKLIFE": "60"})
def claims_are_reused_until_their_worklife_is_over(pool: Pool) -> None:
    pool.submit(5, Args='"40"')
    pool.advance(600)


# The manager's policies


@story(machine={"Rank": "TARGET.JobPrio", "MaxJobRetirementTime": "100"})
def a_job_of_higher_rank_preempts(pool: Pool) -> None:
    pool.submit(**LONG)
    pool.advance(11)
    pool.submit(user="bob", JobPrio="5", Args='"50"')
    pool.advance(900)


@story(kind="partitionable", slots=2, machine={"Rank": "TARGET.JobPrio"}, settings={"ALLOW_PSLOT_PREEMPTION": "true"})
def a_job_of_higher_rank_preempts_dynamic_slots(pool: Pool) -> None:
    pool.submit(2, **LONG)
    pool.advance(11)
    pool.submit(user="bob", JobPrio="5", RequestCpus="2", Args='"50"')
    pool.advance(900)


@story(settings={"PREEMPTION_REQUIREMENTS": "SubmitterUserPrio + 100 < RemoteUserPrio"})
def a_submitter_of_better_priority_preempts(pool: Pool) -> None:
    pool.submit(Args='"3000"')
    pool.advance(600)
    pool.command("cm", s.SetSubmitter, "alice@example.org", "factor", 1e6)
    pool.submit(user="bob", Args='"50"')
    pool.advance(100)


@story(settings={"XSW_LIMIT": "1"}, machines=2)
def jobs_share_a_concurrency_limit(pool: Pool) -> None:
    pool.submit(3, ConcurrencyLimits='"xsw"', Args='"40"')
    pool.advance(500)


@story(settings={"GROUP_NAMES": "a, b", "GROUP_QUOTA_a": "1", "GROUP_QUOTA_b": "1"}, machines=3)
def groups_have_quotas(pool: Pool) -> None:
    pool.submit(3, Args='"40"', AccountingGroup='"a.alice"', AcctGroup='"a"', AcctGroupUser='"alice"')
    pool.submit(3, user="bob", Args='"40"', AccountingGroup='"b.bob"', AcctGroup='"b"')
    pool.advance(800)


@story(settings={"MAX_JOBS_RUNNING": "2"}, machines=4)
def only_some_jobs_may_run(pool: Pool) -> None:
    pool.submit(6, Args='"40"')
    pool.advance(500)


DEFRAG = {
    "DEFRAG_NAME": "defrag@cm", "DEFRAG_INTERVAL": "60", "DEFRAG_WHOLE_MACHINE_EXPR": "Cpus == 4",
    "DEFRAG_MAX_WHOLE_MACHINES": "1",
    "DEFRAG_DRAINING_MACHINES_PER_HOUR": "60", "DEFRAG_CANCEL_REQUIREMENTS": "Cpus == 4",
}  # fmt: skip


@story(
    settings=DEFRAG, kind="partitionable", slots=4,
    machine={"MaxJobRetirementTime": "150", "PartitionableSlot": "true", "TotalSlotCpus": "4"},
)  # fmt: skip
def the_manager_drains_a_machine_for_a_large_job(pool: Pool) -> bool:
    for seconds in (40, 55, 75, 95):
        pool.submit(4, Args=f'"{seconds}"')
    pool.advance(5)
    pool.submit(user="bob", RequestCpus="4", Args='"20"')
    pool.advance(900)
    return pool.stories().get("4.3") is None  # it ran on the whole machine otherwise


# Commands about machines


def commanded(pool: Pool, role: str, pause: float, *commands: tuple[Any, ...]) -> list[str]:
    """Give commands at a role, one after another, and return why they were refused."""
    refused = []
    for kind, *arguments in commands:
        pool.advance(pause)
        refused.append(pool.command(role, kind, *arguments))
    return refused


@story(slots=2)
def slots_are_vacated_and_suspended(pool: Pool) -> None:
    pool.submit(2, **LONG, VirtualGrace="20")
    commanded(
        pool, "ep1", 31, (s.SuspendClaim, "slot1@ep1"), (s.ContinueClaim, "ep1"), (s.VacateSlot, "slot1@ep1"),
        (s.VacateSlot, "slot2@ep1", True),
    )  # fmt: skip
    pool.advance(700)


@story()
def a_machine_is_drained(pool: Pool) -> None:
    pool.submit(2, Args='"100"')
    for schedule in ("Graceful", "Quick", "Fast"):
        pool.advance(11)
        pool.command("ep1", s.Drain, "ep1", schedule)
        pool.advance(61)
        pool.command("ep1", s.CancelDrain, "ep1")
    pool.advance(400)


@story(machines=3)
def machines_are_turned_off(pool: Pool) -> None:
    for number in (1, 2, 3):
        pool.submit(Args='"100"', Requirements=f'TARGET.Machine == "ep{number}"')
    pool.advance(11)
    for number, how in enumerate(("Peaceful", "Graceful", "Fast"), 1):
        pool.command(f"ep{number}", s.ShutDown, f"ep{number}", how)
        pool.advance(21)
    pool.advance(300)


@story(machines=2, slots=2)
def the_manager_commands_machines(pool: Pool) -> list[str]:
    pool.submit(4, Args='"400"', VirtualGrace="10")
    refused = commanded(
        pool, "cm", 5.5, (s.SuspendClaim, "slot1@ep1"), (s.ContinueClaim, "slot1@ep1"), (s.VacateSlot, "slot2@ep1"),
        (s.Drain, "ep2", "Quick", "", "resume"), (s.Drain, "ep2", "Quick"), (s.Drain, "ep9"),
        (s.Drain, "ep1", "Graceful", "", "", "TotalCpus > 9"), (s.CancelDrain, "ep2"), (s.ShutDown, "ep1", "Fast"),
    )  # fmt: skip
    pool.advance(900)
    return refused


@story(slots=2)
def the_access_point_commands_the_slots_of_its_jobs(pool: Pool) -> list[str]:
    pool.submit(2, Args='"100"')
    refused = commanded(
        pool, "ap", 11, (s.SuspendClaim, "slot1@ep1"), (s.ContinueClaim, "ep1"), (s.VacateSlot, "slot2@ep1"),
        (s.VacateSlot, "slot9@x"),
    )  # fmt: skip
    pool.advance(400)
    return refused


# Deferred jobs


@story(slots=3)
def jobs_start_at_their_deferral_times(pool: Pool) -> None:
    pool.submit(DeferralTime=str(NOW + 200), Args='"20"')
    pool.submit(DeferralTime=str(NOW - 20), DeferralWindow="60", Args='"20"')
    pool.submit(DeferralTime=str(NOW - 20), DeferralWindow="10", Args='"20"')
    pool.submit(DeferralTime='"never"')
    pool.advance(400)


@story(slots=3)
def jobs_with_files_start_at_their_deferral_times(pool: Pool) -> None:
    files = {"ShouldTransferFiles": '"YES"', "Args": '"20"'}
    for late, window in ((-200, "0"), (20, "60"), (20, "10")):
        pool.submit(1, **files, DeferralTime=str(NOW - late), DeferralWindow=window)
    pool.advance(400)


@story(slots=4)
def waiting_jobs_with_files_are_held_removed_vacated_and_suspended(pool: Pool) -> None:
    _signal_waiting_jobs(pool, ShouldTransferFiles='"YES"')


@story(slots=4)
def waiting_jobs_are_held_removed_vacated_and_suspended(pool: Pool) -> None:
    _signal_waiting_jobs(pool)


def _signal_waiting_jobs(pool: Pool, **attributes: str) -> None:
    pool.submit(4, DeferralTime=str(NOW + 200), Args='"20"', **attributes)
    pool.advance(51)
    pool.act("hold", "1.0")
    pool.act("remove", "1.1")
    pool.act("vacate", "1.2")
    pool.act("suspend", "1.3")
    pool.advance(51)
    pool.act("release", "1.0")
    pool.advance(201)
    pool.act("continue", "1.3")
    pool.advance(100)


@story()
def a_job_runs_by_its_schedule(pool: Pool) -> None:
    due = "((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime))"
    times: dict[str, Any] = {
        "CronMinute": '"*/5"',
        "DeferralPrepTime": "60",
        "ScheddInterval": "60",
        "DeferralWindow": "10",
    }
    pool.submit(**times, OnExitRemove="false", Args='"20"', Requirements=f"{JOB['Requirements']} && {due}")
    pool.advance(1000)


@pytest.mark.parametrize("dialect", ["manual", "htcondor-25"])
@pytest.mark.parametrize("name", STORIES)
def test_a_story_of_jobs_is_the_same_in_one_log_and_in_three(name: str, dialect: str) -> None:
    act, shape = STORIES[name]
    one, three = OneLog(Shape(dialect, **shape)), ThreeLogs(Shape(dialect, **shape))
    assert act(one) == act(three)
    assert difference(one.stories(), three.stories(), TOLERANCE) == []
    logs = {name: node.events for name, node in three.pool.nodes.items()}
    assert {name: examine(enumerate(log, 1)).violations for name, log in logs.items()} == {name: [] for name in logs}
    assert findings(logs) == []
