"""The rules about the pool, its machines, slots, claims and matches: a function for each kind of event, and what must
hold of a slot when all is done that follows from a stimulus."""

from __future__ import annotations

from ...domain import events as e
from ...domain.evolve import BIRTH
from ...domain.lifecycle import DIALECTS, MANUAL, job_machine, slot_machine
from ...domain.state import RUNS
from .books import AMOUNTS, NAMES, NUMBERS, Books, Claim, Slot, amount, job_of
from .rules import NEEDS

IDLE = NUMBERS["Idle"]
KINDS = ("static", "partitionable", "dynamic")


def founded(books: Books, event: e.PoolFounded) -> None:
    if books.founded:
        books.blame("pool", "founded", "the pool was founded before")
    books.founded = True
    if event.dialect not in DIALECTS:
        books.blame("pool", "reference", f"{event.dialect} is no dialect: the rest is judged as {MANUAL}")
        return
    books.dialect = event.dialect
    books.slot_table, books.job_table = slot_machine(event.dialect), job_machine(event.dialect)


def writer(books: Books, event: e.WriterBegan) -> None:
    if event.epoch != books.epoch + 1:
        books.blame("pool", "epoch", f"epoch {event.epoch} follows on {books.epoch}")
    books.epoch = event.epoch


def answered(books: Books, event: e.RequestAnswered) -> None:
    if books.answered:
        books.blame("requests", "answer", f"{event.stimulus} was answered already")
    books.answered = True


def evidence(books: Books, event: e.EvidenceNoted) -> None:
    books.evidence = True


def machine_joined(books: Books, event: e.MachineJoined) -> None:
    if event.machine in books.machines:
        books.blame(event.machine, "reference", f"machine {event.machine} is in the pool already")
    books.machines.setdefault(event.machine, 0)


def machine_left(books: Books, event: e.MachineLeft) -> None:
    slots = books.machines.pop(event.machine, None)
    if slots is None:
        books.blame(event.machine, "reference", f"machine {event.machine} is not in the pool")
    elif slots:
        books.blame(event.machine, "reference", f"machine {event.machine} has {slots} slots left")


# Slots


def _known(books: Books, name: str) -> Slot | None:
    slot = books.slots.get(name)
    if slot is None:
        books.blame_slot(name, "reference", f"there is no slot {name}")
        return None
    slot.story.append((books.position, books.event))  # type: ignore[arg-type]
    books.touched[name] = None
    return slot


def born(books: Books, event: e.SlotBorn) -> None:
    name = event.slot
    if name in books.slots:
        books.blame_slot(name, "reference", f"slot {name} exists already")
        return
    if event.machine not in books.machines:
        books.blame_slot(name, "reference", f"its machine {event.machine} is not in the pool")
    else:
        books.machines[event.machine] += 1
    slot = books.slots[name] = Slot(event, BIRTH)
    _known(books, name)
    if event.kind not in KINDS:
        books.blame_slot(name, "value", f"{event.kind} is no kind of slot")
    for resource in AMOUNTS:
        if resource in event.ad:
            _have(books, slot, resource, event.ad[resource])
    slot.whole = dict(slot.have)
    slot.weight = None if "SlotWeight" in event.ad else _thousandths(event.ad.get("Cpus", ""))
    parent = books.slots.get(event.parent)
    if event.kind != "dynamic":
        if event.parent:
            books.blame_slot(name, "reference", f"a {event.kind} slot is carved from none, and not from {event.parent}")
    elif parent is None or parent.kind != "partitionable" or parent.machine != event.machine:
        books.blame_slot(name, "reference", f"{event.parent or 'nothing'} is no partitionable slot of its machine")
    else:
        _carve(books, parent, slot.have, 1)


def _thousandths(cpus: str) -> int | None:
    """What a slot weighs whose weight is its Cpus."""
    return 1000 * int(cpus) if cpus.isascii() and cpus.isdigit() and len(cpus) < 20 else None


def _have(books: Books, slot: Slot, resource: str, text: str) -> None:
    found = amount(text)
    if found is None or found < 0:
        books.blame_slot(slot.name, "value", f"{resource} = {text} is no amount")
    else:
        slot.have[resource] = found


def _carve(books: Books, parent: Slot, amounts: dict[str, int], sign: int) -> None:
    for resource, many in amounts.items():
        parent.carved[resource] += sign * many
    books.touched[parent.name] = None


def moved(books: Books, event: e.SlotMoved) -> None:
    slot = _known(books, event.slot)
    if slot is None:
        return
    if slot.pair != event.source:
        books.blame_slot(slot.name, "source", f"transition {event.row} begins in {event.source}, but it is {slot.pair}")
    if event.target not in books.slot_table.lookup.get((event.source, event.row), ()):
        books.blame_slot(slot.name, "row", _no_row(books, event.row, event.source, event.target))
    if event.reason:
        books.blame_slot(slot.name, "value", "it names the reason of another pool's record: a pool's own has its cause")
    slot.pair = event.target
    moves = books.moves
    moves[event.row] = moves.get(event.row, 0) + 1


def _no_row(books: Books, row: str, source: str, target: str) -> str:
    table = books.slot_table
    right = [number for number, targets in table.allowed(source).items() if target in targets]
    hint = f"that is row {right[0]}" if right else "no row does"
    return f"row {row} of {table.name} does not lead from {source} to {target}: {hint}"


def changed(books: Books, event: e.SlotChanged) -> None:
    slot = _known(books, event.slot)
    if slot is None:
        return
    if "SlotWeight" in event.changes or "Cpus" in event.changes:
        slot.weight = None  # what it weighs now is for its expression to say
    before = dict(slot.have)
    for resource in AMOUNTS:
        if resource in event.changes:
            _have(books, slot, resource, event.changes[resource])
    if event.cause in ("carved", "merged"):
        return
    for resource, many in slot.have.items():  # it was given more or less: that is no carving
        slot.whole[resource] = slot.whole.get(resource, 0) + many - before.get(resource, 0)


def died(books: Books, event: e.SlotDied) -> None:
    slot = _known(books, event.slot)
    if slot is None:
        return
    for what, rule, held in (
        ("a claim", "claim", slot.claim is not None),
        ("a job", "activation", slot.job is not None),
        ("a match", "match", slot.name in books.matches),
        ("dynamic slots", "resources", any(slot.carved.values())),
    ):
        if held:
            books.blame_slot(slot.name, rule, f"it goes while it has {what}")
    if books.machines.get(slot.machine):
        books.machines[slot.machine] -= 1
    parent = books.slots.get(slot.parent)
    if parent is not None and slot.kind == "dynamic":
        _carve(books, parent, slot.have, -1)
    drop_match(books, slot.name)
    books.forget_slot(slot)


# Claims and matches


def claim_made(books: Books, event: e.ClaimMade) -> None:
    slot = _known(books, event.slot)
    if slot is None:
        return
    if slot.claim is not None:
        books.blame_slot(slot.name, "claim", f"it is claimed, by {slot.claim.submitter}")
    job = drop_match(books, event.slot)
    if job is None:
        books.blame_slot(slot.name, "match", "it is claimed without a match")
    if slot.pair != "Claimed/Idle":
        books.blame_slot(slot.name, "claim", f"a claim begins in Claimed/Idle, but it is {slot.pair}")
    if event.weight < 0 or slot.weight not in (None, event.weight):
        books.blame_slot(slot.name, "value", f"it is claimed with the weight {event.weight}, which is not its own")
    slot.claim = Claim(event, job)


def claim_ended(books: Books, event: e.ClaimEnded) -> None:
    slot = _known(books, event.slot)
    if slot is None:
        return
    claim, slot.claim = slot.claim, None
    if claim is None or claim.id != event.claim:
        has = "it has none" if claim is None else f"its claim is {claim.id}"
        books.blame_slot(slot.name, "claim", f"claim {event.claim} ends, but {has}")
        return
    if claim.submitter != event.submitter:
        books.blame_slot(slot.name, "claim", f"{event.submitter} gives up a claim that {claim.submitter} holds")
    if not slot.pair.startswith("Preempting/"):
        books.blame_slot(slot.name, "claim", f"a claim ends in Preempting, but it is {slot.pair}")
    usage = (event.at - claim.since) * claim.weight
    if usage != event.usage:
        books.blame_slot(slot.name, "usage", f"the claim was held for a usage of {usage}, but {event.usage} is charged")
    if slot.job is not None:
        books.blame_slot(slot.name, "activation", f"the claim ends while job {slot.job[0]}.{slot.job[1]} runs on it")


def drop_match(books: Books, slot: str) -> tuple[int, int] | None:
    job = books.matches.pop(slot, None)
    if job is not None:
        books.matched.discard(job)
    return job


def cycle(books: Books, event: e.CycleHeld) -> None:
    books.cycle = books.cycle or bool(event.matches)
    for match in event.matches:
        job = job_of(match.job)
        cluster = books.clusters.get(job[0]) if job else None
        if job is None or cluster is None or not 0 <= job[1] < cluster.count:
            books.blame(match.job, "reference", f"there is no job {match.job} to match")
            continue
        status = cluster.status[job[1]]
        if status != IDLE or job[1] in cluster.runs or job in books.matched:
            books.blame_job(*job, "match", f"it is matched with {match.slot}, but does not wait")
        if match.slot in books.matches:
            books.blame_slot(match.slot, "match", f"it is matched with {match.job}, but is taken already")
            drop_match(books, match.slot)
        books.matches[match.slot] = job
        books.matched.add(job)
        books.touched[match.slot] = None


def voided(books: Books, event: e.MatchVoided) -> None:
    slot = _known(books, event.slot)
    job = drop_match(books, event.slot)
    if slot is not None and (job is None or f"{job[0]}.{job[1]}" != event.job):
        books.blame_slot(event.slot, "match", f"it was not matched with {event.job}")


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
        _agrees(books, slot, "activation", "a job", needs.job, slot.job is not None)
        if needs.match is not None:
            _agrees(books, slot, "match", "a match", needs.match, name in books.matches)
    if slot.job is not None:
        _settle_job(books, slot, *slot.job)
    if slot.kind == "partitionable":
        for resource, whole in slot.whole.items():
            have, carved = slot.have[resource], slot.carved[resource]
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
    if (slot.pair, status == "Suspended") in (("Claimed/Suspended", False), ("Claimed/Busy", True)):
        books.blame_job(cluster, proc, "activation", f"it is {status}, and its slot {slot.name} is {slot.pair}")
    if not run.stop and (status not in RUNS or slot.pair.startswith("Preempting/")):
        books.blame_job(cluster, proc, "end", f"it is {status} on {slot.name} ({slot.pair}), and was not told to end")


def _agrees(books: Books, slot: Slot, rule: str, what: str, needed: bool, has: bool) -> None:
    if needed != has:
        books.blame_slot(slot.name, rule, f"it is {slot.pair} {'without' if needed else 'and has'} {what}")


def _job(job: tuple[int, int] | None) -> str:
    return f"{job[0]}.{job[1]}" if job else "?"
