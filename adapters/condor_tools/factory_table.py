"""``poolbook q -factory``: the clusters that make their jobs little by little, as condor_q -factory lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...domain.state.job_ad import quoted
from .cells import HELD, IDLE, RUNNING, CellContext
from .formats import attribute_list, bare_json, whole_ads
from .layout import Layout, lines, with_appended
from .print_format import own_table

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...projections.views import FactoryRow
    from .queue_table import QueueQuery

_MODES = {"Paused": 1, "Removed": 3}
_ALL_MADE = 2


def ads(rows: Iterable[FactoryRow]) -> list[ClassAd]:
    """Return the clusters' ads, with how many of their jobs are in the queue, and how the factory stands."""
    from ...domain.state.caches import ad_of

    found = []
    for row in rows:
        own = {
            "ClusterId": str(row.cluster),
            "JobFactoryPaused": str(_ALL_MADE if row.made == row.total else _MODES.get(row.mode, 0)),
            "JobMaterializeNextProcId": str(row.made),
            "JobsHeld": str(row.counts.get(HELD, 0)),
            "JobsIdle": str(row.counts.get(IDLE, 0)),
            "JobsPresent": str(sum(row.counts.values())),
            "JobsRunning": str(row.counts.get(RUNNING, 0)),
            "JobStatus": "1",
        }
        if row.mode == "Paused":
            own |= {"JobMaterializePaused": "1", "JobMaterializePauseReason": quoted(row.reason)}
        found.append(ad_of({**json.loads(row.ad), **json.loads(row.changes), **own}))
    return found


def table(found: Sequence[ClassAd], query: QueueQuery, here: CellContext) -> Iterator[str]:
    """Yield the clusters as a query prints them: as whole ads, by -af, or in a table of theirs."""
    if query.view in ("long", "json", "jsonl", "xml"):
        yield from whole_ads(query.view, found, attribute_list(query.arguments), bare=bare_json(query.arguments))
        return
    layout = query.layout
    if layout is None:
        columns = own_table("q", "factory").layout.columns
        layout = Layout(with_appended(columns, query.more), trimmed=True)
    yield from lines(layout, found, here)
