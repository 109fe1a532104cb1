"""``poolbook q -factory``: the clusters that make their jobs little by little, as condor_q -factory lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...domain.state.job_ad import quoted
from .cells import HELD, IDLE, RUNNING, Setting
from .formats import attribute_list, bare_json, whole_ads
from .layout import Layout, lines, with_appended
from .print_format import read_format

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...projections.views import FactoryRow
    from .queue import Query

_TABLE = """SELECT
   ClusterId     AS ' ID'  NOSUFFIX  WIDTH 5 PRINTF '%4d.'
   ProcId        AS ' '    NOPREFIX  WIDTH 3 PRINTF '%-3d'
   Owner         AS  OWNER           WIDTH -14 PRINTAS OWNER OR ??
   QDate         AS '  SUBMITTED'    WIDTH 11 PRINTAS QDATE
   JobMaterializeLimit AS ' LIMIT' WIDTH 6 PRINTF %6d
   JobsPresent   AS 'PRESNT' WIDTH 6 PRINTF %6d
   JobsRunning   AS '  RUN ' WIDTH 6 PRINTF %6d
   JobsIdle      AS '  IDLE' WIDTH 6 PRINTF %6d
   JobsHeld      AS '  HOLD' WIDTH 6 PRINTF %6d
   JobMaterializeNextProcId AS 'NEXTID' WIDTH 6 PRINTF %6d
   JobMaterializePaused?:JobFactoryPaused AS MODE PRINTAS JOB_FACTORY_MODE OR _
   JobMaterializeDigestFile?:"" AS DIGEST
"""
"""condor_q's own: jobFactory_PrintFormat of its queue.cpp. A factory here has no digest."""
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


def table(found: Sequence[ClassAd], query: Query, here: Setting) -> Iterator[str]:
    """Yield the clusters as a query prints them: as whole ads, by -af, or in a table of theirs."""
    if query.view in ("long", "json", "jsonl", "xml"):
        yield from whole_ads(query.view, found, attribute_list(query.arguments), bare=bare_json(query.arguments))
        return
    layout = query.layout
    if layout is None:
        columns = read_format(_TABLE, "factories").layout.columns
        layout = Layout(with_appended(columns, query.more), trimmed=True)
    yield from lines(layout, found, here)
