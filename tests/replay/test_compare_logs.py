"""The comparison of two logs says where they begin to differ, and which jobs and slots differ in the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from poolbook import Behaviour, Log, LogError, Pool, import_pool
from poolbook.replay import compare

TRACES = Path(__file__).parent.parent / "data" / "traces"


def pool_of(change: Callable[[Pool], object] = lambda pool: None) -> Pool:
    """A pool that ran a job and, after `change`, another one."""
    pool = Pool.open(
        "memory:", user="alice", uid_domain="x", behave=lambda _: Behaviour(seconds=60), start=1_800_000_000
    )
    pool.add_machine("node1", cpus=1, memory="4 GB")
    pool.submit({"executable": "/bin/work"})
    pool.advance(30)
    change(pool)
    pool.advance(10)
    return pool


def test_logs_with_the_same_events_are_equal() -> None:
    result = compare(pool_of(), pool_of())
    assert result.equal and result.common == pool_of().state.position
    assert (result.counts, result.differences) == ({}, [])


def test_the_comparison_names_the_first_event_that_differs_and_its_fields() -> None:
    result = compare(pool_of(lambda pool: pool.hold("1.0")), pool_of(lambda pool: pool.remove("1.0")))
    assert not result.equal
    assert type(result.first).__name__ == type(result.second).__name__ == "JobsTransitioned"
    assert {"target", "cause"} <= set(result.fields)


def test_the_comparison_lists_the_jobs_and_slots_that_differ_at_the_end() -> None:
    result = compare(pool_of(), pool_of(lambda pool: pool.hold("1.0")))
    assert result.first is None and result.second is not None
    states = {difference.thing: (difference.before, difference.after) for difference in result.differences}
    assert states["1.0"] == ("Running", "Held")
    assert states["slot1_1@node1"][0] == "Claimed/Busy"


def test_the_comparison_counts_events_by_kind_where_the_numbers_differ() -> None:
    result = compare(pool_of(), pool_of(lambda pool: pool.submit({"executable": "/bin/work"})))
    assert result.counts["ClusterSubmitted"] == (1, 2)
    assert "MachineJoined" not in result.counts


def test_fields_can_be_ignored() -> None:
    later = Pool.open("memory:", user="alice", uid_domain="x", start=1_800_000_100)
    earlier = Pool.open("memory:", user="alice", uid_domain="x", start=1_800_000_000)
    assert compare(earlier, later).fields == ["at"]
    assert compare(earlier, later, ignore=["at"]).equal


def test_an_import_cannot_be_compared_with_a_pools_own_log(tmp_path: Path) -> None:
    imported = str(tmp_path / "audit.db")
    import_pool(str(TRACES / "01-plain"), imported, zone="UTC")
    with Log.open(imported) as log:
        assert compare(log, log).equal
        with pytest.raises(LogError, match="cannot be compared"):
            compare(log, pool_of())
