"""What users do with slots: vacate, suspend, continue what runs there."""

from __future__ import annotations

from ..decision.command_results import answer
from ..decision.draft import NOT_FOUND, Draft, Refusal
from ..ports.stimuli import ContinueClaim, SuspendClaim, VacateSlot
from ..startd.vacating import continue_claim, suspend_claim
from ..state.pool_settings import super_users
from ..state.state import ExecutionPoint, Slot
from .vacating import vacate


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
