"""Differential: the negotiator's columns, the views, `Pool` and `Log` all have the same ad of a slot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook import Log, Pool
from poolbook.domain.classad import ClassAd, Context, EvaluationError, unparse
from poolbook.domain.events import Event
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.slot_table import public_ads_of
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.state.caches import Caches
from poolbook.domain.state_machines import DIALECTS
from poolbook.domain.units import SECOND
from poolbook.projections.views import Views

from ..policy.points import POLICIES, Point, at
from ..projections.pools import busy_pool, folded
from ..projections.test_folding import Step, steps

FIXED = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
TIME_DEPENDENT = ("Time", "Idle", "Clock", "Expected")
NO_COLUMNS = {"Name"}
"""Attributes that are not in the columns."""


def texts(ad: ClassAd) -> dict[str, str]:
    return {name: unparse(ad[name]) for name in ad}


def value(ad: ClassAd, name: str, context: Context) -> Any:
    try:
        return repr(ad.eval(name, None, context))
    except EvaluationError:
        return None


def check_ads(log: list[tuple[int, Event]]) -> None:
    """Check that the views and the negotiator's columns have the published ads of a log's slots."""
    state = fold(log)
    now = state.at // SECOND
    context = Context(now=now)
    published = PublishedSlots(state, Caches(), now * SECOND, context)
    ads = {slot.name: published.ad(slot) for slot in state.slots.values()}
    assert [texts(ad) for ad in Views(folded(log)).slot_ads(now)] == [texts(ad) for ad in ads.values()]
    names = {name for ad in ads.values() for name in ad} - NO_COLUMNS
    slots = public_ads_of(state, Caches(), now * SECOND, context, {name.lower() for name in names}, PublishedSlots)
    for slot, ad in ads.items():
        column = slots.table.ad(slots.row_of[slot])
        # Ads omit START if it is true or the slot accepts no job. The columns have it, and the same slots match.
        compared = names if "Start" in ad else names - {"Start", "Requirements"}
        values = {name: value(column, name, context) for name in compared}
        assert values == {name: value(ad, name, context) for name in compared}, slot


@settings(FIXED, max_examples=10)
@given(st.lists(steps, max_size=10), st.sampled_from(sorted(DIALECTS)))
def test_the_ads_are_the_same_after_any_steps(random_steps: list[Step], dialect: str) -> None:
    pool = busy_pool(dialect)
    for step in random_steps:
        step(pool)
    check_ads(pool.events)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_ads_are_the_same_with_any_owner_s_policy(policy: str, dialect: str) -> None:
    point = Point(dialect)
    point.read(load=0.25)
    point.point(POLICIES[policy], slots=2, STARTD_SLOT_ATTRS="State, LoadAvg")
    point.job("alice")
    for turn, load in enumerate([0.2, 0.9, 1.5, 0.1], 1):
        at(point, 40 * turn)
        point.read(load=load)
        if turn == 2:
            point.touch()
        check_ads(list(point.log.read()))


def test_the_views_know_the_job_attributes_that_slot_ads_depend_on() -> None:
    """The drain estimates depend on the job's ad: its cluster's, its process's, and edits."""
    point = Point("htcondor-25")
    point.point({"MaxJobRetirementTime": "TARGET.Long =?= true ? 900 : 90", "MachineMaxVacateTime": "20"}, slots=3)
    point.job("alice", JobMaxVacateTime="Short ? 5 : 50", Short="ProcId == 1", count=2)
    point.job("bob", MaxJobRetirementTime="40")
    at(point, 30)
    check_ads(list(point.log.read()))
    point.edit("1.0", Long="true")
    at(point, 40)
    check_ads(list(point.log.read()))


def test_pool_and_log_return_the_same_slots(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.add_machine("h", cpus=4, memory=4096)
        pool.submit({"executable": "/bin/true", "request_cpus": "2"}, count=2)
        pool.advance(20)
        slots = pool.slots()
        with Log.open(tmp_path / "pool.db") as log:
            log_slots = log.slots()
    assert len(slots) > 1 and {slot["State"] for slot in slots} >= {"Claimed"}
    assert [constant(slot) for slot in slots] == [constant(slot) for slot in log_slots]


def constant(slot: dict[str, Any]) -> dict[str, Any]:
    """Return an ad without attributes that depend on the time; `Log` uses the time of the last event."""
    return {name: value for name, value in slot.items() if not any(word in name for word in TIME_DEPENDENT)}
