"""Property: jobs alike get like answers, whatever tells them apart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain import events as e
from poolbook.domain.requests import autoclusters
from poolbook.domain.requests.autoclusters import significance
from poolbook.domain.state.cluster import IDLE

from ..together import together
from .oracle import Negotiation
from .pools import SECOND, Pool, drawn, lives_on


@given(st.integers(0, 2**32 - 1))
def test_what_one_job_may_have_every_job_like_it_may(seed: int) -> None:
    pool = drawn(seed)
    lives_on(pool, random.Random(seed), 5)
    alike, oracle = significance(pool.state, pool.caches), Negotiation(pool.folded(), pool.now, pool.context())
    known: dict[object, object] = {}
    for user in list(oracle.users.values()):
        for job in user.jobs:
            cluster = pool.state.clusters[job.cluster]
            assert cluster.status[job.proc] == IDLE
            kind = user.name, alike.signature(cluster, job.proc)
            found = [oracle.matched(user, job, offer) for offer in oracle.offers]
            assert known.setdefault(kind, found) == found


def kinds(pool: Pool) -> int:
    """Into how many kinds the jobs fall that wait."""
    alike = significance(pool.state, pool.caches)
    clusters = pool.state.clusters.values()
    return len({alike.signature(one, proc) for one in clusters for proc in one.procs()})


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
def test_what_a_slots_conditions_read_tells_jobs_apart_through_whatever_attribute(
    slot: dict[str, str], count: int
) -> None:
    pool = Pool()
    pool.slot("slot1@h", **slot)
    for department in ("physics", "chemistry"):
        pool.submit("ann", Department=f'"{department}"')
    assert kinds(pool) == count


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
def test_the_significant_attributes_may_be_replaced_or_changed(configured: dict[str, str], count: int) -> None:
    pool = Pool(**configured)
    pool.slot("slot1@h", Start='TARGET.Department == "physics"')
    for department in ("physics", "chemistry"):
        for size in range(4):
            pool.submit("ann", Department=f'"{department}"', Size=str(size))
    assert kinds(pool) == count


def test_a_configuration_that_is_read_again_tells_other_jobs_apart() -> None:
    pool = Pool()
    pool.slots(1)
    for size in range(4):
        pool.submit("ann", Size=str(size))
    counts = []
    for rank in ("", "TARGET.Size", "0"):
        pool.tell(e.PoolConfigured, "configured", {"NEGOTIATOR_PRE_JOB_RANK": rank})
        counts += [kinds(pool), kinds(pool)]
    assert counts == [1, 1, 4, 4, 1, 1]


def test_each_kind_that_got_nothing_has_one_reason() -> None:
    pool = Pool()
    pool.slots(2, Memory="500")
    pool.submit("ann", 6, {"RequestMemory": ["600", "700"] * 3}, Requirements="TARGET.Memory > RequestMemory")
    pool.submit("ann", 4, RequestMemory="600", Requirements="TARGET.Memory > RequestMemory")
    held = pool.hold().held
    assert held is not None
    assert [(one.job, one.jobs) for one in held.unmatched] == [("1.0", 7), ("1.1", 3)]


def test_a_drains_own_start_counts() -> None:
    pool = Pool()
    pool.slots(1)
    pool.submit("ann", Tiny="true")
    pool.submit("ann", Tiny="false")
    assert kinds(pool) == 1
    pool.tell(e.DrainBegan, "drained", "h", 1, "Graceful", "", "", "TARGET.Tiny")
    assert kinds(pool) == 2


def test_a_job_that_is_edited_again_is_another_one_again() -> None:
    pool = Pool()
    pool.slots(1, Memory="500", Special="true")
    pool.submit("ann", Requirements="false")
    for requirements, matches in (("TARGET.Memory > 900", 0), ("TARGET.Special", 1)):
        pool.tell(e.JobsEdited, "edited", 1, ((0, 0),), {"Requirements": requirements})
        assert len(pool.matched()) == matches


def test_what_is_known_of_jobs_that_have_ended_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autoclusters, "_KEPT", 3)
    pool = Pool()
    pool.slots(1, Memory="500")
    for size in range(40):
        number = pool.submit("ann", 2, {"RequestMemory": [str(600 + size), str(700 + size)]})
        assert kinds(pool) == 2
        pool.tell(e.JobsTransitioned, "removed", number, ((0, 1),), "remove", "Idle", "Removed", {})
        pool.tell(e.JobsTransitioned, "left", number, ((0, 1),), "leave", "Removed", "Left", {})
        assert not pool.matched()
        known = significance(pool.state, pool.caches)
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
def test_jobs_that_only_pass_for_alike_are_judged_by_the_first_of_each_cycle(
    configured: dict[str, str], start: str, first: dict[str, str], second: dict[str, str]
) -> None:
    pool = Pool(**configured)
    pool.slot("slot1@h", Start=start)
    for attributes, matches in ((first, 0), (second, 1)):
        number = pool.submit("ann", **attributes)
        kept, anew = pool.hold(), pool.hold(pool.folded())
        assert kept.held == anew.held
        assert len(kept.choices) == matches
        assert kept.held is not None
        pool.append(kept.held)
        if not matches:
            pool.tell(e.JobsTransitioned, "removed", number, ((0, 0),), "6", "Idle", "Removed", {})


def test_that_time_changes_what_a_slot_accepts_is_seen_from_its_first_such_condition_on() -> None:
    pool = Pool()
    pool.slot("slot1@h", Start="TARGET.Nice")
    pool.submit("ann", Nice="false")
    assert not pool.cycle().choices
    pool.tell(e.SlotAdChanged, "changed", "slot1@h", {"Start": "TARGET.Nice || time() > 1700000060"})
    assert not pool.cycle().choices
    pool.now += 61 * SECOND
    assert len(pool.cycle().choices) == 1
