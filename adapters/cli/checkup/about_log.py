"""Read the facts about the log and the files beside it."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

from attrs import evolve

from ....domain.ports.log import LogError
from ....projections.job_query import Jobs
from ....projections.views import RefusalRow, Views
from ....replay.forensics.imported_log import is_imported
from ...runtime.commands import is_served, is_written
from ...runtime.queries import Queries
from ...stores import open_log
from ...stores.location import Location, locate, shown
from ...stores.log_paths import LogPaths, WriterLock
from ...stores.opening import check_mark, mark_of
from .facts import Book, Waiting

_HELD = 5


def book(url: str, place: LogPaths | None) -> Book:
    """Return the facts about the log at `url`, with the files of `place` beside it."""
    name = shown(url)
    try:
        location = locate(url)
        if location.kind == "memory" or (location.kind == "sqlite" and not os.path.exists(location.place)):
            return Book(name)
        if location.kind == "sqlite" and not os.path.getsize(location.place) and not _marked(location):
            return Book(name, empty=True)
        check_mark(url)
        found = _read(url, name)
    except LogError as error:
        return Book(name, True, str(error))
    found = evolve(found, marked=_marked(location))
    if found.imported or place is None:
        return found
    return _queue(url, _beside(url, place, found))


def _marked(location: Location) -> bool:
    mark = mark_of(location)
    return mark is not None and os.path.exists(mark)


def _read(url: str, name: str) -> Book:
    log = open_log(url, create=False, read_only=True)
    try:
        position = log.head.position
        last = next((event.at for _, event in log.read(max(0, position - 1))), 0)
        return Book(
            name, True, position=position, imported=is_imported(log), ahead=max(0, last - time.time_ns() // 1000)
        )
    finally:
        log.close()


def _beside(url: str, place: LogPaths, found: Book) -> Book:
    """Add which process holds the log, and which jobs run beside it."""
    holder = WriterLock(url).holder() if is_written(url) else ""
    claims = place.folder / "claims"
    begun = sum(1 for _ in claims.iterdir()) if claims.is_dir() else 0
    return evolve(found, holder=holder, answers=is_served(url), claims=begun, supervised=_supervised(place.folder))


def _supervised(folder: Path) -> bool:
    """Tell whether the process that the folder's lock names is alive and is its supervisor. Trying the lock itself
    could keep a starting supervisor from taking it."""
    try:
        pid = (folder / "lock").read_text().strip()
        return str(folder).encode() in Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _queue(url: str, found: Book) -> Book:
    with Queries(url) as queries:
        views = queries.views
        counts: Counter[int] = Counter()
        held = ("", "")
        for cluster in views.batches():
            counts.update(cluster.counts)
            if cluster.counts.get(_HELD) and not held[0]:
                held = _on_hold(views, cluster.cluster)
        unfit = tuple(Waiting(one.job, one.jobs, one.slots) for one in views.refusals() if _fits_nowhere(one))
    return evolve(found, counts=dict(counts), held=held, unfit=unfit)


def _on_hold(views: Views, cluster: int) -> tuple[str, str]:
    """Return a held job of the cluster and its hold reason."""
    ad = next(ad for ad in views.ads(Jobs(((cluster, None),))) if ad.eval("JobStatus") == _HELD)
    return f"{cluster}.{ad.eval('ProcId')}", str(ad.eval("HoldReason"))


def _fits_nowhere(one: RefusalRow) -> bool:
    """Tell whether the job's own conditions leave no slot, whoever has it."""
    return bool(one.clauses) and not one.clauses[-1][2]
