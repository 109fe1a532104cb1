"""Start and end jobs on claimed slots, and move the claim and the slot accordingly.

The pool's own access point and external ones send the same messages.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import ClaimActivated, ClaimDeactivated, DrainBadputAdded, JobActivated
from ..names import JobId
from ..ports import stimuli as s
from ..ports.messages import EndJob
from ..state.deferrals import transfers_files
from ..state.records import Slot, provided_attributes
from ..state.slot_fold import JOB_FLAGS
from ..state.state import ExecutionPoint
from ..state_machines import SlotRow
from ..units import SECOND
from . import time_limits
from .claiming import find_slot
from .job_signals import resume_job, signal_job
from .slot_policy_evaluation import policy_of
from .transitions import fire_trigger, flag_claim, leave_preempting


def activate_claim(draft: Draft[ExecutionPoint], stimulus: s.ActivateClaim) -> None:
    """Start a job on an idle claim (transition 11)."""
    slot = find_slot(draft, stimulus.slot)
    if slot.state_activity != "Claimed/Idle" or slot.claim is None:
        raise Refusal(f"slot {slot.name} is {slot.state_activity}: a claim can be activated only in Claimed/Idle")
    if stimulus.key and not JobId.is_id(stimulus.job):
        raise Refusal(f"{stimulus.job!r} is not a job id: use CLUSTER.PROC, for example 12.3")
    machine = draft.state.machines.get(slot.machine)
    if machine is not None and machine.shutdown:
        raise Refusal(f"machine {machine.name} is shut down: it starts no more jobs")
    vacate_time = time_limits.machine_vacate_time(policy_of(draft, slot))
    draft.move_claim(slot, "activate")
    origin, claim = draft.header("activated"), slot.claim.id
    files_first = bool(stimulus.deferred) and transfers_files(stimulus.ad, slot.ad)
    if stimulus.cluster:
        job = stimulus.cluster, stimulus.proc
        provided, ad = provided_attributes(slot, stimulus.recorded), draft.state.ad_to_record(stimulus.ad)
        activated = JobActivated(
            *origin, *job, slot.name, claim, vacate_time, provided, stimulus.expanded, stimulus.deferred, ad=ad,
            files_first=files_first, recorded=stimulus.recorded if stimulus.recorded_runs else (),
            recorded_runs=stimulus.recorded_runs,
        )  # fmt: skip
        draft.emit(activated)
    else:
        activation = ClaimActivated(
            *origin, slot.name, claim, stimulus.job, stimulus.ad, vacate_time, stimulus.key, stimulus.deferred,
            files_first,
        )  # fmt: skip
        draft.emit(activation)
    fire_trigger(draft, slot, "activate", "activated")


def deactivate_claim(draft: Draft[ExecutionPoint], stimulus: s.DeactivateClaim) -> None:
    """End the holder's job, softly unless ``fast``. Release the claim too if it can run no further job
    (release_claim)."""
    slot, how = find_slot(draft, stimulus.slot), "hard" if stimulus.fast else "soft"
    if slot.activation is not None and slot.activation.runs_here and not stimulus.closing:
        if stimulus.resumes and slot.state_activity == "Claimed/Suspended":
            resume_job(draft, slot, stimulus.cause, stimulus.evidence)
            draft.move_slot(slot, SlotRow.CONTINUE, stimulus.cause)
        signal_job(draft, slot, how, stimulus.cause, stimulus.evidence, stimulus.vacated, signal=stimulus.signal)
        return
    if stimulus.closing or _claim_is_ending(draft, slot):
        if slot.activity == "Cleaning":
            flag_claim(draft, slot, "closing")
        if fire_trigger(draft, slot, "deactivate and close", "deactivated"):
            return
    signal_job(draft, slot, how, stimulus.cause)


def _claim_is_ending(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Return True if the claim accepts no further job: it is retiring, a preempting claim waits, its machine is
    draining, or it exceeds CLAIM_WORKLIFE."""
    if slot.claim is None:
        return False
    policy = policy_of(draft, slot)
    is_retiring = slot.activity == "Retiring" or slot.queued_claim is not None
    return is_retiring or time_limits.machine_is_draining(policy) or time_limits.worklife_over(policy)


def release_claim(draft: Draft[ExecutionPoint], stimulus: s.ReleaseClaim) -> None:
    """Release the claim for its holder. In Cleaning, the claim ends when its job has ended."""
    slot = find_slot(draft, stimulus.slot)
    if slot.activity == "Cleaning":
        flag_claim(draft, slot, "closing")
    else:
        fire_trigger(draft, slot, "release", stimulus.cause)


def _slot_of_starter(draft: Draft[ExecutionPoint], name: str) -> Slot:
    """Return the slot on which an external access point runs a job.

    :raises Refusal: if the pool runs the processes of the slot's job
    """
    slot = find_slot(draft, name)
    if slot.activation is not None and slot.activation.runs_here:
        job = slot.activation.job or f"{slot.activation.cluster}.{slot.activation.proc} of this queue"
        raise Refusal(f"{name} runs job {job}: only its own processes report its end")
    return slot


def handle_starter_report(draft: Draft[ExecutionPoint], stimulus: s.StarterReported) -> None:
    fire_trigger(draft, _slot_of_starter(draft, stimulus.slot), "job reported", "job_ended")


def handle_starter_end(draft: Draft[ExecutionPoint], stimulus: s.StarterGone) -> None:
    end_external_job(draft, _slot_of_starter(draft, stimulus.slot))


def end_external_job(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Record that an external access point's job has ended, and move the slot."""
    starter = slot.activation
    if starter is not None:
        claim, key = slot.claim.id if slot.claim else "", starter.key if starter.runs_here else ""
        add_drain_badput(draft, slot)
        draft.move_claim(slot, "end_job")
        draft.emit(ClaimDeactivated(*draft.header("job_ended"), slot.name, claim, starter.job, key))
    move_after_job(draft, slot)


def record_job_end(draft: Draft[ExecutionPoint], message: EndJob) -> str:
    """Record that a job of the pool's own queue has ended, before the access point logs that. Return the cause for
    which the claim was about to end, if any."""
    slot = draft.state.slots.get(message.slot)
    if slot is None:
        return ""
    add_drain_badput(draft, slot)
    draft.move_claim(slot, "end_job")
    return "" if slot.activation is None else slot.activation.leave_cause


def add_drain_badput(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Add the run time of a job that was ended by a drain to the drain's badput."""
    claim, activation = slot.claim, slot.activation
    if (
        claim is not None
        and activation is not None
        and "drained" in claim.flags
        and slot.machine in draft.state.machines
    ):
        seconds = activation.run_time(draft.now) // SECOND
        draft.emit(DrainBadputAdded(*draft.header("draining"), slot.machine, slot.name, round(seconds * slot.cores)))


def move_after_job(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Move the slot to its next state after its job has ended."""
    if slot.state == "Preempting":
        leave_preempting(draft, slot, "claim_over")
        return
    claim_is_closing = slot.claim is not None and "closing" in slot.claim.flags
    if (claim_is_closing or slot.queued_claim is not None) and fire_trigger(
        draft, slot, "job gone, claim closing", "job_ended"
    ):
        return
    if slot.claim is not None and slot.activity != "Retiring" and slot.claim.flags & JOB_FLAGS:
        flag_claim(draft, slot, "job_over")
    fire_trigger(draft, slot, "job gone", "job_ended")
