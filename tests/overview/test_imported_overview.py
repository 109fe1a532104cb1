"""Golden: an overview shows what the imported records contain, and lists what they lack."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from poolbook.adapters.cli.main import main
from poolbook.adapters.overview.periods import load, waits
from poolbook.adapters.overview.pool import cluster_bars, machines, pool_findings, pool_overview
from poolbook.adapters.runtime.queries import Queries
from poolbook.domain.units import SECOND
from poolbook.replay.forensics.daemon_tables import NotKnown

TRACE = Path(__file__).parents[1] / "data" / "traces" / "05-prio-preempt"
RUNNING = int(datetime(2026, 11, 20, 22, 36, 57, tzinfo=UTC).timestamp()) * SECOND


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("overview") / "audit.db")
    assert main(["import", str(TRACE), "-log", url, "-zone", "UTC"]) == 0
    return url


def test_slots_and_findings_are_those_of_the_records(audit: str) -> None:
    with Queries(audit, at=RUNNING) as queries:
        overview = pool_overview(queries)
        assert sum(count.slots for count in overview.slots if count.activity == "Busy") == 3
        assert overview.sentence.startswith("All 3 slots are busy")
        assert [machine.busy for machine in machines(queries)] == [3]
    with Queries(audit) as queries:
        (evicted, *_) = pool_findings(queries)
        runs = queries.runs(0, 1 << 62, UTC, evicted=True).runs
        assert evicted.subject in {run.job for run in runs} and "was evicted: " in evicted.sentence
        assert waits(queries).jobs > 0
        assert max(point.busy for point in load(queries, 0, 1 << 62).points) == 3


def test_an_unknown_queue_is_listed_as_missing(audit: str) -> None:
    with Queries(audit) as queries:
        try:
            bars = cluster_bars(queries, queued=True)
        except NotKnown:
            assert any("queue is unknown" in text for text in pool_overview(queries).missing)
        else:
            assert sum(bar.total for bar in bars) == sum(pool_overview(queries).jobs.values())
