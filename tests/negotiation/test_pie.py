"""Property: how the pie is divided ("The Layperson's Description of the Pie Spin and Pie Slice")."""

from __future__ import annotations

import pytest

from poolbook.domain.events import Unmatched

from .pools import Pool


def pool_of(slots: int, jobs: dict[str, int], /, **configured: str) -> Pool:
    pool = Pool(**configured)
    pool.slots(slots)
    for user, count in jobs.items():
        pool.submit(user, count)
    return pool


def reasons(pool: Pool) -> dict[str, Unmatched]:
    cycle = pool.hold().held
    return {} if cycle is None else {rejection.submitter.partition("@")[0]: rejection for rejection in cycle.unmatched}


@pytest.mark.parametrize(
    ("slots", "jobs", "first", "then"),
    [
        (8, {"ann": 9, "bob": 9}, {"ann": 4, "bob": 4}, {}),
        (9, {"ann": 9, "bob": 9}, {"ann": 4, "bob": 4}, {"ann": 1}),
        (10, {"ann": 9, "bob": 9, "cy": 9}, {"ann": 3, "bob": 3, "cy": 3}, {"ann": 1}),
        (11, {"ann": 9, "bob": 9, "cy": 9}, {"ann": 3, "bob": 3, "cy": 3}, {"ann": 1, "bob": 1}),
        (3, {"ann": 9, "bob": 1}, {"ann": 2, "bob": 1}, {}),
    ],
)
def test_equal_submitters_get_equal_slices_and_a_remainder_waits_for_the_next_cycle(
    slots: int, jobs: dict[str, int], first: dict[str, int], then: dict[str, int]
) -> None:
    pool = pool_of(slots, jobs)
    assert pool.match_counts(pool.cycle()) == first
    assert pool.match_counts(pool.cycle()) == then


def test_slices_are_measured_in_slot_weights_and_not_in_slots() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="-SlotID", NEGOTIATOR_POST_JOB_RANK="")
    for number, cpus in enumerate((4, 1, 1, 1, 1), 1):
        pool.slot(f"slot{number}@h", Cpus=str(cpus))
    pool.submit("ann", 9)
    pool.submit("bob", 9)
    assert pool.match_counts() == {"ann": 1, "bob": 4}  # 4 cores each


@pytest.mark.parametrize(("text", "weight"), [("-1", 1), ('"heavy"', 1), ("undefined", 1), ("2.5", 2.5), ("true", 1)])
def test_an_invalid_weight_counts_as_one(text: str, weight: float) -> None:
    pool = Pool()
    pool.slots(1, SlotWeight=text, Cpus="8")
    pool.submit("ann")
    assert [choice.cores for choice in pool.hold().choices] == [weight]


def test_without_user_priorities_everyone_gets_everything() -> None:
    pool = pool_of(6, {"ann": 9, "bob": 9}, NEGOTIATOR_IGNORE_USER_PRIORITIES="true")
    assert pool.match_counts() == {"ann": 6}


def test_only_slots_of_the_pool_size_constraint_make_the_pie() -> None:
    pool = Pool(NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT="Memory > 1000", NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.slots(4)
    pool.slots(4, "small", Memory="512")
    pool.submit("ann", 8, Requirements="TARGET.Memory < 1000")
    pool.submit("bob", 8, Requirements="TARGET.Memory > 1000")
    assert pool.match_counts() == {"ann": 2, "bob": 2}


@pytest.mark.parametrize("constraint", ["Memory > 1000", "(Memory > 1000) * -1", "Memory > 1000 || undefined"])
def test_slots_outside_the_slot_constraint_are_ignored(constraint: str) -> None:
    pool = Pool(NEGOTIATOR_SLOT_CONSTRAINT=constraint)
    pool.slots(2, "small", Memory="512", SlotWeight="0.1")
    pool.slots(2)
    pool.submit("ann", 4)
    assert [slot for _, slot in pool.matched()] == ["slot1@h", "slot2@h"]


# Floors


def test_a_submitter_below_its_floor_negotiates_first_whatever_its_priority() -> None:
    pool = pool_of(4, {"ann": 9, "bob": 9})
    pool.grant("bob", "priority", 1000)
    assert pool.hold().choices[0].cluster.submitter == "ann@here"
    pool.grant("bob", "floor", 3)
    cycle = pool.hold()
    assert pool.match_counts(cycle) == {"bob": 3, "ann": 1}
    assert [choice.cluster.submitter for choice in cycle.choices] == ["bob@here"] * 3 + ["ann@here"]


def test_current_usage_counts_for_the_floor() -> None:
    pool = pool_of(4, {"ann": 9, "bob": 9})
    pool.grant("bob", "priority", 1000)
    pool.grant("bob", "floor", 2)
    pool.claim("slot4@h", "bob@here")
    assert pool.match_counts() == {"bob": 1, "ann": 2}


def test_submitters_below_their_floors_are_ordered_by_priority() -> None:
    pool = pool_of(3, {"ann": 9, "bob": 9, "cy": 9})
    for user, priority in (("ann", 5), ("bob", 4)):
        pool.grant(user, "floor", 1)
        pool.grant(user, "priority", priority)
    order = [choice.cluster.submitter for choice in pool.hold().choices]
    assert order == ["bob@here", "ann@here", "cy@here"]


# Ceilings


@pytest.mark.parametrize("ceiling", [0, 1, 3, 5])
def test_no_one_gets_more_than_its_ceiling(ceiling: int) -> None:
    pool = pool_of(6, {"ann": 9})
    pool.grant("ann", "ceiling", ceiling)
    assert pool.match_counts().get("ann", 0) == ceiling
    assert reasons(pool)["ann"].limit == "ceiling"
    assert reasons(pool)["ann"].allowed == ceiling


def test_others_get_what_a_ceiling_leaves() -> None:
    pool = pool_of(6, {"ann": 9, "bob": 9})
    pool.grant("ann", "ceiling", 1)
    assert pool.match_counts() == {"ann": 1, "bob": 5}


def test_a_slot_too_heavy_for_a_ceiling_is_passed_over_for_a_lighter_one() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="Cpus")
    for number, cpus in enumerate((1, 4, 2), 1):
        pool.slot(f"slot{number}@h", Cpus=str(cpus))
    pool.submit("ann", 9)
    pool.grant("ann", "ceiling", 3)
    assert [slot for _, slot in pool.matched()] == ["slot3@h", "slot1@h"]


def test_the_ceiling_is_reported_for_a_group_whose_only_waiting_jobs_are_at_it() -> None:
    """The group's usage is that of members that take no part in the cycle."""
    pool = Pool(GROUP_NAMES="g", GROUP_QUOTA_g="5")
    pool.slots(2, Start="TARGET.SubmitterGroupResourcesInUse < 5")
    pool.grant("g.bob", "factor", 10)
    pool.submit("g.ann")
    pool.grant("g.ann", "ceiling", 0)
    assert [(reason.limit, reason.clauses[-1].left) for reason in reasons(pool).values()] == [("ceiling", 2)]


# Remainders, and who counts


def test_a_remainder_lighter_than_any_slot_does_not_leave_the_slot_free() -> None:
    """Each of three submitters deserves a third of a core: the first of them gets the slot."""
    assert pool_of(1, {"ann": 1, "bob": 1, "cy": 1}).match_counts() == {"ann": 1}


def test_a_submitter_above_its_share_gets_nothing_while_others_want_slots() -> None:
    pool = pool_of(4, {"ann": 9, "bob": 9})
    pool.claim("slot1@h", "ann@here")
    pool.claim("slot2@h", "ann@here")
    assert pool.match_counts() == {"bob": 2}
    assert reasons(pool)["ann"].limit == "share"
    assert (reasons(pool)["ann"].allowed, reasons(pool)["ann"].used) == (2, 2)


@pytest.mark.parametrize(("preemption", "jobs_by_user"), [("true", {"ann": 2}), ("false", {"ann": 2})])
def test_a_submitter_without_idle_jobs_has_a_slice_that_others_get(
    preemption: str, jobs_by_user: dict[str, int]
) -> None:
    pool = pool_of(4, {"ann": 9}, NEGOTIATOR_CONSIDER_PREEMPTION=preemption)
    pool.claim("slot1@h", "bob@here")
    pool.claim("slot2@h", "bob@here")
    assert pool.match_counts() == jobs_by_user


def test_the_statistics_of_the_last_cycle_report_its_decisions() -> None:
    pool = pool_of(4, {"ann": 3, "bob": 3})
    pool.submit("bob", 2, Requirements="false")
    cycle = pool.hold().held
    assert cycle is not None
    expected = {"TotalSlots": 4, "CandidateSlots": 4, "Matches": 4, "NumIdleJobs": 8, "ActiveSubmitterCount": 2}
    assert {name: cycle.statistics[name] for name in expected} == expected
