"""Drain machines and cancel drains (the manual's page condor_drain, "Drained State"): for who asks, and for the
defragmentation (``domain/defrag/``).

A schedule says what running jobs get (``state_machines/drain``). Slots without a claim go to Drained at once, others
when their claims have ended.
"""

from __future__ import annotations

from typing import NamedTuple

from ..classad import ClassAdSyntaxError, parse
from ..classad.evidence import truth
from ..decision.draft import NOT_FOUND, Draft, Refusal, answer, check_super_user
from ..events import DrainBegan, DrainFinal, DrainTransitioned
from ..ports import stimuli as s
from ..ports.messages import BeginDrain, EndDrain
from ..state.records import Machine, MachineDrain, Slot
from ..state.state import ExecutionPoint
from ..state_machines.drain import COMPLETIONS, OPEN, SCHEDULES, Schedule
from .public_ad import why_not_canceled, why_not_drained
from .slot_policy_evaluation import policy_of
from .startd_settings import setting
from .transitions import apply_policy, mark
from .vacating import kill, retire


def machine_of(draft: Draft[ExecutionPoint], name: str) -> Machine:
    """Return a machine by its name, or by the name of one of its slots."""
    slot = draft.state.slots.get(name)
    machine = draft.state.machines.get(slot.machine if slot else name)
    if machine is None:
        way_out = "`poolbook status` lists the slots, each with its machine behind @"
        raise Refusal(f"there is no machine {name}; {way_out}", NOT_FOUND)
    return machine


def owned_machine(draft: Draft[ExecutionPoint], command: s.Drain | s.CancelDrain | s.ShutDown, verb: str) -> Machine:
    """Return the machine that a command names, if its user may do this.

    :raises Refusal: there is no such machine, or only the pool's owner may do this
    """
    machine = machine_of(draft, command.machine)
    check_super_user(draft, command, f"{verb} {machine.name}")
    return machine


def slots_of(draft: Draft[ExecutionPoint], machine: Machine) -> list[Slot]:
    return list(machine.slots.values())


def drain(draft: Draft[ExecutionPoint], command: s.Drain) -> None:
    """Begin a drain.

    :raises Refusal: the user may not drain it, it drains already, the check expression is not true for a slot, or a
        word is unknown
    """
    machine = owned_machine(draft, command, "drain")
    if command.schedule not in SCHEDULES:
        raise Refusal(f"{command.schedule!r} is no schedule of a drain; there are {', '.join(SCHEDULES)}")
    if command.completion not in COMPLETIONS:
        raise Refusal(
            f"{command.completion!r} is nothing that can follow a drain; there are {', '.join(COMPLETIONS[1:])}"
        )
    if refused := why_not_drained(machine):
        raise Refusal(refused)
    _check(draft, machine, command.check)
    start = start_while_draining(draft, machine, command.schedule, command.start)
    terms = DrainTerms(command.schedule, command.reason, command.completion, start)
    number = begin_drain(draft, machine, terms, "drain_command")
    answer(draft, command, "drain", machine.name, {"machine": machine.name, "request": str(number)})


class DrainTerms(NamedTuple):
    """What is asked of a drain (``DrainBegan`` explains the fields)."""

    schedule: str
    reason: str
    completion: str
    start: str


def begin_drain(draft: Draft[ExecutionPoint], machine: Machine, terms: DrainTerms, cause: str) -> int:
    """Begin a drain of a machine that has none; return its number."""
    draft.fire("drain", OPEN, "start", terms.schedule)
    number = machine.drains + 1
    draft.emit(DrainBegan(*draft.why(cause), machine.name, number, *terms))
    for slot in slots_of(draft, machine):
        if draft.state.slots.get(slot.name) is slot:
            _begin(draft, slot, SCHEDULES[terms.schedule], cause)
    reevaluate_machine(draft, machine)
    return number


def drain_to_defragment(draft: Draft[ExecutionPoint], message: BeginDrain) -> None:
    machine = draft.state.machines[message.machine]
    start = start_while_draining(draft, machine, message.schedule, message.start)
    begin_drain(draft, machine, DrainTerms(message.schedule, message.reason, message.completion, start), "defrag")


def cancel_to_defragment(draft: Draft[ExecutionPoint], message: EndDrain) -> None:
    end_drain(draft, draft.state.machines[message.machine], "defrag_cancel")


def start_while_draining(draft: Draft[ExecutionPoint], machine: Machine, schedule: str, asked: str) -> str:
    """Return what START is while the machine drains. Only a graceful drain has one of its own, or the default: the real
    startd, too, reads neither for the others.

    :param asked: the one that was asked for; empty: none
    :raises Refusal: it cannot be read
    """
    _parsed("start", asked)
    if SCHEDULES[schedule].retires:
        default = setting(draft.state, machine, "DEFAULT_DRAINING_START_EXPR")
        if not asked:
            _parsed("start", default)
        return asked or default
    return machine.drain_start if draft.state.dialect.quick_drain_keeps_last_start else ""


def _begin(draft: Draft[ExecutionPoint], slot: Slot, schedule: Schedule, cause: str) -> None:
    if not schedule.retires and slot.activation is not None:
        mark(draft, slot, "drained")
    if schedule.vacates:
        retire(draft, slot, cause, reversible=schedule.retires)
    else:
        kill(draft, slot, cause)


def _parsed(what: str, text: str) -> None:
    if text:
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"the {what} expression of the drain cannot be read: {error}") from None


def _check(draft: Draft[ExecutionPoint], machine: Machine, text: str) -> None:
    if not text:
        return
    _parsed("check", text)
    for slot in slots_of(draft, machine):
        found = truth(parse(text), policy_of(draft, slot).whole_ads()[0], None, draft.context)
        if found is not True:
            value = "false" if found is False else "neither true nor false"
            raise Refusal(f"Draining check expression is {value} on {slot.name}: {text}")


def cancel_drain(draft: Draft[ExecutionPoint], command: s.CancelDrain) -> None:
    """End a drain, if there is one.

    :raises Refusal: the user may not cancel it, the machine has no drain of that number, or the drain ends by itself
        when complete, and is
    """
    machine = owned_machine(draft, command, "cancel the drain of")
    if command.drain and (machine.drain is None or machine.drain.number != command.drain):
        raise Refusal(f"No matching draining request id {command.drain} on {machine.name}")
    if refused := why_not_canceled(machine):
        raise Refusal(refused)
    end_drain(draft, machine, "drain_command")
    answer(draft, command, "cancel drain", machine.name, {"machine": machine.name})


def end_drain(draft: Draft[ExecutionPoint], machine: Machine, cause: str) -> None:
    """Cancel the machine's drain, if it has one."""
    if machine.drain is not None:
        _move(draft, machine, "cancel", cause)
        reevaluate_machine(draft, machine)


def _move(draft: Draft[ExecutionPoint], machine: Machine, row: str, cause: str) -> None:
    drain = machine.drain
    assert drain is not None
    target = draft.fire("drain", drain.state, row)
    draft.emit(DrainTransitioned(*draft.why(cause), machine.name, drain.number, row, drain.state, target))


def reevaluate_machine(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Ask the policy of all slots of the machine, and advance its drain."""
    for slot in slots_of(draft, machine):
        if draft.state.slots.get(slot.name) is slot:
            apply_policy(draft, slot)
    advance(draft, machine)


def advance(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Advance the machine's drain: the last of its first jobs is gone, or all its slots are drained."""
    drain = machine.drain
    if drain is None:
        return
    finalize(draft, machine)
    if _all_are_drained(machine, drain):
        _move(draft, machine, "complete", "drained")
        if drain.completion in ("resume", "reconfig"):
            _move(draft, machine, "resume", "drained")
            reevaluate_machine(draft, machine)
        elif drain.completion:
            _move(draft, machine, "stop", "drained")


def finalize(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Retire the claims that came during the drain, once the last of those that it found is gone."""
    drain = machine.drain
    if drain is not None and _first_are_gone(machine, drain):
        draft.emit(DrainFinal(*draft.why("drained"), machine.name, drain.number))
        for slot in slots_of(draft, machine):
            if draft.state.slots.get(slot.name) is slot:
                retire(draft, slot, "draining", reversible=True)
            # A dynamic slot may be gone by now; one without a claim waits for its machine's next round.
            if draft.state.slots.get(slot.name) is slot and slot.claim is not None:
                apply_policy(draft, slot)


def can_advance(machine: Machine) -> bool:
    """Tell whether ``advance`` would change anything."""
    drain = machine.drain
    return drain is not None and (_first_are_gone(machine, drain) or _all_are_drained(machine, drain))


def _first_are_gone(machine: Machine, drain: MachineDrain) -> bool:
    return not drain.final and bool(drain.start) and not any(map(_blocks, machine.slots.values()))


def _all_are_drained(machine: Machine, drain: MachineDrain) -> bool:
    return drain.state in SCHEDULES and all(slot.state_activity == "Drained/Idle" for slot in machine.slots.values())


def accepts_claims(machine: Machine) -> bool:
    """Tell whether the machine accepts claims: not while it is shut down, nor while it drains, unless the drain is
    graceful, has a START of its own, and claims from before it are still there."""
    drain = machine.drain
    if drain is None or machine.shutdown:
        return not machine.shutdown
    return bool(drain.start) and not drain.final and SCHEDULES[drain.schedule].retires


def _blocks(slot: Slot) -> bool:
    """Tell whether the slot has a claim that is older than the drain."""
    return slot.kind != "partitionable" and slot.claim is not None and "late" not in slot.claim.marks
