"""The negotiation cycle as the pool holds it: what ``cycle`` decides, done.

Attributes of the moment that a waiting job reads, and nobody has published yet, are published first, so that the log
has all that the decision reads. A job's part of a partitionable slot is carved from it as a dynamic slot.
"""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import EvaluationRecorded, SlotAdChanged
from ..ports.sensor_readings import NOTHING_READ, Readings, nothing
from ..ports.stimuli import Negotiate
from ..startd.claiming import leave_for_part
from ..startd.dynamic_slots import carve
from ..startd.pslot_preemption import preempt
from ..startd.slot_policy_evaluation import policy_of
from ..startd.transitions import reevaluate, trigger
from ..startd.updates import changed_readings, names_sensed
from ..state.state import Slot
from .cycle import CycleResult, hold
from .match_evidence import ReadsOfKinds, evidence, job_ad
from .negotiator_view import seen_by
from .slot_table import PublicAds, public_ads_of
from .spins import attributes_read


def negotiate(draft: Draft, stimulus: Negotiate) -> None:
    """Hold a cycle. One that matches nothing and learns nothing new leaves no event."""
    state, whose = draft.state, stimulus.negotiator
    if state.idle:
        _publish(draft, whose)
    offset = draft.context.offset(draft.now // 1_000_000)
    cycle = hold(state, draft.caches, draft.why, draft.context, offset, whose=whose)
    if cycle.priorities is not None:
        draft.emit(cycle.priorities)
    if cycle.quotas is not None:
        draft.emit(cycle.quotas)
    if cycle.held is None:
        return
    for note in _evidence(draft, cycle, whose):
        draft.emit(note)
    draft.emit(cycle.held)
    for choice in cycle.choices:
        slot = state.slots[choice.slot]
        if choice.name != choice.slot:
            parent = slot
            preempt(draft, parent, choice.preempts)
            slot = carve(draft, parent, choice.name, job_ad(choice.cluster, choice.proc))
            leave_for_part(draft, parent)
            if state.dialect.informs_startd_of_matches:
                reevaluate(draft, slot)
        if state.dialect.informs_startd_of_matches and (choice.name != choice.slot or not choice.reason):
            trigger(draft, slot, "match", "matched")


class _SensorReadings:
    """What was asked of the machines' sensors last: ``read`` are the attributes that cycles read, ``readings`` what
    each machine said."""

    read: frozenset[str] | None = None
    readings: dict[str, Readings]


def _publish(draft: Draft, whose: str) -> None:
    """Let the slots tell what the cycle may read of their machines' sensors, and nobody has read before. A machine is
    looked at again when its readings are others, or one of its slots, or when more is read."""
    state = draft.state
    if draft.sense is nothing:
        return
    sensed = [(name, said) for name in state.machines if (said := draft.sense(name)) is not NOTHING_READ]
    if not sensed:
        return
    seen, caches = seen_by(state, draft.caches, whose, draft.now)
    touched = caches.of(PublicAds).stale_machines(state)
    read = public_ads_of(seen, caches, draft.now, draft.context, attributes_read(seen, caches)).read()
    known = caches.of(_SensorReadings)
    if known.read != read:
        known.read, known.readings = read, {}
    for name, said in sensed:
        if name in touched or known.readings.get(name) is not said:
            known.readings[name] = said
            for slot in state.machines[name].slots.values():
                _tell(draft, slot, names_sensed(said, slot.name) & read)


def _tell(draft: Draft, slot: Slot, wanted: frozenset[str]) -> None:
    """Publish the slot's news, if anything of this was never published."""
    if not wanted <= {name.lower() for name in slot.public}:
        changes = changed_readings(policy_of(draft, slot), wanted)
        if changes:
            draft.emit(SlotAdChanged(*draft.why("published"), slot.name, changes))


def _evidence(draft: Draft, cycle: CycleResult, whose: str) -> list[EvaluationRecorded]:
    """For each kind of jobs what the Requirements of one read, of its own ad and of the slot's that it gets."""
    seen, caches = seen_by(draft.state, draft.caches, whose, draft.now)
    table = public_ads_of(seen, caches, draft.now, draft.context, ()).table
    first = {id(choice.kind): choice for choice in reversed(cycle.choices)}
    wanted = {id(choice) for choice in first.values()}
    reads = draft.caches.of(ReadsOfKinds)
    return [
        evidence(draft, choice.kind.job, choice.ad or table.ad(choice.place), reads.of_form(choice.kind.job))
        for choice in cycle.choices
        if id(choice) in wanted
    ]
