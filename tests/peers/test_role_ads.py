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

from .simulated import SimulatedPool

RECORDED = ["Collector cm1", "DaemonMaster ap1", "DaemonMaster cm1", "DaemonMaster ep1", "Machine slot1@ep1",
            "Machine slot2@ep1", "Negotiator cm1", "Scheduler ap1", "StartD ep1", "Submitter alice"]  # fmt: skip
"""What condor_status -any listed in 01-plain/snap-03-both for the machines cm1, ap1 and ep1, without accounting."""
UPDATES = ("UpdateSequenceNumber", "UpdatesTotal", "UpdatesSequenced", "UpdatesLost", "LastHeardFrom")


def shown_name(ad: ClassAd) -> str:
    """Return the name as in the recording; the simulated manager's pool is called pool."""
    name = str(ad.eval("Name"))
    return name.partition("@")[0] if ad.eval("MyType") == "Submitter" else name.replace("pool", "cm1")


def test_a_manager_lists_the_ads_that_were_recorded_with_their_updates(tmp_path: Path) -> None:
    pool = SimulatedPool(execution_points=1, slots=2)
    pool.submit(4)
    pool.advance(20)
    url = str(tmp_path / "pool.db")
    with closing(open_log(url, create=True)) as log:
        log.append([event for _, event in pool.manager.log.read() if not isinstance(event, e.WriterBegan)])
    with Queries(url) as queries:
        ads = [ad for ad in queries.ads("", queries.views.at // SECOND, UTC) if ad.eval("MyType") != "Accounting"]
    # the machines of the simulation do not set MyType
    found = {f"{text(ad, 'MyType') or 'Machine'} {shown_name(ad)}": ad for ad in ads}
    assert sorted(found) == RECORDED
    elsewhere = {name for name, ad in found.items() if all(attribute in ad for attribute in UPDATES)}
    assert elsewhere == {name for name in RECORDED if not name.endswith("cm1")}
    for name in elsewhere:
        assert found[name].eval("UpdatesTotal") == found[name].eval("UpdatesSequenced") + 1
