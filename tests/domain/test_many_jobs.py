"""Differential: an event about many jobs has the same effect by columns, or by range, as job by job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.decision import draft
from poolbook.domain.events import JobsEdited
from poolbook.domain.state import cluster as clusters
from poolbook.domain.state import many_jobs
from poolbook.domain.state.cluster import Cluster
from poolbook.domain.state.proc_ads import Variants

JOBS = 12
WHY = (1_800_000_000_000_000, "user_edit", "test")
PROCS = st.sets(st.integers(0, JOBS - 1), min_size=1).map(sorted)
STEPS = st.lists(st.tuples(PROCS, st.sampled_from(["Held", "Idle", "Removed", "", "end"])), max_size=8)


def after(steps: list[tuple[list[int], str]], columns: bool = False, alike: bool = False) -> tuple[object, ...]:
    """Return all attributes of a cluster's jobs after these steps."""
    cluster = Cluster(7, "alice", {"Own": "1"}, JOBS, Variants(()), "Idle")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clusters, "MANY_RANGES", 1 if columns else JOBS)
        patched.setattr(clusters, "_LONG_RANGE", 1 if alike else JOBS)
        for number, (procs, change) in enumerate(steps):
            ranges = draft.ranges(procs)
            if change == "end":
                cluster.remove_all(ranges)
            else:
                event = JobsEdited(*WHY, 7, ranges, {"Step": str(number)})
                cluster.edit_all(ranges, event, change or None)
    present = [*cluster.procs()]
    counts = sorted(count for count in cluster.members if count)
    changes = [cluster.changes(proc) for proc in present]
    return present, bytes(cluster.status), cluster.status_counts, cluster.live, counts, changes, cluster.next_idle()


@given(STEPS)
def test_an_event_about_many_ranges_has_the_same_effect_on_each_job(
    steps: list[tuple[list[int], str]],
) -> None:
    assert after(steps, columns=True) == after(steps)


@given(STEPS)
def test_an_event_about_a_range_of_alike_jobs_has_the_same_effect_on_each_job(
    steps: list[tuple[list[int], str]],
) -> None:
    assert after(steps, alike=True) == after(steps)


@given(PROCS)
def test_many_processes_are_the_same_ranges(procs: list[int]) -> None:
    assert many_jobs.ranges_of(procs) == draft.ranges(procs)
    assert many_jobs.procs_of(draft.ranges(procs)).tolist() == procs
