"""``poolbook q -factory``: the clusters that make their jobs little by little, as condor_q -factory lists them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...domain.state.job_ad import quoted
from .cells import HELD, IDLE, RUNNING, Setting, date

if TYPE_CHECKING:
    from ...projections.views import FactoryRow

_HEAD = " ID      OWNER            SUBMITTED  LIMIT PRESNT   RUN    IDLE   HOLD NEXTID MODE\n"


def table(rows: Iterable[FactoryRow], here: Setting) -> Iterator[str]:
    """Yield the heading and a line for each cluster. IDLE counts what waits; the limit is JobMaterializeLimit."""
    yield _HEAD
    for row in rows:
        ad = {**json.loads(row.ad), **json.loads(row.changes)}
        numbers = (sum(row.counts.values()), *(row.counts.get(status, 0) for status in (RUNNING, IDLE, HELD)), row.made)
        cells = " ".join(f"{number:>6}" for number in numbers)
        submitted = date(row.qdate, here.timezone)
        limit = ad.get("JobMaterializeLimit", "")
        yield f"{row.cluster:>4}.    {row.owner:<14.14} {submitted:>11} {limit:>6} {cells} {mode(row)}\n"


def mode(row: FactoryRow) -> str:
    """Return how the factory stands, as condor_q abbreviates it."""
    if row.made == row.total:
        return "Done"
    return {"Paused": "Held", "Removed": "Rmvd"}.get(row.mode, "Norm")


def ads(rows: Iterable[FactoryRow]) -> Iterator[str]:
    """Yield each cluster's ad, one attribute to a line."""
    for row in rows:
        own = {"ClusterId": str(row.cluster), "JobMaterializeNextProcId": str(row.made), "JobStatus": "1"}
        if row.mode == "Paused":
            own |= {"JobMaterializePaused": "1", "JobMaterializePauseReason": quoted(row.reason)}
        whole = {**json.loads(row.ad), **json.loads(row.changes), **own}
        yield "".join(f"{name} = {whole[name]}\n" for name in sorted(whole, key=str.lower)) + "\n"
