"""``poolbook q, status, history``: what the views have, in the columns of HTCondor's tools.

The views are brought up to date by the command itself if they are behind the log, so nobody has to be asked, and a pool
that lies still is read as one that runs. Where counts or single columns answer, no ad is built.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ..condor_tools import formats
from ..condor_tools import queue as queue_tool
from ..condor_tools.job_selection import Selection
from ..condor_tools.options import Refusal
from ..condor_tools.terminal import STATES, painted
from ..runtime.views import views_current
from .common import log_of, setting, shown
from .hints import tell_unknown

if TYPE_CHECKING:
    from ...projections.views import Views
    from ..condor_tools.batches import Census
    from ..condor_tools.cells import Setting
    from ..condor_tools.status import Query as StatusQuery


def _write(texts: Iterable[str]) -> int:
    write = sys.stdout.write
    for text in texts:
        write(text)
    return 0


def queue(argv: Sequence[str]) -> int:
    query = queue_tool.read(argv)
    url = log_of(query.arguments)
    with views_current(url) as views:
        if not _imported(views):
            if query.arguments.has("at"):
                raise Refusal(
                    f"poolbook q -at: {shown(url)} is a pool's own log, and its queue is kept as it is now alone. "
                    f"{queue_tool.OF_THE_PAST}"
                )
            if query.view == "analysis":
                return _write(_analyses(query, url, views, setting()))
            done = _write(_queue(query, views, setting()))
            tell_unknown("q", query.selection.constraints, views.ads(Selection()))
            return done
    if query.view == "analysis":
        raise Refusal(f"poolbook q: what {shown(url)} was imported from is explained by `poolbook why JOB`")
    return _write(_queue_then(query, url, setting()))


def _imported(views: Views) -> bool:
    """Whether the log was imported (``replay.imports``, which is not asked: its modules take long to load)."""
    row = views.connection.execute("SELECT settings FROM pool").fetchone()
    return row is not None and '"Imported"' in row[0]


def _queue_then(query: queue_tool.Query, url: str, here: Setting) -> Iterator[str]:
    """The queue of an imported log at an instant: everybody's jobs, as whoever asks is none of their owners."""
    from ...domain.state.expression_cache import ad_of
    from ...replay.forensics.daemon_tables import NotKnown
    from ...replay.forensics.daemon_tables import queue as queue_then
    from ...replay.narration.wording import instant
    from ..stores import open_log
    from .time_window import instant_of

    log = open_log(url, create=False, read_only=True)
    try:
        at = instant_of("q", query.arguments, "at", log)
        found = queue_then(log, at)
    except NotKnown as error:
        known = f"before {instant(error.since, here.timezone)}" if error.since else "at any instant"
        raise Refusal(
            f"poolbook q: the queue of {shown(url)} is unknown {known}, because {error.why}. {queue_tool.OF_THE_PAST}"
        ) from None
    finally:
        log.close()
    then = here._replace(now=(found.at if at is None else at) // 1_000_000)
    return queue_tool.render((ad_of(ad) for ad in found.jobs), query._replace(everyone=True), then)


def _queue(query: queue_tool.Query, views: Views, here: Setting) -> Iterator[str]:
    from ..condor_tools.batches import ClusterRow

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


def _analyses(query: queue_tool.Query, url: str, views: Views, here: Setting) -> Iterator[str]:
    """What the log has of why jobs do not run, a cluster read when its first job's turn comes."""
    from functools import lru_cache

    from ...replay.why import job_events, judged
    from ..condor_tools.analyze import Judged
    from ..stores import open_log

    log = open_log(url, create=False, read_only=True)
    pool = views.pool().name
    events = lru_cache(1)(lambda cluster: job_events(log, cluster, slots=False))
    try:
        yield from queue_tool.render(
            views.ads(query.selection._replace(constraints=())),
            query,
            here,
            judge=lambda cluster, proc: Judged(*judged(events(cluster), cluster, proc), pool),
        )
    finally:
        log.close()


def _census(views: Views, here: Setting) -> Census:
    from ..condor_tools.batches import Census

    totals = views.totals()
    everyone: dict[int, int] = {}
    for counts in totals.values():
        for status, jobs in counts.items():
            everyone[status] = everyone.get(status, 0) + jobs
    return Census({}, totals.get(here.owner, {}) if here.owner else None, everyone)


def status(argv: Sequence[str]) -> int:
    from ..condor_tools import status as status_tool
    from ..runtime.archived_ads import slot_ads

    query = status_tool.read(argv)
    sys.stderr.write(query.warning)
    url = log_of(query.arguments)
    with views_current(url) as views:
        here = setting()
        if not _imported(views):
            from .pool_ads import pool_ads

            return _shown(status_tool.render(pool_ads(url, views, query.kind, here), query, here), query)
        if query.kind not in ("Machine", ""):
            raise Refusal(
                f"poolbook status: {shown(url)} was imported, and the records that are read tell of slots and have no "
                f"ads of what -{query.view} shows; `poolbook q` and `poolbook userprio` tell of the queue and its users"
            )
        return _shown(status_tool.render(slot_ads(url, views), query, here), query)


def _shown(texts: Iterable[str], query: StatusQuery) -> int:
    """Write a table of slots, their states in colour where a person looks."""
    if query.layout is None and query.form is None:
        texts = (painted(text, STATES) if "@" in text else text for text in texts)
    return _write(texts)


def history(argv: Sequence[str]) -> int:
    from ..condor_tools import history as history_tool
    from ..runtime.archived_ads import Sieve, history_ads

    query = history_tool.read(argv)
    url = log_of(query.arguments)
    here = setting()
    with views_current(url) as views:
        # What stops the search is looked for in every job: it must not be narrowed before.
        whole = query.since is not None or query.scan is not None
        selection = Selection() if whole else query.selection._replace(constraints=())
        texts = [given.values[0] for given in query.arguments.every("constraint")]
        sieve = Sieve(texts, query.selection.constraints, here.context())
        useful = None if whole or not sieve.useful else sieve
        return _write(history_tool.render(history_ads(url, views, selection, useful, query.forwards), query, here))
