"""The queue in batches: one line per batch of jobs, computed from counts by cluster and status, without ads.

A batch has one owner and one batch name; a cluster without a batch name is a separate batch. (Manual: condor_q, default
output.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .cells import (
    COMPLETED,
    HELD,
    IDLE,
    REMOVED,
    RUNNING,
    SUSPENDED,
    TRANSFERRING_OUTPUT,
    CellContext,
    number,
    short_date,
    text,
)
from .job_selection import SCHEDULER_UNIVERSE, dag_of, node_of, owner_or_node
from .layout import Column, Layout, lay_out

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Counts = Mapping[int, int]
"""The number of jobs by JobStatus."""


class BatchCluster(NamedTuple):
    """A cluster with the values that the batch table needs."""

    owner: str
    batch: str | None  #: JobBatchName or its substitute, or None if there is neither
    cluster: int
    qdate: int  #: the submission time, seconds since the epoch
    counts: Counts  #: the number of its selected jobs in the queue, by status
    lowest: int  #: the lowest proc of these jobs; ``highest`` is the highest
    highest: int
    submitted: int | None  #: the number of jobs submitted (TotalSubmitProcs), or None if unknown
    materialized: int | None = None  #: number of jobs materialized so far; None if all were materialized at submission
    dag: int | None = None  #: the cluster of its DAG, or None if it is not a DAG node
    nodes_done: int | None = None  #: DAG_NodesDone of a scheduler universe job, otherwise None
    node: str = ""  #: the name of its DAG node, shown instead of the owner

    @property
    def jobs(self) -> int:
        return sum(self.counts.values())

    @property
    def done(self) -> int | None:
        """Return the number of its jobs that have left the queue, or None if unknown."""
        made_count = self.submitted if self.materialized is None else self.materialized
        return None if made_count is None or self.submitted is None else made_count - self.jobs


def cluster_rows(ads: Iterable[ClassAd], dag: bool = False) -> list[BatchCluster]:
    """Return the rows of job ads, which must be sorted by job id. With `dag`, a DAG node's owner is the node's name."""
    rows: dict[int, BatchCluster] = {}
    for ad in ads:
        cluster, proc, status = (int(number(ad, name) or 0) for name in ("ClusterId", "ProcId", "JobStatus"))
        earlier_row = rows.get(cluster)
        if earlier_row is None:
            submitted_count, made_count = number(ad, "TotalSubmitProcs"), number(ad, "JobMaterializeNextProcId")
            batch, nodes_done = text(ad, "JobBatchName"), None
            if number(ad, "JobUniverse") == SCHEDULER_UNIVERSE:
                batch = batch or f"DAG: {cluster}"
                nodes_done = int(number(ad, "DAG_NodesDone") or 0)
                nodes = number(ad, "DAG_NodesTotal")
                submitted_count = submitted_count if nodes is None else nodes
            elif batch is None and (node := node_of(ad)) is not None:
                batch = f"NODE: {node}"
            rows[cluster] = BatchCluster(
                text(ad, "Owner") or "",
                batch,
                cluster,
                int(number(ad, "QDate") or 0),
                {status: 1},
                proc,
                proc,
                None if submitted_count is None else int(submitted_count),
                None if made_count is None else int(made_count),
                dag_of(ad),
                nodes_done,
                owner_or_node(ad) if dag else "",
            )
        else:
            assert isinstance(earlier_row.counts, dict)
            earlier_row.counts[status] = earlier_row.counts.get(status, 0) + 1
            rows[cluster] = earlier_row._replace(highest=proc)
    return list(rows.values())


class BatchRow(NamedTuple):
    """A line of the table. A count of 0 is printed as ``_``."""

    owner: str
    name: str
    qdate: int
    done: int
    running: int
    idle: int
    held: int
    total: int
    ids: str


def batches(rows: Iterable[BatchCluster], partial: bool = False) -> list[BatchRow]:
    """Return the clusters grouped into batches, sorted by the lowest job of each batch.

    :param partial: whether some jobs of the clusters were not selected, so that jobs not listed need not be done
    """
    named_batches: dict[tuple[str, str], int] = {}
    leaders_by_dag: dict[int, int] = {}
    gathered_rows: dict[int, list[BatchCluster]] = {}
    for row in sorted(rows, key=lambda row: row.cluster):
        leader = row.cluster
        if row.dag is not None:  # a node belongs to its DAG's batch, or is a separate batch if the DAG is not shown
            leader = leaders_by_dag.get(row.dag, leader)
        elif row.batch is not None:
            first = named_batches.setdefault((row.owner, row.batch), leader)
            leader = leader if row.nodes_done is not None else first
        leaders_by_dag[row.cluster] = leader
        gathered_rows.setdefault(leader, []).append(row)
    return [_batch_row(clusters, partial) for clusters in gathered_rows.values()]


def _batch_row(clusters: list[BatchCluster], partial: bool) -> BatchRow:
    # Scheduler universe jobs represent their nodes: they are neither counted as jobs nor shown in the ids.
    jobs = [row for row in clusters if row.nodes_done is None]
    plain_rows = [row for row in jobs if row.dag is None]
    dags = [row for row in clusters if row.nodes_done is not None]

    def count(*statuses: int) -> int:
        return sum(row.counts.get(status, 0) for row in jobs for status in statuses)

    first = clusters[0]
    are_known = all(row.submitted is not None for row in plain_rows)
    done_count = sum(row.nodes_done or 0 for row in dags) + (0 if partial else sum(row.done or 0 for row in plain_rows))
    ids = f"{jobs[0].cluster}.{jobs[0].lowest}" if jobs else "0.0"
    if jobs and jobs[0].cluster != jobs[-1].cluster:
        ids += f" ... {jobs[-1].cluster}.{jobs[-1].highest}"
    elif jobs and jobs[0].lowest != jobs[0].highest:
        ids += f"-{jobs[0].highest}"
    return BatchRow(
        first.node or first.owner,
        f"ID: {first.cluster}" if first.batch is None else first.batch,
        first.qdate,
        done_count if are_known else 0,
        count(RUNNING, TRANSFERRING_OUTPUT),
        count(IDLE, SUSPENDED),
        count(HELD),
        sum(row.submitted or 0 for row in (*plain_rows, *dags)) if are_known else 0,
        ids,
    )


def batch_table(rows: Iterable[BatchCluster], display: CellContext, *, partial: bool = False) -> Iterator[str]:
    """Yield the heading and a line for each batch.

    The HOLD column is shown only if a job is held, or if there are no batches.

    :param rows: clusters, in any order; those without jobs in the queue are not listed
    :param partial: see ``batches``
    """
    listed_batches = batches([row for row in rows if row.jobs], partial)
    owner, name = _name_widths(listed_batches, display.width)
    shows_held = not listed_batches or any(batch.held for batch in listed_batches)
    count_texts = [
        ("  DONE", [batch.done for batch in listed_batches]),
        ("  RUN ", [batch.running for batch in listed_batches]),
        ("  IDLE", [batch.idle for batch in listed_batches]),
        *([("  HOLD", [batch.held for batch in listed_batches])] if shows_held else []),
        (" TOTAL", [batch.total for batch in listed_batches]),
    ]
    columns = (
        Column("OWNER", "Owner", -owner, cut=True),
        Column("BATCH_NAME", "JobBatchName", -name, cut=True),
        Column("   SUBMITTED", "QDate", 12),
        *(Column(heading, heading, 6, missing="_", grow=True) for heading, _ in count_texts),
        Column("JOB_IDS", "JobIds", 0),
    )
    texts = [
        [
            batch.owner,
            batch.name,
            short_date(batch.qdate, display.timezone),
            *(str(column[at]) if column[at] > 0 else None for _, column in count_texts),
            batch.ids,
        ]
        for at, batch in enumerate(listed_batches)
    ]
    yield from lay_out(Layout(columns, trimmed=True, limit=display.longest), texts)


def _name_widths(listed_batches: list[BatchRow], width: int | None) -> tuple[int, int]:
    """Return the widths of the owner and batch name columns: condor_q's, or less on a narrow terminal."""
    if not listed_batches:
        return 5, 12
    owner = max(len(batch.owner) for batch in listed_batches)
    owner = 8 if owner < 5 else owner
    name = max(10, *(len(batch.name) for batch in listed_batches))
    if width is not None:
        # The numbers take 50 columns. The names are shortened to leave room for the ids: the batch name to no less than
        # 10 letters, the owner to no less than 8.
        surplus_width = max(0, owner + name + max(len(batch.ids) for batch in listed_batches) - (width - 50))
        cut_width = min(surplus_width, max(0, name - 10))
        name -= cut_width
        owner -= min(surplus_width - cut_width, max(0, owner - 8))
    return owner, name


class Census(NamedTuple):
    """The number of jobs in a queue by status: selected jobs, the user's jobs (None without a user), and all jobs."""

    asked: Counts
    mine: Counts | None
    everyone: Counts


_TOTALS = (
    ("completed", (COMPLETED,)),
    ("removed", (REMOVED,)),
    ("idle", (IDLE,)),
    ("running", (RUNNING, TRANSFERRING_OUTPUT)),
    ("held", (HELD,)),
    ("suspended", (SUSPENDED,)),
)


def count_statuses(ads: Iterable[ClassAd]) -> dict[int, int]:
    """Count the jobs in each state. Like condor_q, do not count scheduler universe jobs."""
    return Counter(int(number(ad, "JobStatus") or 0) for ad in ads if number(ad, "JobUniverse") != SCHEDULER_UNIVERSE)


_FILE_PADDING = 51
"""The blanks after the single line of totals for jobs from a file."""


def totals_lines(census: Census, my_name: str, *, alone: bool = False) -> str:
    """Return the lines below a table: the totals of the selected jobs, of the user's and of all jobs. ``alone``: only
    the first line, for jobs from a file."""
    lines = [_total_line("query", census.asked)]
    if alone:
        return lines[0] + " " * _FILE_PADDING + "\n\n"
    if census.mine is not None:
        lines.append(_total_line(my_name, census.mine))
    lines.append(_total_line("all users", census.everyone))
    return " \n".join(lines) + "\n\n"


def _total_line(owner_text: str, counts: Counts) -> str:
    count_texts = [f"{sum(counts.get(status, 0) for status in statuses)} {word}" for word, statuses in _TOTALS]
    return f"Total for {owner_text}: {sum(counts.values())} jobs; " + ", ".join(count_texts)


def totals_ad(census: Census) -> dict[str, int]:
    """Return the totals with the attribute names of the HTCondor summary ad: Jobs, Idle, ..., AllusersJobs, ..."""
    named_counts: dict[str, int] = {}
    for prefix, counts in (("", census.asked), ("My", census.mine), ("Allusers", census.everyone)):
        if counts is not None:
            named_counts[f"{prefix}Jobs"] = sum(counts.values())
            for word, statuses in _TOTALS:
                named_counts[prefix + word.capitalize()] = sum(counts.get(status, 0) for status in statuses)
    return named_counts
