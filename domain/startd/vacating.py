"""End claims softly or at once, or suspend and continue them, by request."""

from __future__ import annotations

from ..decision.draft import NOT_FOUND, Draft, Refusal, answer
from ..ports.messages import PauseJob, VacateClaim
from ..ports.stimuli import ContinueClaim, SuspendClaim, VacateSlot
from ..state.pool_settings import super_users
from ..state.records import Slot
from ..state.state import ExecutionPoint
from ..state_machines import void_row
from .dynamic_slots import merge
from .transitions import mark, trigger, void_match


def retire(
    draft: Draft[ExecutionPoint], slot: Slot, cause: str, *, reversible: bool = False, peaceful: bool = False
) -> bool:
    """Retire the claim: its job may use its retirement time and its time to vacate. Unless ``reversible``, it ends
    whatever happens meanwhile. Return False if there is nothing to end."""
    if slot.claim is None and slot.name in draft.state.slot_matches and slot.state != "Backfill":
        return void(draft, slot, cause)
    if slot.state == "Claimed":
        mark(draft, slot, *([] if reversible else ["irrevocable"]), *(["peaceful"] if peaceful else []))
        if slot.activity in ("Cleaning", "Retiring"):
            return True
    return trigger(draft, slot, "retire", cause)


def kill(draft: Draft[ExecutionPoint], slot: Slot, cause: str) -> bool:
    """End the claim at once, and kill its job. Return False if there is nothing to end."""
    if slot.claim is None and slot.name in draft.state.slot_matches and slot.state != "Backfill":
        return void(draft, slot, cause)
    if slot.activity == "Cleaning":
        mark(draft, slot, "closing")
        return True
    return trigger(draft, slot, "kill", cause)


def void(draft: Draft[ExecutionPoint], slot: Slot, cause: str, *jobs: str) -> bool:
    """Void the slot's matches, or those with these jobs."""
    if slot.name in draft.state.slot_matches:
        draft.move_match(slot, void_row(cause))
        void_match(draft, slot, cause, *jobs)
    if not trigger(draft, slot, "match over", cause) and slot.kind == "dynamic" and slot.claim is None:
        merge(draft, slot)
    return True


def vacate(draft: Draft[ExecutionPoint], slot: Slot, fast: bool, cause: str) -> bool:
    """Vacate a slot, whatever it does, because of `cause`; False if it has neither claim nor match."""
    return kill(draft, slot, cause) if fast else retire(draft, slot, cause) or slot.state == "Preempting"


def vacate_claim(draft: Draft[ExecutionPoint], message: VacateClaim) -> bool:
    return vacate(draft, draft.state.slots[message.slot], message.fast, message.cause)


def pause_job(draft: Draft[ExecutionPoint], message: PauseJob) -> bool:
    slot = draft.state.slots[message.slot]
    return continue_claim(draft, slot) if message.resume else suspend_claim(draft, slot)


def suspend_claim(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Suspend the running job until a request continues it. Return False if nothing runs that is not ending."""
    ending = slot.activation is not None and bool(slot.activation.stop)
    if ending or slot.state_activity not in ("Claimed/Busy", "Claimed/Retiring"):
        return False
    mark(draft, slot, "by_command")
    return trigger(draft, slot, "suspend", "suspend_command")


def continue_claim(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Continue what a request suspended; return False if none did."""
    claim = slot.claim
    if slot.state_activity != "Claimed/Suspended" or claim is None or "by_command" not in claim.marks:
        return False
    mark(draft, slot, "resumed")
    return trigger(draft, slot, "continue", "continue_command")


def vacate_slot(draft: Draft[ExecutionPoint], command: VacateSlot) -> None:
    """Vacate a slot by its name, or every slot of a machine."""
    done = [
        slot.name for slot in _slots(draft, command, "vacate") if vacate(draft, slot, command.fast, "vacate_command")
    ]
    answer(draft, command, "vacate", command.slot, {"vacated": done})


def suspend_slot(draft: Draft[ExecutionPoint], command: SuspendClaim) -> None:
    """Suspend what runs on a slot, or on every slot of a machine."""
    done = [slot.name for slot in _slots(draft, command, "suspend") if suspend_claim(draft, slot)]
    answer(draft, command, "suspend", command.slot, {"suspended": done})


def continue_slot(draft: Draft[ExecutionPoint], command: ContinueClaim) -> None:
    """Let what a request suspended go on."""
    done = [slot.name for slot in _slots(draft, command, "continue") if continue_claim(draft, slot)]
    answer(draft, command, "continue", command.slot, {"continued": done})


def _slots(draft: Draft[ExecutionPoint], command: VacateSlot | SuspendClaim | ContinueClaim, verb: str) -> list[Slot]:
    """Return the slots that a command names, if its user may do so with all of them."""
    slots = [s for s in draft.state.slots.values() if command.slot in (s.name, s.machine)]
    if not slots:
        raise Refusal(f"there is no slot or machine {command.slot}; `poolbook status` lists them", NOT_FOUND)
    if command.user not in super_users(draft.state.settings):
        owners = {slot.user.partition("@")[0] for slot in slots if slot.claim}
        if owners - {command.user}:
            raise Refusal(f"{command.slot} runs jobs of other users: only the pool's owner may {verb} it")
    return slots
