"""Compare a pool's jobs, machines, slots and users at two times, from queries of its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from ...domain.units import SECOND
from ...replay.forensics.daemon_tables import NotKnown
from ...replay.moments.changes import Change, JobRange, PoolAt, changes
from ..condor_tools.cells import number

if TYPE_CHECKING:
    from ...domain.classad import ClassAd
    from ...domain.negotiator.accounting import Standing
    from .queries import Queries


def changes_between(earlier: Queries, later: Queries) -> list[Change]:
    """Return what changed between the times of two queries of the same log. Raise as `Queries` does."""
    if later.imported:
        ended = _ended_jobs(later, earlier.at or 0)
    else:
        ended = [JobRange(*row) for row in later.history_views.ended_ranges(earlier.log.head.position)]
    return changes(_pool_at(earlier), _pool_at(later, ended))


def _pool_at(queries: Queries, ended: Iterable[JobRange] = ()) -> PoolAt:
    """Return a pool at the time of `queries`, with jobs that have ended before."""
    now = queries.views.at if queries.at is None else queries.at
    slots = list(queries.slots(now // SECOND))
    jobs = _known_jobs(queries) if queries.imported else [JobRange(*row) for row in queries.views.job_ranges()]
    machines = dict.fromkeys([*queries.views.machines(), *(slot.text("Machine") for slot in slots)], "in the pool")
    return PoolAt(jobs, ended, machines, {slot.text("Name"): _slot(slot) for slot in slots}, dict(_users(queries)))


def _ended_jobs(queries: Queries, since: int) -> list[JobRange]:
    """Return the jobs in an imported history that completed after an instant."""
    return [_job(ad) for ad in takewhile(lambda ad: _completion(ad) > since // SECOND, queries.history())]


def _known_jobs(queries: Queries) -> list[JobRange]:
    try:
        return [_job(ad) for ad in queries.queue().ads]
    except NotKnown:
        return []


def _job(ad: ClassAd) -> JobRange:
    cluster, proc, status = (int(number(ad, name) or 0) for name in ("ClusterId", "ProcId", "JobStatus"))
    return JobRange(cluster, proc, proc, status, ad.text("RemoteHost") if status == 2 else "", ad.text("User"))


def _completion(ad: ClassAd) -> float:
    return number(ad, "CompletionDate") or number(ad, "EnteredCurrentStatus") or 0


def _slot(ad: ClassAd) -> str:
    state = f"{ad.text('State')}/{ad.text('Activity')}"
    if not state.startswith(("Claimed", "Preempting")):  # the other attributes may come from an older sample of ads
        return state
    return " ".join(filter(None, (state, ad.text("RemoteOwner"), ad.text("JobId"))))


def _users(queries: Queries) -> Iterator[tuple[str, str]]:
    try:
        standings = queries.standings()
    except NotKnown:
        return
    for standing in standings:
        yield standing.name, _user(standing)


def _user(standing: Standing) -> str:
    return (
        f"priority {standing.effective:.2f}, factor {standing.factor:g}, {standing.slots} slots, "
        f"{standing.cores:g} cores, {standing.used / 3600:.2f} core hours"
    )
