"""The negotiation cycle as the pool holds it: what ``cycle`` decides, done.

Attributes of the moment that a waiting job reads, and nobody has published yet, are published first, so that the log
has all that the decision reads. A job's part of a partitionable slot is carved from it as a dynamic slot.
"""

from __future__ import annotations

from ..decision.draft import Draft
from ..events import EvaluationRecorded, SlotAdChanged
from ..ports.sensor_readings import NOTHING_READ, Readings, nothing
from ..startd.dynamic_slots import carve
from ..startd.slot_policy import policy_of
from ..startd.transitions import reevaluate, trigger
from ..startd.updates import changed_readings, names_sensed
from ..state.state import Slot
from .cycle import Cycle, asked, hold
from .idle_jobs import waits
from .match_evidence import evidence, job_ad
from .slot_table import PublicAds, public_ads_of


def negotiate(draft: Draft) -> None:
    """Hold a cycle. One that matches nothing and learns nothing new leaves no event."""
    state = draft.state
    if waits(state):
        _publish(draft)
    cycle = hold(state, draft.caches, draft.why, draft.context, draft.context.offset(draft.now // 1_000_000))
    if cycle.priorities is not None:
        draft.emit(cycle.priorities)
    if cycle.held is None:
        return
    for note in _evidence(draft, cycle):
        draft.emit(note)
    draft.emit(cycle.held)
    for choice in cycle.choices:
        slot = state.slots[choice.slot]
        if choice.name != choice.slot:
            slot = carve(draft, slot, choice.name, job_ad(choice.cluster, choice.proc))
            if state.dialect.informs_startd_of_matches:
                reevaluate(draft, slot)
        if state.dialect.informs_startd_of_matches and not choice.reason:
            trigger(draft, slot, "match", "matched")


class _Asked:
    """What was asked of the machines' sensors last: ``read`` are the attributes that cycles read, ``readings`` what
    each machine said."""

    read: frozenset[str] | None = None
    readings: dict[str, Readings]


def _publish(draft: Draft) -> None:
    """Let the slots tell what the cycle may read of their machines' sensors, and nobody has read before. A machine is
    looked at again when its readings are others, or one of its slots, or when more is read."""
    state = draft.state
    if draft.sense is nothing:
        return
    sensed = [(name, said) for name in state.machines if (said := draft.sense(name)) is not NOTHING_READ]
    if not sensed:
        return
    touched = draft.caches.of(PublicAds).stale_machines(state)
    read = public_ads_of(state, draft.caches, draft.now, draft.context, asked(state, draft.caches)).read()
    known = draft.caches.of(_Asked)
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


def _evidence(draft: Draft, cycle: Cycle) -> list[EvaluationRecorded]:
    """For each kind of jobs what the Requirements of one read, of its own ad and of the slot's that it gets."""
    table = public_ads_of(draft.state, draft.caches, draft.now, draft.context, ()).table
    first = {id(choice.kind): choice for choice in reversed(cycle.choices)}
    wanted = {id(choice) for choice in first.values()}
    return [
        evidence(draft, choice.kind.job, table.ad(choice.place)) for choice in cycle.choices if id(choice) in wanted
    ]
