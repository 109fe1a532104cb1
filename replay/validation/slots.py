"""The rules about the pool and its slots: a function for each kind of event, and what must hold of a slot when all is
done that follows from a stimulus."""

from __future__ import annotations

from ...domain import events as e
from ...domain.startd.slot_resources import STANDARD, resources
from ...domain.startd.slot_types import CPUS
from ...domain.state.evolve import BIRTH, SUSPENDED
from ...domain.state.state import RUNS
from ...domain.state_machines import DIALECTS, MANUAL, job_machine, slot_machine
from . import accounting
from .claims import drop_match, drop_waiting, lease_over, retirement_over
from .evidence import decided
from .jobs import waits_for_a_slot
from .judged_pool import NAMES, Books, Slot, Stop, amount, job_of
from .judged_pool import known_slot as known
from .machines import BENCHMARKING, idle_in_drained
from .rules import NEEDS, POLICY

_DRAINED = ("Drained/Idle", "Drained/Retiring")
KINDS = ("static", "partitionable", "dynamic")


def founded(books: Books, event: e.PoolFounded) -> None:
    if books.founded:
        books.blame("pool", "founded", "the pool was founded before")
    books.founded = True
    accounting.founded(books, event)
    books.vacate = 1_000_000 * (amount(event.settings.get("MachineMaxVacateTime", "")) or 0)
    if event.dialect not in DIALECTS:
        books.blame("pool", "reference", f"{event.dialect} is no dialect: the rest is judged as {MANUAL.name}")
        return
    books.dialect = DIALECTS[event.dialect]
    books.slot_table, books.job_table = slot_machine(event.dialect), job_machine(event.dialect)


def writer(books: Books, event: e.WriterBegan) -> None:
    if event.epoch != books.epoch + 1:
        books.blame("pool", "epoch", f"epoch {event.epoch} follows on {books.epoch}")
    books.epoch = event.epoch


def answered(books: Books, event: e.RequestAnswered) -> None:
    if books.answered:
        books.blame("requests", "answer", f"{event.stimulus} was answered already")
    books.answered = True


# Slots


def born(books: Books, event: e.SlotCreated) -> None:
    name = event.slot
    if name in books.slots:
        books.blame_slot(name, "reference", f"slot {name} exists already")
        return
    machine = books.machines.get(event.machine)
    if machine is None:
        books.blame_slot(name, "reference", f"its machine {event.machine} is not in the pool")
    else:
        machine.slots[name] = None
        if machine.drain is not None:
            books.drained[machine.name] = None
    slot = books.slots[name] = Slot(event, BIRTH)
    known(books, name)
    if event.kind not in KINDS:
        books.blame_slot(name, "value", f"{event.kind} is no kind of slot")
    for resource in resources(event.ad):
        if resource in event.ad:
            _have(books, slot, resource, event.ad[resource])
    slot.whole = dict(slot.have)
    slot.policy = _policy(event.ad)
    slot.weight = None if "SlotWeight" in event.ad else _thousandths(event.ad.get("Cpus", ""))
    parent = books.slots.get(event.parent)
    if event.kind != "dynamic":
        if event.parent:
            books.blame_slot(name, "reference", f"a {event.kind} slot is carved from none, and not from {event.parent}")
    elif parent is None or parent.kind != "partitionable" or parent.machine != event.machine:
        books.blame_slot(name, "reference", f"{event.parent or 'nothing'} is no partitionable slot of its machine")
    else:
        _carve(books, parent, slot.have, 1)


def _policy(ad: e.Ad) -> dict[str, str]:
    """What of an ad is an expression by which transitions are judged."""
    return {name.lower(): text for name, text in ad.items() if name.lower() in POLICY}


def _thousandths(cpus: str) -> int | None:
    """What a slot weighs whose weight is its Cpus."""
    return 1000 * int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 20 else None


def _have(books: Books, slot: Slot, resource: str, text: str) -> None:
    found = amount(text)
    if found is None or found < 0:
        books.blame_slot(slot.name, "value", f"{resource} = {text} is no amount")
    else:
        slot.have[resource] = found
        if resource == CPUS:
            slot.cores = float(text)


def _carve(books: Books, parent: Slot, amounts: dict[str, int], sign: int) -> None:
    for resource, many in amounts.items():
        parent.carved[resource] = parent.carved.get(resource, 0) + sign * many
    books.touched[parent.name] = None


def moved(books: Books, event: e.SlotTransitioned) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    if slot.pair != event.source:
        books.blame_slot(slot.name, "source", f"transition {event.row} begins in {event.source}, but it is {slot.pair}")
    if event.target not in books.slot_table.lookup.get((event.source, event.row), ()):
        books.blame_slot(slot.name, "row", _no_row(books, event.row, event.source, event.target))
    if event.reason:
        books.blame_slot(slot.name, "value", "it names the reason of another pool's record: a pool's own has its cause")
    decided(books, slot, event)
    at_end = _AT_ENDS.get(event.cause)
    if at_end is not None:
        at_end(books, slot, event)
    stay = slot.stay
    if stay is not None:
        stay.suspended += event.at - stay.since if stay.since else 0
        stay.since = event.at if event.target == SUSPENDED else 0
    if event.cause == "benchmarks_done" and slot.benchmarks:
        books.blame_slot(slot.name, "order", "its benchmarks are said to be done before there is a result")
    slot.benchmarks = slot.benchmarks or event.target == BENCHMARKING
    if event.target == "Drained/Idle":
        idle_in_drained(books, event, slot.machine)
    machine = books.machines.get(slot.machine)
    drain = None if machine is None else machine.drain
    stays = _DRAINED if drain is None or not drain.start else (*_DRAINED, "Claimed/Idle")  # START may accept a job
    if drain is not None and slot.pair in _DRAINED and event.target not in stays:
        books.blame_slot(slot.name, "drain", f"it leaves {slot.pair}, but drain {drain.number} is not over")
    slot.notified = event.target == "Matched/Idle" and slot.name not in books.matches and not books.cycle
    if "Drained" in event.target + slot.pair and slot.machine in books.machines:
        books.drained[slot.machine] = None
    slot.pair = event.target
    moves = books.moves
    moves[event.row] = moves.get(event.row, 0) + 1


_AT_ENDS = {"lease_over": lease_over, "retirement_over": retirement_over}
"""What must have ended for a transition with this cause."""


def _no_row(books: Books, row: str, source: str, target: str) -> str:
    table = books.slot_table
    right = [number for number, targets in table.allowed(source).items() if target in targets]
    hint = f"that is row {right[0]}" if right else "no row does"
    return f"row {row} of {table.name} does not lead from {source} to {target}: {hint}"


def changed(books: Books, event: e.SlotAdChanged) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    if "SlotWeight" in event.changes or "Cpus" in event.changes:
        slot.weight = None  # what it weighs now is for its expression to say
    slot.policy |= _policy(event.changes)
    before = dict(slot.have)
    for resource in dict.fromkeys((*STANDARD, *slot.have)):
        if resource in event.changes:
            _have(books, slot, resource, event.changes[resource])
    if event.cause in ("carved", "merged"):
        return
    for resource, many in slot.have.items():  # it was given more or less: that is no carving
        slot.whole[resource] = slot.whole.get(resource, 0) + many - before.get(resource, 0)


def died(books: Books, event: e.SlotDestroyed) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    for what, rule, held in (
        ("a claim", "claim", slot.claim is not None),
        ("a job", "activation", slot.stay is not None),
        ("a match", "match", slot.name in books.matches),
        ("dynamic slots", "resources", any(slot.carved.values())),
    ):
        if held:
            books.blame_slot(slot.name, rule, f"it goes while it has {what}")
    machine = books.machines.get(slot.machine)
    if machine is not None:
        machine.slots.pop(slot.name, None)
    parent = books.slots.get(slot.parent)
    if parent is not None and slot.kind == "dynamic":
        _carve(books, parent, slot.have, -1)
    drop_match(books, slot.name)
    if slot.waiting is not None:
        drop_waiting(books, slot.waiting)
    books.forget_slot(slot)


def busy_began(books: Books, event: e.CpuBusyChanged) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    if slot.busy == event.busy:
        books.blame_slot(slot.name, "source", f"CpuBusy is said to be {str(event.busy).lower()} from here on: it was")
    slot.busy = event.busy


# When all is done that follows from a stimulus


def settle_slot(books: Books, name: str) -> None:
    slot = books.slots.get(name)
    if slot is None:
        if name in books.matches:
            books.blame_slot(name, "match", f"job {_job(drop_match(books, name))} is matched with no slot of the pool")
        return
    needs = NEEDS.get(slot.pair)
    if needs is not None:
        _agrees(books, slot, "claim", "a claim", needs.claim, slot.claim is not None)
        if needs.job is not None:
            _agrees(books, slot, "activation", "a job", needs.job, slot.stay is not None)
        if needs.match is not None:
            _agrees(books, slot, "match", "a match", needs.match, name in books.matches or slot.notified)
    if slot.waiting is not None and slot.claim is None:
        books.blame_slot(name, "waiting", f"{slot.waiting.claim} waits for it, and nobody has it")
    job = job_of(slot.waiting.job) if slot.waiting is not None and not slot.waiting.holder else None
    if job is not None and not waits_for_a_slot(books, *job):
        books.blame_slot(name, "waiting", f"job {_job(job)} waits for it in name alone: it does not wait for a slot")
    stay = slot.stay
    if stay is not None and stay.own is not None:
        _settle_job(books, slot, *stay.own)
    elif stay is not None:
        _told(books, slot, stay.job, stay.stop)
    machine = books.machines.get(slot.machine)
    if machine is not None and machine.drain is None and slot.pair in _DRAINED:
        books.blame_slot(name, "drain", f"it is {slot.pair}, and its machine does not drain")
    if slot.kind == "partitionable":
        for resource, whole in slot.whole.items():
            have, carved = slot.have[resource], slot.carved.get(resource, 0)
            if have + carved != whole:
                words = f"of {whole} {resource} it has {have}, and its dynamic slots {carved}"
                books.blame_slot(name, "resources", words)
                slot.whole[resource] = have + carved


def _settle_job(books: Books, slot: Slot, cluster: int, proc: int) -> None:
    """The job that a slot runs is suspended when the slot is, and is told to end when it is not to run on."""
    found = books.clusters.get(cluster)
    run = None if found is None else found.runs.get(proc)
    if found is None or run is None:
        return
    status = NAMES.get(found.status[proc], "")
    stopped = status == "Suspended"
    if status in RUNS and (slot.pair, stopped) in (("Claimed/Suspended", False), ("Claimed/Busy", True)):
        books.blame_job(cluster, proc, "activation", f"it is {status}, and its slot {slot.name} is {slot.pair}")
    if not run.stop and status not in RUNS:
        books.blame_job(cluster, proc, "end", f"it is {status} on {slot.name} ({slot.pair}), and was not told to end")
    else:
        _told(books, slot, f"{cluster}.{proc}", run.told)


_TOLD = {"Preempting/Vacating": ("soft", "hard"), "Preempting/Killing": ("hard",)}
"""What the job of a slot in Preempting was told last."""


def _told(books: Books, slot: Slot, job: str, stop: Stop | None) -> None:
    if slot.pair in _TOLD and (stop is None or stop.how not in _TOLD[slot.pair]):
        told = "told to end" if stop is None else "killed"
        books.blame_slot(slot.name, "end", f"it is {slot.pair}, and its job {job} was not {told}")


def _agrees(books: Books, slot: Slot, rule: str, what: str, needed: bool, has: bool) -> None:
    if needed != has:
        books.blame_slot(slot.name, rule, f"it is {slot.pair} {'without' if needed else 'and has'} {what}")


def _job(job: tuple[int, int] | None) -> str:
    return f"{job[0]}.{job[1]}" if job else "?"
