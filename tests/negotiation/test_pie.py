"""Property: how the pie is cut ("The Layperson's Description of the Pie Spin and Pie Slice")."""

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
    held = pool.hold().held
    return {} if held is None else {one.submitter.partition("@")[0]: one for one in held.unmatched}


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
def test_equals_get_equal_parts_and_what_is_less_than_a_slot_for_each_waits_for_the_next_cycle(
    slots: int, jobs: dict[str, int], first: dict[str, int], then: dict[str, int]
) -> None:
    pool = pool_of(slots, jobs)
    assert pool.got(pool.cycle()) == first
    assert pool.got(pool.cycle()) == then


def test_slices_are_of_slot_weights_and_not_of_slots() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="-SlotID", NEGOTIATOR_POST_JOB_RANK="")
    for number, cpus in enumerate((4, 1, 1, 1, 1), 1):
        pool.slot(f"slot{number}@h", Cpus=str(cpus))
    pool.submit("ann", 9)
    pool.submit("bob", 9)
    assert pool.got() == {"ann": 1, "bob": 4}  # 4 cores each


@pytest.mark.parametrize(("text", "weight"), [("-1", 1), ('"heavy"', 1), ("undefined", 1), ("2.5", 2.5), ("true", 1)])
def test_what_is_no_weight_counts_as_one(text: str, weight: float) -> None:
    pool = Pool()
    pool.slots(1, SlotWeight=text, Cpus="8")
    pool.submit("ann")
    assert [choice.cores for choice in pool.hold().choices] == [weight]


def test_everybody_gets_everything_without_user_priorities() -> None:
    pool = pool_of(6, {"ann": 9, "bob": 9}, NEGOTIATOR_IGNORE_USER_PRIORITIES="true")
    assert pool.got() == {"ann": 6}


def test_only_slots_of_the_pool_size_constraint_make_the_pie() -> None:
    pool = Pool(NEGOTIATOR_SLOT_POOLSIZE_CONSTRAINT="Memory > 1000", NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.slots(4)
    pool.slots(4, "small", Memory="512")
    pool.submit("ann", 8, Requirements="TARGET.Memory < 1000")
    pool.submit("bob", 8, Requirements="TARGET.Memory > 1000")
    assert pool.got() == {"ann": 2, "bob": 2}


@pytest.mark.parametrize("constraint", ["Memory > 1000", "(Memory > 1000) * -1", "Memory > 1000 || undefined"])
def test_slots_outside_the_slot_constraint_are_not_there(constraint: str) -> None:
    pool = Pool(NEGOTIATOR_SLOT_CONSTRAINT=constraint)
    pool.slots(2, "small", Memory="512", SlotWeight="0.1")
    pool.slots(2)
    pool.submit("ann", 4)
    assert [slot for _, slot in pool.matched()] == ["slot1@h", "slot2@h"]


# Floors


def test_who_is_below_its_floor_negotiates_first_whatever_its_priority() -> None:
    pool = pool_of(4, {"ann": 9, "bob": 9})
    pool.grant("bob", "priority", 1000)
    assert pool.hold().choices[0].cluster.submitter == "ann@here"
    pool.grant("bob", "floor", 3)
    cycle = pool.hold()
    assert pool.got(cycle) == {"bob": 3, "ann": 1}
    assert [choice.cluster.submitter for choice in cycle.choices] == ["bob@here"] * 3 + ["ann@here"]


def test_what_a_user_has_already_counts_for_its_floor() -> None:
    pool = pool_of(4, {"ann": 9, "bob": 9})
    pool.grant("bob", "priority", 1000)
    pool.grant("bob", "floor", 2)
    pool.claim("slot4@h", "bob@here")
    assert pool.got() == {"bob": 1, "ann": 2}


def test_those_below_their_floors_go_by_priority_among_themselves() -> None:
    pool = pool_of(3, {"ann": 9, "bob": 9, "cy": 9})
    for user, priority in (("ann", 5), ("bob", 4)):
        pool.grant(user, "floor", 1)
        pool.grant(user, "priority", priority)
    order = [choice.cluster.submitter for choice in pool.hold().choices]
    assert order == ["bob@here", "ann@here", "cy@here"]


# Ceilings


@pytest.mark.parametrize("ceiling", [0, 1, 3, 5])
def test_nobody_gets_more_than_its_ceiling(ceiling: int) -> None:
    pool = pool_of(6, {"ann": 9})
    pool.grant("ann", "ceiling", ceiling)
    assert pool.got().get("ann", 0) == ceiling
    assert reasons(pool)["ann"].limit == "ceiling"
    assert reasons(pool)["ann"].allowed == ceiling


def test_what_a_ceiling_leaves_others_get() -> None:
    pool = pool_of(6, {"ann": 9, "bob": 9})
    pool.grant("ann", "ceiling", 1)
    assert pool.got() == {"ann": 1, "bob": 5}


def test_a_slot_that_is_too_heavy_for_a_ceiling_is_passed_over_for_a_lighter_one() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="Cpus")
    for number, cpus in enumerate((1, 4, 2), 1):
        pool.slot(f"slot{number}@h", Cpus=str(cpus))
    pool.submit("ann", 9)
    pool.grant("ann", "ceiling", 3)
    assert [slot for _, slot in pool.matched()] == ["slot3@h", "slot1@h"]


def test_of_a_group_whose_only_jobs_wait_for_a_ceiling_the_reason_is_told_whoever_else_is_a_member() -> None:
    """The group's usage is that of members who take no part in the cycle."""
    pool = Pool(GROUP_NAMES="g", GROUP_QUOTA_g="5")
    pool.slots(2, Start="TARGET.SubmitterGroupResourcesInUse < 5")
    pool.grant("g.bob", "factor", 10)
    pool.submit("g.ann")
    pool.grant("g.ann", "ceiling", 0)
    assert [(one.limit, one.clauses[-1].left) for one in reasons(pool).values()] == [("ceiling", 2)]


# Crumbs, and who counts


def test_a_crumb_that_is_lighter_than_any_slot_is_no_reason_to_leave_the_slot_free() -> None:
    """Each of three is due a third of a core: the first of them has the slot."""
    assert pool_of(1, {"ann": 1, "bob": 1, "cy": 1}).got() == {"ann": 1}


def test_who_has_more_than_its_share_gets_nothing_while_others_want_it() -> None:
    pool = pool_of(4, {"ann": 9, "bob": 9})
    pool.claim("slot1@h", "ann@here")
    pool.claim("slot2@h", "ann@here")
    assert pool.got() == {"bob": 2}
    assert reasons(pool)["ann"].limit == "share"
    assert (reasons(pool)["ann"].allowed, reasons(pool)["ann"].used) == (2, 2)


@pytest.mark.parametrize(("preemption", "got"), [("true", {"ann": 2}), ("false", {"ann": 2})])
def test_who_only_runs_jobs_has_a_slice_but_leaves_what_it_does_not_ask_for(
    preemption: str, got: dict[str, int]
) -> None:
    pool = pool_of(4, {"ann": 9}, NEGOTIATOR_CONSIDER_PREEMPTION=preemption)
    pool.claim("slot1@h", "bob@here")
    pool.claim("slot2@h", "bob@here")
    assert pool.got() == got


def test_the_last_cycles_statistics_tell_what_it_did() -> None:
    pool = pool_of(4, {"ann": 3, "bob": 3})
    pool.submit("bob", 2, Requirements="false")
    held = pool.hold().held
    assert held is not None
    wanted = {"TotalSlots": 4, "CandidateSlots": 4, "Matches": 4, "NumIdleJobs": 8, "ActiveSubmitterCount": 2}
    assert {name: held.statistics[name] for name in wanted} == wanted
