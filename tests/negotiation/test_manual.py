"""Golden: the results that the manual's page "User Priorities and Negotiation" states."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ..together import together
from .pools import SECOND, Pool

HOUR = 3600 * SECOND
NO_RANKS = {"NEGOTIATOR_PRE_JOB_RANK": "", "NEGOTIATOR_POST_JOB_RANK": ""}
TABLE = {  # Table 3.1: NEGOTIATOR_PRE_JOB_RANK, the job's Rank, NEGOTIATOR_POST_JOB_RANK
    "slot1": (100, 1, 10),
    "slot2": (100, 2, 20),
    "slot3": (100, 2, 30),
    "slot4": (0, 1, 40),
    "slot5": (200, 1, 50),
}


def three_users(slots: int, *jobs: int, **more: str) -> Pool:
    """Return a pool with users A, B and C, whose effective priorities are 5, 10 and 20."""
    pool = Pool(**NO_RANKS, **more)
    pool.slots(slots)
    for user, priority, count in zip("ABC", (5, 10, 20), jobs, strict=True):
        pool.submit(user, count)
        pool.grant(user, "priority", priority)
        pool.grant(user, "factor", 1)
    return pool


# Shares


@pytest.mark.parametrize("preemption", ["true", "false"])
def test_priority_5_gets_twice_as_much_as_10_and_four_times_as_much_as_20(preemption: str) -> None:
    pool = three_users(70, 70, 70, 70, NEGOTIATOR_CONSIDER_PREEMPTION=preemption)
    assert pool.match_counts() == {"A": 40, "B": 20, "C": 10}


def test_an_unused_share_is_distributed_among_the_others() -> None:
    """The pie is spun again for B and C, 2 to 1. As in HTCondor, it has all 70 cores, so that B, who comes first, gets
    46 of the 46.7 that it would have without A, and C the remainder of its 23.3."""
    assert three_users(70, 10, 70, 70).match_counts() == {"A": 10, "B": 46, "C": 14}


def test_a_factor_of_2000_grants_half_as_many_cores_as_one_of_1000() -> None:
    pool = Pool(**NO_RANKS)
    pool.slots(30)
    pool.submit("ann", 30)
    pool.submit("bob", 30)
    pool.grant("bob", "factor", 2000)
    assert pool.match_counts() == {"ann": 20, "bob": 10}


def test_a_hundred_cores_are_shared_equally_in_the_end() -> None:
    """A has the pool for 48 hours, then B comes, both with an infinite number of short jobs."""
    pool = Pool(**NO_RANKS)
    pool.slots(100)
    for user in "AB":
        pool.grant(user, "factor", 1)
    pool.submit("A", 100)
    pool.cycle()
    assert pool.has()["A"] == 100
    pool.now += 48 * HOUR
    pool.submit("B", 100)
    had: list[float] = []
    for _ in range(60):
        for name in [name for name, slot in pool.state.slots.items() if slot.claim is not None]:
            pool.end_job(name)
        cycle = pool.cycle()
        if not had:
            priorities = cycle.priorities.priorities if cycle.priorities else {}
            assert priorities["A@here"] == pytest.approx(75.125)  # "should be about 75.0 at the 48 hour mark"
            assert pool.state.submitters["B@here"].priority == 0.5  # "User B deserves 150 times User A"
        had.append(pool.has()["A"])
        pool.now += 4 * HOUR
    assert had[0] == 1  # "will drop from all 100 cores to less than one core immediately": to the least there is
    assert 5 <= had[1] <= 25  # "but will quickly rebound to a handful of cores"
    assert all(after >= before - 1 for before, after in pairwise(had))  # less than a core goes to one or the other
    assert all(49 <= cores <= 51 for cores in had[30:])  # "and will asymptotically approach half of the pool"


# Slots


def ranked_pool(**more: str) -> Pool:
    """Return a pool with the five slots of table 3.1, whose ads have the ranks."""
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="Before", NEGOTIATOR_POST_JOB_RANK="After", **more)
    for name, (pre, rank, post) in TABLE.items():
        pool.slot(f"{name}@h", Before=str(pre), Wanted=str(rank), After=str(post))
    return pool


def test_slots_are_sorted_by_pre_job_rank_then_job_rank_then_post_job_rank() -> None:
    """Table 3.2, and the slots that three jobs get."""
    pool = ranked_pool()
    pool.submit("ann", 5, Rank="TARGET.Wanted")
    matches = pool.matched()
    assert [slot.partition("@")[0] for _, slot in matches] == ["slot5", "slot3", "slot2", "slot1", "slot4"]
    assert [job for job, _ in matches] == ["1.0", "1.1", "1.2", "1.3", "1.4"]
    three = ranked_pool()
    three.submit("ann", 3, Rank="TARGET.Wanted")
    assert [slot for _, slot in three.matched()] == ["slot5@h", "slot3@h", "slot2@h"]


def test_a_match_records_the_ranks_that_decided() -> None:
    pool = ranked_pool()
    pool.submit("ann", 1, Rank="TARGET.Wanted")
    cycle = pool.hold().held
    assert cycle is not None
    assert (cycle.matches[0].pre, cycle.matches[0].rank, cycle.matches[0].post) == (200, 1, 50)


@pytest.mark.parametrize(("rank", "is_told"), [("", 0.0), ("7", 7.0), ("true", 1.0), ('"best"', 0.0), ("2.5", 2.5)])
def test_a_rank_that_is_equal_for_all_slots_is_recorded(rank: str, is_told: float) -> None:
    pool = Pool(**NO_RANKS)
    pool.slot("slot1@h")
    pool.slot("slot2@h", Rank='TARGET.Owner == "ann"')
    pool.claim("slot2@h", "bob@here")
    pool.submit("ann", 2, Rank=rank)
    cycle = pool.hold().held
    assert cycle is not None
    assert [(match.reason, match.rank, match.pre, match.post) for match in cycle.matches] == [
        ("", is_told, 0.0, 0.0),
        ("rank", is_told, 0.0, 0.0),
    ]


@together(
    ("slot", "job"),
    [
        ({"Start": "false"}, {}),
        ({"Requirements": ""}, {}),
        ({"Start": 'TARGET.Owner == "bob"'}, {}),
        ({"Start": "undefined"}, {}),
        ({}, {"Requirements": "false"}),
        ({}, {"Requirements": "TARGET.Memory > 5000"}),
        ({}, {"Requirements": '"yes"'}),
        ({}, {"Requirements": ""}),
    ],
)
def test_a_slot_is_skipped_if_one_of_the_requirements_is_not_true(slot: dict[str, str], job: dict[str, str]) -> None:
    pool = Pool()
    pool.slot("slot1@h", **slot)
    pool.submit("ann", 1, **job)
    assert pool.matched() == []
    pool.slot("slot2@h")
    pool.submit("cy", 2)
    assert len(pool.matched()) == len(pool.state.slots) - bool(slot)


@pytest.mark.parametrize(("dialect", "expected"), [("manual", []), ("htcondor-25", [("1.0", "slot1@h")])])
def test_a_claimed_slot_without_a_job_is_skipped_as_in_the_manual(
    dialect: str, expected: list[tuple[str, str]]
) -> None:
    pool = Pool(dialect, PREEMPTION_REQUIREMENTS="true")
    pool.slot("slot1@h")
    pool.claim("slot1@h", "bob@here", pair="Claimed/Idle")
    pool.grant("bob", "priority", 50)
    pool.submit("ann")
    assert pool.matched() == expected


# Jobs


def test_a_job_that_cannot_be_matched_never_blocks_the_next() -> None:
    pool = Pool()
    pool.slots(2)
    pool.submit("ann", 2, Requirements="TARGET.Memory > 9999", JobPrio="10")
    pool.submit("ann", 2)
    assert [job for job, _ in pool.matched()] == ["2.0", "2.1"]


@pytest.mark.parametrize(("all_jobs", "considered"), [("false", 1), ("true", 20)])
def test_jobs_like_an_unmatched_one_are_requested_only_if_configured(all_jobs: str, considered: int) -> None:
    pool = Pool(NEGOTIATE_ALL_JOBS_IN_CLUSTER=all_jobs, NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.slots(1)
    pool.submit("ann", 20, Requirements="TARGET.Memory > 9999")
    cycle = pool.hold().held
    assert cycle is not None
    assert cycle.statistics["NumJobsConsidered"] == considered
    assert [rejection.jobs for rejection in cycle.unmatched] == [20]


@pytest.mark.parametrize("constraint", ['Owner == "bob"', "RequestMemory > 500", "undefined", '"text"'])
def test_jobs_outside_the_job_constraint_are_ignored(constraint: str) -> None:
    pool = Pool(NEGOTIATOR_JOB_CONSTRAINT=constraint)
    pool.slots(9)
    pool.submit("ann", 3, {"RequestMemory": ["128", "600", "128"]})
    cycle = pool.hold().held
    expected = [("1.1", "slot1@h")] if "Memory" in constraint else []
    assert [(match.job, match.slot) for match in (cycle.matches if cycle else ())] == expected
    assert cycle is None or cycle.unmatched == ()
