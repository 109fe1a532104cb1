"""What the manager does with the events of execution points and access points: it copies them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from .. import events as e
from ..decision.draft import Draft
from ..names import JobId, SlotName
from ..negotiator.accounting import first_factor
from ..ports.stimuli import ExecutionPointExpired, Follow
from ..state.peers import JOBS_PER_ACCESS_POINT, peer_of_slot
from ..state.state import State
from .following import reject
from .sent_forms import numbered

UNHEARD: Final = "unheard"  #: the cause of a match's end if the execution point did not answer


def copy_slot_event(draft: Draft[State], stimulus: Follow, position: int, event: Any) -> None:
    """Copy an event about a machine or a slot. A claim's submitter may need an account."""
    owner = peer_of_slot(event.slot) if isinstance(event, e.SlotEvent) else f"execution-point/{event.machine}"
    if owner != stimulus.peer:
        reject(draft, stimulus, f"it sent an event about {owner}, which is another execution point")
        return
    event = replace(event, at=draft.now, stimulus=draft.stimulus)
    if isinstance(event, e.ClaimMade):
        event = replace(event, factor=first_factor(draft.state, event.submitter, event.negotiator))
    draft.emit(event)


def copy_job_event(draft: Draft[State], stimulus: Follow, position: int, event: Any) -> None:
    """Copy an event about jobs. The cluster's number contains the access point's, since each counts from 1."""
    if not 0 < event.cluster < JOBS_PER_ACCESS_POINT:
        reject(draft, stimulus, f"it sent an event about cluster {event.cluster}, a number that no access point has")
        return
    number = draft.state.peers.followed[stimulus.peer].number
    cluster = event.cluster + number * JOBS_PER_ACCESS_POINT
    if isinstance(event, e.JobsTransitioned):
        for job, slot in [*draft.state.assigned_slots.items()]:
            is_moved = job[0] == cluster and any(first <= job[1] <= last for first, last in event.procs)
            claimed = stimulus.peer, str(JobId(event.cluster, job[1]))
            if is_moved and not (event.row == "activate" and _awaits_claim(draft.state, slot, claimed)):
                draft.emit(e.MatchTaken(*draft.header("claimed"), slot, str(JobId(*job))))
    event = replace(event, at=draft.now, stimulus=draft.stimulus, cluster=cluster)
    if isinstance(event, e.ClusterSubmitted):
        event = replace(event, factor=first_factor(draft.state, event.submitter))
    draft.emit(event)


def _awaits_claim(state: State, name: str, claimed: tuple[str, str]) -> bool:
    """Return True if a slot's execution point has not reported the claim of a holder's job yet. Until then, the slot
    stays matched, since another match would preempt the job that has just started."""
    slot = state.slots.get(name)
    if slot is None or slot.kind == "partitionable":
        return False
    return slot.claim is None or (slot.claim.holder, slot.claim.job) != claimed


def void_match(draft: Draft[State], stimulus: Follow, position: int, event: e.MatchVoided) -> None:
    """End a match that the access point does not use. If the execution point did not answer, its slots are not matched
    until it is heard again."""
    job = numbered(event.job, draft.state.peers.followed[stimulus.peer].number)
    slot = draft.state.assigned_slots.get(JobId.parse(job))
    if slot is not None:
        draft.emit(replace(event, at=draft.now, stimulus=draft.stimulus, slot=slot, job=job))
    if event.cause == UNHEARD:
        _expire(draft, SlotName.parse(event.slot).machine, expired=True)


def expire_machine(draft: Draft[State], stimulus: ExecutionPointExpired) -> None:
    """Record that the slots of a machine must not be matched because its execution point is silent, or may be again."""
    _expire(draft, stimulus.machine, stimulus.expired)


def _expire(draft: Draft[State], name: str, expired: bool) -> None:
    machine = draft.state.machines.get(name)
    if machine is not None and machine.expired != expired:
        draft.emit(e.MachineExpired(*draft.header(UNHEARD if expired else "heard"), name, expired))
