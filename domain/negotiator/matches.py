"""The negotiation cycle as the pool holds it: what ``cycle`` decides, done.

Attributes of the moment that a waiting job reads, and nobody has published yet, are published first, so that the log
has all that the decision reads. A job's part of a partitionable slot is carved from it as a dynamic slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..classad import UNDEFINED, ClassAd, Expression, unparse
from ..classad.analysis import references_found
from ..classad.scalar import evaluator_of_several
from ..classad.tree import Literal
from ..decision.draft import Draft
from ..events import EvaluationRecorded, SlotAdChanged
from ..ports.sensor_readings import NOTHING_READ, Readings, nothing
from ..ports.stimuli import Negotiate
from ..startd.claiming import leave_for_part
from ..startd.dynamic_slots import carve
from ..startd.evaluation import noted
from ..startd.pslot_preemption import preempt
from ..startd.slot_policy import policy_of
from ..startd.transitions import reevaluate, trigger
from ..startd.updates import changed_readings, names_sensed
from ..state.caches import ad_of
from ..state.cluster import Cluster
from ..state.state import Slot
from .autoclusters import Signature
from .cycle import Cycle, hold
from .several import seen_by
from .slot_table import PublicAds, public_ads_of
from .spins import asked

# What a match was made of: the job's Requirements, and the values that they read.


def job_ad(cluster: Cluster, proc: int) -> ClassAd:
    """Return the ad of a job as a match sees it."""
    return ad_of(cluster.attributes(proc))


class Reads(NamedTuple):
    """A job's Requirements: the text, and the names that they read of the job's ad and of the slot's."""

    text: str
    mine: tuple[str, ...]
    slots: tuple[str, ...]

    @classmethod
    def of(cls, job: ClassAd) -> Reads:
        """What the Requirements of a job read."""
        requirements = job["Requirements"]
        references = references_found(requirements, job)
        return cls(
            unparse(requirements),
            tuple(references.internal),
            tuple(name.rpartition(".")[2] for name in references.external),
        )


class ReadsOfKinds(dict[Signature, Reads]):
    """What the Requirements of jobs read that are alike: the same for all of them. It is also the same for jobs that
    differ in plain values alone, which lead no further."""

    KEPT = 10_000

    def __init__(self) -> None:
        super().__init__()
        self._by_form: dict[tuple[tuple[str, int], ...], tuple[list[Expression], Reads]] = {}
        """By a job's expressions, which it keeps alive, and the names of its plain values."""

    def find(self, signature: Signature, job: ClassAd) -> Reads:
        found = self.get(signature)
        if found is None:
            if len(self) >= self.KEPT:
                self.clear()
            found = self[signature] = self.of_form(job)
        return found

    def of_form(self, job: ClassAd) -> Reads:
        """What the Requirements of a job read, found for one of this form."""
        cells = job._all().values()
        leads = [one for _, one in cells if type(one) is not Literal]
        form = tuple([(name, 0 if type(one) is Literal else id(one)) for name, one in cells])
        if form not in self._by_form:
            if len(self._by_form) >= self.KEPT:
                self._by_form.clear()
            self._by_form[form] = leads, Reads.of(job)
        return self._by_form[form][1]


def evidence(draft: Draft, job: ClassAd, slot: ClassAd, reads: Reads | None = None) -> EvaluationRecorded:
    """What the job's Requirements read, of its own ad and of the best slot's.

    :param reads: what they read, if that is known
    """
    reads = reads or Reads.of(job)
    read = {f"MY.{name}": text for name, text in _values(job, reads.mine, slot, draft)}
    read |= {f"TARGET.{name}": text for name, text in _values(slot, reads.slots, job, draft) if name in slot}
    return EvaluationRecorded(*draft.why("negotiated"), "Requirements", reads.text, "true", read)


def _values(ad: ClassAd, names: Iterable[str], other: ClassAd, draft: Draft) -> Iterator[tuple[str, str]]:
    value_of = evaluator_of_several(ad, other, draft.context)
    for name in names:
        held = ad.get(name)
        if type(held) is Literal and type(held.value) is int:
            yield name, str(held.value)
        else:
            yield name, noted(UNDEFINED if held is None else value_of(held))


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


class _Asked:
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
    read = public_ads_of(seen, caches, draft.now, draft.context, asked(seen, caches)).read()
    known = caches.of(_Asked)
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


def _evidence(draft: Draft, cycle: Cycle, whose: str) -> list[EvaluationRecorded]:
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
