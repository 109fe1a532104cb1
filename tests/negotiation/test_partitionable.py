"""Property: a partitionable slot is matched by many jobs in one cycle, while enough of it remains."""

from __future__ import annotations

import pytest

from ..together import together
from .pools import Pool

NO_RANKS = {"NEGOTIATOR_PRE_JOB_RANK": "", "NEGOTIATOR_POST_JOB_RANK": ""}
FITS = "TARGET.RequestCpus <= MY.Cpus && TARGET.RequestMemory <= MY.Memory"
BY_POLICY = {
    "ConsumptionCpus": "quantize(TARGET.RequestCpus, {2})",
    "ConsumptionMemory": "quantize(TARGET.RequestMemory, {512})",
    "ConsumptionDisk": "0",
}


def partitionable(pool: Pool, machine: str = "h", cpus: int = 8, /, **more: str) -> None:
    ad = {"Cpus": str(cpus), "Memory": "8192", "PartitionableSlot": "true", "WithinResourceLimits": FITS}
    pool.slot(f"slot1@{machine}", "partitionable", **ad | more)


def jobs_by_machine(pool: Pool) -> dict[str, int]:
    """Return how many jobs each machine gets."""
    counts: dict[str, int] = {}
    for _, slot in pool.matched():
        machine = slot.partition("@")[2]
        counts[machine] = counts.get(machine, 0) + 1
    return counts


@together(
    ("job", "more", "count"),
    [
        ({}, {}, 8),
        ({"RequestCpus": "2"}, {}, 4),
        ({"RequestCpus": "3"}, {}, 2),
        ({"RequestMemory": "3000"}, {}, 2),
        ({"RequestCpus": "9"}, {}, 0),
        ({"RequestCpus": "undefined", "Requirements": "true"}, {"WithinResourceLimits": "true"}, 8),
        ({}, BY_POLICY, 4),
        ({"RequestMemory": "1100"}, BY_POLICY, 4),
        ({"RequestMemory": "2100"}, BY_POLICY, 3),
        ({}, {"MODIFY_REQUEST_EXPR_REQUESTCPUS": "quantize(RequestCpus, {4})"}, 8),
    ],
)
def test_jobs_get_parts_until_too_little_remains(job: dict[str, str], more: dict[str, str], count: int) -> None:
    pool = Pool(**NO_RANKS)
    partitionable(pool, **more)
    pool.submit("ann", 20, **job)
    if "MODIFY_REQUEST_EXPR_REQUESTCPUS" in more:
        count = 2  # 4 cores each, then the exact request where less than 4 remain: nothing remains
    assert jobs_by_machine(pool) == ({"h": count} if count else {})


@pytest.mark.parametrize(
    ("dialect", "names"),
    [("manual", ["slot1_1@h", "slot1_3@h", "slot1_4@h"]), ("htcondor-25", ["slot1@h"] * 3)],
)
def test_each_match_names_the_slot_that_the_startd_lets_the_schedd_claim(dialect: str, names: list[str]) -> None:
    """That is the dynamic slot if the match carves it, and the partitionable one if the claim does."""
    pool = Pool(dialect, **NO_RANKS)
    partitionable(pool, "h", 3)
    pool.slot("slot1_2@h", "dynamic", "slot1@h")
    pool.claim("slot1_2@h", "bob@here")
    pool.submit("ann", 9)
    assert [slot for _, slot in pool.matched()] == names


@together(
    ("condition", "more", "count"),
    [
        ("TARGET.Memory > 8000", {}, 2),
        ("TARGET.Special > 80", {"Special": "Memory / 100"}, 1),
        ("TARGET.Special", {"Special": "Memory > 8000"}, 2),
        ("true", {"Requirements": "Memory > 8000"}, 2),
        ("true", {"Requirements": "Start", "Start": "Special > 80", "Special": "Memory / 100"}, 1),
    ],
)
def test_a_remainder_matches_only_while_its_current_ad_does(condition: str, more: dict[str, str], count: int) -> None:
    for statics in range(2):  # without another slot, all slots have equal values
        pool = Pool(**NO_RANKS)
        partitionable(pool, **more)
        for _ in range(statics):
            pool.slot("slot1@other", Memory="256", Special="1", Start="false", Requirements="Start")
        pool.submit("ann", 8, Requirements=condition)
        assert jobs_by_machine(pool) == {"h": count}


def test_jobs_of_different_kinds_and_users_share_a_partitionable_slot() -> None:
    pool = Pool(**NO_RANKS)
    partitionable(pool)
    pool.submit("ann", 9, RequestCpus="2")
    pool.submit("bob", 9, RequestCpus="1")
    assert pool.match_counts() == {"ann": 2, "bob": 4}


@pytest.mark.parametrize(
    ("rank", "order"),
    [
        ("-Cpus", "aaaabbbb"),  # a carved slot ranks better than a whole one
        ("Cpus", "abababab"),
        ("", "aaaabbbb"),
        ("-Memory", "aaaabbbb"),
    ],
)
def test_the_remainder_is_ranked_by_its_current_size(rank: str, order: str) -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK=rank, NEGOTIATOR_POST_JOB_RANK="")
    for machine in "ab":
        partitionable(pool, machine, 4)
    pool.submit("ann", 8)
    assert "".join(slot[-1] for _, slot in pool.matched()) == order


def test_a_slot_carved_by_another_kind_of_job_may_rank_better_than_before() -> None:
    """The second machine came after the first in the order that the second kind would have found at the start."""
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="-Cpus", NEGOTIATOR_POST_JOB_RANK="")
    for machine in "ab":
        partitionable(pool, machine, 4)
    pool.submit("ann", 1, Requirements='TARGET.Machine == "b"')
    pool.submit("ann", 1)
    assert [slot for _, slot in pool.matched()] == ["slot1@b", "slot1@b"]


def test_a_slot_already_considered_for_a_kind_of_job_may_rank_better_after_another_kind_carves_it() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="-Cpus", NEGOTIATOR_POST_JOB_RANK="")
    partitionable(pool, "a", 4)
    partitionable(pool, "b", 6)
    pool.submit("ann", 1, JobPrio="3")
    pool.submit("ann", 1, JobPrio="2", Requirements='TARGET.Machine == "b"', RequestCpus="4")
    pool.submit("ann", 1, JobPrio="1", RequestMemory="129")
    pool.submit("ann", 1, JobPrio="0")
    assert [slot[-1] for _, slot in pool.matched()] == ["a", "b", "b", "b"]


@pytest.mark.parametrize(("weight", "cores"), [("", 2.0), ("Cpus", 2.0), ("Memory / 1024.0", 0.5), ("3", 3.0)])
def test_a_part_counts_by_its_weight(weight: str, cores: float) -> None:
    pool = Pool(**NO_RANKS)
    partitionable(pool, SlotWeight=weight)
    pool.submit("ann", 1, RequestCpus="2", RequestMemory="512")
    assert [choice.cores for choice in pool.hold().choices] == [cores]


@together(
    ("weight", "costs"),
    [
        ("", [2.0, 2.0]),
        ("Cpus", [2.0, 2.0]),
        ("Cpus + Memory / 1024.0", [2.5, 2.5]),
        ("Cpus * Cpus", [28.0, 20.0]),  # 64 - 36, 36 - 16
        ("3", [0.0, 0.0]),  # the remainder has the same weight
    ],
)
def test_under_a_consumption_policy_a_part_counts_for_the_weight_that_the_slot_loses(
    weight: str, costs: list[float]
) -> None:
    assert _costs(weight) == costs
    first = _costs(weight, NEGOTIATOR_USE_SLOT_WEIGHTS="False")[0]  # then the share of a pool of one slot is used up
    assert first == costs[0]


def _costs(weight: str, **settings: str) -> list[float]:
    pool = Pool(**NO_RANKS, **settings)
    partitionable(pool, **BY_POLICY, SlotWeight=weight)
    pool.submit("ann", 2, RequestCpus="1", RequestMemory="100")
    return [choice.cores for choice in pool.hold().choices]


def test_parts_are_given_within_the_share_and_the_ceiling() -> None:
    pool = Pool(**NO_RANKS)
    partitionable(pool)
    pool.slots(1, "small", Start="false")
    pool.submit("ann", 9, RequestCpus="1")
    pool.submit("bob", 9, RequestCpus="2")
    pool.grant("ann", "ceiling", 3)
    assert pool.match_counts() == {"ann": 3, "bob": 2}


@together(
    ("ceiling", "further", "expected"),
    [(5, 0, {}), (8, 0, {"ann": 8}), (5, 1, {"ann": 5}), (0, 1, {})],
)
def test_a_submitter_whose_ceiling_is_below_the_lightest_whole_slot_gets_nothing(
    ceiling: int, further: int, expected: dict[str, int]
) -> None:
    """As recorded: minSlotWeight is 8 for a partitionable slot of 8 cores, and a ceiling of 5 leaves 8 jobs idle."""
    pool = Pool(**NO_RANKS)
    partitionable(pool)
    pool.slots(further, "small", Start="false")
    pool.submit("ann", 8)
    pool.grant("ann", "ceiling", ceiling)
    assert pool.match_counts() == expected


def test_a_second_spin_gives_nothing_if_the_pie_is_lighter_than_the_lightest_whole_slot() -> None:
    pool = Pool(**NO_RANKS)
    partitionable(pool)
    pool.submit("ann", 1)
    pool.submit("bob", 9)
    assert pool.match_counts() == {"ann": 1, "bob": 4}
    small = Pool(**NO_RANKS)
    partitionable(small)
    small.slots(1, "small", Start="false")
    small.submit("ann", 1)
    small.submit("bob", 9)
    assert small.match_counts() == {"ann": 1, "bob": 7}


def test_a_rank_that_reads_the_remainder_is_recorded_as_it_was_at_the_decision() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="-Cpus", NEGOTIATOR_POST_JOB_RANK="")
    partitionable(pool, "h", 3)
    pool.submit("ann", 3, Rank="TARGET.Memory")
    cycle = pool.hold().held
    assert cycle is not None
    assert [(match.pre, match.rank) for match in cycle.matches] == [(-3, 8192), (-2, 8064), (-1, 7936)]
