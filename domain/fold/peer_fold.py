"""Fold the events of a role with its own log about the logs of the roles elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..names import JOBS_PER_ACCESS_POINT, JobId, SlotName
from ..state.peers import (
    ACCESS_POINT,
    EXECUTION_POINT,
    FULL,
    MANAGER,
    UNAVAILABLE_FOR,
    Flocking,
    FollowedPeer,
    Outbox,
    may_flock,
    role_of,
)
from ..state.records import RUNS
from ..state.state import AccessPoint, ExecutionPoint, LogState, Manager
from .claim_fold import unassign_slot
from .matches import end_match


def _fold_sent(state: LogState, event: e.Sent) -> None:
    outbox = state.peers.outboxes.setdefault(event.peer, Outbox())
    outbox.add(state.position, event.digest)
    if role_of(event.peer) == ACCESS_POINT:
        _forget_lapsed(state, event.peer)


def _forget_lapsed(state: LogState, holder: str) -> None:
    """Forget the ended claims of a holder, to which their ends have just been sent."""
    peers = state.peers
    for slot, claim in [lapsed for lapsed in peers.lapsed if peers.shown.get(lapsed[0], {}).get(lapsed[1]) == holder]:
        peers.lapsed.remove((slot, claim))
        del peers.shown[slot][claim]
        if not peers.shown[slot]:
            del peers.shown[slot]


def _fold_followed(state: LogState, event: e.Followed) -> None:
    peers, peer = state.peers, state.peers.followed.get(event.peer)
    peers.rejected.pop(event.peer, None)
    if peer is not None and peer.log == event.log:
        peer.epoch, peer.version, peer.digest = event.epoch, event.version, event.digest
        return
    if role_of(event.peer) == ACCESS_POINT:
        peers.numbered += 1
    if peer is not None and role_of(event.peer) != MANAGER:
        peers.outboxes.pop(event.peer, None)  # the earlier log's; a new log of the manager needs all entries
    peers.followed[event.peer] = FollowedPeer(event.log, event.epoch, event.version, event.digest, peers.numbered)


def _fold_peer_rejected(state: LogState, event: e.PeerRejected) -> None:
    state.peers.rejected[event.peer] = event.reason


ANY_ROLE: dict[type[e.Event], Callable[[LogState, Any], None]] = {
    e.Sent: _fold_sent,
    e.Followed: _fold_followed,
    e.PeerRejected: _fold_peer_rejected,
    e.PeerCommanded: lambda state, event: None,
}


# The access point: requests for slots, and the connection to the execution points of its jobs


def _fold_claim_requested(state: AccessPoint, event: e.ClaimRequested) -> None:
    job = JobId.parse(event.job)
    end_match(state.matches, event.slot, job)
    state.claim_requests[event.claim] = event
    state.assigned_slots[job] = event.slot


def _end_request(state: AccessPoint, event: e.ClaimMade | e.ClaimRejected | e.ClaimCommanded) -> None:
    request = state.claim_requests.pop(event.claim, None)
    if request is not None and not isinstance(event, e.ClaimMade):
        unassign_slot(state, request.slot, JobId.parse(request.job))
        state.job_change_position = state.position


def _fold_job_disconnected(state: AccessPoint, event: e.JobDisconnected) -> None:
    state.disconnected[state.by_job[event.cluster, event.proc].key] = event.until


def _fold_job_reconnected(state: AccessPoint, event: e.JobReconnected) -> None:
    state.disconnected.pop(state.by_job[event.cluster, event.proc].key, None)


def _fold_job_exited(state: AccessPoint, event: e.JobExited) -> None:
    state.disconnected.pop(event.key, None)


def _offer(event: e.FlockingChanged) -> Flocking:
    return Flocking(event.level, event.managers, event.at, event.by_default)


def _fold_flocking(state: AccessPoint, event: e.FlockingChanged) -> None:
    state.peers.flocking[event.submitter] = _offer(event)


def _fold_cycle(state: AccessPoint, event: e.CycleHeld) -> None:
    for match in event.matches:
        machine = SlotName.parse(match.slot).machine
        if event.flocked:
            state.peers.flocked[machine] = event.flocked
        else:
            state.peers.flocked.pop(machine, None)


AT_ACCESS_POINT: dict[type[e.Event], Callable[[AccessPoint, Any], None]] = {
    e.ClaimRequested: _fold_claim_requested,
    e.ClaimMade: _end_request,
    e.ClaimRejected: _end_request,
    e.ClaimCommanded: _end_request,
    e.JobDisconnected: _fold_job_disconnected,
    e.JobReconnected: _fold_job_reconnected,
    e.JobExited: _fold_job_exited,
    e.FlockingChanged: _fold_flocking,
    e.CycleHeld: _fold_cycle,
}


# The execution point: the claims of access points with separate logs


def _fold_external_claim(state: ExecutionPoint, event: e.ClaimMade | e.ClaimQueued) -> None:
    if role_of(event.holder) == ACCESS_POINT:
        state.peers.shown.setdefault(event.slot, {})[event.claim] = event.holder


def _fold_end_of_claim(state: ExecutionPoint, event: e.ClaimEnded | e.ClaimWithdrawn) -> None:
    if event.claim in state.peers.shown.get(event.slot, ()):
        state.peers.lapsed.append((event.slot, event.claim))


def _fold_match_notified(state: ExecutionPoint, event: e.MatchNotified) -> None:
    state.slot_matches.setdefault(event.part or event.slot, {})[event.job] = False


AT_EXECUTION_POINT: dict[type[e.Event], Callable[[ExecutionPoint, Any], None]] = {
    e.MatchNotified: _fold_match_notified,
    e.ClaimMade: _fold_external_claim,
    e.ClaimQueued: _fold_external_claim,
    e.ClaimEnded: _fold_end_of_claim,
    e.ClaimWithdrawn: _fold_end_of_claim,
    e.ClaimGranted: lambda state, event: None,
    e.ClaimRejected: lambda state, event: None,
}


def _fold_match_taken(state: Manager, event: e.MatchTaken) -> None:
    state.count_limits(end_match(state.match_limits, event.slot, event.job) or "", -1)
    end_match(state.slot_matches, event.slot, event.job)
    if isinstance(state, AccessPoint):
        job = JobId.parse(event.job)
        end_match(state.matches, event.slot, job)
        unassign_slot(state, event.slot, job)
    _fold_end_of_match(state, event)


def _fold_end_of_match(state: Manager, event: e.MatchTaken | e.MatchVoided) -> None:
    """At a manager with a separate log, a slot may be free again, and a job may have to be matched again."""
    if EXECUTION_POINT not in state.roles:
        state.slot_changes.append(event.slot)
        state.slot_change_position = state.position
    job, peers = JobId.parse(event.job), state.peers
    if event.cause == FULL:
        peers.full.add(job.cluster // JOBS_PER_ACCESS_POINT)
    elif event.cause == "match_void" and ACCESS_POINT not in state.roles:
        peers.unavailable = {each: at for each, at in peers.unavailable.items() if event.at < at + UNAVAILABLE_FOR}
        peers.unavailable[job] = event.at


def _fold_jobs_transitioned(state: Manager, event: e.JobsTransitioned) -> None:
    if state.peers.full and event.source in RUNS:
        state.peers.full.discard(event.cluster // JOBS_PER_ACCESS_POINT)


def _fold_offer(state: Manager, event: e.FlockingChanged) -> None:
    """An access point that has ever flocked to this manager is of another pool."""
    peer, offered = state.peers.followed.get(event.peer), state.peers.offered
    if peer is None or not (peer.number in offered or state.name in event.managers):
        return
    submitters = offered.setdefault(peer.number, {})
    submitters.pop(event.submitter, None)
    if may_flock(state.settings, event.peer):
        submitters[event.submitter] = _offer(event)
    clusters = [id for id, each in state.clusters.items() if each.submitter == event.submitter]
    state.job_changes.extend((id, -1) for id in clusters if id // JOBS_PER_ACCESS_POINT == peer.number)
    state.job_change_position = state.cycle_requested = state.position


AT_MANAGER: dict[type[e.Event], Callable[[Manager, Any], None]] = {
    e.MatchTaken: _fold_match_taken,
    e.MatchVoided: _fold_end_of_match,
    e.JobsTransitioned: _fold_jobs_transitioned,
    e.FlockingChanged: _fold_offer,
}
