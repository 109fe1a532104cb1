"""What happened in a pool over a period: its load and queue, and how long jobs waited."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from ...projections import overview as tables
from ...projections.activity_view import MINUTE
from . import sentences
from .records import Bin, Load, LoadPoint, Waits

if TYPE_CHECKING:
    from ..runtime.queries import Queries

_LIMITS: Final = (10, 30, 60, 300, 900, 3_600, 3 * 3_600, 12 * 3_600, 86_400, 7 * 86_400)
"""The limits of the bins of waiting times, in seconds."""
_QUANTILES: Final = {"median": 50, "p90": 90, "p99": 99, "longest": 100}


def waits(queries: Queries, ended: int = 100_000) -> Waits:
    """Return how long jobs waited for their first start: the jobs in the queue that have started, and of the history at
    most the last `ended` rows. For an import, the log is read."""
    if queries.imported:
        from .imported import imported_waits

        return histogram(imported_waits(queries))
    return histogram(tables.first_waits(queries.history_views.connection, ended))


def histogram(pairs: list[tuple[int, int]]) -> Waits:
    """Return the histogram of waiting times (seconds, sorted), each with the number of jobs."""
    sums = list(accumulate(jobs for _, jobs in pairs))
    total = sums[-1] if sums else 0
    ranks = {name: -(-total * percent // 100) for name, percent in _QUANTILES.items()}
    quantiles = {name: pairs[bisect_left(sums, rank)][0] if total else 0 for name, rank in ranks.items()}
    counts = [0] * (len(_LIMITS) + 1)
    for seconds, jobs in pairs:
        counts[sum(seconds >= limit for limit in _LIMITS)] += jobs
    bins = [Bin(limit, jobs) for limit, jobs in zip((*_LIMITS, None), counts, strict=True)]
    return Waits(sentences.waits_sentence(quantiles, total), total, bins, quantiles)


def load(queries: Queries, since: int, until: int, points: int = 500) -> Load:
    """Return the load and the queue between two instants, with at most about `points` points. For an import, the log is
    read."""
    if queries.imported:
        from .imported import imported_load

        return imported_load(queries, since, until)
    views = queries.views
    now = max(views.at, since)
    rows = tables.load_rows(views.connection, since, min(now, until))
    # A row has the counts since the minute after the row before.
    starts = [since, *(min(row.at + MINUTE, later.at) for row, later in pairwise(rows))]
    steps = [LoadPoint(start, *row[1:]) for start, row in zip(starts, rows, strict=True) if start < until]
    stride = -(-len(steps) // points) or 1
    return Load(steps[::-1][::stride][::-1], [])
