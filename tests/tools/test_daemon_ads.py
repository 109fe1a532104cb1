"""Golden: the ads of a pool's daemons and users give the tables that condor_status printed for a real pool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.condor_tools import status
from poolbook.adapters.condor_tools.cells import HELD, IDLE, RUNNING, TRANSFERRING_OUTPUT
from poolbook.adapters.condor_tools.status import VIEWS
from poolbook.adapters.library.embedded_pool import Pool as LivePool
from poolbook.adapters.runtime.pool_ads import (
    Count,
    PoolInstant,
    Recent,
    collector_ad,
    master_ad,
    recent,
    scheduler_ad,
    startd_ad,
    submitter_ads,
)
from poolbook.adapters.stores.opening import open_log
from poolbook.domain import events as e
from poolbook.domain.classad import ClassAd
from poolbook.replay.forensics.imported_log import IMPORTED

from ..together import together
from .captures import MINUTE, capture, captured_ads, changed, printed, surroundings_at

SINCE = 1795213510
VERSION = "$CondorVersion: 25.14.1 2026-10-16 PackageID: 25.14.1+dfsg-1 $"
MACHINE = {
    "Arch": '"X86_64"', "OpSys": '"LINUX"', "OpSysAndVer": '"Debian0"', "CondorVersion": f'"{VERSION}"',
    "DetectedCpus": "2", "DetectedMemory": "24105", "DetectedGPUs": "0", "TotalCpus": "8.0", "TotalMemory": "8192",
    "TotalGPUs": "0",
}  # fmt: skip
COUNTS = [
    Count("alice@localhost", "alice", "", status, jobs)
    for status, jobs in ((IDLE, 7), (RUNNING, 7), (HELD, 3), (TRANSFERRING_OUTPUT, 1))
]
LATER = [
    Count("bob@localhost", "bob", "local", RUNNING, 2),
    Count("bob@localhost", "bob", "local", HELD, 1),
    Count("bob@localhost", "bob", "scheduler", RUNNING, 3),
    Count("bob@localhost", "bob", "scheduler", IDLE, 4),
]
SLOTS = [
    changed(slot, PublicClaimId="x") if slot.eval("State") == "Claimed" else slot
    for slot in captured_ads("status_long")
]


def pool(second: int) -> PoolInstant:
    return PoolInstant("localhost", MINUTE + second, SINCE)


def scheduler(second: int) -> list[ClassAd]:
    return [scheduler_ad(pool(second), COUNTS, Recent(40, 9))]


def collector(second: int) -> list[ClassAd]:
    slots = [changed(slot, State="Unclaimed") for slot in SLOTS[:1]]
    return [changed(collector_ad(pool(second), [], slots), Name="My Pool - 127.0.0.1@localhost")]


# A capture -> the second at which it was recorded, and the ads of that time.
ADS = {
    "status_run": (23, scheduler),
    "status_schedd": (23, scheduler),
    "status_total_schedd": (23, scheduler),
    "status_submitters": (23, lambda second: submitter_ads(pool(second), COUNTS)),
    "status_total_submitters": (23, lambda second: submitter_ads(pool(second), COUNTS)),
    "status_collector": (11, collector),
    "status_master": (
        11,
        lambda second: [changed(master_ad(pool(second), "localhost", MACHINE), CondorVersion=VERSION)],
    ),
    "status_startd": (23, lambda second: [startd_ad(pool(second), "localhost", MACHINE, SLOTS)]),
}


@together("name", ADS)
def test_the_table_equals_condor_statuses(name: str) -> None:
    second, ads = ADS[name]
    expected = capture(name)
    query = status.parse_arguments(expected.argv)
    assert printed(status.render(ads(second), query, surroundings_at(second))) == expected.out


@pytest.mark.parametrize(("kind", "ads"), [
    ("status_schedd_long", scheduler(23)), ("status_submitters_long", submitter_ads(pool(23), COUNTS)),
    ("status_collector_long", collector(11)), ("status_master_long", [master_ad(pool(11), "localhost", MACHINE)]),
])  # fmt: skip
def test_an_ad_has_only_attributes_of_the_real_one_with_values_of_the_same_type(kind: str, ads: list[ClassAd]) -> None:
    (our_ad,), (real_ad, *_) = ads, captured_ads(kind)
    assert set(our_ad) - set(real_ad) <= {"DaemonStartTime"}
    assert {name: type(our_ad.eval(name)) for name in our_ad if name in real_ad} == {
        name: type(real_ad.eval(name)) for name in our_ad if name in real_ad
    }


def test_jobs_of_local_and_scheduler_universe_are_counted_separately() -> None:
    ad = scheduler_ad(pool(0), [*COUNTS, *LATER], Recent(0, 0))
    names = ("TotalRunningJobs", "TotalLocalJobsRunning", "TotalHeldJobs", "TotalJobAds", "NumOwners")
    assert [ad.eval(name) for name in names] == [8, 2, 4, 28, 2]
    apart = ("TotalSchedulerJobsRunning", "TotalSchedulerJobsIdle", "TotalIdleJobs", "TotalLocalJobsIdle")
    assert [ad.eval(name) for name in apart] == [3, 4, 7, 0]


def test_a_pool_without_a_server_has_no_uptime() -> None:
    ads = [master_ad(PoolInstant("h", MINUTE, None), "h", MACHINE)]
    assert "DaemonStartTime" not in ads[0]
    assert (
        printed(status.render(ads, status.parse_arguments(["-master"]), surroundings_at()))
        .splitlines()[2]
        .rstrip()
        .endswith("23.5 GB")
    )


# The command


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of a pool of two cores with jobs: one completed, two running, one idle, one held."""
    path = str(tmp_path_factory.mktemp("pool") / "pool.db")
    job = {"executable": "/bin/sleep", "arguments": "100", "request_memory": "128", "request_disk": "1 MB"}
    with LivePool.open(path, user="alice") as live:
        live.add_machine("h", cpus=2, memory=2048)
        live.submit(job)
        live.advance(200)
        live.submit(job, count=4)
        live.advance(10)
        live.hold("2.3")
    return path


COMPLETED_TABLES = {
    # a table of condor_status, and what it shows for that pool
    "run": ("TotalJobAds", "ShadowsRunning"),
    "schedd": ("TotalRunningJobs", "TotalIdleJobs", "TotalHeldJobs"),
    "submitters": ("RunningJobs", "IdleJobs", "HeldJobs"),
    "collector": ("RunningJobs", "IdleJobs", "HostsTotal"),
    "master": ("DetectedCpus", "DetectedMemory"),
    "startd": ("TotalSlots", "TotalCpus", "TotalInUseCpus", "TotalInUseMemory"),
}
VALUES = {"run": "4 2", "schedd": "2 1 1", "submitters": "2 1 1", "collector": "2 1 3", "master": "2 2048",
          "startd": "3 2.0 2 256"}  # fmt: skip


@pytest.mark.parametrize("view", COMPLETED_TABLES)
def test_every_kind_of_ad_exists(view: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", f"-{view}", "-log", url, "-af", *COMPLETED_TABLES[view]]) == 0
    assert capsys.readouterr().out == f"{VALUES[view]}\n"
    assert main(["status", f"-{view}", "-log", url, "-long", "-constraint", "MyCurrentTime > 0"]) == 0
    assert f'MyType = "{VIEWS[view].kind}"\n' in capsys.readouterr().out
    assert main(["status", f"-{view}", "-log", url]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 3


ATTRIBUTES = """
SCHEDD_ATTRS = Site, TotalIdleJobs Unset MyCurrentTime
MyCurrentTime = 7
SCHEDD_EXPRS = Sum
MASTER_ATTRS = Site
NEGOTIATOR.NEGOTIATOR_ATTRS = Sum, Shade
COLLECTOR_ATTRS = Owner, IdleJobs
Site = "Madison"
Sum = TotalJobAds + 1
NEGOTIATOR.Shade = "red"
Owner = (1
TotalIdleJobs = 7
IdleJobs = 7
"""


@pytest.mark.filterwarnings("ignore:.*(Unset is not defined|Owner is not a valid expression)")
def test_administrators_add_attributes_to_ads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "pool.db")
    with LivePool.open(path, user="alice", config=ATTRIBUTES) as live:
        live.add_machine("h", cpus=2, memory=2048)
        live.submit({"executable": "/bin/sleep", "arguments": "100"}, count=3)
        live.advance(10)
    capsys.readouterr()
    shown = {
        ("schedd", "Site"): "Madison", ("schedd", "TotalIdleJobs"): "7", ("schedd", "Sum"): "4",
        ("submitters", "Site"): "Madison", ("submitters", "Unset"): "undefined", ("master", "Site"): "Madison",
        ("negotiator", "Sum"): "undefined", ("negotiator", "Shade"): "red",
        ("collector", "Owner"): "undefined", ("collector", "IdleJobs"): "1", ("startd", "Site"): "undefined",
    }  # fmt: skip
    for (view, name), value in shown.items():
        assert main(["status", f"-{view}", "-log", path, "-af", name]) == 0
        assert capsys.readouterr().out == f"{value}\n"


def test_all_ads_are_of_kinds_in_a_real_pool(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["status", "-any", "-log", url, "-json"])
    kinds = {ad["MyType"] for ad in json.loads(capsys.readouterr().out)}
    real_kinds = {line.split()[0] for line in capture("status_any_af").out.splitlines()}
    assert kinds == real_kinds


@pytest.mark.parametrize("view", [*COMPLETED_TABLES, "negotiator"])
def test_ads_that_an_imported_log_lacks_are_refused(
    view: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "audit.db")
    log = open_log(path, create=True)
    log.append([e.PoolFounded(1, "founded", "import", "h", "htcondor-25", "h", "0", {IMPORTED: "true"})])
    log.close()
    assert main(["status", f"-{view}", "-log", path]) == 1
    output = capsys.readouterr()
    assert f"imported records contain only slots, and contain no ads that -{view} shows" in output.err
    assert output.out == ""
    assert main(["status", "-any", "-log", path]) == 0


@pytest.mark.parametrize(("since", "expected"), [(0, (3, 1)), (15, (2, 1)), (20, (2, 1)), (21, (1, 1)), (31, (0, 0))])
def test_only_late_events_count_as_recent(since: int, expected: tuple[int, int]) -> None:
    log = open_log("memory:", create=True)
    log.append([e.JobActivated(at, "activated", "x", 1, at, "slot1@h", "c") for at in (10, 20)])
    log.append([e.JobActivated(30, "activated", "x", 1, 30, "slot1@h", "c")])
    log.append([
        e.JobExited(30, "exited", "x", 1, proc, "slot1@h", "1", "exited", "complete", target, {})
        for proc, target in ((10, "Completed"), (20, "Idle"))
    ])  # fmt: skip
    assert recent(log, since).get(0, Recent(0, 0)) == expected
