"""Find which changes of slots a cycle had seen.

A negotiator sees the collector's ads, and a startd publishes a change about a second after it. Logs count in whole
seconds, so changes in the cycle's second or the one before may be visible or not. That gives three possible views of a
cycle. The recorded counted claims, preempted submitters (a match without one took an Unclaimed slot) and logged usage
decide between them; otherwise the pool's usual delay does.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from attrs import evolve, frozen

from poolbook.domain import events as e

from .recording import VARIOUS, CountedClaim, RecordedAccounting, RecordedCycle

SECOND: Final = 1_000_000
DELAYS: Final = (2, 1, 0)  #: seconds by which a cycle usually lags behind the slots; the first is the default
OLDEST: Final = 6
"""Seconds by which it may lag: UPDATE_INTERVAL (5 in the recorded pools) and one under way. It then matches slots that
have been claimed since."""


@frozen
class VisibleEvents:
    """The events that a cycle had seen: the pool's first ``count``. ``delay`` is in seconds. ``agrees``: the recorded
    cycle does not contradict it, nor the ``others``; ``doubtful`` are the submitters whose claims differ among these.
    """

    at: int
    count: int
    delay: int
    claims: tuple[CountedClaim, ...]
    others: tuple[int, ...] = ()
    doubtful: frozenset[str] = frozenset()
    agrees: bool = True


class Visibility:
    """The views of a pool's cycles. ``weights`` belong to the slots that were claimed at any time."""

    def __init__(self, pool: Sequence[e.Event]) -> None:
        self._pool = pool
        self._instants = [event.at for event in pool]
        self._places: list[int] = [0]
        self._claims: list[tuple[CountedClaim, ...]] = [()]
        self.weights: dict[str, int] = {}
        held: dict[str, CountedClaim] = {}
        for place, event in enumerate(pool, 1):
            if isinstance(event, e.ClaimMade):
                held[event.slot] = CountedClaim(event.slot, event.submitter, event.weight)
                self.weights[event.slot] = event.weight
            elif isinstance(event, e.ClaimEnded | e.SlotDestroyed):
                held.pop(event.slot, None)
            elif isinstance(event, e.MachineLeft):
                held.clear()
            else:
                continue
            self._places.append(place)
            self._claims.append(tuple(held.values()))

    def claims(self, count: int) -> tuple[CountedClaim, ...]:
        """Return the claims after so many events."""
        return self._claims[bisect_right(self._places, count) - 1]

    def until(self, at: int) -> int:
        """Return the number of events up to and including an instant."""
        return bisect_right(self._instants, at)

    def _unclaimed(self, count: int, slots: Iterable[str]) -> bool:
        """Return True if these slots were Unclaimed after so many events."""
        waiting = set(slots)
        for event in reversed(self._pool[:count]) if waiting else ():
            if isinstance(event, e.SlotTransitioned) and event.slot in waiting:
                if not event.target.startswith("Unclaimed/"):
                    return False
                waiting.discard(event.slot)
                if not waiting:
                    break
        return not waiting

    def of(
        self, instants: Iterable[int], cycles: Mapping[int, RecordedCycle], counted: Mapping[int, RecordedAccounting]
    ) -> dict[int, VisibleEvents]:
        """Return the view of each cycle, by its instant."""
        possible_views = {at: self._possible(at, cycles.get(at), counted.get(at)) for at in instants}
        delay_counts = Counter(
            views[0].delay for views in possible_views.values() if len(views) == 1 and views[0].agrees
        )
        order = sorted(DELAYS, key=lambda delay: (-delay_counts[delay], DELAYS.index(delay)))
        return {at: _best(possible, order) for at, possible in possible_views.items()}

    def _possible(
        self, at: int, cycle: RecordedCycle | None, counted: RecordedAccounting | None
    ) -> Sequence[VisibleEvents]:
        """Return the views that agree with a cycle's records, preferably with its unclaimed slots in Unclaimed; all if
        none does."""
        candidates = [self._visible(at, self.until(at - delay * SECOND), delay) for delay in DELAYS]
        if candidates[0].count == candidates[-1].count:
            candidates = candidates[:1]
        unclaimed = [match.slot for match in cycle.matches if not match.preempting] if cycle is not None else []
        for free in (unclaimed, []):
            agreeing_views = [view for view in candidates if self._agrees(view, cycle, counted, free)]
            if agreeing_views:
                return agreeing_views
            # an ad may be of the middle of a second, or later than usual
            for count in range(self.until(at), self.until(at - OLDEST * SECOND) - 1, -1):
                view = self._visible(at, count, DELAYS[0])
                if self._agrees(view, cycle, counted, free):
                    return [view]
        return [evolve(view, agrees=False) for view in candidates]

    def _agrees(
        self, view: VisibleEvents, cycle: RecordedCycle | None, counted: RecordedAccounting | None, free: Iterable[str]
    ) -> bool:
        return _agrees(view.claims, cycle, counted) and self._unclaimed(view.count, free)

    def _visible(self, at: int, count: int, delay: int) -> VisibleEvents:
        return VisibleEvents(at, count, delay, self.claims(count))


def _best(possible: Sequence[VisibleEvents], order: Sequence[int]) -> VisibleEvents:
    best_view = min(possible, key=lambda one: order.index(one.delay))
    others = dict.fromkeys(view.count for view in possible if view.count != best_view.count)
    return evolve(best_view, others=tuple(others), doubtful=_differing(possible))


def _differing(possible: Sequence[VisibleEvents]) -> frozenset[str]:
    """Return the submitters whose claims are not the same in all views."""
    sets = [frozenset(view.claims) for view in possible]
    return frozenset(view.submitter for view in frozenset.union(*sets) - frozenset.intersection(*sets))


def _agrees(claims: tuple[CountedClaim, ...], cycle: RecordedCycle | None, counted: RecordedAccounting | None) -> bool:
    if counted is not None and not _agrees_with_accounts(claims, cycle, counted):
        return False
    if cycle is None:
        return True
    holders = {claim.slot: claim.submitter for claim in claims}
    for match in cycle.matches:
        if match.preempting != VARIOUS and holders.get(match.slot, "") != match.preempting:
            return False
    cores: Counter[str] = Counter()
    for claim in claims:
        cores[claim.submitter] += claim.weight
    return all(abs(cores[user] / 1000 - used) < 0.001 for user, used in cycle.usage.items())


def _agrees_with_accounts(
    claims: tuple[CountedClaim, ...], cycle: RecordedCycle | None, counted: RecordedAccounting
) -> bool:
    """Return True if the accountant counted exactly these claims and the cycle's matches."""
    account_claims = Counter((claim.slot, claim.submitter) for claim in counted.claims)
    account_claims.subtract((claim.slot, claim.submitter) for claim in claims)
    if cycle is None or not cycle.whole:
        return all(count >= 0 for count in account_claims.values())
    account_claims.subtract((match.slot, match.submitter) for match in cycle.matches)
    return not any(account_claims.values())
