"""Property: jobs of one autocluster get the same answers, whatever distinguishes them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain import events as e
from poolbook.domain.requests import autoclusters
from poolbook.domain.requests.autoclusters import autoclusters_of
from poolbook.domain.state.cluster import IDLE

from ..together import together
from .oracle import Negotiation
from .pools import SECOND, Pool, random_pool, run_random_events


@given(st.integers(0, 2**32 - 1))
def test_jobs_of_one_autocluster_accept_the_same_slots(seed: int) -> None:
    pool = random_pool(seed)
    run_random_events(pool, random.Random(seed), 5)
    alike, oracle = autoclusters_of(pool.state, pool.caches), Negotiation(pool.folded(), pool.now, pool.context())
    answers: dict[object, object] = {}
    for user in list(oracle.users.values()):
        for job in user.jobs:
            cluster = pool.state.clusters[job.cluster]
            assert cluster.status[job.proc] == IDLE
            kind = user.name, alike.signature(cluster, job.proc)
            accepted = [oracle.is_accepted(user, job, offer) for offer in oracle.offers]
            assert answers.setdefault(kind, accepted) == accepted


def autocluster_count(pool: Pool) -> int:
    """Return the number of autoclusters of the idle jobs."""
    alike = autoclusters_of(pool.state, pool.caches)
    clusters = pool.state.clusters.values()
    return len({alike.signature(cluster, proc) for cluster in clusters for proc in cluster.procs()})


@together(
    ("slot", "count"),
    [
        ({}, 1),
        ({"Start": 'TARGET.Department == "physics"'}, 2),
        ({"Start": 'Department == "physics"'}, 2),
        ({"Start": "IsGood", "IsGood": 'TARGET.Department == "physics"'}, 2),
        ({"Start": "MY.IsGood", "IsGood": "isbetter", "IsBetter": 'TARGET.Department == "physics"'}, 2),
        ({"Rank": 'TARGET.Department == "physics"'}, 2),
        ({"Other": 'TARGET.Department == "physics"'}, 1),
    ],
)
def test_attributes_that_slot_conditions_read_indirectly_separate_autoclusters(
    slot: dict[str, str], count: int
) -> None:
    pool = Pool()
    pool.slot("slot1@h", **slot)
    for department in ("physics", "chemistry"):
        pool.submit("ann", Department=f'"{department}"')
    assert autocluster_count(pool) == count


@together(
    ("configured", "count"),
    [
        ({}, 2),
        ({"SIGNIFICANT_ATTRIBUTES": "Size"}, 4),
        ({"SIGNIFICANT_ATTRIBUTES": "Other"}, 1),
        ({"ADD_SIGNIFICANT_ATTRIBUTES": "Size"}, 8),
        ({"REMOVE_SIGNIFICANT_ATTRIBUTES": "Department"}, 1),
        ({"REMOVE_SIGNIFICANT_ATTRIBUTES": "RequestMemory, Department"}, 1),
        ({"NEGOTIATOR_PRE_JOB_RANK": "TARGET.Size"}, 8),
        ({"PREEMPTION_REQUIREMENTS": "TARGET.Size > 2"}, 8),
    ],
)
def test_the_significant_attributes_can_be_replaced_or_extended(configured: dict[str, str], count: int) -> None:
    pool = Pool(**configured)
    pool.slot("slot1@h", Start='TARGET.Department == "physics"')
    for department in ("physics", "chemistry"):
        for size in range(4):
            pool.submit("ann", Department=f'"{department}"', Size=str(size))
    assert autocluster_count(pool) == count


def test_a_reconfiguration_changes_the_autoclusters() -> None:
    pool = Pool()
    pool.slots(1)
    for size in range(4):
        pool.submit("ann", Size=str(size))
    counts = []
    for rank in ("", "TARGET.Size", "0"):
        pool.tell(e.PoolConfigured, "configured", {"NEGOTIATOR_PRE_JOB_RANK": rank})
        counts += [autocluster_count(pool), autocluster_count(pool)]
    assert counts == [1, 1, 4, 4, 1, 1]


def test_each_unmatched_autocluster_has_one_rejection() -> None:
    pool = Pool()
    pool.slots(2, Memory="500")
    pool.submit("ann", 6, {"RequestMemory": ["600", "700"] * 3}, Requirements="TARGET.Memory > RequestMemory")
    pool.submit("ann", 4, RequestMemory="600", Requirements="TARGET.Memory > RequestMemory")
    cycle = pool.hold().held
    assert cycle is not None
    assert [(rejection.job, rejection.jobs) for rejection in cycle.unmatched] == [("1.0", 7), ("1.1", 3)]


def test_the_start_expression_of_a_drain_counts() -> None:
    pool = Pool()
    pool.slots(1)
    pool.submit("ann", Tiny="true")
    pool.submit("ann", Tiny="false")
    assert autocluster_count(pool) == 1
    pool.tell(e.DrainBegan, "drained", "h", 1, "Graceful", "", "", "TARGET.Tiny")
    assert autocluster_count(pool) == 2


def test_an_edited_job_moves_to_another_autocluster_and_back() -> None:
    pool = Pool()
    pool.slots(1, Memory="500", Special="true")
    pool.submit("ann", Requirements="false")
    for requirements, matches in (("TARGET.Memory > 900", 0), ("TARGET.Special", 1)):
        pool.tell(e.JobsEdited, "edited", 1, ((0, 0),), {"Requirements": requirements})
        assert len(pool.matched()) == matches


def test_autoclusters_of_ended_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoclusters, "_MAX_ENDED", 3)
    pool = Pool()
    pool.slots(1, Memory="500")
    for size in range(40):
        number = pool.submit("ann", 2, {"RequestMemory": [str(600 + size), str(700 + size)]})
        assert autocluster_count(pool) == 2
        pool.tell(e.JobsTransitioned, "removed", number, ((0, 1),), "remove", "Idle", "Removed", {})
        pool.tell(e.JobsTransitioned, "left", number, ((0, 1),), "leave", "Removed", "Left", {})
        assert not pool.matched()
        known = autoclusters_of(pool.state, pool.caches)
        assert len(known._numbers) <= 8 and len(known._differing) <= 6


PHYSICS = 'TARGET.Department == "physics"'


@pytest.mark.parametrize(
    ("configured", "start", "first", "second"),
    [
        ({"SIGNIFICANT_ATTRIBUTES": "Other"}, PHYSICS, {"Department": '"chemistry"'}, {"Department": '"physics"'}),
        ({"REMOVE_SIGNIFICANT_ATTRIBUTES": "Size"}, "TARGET.Size < 9", {"Size": "9"}, {"Size": "8"}),
        ({}, "TARGET.MemoryUsage < 9", {"MemoryUsage": "9"}, {"MemoryUsage": "8"}),
        ({}, 'eval(strcat("TARGET.Si", "ze")) < 9', {"Size": "9"}, {"Size": "8"}),
    ],
)
def test_similar_jobs_are_judged_by_the_first_one_of_each_cycle(
    configured: dict[str, str], start: str, first: dict[str, str], second: dict[str, str]
) -> None:
    pool = Pool(**configured)
    pool.slot("slot1@h", Start=start)
    for attributes, matches in ((first, 0), (second, 1)):
        number = pool.submit("ann", **attributes)
        cycle, refolded_cycle = pool.hold(), pool.hold(pool.folded())
        assert cycle.held == refolded_cycle.held
        assert len(cycle.choices) == matches
        assert cycle.held is not None
        pool.append(cycle.held)
        if not matches:
            pool.tell(e.JobsTransitioned, "removed", number, ((0, 0),), "6", "Idle", "Removed", {})


def test_conditions_that_read_the_time_are_evaluated_again_as_time_passes() -> None:
    pool = Pool()
    pool.slot("slot1@h", Start="TARGET.Nice")
    pool.submit("ann", Nice="false")
    assert not pool.cycle().choices
    pool.tell(e.SlotAdChanged, "changed", "slot1@h", {"Start": "TARGET.Nice || time() > 1700000060"})
    assert not pool.cycle().choices
    pool.now += 61 * SECOND
    assert len(pool.cycle().choices) == 1
