"""The overview of a pool equals its live state, now and at any past time."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from poolbook import Pool
from poolbook.adapters.overview.periods import histogram, load, waits
from poolbook.adapters.overview.pool import cluster_bars, machines, pool_findings, pool_overview
from poolbook.adapters.overview.records import Bin, slot_style
from poolbook.adapters.overview.shares import shares
from poolbook.adapters.runtime.queries import Queries
from poolbook.adapters.stores.opening import open_log
from poolbook.domain.fold.evolve import fold
from poolbook.domain.units import SECOND
from poolbook.projections.activity_view import MINUTE

from ..projections.pools import busy_pool

SLEEP = {"executable": "/bin/sleep", "request_memory": 1}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the log of a pool in which most things have happened."""
    url = str(tmp_path_factory.mktemp("overview") / "pool.db")
    with closing(open_log(url, create=True)) as log:
        log.append([event for _, event in busy_pool().events])
    return url


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "pool.db")


def test_counts_and_bars_equal_the_state_at_each_minute(busy: str) -> None:
    with Queries(busy) as queries:
        events = list(queries.log.read())
    first, last = events[0][1].at, events[-1][1].at
    for at in range(first, last, 20 * SECOND):
        state = fold(event for event in events if event[1].at <= at)
        with Queries(busy, at=at) as queries:
            overview, bars = pool_overview(queries), cluster_bars(queries)
        counts = Counter(cluster.status_of(proc) for cluster in state.clusters.values() for proc in cluster.procs())
        assert {name.lower(): jobs for name, jobs in counts.items()} == overview.jobs
        slots = Counter((slot.state, slot.activity) for slot in state.slots.values())
        assert {(count.state, count.activity): count.slots for count in overview.slots} == slots
        assert [bar.total for bar in bars] == [sum(bar.jobs.values()) for bar in bars]
        assert all(finding.at <= at for finding in overview.findings)


def test_the_load_equals_the_state_at_each_minute(busy: str) -> None:
    with Queries(busy) as queries:
        events = list(queries.log.read())
        last = events[-1][1].at
        points = load(queries, events[0][1].at, last + 1).points
        assert points[-1].slots == len(queries.views.slots())
    assert [point.at for point in points] == sorted(point.at for point in points)
    for point, later in pairwise(points):
        at = (later.at - 1) // MINUTE * MINUTE
        if at < point.at:
            continue
        state = fold(event for event in events if event[1].at < at)
        counts = Counter(cluster.status_of(proc) for cluster in state.clusters.values() for proc in cluster.procs())
        busy_slots = sum(slot.activity == "Busy" for slot in state.slots.values())
        expected = counts["Idle"], counts["Running"] + counts["Suspended"], counts["Held"], busy_slots
        assert (point.idle, point.running, point.held, point.busy) == expected


def test_a_bar_says_why_jobs_are_held_or_wait(url: str) -> None:
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=2, memory=4096)
        pool.submit({**SLEEP, "arguments": 30, "batch_name": "night"}, count=3)
        pool.submit({**SLEEP, "request_memory": "64 GB"}, count=5)
        pool.advance(120)
        pool.submit({**SLEEP, "arguments": 900}, count=4)
        pool.advance(20)
        pool.hold("3.3", reason="wrong input")
    with Queries(url) as queries:
        newest, large, done = cluster_bars(queries)
        overview = pool_overview(queries)
    assert (newest.jobs, newest.reason) == (
        {"idle": 1, "running": 2, "held": 1},
        "1 job held: wrong input (by user alice); all matching slots are in use",
    )
    assert (large.jobs, large.reason) == ({"idle": 5}, "no slot has the memory that it requests")
    assert (done.jobs, done.batch, done.reason) == ({"completed": 3}, "night", "")
    assert overview.sentence == "All 2 cores are busy; 6 jobs wait, most of them for memory; 1 job is held."
    assert [finding.sentence for finding in overview.findings] == [
        "Job 3.3 of alice was held: wrong input (by user alice)."
    ]


def test_findings_name_evictions_preemptions_and_lost_machines(url: str) -> None:
    settings = {"NEGOTIATOR_INTERVAL": 10, "PREEMPTION_REQUIREMENTS": "true"}
    with Pool.open(url, user="alice", settings=settings) as pool:
        pool.add_machine("host", cpus=1, memory=4096)
        pool.submit({**SLEEP, "arguments": 9000})
        pool.advance(60)
        (submitter,) = pool.submitters()
        pool.set_priority_factor(submitter.name, 1e6)
        pool.submit({**SLEEP, "arguments": 9000}, user="bob")
        pool.advance(60)
        pool.add_machine("spare", cpus=1, memory=1)
        pool.remove_machine("spare")
    with Queries(url) as queries:
        findings = pool_findings(queries)
        counts = {share.name.partition("@")[0]: (share.won, share.lost) for share in shares(queries).shares}
    assert [finding.kind for finding in findings] == ["machine", "eviction", "preemption"]
    assert counts == {"alice": (0, 1), "bob": (1, 0)}


def test_findings_of_one_cluster_at_one_time_are_combined(url: str) -> None:
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=4, memory=4096)
        pool.submit({**SLEEP, "arguments": 900}, count=4)
        pool.advance(20)
        pool.vacate("1", fast=True)
        pool.advance(1)
    with Queries(url) as queries:
        (finding,) = pool_findings(queries)
    assert finding.sentence == "4 jobs of cluster 1 of alice were evicted: Job vacated by schedd."
    assert (finding.subject, finding.jobs) == ("1", 4)


def test_shares_divide_the_cores_among_the_users_with_jobs(url: str) -> None:
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=4, memory=4096)
        pool.submit({**SLEEP, "arguments": 900}, count=4)
        pool.advance(20)
        pool.submit({**SLEEP, "arguments": 900}, count=2, user="bob")
        pool.advance(20)
    with Queries(url) as queries:
        answer = shares(queries)
    alice, bob = answer.shares
    assert (alice.used, alice.waiting, bob.used, bob.waiting) == (4.0, 0, 0.0, 2)
    assert alice.entitled is not None and bob.entitled is not None
    assert alice.entitled + bob.entitled == pytest.approx(4.0)
    assert answer.sentence.startswith("1 user has slots; alice@") and "bob@" in answer.sentence


def test_machines_have_their_slots_and_sizes(busy: str) -> None:
    with Queries(busy) as queries:
        (machine,) = machines(queries)
        assert machine.slots == len(queries.views.slots())
        assert (machine.machine, machine.cores, machine.memory) == ("h", 0.0, 7936.0)


def test_waiting_times_are_those_of_first_starts(url: str) -> None:
    with Pool.open(url, user="alice", settings={"NEGOTIATOR_INTERVAL": 10}) as pool:
        pool.add_machine("host", cpus=1, memory=4096)
        pool.submit({**SLEEP, "arguments": 100}, count=3)
        pool.advance(400)
        starts = [int(ad["JobStartDate"]) - int(ad["QDate"]) for ad in pool.history()]
    with Queries(url) as queries:
        answer = waits(queries)
    assert answer.jobs == 3 and answer.quantiles["longest"] == max(starts)
    assert answer.quantiles["median"] == sorted(starts)[1]
    assert sum(each.jobs for each in answer.bins) == 3


@pytest.mark.parametrize(
    ("pairs", "quantiles", "filled"),
    [
        ([], {"median": 0, "p90": 0, "p99": 0, "longest": 0}, []),
        ([(5, 1)], {"median": 5, "p90": 5, "p99": 5, "longest": 5}, [Bin(10, 1)]),
        ([(1, 50), (20, 40), (10**6, 10)], {"median": 1, "p90": 20, "p99": 10**6, "longest": 10**6},
         [Bin(10, 50), Bin(30, 40), Bin(None, 10)]),
    ],
)  # fmt: skip
def test_quantiles_are_waiting_times_of_jobs(
    pairs: list[tuple[int, int]], quantiles: dict[str, int], filled: list[Bin]
) -> None:
    answer = histogram(pairs)
    assert answer.quantiles == quantiles
    assert [each for each in answer.bins if each.jobs] == filled


def test_each_state_has_a_letter() -> None:
    styles = [slot_style(*pair) for pair in (("Claimed", "Busy"), ("Claimed", "Suspended"), ("Claimed", "Idle"))]
    assert [style.letter for style in styles] == ["B", "S", "C"]
    assert slot_style("Preempting", "Killing").letter == "P" and slot_style("Delete", "None").letter == "U"
