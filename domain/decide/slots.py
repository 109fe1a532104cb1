"""Slots appearing and going: machines that join and leave, dynamic slots carved from partitionable ones and merged
back.

A machine offers one partitionable slot with all that it has, unless it is asked to offer static ones. A dynamic slot is
born for a match, with what the job asks for, and dies with its claim: what it had goes back to its parent.
"""

from __future__ import annotations

import math
from collections.abc import Container

from ..classad import ClassAd, EvaluationError
from ..events import Ad, MachineJoined, MachineLeft, SlotBorn, SlotChanged, SlotDied
from ..state import Cluster, Slot
from ..texts import ad_of, expression
from .draft import Draft, Refusal
from .stimuli import AddMachine, RemoveMachine
from .waiting import job_ad

# What a partitionable slot is cut by: the slot's attribute, the job's, and the quantum to which a request is rounded up
# (the defaults of MODIFY_REQUEST_EXPR_REQUESTCPUS, ...MEMORY and ...DISK).
RESOURCES = (
    ("Cpus", "RequestCpus", 1),
    ("Memory", "RequestMemory", 128),
    ("Disk", "RequestDisk", 1024),
)


def add_machine(draft: Draft, stimulus: AddMachine) -> None:
    """A machine joins the pool with its slots; each that START does not refuse locally becomes Unclaimed (transition
    1)."""
    if stimulus.machine in draft.state.machines:
        raise Refusal(f"machine {stimulus.machine} is in the pool already: take it out first, or give another name")
    for plan in stimulus.slots:
        if plan.name in draft.state.slots:
            raise Refusal(f"slot {plan.name} exists already: slots' names are unique in a pool")
    for plan in stimulus.slots:
        for name, text in {**stimulus.ad, **plan.ad}.items():
            if expression(text) is None:
                raise Refusal(f"machine {stimulus.machine}: {name} = {text}: this is no ClassAd expression")
    draft.emit(MachineJoined(*draft.why("configured"), stimulus.machine, stimulus.ad))
    for plan in stimulus.slots:
        ad = {**stimulus.ad, **plan.ad}
        draft.emit(SlotBorn(*draft.why("configured"), plan.name, stimulus.machine, plan.kind, "", ad))
        slot = draft.state.slots[plan.name]
        if not locally_false(draft, slot, "Start"):
            draft.follow(slot, "start")


def locally_false(draft: Draft, slot: Slot, name: str) -> bool:
    """Whether an expression of the slot is false whatever the job: evaluated without one, it is false, and not
    undefined."""
    try:
        return ad_of({**slot.ad}).eval(name, None, draft.context) is False
    except EvaluationError:
        return False


def remove_machine(draft: Draft, stimulus: RemoveMachine) -> None:
    state = draft.state
    if stimulus.machine not in state.machines:
        raise Refusal(f"machine {stimulus.machine} is not in the pool")
    slots = [slot for slot in state.slots.values() if slot.machine == stimulus.machine]
    busy = [slot.name for slot in slots if slot.claim or slot.name in state.matches]
    if busy:
        raise Refusal(f"machine {stimulus.machine} is in use ({', '.join(busy)}): vacate these slots first")
    for slot in slots:
        draft.emit(SlotDied(*draft.why("machine_left"), slot.name))
    draft.emit(MachineLeft(*draft.why("left"), stimulus.machine))


# Partitionable slots


def remaining(slot: Slot) -> dict[str, float]:
    """What is left of a partitionable slot, by the attributes of `RESOURCES`."""
    return {name: float(slot.ad.get(name, "0")) for name, _, _ in RESOURCES}


def request(draft: Draft, slot: Slot, cluster: Cluster, proc: int) -> dict[str, int]:
    """What a job takes of a partitionable slot: its Request* rounded up to the quantum. A request that is no number
    takes one quantum, as undefined requests do in the reference."""
    job, other = job_ad(cluster, proc), ad_of(slot.ad)
    return {name: _quantized(draft, job, other, wanted, quantum) for name, wanted, quantum in RESOURCES}


def _quantized(draft: Draft, job: ClassAd, slot: ClassAd, wanted: str, quantum: int) -> int:
    try:
        value = job.eval(wanted, slot, draft.context) if wanted in job else None
    except EvaluationError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return quantum
    return max(1, math.ceil(value / quantum)) * quantum


def dynamic_name(parent: str, taken: Container[str]) -> str:
    """The name of the next slot carved from `parent`: the lowest number that no living slot has."""
    slot, _, machine = parent.partition("@")
    number = 1
    while (name := f"{slot}_{number}@{machine}") in taken:
        number += 1
    return name


def carve(draft: Draft, parent: Slot, name: str, cluster: Cluster, proc: int) -> Slot:
    """Cut a dynamic slot for a job from `parent`."""
    taken = request(draft, parent, cluster, proc)
    ad = {**parent.ad, **{key: str(amount) for key, amount in taken.items()}}
    ad |= {f"TotalSlot{key}": str(amount) for key, amount in taken.items()}
    ad |= {"Name": f'"{name}"', "SlotType": '"Dynamic"', "DynamicSlot": "true", "PartitionableSlot": "false"}
    ad |= {"DSlotId": name.partition("@")[0].rpartition("_")[2], "ParentSlotId": parent.ad.get("SlotID", "1")}
    draft.emit(SlotBorn(*draft.why("carved"), name, parent.machine, "dynamic", parent.name, ad))
    _give(draft, parent, {key: -amount for key, amount in taken.items()}, "carved")
    slot = draft.state.slots[name]
    draft.follow(slot, "carve")
    return slot


def merge(draft: Draft, slot: Slot) -> None:
    """A dynamic slot whose claim is over dies, and its parent has its resources back."""
    parent = draft.state.slots.get(slot.parent)
    amounts = {name: int(float(slot.ad[name])) for name, _, _ in RESOURCES}
    draft.emit(SlotDied(*draft.why("merged"), slot.name))
    if parent is not None:
        _give(draft, parent, amounts, "merged")


def _give(draft: Draft, parent: Slot, amounts: dict[str, int], cause: str) -> None:
    changes: Ad = {name: str(int(float(parent.ad.get(name, "0"))) + amount) for name, amount in amounts.items()}
    draft.emit(SlotChanged(*draft.why(cause), parent.name, changes))
