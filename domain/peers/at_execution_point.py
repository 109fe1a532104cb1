"""What an execution point does with the events of an access point: the claims' holder is the peer's name."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from .. import events as e
from ..decision.draft import Draft, Refusal
from ..fold.machine_fold import UNCLAIMED
from ..ports import stimuli as s
from ..startd.activating import activate_claim as activate
from ..startd.activating import deactivate_claim as deactivate
from ..startd.activating import release_claim
from ..startd.claiming import notify_match as notify
from ..startd.claiming import request_claim as request
from ..startd.claiming import withdraw_claim as withdraw
from ..startd.leases import default_lease, lease_time
from ..startd.vacating import continue_claim, end_claim_or_match, kill_claim, suspend_claim
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
        request(draft, terms)
    except Refusal as refusal:
        reject = e.ClaimRejected(*draft.header("claim_failed"), event.slot, event.claim, stimulus.peer, str(refusal))
        draft.emit(reject)


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
        end_claim_or_match(draft, slot, event.command == "vacate_fast", "vacate_command")
    else:
        reject_event(draft, stimulus, f"it sent the command {event.command!r}, which an execution point does not have")


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
                draft, s.ActivateClaim(draft.stimulus, slot.name, job, event.ad | event.expanded, key=str(position))
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
    job = f"{event.cluster}.{event.proc}"
    for slot in [*draft.state.slots.values()]:
        run, claim = slot.activation, slot.claim
        if run is not None and claim is not None and (claim.holder, run.job) == (stimulus.peer, job):
            signal = next((name for name in ("hold", "remove") if name in event.cause), "")
            message = s.DeactivateClaim(
                draft.stimulus, slot.name, event.how == "hard", cause=event.cause, signal=signal
            )
            deactivate(draft, message)
