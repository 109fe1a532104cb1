"""What an execution point does with the events of an access point: the claims' holder is the peer's name."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import replace

from .. import events as e
from ..classad.matching import requirements_met
from ..decide.delivery import receive
from ..decision.draft import Draft, Refusal
from ..fold.machine_fold import UNCLAIMED
from ..names import JobId, SlotName
from ..ports import stimuli as s
from ..ports.messages import BeginDrain, MachineCommand, ShowAd
from ..startd.activating import activate_claim as activate
from ..startd.activating import deactivate_claim as deactivate
from ..startd.activating import release_claim
from ..startd.claiming import notify_match as notify
from ..startd.claiming import request_claim as request
from ..startd.claiming import withdraw_claim as withdraw
from ..startd.leases import default_lease, lease_time
from ..startd.public_ad import why_not_drained
from ..startd.slot_policy_evaluation import show_ad
from ..startd.vacating import continue_claim, end_claim_or_match, kill_claim, suspend_claim
from ..state.caches import ad_from_attributes
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .following import reject as reject_event


def notify_match(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.MatchNotified) -> None:
    """Move the slot to Matched. A slot that cannot be matched any more will refuse the claim."""
    message = s.NotifyMatch(draft.stimulus, event.slot, event.part, event.ad, event.preempts)
    slot = draft.state.slots.get(event.slot)
    if slot is not None and event.part not in draft.state.slots and slot.state_activity == UNCLAIMED:
        draft.emit(replace(event, at=draft.now, stimulus=draft.stimulus))
        with suppress(Refusal):
            notify(draft, message)


def request_claim(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.ClaimRequested) -> None:
    terms = s.RequestClaim(
        draft.stimulus, event.slot, event.claim, stimulus.peer, event.submitter, event.job, event.ad,
        default_lease(draft, event.slot), preempts=event.preempts, limits=event.limits, negotiator=event.negotiator,
    )  # fmt: skip
    try:
        _check_start(draft, event)
        request(draft, terms)
    except Refusal as refusal:
        reject = e.ClaimRejected(*draft.header("claim_failed"), event.slot, event.claim, stimulus.peer, str(refusal))
        draft.emit(reject)


def _check_start(draft: Draft[ExecutionPoint], event: e.ClaimRequested) -> None:
    """Check what may have changed since the match: that the slot is free unless the match preempts its claim, and that
    its Requirements, which include START, accept the job.

    :raises Refusal: if not
    """
    slots = draft.state.slots
    if not event.reason and event.slot in slots and slots[event.slot].claim is not None:
        raise Refusal(f"slot {event.slot} has been claimed since it was matched")
    slot = slots.get(event.slot) or slots.get(str(SlotName.parse(event.slot).parent))
    if slot is None or event.preempts:
        return
    ad = show_ad(draft, ShowAd(slot.name, frozenset()))
    if not requirements_met(ad, ad_from_attributes(event.ad), draft.context):
        raise Refusal(f"the Requirements of slot {slot.name} are not true for the job")


def claimed_slot(draft: Draft[ExecutionPoint], slot: str, claim: str, holder: str) -> Slot | None:
    """Return a slot if the holder has this claim on it."""
    known = draft.state.slots.get(slot)
    current = None if known is None else known.claim
    return known if current is not None and (current.id, current.holder) == (claim, holder) else None


def _withdraw(draft: Draft[ExecutionPoint], holder: str, claim: str) -> None:
    """Withdraw a claim that waits; release it if it has been made meanwhile."""
    for slot in [*draft.state.slots.values()]:  # a claim of a part of a slot is on a dynamic slot
        waiting = slot.queued_claim
        if waiting is not None and (waiting.id, waiting.holder) == (claim, holder):
            withdraw(draft, s.WithdrawClaim(draft.stimulus, slot.name))
        elif claimed_slot(draft, slot.name, claim, holder) is not None:
            release_claim(draft, s.ReleaseClaim(draft.stimulus, slot.name))


def obey_command(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.ClaimCommanded) -> None:
    slot = claimed_slot(draft, event.slot, event.claim, stimulus.peer)
    if event.command == "withdraw":
        _withdraw(draft, stimulus.peer, event.claim)
    elif slot is None:
        return
    elif event.command == "release":
        release_claim(draft, s.ReleaseClaim(draft.stimulus, slot.name))
    elif event.command == "suspend":
        suspend_claim(draft, slot)
    elif event.command == "continue":
        continue_claim(draft, slot)
    elif event.command in ("vacate", "vacate_fast"):
        end_claim_or_match(draft, slot, event.command == "vacate_fast", event.cause)
    else:
        reject_event(draft, stimulus, f"it sent the command {event.command!r}, which an execution point does not have")


_COMMANDS: Final[dict[str, Any]] = {kind.__name__: kind for kind in get_args(MachineCommand)}


def obey_manager(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.PeerCommanded) -> None:
    """Carry out a command of the manager, unless it does not apply any more."""
    try:
        command: MachineCommand = msgspec.json.decode(event.fields, type=_COMMANDS[event.command])
    except (KeyError, msgspec.DecodeError):
        reject_event(draft, stimulus, f"it sent the command {event.command!r} in a form that is not known")
        return
    machine = draft.state.machines.get(getattr(command, "machine", ""))
    if machine is None and getattr(command, "slot", "") not in draft.state.slots:
        return
    if not (isinstance(command, BeginDrain) and machine is not None and why_not_drained(machine)):
        with suppress(Refusal):
            receive(draft, command)


def activate_claim(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.JobActivated) -> None:
    """Start the job. If the claim has ended, report to the access point that the job does not run.

    The access point may have given the job up since the page was requested, if that was more than a lease ago.
    """
    slot, reason = claimed_slot(draft, event.slot, event.claim, stimulus.peer), "the claim has ended"
    if slot is not None and draft.now >= stimulus.asked + lease_time(slot, event.ad):
        reason = "the job arrived after its lease"
        kill_claim(draft, slot, "lease_over")
    elif slot is not None and _is_released(stimulus, event.claim):
        return
    elif slot is not None:
        job = f"{event.cluster}.{event.proc}"
        try:
            activate(
                draft,
                s.ActivateClaim(
                    draft.stimulus,
                    slot.name,
                    job,
                    event.ad | event.expanded,
                    deferred=event.deferred,
                    key=str(position),
                ),
            )
            return
        except Refusal as refusal:
            reason = str(refusal)
            release_claim(draft, s.ReleaseClaim(draft.stimulus, slot.name))
    draft.emit(e.ClaimRejected(*draft.header("claim_failed"), event.slot, event.claim, stimulus.peer, reason))


def _is_released(stimulus: s.Follow, claim: str) -> bool:
    """Return True if one of the entries releases a claim. Its job, which the access point may have started elsewhere,
    must not start even for a moment."""
    commands = (
        (event.claim, event.command)
        for entry in stimulus.entries
        for event in entry.events
        if isinstance(event, e.ClaimCommanded)
    )
    return (claim, "release") in commands


def deactivate_claim(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.JobSignalled) -> None:
    for slot, _ in _runs_of(draft, stimulus.peer, event.cluster, ((event.proc, event.proc),)):
        signal = next((name for name in ("hold", "remove") if name in event.cause), "")
        message = s.DeactivateClaim(draft.stimulus, slot.name, event.how == "hard", cause=event.cause, signal=signal)
        deactivate(draft, message)


def edit_job(draft: Draft[ExecutionPoint], stimulus: s.Follow, position: int, event: e.JobsEdited) -> None:
    """Change the ads of running jobs, which the slots' policies read. A run keeps the lease with which it started, so
    that both sides know it."""
    changes = {name: text for name, text in event.changes.items() if name.lower() != "jobleaseduration"}
    for slot, job in _runs_of(draft, stimulus.peer, event.cluster, event.procs) if changes else ():
        assert slot.claim is not None, "a job runs on a claim"
        draft.emit(e.ClaimJobEdited(*draft.header("user_edit"), slot.name, slot.claim.id, job, changes))


def _runs_of(draft: Draft[ExecutionPoint], holder: str, cluster: int, procs: e.Procs) -> list[tuple[Slot, str]]:
    """Return the slots on which jobs of an access point run, each with its job."""
    runs = []
    for slot in draft.state.slots.values():
        if slot.activation is not None and slot.claim is not None and slot.claim.holder == holder:
            job = JobId.parse(slot.activation.job)
            if job.cluster == cluster and any(first <= job.proc <= last for first, last in procs):
                runs.append((slot, slot.activation.job))
    return runs
