"""End, suspend and continue claims on request."""

from __future__ import annotations

from ..decision.draft import NOT_FOUND, Draft, Refusal, answer
from ..ports.messages import PauseJob, VacateClaim
from ..ports.stimuli import ContinueClaim, SuspendClaim, VacateSlot
from ..state.pool_settings import super_users
from ..state.records import Slot
from ..state.state import ExecutionPoint
from ..state_machines import void_row
from .dynamic_slots import merge_slot
from .transitions import fire_trigger, flag_claim, record_voided_matches


def retire_claim(
    draft: Draft[ExecutionPoint], slot: Slot, cause: str, *, reversible: bool = False, peaceful: bool = False
) -> bool:
    """Retire the claim: its job may use its retirement time and its time to vacate. If ``reversible``, the claim
    resumes when the reason no longer applies. Return False if there is no claim or match to end."""
    if slot.claim is None and slot.name in draft.state.slot_matches and slot.state != "Backfill":
        return cancel_match(draft, slot, cause)
    if slot.state == "Claimed":
        flag_claim(draft, slot, *([] if reversible else ["irrevocable"]), *(["peaceful"] if peaceful else []))
        if slot.activity in ("Cleaning", "Retiring"):
            return True
    return fire_trigger(draft, slot, "retire", cause)


def kill_claim(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> bool:
    """Kill the claim and its job. Return False if there is no claim or match to end."""
    if slot.claim is None and slot.name in draft.state.slot_matches and slot.state != "Backfill":
        return cancel_match(draft, slot, cause)
    if slot.activity == "Cleaning":
        flag_claim(draft, slot, "closing")
        return True
    return fire_trigger(draft, slot, "kill", cause)


def cancel_match(draft: Draft[ExecutionPoint], slot: Slot, cause: str, *jobs: str) -> bool:
    """Void all of the slot's matches, or only those with the given jobs, and move the slot out of Matched."""
    if slot.name in draft.state.slot_matches:
        draft.move_match(slot, void_row(cause))
        record_voided_matches(draft, slot, cause, *jobs)
    if not fire_trigger(draft, slot, "match over", cause) and slot.kind == "dynamic" and slot.claim is None:
        merge_slot(draft, slot)
    return True


def end_claim_or_match(draft: Draft[ExecutionPoint], slot: Slot, fast: bool, cause: str) -> bool:
    """End a slot's claim or match, fast if ``fast``; return False if it has neither."""
    return kill_claim(draft, slot, cause) if fast else retire_claim(draft, slot, cause) or slot.state == "Preempting"


def vacate_claim(draft: Draft[ExecutionPoint], message: VacateClaim) -> bool:
    return end_claim_or_match(draft, draft.state.slots[message.slot], message.fast, message.cause)


def pause_job(draft: Draft[ExecutionPoint], message: PauseJob) -> bool:
    slot = draft.state.slots[message.slot]
    return continue_claim(draft, slot) if message.resume else suspend_claim(draft, slot)


def suspend_claim(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Suspend the running job until a request continues it. Return False if no job runs or it is already ending."""
    ending = slot.activation is not None and bool(slot.activation.stop_signal)
    if ending or slot.state_activity not in ("Claimed/Busy", "Claimed/Retiring"):
        return False
    flag_claim(draft, slot, "by_command")
    return fire_trigger(draft, slot, "suspend", "suspend_command")


def continue_claim(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Continue a job that a request suspended; return False if there is no such job."""
    claim = slot.claim
    if slot.state_activity != "Claimed/Suspended" or claim is None or "by_command" not in claim.flags:
        return False
    flag_claim(draft, slot, "resumed")
    return fire_trigger(draft, slot, "continue", "continue_command")


def vacate_slot(draft: Draft[ExecutionPoint], command: VacateSlot) -> None:
    """Vacate a slot, or all slots of a machine."""
    slots = _authorized_slots(draft, command, "vacate")
    names = [name for name in slots if draft.send(VacateClaim(name, command.fast, "vacate_command"))]
    answer(draft, command, "vacate", command.slot, {"vacated": names})


def suspend_slot(draft: Draft[ExecutionPoint], command: SuspendClaim) -> None:
    """Suspend the job of a slot, or of all slots of a machine."""
    slots = _authorized_slots(draft, command, "suspend")
    names = [name for name in slots if draft.send(PauseJob(name, resume=False))]
    answer(draft, command, "suspend", command.slot, {"suspended": names})


def continue_slot(draft: Draft[ExecutionPoint], command: ContinueClaim) -> None:
    """Continue the jobs that were suspended by request on a slot, or on all slots of a machine."""
    slots = _authorized_slots(draft, command, "continue")
    names = [name for name in slots if draft.send(PauseJob(name, resume=True))]
    answer(draft, command, "continue", command.slot, {"continued": names})


def _authorized_slots(
    draft: Draft[ExecutionPoint], command: VacateSlot | SuspendClaim | ContinueClaim, verb: str
) -> list[str]:
    """Return the names of the slots that a command names.

    :raises Refusal: if there are none, or a slot runs another user's job and the user does not own the pool
    """
    slots = [s for s in draft.state.slots.values() if command.slot in (s.name, s.machine)]
    if not slots:
        raise Refusal(f"there is no slot or machine {command.slot}; `poolbook status` lists them", NOT_FOUND)
    if command.user not in super_users(draft.state.settings):
        owners = {slot.user.partition("@")[0] for slot in slots if slot.claim}
        if owners - {command.user}:
            raise Refusal(f"{command.slot} runs jobs of other users; only the pool's owner may {verb} it")
    return [slot.name for slot in slots]
