"""Drain machines and cancel drains, for users (the manual's page condor_drain, "Drained State") and for defragmentation
(``domain/defrag/``).

The schedule sets how long running jobs may continue (``state_machines/drain``). Slots without a claim move to Drained
immediately; claimed slots follow when their claims have ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..classad import ClassAdSyntaxError, parse
from ..classad.value_evidence import truth_of
from ..decision.draft import NOT_FOUND, Draft, Refusal, answer, check_super_user
from ..events import DrainBegan, DrainFinal, DrainTransitioned
from ..ports import stimuli as s
from ..ports.messages import BeginDrain, EndDrain
from ..state.records import Machine, MachineDrain, Slot
from ..state.state import ExecutionPoint
from ..state_machines.drain import COMPLETIONS, INITIAL_DRAIN_STATE, SCHEDULES, Schedule
from .public_ad import why_not_canceled, why_not_drained
from .slot_policy_evaluation import policy_of
from .startd_settings import setting
from .transitions import apply_policy, flag_claim
from .vacating import kill_claim, retire_claim

SLOTS_CHANGED = "slots_changed"
"""The cause of the drain of a machine whose configuration changes its slots."""


def find_machine(draft: Draft[ExecutionPoint], name: str) -> Machine:
    """Return the machine with this name, or the machine that has a slot of this name."""
    slot = draft.state.slots.get(name)
    machine = draft.state.machines.get(slot.machine if slot else name)
    if machine is None:
        hint = "`poolbook status` lists the slots, each with its machine after the @"
        raise Refusal(f"there is no machine {name}; {hint}", NOT_FOUND)
    return machine


def authorized_machine(
    draft: Draft[ExecutionPoint], command: s.Drain | s.CancelDrain | s.ShutDown, verb: str
) -> Machine:
    """Return the machine that a command names.

    :raises Refusal: if the machine does not exist, or only the pool's owner may do this
    """
    machine = find_machine(draft, command.machine)
    check_super_user(draft, command, f"{verb} {machine.name}")
    return machine


def remaining_slots(draft: Draft[ExecutionPoint], machine: Machine) -> Iterator[Slot]:
    """Yield the machine's slots. Skip dynamic slots that the caller's changes to earlier slots have destroyed."""
    for slot in list(machine.slots.values()):
        if draft.state.slots.get(slot.name) is slot:
            yield slot


def drain_machine(draft: Draft[ExecutionPoint], command: s.Drain) -> None:
    """Start a drain.

    :raises Refusal: if the user may not drain the machine, it is already draining, the check expression is not true for
        some slot, or the schedule or completion is unknown
    """
    machine = authorized_machine(draft, command, "drain")
    if command.schedule not in SCHEDULES:
        raise Refusal(f"{command.schedule!r} is not a valid drain schedule; use {', '.join(SCHEDULES)}")
    if command.completion not in COMPLETIONS:
        raise Refusal(f"{command.completion!r} is not a valid completion action; use {', '.join(COMPLETIONS[1:])}")
    if objection := why_not_drained(machine):
        raise Refusal(objection)
    _check_slots(draft, machine, command.check)
    start_while_draining(draft, machine, command.schedule, command.start)
    terms = command.schedule, command.reason, command.completion, command.start
    number = machine.drains + 1
    draft.send(BeginDrain(machine.name, *terms, cause="drain_command"))
    answer(draft, command, "drain", machine.name, {"machine": machine.name, "request": str(number)})


def begin_drain(draft: Draft[ExecutionPoint], message: BeginDrain) -> None:
    """Start a drain of a machine that is not draining."""
    machine, cause = draft.state.machines[message.machine], message.cause
    start = start_while_draining(draft, machine, message.schedule, message.start)
    draft.fire("drain", INITIAL_DRAIN_STATE, "start", message.schedule)
    terms = message.schedule, message.reason, message.completion, start
    draft.emit(DrainBegan(*draft.header(cause), machine.name, machine.drains + 1, *terms))
    for slot in remaining_slots(draft, machine):
        _begin_on_slot(draft, slot, SCHEDULES[message.schedule], cause)
    reevaluate_machine(draft, machine)


def start_while_draining(draft: Draft[ExecutionPoint], machine: Machine, schedule: str, requested: str) -> str:
    """Return the START expression that applies during the drain. As in HTCondor, only a graceful drain uses the
    requested or the default expression.

    :param requested: the requested expression, if any
    :raises Refusal: if the expression is invalid
    """
    _check_syntax("start", requested)
    if SCHEDULES[schedule].retires:
        default = setting(draft.state, machine, "DEFAULT_DRAINING_START_EXPR")
        if not requested:
            _check_syntax("start", default)
        return requested or default
    return machine.drain_start if draft.state.dialect.quick_drain_keeps_last_start else ""


def _begin_on_slot(draft: Draft[ExecutionPoint], slot: Slot, schedule: Schedule, cause: str) -> None:
    if not schedule.retires and slot.activation is not None:
        flag_claim(draft, slot, "drained")
    if schedule.vacates:
        retire_claim(draft, slot, cause, reversible=schedule.retires)
    else:
        kill_claim(draft, slot, cause)


def _check_syntax(option: str, text: str) -> None:
    if text:
        try:
            parse(text)
        except ClassAdSyntaxError as error:
            raise Refusal(f"the drain's {option} expression is invalid: {error}") from None


def _check_slots(draft: Draft[ExecutionPoint], machine: Machine, text: str) -> None:
    if not text:
        return
    _check_syntax("check", text)
    for slot in machine.slots.values():
        is_true = truth_of(parse(text), policy_of(draft, slot).complete_ads()[0], None, draft.context)
        if is_true is not True:
            value = "false" if is_true is False else "neither true nor false"
            raise Refusal(f"Draining check expression is {value} on {slot.name}: {text}")


def cancel_drain(draft: Draft[ExecutionPoint], command: s.CancelDrain) -> None:
    """Cancel the machine's drain, if it has one.

    :raises Refusal: if the user may not cancel it, the machine has no drain with that number, or the completed drain
        has stopped the machine
    """
    machine = authorized_machine(draft, command, "cancel the drain of")
    if command.drain and (machine.drain is None or machine.drain.number != command.drain):
        raise Refusal(f"No matching draining request id {command.drain} on {machine.name}")
    if objection := why_not_canceled(machine):
        raise Refusal(objection)
    draft.send(EndDrain(machine.name, "drain_command"))
    answer(draft, command, "cancel drain", machine.name, {"machine": machine.name})


def end_drain(draft: Draft[ExecutionPoint], message: EndDrain) -> None:
    """Cancel the machine's drain, if it has one."""
    machine = draft.state.machines[message.machine]
    if machine.drain is not None:
        _take_drain_row(draft, machine, "cancel", message.cause)
        reevaluate_machine(draft, machine)


def _take_drain_row(draft: Draft[ExecutionPoint], machine: Machine, row: str, cause: str) -> None:
    drain = machine.drain
    assert drain is not None
    target = draft.fire("drain", drain.state, row)
    draft.emit(DrainTransitioned(*draft.header(cause), machine.name, drain.number, row, drain.state, target))


def reevaluate_machine(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Evaluate the policy of all slots of the machine, and advance its drain."""
    for slot in remaining_slots(draft, machine):
        apply_policy(draft, slot)
    advance_drain(draft, machine)


def advance_drain(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Finalize the machine's drain when all older claims have ended; complete it when all slots are drained."""
    drain = machine.drain
    if drain is None:
        return
    finalize_drain(draft, machine)
    if _can_be_rebuilt(machine, drain):  # a slot else notes at its next update that all are drained
        for slot in remaining_slots(draft, machine):
            apply_policy(draft, slot)
    if _all_slots_are_drained(machine, drain):
        _take_drain_row(draft, machine, "complete", "drained")
        if drain.completion in ("resume", "reconfig"):
            _take_drain_row(draft, machine, "resume", "drained")
            reevaluate_machine(draft, machine)
        elif drain.completion:
            _take_drain_row(draft, machine, "stop", "drained")


def finalize_drain(draft: Draft[ExecutionPoint], machine: Machine) -> None:
    """Retire the claims that were made during the drain, after all older claims have ended."""
    drain = machine.drain
    if drain is not None and _old_claims_have_ended(machine, drain):
        draft.emit(DrainFinal(*draft.header("drained"), machine.name, drain.number))
        for slot in remaining_slots(draft, machine):
            retire_claim(draft, slot, "draining", reversible=True)
            # A dynamic slot may no longer exist; one without a claim waits for the next periodic evaluation.
            if draft.state.slots.get(slot.name) is slot and slot.claim is not None:
                apply_policy(draft, slot)


def can_advance_drain(machine: Machine) -> bool:
    """Return True if ``advance_drain`` would change anything."""
    drain = machine.drain
    return drain is not None and (
        _old_claims_have_ended(machine, drain)
        or _all_slots_are_drained(machine, drain)
        or _can_be_rebuilt(machine, drain)
    )


def _old_claims_have_ended(machine: Machine, drain: MachineDrain) -> bool:
    claims = [slot.claim for slot in machine.slots.values() if slot.claim and slot.kind != "partitionable"]
    return not drain.final and bool(drain.start) and all("late" in claim.flags for claim in claims)


def _all_slots_are_drained(machine: Machine, drain: MachineDrain) -> bool:
    return drain.state in SCHEDULES and all(slot.state_activity == "Drained/Idle" for slot in machine.slots.values())


def _can_be_rebuilt(machine: Machine, drain: MachineDrain) -> bool:
    is_over = drain.state in SCHEDULES and all(slot.state == "Drained" for slot in machine.slots.values())
    return is_over and drain.cause == SLOTS_CHANGED


def machine_accepts_claims(machine: Machine) -> bool:
    """Return True unless the machine is shutting down or draining. It also accepts claims during a graceful drain with
    its own START, as long as claims older than the drain remain."""
    drain = machine.drain
    if drain is None or machine.shutdown:
        return not machine.shutdown
    return bool(drain.start) and not drain.final and SCHEDULES[drain.schedule].retires
