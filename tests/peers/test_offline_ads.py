"""The ads of offline machines, which sleep, and which an administrator or a program may wake."""

from __future__ import annotations

import pytest

from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd
from poolbook.domain.ports import stimuli as s
from poolbook.projections.views import Views
from poolbook.replay.validation import examine

from ..projections.pools import folded
from .simulated import SimulatedPool

FOREVER = 2**31 - 1


def sleeping_pool(**settings: str) -> SimulatedPool:
    """Return a pool in which ep1 with two slots is offline and silent, and no other machine has joined."""
    pool = SimulatedPool(slots=2, machine={"Offline": "true"}, startd={"UPDATE_INTERVAL": "10"})
    pool.manager.ask(s.ConfigurePool("x", {"CLASSAD_LIFETIME": "25"} | settings))
    pool.advance(5)
    pool.ep().stop()
    pool.advance(30)
    return pool


def shown_ads(pool: SimulatedPool) -> dict[str, ClassAd]:
    """Return what condor_status shows."""
    now = pool.manager.world.offset // 1_000_000 + pool.manager.ticks() // 1_000_000
    return {str(ad.eval("Name")): ad for ad in Views(folded([*pool.manager.log.read()])).slot_ads(now)}


def check_log(pool: SimulatedPool) -> None:
    assert examine(enumerate(pool.manager.events, 1)).violations == []


def test_the_ad_of_an_offline_machine_outlives_its_lifetime_and_a_restart() -> None:
    pool = sleeping_pool()
    pool.advance(2000)
    pool.manager.stop()
    pool.manager.start()
    pool.advance(1)
    ads = shown_ads(pool)
    assert sorted(ads) == ["slot1@ep1", "slot2@ep1"]
    names = ("Offline", "State", "Activity", "KeyboardIdle", "ClassAdLifetime", "Absent", "MachineLastMatchTime")
    ad = ads["slot1@ep1"]
    assert [ad.eval(name) if name in ad else None for name in names] == [
        True, "Unclaimed", "Idle", FOREVER, FOREVER, None, None,
    ]  # fmt: skip
    check_log(pool)


def test_an_offline_ad_is_forgotten_after_offline_expire_ads_after() -> None:
    pool = sleeping_pool(OFFLINE_EXPIRE_ADS_AFTER="60")
    assert len(shown_ads(pool)) == 2
    pool.advance(60)
    assert shown_ads(pool) == {}
    pool.submit(1)
    pool.advance(60)
    assert not [event for event in pool.manager.events if isinstance(event, e.OfflineMatched)]


def test_a_job_without_another_slot_sets_the_match_time_and_stays_idle() -> None:
    pool = sleeping_pool()
    pool.submit(1, RequestCpus="100")
    pool.advance(30)
    assert not [event for event in pool.manager.events if isinstance(event, e.OfflineMatched)]
    pool.submit(1)
    pool.advance(30)
    matches = [event for event in pool.manager.events if isinstance(event, e.OfflineMatched)]
    assert {(match.slot, match.job) for match in matches} == {("slot1@ep1", f"{1_000_000_002}.0")}
    ads, seconds = shown_ads(pool), matches[-1].at // 1_000_000
    assert (ads["slot1@ep1"].eval("MachineLastMatchTime"), "MachineLastMatchTime" in ads["slot2@ep1"]) == (
        seconds,
        False,
    )
    assert ads["slot1@ep1"].eval("slot1_MachineLastMatchTime") == seconds
    assert pool.ap().state.clusters[2].status_of(0) == "Idle"
    pool.submit(2, Requirements='TARGET.Name == "slot2@ep1"')
    pool.advance(30)
    assert shown_ads(pool)["slot1@ep1"].eval("slot2_MachineLastMatchTime") > seconds
    check_log(pool)


def test_a_job_gets_a_slot_that_is_online_instead() -> None:
    pool = SimulatedPool(execution_points=2, startd={"UPDATE_INTERVAL": "10"})
    pool.advance(5)
    pool.manager.ask(s.ShutDown(pool.id(), "root", "ep1", "Fast"))
    pool.advance(5)
    pool.machine |= {"Offline": "true"}
    pool.add_machine("ep1", 1)
    pool.advance(5)
    pool.manager.ask(s.ShutDown(pool.id(), "root", "ep1", "Fast"))
    pool.advance(5)
    assert {*pool.manager.state.offline} == {"slot1@ep1"}
    pool.submit(2)
    pool.advance(15)
    assert [slot.machine for slot in pool.ap().state.slots.values()] == ["ep2"]
    matches = {event.job for event in pool.manager.events if isinstance(event, e.OfflineMatched)}
    assert matches == {"1000000001.1"}


def test_an_offline_machine_that_is_still_heard_gets_no_jobs() -> None:
    pool = SimulatedPool(slots=2, machine={"Offline": "true"}, startd={"UPDATE_INTERVAL": "10"})
    pool.submit(1)
    pool.advance(60)
    assert pool.ap().state.clusters[1].status_of(0) == "Idle"


@pytest.mark.parametrize("leaves", [False, True])
def test_the_ad_is_gone_when_the_machine_is_back(leaves: bool) -> None:
    pool = SimulatedPool(slots=2, machine={"Offline": "true"}, startd={"UPDATE_INTERVAL": "10"})
    pool.manager.ask(s.ConfigurePool("x", {"CLASSAD_LIFETIME": "25"}))
    pool.advance(5)
    if leaves:
        pool.manager.ask(s.ShutDown(pool.id(), "root", "ep1", "Fast"))
    else:
        pool.ep().stop()
    pool.advance(30)
    assert len(shown_ads(pool)) == 2
    pool.submit(1)
    pool.advance(20)
    assert "MachineLastMatchTime" in shown_ads(pool)["slot1@ep1"]
    if leaves:
        pool.add_machine("ep1", 2)
    else:
        pool.ep().start()
    pool.advance(20)
    assert pool.manager.state.offline == {}
    assert "MachineLastMatchTime" not in shown_ads(pool)["slot1@ep1"]
    check_log(pool)
