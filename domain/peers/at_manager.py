"""What the manager does with the events of execution points and access points: it copies them."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from .. import events as e
from ..decision.draft import Draft
from ..names import JOBS_PER_ACCESS_POINT, JobId, SlotName
from ..negotiator.accounting import first_factor
from ..ports.stimuli import ExecutionPointExpired, Follow
from ..startd.absent_ads import MACHINE_LEFT, keep_absent, keep_invalidated
from ..state.peers import may_flock, peer_of_slot
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
    if isinstance(event, e.SlotDestroyed) and event.cause == MACHINE_LEFT and event.slot in draft.state.slots:
        keep_invalidated(draft, draft.state.slots[event.slot])
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


def note_flocking(draft: Draft[State], stimulus: Follow, position: int, event: e.FlockingChanged) -> None:
    """Copy to which managers an access point offers a submitter's jobs. FLOCK_FROM, if set, restricts the access points
    of other pools."""
    if event.peer != stimulus.peer:
        reject(draft, stimulus, f"it sent an event about {event.peer}, which is another access point")
        return
    if draft.state.name in event.managers[: event.level] and not may_flock(draft.state.settings, event.peer):
        name = event.peer.partition("/")[2]
        reject(draft, stimulus, f"it flocks to this pool for {event.submitter}, but FLOCK_FROM does not list {name}")
    draft.emit(replace(event, at=draft.now, stimulus=draft.stimulus))


def void_match(draft: Draft[State], stimulus: Follow, position: int, event: e.MatchVoided) -> None:
    """End a match that the access point does not use, unless it was another manager's match of the job, with another
    slot. If the execution point did not answer, its slots are not matched until it is heard again."""
    job = numbered(event.job, draft.state.peers.followed[stimulus.peer].number)
    slot = draft.state.assigned_slots.get(JobId.parse(job))
    if slot is not None and _undivided(slot) == _undivided(event.slot):
        draft.emit(replace(event, at=draft.now, stimulus=draft.stimulus, slot=slot, job=job))
    if event.cause == UNHEARD:
        machine = draft.state.machines.get(SlotName.parse(event.slot).machine)
        if machine is not None and not machine.expired:
            draft.emit(e.MachineExpired(*draft.header(UNHEARD), machine.name, expired=True))


def _undivided(slot: str) -> SlotName:
    """Return the slot from which a dynamic slot was carved: another part may be the one that is claimed."""
    name = SlotName.parse(slot)
    return name.parent if name.dynamic else name


def expire_machine(draft: Draft[State], stimulus: ExecutionPointExpired) -> None:
    """Record that the ads of a machine are gone because its execution point is silent, or that it is heard again."""
    machine, is_silent = draft.state.machines.get(stimulus.machine), stimulus.expired
    if machine is None or (machine.gone if is_silent else not machine.expired):
        return
    if is_silent:
        keep_absent(draft, [*machine.slots.values()], UNHEARD)
    draft.emit(e.MachineExpired(*draft.header(UNHEARD if is_silent else "heard"), machine.name, is_silent, is_silent))
