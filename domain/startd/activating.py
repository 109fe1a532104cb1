"""Jobs on claimed slots: start and end a job, and move the claim and the slot accordingly.

The pool's own access point and outside ones send the same messages.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import ClaimActivated, ClaimDeactivated, DrainBadputAdded, JobActivated
from ..ports import stimuli as s
from ..ports.messages import EndJob
from ..state.records import Slot, provides
from ..state.slot_fold import OF_ITS_JOB
from ..state.state import ExecutionPoint
from ..state_machines import SlotRow
from ..units import SECOND
from . import time_limits
from .claiming import slot_named
from .job_signals import resume, signal
from .slot_policy_evaluation import policy_of
from .transitions import leave_preempting, mark, trigger


def activate_claim(draft: Draft[ExecutionPoint], stimulus: s.ActivateClaim) -> None:
    """Start a job on an idle claim (11)."""
    slot = slot_named(draft, stimulus.slot)
    if slot.state_activity != "Claimed/Idle" or slot.claim is None:
        raise Refusal(f"slot {slot.name} is {slot.state_activity}: a claim can be activated in Claimed/Idle alone")
    machine = draft.state.machines.get(slot.machine)
    if machine is not None and machine.shutdown:
        raise Refusal(f"machine {machine.name} is shut down: no job can start there any more")
    promised = time_limits.machine_vacate_time(policy_of(draft, slot))
    draft.move_claim(slot, "activate")
    why, claim = draft.why("activated"), slot.claim.id
    if stimulus.cluster:
        job = stimulus.cluster, stimulus.proc
        given, ad = provides(slot, stimulus.wanted), draft.state.recorded(stimulus.ad)
        begun = JobActivated(*why, *job, slot.name, claim, promised, given, stimulus.expanded, stimulus.deferred, ad=ad)
        draft.emit(begun)
    else:
        draft.emit(ClaimActivated(*why, slot.name, claim, stimulus.job, stimulus.ad, promised))
    trigger(draft, slot, "activate", "activated")


def deactivate_claim(draft: Draft[ExecutionPoint], stimulus: s.DeactivateClaim) -> None:
    """End the holder's job, softly unless ``fast``. If the claim is to end anyway, it is released with the job (the
    real startd's release_claim)."""
    slot, how = slot_named(draft, stimulus.slot), "hard" if stimulus.fast else "soft"
    if slot.activation is not None and slot.activation.cluster and not stimulus.closing:
        if stimulus.resumes and slot.state_activity == "Claimed/Suspended":
            resume(draft, slot, stimulus.cause, stimulus.evidence)
            draft.move_slot(slot, SlotRow.CONTINUE, stimulus.cause)
        signal(draft, slot, how, stimulus.cause, stimulus.evidence, stimulus.vacated)
        return
    if stimulus.closing or _closes(draft, slot):
        if slot.activity == "Cleaning":
            mark(draft, slot, "closing")
        if trigger(draft, slot, "deactivate and close", "deactivated"):
            return
    signal(draft, slot, how, stimulus.cause)


def _closes(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Return True if the claim gets no further job: it retires, a better match waits, its machine drains, or it is too
    old."""
    if slot.claim is None:
        return False
    policy = policy_of(draft, slot)
    retires = slot.activity == "Retiring" or slot.waiting is not None
    return retires or time_limits.draining(policy) or time_limits.worklife_over(policy)


def release_claim(draft: Draft[ExecutionPoint], stimulus: s.ReleaseClaim) -> None:
    """Give the claim up for its holder. In Cleaning, it ends when the job is gone."""
    slot = slot_named(draft, stimulus.slot)
    if slot.activity == "Cleaning":
        mark(draft, slot, "closing")
    else:
        trigger(draft, slot, "release", stimulus.cause)


def _slot_of_starter(draft: Draft[ExecutionPoint], name: str) -> Slot:
    """Return the slot of an outside access point's starter; refuse a slot that runs a job of this queue."""
    slot = slot_named(draft, name)
    if slot.activation is not None and slot.activation.cluster:
        job = f"{slot.activation.cluster}.{slot.activation.proc}"
        raise Refusal(f"{name} runs job {job} of this queue: its own processes tell of its end, and nobody else")
    return slot


def starter_reported(draft: Draft[ExecutionPoint], stimulus: s.StarterReported) -> None:
    trigger(draft, _slot_of_starter(draft, stimulus.slot), "job reported", "job_ended")


def starter_gone(draft: Draft[ExecutionPoint], stimulus: s.StarterGone) -> None:
    slot = _slot_of_starter(draft, stimulus.slot)
    if slot.activation is not None:
        claim = slot.claim.id if slot.claim else ""
        charge_badput(draft, slot)
        draft.move_claim(slot, "end_job")
        draft.emit(ClaimDeactivated(*draft.why("job_ended"), slot.name, claim, slot.activation.job))
    job_gone(draft, slot)


def end_job(draft: Draft[ExecutionPoint], message: EndJob) -> str:
    """Note that the job of the pool's own queue is gone, before its access point logs that."""
    slot = draft.state.slots.get(message.slot)
    if slot is None:
        return ""
    charge_badput(draft, slot)
    draft.move_claim(slot, "end_job")
    return "" if slot.activation is None else slot.activation.leaving


def charge_badput(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Charge the run time of a job that a drain ended as the drain's badput."""
    claim, activation = slot.claim, slot.activation
    if (
        claim is not None
        and activation is not None
        and "drained" in claim.marks
        and slot.machine in draft.state.machines
    ):
        seconds = activation.ran(draft.now) // SECOND
        draft.emit(DrainBadputAdded(*draft.why("draining"), slot.machine, slot.name, round(seconds * slot.cores)))


def job_gone(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Take the slot's next step after its job is gone."""
    if slot.state == "Preempting":
        leave_preempting(draft, slot, "claim_over")
        return
    closing = slot.claim is not None and "closing" in slot.claim.marks
    if (closing or slot.waiting is not None) and trigger(draft, slot, "job gone, claim closing", "job_ended"):
        return
    if slot.claim is not None and slot.activity != "Retiring" and slot.claim.marks & OF_ITS_JOB:
        mark(draft, slot, "job_over")
    trigger(draft, slot, "job gone", "job_ended")
