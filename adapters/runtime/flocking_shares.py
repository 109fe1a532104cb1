"""What the submitter ads of one pool show about access points whose jobs may run in several pools.

Source: HTCondor's Scheduler::fill_submitter_ad, except that FlockedJobs are counted in both pools: HTCondor subtracts
the jobs here from those at home (the recordings 08 have -1), and counts none at home.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import NamedTuple

from ...domain.events import FlockingChanged
from ...domain.names import JOBS_PER_ACCESS_POINT
from ...domain.ports.log import EventStore
from ...domain.requests.idle_jobs import FLOCK_TO
from ...domain.state.peers import ACCESS_POINT, Flocking, may_flock, peer_name
from ...projections.views import Views
from ..condor_tools.cells import IDLE


class Share(NamedTuple):
    """A submitter's jobs in one pool. ``tag``: the pool's manager in FLOCK_TO; empty: the access point's own pool."""

    running: int
    idle: int
    flocked: int  #: the jobs that run in other pools
    tag: str = ""


class FlockingShares:
    """The shares in the pool of a log."""

    def __init__(self, views: Views, log: EventStore, at: int | None) -> None:
        self._views, self._log, self._at = views, log, at

    def at_access_point(self, submitter: str, running: int, idle: int) -> Share:
        flocked = self._flocked_away.get(submitter, 0)
        return Share(running - flocked, idle, flocked)

    def at_manager(self, access_point: str, submitter: str, running: int, idle: int) -> Share | None:
        """Return the share of an access point's submitter, or None if the access point is of another pool and has no
        jobs of the submitter for this one."""
        peer, manager = peer_name(ACCESS_POINT, access_point), self._views.pool().name
        changes, here = self._changes.get(peer, {}), self._runs[peer, submitter]
        last = changes[submitter][-1] if submitter in changes else None
        if not any(manager in event.managers for events in changes.values() for event in events):
            return Share(here, idle, max(0, running - here)) if last and last.managers else Share(running, idle, 0)
        if last is None or not may_flock(self._views.pool().settings, peer):
            idle = 0
        else:
            idle = self._offered(Flocking(last.level, last.managers, last.at, last.by_default), peer, submitter, idle)
        return Share(here, idle, max(0, running - here), manager) if here or idle else None

    def _offered(self, flocking: Flocking, peer: str, submitter: str, idle: int) -> int:
        """Return how many of a submitter's idle jobs this manager may match."""
        manager = self._views.pool().name
        if flocking.by_default:
            return idle if flocking.includes(manager, "") else 0
        number = next(number for name, number, _, _ in self._views.peers() if name == peer)
        submitters = {cluster: name for cluster, *_, name in self._views.job_ranges()}
        return sum(
            flocking.includes(manager, f'"{names}"')
            for cluster, names in self._views.columns(("ClusterId", FLOCK_TO), statuses=(IDLE,))
            if submitters[int(cluster)] == submitter and int(cluster) // JOBS_PER_ACCESS_POINT == number
        )

    @cached_property
    def _flocked_away(self) -> dict[str, int]:
        return self._views.flocked(0)

    @cached_property
    def _runs(self) -> Counter[tuple[str, str]]:
        """The numbers of running jobs on this pool's slots, by access point and submitter."""
        claims = [slot.claim for slot in self._views.slots() if slot.activation is not None]
        return Counter((claim.holder, claim.submitter) for claim in claims if claim is not None)

    @cached_property
    def _changes(self) -> dict[str, dict[str, list[FlockingChanged]]]:
        """The changes of the flock levels, by access point and submitter."""
        changes: dict[str, dict[str, list[FlockingChanged]]] = {}
        for name in {row[0] for row in self._views.counts()}:
            for position, event in self._log.read_stream(f"submitter/{name}"):
                if isinstance(event, FlockingChanged) and (self._at is None or position <= self._at):
                    changes.setdefault(event.peer, {}).setdefault(name, []).append(event)
        return changes
