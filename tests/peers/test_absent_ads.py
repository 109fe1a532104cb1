"""Golden: the ads of machines that are silent, turned off or back, as in a recording of condor_collector."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from poolbook.adapters.overview.pool import machines, pool_overview
from poolbook.adapters.overview.search import search
from poolbook.adapters.overview.slot_grid import slot_grid
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd
from poolbook.domain.ports import stimuli as s
from poolbook.projections.views import Views

from ..network.recorded import load
from ..projections.pools import folded
from .simulated import SimulatedPool

RESTART_S: Final = 10  #: after what time HTCondor's master restarts a killed daemon
SETTINGS: Final = {
    "CLASSAD_LIFETIME": "25", "ABSENT_REQUIREMENTS": 'Machine =!= "ep4"', "ABSENT_EXPIRE_ADS_AFTER": "90",
}  # fmt: skip


def now(pool: SimulatedPool) -> int:
    return pool.manager.world.offset // 1_000_000 + pool.manager.ticks() // 1_000_000


def absent_ads(pool: SimulatedPool) -> list[ClassAd]:
    return list(Views(folded([*pool.manager.log.read()])).absent_ads(now(pool)))


def shown(pool: SimulatedPool) -> tuple[list[str], list[str]]:
    """Return the present slots, and the absent slots."""
    views = Views(folded([*pool.manager.log.read()]))
    ads = views.slot_ads(now(pool)), views.absent_ads(now(pool))
    present, absent = (sorted(str(ad.eval("Name")) for ad in each) for each in ads)
    return present, absent


def start_machines(execution_points: int, **settings: str) -> SimulatedPool:
    pool = SimulatedPool(execution_points=execution_points, slots=2, startd={"UPDATE_INTERVAL": "10"})
    pool.manager.ask(s.ConfigurePool("x", SETTINGS | settings))
    return pool


def slots(*machines: int) -> list[str]:
    return sorted(f"slot{slot}@ep{machine}" for machine in machines for slot in (1, 2))


def turn_off(pool: SimulatedPool, name: str) -> None:
    pool.manager.ask(s.ShutDown(pool.id(), "root", name, "Fast"))


def replay(commands_arrive: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Do what was done to HTCondor's pool. Yield the name of each snapshot, and what Poolbook shows then.

    :param commands_arrive: also after a restart of the collector, unlike there
    """
    recording = load("07-absent")
    pool = start_machines(4)
    down = 0.0
    steps = [(time, "", f"snapshot {name}") for time, name, _, _ in recording["snapshots"]]
    for time, machine, text in sorted([*recording["actions"], *steps], key=lambda step: step[0]):
        pool.advance(max(0.0, time - pool.network.now / 1e6))
        if down and time >= down + RESTART_S:
            pool.manager.start()
            down = 0.0
            pool.advance(0.5)
        if text.startswith("snapshot"):
            yield (text.removeprefix("snapshot absent-"), *shown(pool))
        elif text.startswith("network cut"):
            pool.nodes[f"execution-point/{machine}"].stop()
        elif text == "condor_master started" and time > 10:
            pool.nodes[f"execution-point/{machine}"].start()
        elif (match := re.match(r"condor_off -\w+ (\w+)", text)) and match[1] in pool.manager.state.machines:
            turn_off(pool, match[1])
        elif match := re.match(r"condor_on -startd (\w+)", text):
            if commands_arrive:
                pool.add_machine(match[1], 2)
        elif "condor_collector" in text:
            pool.manager.stop()
            down = time
        elif text == "condor_reconfig":
            pool.manager.ask(s.ConfigurePool("x", SETTINGS | {"EXPIRE_INVALIDATED_ADS": "true"}))


LIFETIME: Final = "HTCondor's collector looks for old ads only every CLASSAD_LIFETIME (25 s)"  # decision 175
OVERWRITTEN: Final = "a fault in HTCondor: the slots' private ads overwrite the record of absent ads"
NO_ADDRESS: Final = "a fault in HTCondor: a collector that has restarted knows no address, so ep2 was not turned on"

DIFFERENCES: Final = [
    ("04-30s", "ep1", "present", "absent", LIFETIME),
    ("04-30s", "ep3", "present", "absent", LIFETIME),
    ("04-30s", "ep4", "present", "gone", LIFETIME),
    ("06-collector-killed-restarted", "ep4", "absent", "gone", OVERWRITTEN),
    ("07-ep1-and-ep2-back", "ep2", "gone", "present", NO_ADDRESS),
    ("07-ep1-and-ep2-back", "ep4", "absent", "gone", OVERWRITTEN),
    ("08-ep3-old", "ep2", "gone", "present", NO_ADDRESS),
    ("08-ep3-old", "ep3", "absent", "gone", LIFETIME),
    ("08-ep3-old", "ep4", "absent", "gone", OVERWRITTEN),
    ("09-ep3-expired", "ep2", "gone", "present", NO_ADDRESS),
    ("09-ep3-expired", "ep3", "absent", "gone", LIFETIME),
    ("09-ep3-expired", "ep4", "absent", "gone", OVERWRITTEN),
    ("10-invalidated-4s", "ep2", "gone", "absent", NO_ADDRESS),
    ("10-invalidated-4s", "ep3", "absent", "gone", LIFETIME),
    ("10-invalidated-4s", "ep4", "absent", "gone", OVERWRITTEN),
    ("11-invalidated-30s", "ep2", "gone", "absent", NO_ADDRESS),
    ("12-ep1-master-off", "ep2", "gone", "absent", NO_ADDRESS),
    ("13-collector-terminated-restarted", "ep1", "gone", "absent", OVERWRITTEN),
    ("13-collector-terminated-restarted", "ep2", "gone", "absent", NO_ADDRESS),
]
"""Snapshot, machine, what HTCondor shows and what Poolbook shows, and why. All other machines are shown equally."""


def places(snapshot: Sequence[list[str]]) -> dict[str, str]:
    """Return where a snapshot shows each machine. Its two slots are always shown together."""
    present, absent = ({slot.partition("@")[2] for slot in each} for each in snapshot)
    assert slots(*(int(name[2:]) for name in present)) == snapshot[0]
    names = (f"ep{number}" for number in (1, 2, 3, 4))
    return {name: "present" if name in present else "absent" if name in absent else "gone" for name in names}


def differences(poolbook: Iterator[tuple[str, list[str], list[str]]]) -> list[tuple[str, str, str, str]]:
    """Return snapshot, machine, what HTCondor shows and what Poolbook shows, where they differ."""
    snapshots = load("07-absent")["snapshots"]
    return [
        (name, machine, recorded, here)
        for (_, full_name, *theirs), (name, *ours) in zip(snapshots, poolbook, strict=True)
        for (machine, recorded), here in zip(places(theirs).items(), places(ours).values(), strict=True)
        if recorded != here and full_name == f"absent-{name}"
    ]


def test_each_recorded_snapshot_shows_the_same_machines_but_for_the_listed_differences() -> None:
    assert differences(replay()) == [difference[:4] for difference in DIFFERENCES]


def test_without_the_command_that_did_not_arrive_there_htcondor_differs_only_in_times_and_overwritten_records() -> None:
    others = [difference[:4] for difference in DIFFERENCES if difference[4] != NO_ADDRESS]
    assert differences(replay(commands_arrive=False)) == others


def test_a_silent_machine_is_absent_when_its_lifetime_is_over_and_present_when_it_is_back() -> None:
    pool = start_machines(1)
    pool.advance(5)
    pool.ep().stop()
    pool.advance(14)
    assert shown(pool) == (slots(1), [])
    pool.advance(12)
    assert shown(pool) == ([], slots(1))
    pool.ep().start()
    pool.advance(2)
    assert shown(pool) == (slots(1), [])
    assert pool.manager.state.machines["ep1"].expired is False


def test_an_absent_ad_is_forgotten_at_its_time_and_0_means_never() -> None:
    for setting, absent in (("90", []), ("0", slots(1))):
        pool = start_machines(1, ABSENT_EXPIRE_ADS_AFTER=setting)
        pool.advance(5)
        pool.ep().stop()
        pool.advance(30)
        assert shown(pool) == ([], slots(1))
        pool.advance(90)
        assert shown(pool) == ([], absent), setting


def test_without_requirements_the_ads_of_a_silent_machine_are_gone() -> None:
    pool = start_machines(1, ABSENT_REQUIREMENTS="")
    pool.advance(5)
    pool.ep().stop()
    pool.advance(30)
    assert shown(pool) == ([], [])
    assert not [event for event in pool.manager.events if isinstance(event, e.SlotAbsent)]


def test_an_ad_may_have_its_own_lifetime() -> None:
    pool = SimulatedPool(startd={"UPDATE_INTERVAL": "10"}, slot={"ClassAdLifetime": "100"})
    pool.manager.ask(s.ConfigurePool("x", SETTINGS))
    pool.advance(5)
    pool.ep().stop()
    pool.advance(80)
    assert shown(pool) == (["slot1@ep1"], [])
    pool.advance(25)
    assert shown(pool) == ([], ["slot1@ep1"])


@pytest.mark.parametrize("expires", ["false", "true"])
def test_the_ads_of_a_machine_that_is_turned_off_are_gone_at_once(expires: str) -> None:
    pool = start_machines(2, EXPIRE_INVALIDATED_ADS=expires)
    pool.advance(5)
    turn_off(pool, "ep2")
    pool.advance(1)
    assert shown(pool) == (slots(1), slots(2) if expires == "true" else [])
    pool.add_machine("ep2", 2)
    pool.advance(1)
    assert shown(pool) == (slots(1, 2), [])


def test_absent_ads_are_complete_also_after_a_restart_of_the_manager() -> None:
    """In HTCondor, the private ads of a slot overwrite the record: 12 attributes are left, and ep4 is absent too."""
    pool = start_machines(4)
    pool.advance(5)
    (before,) = (
        ad for ad in Views(folded([*pool.manager.log.read()])).slot_ads(now(pool)) if ad.eval("Name") == "slot1@ep3"
    )
    for number in (1, 3, 4):
        pool.ep(number).stop()
    pool.advance(30)
    pool.manager.stop()
    pool.advance(10)
    pool.manager.start()
    pool.advance(1)
    assert shown(pool) == (slots(2), slots(1, 3))
    (after,) = (ad for ad in absent_ads(pool) if ad.eval("Name") == "slot1@ep3")
    assert {*before} - {*after} <= {"Start"} and len(after) > 30
    assert (after.eval("Absent"), after.eval("ClassAdLifetime"), after.eval("Machine")) == (True, 90, "ep3")
    (event,) = (event for event in pool.manager.events if isinstance(event, e.SlotAbsent) and event.slot == "slot1@ep3")
    assert after.eval("LastHeardFrom") == event.at // 1_000_000


def test_a_command_right_after_a_restart_of_the_manager_finds_the_machine() -> None:
    """In HTCondor, `Can't find address for master` until the master has sent its ad again."""
    pool = start_machines(2)
    pool.advance(5)
    pool.manager.stop()
    pool.advance(1)
    pool.manager.start()
    pool.manager.ask(s.Drain("x", "root", "ep2"))
    pool.advance(2)
    assert pool.manager.state.machines["ep2"].drain is not None


def test_a_machine_that_only_an_access_point_cannot_reach_keeps_its_ads() -> None:
    pool = start_machines(1)
    pool.advance(5)
    pool.cut(["access-point/ap1"], ["execution-point/ep1"])
    pool.submit(1)
    pool.advance(50)
    voided = [event for event in pool.manager.events if isinstance(event, e.MachineExpired) and event.expired]
    assert voided and not any(event.gone for event in voided)
    assert shown(pool) == (slots(1), [])


def test_overviews_count_no_slots_of_machines_that_are_gone(tmp_path: Path) -> None:
    pool = start_machines(2)
    pool.advance(5)
    pool.ep().stop()
    pool.advance(30)
    url = str(tmp_path / "pool.db")
    with closing(open_log(url, create=True)) as log:
        log.append([event for _, event in pool.manager.log.read() if not isinstance(event, e.WriterBegan)])
    with Queries(url) as queries:
        overview = pool_overview(queries)
        assert sum(count.slots for count in overview.slots) == 2
        assert [machine.machine for machine in machines(queries)] == ["ep2"]
        assert slot_grid(queries).machines == ["ep2"]
        assert [hit.name for hit in search(queries, "slot1@ep") if hit.kind == "slot"] == ["slot1@ep2"]
