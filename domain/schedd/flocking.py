"""Flocking: to which managers of other pools an access point offers a submitter's jobs.

FLOCK_TO lists these managers. The level of a submitter is the number of them that may match its jobs. As in HTCondor,
it rises when a negotiation at the last of these managers leaves idle jobs, or none matches a job for twice
SCHEDD_INTERVAL; it falls when a manager matches all jobs. Source: schedd.cpp (negotiationFinished, count_jobs).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import events as e
from ..decision.draft import Draft
from ..names import JobId
from ..ports.timers import Timer
from ..requests.idle_jobs import FLOCK_TO, unmatched_procs
from ..state.peers import ACCESS_POINT, peer_name
from ..state.pool_settings import SUBMISSION, listed_names, schedd_seconds
from ..state.state import AccessPoint
from ..units import SECOND


def _managers(state: AccessPoint) -> tuple[str, ...]:
    return tuple(listed_names(state.settings, "FLOCK_TO"))


def level_of(state: AccessPoint, manager: str) -> int:
    """Return the level from which a manager may match jobs: 0 for a manager of the access point's pool."""
    name, managers = manager.partition("/")[2], _managers(state)
    return managers.index(name) + 1 if name in managers else 0


def is_offered(state: AccessPoint, job: JobId, manager: str) -> bool:
    """Return True if a manager in FLOCK_TO (empty: one of the own pool) may match a job."""
    cluster = state.clusters[job.cluster]
    flocking = state.peers.flocking.get(cluster.submitter)
    return not manager or (
        flocking is not None and flocking.includes(manager, cluster.requested_value(job.proc, FLOCK_TO))
    )


def update_flocking(draft: Draft[Any]) -> None:
    """Record the level of new submitters, and the managers in FLOCK_TO and FLOCK_BY_DEFAULT if these have changed."""
    state = draft.state
    if any(isinstance(event, e.PoolConfigured) for event in draft.events):
        known = dict.fromkeys([*state.peers.flocking, *(cluster.submitter for cluster in state.clusters.values())])
    else:
        known = dict.fromkeys(event.submitter for event in draft.events if isinstance(event, e.ClusterSubmitted))
    for submitter in known:
        flocking = state.peers.flocking.get(submitter)
        if flocking is not None or _managers(state):
            _set_level(draft, submitter, 0 if flocking is None else flocking.level)


def _set_level(draft: Draft[AccessPoint], submitter: str, level: int) -> None:
    managers = _managers(draft.state)
    lowest = schedd_seconds(draft.state.settings, "MIN_FLOCK_LEVEL")
    level, known = min(max(level, lowest), len(managers)), draft.state.peers.flocking.get(submitter)
    by_default = draft.state.settings.get("FLOCK_BY_DEFAULT", "true").lower() == "true"
    if known is not None and (known.level, known.managers, known.by_default) == (level, managers, by_default):
        return
    name = peer_name(ACCESS_POINT, draft.state.name)
    draft.emit(e.FlockingChanged(*draft.header("flocked"), name, submitter, level, managers, by_default))


def _raise_level(draft: Draft[AccessPoint], submitter: str) -> None:
    flocking = draft.state.peers.flocking[submitter]
    if flocking.level < len(flocking.managers):
        _set_level(draft, submitter, flocking.level + schedd_seconds(draft.state.settings, "FLOCK_INCREMENT"))


def negotiation_ended(draft: Draft[Any], event: e.CycleHeld, level: int, manager: str) -> None:
    """Raise or lower the levels of the submitters with which a manager of this level has negotiated."""
    state = draft.state
    if not state.peers.flocking:
        return
    names = [*(match.job for match in event.matches), *(each.job for each in event.unmatched)]
    jobs = [JobId.parse(name).cluster for name in names]
    submitters = dict.fromkeys(state.clusters[cluster].submitter for cluster in jobs if cluster in state.clusters)
    waiting = _waiting(state, manager)
    for submitter in submitters:
        flocking = state.peers.flocking.get(submitter)
        if flocking is None:
            continue
        if submitter in waiting and flocking.level == level:
            _raise_level(draft, submitter)
        elif submitter not in waiting and flocking.level > level:
            _set_level(draft, submitter, level)


def _waiting(state: AccessPoint, manager: str = "") -> dict[str, int]:
    """Return the submitters with jobs that wait for a slot and that a manager may match, each with the time since which
    the last one does, as far as the queue shows it, in microseconds."""
    waiting: dict[str, int] = {}
    for cluster in state.clusters.values():
        if cluster.next_idle() < 0 or cluster.is_local:
            continue
        if any(is_offered(state, JobId(cluster.id, proc), manager) for proc in unmatched_procs(cluster, state)):
            submitted = int(cluster.requested_value(0, "QDate") or 0) * SECOND
            waiting[cluster.submitter] = max(waiting.get(cluster.submitter, 0), submitted)
    return waiting


def timers(state: AccessPoint) -> Iterator[Timer]:
    """Yield when the level of each submitter with waiting jobs rises."""
    flocking = state.peers.flocking
    if state.idle and any(each.level < len(each.managers) for each in flocking.values()):
        patience = 2 * SECOND * int(state.settings.get("SCHEDD_INTERVAL") or SUBMISSION["SCHEDD_INTERVAL"])
        for submitter, since in _waiting(state).items():
            known = flocking.get(submitter)
            if known is not None and known.level < len(known.managers):
                yield Timer(max(since, known.since) + patience, "flocking", submitter)


def fire_timer(draft: Draft[AccessPoint], timer: Timer) -> None:
    _raise_level(draft, timer.name)
