"""What a role does with a message to a role that is elsewhere: it records an event, which ``outboxes`` sends.

The receiver answers later, with an event in its own log (``following``). Questions about a slot are answered from what
its execution point has shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from .. import events as e
from ..classad import ClassAd
from ..decide.delivery import receive, receiver_of
from ..decision.draft import Draft, Refusal
from ..names import JobId, SlotName
from ..ports import messages as m
from ..ports import stimuli as s
from ..schedd.flocking import update_flocking
from ..state.peers import EXECUTION_POINT, MANAGER, peer_name
from ..state.records import Activation, provided_attributes
from ..state.state import AccessPoint, State, acts_as
from .outboxes import send_events


class Separate:
    """The fabric of a role with its own log: the other roles are elsewhere."""

    def deliver(self, sender: Draft[Any], message: m.Message[Any] | s.SlotMessage) -> Any:
        if acts_as(sender.state, receiver_of(message)):
            return receive(sender, message)
        if isinstance(message, m.MachineCommand) and MANAGER in sender.state.roles:
            return _command_peer(sender, message)
        return ELSEWHERE[type(message)](sender, message)

    def conclude(self, sender: Draft[Any]) -> None:
        """Add the decision's events to the outboxes of the peers that they concern."""
        if acts_as(sender.state, AccessPoint):
            update_flocking(sender)
        send_events(sender)


def _show_slot(draft: Draft[State], message: m.ShowSlot) -> m.SlotSeen | None:
    """Return a claimed slot. The slot from which it was carved is not shown, but follows from its name."""
    seen: m.SlotSeen | None = receive(draft, message)
    return seen and seen._replace(parent=str(SlotName.parse(message.slot).parent) if seen.kind == "dynamic" else "")


def _show_ad(draft: Draft[State], message: m.ShowAd) -> ClassAd:
    from ..startd.public_ad import PublishedSlots

    slots = PublishedSlots(draft.state, draft.caches, draft.now, draft.context)
    return slots.ad(draft.state.slots[message.slot])


def _request_claim(draft: Draft[AccessPoint], request: s.RequestClaim) -> str:
    claim = f"{request.slot}#{draft.state.name}#{draft.now}#{draft.state.position + 1}"
    draft.emit(
        e.ClaimRequested(
            *draft.header("claimed"), request.slot, claim, request.submitter, request.job, request.ad,
            request.preempts, request.limits or "", request.negotiator or "", request.reason,
        )
    )  # fmt: skip
    return ""  # it waits for the answer


def _withdraw_claim(draft: Draft[AccessPoint], message: s.WithdrawClaim) -> None:
    for request in [each for each in draft.state.claim_requests.values() if each.job == message.for_job]:
        withdraw_request(draft, request, "match_void")


def withdraw_request(draft: Draft[Any], request: e.ClaimRequested, cause: str) -> None:
    """Withdraw a claim request that is not answered yet."""
    draft.emit(e.ClaimCommanded(*draft.header(cause), request.slot, request.claim, "withdraw"))
    draft.emit(e.MatchVoided(*draft.header(cause), request.slot, request.job))


def _drop_match(draft: Draft[AccessPoint], message: m.DropMatch) -> None:
    draft.emit(e.MatchVoided(*draft.header(message.cause), message.slot, message.job))


def _activate_claim(draft: Draft[State], message: s.ActivateClaim) -> None:
    slot = draft.state.slots[message.slot]
    assert slot.claim is not None, "an access point activates its own claims"
    draft.move_claim(slot, "activate")
    provided = provided_attributes(slot, message.recorded)
    draft.emit(
        e.JobActivated(
            *draft.header("activated"), message.cluster, message.proc, slot.name, slot.claim.id, 0, provided,
            message.expanded, message.deferred, ad=message.ad,
            flocked=draft.state.peers.flocked.get(slot.machine, ""),
            recorded=message.recorded if message.recorded_runs else (), recorded_runs=message.recorded_runs,
        )
    )  # fmt: skip


def _deactivate_claim(draft: Draft[State], message: s.DeactivateClaim) -> None:
    slot, how = draft.state.slots.get(message.slot), "hard" if message.fast else "soft"
    run = None if slot is None else slot.activation
    if run is None or (run.stop_signal and how == "soft"):
        return
    vacated = message.evidence, message.vacated
    draft.emit(e.JobSignalled(*draft.header(message.cause), run.cluster, run.proc, how, 0, *vacated))


def release_claim(draft: Draft[State], message: s.ReleaseClaim) -> None:
    """End a claim of this access point, and tell the execution point."""
    slot = draft.state.slots.get(message.slot)
    if slot is None or slot.claim is None:
        return
    command(draft, slot.name, "release")
    end_claim(draft, slot.name, message.cause)


def command(draft: Draft[State], slot: str, name: str, cause: str = "released") -> bool:
    """Send the execution point a command about a claimed slot. Return False if the slot is not claimed."""
    known = draft.state.slots.get(slot)
    if known is None or known.claim is None:
        return False
    draft.emit(e.ClaimCommanded(*draft.header(cause), slot, known.claim.id, name))
    return True


def end_claim(draft: Draft[State], name: str, cause: str) -> None:
    """Record that a claim of this access point has ended. Its slot is no longer shown. If the job for which it was made
    has not started, its match is void."""
    slot, job = draft.state.slots[name], draft.state.ready_claims.get(name)
    claim = slot.claim
    if claim is not None:
        usage = (draft.now - claim.since) * claim.weight
        draft.emit(e.ClaimEnded(*draft.header(cause), name, claim.id, claim.submitter, usage, claim.negotiator))
    draft.emit(e.SlotDestroyed(*draft.header(cause), name))
    if job is not None:
        draft.emit(e.MatchVoided(*draft.header("claim_failed"), name, str(JobId(*job))))


def disconnect(draft: Draft[State], run: Activation, until: int, cause: str = "unheard") -> None:
    """Record that the execution point of a running job is silent, unless that is recorded already."""
    if run.key not in draft.state.disconnected:
        draft.emit(e.JobDisconnected(*draft.header(cause), run.cluster, run.proc, until))


def reconnect(draft: Draft[State], run: Activation) -> None:
    """Record that the execution point of a disconnected job answers again, and that the job has not been lost."""
    if run.key in draft.state.disconnected:
        draft.emit(e.JobReconnected(*draft.header("heard"), run.cluster, run.proc))


def end_lost_run(draft: Draft[State], run: Activation) -> None:
    """End a run about which its execution point knows nothing any more. As in HTCondor, it is disconnected first."""
    from ..schedd.job_processes import end_run

    if run.executing:
        disconnect(draft, run, draft.now)
    end_run(draft, s.ActivationEnded(draft.stimulus, run.key, draft.now, lost=True))


def give_up(draft: Draft[State], slots: tuple[str, ...], cause: str) -> None:
    """End this access point's claims on these slots without an answer from the execution point, and let their jobs run
    elsewhere."""
    for name in slots:
        command(draft, name, "release")
        if name in draft.state.slots:
            end_claim(draft, name, cause)
        for run in [run for run in draft.state.activations.values() if run.slot == name]:
            if not draft.state.clusters[run.cluster].is_local:
                end_lost_run(draft, run)


def _command_peer(draft: Draft[State], command: m.MachineCommand) -> bool:
    """Send a command of the manager to the execution point.

    :raises Refusal: if the execution point does not answer
    """
    from ..startd.public_ad import why_not_reached

    name = SlotName.parse(command.slot).machine if isinstance(command, m.VacateClaim | m.PauseJob) else command.machine
    if objection := why_not_reached(draft.state.machines[name]):
        raise Refusal(objection)
    why = draft.header(getattr(command, "cause", "sent"))
    fields = msgspec.json.encode(command).decode()
    draft.emit(e.PeerCommanded(*why, peer_name(EXECUTION_POINT, name), type(command).__name__, fields))
    return True


def _vacate(draft: Draft[State], message: m.VacateClaim) -> bool:
    return command(draft, message.slot, "vacate_fast" if message.fast else "vacate", message.cause)


def _pause(draft: Draft[State], message: m.PauseJob) -> bool:
    return command(draft, message.slot, "continue" if message.resume else "suspend")


def _notify_match(draft: Draft[Any], message: s.NotifyMatch) -> None:
    part, why = message.dynamic_slot, draft.header("matched")
    *_, job = draft.state.slot_matches[part or message.slot]
    draft.emit(e.MatchNotified(*why, message.slot, job, part, message.ad, message.preempts))


def _cause_of_end(draft: Draft[AccessPoint], message: m.EndJob) -> str:
    return ""  # the execution point has sent a signal with the cause


ELSEWHERE: Final[dict[type[Any], Callable[[Draft[Any], Any], Any]]] = {
    # From an access point to an execution point
    m.ShowSlot: _show_slot,
    m.ShowAd: _show_ad,
    m.ShowHost: receive,
    m.DropMatch: _drop_match,
    m.VacateClaim: _vacate,
    m.PauseJob: _pause,
    m.EndJob: _cause_of_end,
    s.RequestClaim: _request_claim,
    s.WithdrawClaim: _withdraw_claim,
    s.ActivateClaim: _activate_claim,
    s.DeactivateClaim: _deactivate_claim,
    s.ReleaseClaim: release_claim,
    s.StarterReported: lambda draft, message: None,  # the execution point knows
    s.StarterGone: lambda draft, message: None,
    # To the manager
    m.ShowAutoclusters: receive,
    m.OpenAccount: lambda draft, message: 0.0,  # the manager opens it
    # From the manager to an execution point
    s.NotifyMatch: _notify_match,
    m.CheckSensors: lambda draft, message: False,
}
"""What a role does with a message to a role elsewhere, by message class."""
