"""Golden: the manager of a pool lists the ads of the roles elsewhere, as the recorded condor_status -any did."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from pathlib import Path

from poolbook.adapters.condor_tools.cells import text
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd
from poolbook.domain.units import SECOND

from .simulated import Node, SimulatedPool
from .two_pools import CMB, TwoPools

AP = "access-point/ap1"

RECORDED = ["Collector cm1", "DaemonMaster ap1", "DaemonMaster cm1", "DaemonMaster ep1", "Machine slot1@ep1",
            "Machine slot2@ep1", "Negotiator cm1", "Scheduler ap1", "StartD ep1", "Submitter alice"]  # fmt: skip
"""What condor_status -any listed in 01-plain/snap-03-both for the machines cm1, ap1 and ep1, without accounting."""
UPDATES = ("UpdateSequenceNumber", "UpdatesTotal", "UpdatesSequenced", "UpdatesLost", "LastHeardFrom")


def shown_name(ad: ClassAd) -> str:
    """Return the name as in the recording; the simulated manager's pool is called pool."""
    name = str(ad.eval("Name"))
    return name.partition("@")[0] if ad.eval("MyType") == "Submitter" else name.replace("pool", "cm1")


def ads_of(node: Node, folder: Path, kind: str = "") -> list[ClassAd]:
    """Return the ads of a kind that the log of a role shows."""
    url = str(folder / f"{len([*folder.iterdir()])}.db")
    with closing(open_log(url, create=True)) as log:
        log.append([event for _, event in node.log.read() if not isinstance(event, e.WriterBegan)])
    with Queries(url) as queries:
        return list(queries.ads(kind, queries.views.at // SECOND, UTC))


def test_a_manager_lists_the_ads_that_were_recorded_with_their_updates(tmp_path: Path) -> None:
    pool = SimulatedPool(execution_points=1, slots=2)
    pool.submit(4)
    pool.advance(20)
    ads = [ad for ad in ads_of(pool.manager, tmp_path) if ad.eval("MyType") != "Accounting"]
    # the machines of the simulation do not set MyType
    found = {f"{text(ad, 'MyType') or 'Machine'} {shown_name(ad)}": ad for ad in ads}
    assert sorted(found) == RECORDED
    elsewhere = {name for name, ad in found.items() if all(attribute in ad for attribute in UPDATES)}
    assert elsewhere == {name for name in RECORDED if not name.endswith("cm1")}
    for name in elsewhere:
        assert found[name].eval("UpdatesTotal") == found[name].eval("UpdatesSequenced") + 1


# HTCondor's ads in 08-flocking/snap-04, except for FlockedJobs: it shows -1 in pool B if more jobs run there.
COUNTS = ("SubmitterTag", "RunningJobs", "IdleJobs", "FlockedJobs")


def submitters(pool: TwoPools, name: str, folder: Path) -> dict[str, list[object]]:
    """Return the counts in the submitter ads that a role shows, by user and access point."""
    return {
        f"{str(ad.eval('Name')).partition('@')[0]}@{ad.eval('ScheddName')}": [ad.eval(count) for count in COUNTS]
        for ad in ads_of(pool.nodes[name], folder, "Submitter")
    }


def test_the_submitter_ads_in_each_pool_count_the_jobs_there_and_elsewhere(tmp_path: Path) -> None:
    pool = TwoPools()
    pool.submit(6, Args='"300"')
    pool.submit_in_b(1, Args='"1000"')
    assert list(submitters(pool, CMB, tmp_path)) == []
    pool.advance(60)
    there = 1 if "carol@apb" in submitters(pool, CMB, tmp_path) else 2
    assert submitters(pool, "manager", tmp_path) == {"alice@ap1": ["", 2, 4 - there, there]}
    assert submitters(pool, AP, tmp_path) == {"alice@ap1": ["", 2, 4 - there, there]}
    assert submitters(pool, CMB, tmp_path)["alice@ap1"] == ["cmb", there, 4 - there, 2]


def test_another_pool_shows_only_submitters_with_jobs_for_it(tmp_path: Path) -> None:
    pool = TwoPools(settings={"FLOCK_BY_DEFAULT": "false"})
    pool.submit(4, Args='"300"')
    pool.advance(60)
    assert submitters(pool, CMB, tmp_path) == {}
    assert submitters(pool, "manager", tmp_path) == {"alice@ap1": ["", 2, 2, 0]}
    pool.submit(3, Args='"300"', FlockTo='"cmb"')
    pool.advance(60)
    assert submitters(pool, CMB, tmp_path) == {"alice@ap1": ["cmb", 2, 1, 2]}
