"""Compute the weights of a recorded cycle's matches in the accountant's books. A match weighs what its slot weighs.
Under a consumption policy it weighs as much as the job's share of the slot, and the next match of that slot starts with
the remainder. Source: Accountant::AddMatch and cp_deduct_assets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import define, field

from poolbook.domain import events as e
from poolbook.domain.classad import Context
from poolbook.domain.fold.evolve import fold
from poolbook.domain.negotiator.pslot_preemption import Remainders
from poolbook.domain.negotiator.slot_table import public_ads_of
from poolbook.domain.startd.public_ad import PublishedSlots
from poolbook.domain.startd.slot_resources import has_consumption_policy
from poolbook.domain.state.caches import Caches, ad_from_attributes

from .recording import NegotiatorRecording, RecordedCycle, RecordedMatch
from .visibility import SECOND


@define
class MatchCosts:
    """The weights of a recording's matches. ``weights`` belong to the slots that were claimed at any time."""

    record: NegotiatorRecording
    weights: Mapping[str, int]
    consuming: frozenset[str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        creations = (
            event for event in self.record.pool if isinstance(event, e.SlotCreated) and event.kind == "partitionable"
        )
        self.consuming = frozenset(event.slot for event in creations if has_consumption_policy(event.ad))

    def of(
        self, cycle: RecordedCycle, count: int, known: Mapping[str, int]
    ) -> Iterator[tuple[RecordedMatch, int | None]]:
        """Yield the matches of a cycle that had seen ``count`` of the pool's events, each with its weight in
        thousandths. ``known`` are the weights of slots in this cycle's records. A weight is None if the records have no
        such job, or too small a remainder of the slot."""
        rests = None
        for match in cycle.matches:
            if match.slot in self.consuming:
                rests = rests or _remainders(self.record, cycle, count)
                yield match, _taken(rests, match)
            else:
                yield match, known.get(match.slot) or self.weights.get(match.slot, 1000)


def _remainders(record: NegotiatorRecording, cycle: RecordedCycle, count: int) -> Remainders:
    matched = {match.job.partition(".")[0] for match in cycle.matches}
    submissions = (submission.event for submission in record.queue if str(submission.event.cluster) in matched)
    state, caches = fold(enumerate((*record.pool[:count], *submissions), 1)), Caches()
    context = Context(now=cycle.at // SECOND, seed=cycle.at // SECOND)
    return Remainders(state, public_ads_of(state, caches, cycle.at, context, (), PublishedSlots), context)


def _taken(rests: Remainders, match: RecordedMatch) -> int | None:
    """Take a match's part of its slot, and return how much less the slot weighs, in thousandths."""
    number, _, proc = match.job.partition(".")
    place, cluster = rests.pool.row_of.get(match.slot), rests.state.clusters.get(int(number))
    if place is None or cluster is None or int(proc) not in cluster:
        return None
    remainder = rests.remainder_of_row(place)
    job = ad_from_attributes(cluster.attributes(int(proc)))
    amounts = remainder.carver.amounts_for(job, remainder.resources)
    if amounts is None:
        return None
    cost = rests.cores(remainder, amounts, weighted=True)
    remainder.subtract(amounts, job)
    return round(cost * 1000)
