"""Property: which job, and which submitter, comes first."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.events import SlotDestroyed

from .pools import BEGAN, SECOND, Pool

PRIOS = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")


def served_jobs(pool: Pool) -> list[str]:
    return [job for job, _ in pool.matched()]


@pytest.mark.parametrize("name", PRIOS)
def test_higher_priorities_come_first_and_missing_ones_last(name: str) -> None:
    pool = Pool()
    pool.slots(5)
    for text in ("", "3", "-2", "10", "3"):
        pool.submit("ann", **{name: text})
    unset = ["1.0", "3.0"] if name == "JobPrio" else ["3.0", "1.0"]  # a missing JobPrio counts as 0
    assert served_jobs(pool) == ["4.0", "2.0", "5.0", *unset]


@pytest.mark.parametrize(("higher", "lower"), list(itertools.pairwise(PRIOS)))
def test_each_priority_attribute_decides_before_the_next(higher: str, lower: str) -> None:
    pool = Pool()
    pool.slots(3)
    pool.submit("ann", **{higher: "1", lower: "9"})
    pool.submit("ann", **{higher: "2", lower: "1"})
    pool.submit("ann", **{higher: "1", lower: "10"})
    assert served_jobs(pool) == ["2.0", "3.0", "1.0"]


def test_equal_priorities_are_served_in_submission_order() -> None:
    pool = Pool()
    pool.slots(6)
    for _ in range(3):
        pool.submit("ann", 2)
    assert served_jobs(pool) == ["1.0", "1.1", "2.0", "2.1", "3.0", "3.1"]


@given(st.lists(st.lists(st.sampled_from(["-1", "0", "2", ""]), min_size=5, max_size=5), min_size=1, max_size=8))
def test_a_submitters_jobs_are_ordered_by_their_five_priorities(jobs: list[list[str]]) -> None:
    pool = Pool()
    pool.slots(len(jobs))
    for prios in jobs:
        pool.submit("ann", **dict(zip(PRIOS, prios, strict=True)))

    def key(number: int) -> list[float]:
        unset = {"JobPrio": 0.0}
        numbered_jobs = zip(PRIOS, jobs[number - 1], strict=True)
        return [-float(text) if text else unset.get(name, float("inf")) for name, text in numbered_jobs]

    assert served_jobs(pool) == [f"{number}.0" for number in sorted(range(1, len(jobs) + 1), key=key)]


@given(st.data())
def test_jobs_of_one_cluster_may_differ_in_priority(data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.sampled_from(["0", "1", "2"]), min_size=1, max_size=9))
    pool = Pool()
    pool.slots(len(texts) + 1)
    pool.submit("ann", len(texts), {"JobPrio": texts})
    pool.submit("ann", JobPrio="1")
    poolbook_order = [(-int(text), 1, proc) for proc, text in enumerate(texts)]
    assert served_jobs(pool) == [f"{cluster}.{proc}" for _, cluster, proc in sorted([*poolbook_order, (-1, 2, 0)])]


# Submitters


@given(st.permutations(["ann", "bob", "cy", "dee", "eve"]), st.permutations(["ann", "bob", "cy", "dee", "eve"]))
def test_submitters_of_equal_priority_have_the_same_order_regardless_of_who_came_first(
    order_of_one: list[str], other: list[str]
) -> None:
    def order(came: list[str]) -> list[str]:
        pool = Pool()
        pool.slots(5)
        for user in came:
            pool.submit(user)
        return [choice.cluster.submitter for choice in pool.hold().choices]

    assert order(order_of_one) == order(other) == sorted(order(order_of_one))


def test_of_equal_submitters_the_one_with_less_of_its_share_comes_first() -> None:
    pool = Pool(NEGOTIATOR_CONSIDER_PREEMPTION="false")
    pool.slots(4)
    for name, user in (("slot1@h", "ann"), ("slot2@h", "bob"), ("slot3@h", "ann")):
        pool.claim(name, f"{user}@here")
    for user in ("ann", "bob", "cy"):
        pool.submit(user)
    assert [choice.cluster.submitter for choice in pool.hold().choices] == ["cy@here"]


def test_the_best_effective_priority_comes_first() -> None:
    pool = Pool()
    pool.slots(3)
    for user, priority, factor in (("ann", 10, 10), ("bob", 1, 1000), ("cy", 5, 10)):
        pool.submit(user)
        pool.grant(user, "priority", priority)
        pool.grant(user, "factor", factor)
    assert [choice.cluster.submitter for choice in pool.hold().choices] == ["cy@here", "ann@here", "bob@here"]


# Slots


def test_a_slot_that_is_created_again_comes_last_among_equals() -> None:
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK="", NEGOTIATOR_POST_JOB_RANK="")
    pool.slots(3)
    pool.submit("ann", 3)
    assert [slot for _, slot in pool.matched()] == ["slot1@h", "slot2@h", "slot3@h"]
    pool.tell(SlotDestroyed, "configured", "slot1@h")
    pool.slot("slot1@h")
    expected = ["slot2@h", "slot3@h", "slot1@h"]
    assert [slot for _, slot in pool.matched()] == expected
    assert [slot for _, slot in pool.matched(pool.hold(pool.folded()))] == expected


def test_a_rank_that_reads_the_time_is_evaluated_again_in_each_cycle() -> None:
    late = BEGAN // SECOND + 60
    pool = Pool(NEGOTIATOR_PRE_JOB_RANK=f"time() < {late} ? Memory : -Memory")
    pool.slot("slot1@h", Memory="500")
    pool.slot("slot2@h", Memory="600")
    pool.submit("ann")
    assert [slot for _, slot in pool.matched()] == ["slot2@h"]
    pool.now += 100 * SECOND
    assert [slot for _, slot in pool.matched()] == ["slot1@h"]
