"""Forget what an earlier log of a peer said, when the peer has a new log: its machine was set up again."""

from __future__ import annotations

from typing import Any

from .. import events as e
from ..decision.draft import Draft
from ..names import JOBS_PER_ACCESS_POINT, JobId
from ..startd.vacating import kill_claim
from ..state.peers import ACCESS_POINT, EXECUTION_POINT, MANAGER, peer_of_slot, role_of
from ..state_machines import LEFT
from . import elsewhere


def forget(draft: Draft[Any], peer: str, role: str) -> None:
    """Forget the slots of an execution point, or the jobs of an access point. Their runs and claims are over."""
    if role == EXECUTION_POINT:
        _end_claims_of(draft, peer)
    elif role == ACCESS_POINT:
        _give_up_slots(draft, peer)
    elif role == MANAGER and role_of(peer) == EXECUTION_POINT:
        _remove_machine(draft, peer)
    elif role == MANAGER and role_of(peer) == ACCESS_POINT:
        _remove_jobs(draft, draft.state.peers.followed[peer].number)


def _end_claims_of(draft: Draft[Any], holder: str) -> None:
    for slot in [*draft.state.slots.values()]:
        if slot.claim is not None and slot.claim.holder == holder:
            kill_claim(draft, slot, "lease_over")


def _give_up_slots(draft: Draft[Any], peer: str) -> None:
    runs = [run.slot for run in draft.state.activations.values() if peer_of_slot(run.slot) == peer]
    slots = [name for name in draft.state.slots if peer_of_slot(name) == peer]
    elsewhere.give_up(draft, tuple(dict.fromkeys([*runs, *slots])), "lease_over")
    for request in [each for each in draft.state.claim_requests.values() if peer_of_slot(each.slot) == peer]:
        draft.emit(e.ClaimRejected(*draft.header("claim_failed"), request.slot, request.claim, "", "a new log"))
        draft.emit(e.MatchVoided(*draft.header("claim_failed"), request.slot, request.job))


def _remove_machine(draft: Draft[Any], peer: str) -> None:
    machine = draft.state.machines.get(peer.partition("/")[2])
    if machine is None:
        return
    for name in [*machine.slots]:
        slot = draft.state.slots[name]
        if slot.claim is not None:
            claim = slot.claim
            usage = (draft.now - claim.since) * claim.weight
            draft.emit(
                e.ClaimEnded(*draft.header("machine_left"), name, claim.id, claim.submitter, usage, claim.negotiator)
            )
        draft.emit(e.SlotDestroyed(*draft.header("machine_left"), name))
    draft.emit(e.MachineLeft(*draft.header("machine_left"), machine.name))


def _remove_jobs(draft: Draft[Any], number: int) -> None:
    first = number * JOBS_PER_ACCESS_POINT
    for job, slot in [*draft.state.assigned_slots.items()]:
        if first < job[0] < first + JOBS_PER_ACCESS_POINT:
            draft.emit(e.MatchTaken(*draft.header("left_queue"), slot, str(JobId(*job))))
    for cluster in [each for id, each in draft.state.clusters.items() if first < id < first + JOBS_PER_ACCESS_POINT]:
        for status in {cluster.status_of(proc) for proc in cluster.procs()}:
            procs = tuple((proc, proc) for proc in cluster.procs() if cluster.status_of(proc) == status)
            draft.emit(e.JobsTransitioned(*draft.header("left_queue"), cluster.id, procs, "remove", status, LEFT, {}))
