"""The negotiation cycle: which waiting job gets which slot.

Jobs are taken in their order (``waiting``); each gets, of the slots that are free and that accept each other with it,
the one that its Rank values most, and of equal ones the one that the pool has had longest. A job that nothing fits
never keeps the next one waiting: it and its like are left out for the rest of the cycle. A partitionable slot stays
free as long as something is left of it; what a job takes is carved from it as a dynamic slot.
"""

from __future__ import annotations

from collections import Counter
from math import isfinite

from attrs import evolve

from ..classad import ClassAd, EvaluationError, Expression, symmetric_match, unparse
from ..classad.analysis import clauses
from ..classad.match import requirements_met
from ..dialects import INFORMS, told
from ..events import Clause, CycleHeld, EvidenceNoted, Match, Unmatched
from ..policy.look import written
from ..policy.terms import drain_left
from ..policy.view import MOMENT, static
from ..state import IDLE, Cluster, Slot
from .draft import Draft, job_id
from .point.change import settle, tell
from .point.drains import accepts
from .slots import carve, dynamic_name, remaining, request
from .waiting import Signature, job_ad, significance, slot_ad, waiting, words

FREE = "Unclaimed/Idle"


def _free(draft: Draft, slot: Slot) -> bool:
    """Whether the slot may be matched: not on a machine that is to end, nor on one that drains, unless the drain has a
    START of its own for jobs that may be interrupted, and those that the drain found still have time to run."""
    machine = draft.state.machines.get(slot.machine)
    if machine is None or (machine.drain is None and not machine.shutdown):
        return slot.pair == FREE
    if not accepts(machine) or slot.pair != "Drained/Retiring":
        return False
    if slot.kind != "partitionable" and not told(draft.state.dialect, "claim", slot.pair):
        return False  # the manual knows no way from Drained to Claimed
    return drain_left(draft.look(slot)) > 0


class _Offers:
    """The pool's slots as one cycle sees them: free ones, their ads, and what is left of partitionable ones."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.free = {slot.name: slot for slot in draft.state.slots.values() if _free(draft, slot)}
        self._ads: dict[str, ClassAd] = {}
        self._words: frozenset[str] = frozenset()
        self._lasting: dict[Expression, bool] = {}
        self._moving = frozenset(MOMENT).union(*map(self._sensed, {slot.machine for slot in self.free.values()}))

    def _sensed(self, machine: str) -> set[str]:
        """What the sensors of a machine publish."""
        readings = self.draft.sense(machine)
        return {name.lower() for ad in (readings.attributes, *readings.slots.values()) for name in ad}

    def ad(self, slot: Slot) -> ClassAd:
        known = self._ads.get(slot.name)
        if known is None:
            known = self._ads[slot.name] = slot_ad(self.draft, slot, self._words)
        return known

    def read_by(self, part: Expression, slot: Slot) -> ClassAd:
        """An ad of the slot that has what a part of a job's Requirements reads: its lasting one will mostly do."""
        if part not in self._lasting:
            found = part.references(ClassAd())
            names = {name.rpartition(".")[2].lower() for name in (*found.internal, *found.external)}
            self._lasting[part] = names.isdisjoint(self._moving)
        return static(self.draft.state, slot).ad if self._lasting[part] else self.ad(slot)

    def _read_by(self, signature: Signature) -> None:
        """Let the ads have what these jobs may read."""
        read = words(signature) & self._moving
        if not read <= self._words:
            self._words |= read
            self._ads.clear()

    def ranked(self, job: ClassAd, signature: Signature) -> list[tuple[float, int, Slot]]:
        """The free slots that match, best first; of equal rank in the pool's order."""
        self._read_by(signature)
        found = []
        for order, slot in enumerate(self.free.values()):
            ad = self.ad(slot)
            if symmetric_match(job, ad, self.draft.context):
                found.append((-_rank(job, ad, self.draft), order, slot))
        return sorted(found, key=lambda offer: offer[:2])


def _rank(job: ClassAd, slot: ClassAd, draft: Draft) -> float:
    """The job's Rank of the slot: what is no number counts as 0, as in the reference."""
    try:
        value = job.eval("Rank", slot, draft.context) if "Rank" in job else 0.0
    except EvaluationError:
        return 0.0
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def negotiate(draft: Draft, clusters: tuple[int, ...] = ()) -> None:
    """Hold a cycle (for the jobs of some clusters). One that matches nothing and learns nothing new leaves no event."""
    state = draft.state
    matches, unmatched, notes = _decide(draft, clusters)
    large = len(state.slots) > COUNTED_AT_ONCE  # there the log also says when the reasons were counted last
    news = tuple(reason for reason in unmatched if large or not _known(reason, state.refusals.get(reason.job)))
    if not matches and not news:
        return
    for note in notes:
        draft.emit(note)
    draft.emit(CycleHeld(*draft.why("negotiated"), tuple(match for match, _ in matches), news))
    for match, slot in matches:
        if slot.name != match.slot:
            cluster, _, proc = match.job.partition(".")
            slot = carve(draft, slot, match.slot, job_ad(state.clusters[int(cluster)], int(proc)))
            if INFORMS[state.dialect]:
                settle(draft, slot)
        if INFORMS[state.dialect]:
            tell(draft, slot, "match", "matched")


COUNTED_AT_ONCE = 50
"""Slots: up to that many, reasons are counted in every cycle."""
COUNTED_EVERY = 3_000_000
"""Microseconds, times the number of slots: in a larger pool, the reasons that the log has for a cluster's jobs are good
enough for so long, while the slots' ads are the same. To count them is most of a cycle's work, and the more so the
larger the pool."""


def _to_be_counted(draft: Draft, cluster: Cluster) -> bool:
    """Whether to find out again why jobs of this cluster get nothing. It depends on what the log has, and on nothing
    else."""
    state = draft.state
    slots = len(state.slots)
    known = state.reasoned.get(cluster.id)
    if slots <= COUNTED_AT_ONCE or known is None:
        return True
    at, position, before = known
    if slots != before or max(slot.version for slot in state.slots.values()) > position:
        return True
    period = slots * COUNTED_EVERY
    return draft.now // period > at // period


def _known(reason: Unmatched, before: Unmatched | None) -> bool:
    """Whether the log has this reason; that it holds for more or fewer jobs now is no news."""
    return before is not None and evolve(before, jobs=reason.jobs) == reason


def _decide(
    draft: Draft, clusters: tuple[int, ...]
) -> tuple[list[tuple[Match, Slot]], list[Unmatched], list[EvidenceNoted]]:
    """What the cycle finds, without doing it: matches, why others got nothing, and the evidence."""
    state = draft.state
    offers, likeness = _Offers(draft), significance(state)
    left = {slot.name: remaining(slot) for slot in offers.free.values() if slot.kind == "partitionable"}
    ranked: dict[Signature, list[tuple[float, int, Slot]]] = {}
    failed: dict[Signature, tuple[Cluster, int]] = {}
    alike: dict[Signature, int] = {}
    matches: list[tuple[Match, Slot]] = []
    notes: list[EvidenceNoted] = []
    names = set(state.slots)
    skipped: set[int] = set()
    matched: Counter[int] = Counter()
    for cluster, proc in waiting(state, clusters=clusters, skipped=skipped):
        signature = likeness.signature(cluster, proc)
        if signature not in failed:
            if signature not in ranked:
                job = job_ad(cluster, proc)
                ranked[signature] = offers.ranked(job, signature)
                if ranked[signature]:
                    notes.append(evidence(draft, job, offers.ad(ranked[signature][0][2])))
            found = _take(draft, ranked[signature], offers, left, cluster, proc)
            if found is not None:
                rank, slot = found
                name = slot.name
                if slot.kind == "partitionable":
                    name = dynamic_name(slot.name, names)
                    names.add(name)
                matched[cluster.id] += 1
                matches.append((Match(job_id(cluster.id, proc), name, rank), slot))
                continue
            failed[signature] = (cluster, proc)
        if likeness.uniform(cluster):
            skipped.add(cluster.id)
            alike[signature] = alike.get(signature, 0) + cluster.counts[IDLE] - matched[cluster.id]
            continue
        alike[signature] = alike.get(signature, 0) + 1
    unmatched = [
        _unmatched(draft, offers, cluster, proc, alike[signature])
        for signature, (cluster, proc) in failed.items()
        if _to_be_counted(draft, cluster)
    ]
    return matches, unmatched, notes


def _take(
    draft: Draft,
    ranked: list[tuple[float, int, Slot]],
    offers: _Offers,
    left: dict[str, dict[str, float]],
    cluster: Cluster,
    proc: int,
) -> tuple[float, Slot] | None:
    """The best slot of `ranked` that is still to be had: it is taken, or what the job asks for is taken from it."""
    while ranked:
        rank, _, slot = ranked[0]
        if slot.name in offers.free:
            if slot.kind != "partitionable":
                del offers.free[slot.name]
                ranked.pop(0)
                return -rank, slot
            rest = left[slot.name]
            asked = request(draft, slot, job_ad(cluster, proc), rest)
            if asked is not None:
                for name, amount in asked.items():
                    rest[name] -= amount
                return -rank, slot
        ranked.pop(0)
    return None


# Why


def evidence(draft: Draft, job: ClassAd, slot: ClassAd) -> EvidenceNoted:
    """What the job's Requirements read, of its own ad and of the best slot's."""
    requirements = job["Requirements"]
    read: dict[str, str] = {}
    references = requirements.references(job)
    for name in references.internal:
        read[f"MY.{name}"] = _value(job, name, slot, draft)
    for name in references.external:
        short = name.rpartition(".")[2]
        if short in slot:
            read[f"TARGET.{short}"] = _value(slot, short, job, draft)
    return EvidenceNoted(*draft.why("negotiated"), "Requirements", unparse(requirements), "true", read)


def _value(ad: ClassAd, name: str, other: ClassAd, draft: Draft) -> str:
    try:
        value = ad.eval(name, other, draft.context)
    except EvaluationError:
        return "error"
    return written(value)


def _unmatched(draft: Draft, offers: _Offers, cluster: Cluster, proc: int, alike: int) -> Unmatched:
    """Count, for one job of its kind, what each clause of its Requirements leaves of the pool's slots."""
    job = job_ad(cluster, proc)
    slots = [slot for slot in draft.state.slots.values() if slot.kind != "dynamic"]
    parts = _conjunction(job)
    alone, left, still = [0] * len(parts), [0] * len(parts), set(range(len(slots)))
    for number, part in enumerate(parts):
        true_for = {i for i, slot in enumerate(slots) if _holds(part, job, offers.read_by(part, slot), draft)}
        alone[number] = len(true_for)
        still &= true_for
        left[number] = len(still)
    refused = sum(1 for i in still if not requirements_met(offers.ad(slots[i]), job, draft.context))
    found = tuple(Clause(unparse(part), alone[n], left[n]) for n, part in enumerate(parts))
    return Unmatched(job_id(cluster.id, proc), alike, len(slots), found, refused, len(still) - refused)


def _conjunction(job: ClassAd) -> list[Expression]:
    """The clauses of a job's Requirements; none if it has no Requirements."""
    return list(clauses(job["Requirements"])) if "Requirements" in job else []


def _holds(part: Expression, job: ClassAd, slot: ClassAd, draft: Draft) -> bool:
    try:
        return part.evaluate(job, slot, draft.context) is True
    except EvaluationError:
        return False
