"""Differential: a slot's published ad is one, whoever asks: the negotiator's columns, the views, `Pool` and `Log`."""

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
MOVING = ("Time", "Idle", "Clock", "Expected")
NO_COLUMNS = {"Name"}
"""The name, where a test's slot has no own."""


def texts(ad: ClassAd) -> dict[str, str]:
    return {name: unparse(ad[name]) for name in ad}


def value(ad: ClassAd, name: str, context: Context) -> Any:
    try:
        return repr(ad.eval(name, None, context))
    except EvaluationError:
        return None


def have_one_ad(log: list[tuple[int, Event]]) -> None:
    """Check that the views and the negotiator's columns have what is published of a log's slots."""
    state = fold(log)
    now = state.at // SECOND
    context = Context(now=now)
    published = PublishedSlots(state, Caches(), now * SECOND, context)
    ads = {slot.name: published.ad(slot) for slot in state.slots.values()}
    assert [texts(ad) for ad in Views(folded(log)).slot_ads(now)] == [texts(ad) for ad in ads.values()]
    names = {name for ad in ads.values() for name in ad} - NO_COLUMNS
    slots = public_ads_of(state, Caches(), now * SECOND, context, {name.lower() for name in names}, PublishedSlots)
    for slot, ad in ads.items():
        column = slots.table.ad(slots.places[slot])
        # START is left out where it is true, or the slot refuses: the columns have it, and the same slots match.
        asked = names if "Start" in ad else names - {"Start", "Requirements"}
        found = {name: value(column, name, context) for name in asked}
        assert found == {name: value(ad, name, context) for name in asked}, slot


@settings(FIXED, max_examples=10)
@given(st.lists(steps, max_size=10), st.sampled_from(sorted(DIALECTS)))
def test_whatever_happens_in_a_pool_its_slots_have_one_ad(happens: list[Step], dialect: str) -> None:
    pool = busy_pool(dialect)
    for happening in happens:
        happening(pool)
    have_one_ad(pool.events)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_whatever_an_owner_s_policy_does_its_slots_have_one_ad(policy: str, dialect: str) -> None:
    point = Point(dialect)
    point.read(load=0.25)
    point.point(POLICIES[policy], slots=2, STARTD_SLOT_ATTRS="State, LoadAvg")
    point.job("alice")
    for turn, load in enumerate([0.2, 0.9, 1.5, 0.1], 1):
        at(point, 40 * turn)
        point.read(load=load)
        if turn == 2:
            point.touch()
        have_one_ad(list(point.log.read()))


def test_the_views_know_of_the_running_jobs_what_their_slots_ads_tell() -> None:
    """What a drain would grant a job depends on its own ad: its cluster's, its process's, what was edited."""
    point = Point("htcondor-25")
    point.point({"MaxJobRetirementTime": "TARGET.Long =?= true ? 900 : 90", "MachineMaxVacateTime": "20"}, slots=3)
    point.job("alice", JobMaxVacateTime="Short ? 5 : 50", Short="ProcId == 1", count=2)
    point.job("bob", MaxJobRetirementTime="40")
    at(point, 30)
    have_one_ad(list(point.log.read()))
    point.edit("1.0", Long="true")
    at(point, 40)
    have_one_ad(list(point.log.read()))


def test_pool_and_log_tell_the_same_of_slots(tmp_path: Path) -> None:
    with Pool.open(tmp_path / "pool.db") as pool:
        pool.add_machine("h", cpus=4, memory=4096)
        pool.submit({"executable": "/bin/true", "request_cpus": "2"}, count=2)
        pool.advance(20)
        slots = pool.slots()
        with Log.open(tmp_path / "pool.db") as log:
            at_rest = log.slots()
    assert len(slots) > 1 and {slot["State"] for slot in slots} >= {"Claimed"}
    assert [still(slot) for slot in slots] == [still(slot) for slot in at_rest]


def still(slot: dict[str, Any]) -> dict[str, Any]:
    """An ad without what moves by the clock: a log at rest tells of its last event's instant."""
    return {name: value for name, value in slot.items() if not any(word in name for word in MOVING)}
