"""Compute what the matches of a recorded cycle weigh in the accountant's books.

A match weighs what its slot weighs. Under a consumption policy it weighs by how much less its slot weighs without what
the job takes of it, and the next match of that slot begins with the rest. Source: Accountant::AddMatch and
cp_deduct_assets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field

from poolbook.domain import events as e
from poolbook.domain.classad import Context
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.pslot_preemption import Remainders
from poolbook.domain.negotiator.slot_table import public_ads_of
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.startd.slot_resources import consumes
from poolbook.domain.state.caches import Caches, ad_of

from .recording import NegotiatorRecording, RecordedCycle, RecordedMatch
from .visibility import SECOND


@define
class MatchCosts:
    """The weights of a recording's matches. ``weights`` are those of the slots that were ever claimed."""

    record: NegotiatorRecording
    weights: Mapping[str, int]
    consuming: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        made = (one for one in self.record.pool if isinstance(one, e.SlotCreated) and one.kind == "partitionable")
        self.consuming = frozenset(one.slot for one in made if consumes(one.ad))

    def of(
        self, cycle: RecordedCycle, count: int, known: Mapping[str, int]
    ) -> Iterator[tuple[RecordedMatch, int | None]]:
        """Yield the matches of a cycle that had seen ``count`` of the pool's events, each with its weight in
        thousandths. ``known`` are the weights of slots that the records tell of this cycle. A weight is None if the
        records do not tell of the job, or of so much that was left of the slot."""
        rests = None
        for told in cycle.matches:
            if told.slot in self.consuming:
                rests = rests or _remainders(self.record, cycle, count)
                yield told, _taken(rests, told)
            else:
                yield told, known.get(told.slot) or self.weights.get(told.slot, 1000)


def _remainders(record: NegotiatorRecording, cycle: RecordedCycle, count: int) -> Remainders:
    matched = {told.job.partition(".")[0] for told in cycle.matches}
    submissions = (one.event for one in record.queue if str(one.event.cluster) in matched)
    state, caches = fold(enumerate((*record.pool[:count], *submissions), 1)), Caches()
    context = Context(now=cycle.at // SECOND, seed=cycle.at // SECOND)
    return Remainders(state, public_ads_of(state, caches, cycle.at, context, (), PublishedSlots), context)


def _taken(rests: Remainders, told: RecordedMatch) -> int | None:
    """Take a match's part of its slot, and return what the slot weighs less, in thousandths."""
    number, _, proc = told.job.partition(".")
    place, cluster = rests.pool.places.get(told.slot), rests.state.clusters.get(int(number))
    if place is None or cluster is None or int(proc) not in cluster:
        return None
    rest = rests.of(place)
    amounts = rest.cutter.taken(ad_of(cluster.attributes(int(proc))), rest.left)
    if amounts is None:
        return None
    cost = rests.cores(rest, amounts, weighted=True)
    rest.take(amounts)
    return round(cost * 1000)
