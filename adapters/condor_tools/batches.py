"""The queue in batches: one line per batch of jobs, from counts by cluster and status, without ads.

A batch has one owner and one batch name; a cluster without a name is a separate batch. (Manual: condor_q, default
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
    date,
    number,
    text,
)
from .job_selection import SCHEDULER, dag_of, node_of, owner_or_node
from .layout import Column, Layout, laid_out

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

Counts = Mapping[int, int]
"""The number of jobs by JobStatus."""


class BatchCluster(NamedTuple):
    """A cluster, as the batch table needs it."""

    owner: str
    batch: str | None  #: JobBatchName or its substitute; None if it has none
    cluster: int
    qdate: int  #: when it was submitted, seconds since the epoch
    counts: Counts  #: its selected jobs in the queue, by status
    lowest: int  #: the lowest proc of these, ``highest`` the highest
    highest: int
    submitted: int | None  #: the number of jobs submitted (TotalSubmitProcs); None if unknown
    materialized: int | None = None  #: how many of them have been materialized so far; None if all were at submission
    dag: int | None = None  #: the cluster of its DAG; None if it is not a node
    nodes_done: int | None = None  #: DAG_NodesDone of a job of the scheduler universe, otherwise None
    node: str = ""  #: the name of its node, to show in place of the owner

    @property
    def jobs(self) -> int:
        """Return how many of its jobs are in the queue."""
        return sum(self.counts.values())

    @property
    def done(self) -> int | None:
        """Return how many of its jobs have left the queue; None if unknown."""
        made = self.submitted if self.materialized is None else self.materialized
        return None if made is None or self.submitted is None else made - self.jobs


def cluster_rows(ads: Iterable[ClassAd], dag: bool = False) -> list[BatchCluster]:
    """Return the rows of job ads, which must be in the order of their ids; with `dag`, show the node's name as the
    owner of a node."""
    rows: dict[int, BatchCluster] = {}
    for ad in ads:
        cluster, proc, status = (int(number(ad, name) or 0) for name in ("ClusterId", "ProcId", "JobStatus"))
        before = rows.get(cluster)
        if before is None:
            submitted, made = number(ad, "TotalSubmitProcs"), number(ad, "JobMaterializeNextProcId")
            batch, nodes_done = text(ad, "JobBatchName"), None
            if number(ad, "JobUniverse") == SCHEDULER:
                batch = batch or f"DAG: {cluster}"
                nodes_done = int(number(ad, "DAG_NodesDone") or 0)
                nodes = number(ad, "DAG_NodesTotal")
                submitted = submitted if nodes is None else nodes
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
                None if submitted is None else int(submitted),
                None if made is None else int(made),
                dag_of(ad),
                nodes_done,
                owner_or_node(ad) if dag else "",
            )
        else:
            assert isinstance(before.counts, dict)
            before.counts[status] = before.counts.get(status, 0) + 1
            rows[cluster] = before._replace(highest=proc)
    return list(rows.values())


class BatchRow(NamedTuple):
    """A line of the table, which shows ``_`` for a count of 0."""

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
    """Return the batches of clusters, by the lowest job of each.

    :param partial: whether some jobs of the clusters were not selected, so that missing ones are not done
    """
    named: dict[tuple[str, str], int] = {}
    leaders: dict[int, int] = {}
    gathered: dict[int, list[BatchCluster]] = {}
    for row in sorted(rows, key=lambda row: row.cluster):
        leader = row.cluster
        if row.dag is not None:  # a node is in its DAG's batch, or in its own if the DAG is not shown
            leader = leaders.get(row.dag, leader)
        elif row.batch is not None:
            first = named.setdefault((row.owner, row.batch), leader)
            leader = leader if row.nodes_done is not None else first
        leaders[row.cluster] = leader
        gathered.setdefault(leader, []).append(row)
    return [_batch(clusters, partial) for clusters in gathered.values()]


def _batch(clusters: list[BatchCluster], partial: bool) -> BatchRow:
    # Jobs of the scheduler universe represent their nodes: they count neither as jobs nor in the ids.
    jobs = [row for row in clusters if row.nodes_done is None]
    alone = [row for row in jobs if row.dag is None]
    dags = [row for row in clusters if row.nodes_done is not None]

    def count(*statuses: int) -> int:
        return sum(row.counts.get(status, 0) for row in jobs for status in statuses)

    first = clusters[0]
    known = all(row.submitted is not None for row in alone)
    done = sum(row.nodes_done or 0 for row in dags) + (0 if partial else sum(row.done or 0 for row in alone))
    ids = f"{jobs[0].cluster}.{jobs[0].lowest}" if jobs else "0.0"
    if jobs and jobs[0].cluster != jobs[-1].cluster:
        ids += f" ... {jobs[-1].cluster}.{jobs[-1].highest}"
    elif jobs and jobs[0].lowest != jobs[0].highest:
        ids += f"-{jobs[0].highest}"
    return BatchRow(
        first.node or first.owner,
        f"ID: {first.cluster}" if first.batch is None else first.batch,
        first.qdate,
        done if known else 0,
        count(RUNNING, TRANSFERRING_OUTPUT),
        count(IDLE, SUSPENDED),
        count(HELD),
        sum(row.submitted or 0 for row in (*alone, *dags)) if known else 0,
        ids,
    )


def batch_table(rows: Iterable[BatchCluster], setting: CellContext, *, partial: bool = False) -> Iterator[str]:
    """Yield the heading and a line for each batch.

    The column HOLD appears only if a job is held, or if there is no batch at all.

    :param rows: clusters, in any order; those without jobs in the queue are not listed
    :param partial: see ``batches``
    """
    listed = batches([row for row in rows if row.jobs], partial)
    owner, name = _name_widths(listed, setting.width)
    held = not listed or any(batch.held for batch in listed)
    counted = [
        ("  DONE", [batch.done for batch in listed]),
        ("  RUN ", [batch.running for batch in listed]),
        ("  IDLE", [batch.idle for batch in listed]),
        *([("  HOLD", [batch.held for batch in listed])] if held else []),
        (" TOTAL", [batch.total for batch in listed]),
    ]
    columns = (
        Column("OWNER", "Owner", -owner, cut=True),
        Column("BATCH_NAME", "JobBatchName", -name, cut=True),
        Column("   SUBMITTED", "QDate", 12),
        *(Column(heading, heading, 6, missing="_", grow=True) for heading, _ in counted),
        Column("JOB_IDS", "JobIds", 0),
    )
    texts = [
        [
            batch.owner,
            batch.name,
            date(batch.qdate, setting.timezone),
            *(str(column[at]) if column[at] > 0 else None for _, column in counted),
            batch.ids,
        ]
        for at, batch in enumerate(listed)
    ]
    yield from laid_out(Layout(columns, trimmed=True, limit=setting.longest), texts)


def _name_widths(listed: list[BatchRow], width: int | None) -> tuple[int, int]:
    """Return the widths of the owner's and the batch's names, as in condor_q; less on a narrow terminal."""
    if not listed:
        return 5, 12
    owner = max(len(batch.owner) for batch in listed)
    owner = 8 if owner < 5 else owner
    name = max(10, *(len(batch.name) for batch in listed))
    if width is not None:
        # The numbers take 50 columns. The names shrink to leave room for the ids: the batch's down to 10 letters, the
        # owner's down to 8.
        over = max(0, owner + name + max(len(batch.ids) for batch in listed) - (width - 50))
        cut = min(over, max(0, name - 10))
        name -= cut
        owner -= min(over - cut, max(0, owner - 8))
    return owner, name


# -- totals --------------------------------------------------------------------------------------------------------


class Census(NamedTuple):
    """The jobs of a queue by status: the selected ones, mine (None without a user), and all."""

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
    """Count the jobs in each state. Like condor_q, do not count those of the scheduler universe."""
    return Counter(int(number(ad, "JobStatus") or 0) for ad in ads if number(ad, "JobUniverse") != SCHEDULER)


_FILE_PADDING = 51
"""The blanks after the single line of totals for jobs from a file."""


def totals(census: Census, me: str, *, alone: bool = False) -> str:
    """Return the lines under a table: the selected jobs, mine and everyone's; ``alone``: only the first line, for jobs
    from a file."""
    lines = [_total("query", census.asked)]
    if alone:
        return lines[0] + " " * _FILE_PADDING + "\n\n"
    if census.mine is not None:
        lines.append(_total(me, census.mine))
    lines.append(_total("all users", census.everyone))
    return " \n".join(lines) + "\n\n"


def _total(whose: str, counts: Counts) -> str:
    parts = [f"{sum(counts.get(status, 0) for status in statuses)} {word}" for word, statuses in _TOTALS]
    return f"Total for {whose}: {sum(counts.values())} jobs; " + ", ".join(parts)


def totals_ad(census: Census) -> dict[str, int]:
    """Return the totals under the names of HTCondor's summary ad: Jobs, Idle, ..., AllusersJobs, ..."""
    named: dict[str, int] = {}
    for prefix, counts in (("", census.asked), ("My", census.mine), ("Allusers", census.everyone)):
        if counts is not None:
            named[f"{prefix}Jobs"] = sum(counts.values())
            for word, statuses in _TOTALS:
                named[prefix + word.capitalize()] = sum(counts.get(status, 0) for status in statuses)
    return named
