"""``poolbook q, status, history``: what the views have, in the columns of HTCondor's tools.

The views are brought up to date by the command itself if they are behind the log, so nobody has to be asked, and a pool
that lies still is read as one that runs. Where counts or single columns answer, no ad is built.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

from ..tools import formats
from ..tools import queue as queue_tool
from ..tools.options import Refusal, UsageError
from ..tools.selection import Selection
from ..tools.terminal import STATES, painted
from ..views import views_current
from .common import log_of, setting, shown
from .hints import tell_unknown

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...projections.views import Views
    from ..tools.batches import Census
    from ..tools.cells import Setting
    from ..tools.history import Query as History


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
                    f"poolbook q -at: {shown(url)} is a pool's own log, whose views have the present alone; "
                    "`poolbook why JOB -at TIME` and `poolbook log` tell of the past"
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
    from ...domain.texts import ad_of
    from ...replay.listing import since
    from ...replay.tables import NotKnown
    from ...replay.tables import queue as queue_then
    from ...replay.wording import instant
    from ..stores import open_log

    given = query.arguments.last("at")
    try:
        at = None if given is None else since(given.values[0], here.now * 1_000_000, here.timezone)
    except ValueError as error:
        raise UsageError(f"poolbook q -at: {error}") from None
    log = open_log(url, create=False, read_only=True)
    try:
        found = queue_then(log, at)
    except NotKnown as error:
        known = f"from {instant(error.since, here.timezone)} on" if error.since else "at no instant"
        raise Refusal(f"poolbook q: what {shown(url)} was imported from tells of the queue {known}") from None
    finally:
        log.close()
    then = here._replace(now=(found.at if at is None else at) // 1_000_000)
    return queue_tool.render((ad_of(ad) for ad in found.jobs), query._replace(everyone=True), then)


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


def _analyses(query: queue_tool.Query, url: str, views: Views, here: Setting) -> Iterator[str]:
    """What the log has of why jobs do not run, a cluster read when its first job's turn comes."""
    from functools import lru_cache

    from ...replay.why import job_events, judged
    from ..stores import open_log
    from ..tools.analyze import Judged

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
    url = log_of(query.arguments)
    with views_current(url) as views:
        ads: Iterable[ClassAd] = _slots(url, views) if query.kind in ("Machine", "") else ()
        here = setting()
        if query.kind in ("Negotiator", "") and not _imported(views):
            from ..tools.negotiator import negotiator_ad

            ads = chain(ads, (negotiator_ad(views.pool().name, views.cycles(), here.now),))
        texts = status_tool.render(ads, query, here)
        if query.layout is None and query.form is None:
            texts = (painted(text, STATES) if "@" in text else text for text in texts)
        return _write(texts)


def _slots(url: str, views: Views) -> Iterator[ClassAd]:
    """The slots' ads. Of an imported log: as condor_status printed them last, brought up to date by the StartLogs; and
    as it printed them where there is no StartLog."""
    sampled: dict[object, ClassAd] = {}
    positions = views.last_sample("machine_ads")
    if positions:
        from ..kept import sample_ads

        sampled = {ad.eval("Name"): ad for ad in sample_ads(url, positions)}
    machines = {row.machine for row in views.slots()} if sampled else set()
    for slot in views.slot_ads():
        ad = sampled.pop(slot.eval("Name"), None)
        if ad is None:
            yield slot
            continue
        for name in slot:
            ad[name] = slot[name]
        yield ad
    yield from (ad for ad in sampled.values() if ad.eval("Machine") not in machines)


def history(argv: Sequence[str]) -> int:
    from ..tools import history as history_tool

    query = history_tool.read(argv)
    url = log_of(query.arguments)
    here = setting()
    with views_current(url) as views:
        # What stops the search is looked for in every job: it must not be narrowed before.
        whole = query.since is not None or query.scan is not None
        selection = Selection() if whole else query.selection._replace(constraints=())
        return _write(history_tool.render(_left(url, views, query, selection, here), query, here))


def _left(url: str, views: Views, query: History, selection: Selection, here: Setting) -> Iterator[ClassAd]:
    """The ads of the jobs that have left the queue: of an imported log those of the history, of the pool's own log
    those that it tells of."""
    forwards = query.forwards
    kept = views.kept(selection, forwards)
    first = next(kept, None)
    if first is not None:
        from ..kept import Sieve, ads_at

        texts = [given.values[0] for given in query.arguments.every("constraint")]
        sieve = Sieve(texts, query.selection.constraints, here.context())
        whole = query.since is not None or query.scan is not None or not sieve.useful
        yield from ads_at(url, chain((first,), kept), None if whole else sieve)
    yield from views.history_ads(selection, forwards=forwards)
