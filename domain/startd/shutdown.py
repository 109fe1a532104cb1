"""Shut a startd down: peacefully (jobs run to their end), gracefully (they keep their retirement time) or fast.

When its last claim has ended, its slots and the machine leave the pool.
"""

from __future__ import annotations

from ..decision.draft import Draft, Refusal, answer
from ..events import (
    BackfillExited,
    ClaimDeactivated,
    ClaimEnded,
    JobExited,
    MachineLeft,
    MatchVoided,
    ShutdownBegan,
    SlotDestroyed,
)
from ..names import SlotName
from ..ports import stimuli as s
from ..state.records import Machine
from ..state.state import ExecutionPoint
from .draining import finalize, owned_machine, slots_of
from .transitions import apply_policy, end_claim, withdraw_better_match
from .vacating import kill, retire

HOWS = ("Peaceful", "Graceful", "Fast")


def shut_down(draft: Draft[ExecutionPoint], command: s.ShutDown) -> None:
    """Begin to shut a startd down; one that is being shut down may be told to go faster."""
    machine = owned_machine(draft, command, "turn off")
    if command.how not in HOWS:
        raise Refusal(f"{command.how!r} is no way to shut down; there are {', '.join(HOWS)}")
    if machine.shutdown and HOWS.index(machine.shutdown) >= HOWS.index(command.how):
        raise Refusal(f"{machine.name} is being shut down already ({machine.shutdown}); only a faster way changes that")
    draft.emit(ShutdownBegan(*draft.why("shutdown"), machine.name, command.how))
    for slot in [] if draft.state.dialect.better_match_survives_shutdown else slots_of(draft, machine):
        withdraw_better_match(draft, slot, "shutdown")
    for slot in [] if _ended_with_it(draft, machine) else slots_of(draft, machine):
        if draft.state.slots.get(slot.name) is not slot:
            continue
        if command.how == "Fast":
            kill(draft, slot, "shutdown")
        else:
            retire(draft, slot, "shutdown", peaceful=command.how == "Peaceful")
        if draft.state.slots.get(slot.name) is slot and slot.state_activity == "Claimed/Retiring":
            apply_policy(draft, slot)
    leave_if_empty(draft, machine)
    answer(draft, command, "shut down", machine.name, {"machine": machine.name, "how": command.how})


def _ended_with_it(draft: Draft[ExecutionPoint], machine: Machine) -> bool:
    """End a startd that runs no job at once, with its claims, and tell whether it did."""
    slots = slots_of(draft, machine)
    runs = any(slot.activation or slot.name in draft.state.slot_matches for slot in slots)
    if runs or machine.backfill or not draft.state.dialect.ends_idle_startd_at_once:
        return False
    for slot in slots:
        end_claim(draft, slot, "shutdown")
    return True


def leave_if_empty(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Remove a machine that is being shut down once nobody holds a slot of it, and its backfill client is gone."""
    if not _over(draft.state, machine):
        return
    for slot in slots_of(draft, machine):
        end_claim(draft, slot, "shutdown")
    for slot in sorted(slots_of(draft, machine), key=lambda slot: not slot.parent):  # dynamic slots go first
        draft.emit(SlotDestroyed(*draft.why("machine_left"), slot.name))
    draft.emit(MachineLeft(*draft.why("shutdown"), machine.name))


def _over(state: ExecutionPoint, machine: Machine) -> bool:
    """Tell whether the machine is shut down and nobody holds a slot of it; the real startd asks for jobs alone."""
    slots, jobs_alone = machine.slots.values(), state.dialect.ends_idle_startd_at_once
    held = any(slot.activation if jobs_alone else slot.claim or slot.name in state.slot_matches for slot in slots)
    return bool(machine.shutdown) and not held and machine.backfill is None


def finish(draft: Draft[ExecutionPoint]) -> None:
    """Advance the drains and shutdowns of the machines that this decision freed."""
    ends = (ClaimEnded, MatchVoided, ClaimDeactivated, JobExited)
    freed = [SlotName.parse(event.slot).machine for event in draft.events if isinstance(event, ends)]
    freed += [event.machine for event in draft.events if isinstance(event, BackfillExited)]
    for name in dict.fromkeys(freed):
        machine = draft.state.machines.get(name)
        if machine is not None:
            finalize(draft, machine)
            leave_if_empty(draft, machine)
