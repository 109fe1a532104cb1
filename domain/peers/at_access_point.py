"""What an access point does with the events of execution points and of the manager."""

from __future__ import annotations

from typing import Final

from msgspec import DecodeError
from msgspec.structs import replace

from .. import events as e
from ..decide.rules import Rules
from ..decision.draft import Draft
from ..names import JobId
from ..ports import stimuli as s
from ..ports.messages import JobPaused
from ..ports.run_reports import decode_report
from ..requests.idle_jobs import remaining_starts
from ..schedd.claims import job_paused
from ..schedd.flocking import is_offered, level_of, negotiation_ended
from ..state.job_ad import vacate_reason
from ..state.peers import FULL, peer_of_slot
from ..state.records import Activation
from ..state.state import State
from ..state_machines.hold_codes import EVICTION_REASONS, StopReason
from ..state_machines.slot_rows import INITIAL_PAIR
from . import elsewhere
from .following import reject

_RULES: Final = Rules({
    s.ActivationDue: "schedd.deferred_starts.log_deferral",
    s.ActivationStarted: "schedd.job_processes.log_start",
    s.ActivationMeasured: "schedd.job_processes.log_measurement",
    s.ActivationChirped: "schedd.job_processes.log_chirp",
    s.ActivationEnded: "schedd.job_processes.end_run",
    s.Transferred: "schedd.job_processes.log_transfer",
})  # fmt: skip


def accept_matches(draft: Draft[State], stimulus: s.Follow, position: int, event: e.CycleHeld) -> None:
    """Record the matches of jobs that still need a slot and may start; the others are void. A match that
    another manager has already made needs no answer: both managers read how that one ends."""
    state, level = draft.state, level_of(draft.state, stimulus.peer)
    manager = stimulus.peer.partition("/")[2] if level else ""
    idle = [
        match
        for match in event.matches
        if _waits_for_slot(state, job := JobId.parse(match.job)) and is_offered(state, job, manager)
    ]
    room = remaining_starts(draft.state)
    extra = [match for place, match in enumerate(idle) if place >= room]
    idle = idle[: len(idle) - len(extra)]
    known = [each for each in event.unmatched if JobId.parse(each.job).cluster in draft.state.clusters]
    if idle or known:
        copy = replace(event, at=draft.now, stimulus=draft.stimulus, matches=tuple(idle), unmatched=tuple(known))
        draft.emit(replace(copy, flocked=manager))
    for match in event.matches:
        if match not in idle and draft.state.assigned_slots.get(JobId.parse(match.job)) != match.slot:
            cause = FULL if match in extra else "match_void"
            draft.emit(e.MatchVoided(*draft.header(cause), match.slot, match.job))
    negotiation_ended(draft, event, level, manager)


def _waits_for_slot(state: State, job: JobId) -> bool:
    cluster = state.clusters.get(job.cluster)
    is_idle = cluster is not None and job.proc in cluster and cluster.status_of(job.proc) == "Idle"
    return is_idle and job not in state.by_job and job not in state.assigned_slots


def accept_grant(draft: Draft[State], stimulus: s.Follow, position: int, event: e.ClaimGranted) -> None:
    """Show the slot, and record the claim, on which the requested job or another one will run. A claim that was
    withdrawn meanwhile was released by that."""
    request = draft.state.claim_requests.get(event.claim)
    if request is None or peer_of_slot(event.slot) != stimulus.peer:
        return
    why = draft.header("claimed")
    forget(draft, event.slot)
    draft.emit(e.SlotCreated(*why, event.slot, event.machine, event.kind, "", event.ad))
    draft.emit(e.SlotTransitioned(*why, event.slot, "", INITIAL_PAIR, event.state_activity))
    draft.emit(
        e.ClaimMade(
            *why, event.slot, event.claim, request.submitter, event.weight, event.rank, job=request.job,
            lease=event.lease, limits=request.limits, negotiator=request.negotiator,
        )
    )  # fmt: skip


def accept_rejection(draft: Draft[State], stimulus: s.Follow, position: int, event: e.ClaimRejected) -> None:
    """The request failed, or the claim has ended before its job started."""
    request = draft.state.claim_requests.get(event.claim)
    slot = draft.state.slots.get(event.slot) if _is_shown(draft, stimulus, event) else None
    if request is not None and peer_of_slot(request.slot) != stimulus.peer:
        return  # another execution point has to answer it
    if slot is not None and slot.claim is not None and slot.claim.id == event.claim:
        elsewhere.give_up(draft, (event.slot,), "claim_failed")
    if request is not None:
        draft.emit(replace(event, at=draft.now, stimulus=draft.stimulus))
        draft.emit(e.MatchVoided(*draft.header("claim_failed"), request.slot, request.job))


def forget(draft: Draft[State], slot: str) -> None:
    if slot in draft.state.slots:
        elsewhere.end_claim(draft, slot, "claim_over")


def end_claim(draft: Draft[State], stimulus: s.Follow, position: int, event: e.ClaimEnded) -> None:
    """The execution point has ended the claim. Its job, if there is one, is reported separately."""
    slot = draft.state.slots.get(event.slot) if _is_shown(draft, stimulus, event) else None
    if slot is not None and slot.claim is not None and slot.claim.id == event.claim:
        elsewhere.end_claim(draft, event.slot, event.cause)


def forget_slot(draft: Draft[State], stimulus: s.Follow, position: int, event: e.SlotDestroyed) -> None:
    if _is_shown(draft, stimulus, event):
        forget(draft, event.slot)


def _is_shown(draft: Draft[State], stimulus: s.Follow, event: e.SlotEvent) -> bool:
    """Return True if the peer has shown its slot. An event about another machine's slot is rejected."""
    if peer_of_slot(event.slot) != stimulus.peer:
        reject(draft, stimulus, f"it sent an event about {event.slot}, which is not its own")
        return False
    return event.slot in draft.state.slots


def copy_slot_event(draft: Draft[State], stimulus: s.Follow, position: int, event: e.SlotEvent) -> None:
    if _is_shown(draft, stimulus, event):
        draft.emit(replace(event, at=draft.now, stimulus=draft.stimulus))


def move_slot(draft: Draft[State], stimulus: s.Follow, position: int, event: e.SlotTransitioned) -> None:
    """Copy the transition. A job whose slot was suspended or continued is, too."""
    if not _is_shown(draft, stimulus, event):
        return
    slot = draft.state.slots[event.slot]
    copy_slot_event(draft, stimulus, position, replace(event, source=slot.state_activity))
    run = slot.activation
    if run is None or not run.cluster:
        return
    if event.target == "Claimed/Suspended":
        job_paused(draft, JobPaused(run.cluster, run.proc, "suspend", "Running", event.cause))
    elif event.source == "Claimed/Suspended" and event.target == "Claimed/Busy":
        job_paused(draft, JobPaused(run.cluster, run.proc, "continue", "Suspended", event.cause))


def _run_on(draft: Draft[State], slot: str) -> Activation | None:
    return next((run for run in draft.state.activations.values() if run.slot == slot), None)


def signal_job(draft: Draft[State], stimulus: s.Follow, position: int, event: e.StarterSignalled) -> None:
    """Record that the execution point ends the job, and why, unless this access point has asked for that."""
    run = _run_on(draft, event.slot) if peer_of_slot(event.slot) == stimulus.peer else None
    if run is None or run.stop_signal in ("hard", event.how):
        return
    starter = draft.state.slots[event.slot].activation if event.slot in draft.state.slots else None
    cause = event.cause
    if starter is not None and not (event.reason or cause in EVICTION_REASONS):
        cause = starter.leave_cause or cause
    vacated = vacate_reason(StopReason(event.code, event.subcode, event.reason)) if event.reason else {}
    draft.emit(e.JobSignalled(*draft.header(cause), run.cluster, run.proc, event.how, event.until, vacated=vacated))


def decide_report(draft: Draft[State], stimulus: s.Follow, position: int, event: e.RunReported) -> None:
    """Decide a report about a job's processes as if they ran on this machine. A late report about a run that was given
    up is ignored."""
    run = draft.state.activations.get(event.key)
    if run is None or run.slot != event.slot or peer_of_slot(event.slot) != stimulus.peer:
        return
    try:
        report = decode_report(event)
    except DecodeError as error:
        reject(draft, stimulus, f"it sent a malformed report about job {event.job}: {error}")
        return
    if any(_ends_claim(later, event.claim) for entry in stimulus.entries for later in entry.events):
        forget(draft, event.slot)  # so that no other job is sent there
    if isinstance(report, s.ActivationEnded) and run.next_signal:
        # The execution point's own signal, which is read late, preceded the end.
        report = replace(report, at=max(report.at, run.first_signalled))
    if isinstance(report, s.ActivationEnded):
        if not report.lost:
            elsewhere.reconnect(draft, run)
        elif run.executing:
            elsewhere.disconnect(draft, run, draft.now)
    _RULES[type(report)](draft, report)


def _ends_claim(event: e.Event, claim: str) -> bool:
    return isinstance(event, e.ClaimEnded) and event.claim == claim


def end_runs_without_claim(draft: Draft[State]) -> None:
    """End the runs whose claims have ended without a report about the run: their jobs arrived after the claim's end. An
    execution point ends a claim only after the job's processes, and reports both together."""
    state = draft.state
    if not any(isinstance(event, e.SlotDestroyed) for event in draft.events):
        return
    for run in [run for run in state.activations.values() if run.slot not in state.slots]:
        if not state.clusters[run.cluster].is_local:
            elsewhere.end_lost_run(draft, run)


# Leases


def disconnect(draft: Draft[State], stimulus: s.ExecutionPointSilent) -> None:
    """Record that the execution point of running jobs is silent."""
    for run in _runs_on(draft, stimulus.slots):
        elsewhere.disconnect(draft, run, stimulus.until, stimulus.cause)


def reconnect(draft: Draft[State], stimulus: s.ExecutionPointHeard) -> None:
    for run in _runs_on(draft, stimulus.slots):
        elsewhere.reconnect(draft, run)


def give_up(draft: Draft[State], stimulus: s.LeaseOver) -> None:
    """Give up the claims on these slots, and run their jobs elsewhere: their execution point has ended them by now."""
    elsewhere.give_up(draft, stimulus.slots, "lease_over")


def _runs_on(draft: Draft[State], slots: tuple[str, ...]) -> list[Activation]:
    return [run for run in draft.state.activations.values() if run.slot in slots]


def withdraw_requests(draft: Draft[State], stimulus: s.RequestsUnanswered) -> None:
    """Withdraw claim requests whose execution points do not answer. Their jobs can be matched again."""
    for claim in stimulus.claims:
        elsewhere.withdraw_request(draft, draft.state.claim_requests[claim], "unheard")
