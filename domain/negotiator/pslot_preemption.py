"""Preempting dynamic slots for a job that matches their partitionable slot (ALLOW_PSLOT_PREEMPTION).

A partitionable slot with too few resources for a job may match together with some of its dynamic slots. Dynamic slots
are added one by one, lowest CurrentRank first, until the job fits: slots whose current job ranks below the new job, and
slots whose job ranks equally, belongs to another user and satisfies PREEMPTION_REQUIREMENTS. Slots with retirement time
left are not added. Candidates are sorted by the partitionable slot's ad with the returned resources. Source: the
manual, "Preemption of Partitionable Slots"; ``Matchmaker::pslotMultiMatch`` of HTCondor. As in HTCondor, a
partitionable slot has at most one such match per cycle: a slot that was cut in a cycle is not enlarged in the same
cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import define, evolve, field, frozen

from ..classad import ClassAd, Context, EvaluationError, parse, symmetric_match
from ..classad.columns import OTHER
from ..names import SlotName
from ..ports.slot_ads import SlotCarver
from ..state.records import Slot
from ..state.state import Manager
from .candidates import LEAST, PRIORITY, RANK, Key, ResourceRequest, ephemeral, key_of, number_of, single
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import Negotiator
from .slot_table import Mask, Places, PublicAds

_RANK_OF = parse("MY.Rank")
_USER = "various_dSlot_users"
"""The RemoteUser of a partitionable slot while it is ranked with the resources of its dynamic slots."""
_NOBODY = ClassAd()
Ranks = Callable[[ClassAd, ClassAd], tuple[float, float, float]]
"""NEGOTIATOR_PRE_JOB_RANK, the job's Rank and NEGOTIATOR_POST_JOB_RANK for a job and a slot's ad."""
Behind = Callable[[CycleSubmitter, Places], Mask]


@frozen
class Offer:
    """A partitionable slot including the resources that some of its dynamic slots would return."""

    key: Key
    reason: str
    rest: Remainder  #: with these resources, before the job takes its share
    amounts: dict[str, int]  #: the job's share
    cores: float
    preempted: tuple[int, ...]  #: the rows of the dynamic slots


@define
class _Offers:
    """The offers for one submitter's jobs of one kind, best first. ``given``: ``CycleSubmitters.given`` when
    computed."""

    offers: list[Offer]
    given: int
    index: int = 0


@define
class PslotPreemption:
    """The dynamic slots that may be preempted in one cycle, by partitionable slot.

    ``free``: the partitionable slots that may still be matched. ``eligible``: the slots that the negotiator may match.
    ``behind`` returns which rows' users have a worse priority than a submitter. ``publish`` updates the usage by users
    in the slots' ads.
    """

    state: Manager
    pool: PublicAds
    context: Context
    rules: Negotiator
    accounts: CycleSubmitters
    shares: Remainders
    eligible: Mask
    total: float
    ranks: Ranks
    behind: Behind
    publish: Callable[[], None]
    parts: dict[int, list[int]] = field(factory=dict)
    cached_offers: dict[tuple[int, str, bool], _Offers] = field(factory=dict)

    @classmethod
    def carved(cls, pool: PublicAds) -> Mask:
        """Return the dynamic slots that their partitionable slots list, none of which is preempted on its own."""
        return np.array([slot.kind == "dynamic" and pool.ads.has_rollup(slot) for slot in pool.slots], bool)

    def __attrs_post_init__(self) -> None:
        pool = self.pool
        for place in np.flatnonzero(pool.claimed & ~pool.retiring & self.carved(pool)).tolist():
            parent = pool.places.get(pool.slots[place].parent, -1)
            if parent >= 0 and pool.free[parent] and self.eligible[parent]:
                self.parts.setdefault(parent, []).append(place)
        for places in self.parts.values():
            places.sort(key=lambda place: SlotName.parse(pool.slots[place].name).order)
            places.sort(key=lambda place: float(pool.ranks[place]))

    @property
    def prefers(self) -> bool:
        """Check whether any partitionable slot might rank another job above the job of one of its dynamic slots."""
        column = self.pool.table.columns.get("rank")
        if column is None or not self.parts:
            return False
        parents = np.array(list(self.parts))
        kinds = column.kinds[parents] if isinstance(column.kinds, np.ndarray) else np.array(column.kinds)
        if (kinds == OTHER).any():
            return True
        least = np.array([self.pool.ranks[places[0]] for places in self.parts.values()])
        return bool((self.pool.table.of_slots(_RANK_OF, _NOBODY, parents) > least).any())

    def leaves_any(self, free: Mask) -> bool:
        """Check whether any partitionable slot is still available together with its dynamic slots."""
        return any(free[parent] and not self.shares.version(parent) for parent in self.parts)

    def best(
        self, kind: ResourceRequest, user: CycleSubmitter, over: bool, free: Mask, permits: Callable[[float, str], bool]
    ) -> Offer | None:
        """Return the best offer for a job that the limits allow.

        :param over: the submitter has used its share: only slots that rank the job above their current jobs count
        """
        key = (id(kind), user.name, over)
        known = self.cached_offers.get(key)
        if known is None or (not self.rules.stable and known.given != self.accounts.given):
            if not self.rules.stable:
                self.publish()
            offers = sorted(self._offers(kind, user, over, free), key=lambda offer: offer.key)
            known = self.cached_offers[key] = _Offers(offers, self.accounts.given)
        while known.index < len(known.offers) and not self._is_available(known.offers[known.index], free):
            known.index += 1
        for offer in known.offers[known.index :]:
            allowed = kind.limits is None or kind.limits.allows(offer.key[5])
            if allowed and self._is_available(offer, free) and permits(offer.cores, offer.reason):
                return offer
        return None

    def take(self, offer: Offer) -> Remainder:
        """Take an offer for a job; return the remainder of the slot."""
        remainder = evolve(offer.rest, left=dict(offer.rest.left), ad=offer.rest.ad.copy())
        self.shares.by_place[offer.key[5]] = remainder
        remainder.take(offer.amounts)
        return remainder

    def _is_available(self, offer: Offer, free: Mask) -> bool:
        place = offer.key[5]
        return bool(free[place]) and not self.shares.version(place)

    def _offers(self, kind: ResourceRequest, account: CycleSubmitter, over: bool, free: Mask) -> Sequence[Offer]:
        parents = [place for place in self.parts if free[place] and not self.shares.version(place)]
        parents = [place for place in parents if not kind.match[place] or self._too_little(kind, place)]
        if not parents:
            return []
        job = ClassAd(ephemeral(account, self.accounts), kind.job)
        values = self.pool.table.of_slots(_RANK_OF, job, np.array(parents))
        ranked = list(zip(parents, np.where(np.isnan(values), 0.0, values).tolist(), strict=True))
        parts = [(place, rank) for parent, rank in ranked for place in self.parts[parent] if not over]
        equal_places = [place for place, rank in parts if self.pool.ranks[place] == rank]
        allowed = self._allowed(job, account, equal_places)
        offers = (self._offer(kind, job, parent, rank, allowed) for parent, rank in ranked)
        return [offer for offer in offers if offer is not None]

    def _too_little(self, kind: ResourceRequest, place: int) -> bool:
        remainder = self.shares.of(place)
        return remainder.carver.amounts_for(kind.job, remainder.left) is None

    def _allowed(self, job: ClassAd, account: CycleSubmitter, equal_places: list[int]) -> set[int]:
        """Return the dynamic slots of equal rank that may be preempted by priority. As in HTCondor, there are none if
        PREEMPTION_REQUIREMENTS is not set."""
        pool, requirements = self.pool, self.rules.preemption_requirements
        user = pool.submitters.get(account.name, -2)
        equal_places = [place for place in equal_places if self.eligible[place] and pool.users[place] != user]
        if not equal_places or requirements is None:
            return set()
        places = np.array(equal_places)
        values = pool.table.of_slots(requirements, job, places)
        true = ~np.isnan(values) & (values != 0) & self.behind(account, places)
        return set(places[true].tolist())

    def _offer(self, kind: ResourceRequest, job: ClassAd, parent: int, rank: float, allowed: set[int]) -> Offer | None:
        """Add dynamic slots to a partitionable slot until it matches; None if it never does."""
        pool, remainder = self.pool, self.shares.of(parent)
        left = {name: float(int(amount)) for name, amount in remainder.left.items()}
        ad, reason, preempted = pool.table.ad(parent), RANK, []
        for place in self.parts[parent]:
            current = float(pool.ranks[place])
            if current > rank or (current == rank and place not in allowed):
                continue
            reason = PRIORITY if current == rank else reason
            preempted.append(place)
            for name, amount in pool.ads.remaining_resources(pool.slots[place]).items():
                if name in left:
                    left[name] += int(amount)
                    ad[name] = int(left[name])
            amounts = remainder.carver.amounts_for(kind.job, left)
            if amounts is None or not symmetric_match(kind.job, ad, self.context):
                continue
            ad["RemoteUser"] = _USER
            enlarged = Remainder(remainder.slot, remainder.carver, left, ad)
            cores = self.shares.cores(enlarged, amounts, self.rules.use_slot_weights)
            key = key_of(*self.ranks(kind.job, ad), reason, self._preemption_rank(job, ad), parent)
            return Offer(key, reason, enlarged, amounts, cores, tuple(preempted))
        return None

    def _preemption_rank(self, job: ClassAd, ad: ClassAd) -> float:
        expression = self.rules.preemption_rank
        if expression is None:
            return LEAST
        return float(single(np.array([number_of(expression, ad, job, self.context)]))[0])


@define
class Remainder:
    """A partitionable slot and its remaining resources. ``version`` counts the cuts in this cycle; ``ad`` is the
    published ad with the remaining resources."""

    slot: Slot
    carver: SlotCarver
    left: dict[str, float]
    ad: ClassAd
    version: int = 0

    def take(self, amounts: Mapping[str, int]) -> None:
        for name, amount in amounts.items():
            self.left[name] -= amount
            self.ad[name] = int(self.left[name])
        self.version += 1


@define
class Remainders:
    """The partitionable slots that a cycle has considered so far."""

    state: Manager
    pool: PublicAds
    context: Context
    once: bool = False
    """Whether a slot without a consumption policy is matched only once, as a whole, because in HTCondor the access
    point divides the remainder."""
    by_place: dict[int, Remainder] = field(factory=dict)

    def of(self, place: int) -> Remainder:
        remainder = self.by_place.get(place)
        if remainder is None:
            slot = self.state.slots[self.pool.names[place]]
            ads = self.pool.ads
            left, ad = ads.remaining_resources(slot), self.pool.table.ad(place)
            remainder = self.by_place[place] = Remainder(slot, ads.slot_carver(slot), left, ad)
        return remainder

    def version(self, place: int) -> int:
        """Return how often a slot was cut in this cycle."""
        remainder = self.by_place.get(place)
        return 0 if remainder is None else remainder.version

    def can_match_again(self, remainder: Remainder) -> bool:
        """Check whether a slot that was cut may be matched again in this cycle."""
        return remainder.carver.has_consumption_policy or not self.once

    def cores(self, slot: Remainder, amounts: Mapping[str, int], weighted: bool) -> float:
        """Return the weight of a dynamic slot with these amounts: its SlotWeight, which is Cpus by default. Under a
        consumption policy, it is the decrease of the slot's weight, even if slot weights are not used (HTCondor's match
        cost)."""
        has_consumption_policy = slot.carver.has_consumption_policy
        if self.once and weighted and not has_consumption_policy:
            return self._weight({}, slot) if "SlotWeight" in slot.ad else float(slot.left.get("Cpus", 1))
        if not weighted and not has_consumption_policy:
            return 1.0
        if "SlotWeight" not in slot.ad:
            return float(amounts.get("Cpus", 1))
        if not has_consumption_policy:
            return self._weight({name: int(amount) for name, amount in amounts.items()}, slot)
        left = {name: int(slot.left[name] - amount) for name, amount in amounts.items()}
        return round((self._weight({}, slot) - self._weight(left, slot)) * 1000) / 1000

    def _weight(self, amounts: Mapping[str, int], slot: Remainder) -> float:
        """Return the SlotWeight of a slot with these amounts of its resources."""
        try:
            value = ClassAd(amounts, slot.ad).eval("SlotWeight", None, self.context)
        except EvaluationError:
            return 1.0
        fit = isinstance(value, int | float) and 0 <= value < 1e300
        return round(value * 1000) / 1000 if fit else 1.0
