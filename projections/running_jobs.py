"""The jobs that run on slots, as the live state has them: a slot's ad tells what a drain would grant them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from ..domain.state.cluster import Cluster
from ..domain.state.proc_ads import Variants
from ..domain.state.records import Slot
from .job_query import SelectedJobs, stretches


def running_jobs(connection: sqlite3.Connection, slots: Iterable[Slot]) -> dict[int, Cluster]:
    """The clusters of the jobs that these slots run, with what has happened to these jobs and to no other."""
    runs = [slot.activation for slot in slots if slot.activation is not None and slot.activation.cluster]
    clusters: dict[int, Cluster] = {}
    for stretch in stretches(connection, SelectedJobs(tuple((run.cluster, run.proc) for run in runs))) if runs else ():
        if stretch.cluster not in clusters:
            clusters[stretch.cluster] = _cluster(connection, stretch.cluster)
        for proc in range(stretch.first, stretch.last + 1):
            clusters[stretch.cluster].restore(proc, stretch.status, json.loads(stretch.changes))
    return clusters


def _cluster(connection: sqlite3.Connection, number: int) -> Cluster:
    statement = "SELECT submitter, ad, count FROM clusters WHERE cluster=?"
    submitter, ad, count = connection.execute(statement, (number,)).fetchone()
    statement = "SELECT chunk FROM chunks WHERE cluster=? ORDER BY number"
    chunks = [chunk for (chunk,) in connection.execute(statement, (number,))]
    return Cluster(number, submitter, json.loads(ad), count, Variants(chunks), "Idle")
