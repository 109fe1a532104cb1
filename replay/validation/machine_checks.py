"""Check machines: their configuration, drains, and shutdown."""

from __future__ import annotations

from ...domain import events as e
from ...domain.startd.startd_settings import SETTINGS
from ...domain.state.state import Machine, MachineDrain
from ...domain.state_machines import drain_machine
from ...domain.state_machines.drain import COMPLETIONS, OPEN
from . import defrag_checks
from .judged_pool import JudgedPool, rule, rule_of
from .transition_rules import ENDS, SHUTDOWNS

PER_RESOURCE = "MODIFY_REQUEST_EXPR_"  #: the prefixes of settings of which there is one for each resource
BENCHMARKING = "Unclaimed/Benchmarking"


def _known(pool: JudgedPool, event: e.MachineEvent) -> Machine | None:
    machine = pool.state.machines.get(event.machine)
    if machine is None:
        pool.report(event.machine, "reference", f"machine {event.machine} is not in the pool")
    return machine


@rule(e.MachineJoined)
def joined(pool: JudgedPool, event: e.MachineJoined) -> None:
    if event.machine in pool.state.machines:
        pool.report(event.machine, "reference", f"machine {event.machine} is in the pool already")
        pool.folds = None
        return
    _settings(pool, event)


@rule_of(e.MachineLeft, _known)
def left(pool: JudgedPool, machine: Machine, event: e.MachineLeft) -> None:
    if event.cause == "shutdown" and not machine.shutdown:
        pool.report(event.machine, "shutdown", "it leaves because it is shut down, but nobody told it to end")
    if machine.backfill is not None:
        pool.report(event.machine, "backfill", f"it leaves, and its backfill client {machine.backfill.key} runs")
    if machine.slots:
        pool.report(event.machine, "reference", f"machine {event.machine} has {len(machine.slots)} slots left")


@rule_of(e.MachineConfigured, _known)
def configured(pool: JudgedPool, machine: Machine, event: e.MachineConfigured) -> None:
    _settings(pool, event)
    for name, text in event.settings.items():
        if machine.settings.get(name, "") == text:
            has = f"it is {text}" if text else "it has its default"
            pool.report(event.machine, "value", f"{name} is said to be new, but {has} already")


def _settings(pool: JudgedPool, event: e.MachineJoined | e.MachineConfigured) -> None:
    for name in event.settings:
        if name not in SETTINGS and not name.startswith(PER_RESOURCE):
            pool.report(event.machine, "value", f"{name} is no setting of an execution point")


@rule(e.BenchmarksRan)
def benchmarks_ran(pool: JudgedPool, event: e.BenchmarksRan) -> None:
    machine = _known(pool, event)
    slot = pool.state.slots.get(event.slot)
    if slot is None or slot.machine != event.machine:
        pool.report(event.machine, "reference", f"{event.slot} is no slot of {event.machine}")
    elif machine is not None and event.slot not in pool.benchmarking:
        pool.report_slot(slot.name, "source", f"benchmarks run in {BENCHMARKING}, and it has begun none")
    pool.benchmarking.discard(event.slot)
    for name in ("mips", "kflops"):
        if getattr(event, name) < 0:
            pool.report(event.machine, "value", f"{name} is {getattr(event, name)}, below 0")


# Drains


@rule_of(e.DrainBegan, _known)
def drain_began(pool: JudgedPool, machine: Machine, event: e.DrainBegan) -> None:
    if machine.drain is not None:
        pool.report(event.machine, "drain", f"it drains already: drain {machine.drain.number} is not over")
    if event.drain != machine.drains + 1:
        pool.report(event.machine, "drain", f"drain {event.drain} follows on {machine.drains}")
    if event.schedule not in drain_machine().lookup.get((OPEN, "start"), ()):
        pool.report(event.machine, "value", f"{event.schedule!r} is no schedule of a drain")
    if event.completion not in COMPLETIONS:
        words = f"{event.completion!r} is not what may follow on a drain: {', '.join(filter(None, COMPLETIONS))}"
        pool.report(event.machine, "value", words)
    defrag_checks.began(pool, event)
    claims = ((slot.name, slot.claim) for slot in machine.slots.values())
    pool.drained_claims[machine.name] = {
        name: claim.id for name, claim in claims if claim is not None and "late" not in claim.marks
    }
    pool.drained[machine.name] = None


def _drain(pool: JudgedPool, machine: Machine, number: int) -> MachineDrain | None:
    """Return the machine's drain, if it is the one of this number; else fold nothing."""
    drain = machine.drain
    if drain is None or drain.number != number:
        pool.folds = None
        has = "it does not drain" if drain is None else f"its drain is {drain.number}"
        pool.report(machine.name, "drain", f"something is said of drain {number}, but {has}")
        return None
    pool.drained[machine.name] = None
    return drain


@rule_of(e.DrainTransitioned, _known)
def drain_moved(pool: JudgedPool, machine: Machine, event: e.DrainTransitioned) -> None:
    drain = _drain(pool, machine, event.drain)
    if drain is None:
        return
    if event.source != drain.state:
        pool.report(machine.name, "source", f"{event.row} begins in {event.source}, but its drain is {drain.state}")
    if event.target not in drain_machine().lookup.get((event.source, event.row), ()):
        words = f"row {event.row} of a drain does not lead from {event.source} to {event.target}"
        pool.report(machine.name, "row", words)
    if drain.completion not in ENDS.get(event.row, COMPLETIONS):
        asked = f"{drain.completion} was asked for" if drain.completion else "nothing was asked to follow"
        pool.report(machine.name, "drain", f"its drain ends by {event.row}, but {asked}")
    defrag_checks.moved(pool, event)
    for slot in machine.slots.values() if event.row == "complete" else ():
        if slot.state != "Drained":
            words = f"the drain of {machine.name} is complete, but it is {slot.state_activity}"
            pool.report_slot(slot.name, "drain", words)
    if event.target == OPEN:
        pool.touched.update(dict.fromkeys(machine.slots))


@rule_of(e.DrainFinal, _known)
def drain_final(pool: JudgedPool, machine: Machine, event: e.DrainFinal) -> None:
    drain = _drain(pool, machine, event.drain)
    if drain is None:
        return
    if drain.final:
        pool.report(machine.name, "drain", "DrainFinal was already recorded for this drain")
    for name, claim in pool.drained_claims.get(machine.name, {}).items():
        slot = pool.state.slots.get(name)
        if slot is not None and slot.claim is not None and slot.claim.id == claim:
            words = f"the jobs of before the drain are said to be gone, but {slot.claim.submitter} has it since before"
            pool.report_slot(name, "drain", words)


@rule_of(e.DrainBadputAdded, _known)
def drain_badput(pool: JudgedPool, machine: Machine, event: e.DrainBadputAdded) -> None:
    slot = pool.state.slots.get(event.slot)
    if slot is None or slot.machine != machine.name:
        pool.report(machine.name, "reference", f"{event.slot} is no slot of {machine.name}")
        return
    activation = slot.activation
    if activation is None or slot.claim is None or "drained" not in slot.claim.marks:
        pool.report_slot(slot.name, "drain", "a drain is charged for a job that did not end because of one")
    elif activation.key in pool.charged:
        pool.report_slot(slot.name, "drain", "a drain is charged for its job a second time")
    else:
        pool.charged.add(activation.key)
        ran = activation.ran(event.at)
        ended = event.at - activation.halted if activation.halted else 0  # older logs charge the time to end, too
        badput, older = (round(time // 1_000_000 * slot.cores) for time in (ran, ran + ended))
        if event.badput not in (badput, older):
            words = f"its job ran for {badput} core-seconds, but the drain is charged {event.badput}"
            pool.report_slot(slot.name, "drain", words)


def idle_in_drained(pool: JudgedPool, event: e.SlotTransitioned, machine: Machine | None) -> None:
    """Check that a slot becomes Drained/Idle only when every slot of its machine is in Drained (33)."""
    for slot in () if machine is None else machine.slots.values():
        if slot.name != event.slot and slot.state != "Drained":
            pool.report_slot(event.slot, "drain", f"it is {event.target}, but {slot.name} is {slot.state_activity}")
            return


def settle(pool: JudgedPool, name: str) -> None:
    """Check that every slot is Drained/Idle when a drain is complete."""
    machine = pool.state.machines.get(name)
    if machine is None or machine.drain is None or machine.drain.state not in ("Complete", "Stopped"):
        return
    for slot in machine.slots.values():
        if slot.state_activity != "Drained/Idle":
            words = f"the drain of {name} is {machine.drain.state}, and it is {slot.state_activity}"
            pool.report_slot(slot.name, "drain", words)


@rule_of(e.ShutdownBegan, _known)
def shutdown_began(pool: JudgedPool, machine: Machine, event: e.ShutdownBegan) -> None:
    if event.how not in SHUTDOWNS:
        pool.report(machine.name, "value", f"{event.how!r} is no way to shut down: {', '.join(SHUTDOWNS)}")
    elif machine.shutdown in SHUTDOWNS and SHUTDOWNS.index(event.how) <= SHUTDOWNS.index(machine.shutdown):
        pool.report(machine.name, "shutdown", f"it is to end {event.how}, but is ending {machine.shutdown} already")
    pool.asked = event.cause
