"""``poolbook q, status, history``: what the views have, in the columns of HTCondor's tools.

The views are brought up to date by the command itself if they are behind the log, so nobody has to be asked, and a pool
that lies still is read as one that runs. Where counts or single columns answer, no ad is built.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ..tools import formats
from ..tools import queue as queue_tool
from ..tools.selection import Selection
from ..views import views_current
from .common import log_of, setting

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...projections.views import Views
    from ..tools.batches import Census
    from ..tools.cells import Setting


def _write(texts: Iterable[str]) -> int:
    write = sys.stdout.write
    for text in texts:
        write(text)
    return 0


def queue(argv: Sequence[str]) -> int:
    query = queue_tool.read(argv)
    with views_current(log_of(query.arguments)) as views:
        return _write(_queue(query, views, setting()))


def _queue(query: queue_tool.Query, views: Views, here: Setting) -> Iterator[str]:
    from ..tools.batches import ClusterRow

    if query.aggregated:
        return queue_tool.render_rows((ClusterRow(*row) for row in views.batches()), query, here)
    plain = formats.plain_attributes(query.arguments)
    mine = not query.everyone and bool(here.owner)
    selection = query.selection._replace(constraints=())
    if mine:
        selection = selection._replace(owners=(here.owner,), together=False)
    if plain is not None and query.view == "custom" and not query.selection.constraints:
        rows = views.columns(plain, selection, here.context())
        return formats.join_lines(query.arguments, islice(rows, query.limit))
    return queue_tool.render(views.ads(selection), query, here, _census(views, here))


def _census(views: Views, here: Setting) -> Census:
    from ..tools.batches import Census

    totals = views.totals()
    everyone: dict[int, int] = {}
    for counts in totals.values():
        for status, jobs in counts.items():
            everyone[status] = everyone.get(status, 0) + jobs
    return Census({}, totals.get(here.owner, {}) if here.owner else None, everyone)


def status(argv: Sequence[str]) -> int:
    from ..tools import status as status_tool

    query = status_tool.read(argv)
    sys.stderr.write(query.warning)
    with views_current(log_of(query.arguments)) as views:
        ads: Iterable[ClassAd] = views.slot_ads() if query.kind in ("Machine", "") else ()
        return _write(status_tool.render(ads, query, setting()))


def history(argv: Sequence[str]) -> int:
    from ..tools import history as history_tool

    query = history_tool.read(argv)
    with views_current(log_of(query.arguments)) as views:
        # What stops the search is looked for in every job: it must not be narrowed before.
        whole = query.since is not None or query.scan is not None
        selection = Selection() if whole else query.selection._replace(constraints=())
        ads = views.history_ads(selection, forwards=query.forwards)
        return _write(history_tool.render(ads, query, setting()))
