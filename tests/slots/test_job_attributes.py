"""A slot's ad contains the attributes of its job that STARTD_JOB_ATTRS lists, while the job runs."""

from __future__ import annotations

from poolbook.domain.classad import Context
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches

from ..domain.pools import TestPool
from .machines import new_pool

TEXT = "STARTD_JOB_ATTRS = Color, JobPrio Weight, Missing\nNUM_SLOTS = 1\nSLOT_TYPE_0_PARTITIONABLE = false\n"


def published(pool: TestPool) -> dict[str, object]:
    """Return the listed attributes that the slot publishes, and its number of processes."""
    now = pool.world.now()
    ad = PublishedSlots(pool.state, Caches(), now, Context(now=now // 1_000_000)).ad(pool.state.slots["slot1@h"])
    return {name: ad.eval(name) for name in ("Color", "JobPrio", "Weight", "Missing", "NumPids") if name in ad}


def test_listed_attributes_of_the_job_are_in_the_ad_of_its_slot_while_it_runs() -> None:
    pool = new_pool(TEXT)
    assert published(pool) == {}
    pool.submit(Args='"100"', Color='"red"', JobPrio="7", Weight="Cpus * 2")
    pool.advance(1)
    expected = {"Color": "red", "JobPrio": 7, "Weight": 16, "NumPids": 1}
    assert published(pool) == expected, "an expression reads the slot's attributes"
    pool.advance(200)
    assert published(pool) == {}


def test_the_policy_reads_the_listed_attributes_as_its_own() -> None:
    pool = new_pool(TEXT + 'PREEMPT = MY.Color == "red"\nMaxJobRetirementTime = 1000\n')
    pool.submit(Args='"100"', Color='"red"')
    pool.advance(30)
    assert pool.state.slots["slot1@h"].state_activity == "Claimed/Retiring"
