"""Golden: what the manual's page says that negotiation comes to ("User Priorities and Negotiation")."""

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
    """Users A, B and C with the effective priorities 5, 10 and 20."""
    pool = Pool(**NO_RANKS, **more)
    pool.slots(slots)
    for user, priority, count in zip("ABC", (5, 10, 20), jobs, strict=True):
        pool.submit(user, count)
        pool.grant(user, "priority", priority)
        pool.grant(user, "factor", 1)
    return pool


# Shares


@pytest.mark.parametrize("preemption", ["true", "false"])
def test_five_gets_twice_as_many_as_ten_and_four_times_as_many_as_twenty(preemption: str) -> None:
    pool = three_users(70, 70, 70, 70, NEGOTIATOR_CONSIDER_PREEMPTION=preemption)
    assert pool.got() == {"A": 40, "B": 20, "C": 10}


def test_what_one_does_not_use_is_distributed_among_the_others() -> None:
    """The pie is spun again for B and C, 2 to 1: of all 70 cores, as the reference has it, so that B, who goes first,
    gets 46 of the 46.7 that it would have if A were not there, and C what is left of its 23.3."""
    assert three_users(70, 10, 70, 70).got() == {"A": 10, "B": 46, "C": 14}


def test_a_factor_of_2000_grants_half_as_many_cores_as_one_of_1000() -> None:
    pool = Pool(**NO_RANKS)
    pool.slots(30)
    pool.submit("ann", 30)
    pool.submit("bob", 30)
    pool.grant("bob", "factor", 2000)
    assert pool.got() == {"ann": 20, "bob": 10}


def test_a_hundred_cores_are_shared_alike_in_the_end() -> None:
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
            pool.ends(name)
        cycle = pool.cycle()
        if not had:
            priorities = cycle.priorities.priorities if cycle.priorities else {}
            assert priorities["A@here"] == pytest.approx(75.125)  # "should be about 75.0 at the 48 hour mark"
            assert pool.state.submitters["B@here"].priority == 0.5  # "User B deserves 150 times User A"
        had.append(pool.has()["A"])
        pool.now += 4 * HOUR
    assert had[0] == 1  # "will drop from all 100 cores to less than one core immediately": to the least there is
    assert 5 <= had[1] <= 25  # "but will quickly rebound to a handful of cores"
    assert all(
        after >= before - 1 for before, after in pairwise(had)
    )  # what is less than a core goes to one or the other
    assert all(49 <= cores <= 51 for cores in had[30:])  # "and will asymptotically approach half of the pool"


# Slots


def ranked(**more: str) -> Pool:
    """The five slots of table 3.1, which say of themselves what they are ranked by."""
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="Before", NEGOTIATOR_POST_JOB_RANK="After", **more)
    for name, (pre, rank, post) in TABLE.items():
        pool.slot(f"{name}@h", Before=str(pre), Wanted=str(rank), After=str(post))
    return pool


def test_slots_are_sorted_by_the_rank_before_then_the_jobs_own_then_the_rank_after() -> None:
    """Table 3.2, and which slots three jobs are given."""
    pool = ranked()
    pool.submit("ann", 5, Rank="TARGET.Wanted")
    given = pool.matched()
    assert [slot.partition("@")[0] for _, slot in given] == ["slot5", "slot3", "slot2", "slot1", "slot4"]
    assert [job for job, _ in given] == ["1.0", "1.1", "1.2", "1.3", "1.4"]
    three = ranked()
    three.submit("ann", 3, Rank="TARGET.Wanted")
    assert [slot for _, slot in three.matched()] == ["slot5@h", "slot3@h", "slot2@h"]


def test_a_match_says_the_ranks_that_decided() -> None:
    pool = ranked()
    pool.submit("ann", 1, Rank="TARGET.Wanted")
    held = pool.hold().held
    assert held is not None
    assert (held.matches[0].pre, held.matches[0].rank, held.matches[0].post) == (200, 1, 50)


@pytest.mark.parametrize(("rank", "is_told"), [("", 0.0), ("7", 7.0), ("true", 1.0), ('"best"', 0.0), ("2.5", 2.5)])
def test_a_rank_that_is_the_same_for_all_slots_is_told_as_it_is(rank: str, is_told: float) -> None:
    pool = Pool(**NO_RANKS)
    pool.slot("slot1@h")
    pool.slot("slot2@h", Rank='TARGET.Owner == "ann"')
    pool.claim("slot2@h", "bob@here")
    pool.submit("ann", 2, Rank=rank)
    held = pool.hold().held
    assert held is not None
    assert [(match.reason, match.rank, match.pre, match.post) for match in held.matches] == [
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
def test_a_slot_is_skipped_where_one_of_the_requirements_is_not_true(slot: dict[str, str], job: dict[str, str]) -> None:
    pool = Pool()
    pool.slot("slot1@h", **slot)
    pool.submit("ann", 1, **job)
    assert pool.matched() == []
    pool.slot("slot2@h")
    pool.submit("cy", 2)
    assert len(pool.matched()) == len(pool.state.slots) - bool(slot)


@pytest.mark.parametrize(("dialect", "given"), [("manual", []), ("htcondor-25", [("1.0", "slot1@h")])])
def test_a_claimed_slot_that_runs_no_job_is_skipped_as_the_manual_has_it(
    dialect: str, given: list[tuple[str, str]]
) -> None:
    pool = Pool(dialect, PREEMPTION_REQUIREMENTS="true")
    pool.slot("slot1@h")
    pool.claim("slot1@h", "bob@here", pair="Claimed/Idle")
    pool.grant("bob", "priority", 50)
    pool.submit("ann")
    assert pool.matched() == given


# Jobs


def test_a_job_that_cannot_be_matched_never_blocks_the_next() -> None:
    pool = Pool()
    pool.slots(2)
    pool.submit("ann", 2, Requirements="TARGET.Memory > 9999", JobPrio="10")
    pool.submit("ann", 2)
    assert [job for job, _ in pool.matched()] == ["2.0", "2.1"]


@pytest.mark.parametrize(("all_jobs", "considered"), [("false", 1), ("true", 20)])
def test_the_like_of_a_job_that_got_nothing_are_asked_for_only_if_it_is_configured(
    all_jobs: str, considered: int
) -> None:
    pool = Pool(NEGOTIATE_ALL_JOBS_IN_CLUSTER=all_jobs, NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.slots(1)
    pool.submit("ann", 20, Requirements="TARGET.Memory > 9999")
    held = pool.hold().held
    assert held is not None
    assert held.statistics["NumJobsConsidered"] == considered
    assert [one.jobs for one in held.unmatched] == [20]


@pytest.mark.parametrize("constraint", ['Owner == "bob"', "RequestMemory > 500", "undefined", '"text"'])
def test_jobs_outside_the_job_constraint_are_not_looked_at(constraint: str) -> None:
    pool = Pool(NEGOTIATOR_JOB_CONSTRAINT=constraint)
    pool.slots(9)
    pool.submit("ann", 3, {"RequestMemory": ["128", "600", "128"]})
    held = pool.hold().held
    wanted = [("1.1", "slot1@h")] if "Memory" in constraint else []
    assert [(match.job, match.slot) for match in (held.matches if held else ())] == wanted
    assert held is None or held.unmatched == ()
