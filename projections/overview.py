"""Aggregates of the views for overviews of a pool: clusters, findings, waiting times, load and machines.

Each function makes a few SQL queries and builds no ads, so a pool of 10,000 slots and 100,000 jobs takes a fraction of
a second.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from msgspec import Struct

from ..domain.state.job_ad import STATUS_NUMBERS
from .activity_view import BUSY, PREEMPTION, present_load
from .schema import GONE

_RUNNING = ("Running", "Suspended", "TransferringOutput")


class ClusterRow(NamedTuple):
    """A cluster, with its jobs in the queue and in the history counted by status number."""

    cluster: int
    owner: str
    batch: str
    qdate: int  #: when it was submitted, in seconds
    submitted: int  #: the number of jobs
    counts: dict[int, int]


def cluster_rows(
    connection: sqlite3.Connection, owner: str, before: int, limit: int, queued: bool, text: str = ""
) -> list[ClusterRow]:
    """Return at most `limit` clusters with numbers below `before`, the newest first.

    :param owner: only this user's clusters; empty: all users' clusters
    :param queued: only clusters with jobs in the queue
    :param text: only clusters whose number, owner or batch contains this text, in any case
    """
    condition = "c.cluster IN (SELECT cluster FROM jobs)" if queued else "1"
    statement = (
        "SELECT cluster, owner, batch, qdate, count FROM clusters c WHERE c.cluster < ? AND ? IN ('', c.owner) "
        f"AND instr(lower(cluster || ' ' || owner || ' ' || batch), ?) AND {condition} ORDER BY c.cluster DESC LIMIT ?"
    )
    parameters = before, owner, text.lower(), limit
    rows = {row[0]: ClusterRow._make((*row, {})) for row in connection.execute(statement, parameters)}
    for table in ("history", "jobs") if rows else ():
        columns = "cluster, status, SUM(last - first + 1)"
        counts = f"SELECT {columns} FROM {table} WHERE cluster BETWEEN ? AND ? GROUP BY 1, 2"
        for cluster, status, jobs in connection.execute(counts, (min(rows), max(rows))):
            if cluster in rows:
                rows[cluster].counts[status] = rows[cluster].counts.get(status, 0) + jobs
    return list(rows.values())


def hold_reasons(connection: sqlite3.Connection) -> dict[int, tuple[str, int, int]]:
    """Return for each cluster with held jobs the expression of the most common HoldReason, the number of jobs with this
    reason, and the number of different reasons."""
    statement = (
        "SELECT cluster, COALESCE(json_extract(j.changes, '$.HoldReason'), json_extract(c.ad, '$.HoldReason'), ''), "
        "SUM(last - first + 1) AS jobs FROM jobs j JOIN clusters c USING (cluster) WHERE status=? "
        "GROUP BY 1, 2 ORDER BY jobs"
    )
    reasons: dict[int, tuple[str, int, int]] = {}
    for cluster, reason, jobs in connection.execute(statement, (STATUS_NUMBERS["Held"],)):
        reasons[cluster] = reason, jobs, reasons.get(cluster, ("", 0, 0))[2] + 1
    return reasons


_MOST_FINDINGS = 10_000  #: the number of rows in which findings that belong together are combined


class FindingRow(NamedTuple):
    """Rows of the table ``findings`` about one cluster at one time, with the owner of the cluster. ``subject`` is that
    of one of them."""

    position: int
    at: int
    kind: str
    cluster: int
    subject: str
    jobs: int
    user: str
    cause: str
    text: str
    owner: str


def finding_rows(connection: sqlite3.Connection, before: int, limit: int) -> list[FindingRow]:
    """Return at most `limit` findings of events before a position, the newest first."""
    last = "SELECT * FROM findings WHERE position < ? ORDER BY position DESC LIMIT ?"
    thing = "CASE WHEN f.kind IN ('hold', 'eviction') THEN '' ELSE f.subject END"
    statement = (
        "SELECT MAX(f.position), f.at, f.kind, cluster, f.subject, SUM(f.jobs), f.user, f.cause, f.text, "
        f"COALESCE(c.owner, '') FROM ({last}) f LEFT JOIN clusters c USING (cluster) "
        f"GROUP BY f.at, f.kind, cluster, f.cause, f.text, f.user, {thing} ORDER BY 1 DESC LIMIT ?"
    )
    return [FindingRow._make(row) for row in connection.execute(statement, (before, _MOST_FINDINGS, limit))]


def preemptions(connection: sqlite3.Connection, since: int) -> dict[str, tuple[int, int]]:
    """Return how many claimed slots each submitter's jobs were matched with since an instant, in microseconds, and how
    many of its claims were preempted for such matches."""
    counts: dict[str, tuple[int, int]] = {}
    for column, gained in (("c.submitter", 1), ("f.user", 0)):
        statement = (
            f"SELECT {column}, COUNT(*) FROM findings f LEFT JOIN clusters c USING (cluster) "
            "WHERE f.kind=? AND f.at>=? GROUP BY 1"
        )
        for submitter, slots in connection.execute(statement, (PREEMPTION, since)):
            won, lost = counts.get(submitter or "", (0, 0))
            counts[submitter or ""] = (won + slots * gained, lost + slots * (1 - gained))
    return counts


def first_waits(connection: sqlite3.Connection, ended: int) -> list[tuple[int, int]]:
    """Return how long jobs waited for their first start, in seconds, each with the number of jobs: the jobs in the
    queue that have started, and the last `ended` ranges of jobs in the history."""
    columns = "cluster, last - first + 1 AS jobs, CAST(json_extract(changes, '$.JobStartDate') AS INTEGER) AS start"
    last = f"SELECT {columns} FROM history ORDER BY id DESC LIMIT {ended}"
    statement = (
        f"SELECT MAX(0, start - qdate), SUM(jobs) FROM (SELECT {columns} FROM jobs UNION ALL SELECT * FROM ({last})) "
        "JOIN clusters USING (cluster) WHERE start IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    return connection.execute(statement).fetchall()


class LoadRow(NamedTuple):
    """The jobs and slots from the minute after the row before until ``at``, in microseconds."""

    at: int
    idle: int
    running: int
    held: int
    busy: int
    slots: int


def load_rows(connection: sqlite3.Connection, since: int, now: int) -> list[LoadRow]:
    """Return the load from an instant to `now`, in microseconds. The last row is the present load."""
    rows = connection.execute(
        "SELECT at, idle, running, held, busy, slots FROM load WHERE at >= ? ORDER BY at", (since,)
    )
    return [*map(LoadRow._make, rows), LoadRow(now, **present_load(connection))]


class MachineSummary(Struct, frozen=True):
    """A machine and its slots; ``cores`` and ``memory`` (in MiB) are the total sizes of its undivided slots; 0 if they
    are unknown."""

    machine: str
    joined: int
    slots: int
    busy: int
    claimed: int
    draining: int
    cores: float
    memory: float


_SIZE = (
    "CAST(COALESCE(record->>'$.ad.TotalSlot{0}', record->>'$.ad.{0}', 0) AS REAL) * (record->>'$.kind' <> 'dynamic')"
)


def machine_rows(connection: sqlite3.Connection) -> list[MachineSummary]:
    """Return the machines that are not gone, in the order in which they joined the pool."""
    cpus, memory = (_SIZE.format(name).replace("record->>", "s.record->>") for name in ("Cpus", "Memory"))
    statement = (
        "SELECT m.machine, m.joined, COUNT(s.name), TOTAL(s.activity=?), TOTAL(s.state='Claimed'), "
        f"TOTAL(s.state='Drained'), TOTAL({cpus}), TOTAL({memory}) FROM machines m "
        f"LEFT JOIN slots s USING (machine) WHERE m.machine NOT IN ({GONE}) GROUP BY m.machine "
        "ORDER BY m.joined, m.rowid"
    )
    rows = connection.execute(statement, (BUSY,))
    return [MachineSummary(*row[:3], *map(int, row[3:6]), *row[6:]) for row in rows]


def core_counts(connection: sqlite3.Connection) -> tuple[float, float, bool]:
    """Return the weight of the claimed slots, the number of cores of the undivided slots, and whether some of these
    slots are partitionable."""
    size = _SIZE.format("Cpus")
    statement = (
        f"SELECT TOTAL({size}), TOTAL(record->>'$.kind' = 'partitionable') FROM slots WHERE machine NOT IN ({GONE})"
    )
    cores, partitionable = connection.execute(statement).fetchone()
    (used,) = connection.execute("SELECT TOTAL(weight) FROM claims").fetchone()
    return used / 1000, cores, bool(partitionable)


def job_statuses(
    connection: sqlite3.Connection, cluster: int, proc: int | None, now: int
) -> dict[int, tuple[int, int]]:
    """Return for each status number how many jobs of a cluster (of its process `proc`, if given) are in the queue, and
    how long their current runs have lasted together by `now`, in seconds."""
    started = "COALESCE(CAST(json_extract(changes, '$.JobCurrentStartDate') AS INTEGER), :now)"
    statement = (
        f"SELECT status, SUM(jobs), SUM(jobs * MAX(0, :now - started)) FROM (SELECT status, {started} AS started, "
        "IIF(:proc IS NULL, last - first + 1, 1) AS jobs FROM jobs "
        "WHERE cluster=:cluster AND (:proc IS NULL OR :proc BETWEEN first AND last)) GROUP BY status"
    )
    rows = connection.execute(statement, {"now": now, "cluster": cluster, "proc": proc})
    return {status: (jobs, seconds) for status, jobs, seconds in rows}
