"""The rules about machines: their configuration, how they are drained, and their shutdown."""

from __future__ import annotations

from ...domain import events as e
from ...domain.startd.settings import SETTINGS
from ...domain.state_machines import drain_machine, state
from ...domain.state_machines.drain import OPEN
from .judged_pool import Books, Drain, Host
from .rules import COMPLETIONS, ENDS, SHUTDOWNS

PER_RESOURCE = "MODIFY_REQUEST_EXPR_"
"""Of these settings there is one for each resource that a machine has."""
BENCHMARKING = "Unclaimed/Benchmarking"


def _known(books: Books, name: str) -> Host | None:
    machine = books.machines.get(name)
    if machine is None:
        books.blame(name, "reference", f"machine {name} is not in the pool")
    return machine


def joined(books: Books, event: e.MachineJoined) -> None:
    if event.machine in books.machines:
        books.blame(event.machine, "reference", f"machine {event.machine} is in the pool already")
        return
    books.machines[event.machine] = Host(event)
    _settings(books, event)


def left(books: Books, event: e.MachineLeft) -> None:
    machine = _known(books, event.machine)
    if machine is None:
        return
    del books.machines[event.machine]
    if event.cause == "shutdown" and not machine.shutdown:
        books.blame(event.machine, "shutdown", "it leaves because it is shut down, but nobody told it to end")
    if machine.slots:
        books.blame(event.machine, "reference", f"machine {event.machine} has {len(machine.slots)} slots left")


def configured(books: Books, event: e.MachineConfigured) -> None:
    machine = _known(books, event.machine)
    if machine is None:
        return
    _settings(books, event)
    for name, text in event.settings.items():
        if machine.settings.get(name, "") == text:
            has = f"it is {text}" if text else "it has its default"
            books.blame(event.machine, "value", f"{name} is said to be new, but {has} already")
        machine.settings[name] = text


def _settings(books: Books, event: e.MachineJoined | e.MachineConfigured) -> None:
    for name in event.settings:
        if name not in SETTINGS and not name.startswith(PER_RESOURCE):
            books.blame(event.machine, "value", f"{name} is no setting of an execution point")


def benchmarks_ran(books: Books, event: e.BenchmarksRan) -> None:
    machine = _known(books, event.machine)
    slot = books.slots.get(event.slot)
    if slot is None or slot.machine != event.machine:
        books.blame(event.machine, "reference", f"{event.slot} is no slot of {event.machine}")
    elif machine is not None and not slot.benchmarks:
        books.blame_slot(slot.name, "source", f"benchmarks run in {BENCHMARKING}, and it has begun none")
    if slot is not None:
        slot.benchmarks = False
    for name in ("mips", "kflops"):
        if getattr(event, name) < 0:
            books.blame(event.machine, "value", f"{name} is {getattr(event, name)}, below 0")


# Drains


def drain_began(books: Books, event: e.DrainBegan) -> None:
    machine = _known(books, event.machine)
    if machine is None:
        return
    if machine.drain is not None:
        books.blame(event.machine, "drain", f"it drains already: drain {machine.drain.number} is not over")
    if event.drain != machine.drains + 1:
        books.blame(event.machine, "drain", f"drain {event.drain} follows on {machine.drains}")
    if event.schedule not in drain_machine().lookup.get((OPEN, "start"), ()):
        books.blame(event.machine, "value", f"{event.schedule!r} is no schedule of a drain")
    if event.completion not in COMPLETIONS:
        words = f"{event.completion!r} is not what may follow on a drain: {', '.join(filter(None, COMPLETIONS))}"
        books.blame(event.machine, "value", words)
    claims = ((name, books.slots[name].claim) for name in machine.slots)
    machine.drain = Drain(event, {name: claim.id for name, claim in claims if claim and "late" not in claim.marks})
    machine.drains = event.drain
    books.drained[machine.name] = None


def _drain(books: Books, machine: Host, number: int) -> Drain | None:
    """The drain of this number, which is on."""
    drain = machine.drain
    if drain is None or drain.number != number:
        has = "it does not drain" if drain is None else f"its drain is {drain.number}"
        books.blame(machine.name, "drain", f"something is said of drain {number}, but {has}")
        return None
    books.drained[machine.name] = None
    return drain


def drain_moved(books: Books, event: e.DrainTransitioned) -> None:
    machine = _known(books, event.machine)
    drain = None if machine is None else _drain(books, machine, event.drain)
    if machine is None or drain is None:
        return
    if event.source != drain.state:
        words = f"{event.row} of its drain begins in {event.source}, but it is {drain.state}"
        books.blame(machine.name, "source", words)
    if event.target not in drain_machine().lookup.get((event.source, event.row), ()):
        words = f"row {event.row} of a drain does not lead from {event.source} to {event.target}"
        books.blame(machine.name, "row", words)
    if drain.completion not in ENDS.get(event.row, COMPLETIONS):
        asked = f"what was asked for is {drain.completion}" if drain.completion else "nothing was asked to follow"
        books.blame(machine.name, "drain", f"its drain ends by {event.row}, but {asked}")
    if event.row == "complete":
        for name in machine.slots:
            if state(books.slots[name].pair) != "Drained":
                words = f"the drain of {machine.name} is complete, but it is {books.slots[name].pair}"
                books.blame_slot(name, "drain", words)
    drain.state = event.target
    if event.target == OPEN:
        machine.drain = None
        books.touched.update(machine.slots)


def drain_final(books: Books, event: e.DrainFinal) -> None:
    machine = _known(books, event.machine)
    drain = None if machine is None else _drain(books, machine, event.drain)
    if machine is None or drain is None:
        return
    if drain.final:
        books.blame(machine.name, "drain", "that the jobs of before its drain are gone, was said already")
    drain.final = True
    for name, claim in drain.had.items():
        slot = books.slots.get(name)
        if slot is not None and slot.claim is not None and slot.claim.id == claim:
            words = f"the jobs of before the drain are said to be gone, but {slot.claim.submitter} has it since before"
            books.blame_slot(name, "drain", words)


def drain_charged(books: Books, event: e.DrainBadputAdded) -> None:
    machine = _known(books, event.machine)
    if machine is None:
        return
    slot = books.slots.get(event.slot)
    if slot is None or slot.machine != machine.name:
        books.blame(machine.name, "reference", f"{event.slot} is no slot of {machine.name}")
    elif slot.stay is None or slot.claim is None or "drained" not in slot.claim.marks:
        books.blame_slot(slot.name, "drain", "a drain is charged for a job that did not end because of one")
    elif slot.stay.charged:
        books.blame_slot(slot.name, "drain", "a drain is charged for its job a second time")
    else:
        slot.stay.charged = True
        badput = round(slot.stay.ran(event.at) // 1_000_000 * slot.cores)
        if badput != event.badput:
            words = f"its job ran for {badput} core-seconds, but the drain is charged {event.badput}"
            books.blame_slot(slot.name, "drain", words)


def idle_in_drained(books: Books, event: e.SlotTransitioned, name: str) -> None:
    """A slot becomes Drained/Idle when every slot of its machine is in Drained (33)."""
    machine = books.machines.get(name)
    for each in () if machine is None else machine.slots:
        slot = books.slots[each]
        if each != event.slot and state(slot.pair) != "Drained":
            books.blame_slot(event.slot, "drain", f"it is {event.target}, but {each} is {slot.pair}")
            return


def settle(books: Books, name: str) -> None:
    """In a drain that is complete every slot is Drained/Idle."""
    machine = books.machines.get(name)
    if machine is None or machine.drain is None or machine.drain.state not in ("Complete", "Stopped"):
        return
    for each in machine.slots:
        pair = books.slots[each].pair
        if pair != "Drained/Idle":
            books.blame_slot(each, "drain", f"the drain of {name} is {machine.drain.state}, and it is {pair}")


# Its end


def shutdown_began(books: Books, event: e.ShutdownBegan) -> None:
    machine = _known(books, event.machine)
    if machine is None:
        return
    if event.how not in SHUTDOWNS:
        books.blame(machine.name, "value", f"{event.how!r} is no way to shut down: {', '.join(SHUTDOWNS)}")
    elif machine.shutdown in SHUTDOWNS and SHUTDOWNS.index(event.how) <= SHUTDOWNS.index(machine.shutdown):
        books.blame(machine.name, "shutdown", f"it is to end {event.how}, but is ending {machine.shutdown} already")
    machine.shutdown = event.how
    books.asked = event.cause
