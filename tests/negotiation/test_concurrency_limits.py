"""Golden: concurrency limits in a negotiation cycle, by the manual's examples ("Concurrency Limits") and by the
recorded run 11-concurrency (how many of which jobs ran in HTCondor)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.negotiator.job_limits import ConcurrencyLimit, ConcurrencyUse

from .pools import Pool

FREE = 40


def limited(limits: dict[str, str], *jobs: tuple[int, str], slots: int = FREE) -> list[int]:
    """Return how many jobs of each cluster get a slot of a pool with this many free ones."""
    pool = Pool(**limits)
    pool.slots(slots)
    numbers = [pool.submit("ann", count, ConcurrencyLimits=text) for count, text in jobs]
    jobs_by_user = Counter(int(job.partition(".")[0]) for job, _ in pool.matched())
    return [jobs_by_user[number] for number in numbers]


MANUAL = {
    "XSW_LIMIT": "3",
    "CONCURRENCY_LIMIT_DEFAULT": "5",
    "CONCURRENCY_LIMIT_DEFAULT_LARGE": "10",
    "CONCURRENCY_LIMIT_DEFAULT_SMALL": "2",
}
RECORDED = {
    "XSW_LIMIT": "3", "Y_LIMIT": "4", "CONCURRENCY_LIMIT_DEFAULT": "2", "CONCURRENCY_LIMIT_DEFAULT_SMALL": "3",
    "CONCURRENCY_LIMIT_DEFAULT_LARGE": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "jobs", "jobs_by_user"),
    [
        ({"XSW_LIMIT": "3"}, [(5, '"XSW"')], [3]),
        ({"XSW_LIMIT": "3"}, [(5, '"xsw"'), (5, '"Xsw"')], [3, 0]),
        ({"XSW_LIMIT": "3"}, [(9, '"other"')], [9]),
        ({}, [(9, '"XSW"'), (9, '"LARGE.x"')], [9, 9]),
        ({"CONCURRENCY_LIMIT_DEFAULT": "1"}, [(3, '"unnamed"'), (3, '"another"')], [1, 1]),
        (MANUAL, [(5, '"XSW,DATABASE,FILESERVER"')], [3]),
        (MANUAL, [(5, '"XSW,DATABASE,FILESERVER:3"')], [1]),
        (MANUAL, [(30, '"LARGE.SWLICENSE"'), (5, '"LARGE.DBSESSION"'), (9, '"OTHER.LICENSE"')], [10, 5, 5]),
        (MANUAL, [(3, '"SMALL.DBSESSION"'), (3, '"small.other"')], [2, 2]),
        ({**MANUAL, "LARGE.MINE_LIMIT": "4"}, [(9, '"large.mine"'), (20, '"large.yours"')], [4, 10]),
        (RECORDED, [(5, '"xsw"'), (2, '"xsw:2,y:2"'), (2, '"large.x"'), (2, '"large.y"')], [3, 0, 1, 1]),
        (RECORDED, [(4, '"small.a"'), (3, '"someother"'), (1, "")], [3, 2, 1]),
        (RECORDED, [(1, '"xsw:0"'), (1, '"xsw:-1"'), (1, '"xsw:9"'), (3, '"xsw:1.5"')], [1, 1, 0, 0]),
        (RECORDED, [(1, '"xsw:9"'), (3, '"xsw:1.5"'), (1, '"xsw:2"')], [0, 2, 0]),
        (RECORDED, [(2, 'strcat("xsw", ":", 2)')], [1]),
        ({"SWX_LIMIT": "2"}, [(9, '"swx:0.5"')], [4]),
        ({"SWX_LIMIT": "0.3"}, [(9, '"swx:0.1"')], [3]),
        ({"SWX_LIMIT": "1"}, [(9, '"swx:0.3"')], [3]),
        ({"SWX_LIMIT": "2.5"}, [(9, '"swx"')], [2]),
        ({"SWX_LIMIT": "0"}, [(1, '"swx"')], [0]),
        ({"SWX_LIMIT": "-1"}, [(1, '"swx"')], [0]),
        ({"SWX_LIMIT": "3"}, [(3, '"swx:two"')], [3]),
        ({"SWX_LIMIT": "3"}, [(3, '"swx:2x"')], [1]),
        ({"SWX_LIMIT": "3"}, [(3, '"swx:inf"')], [0]),
        ({"SWX_LIMIT": "3"}, [(3, '"swx swx"')], [1]),
        ({"SWX_LIMIT": "0"}, [(3, '"1swx,a.b.c,s-w"'), (3, "undefined"), (3, "17")], [3, 3, 3]),
    ],
    ids=str,
)
def test_limits_bound_the_number_of_matches_of_each_kind_of_job(
    limits: dict[str, str], jobs: list[tuple[int, str]], jobs_by_user: list[int]
) -> None:
    assert limited(limits, *jobs) == jobs_by_user


NETWORKS = {"NETWORK_A_LIMIT": "10", "NETWORK_B_LIMIT": "10", "SWX_LIMIT": "15"}


@pytest.mark.parametrize(
    ("limits", "jobs_by_machine"),
    [
        ("TARGET.NETWORK", {"a": 10, "b": 10}),
        ("NETWORK", {"a": 10, "b": 10}),
        ('strcat("SWX:2 ", TARGET.NETWORK)', {"a": 4, "b": 3}),
        ('strcat("SWX:1 ", TARGET.NETWORK)', {"a": 8, "b": 7}),
        ('strcat("NETWORK_A ", TARGET.NETWORK)', {"a": 3, "b": 4}),
        ('ifThenElse(TARGET.NETWORK == "NETWORK_A", "SWX:4", "network_b:5")', {"a": 3, "b": 2}),
    ],
    ids=str,
)
def test_a_limit_expression_is_evaluated_for_the_network_of_the_slot(
    limits: str, jobs_by_machine: dict[str, int]
) -> None:
    pool = Pool(**NETWORKS)
    pool.slots(12, "a", NETWORK='"NETWORK_A"')
    pool.slots(12, "b", NETWORK='"network_b"')
    pool.submit("ann", 30, ConcurrencyLimits=limits)
    counts_by_machine = Counter(slot.partition("@")[2] for _, slot in pool.matched())
    assert {name: counts_by_machine[name] for name in jobs_by_machine} == jobs_by_machine


def test_a_limit_expression_without_a_value_sets_no_limit() -> None:
    pool = Pool(NETWORK_A_LIMIT="1")
    pool.slots(3, "a", NETWORK='"NETWORK_A"')
    pool.slots(3, "plain")
    pool.submit("ann", 9, ConcurrencyLimits="TARGET.NETWORK")
    assert Counter(slot.partition("@")[2] for _, slot in pool.matched()) == {"a": 1, "plain": 3}


def test_a_match_records_the_limits_that_it_uses_with_their_values() -> None:
    pool = Pool(**NETWORKS)
    pool.slots(1, "a", NETWORK='"NETWORK_A"')
    pool.submit("ann", 1, ConcurrencyLimits='strcat("SWX:2 ", TARGET.NETWORK)')
    cycle = pool.hold().held
    assert cycle is not None
    assert [match.limits for match in cycle.matches] == ["SWX:2 NETWORK_A"]


def test_a_partitionable_slot_is_carved_until_the_limit_is_reached() -> None:
    pool = Pool(XSW_LIMIT="3")
    pool.slot("slot1@h", "partitionable", Cpus="8", Memory="8192", PartitionableSlot="true", X='"xsw"')
    pool.submit("ann", 5, ConcurrencyLimits="TARGET.X")
    pool.submit("ann", 5, ConcurrencyLimits='"xsw"')
    assert [job for job, _ in pool.matched()] == ["1.0", "1.1", "1.2"]


def test_a_job_rejected_by_a_limit_leaves_slots_to_later_jobs() -> None:
    pool = Pool(XSW_LIMIT="1")
    pool.slots(3)
    pool.submit("ann", 5, ConcurrencyLimits='"xsw"')
    pool.submit("ann", 5)
    pool.submit("bob", 1, ConcurrencyLimits='"xsw"')
    assert Counter(job.partition(".")[0] for job, _ in pool.matched()) == {"1": 1, "2": 2}


def test_a_preempted_job_uses_its_limits_until_it_is_gone() -> None:
    """HTCondor frees them at the match, and can exceed a limit that way."""
    pool = Pool(XSW_LIMIT="1", PREEMPTION_REQUIREMENTS="true")
    pool.slots(1)
    pool.submit("ann", 1, ConcurrencyLimits='"xsw"')
    pool.cycle()
    pool.grant("ann", "priority", 1000.0)
    pool.submit("bob", 1, ConcurrencyLimits='"xsw"')
    assert pool.matched() == []
    pool.submit("bob", 1)
    assert pool.matched() == [("3.0", "slot1@h")]


def test_a_rejection_names_the_limits_that_were_reached() -> None:
    pool = Pool(XSW_LIMIT="3", NETWORK_A_LIMIT="1")
    pool.slots(9, NETWORK='"NETWORK_A"')
    pool.submit("ann", 5, ConcurrencyLimits='"xsw:2,y"')
    pool.submit("ann", 2, ConcurrencyLimits="NETWORK")
    cycle = pool.hold().held
    assert cycle is not None
    first, second = cycle.unmatched
    assert (first.job, first.jobs, first.limit, first.taken) == ("1.1", 4, "concurrency", 2)
    assert [(limit.name, limit.used, limit.most, limit.wanted) for limit in first.reached] == [("xsw", 2, 3, 2)]
    assert (second.job, second.jobs, second.limit) == ("2.1", 1, "concurrency")
    assert [(limit.name, limit.used, limit.most, limit.wanted) for limit in second.reached] == [("network_a", 1, 1, 1)]


def test_a_rejection_names_the_limit_even_if_no_slot_is_free() -> None:
    pool = Pool(XSW_LIMIT="1")
    pool.slots(2)
    pool.submit("ann", 5, ConcurrencyLimits='"xsw"')
    pool.submit("ann", 1)
    for _ in range(2):
        cycle = pool.hold().held
        assert cycle is not None
        (rejection,) = cycle.unmatched
        assert [limit.name for limit in rejection.reached] == ["xsw"]


def test_a_reached_limit_is_reported_once_until_it_changes() -> None:
    pool = Pool(XSW_LIMIT="1")
    pool.slots(3)
    pool.submit("ann", 5, ConcurrencyLimits='"xsw"')
    pool.cycle()
    assert pool.hold().held is None


def test_jobs_wait_while_a_claim_uses_a_lowered_limit_infinitely_often() -> None:
    pool = Pool(XSW_LIMIT="5")
    pool.slots(3)
    pool.claim("slot1@h", "ann@here", limits="xsw:inf")
    pool.submit("ann", 2, ConcurrencyLimits='"xsw"')
    assert pool.matched() == []


MAXIMA = st.lists(st.integers(-2, 40), min_size=3, max_size=3)
UNITS = st.lists(st.dictionaries(st.integers(0, 2), st.integers(1, 7)), min_size=4, max_size=4)


@given(MAXIMA, UNITS, st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=80))
def test_interleaved_jobs_get_the_units_that_counting_them_one_by_one_would_leave(
    maxima: list[int], units: list[dict[int, int]], steps: list[tuple[int, bool]]
) -> None:
    limits = [ConcurrencyLimit(f"limit{number}", most, most) for number, most in enumerate(maxima)]
    reserving: dict[str, ConcurrencyUse] = {}
    uses = [
        ConcurrencyUse(str(number), tuple((limits[limit], amount) for limit, amount in use.items()), reserving)
        for number, use in enumerate(units)
    ]
    left = list(maxima)
    for number, takes in steps:
        short = sorted(f"limit{limit}" for limit, amount in units[number].items() if left[limit] < amount)
        assert uses[number].has_room() == (not short)
        if takes and not short:
            uses[number].take_units(0)
            left = [each - units[number].get(limit, 0) for limit, each in enumerate(left)]
        elif takes:
            assert [limit.name for limit in uses[number].stopping_limits()] == short
