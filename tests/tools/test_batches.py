"""Property: counts by cluster and complete ads give the same batch table and totals."""

from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.condor_tools import queue_table
from poolbook.adapters.condor_tools.batches import BatchCluster, batches, cluster_rows
from poolbook.domain.classad import ClassAd

from ..together import together
from .captures import MINUTE, printed, surroundings_at

CLUSTERS = st.dictionaries(
    st.integers(1, 20),
    st.tuples(
        st.sampled_from(["alice", "bob"]),
        st.sampled_from([None, "night", "ID: 7"]),
        st.dictionaries(st.integers(0, 5), st.integers(1, 7), min_size=1),
        st.sampled_from([None, 6, 9]),
    ),
    max_size=6,
)

Clusters = dict[int, tuple[str, str | None, dict[int, int], int | None]]


def ads_of(clusters: Clusters) -> list[ClassAd]:
    """Return a queue: cluster to owner, batch name, the status of each proc, and TotalSubmitProcs."""
    queued = []
    for cluster, (owner, batch, procs, submitted) in clusters.items():
        of_cluster = ClassAd({"ClusterId": cluster, "Owner": owner, "QDate": MINUTE + cluster})
        if batch is not None:
            of_cluster["JobBatchName"] = batch
        if submitted is not None:
            of_cluster["TotalSubmitProcs"] = submitted
        queued += [ClassAd({"ProcId": proc, "JobStatus": status}, chained=of_cluster) for proc, status in procs.items()]
    return queued


def rows_of(clusters: Clusters) -> list[BatchCluster]:
    """Return the same queue, as counts."""
    rows = []
    for cluster, (owner, batch, procs, submitted) in clusters.items():
        statuses = list(procs.values())
        counts = {status: statuses.count(status) for status in statuses}
        rows.append(BatchCluster(owner, batch, cluster, MINUTE + cluster, counts, min(procs), max(procs), submitted))
    return rows


@given(CLUSTERS, st.sampled_from([[], ["-all"], ["bob"], ["3", "4"], ["-totals"], ["-totals", "-all"], ["-wide"]]))
def test_counts_print_what_ads_print(clusters: Clusters, argv: list[str]) -> None:
    query = queue_table.parse_arguments(argv)
    assert query.needs_only_counts
    at = surroundings_at()
    assert printed(queue_table.render_rows(rows_of(clusters), query, at)) == printed(
        queue_table.render(ads_of(clusters), query, at)
    )


@together(
    "argv",
    [
        ["-nobatch"],
        ["12.3"],
        ["-constraint", "true"],
        ["-limit", "3"],
        ["-hold"],
        ["-af", "Owner"],
        ["-totals", "--json"],
    ],
)
def test_a_request_that_needs_ads_is_recognized(argv: list[str]) -> None:
    assert not queue_table.parse_arguments(argv).needs_only_counts


@given(CLUSTERS)
def test_every_job_is_in_one_batch(clusters: Clusters) -> None:
    table = batches(rows_of(clusters))
    job_count = sum(batch.running + batch.idle + batch.held for batch in table)
    statuses = [status for _, _, procs, _ in clusters.values() for status in procs.values()]
    assert job_count == sum(status not in (3, 4) for status in statuses)


def test_unmaterialized_jobs_are_not_done() -> None:
    row = BatchCluster("alice", None, 55, MINUTE, {2: 1}, 0, 0, submitted=5, materialized=1)
    (batch,) = batches([row])
    assert (batch.done, batch.total) == (0, 5)
    (batch,) = batches([row._replace(materialized=4)])
    assert batch.done == 3


def test_rows_of_ads_are_counted_once() -> None:
    (row,) = cluster_rows(ads_of({7: ("bob", "x", {0: 1, 2: 1, 5: 2}, 6)}))
    assert row == BatchCluster("bob", "x", 7, MINUTE + 7, {1: 2, 2: 1}, 0, 5, 6)
    assert row.done == 3
