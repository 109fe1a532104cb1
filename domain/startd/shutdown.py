"""Shut a startd down: peacefully (jobs run until they complete), gracefully (they keep their retirement time) or fast.

When the last claim has ended, the slots and the machine leave the pool.
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
from ..ports.messages import BeginShutdown
from ..state.records import Machine
from ..state.state import ExecutionPoint
from .absent_ads import MACHINE_LEFT, keep_invalidated
from .draining import authorized_machine, finalize_drain, remaining_slots
from .transitions import apply_policy, end_claim, withdraw_better_match
from .vacating import kill_claim, retire_claim

SHUTDOWN_SPEEDS = ("Peaceful", "Graceful", "Fast")


def shut_down(draft: Draft[ExecutionPoint], command: s.ShutDown) -> None:
    """Start to shut a startd down, or make a shutdown faster, or final if it was to be followed by a restart."""
    machine = authorized_machine(draft, command, "turn off")
    if command.how not in SHUTDOWN_SPEEDS:
        raise Refusal(f"{command.how!r} is not a valid shutdown speed; use {', '.join(SHUTDOWN_SPEEDS)}")
    if not may_change_shutdown(machine, command.how, command.restart):
        raise Refusal(
            f"{machine.name} is already shutting down ({machine.shutdown}); only a faster shutdown has an effect"
        )
    draft.send(BeginShutdown(machine.name, command.how, command.restart))
    answer(draft, command, "shut down", machine.name, {"machine": machine.name, "how": command.how})


def may_change_shutdown(machine: Machine, how: str, restart: bool) -> bool:
    """Return True if a shutdown may begin, or replace the current one: it is faster, or omits the restart."""
    if machine.shutdown not in SHUTDOWN_SPEEDS:
        return True
    current, new = map(SHUTDOWN_SPEEDS.index, (machine.shutdown, how))
    return new > current or (new == current and machine.restart and not restart)


def begin_shutdown(draft: Draft[ExecutionPoint], message: BeginShutdown) -> None:
    machine, how = draft.state.machines[message.machine], message.how
    draft.emit(ShutdownBegan(*draft.header("shutdown"), machine.name, how, message.restart))
    for slot in () if draft.state.dialect.better_match_survives_shutdown else machine.slots.values():
        withdraw_better_match(draft, slot, "shutdown")
    for slot in () if _end_idle_startd(draft, machine) else remaining_slots(draft, machine):
        if how == "Fast":
            kill_claim(draft, slot, "shutdown")
        else:
            retire_claim(draft, slot, "shutdown", peaceful=how == "Peaceful")
        if draft.state.slots.get(slot.name) is slot and slot.state_activity == "Claimed/Retiring":
            apply_policy(draft, slot)
    remove_if_empty(draft, machine)


def _end_idle_startd(draft: Draft[ExecutionPoint], machine: Machine) -> bool:
    """End the claims of a startd that runs no job; return False if it runs any."""
    slots = list(machine.slots.values())
    is_busy = any(slot.activation or slot.name in draft.state.slot_matches for slot in slots)
    if is_busy or machine.backfill or not draft.state.dialect.ends_idle_startd_immediately:
        return False
    for slot in slots:
        end_claim(draft, slot, "shutdown")
    return True


def remove_if_empty(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Remove a machine that is shutting down if its slots are unclaimed and its backfill client has ended."""
    if not _shutdown_is_complete(draft.state, machine):
        return
    for slot in list(machine.slots.values()):
        end_claim(draft, slot, "shutdown")
    for slot in sorted(machine.slots.values(), key=lambda slot: not slot.parent):  # dynamic slots first
        keep_invalidated(draft, slot)
        draft.emit(SlotDestroyed(*draft.header(MACHINE_LEFT), slot.name))
    draft.emit(MachineLeft(*draft.header("shutdown"), machine.name))


def _shutdown_is_complete(state: ExecutionPoint, machine: Machine) -> bool:
    """Return True if the machine is shutting down and its slots are unclaimed; HTCondor checks only for jobs."""
    slots, only_jobs = machine.slots.values(), state.dialect.ends_idle_startd_immediately
    in_use = any(slot.activation if only_jobs else slot.claim or slot.name in state.slot_matches for slot in slots)
    return bool(machine.shutdown) and not in_use and machine.backfill is None


def finish_drains_and_shutdowns(draft: Draft[ExecutionPoint]) -> None:
    """Advance the drain or shutdown of each machine whose slots or backfill client changed in this decision."""
    end_events = (ClaimEnded, MatchVoided, ClaimDeactivated, JobExited)
    machines = [SlotName.parse(event.slot).machine for event in draft.events if isinstance(event, end_events)]
    machines += [event.machine for event in draft.events if isinstance(event, BackfillExited)]
    for name in dict.fromkeys(machines):
        machine = draft.state.machines.get(name)
        if machine is not None:
            finalize_drain(draft, machine)
            remove_if_empty(draft, machine)
