"""The running jobs of slots, as in the live state, to compute the slots' ads (which include the cost of a drain)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from ..domain.state.cluster import Cluster
from ..domain.state.proc_ads import Variants
from ..domain.state.records import Slot
from .job_query import SelectedJobs, select_ranges


def running_jobs(connection: sqlite3.Connection, slots: Iterable[Slot]) -> dict[int, Cluster]:
    """Return the clusters of the jobs that run on these slots. They contain the changes to these jobs only."""
    starters = [slot.activation for slot in slots if slot.activation is not None and slot.activation.cluster]
    clusters: dict[int, Cluster] = {}
    selection = SelectedJobs(tuple((starter.cluster, starter.proc) for starter in starters))
    for job_range in select_ranges(connection, selection) if starters else ():
        if job_range.cluster not in clusters:
            clusters[job_range.cluster] = _cluster(connection, job_range.cluster)
        for proc in range(job_range.first, job_range.last + 1):
            clusters[job_range.cluster].restore(proc, job_range.status, json.loads(job_range.changes))
    return clusters


def _cluster(connection: sqlite3.Connection, number: int) -> Cluster:
    statement = "SELECT submitter, ad, count FROM clusters WHERE cluster=?"
    submitter, ad, count = connection.execute(statement, (number,)).fetchone()
    statement = "SELECT chunk FROM chunks WHERE cluster=? ORDER BY number"
    chunks = [chunk for (chunk,) in connection.execute(statement, (number,))]
    return Cluster(number, submitter, json.loads(ad), count, Variants(chunks), "Idle")
