"""The overview of an imported log: what the records show. Where they show nothing, the answer says so."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC
from typing import TYPE_CHECKING

from ...domain.state.job_ad import STATUS_NUMBERS
from ...domain.units import SECOND
from ...projections.activity_view import EVICTION
from ...projections.overview import MachineSummary
from ...replay.accounts.demand import Demand
from ...replay.accounts.intervals import RUN_CLASSES, slot_times
from ...replay.forensics.daemon_tables import NotKnown
from ...replay.narration.formatting import EVER
from . import sentences
from .records import ClusterBar, Finding, Load, LoadPoint, PoolOverview, slot_counts, status_counts

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ..runtime.queries import Queries


def imported_overview(queries: Queries, findings: int) -> PoolOverview:
    missing = []
    jobs: dict[str, int] = {}
    at = queries.at or queries.views.at
    try:
        queue = queries.queue()
        jobs, at = status_counts(Counter(_integer(ad.eval("JobStatus")) for ad in queue.ads)), queue.at
        missing += [f"{queue.note[0].upper()}{queue.note[1:]}."] if queue.note else []
    except NotKnown as error:
        missing.append(f"The queue is unknown: {error}.")
    pairs = Counter((str(ad.eval("State")), str(ad.eval("Activity"))) for ad in queries.slots(at // SECOND))
    slots = slot_counts([(*pair, count) for pair, count in sorted(pairs.items())])
    if not slots:
        missing.append("The slots are unknown: no StartLog or output of condor_status was imported.")
    missing.append("The import has no reasons why jobs wait; `poolbook why JOB` shows what its records say.")
    if jobs or slots:
        busy = sum(count.slots for count in slots if count.activity == "Busy")
        sentence = sentences.pool_sentence(busy, sum(count.slots for count in slots), jobs, [])
        sentence = sentence if slots else sentence.replace("The pool has no slots", "No record shows the slots")
    else:
        sentence = "The records show neither the queue nor the slots at this time."
    return PoolOverview(at, sentence, slots, jobs, [], evictions(queries, findings), missing)


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def evictions(queries: Queries, limit: int) -> list[Finding]:
    """Return the last evictions by the time of the queries, the newest first."""
    until = EVER if queries.at is None else queries.at + 1
    runs = sorted(queries.runs(0, until, UTC, evicted=True).runs, key=lambda run: -run.ended)[:limit]
    return [
        Finding(
            0, run.ended, EVICTION, run.job, 1, run.user,
            f"Job {run.job}{f' of {run.user}' if run.user else ''} was evicted: {run.reason_text or run.cause.clause}.",
        )
        for run in runs
    ]  # fmt: skip


def imported_bars(queries: Queries, queued: bool = False) -> list[ClusterBar]:
    """Return the clusters in the recorded queue and, unless `queued`, in the recorded history, the newest first."""
    counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
    holds: defaultdict[int, Counter[str]] = defaultdict(Counter)
    firsts: dict[int, tuple[str, str, int]] = {}
    ended = [] if queued else _ended_clusters(queries)
    for cluster, owner, submitted, jobs in ended:
        counts[cluster][STATUS_NUMBERS["Completed"]] += jobs
        firsts[cluster] = owner, "", submitted * SECOND
    for ad in _queue_ads(queries, required=not ended):
        cluster, status = _integer(ad.eval("ClusterId")), _integer(ad.eval("JobStatus"))
        counts[cluster][status] += 1
        batch = ad.eval("JobBatchName") if "JobBatchName" in ad else ""
        firsts[cluster] = str(ad.eval("Owner")), str(batch), _integer(ad.eval("QDate")) * SECOND
        if status == STATUS_NUMBERS["Held"]:
            holds[cluster][str(ad.eval("HoldReason"))] += 1
    bars = []
    for cluster in sorted(counts, reverse=True):
        reasons = holds[cluster].most_common()
        reason = sentences.hold_clause(*reasons[0], len(reasons)) if reasons else ""
        bars.append(
            ClusterBar(cluster, *firsts[cluster], counts[cluster].total(), status_counts(counts[cluster]), reason)
        )
    return bars


def _queue_ads(queries: Queries, required: bool) -> Iterable[ClassAd]:
    """Return the ads of the recorded queue; if it is unknown, none unless it is required."""
    try:
        return queries.queue().ads
    except NotKnown:
        if required:
            raise
        return ()


def _ended_clusters(queries: Queries) -> list[tuple[int, str, int, int]]:
    """Return the clusters in the recorded history: number, owner, submission time (seconds) and jobs."""
    statement = (
        "SELECT a.cluster, c.owner, MIN(a.qdate), COUNT(*) FROM archive a JOIN accounts c ON c.id = a.account "
        "WHERE a.counted GROUP BY a.cluster"
    )
    return queries.history_views.connection.execute(statement).fetchall()


def imported_machines(queries: Queries) -> list[MachineSummary]:
    states: defaultdict[str, Counter[str]] = defaultdict(Counter)
    at = queries.at or queries.views.at
    for ad in queries.slots(at // SECOND):
        counts = states[str(ad.eval("Machine"))]
        counts.update(["slots", str(ad.eval("State")), str(ad.eval("Activity"))])
    return [
        MachineSummary(name, 0, count["slots"], count["Busy"], count["Claimed"], count["Drained"], 0.0, 0.0)
        for name, count in sorted(states.items())
    ]


def imported_waits(queries: Queries) -> list[tuple[int, int]]:
    """Return how long jobs waited for their first start, in seconds, each with the number of jobs."""
    demand = Demand()
    history = slot_times(queries.log, demand.watch)
    demand.finish(history.runs)
    until = EVER if queries.at is None else queries.at
    starts = [start for start in demand.first_starts(history.runs) if start.run.began <= until]
    return sorted(Counter(start.waited // SECOND for start in starts).items())


def imported_load(queries: Queries, since: int, until: int) -> Load:
    demand = Demand()
    history = slot_times(queries.log, demand.watch)
    demand.finish(history.runs)
    changes: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for change in demand.changes():
        changes[change.at][0] += change.jobs
    for part in history.intervals():
        is_run = part.kind in RUN_CLASSES
        for at, sign in ((part.begin, 1), (part.end, -1)):
            changes[at][1] += sign * is_run
            changes[at][2] += sign * (part.kind != "unknown")
    points: list[LoadPoint] = []
    wanting = busy = slots = 0
    for at, (jobs, run, known) in sorted(changes.items()):
        if at >= until:
            break
        wanting, busy, slots = wanting + jobs, busy + run, slots + known
        point = LoadPoint(max(at, since), max(0, wanting - busy), busy, 0, busy, slots)
        points = [*points[:-1], point] if points and points[-1].at == point.at else [*points, point]
    return Load(points, ["The records do not show how many jobs were held."])
