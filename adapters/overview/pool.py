"""The overview of a pool, its clusters and its machines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ...domain.state.job_ad import STATUS_NUMBERS
from ...domain.units import SECOND
from ...projections import overview as tables
from . import sentences
from .records import ClusterBar, Finding, PoolOverview, slot_counts, status_counts

if TYPE_CHECKING:
    from ...projections.views import RejectionRow
    from ..runtime.queries import Queries

LATEST: Final = 1 << 62  #: a number greater than all clusters and positions


def pool_overview(queries: Queries, findings: int = 20) -> PoolOverview:
    """Return the overview of a pool with at most this number of findings. Raise the errors of `Queries`."""
    if queries.imported:
        from .imported import imported_overview

        return imported_overview(queries, findings)
    views = queries.views
    slots = slot_counts(views.slot_counts())
    counts: Counter[int] = Counter()
    for _, _, _, status, jobs in views.counts():
        counts[status] += jobs
    by_status = status_counts(counts)
    waiting = sentences.waiting_reasons(_present_rejections(queries))
    used, cores, is_partitionable = tables.core_counts(views.connection)
    if is_partitionable and cores:
        sentence = sentences.pool_sentence(round(min(used, cores)), round(cores), by_status, waiting, "core")
    else:
        busy = sum(count.slots for count in slots if count.activity == "Busy")
        sentence = sentences.pool_sentence(busy, sum(count.slots for count in slots), by_status, waiting)
    at = views.at if queries.at is None else queries.at
    return PoolOverview(at, sentence, slots, by_status, waiting, pool_findings(queries, limit=findings), [])


def _present_rejections(queries: Queries) -> list[RejectionRow]:
    """Return the rejections that still apply. A rejection stays in the views under the first job of its autocluster, so
    there can be older ones for the same jobs: together, a submitter's rejections have no more jobs than wait."""
    idle: Counter[str] = Counter()
    for submitter, _, _, status, jobs in queries.views.counts():
        idle[submitter] += jobs if status == STATUS_NUMBERS["Idle"] else 0
    rows = []
    for row in sorted(queries.views.rejections(), key=lambda row: -row.at):
        if idle[row.submitter] > 0:
            idle[row.submitter] -= row.jobs
            rows.append(row)
    return rows


def pool_findings(queries: Queries, before: int = LATEST, limit: int = 100) -> list[Finding]:
    """Return at most `limit` findings of events before a position of the log, the newest first. For an import, return
    the last evictions, read from the log."""
    if queries.imported:
        from .imported import evictions

        return evictions(queries, limit)
    return list(map(sentences.finding, tables.finding_rows(queries.views.connection, before, limit)))


def cluster_bars(
    queries: Queries, owner: str = "", before: int = LATEST, limit: int = 200, queued: bool = False, text: str = ""
) -> list[ClusterBar]:
    """Return at most `limit` clusters with numbers below `before`, the newest first. For an import, return those in the
    recorded queue and, unless `queued`, in the recorded history; raise `NotKnown` if no imported file contains them.

    :param owner: only this user's clusters; empty: all users' clusters
    :param queued: only clusters with jobs in the queue
    :param text: only clusters whose number, owner or batch contains this text, in any case
    """
    if queries.imported:
        from .imported import imported_bars

        wanted = text.lower()
        return [
            bar for bar in imported_bars(queries, queued)
            if bar.cluster < before and owner in ("", bar.owner)
            and wanted in f"{bar.cluster} {bar.owner} {bar.batch}".lower()
        ][:limit]  # fmt: skip
    connection = queries.history_views.connection
    rows = tables.cluster_rows(connection, owner, before, limit, queued, text)
    held = tables.hold_reasons(connection)
    waiting: dict[int, str] = {}
    for reason in sentences.waiting_reasons(_present_rejections(queries)):
        waiting.setdefault(int(reason.job.partition(".")[0]), reason.reason)
    bars = []
    for row in rows:
        jobs = status_counts(row.counts)
        if row.submitted > sum(jobs.values()):
            jobs["unmaterialized"] = row.submitted - sum(jobs.values())
        idle = waiting.get(row.cluster, "") if jobs.get("idle") else ""
        hold = sentences.hold_clause(*held[row.cluster]) if row.cluster in held else ""
        reason_text = "; ".join(filter(None, (hold, idle)))
        bars.append(ClusterBar(row.cluster, row.owner, row.batch, row.qdate * SECOND, row.submitted, jobs, reason_text))
    return bars


def machines(queries: Queries) -> list[tables.MachineSummary]:
    """Return the machines in the order in which they joined the pool, or for an import, by name."""
    if queries.imported:
        from .imported import imported_machines

        return imported_machines(queries)
    return tables.machine_rows(queries.views.connection)
