"""Preemption of dynamic slots for a job that matches their partitionable slot (ALLOW_PSLOT_PREEMPTION).

A partitionable slot with too few resources for a job may match together with some of its dynamic slots. Dynamic slots
are added one by one, lowest CurrentRank first, until the job fits. A dynamic slot may be added if its current job ranks
below the new job. If both rank equally, it may be added if its job belongs to another user and PREEMPTION_REQUIREMENTS
is true. Slots with retirement time left are not added. Candidates are sorted by the partitionable slot's ad including
the returned resources. As in HTCondor, a partitionable slot has at most one such match per cycle, and a slot that a
match has cut is not enlarged in the same cycle. Source: the manual, "Preemption of Partitionable Slots"; HTCondor's
``Matchmaker::pslotMultiMatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from attrs import define, evolve, field, frozen

from ..classad import ClassAd, Context, EvaluationError, symmetric_match
from ..classad.columns import OTHER
from ..classad.tree import Attribute
from ..names import SlotName
from ..ports.slot_ads import SlotCarver
from ..state.records import Slot
from ..state.state import Manager
from .candidates import (
    LEAST,
    PRIORITY,
    RANK,
    Key,
    ResourceRequest,
    candidate_key,
    evaluate_number,
    round_to_single,
    submitter_attributes,
)
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import NegotiatorSettings
from .slot_table import NO_JOB, SLOT_RANK, Mask, RowNumbers, SlotAdTable

_USER = "various_dSlot_users"
"""The RemoteUser of a partitionable slot while it is ranked with the resources of its dynamic slots."""
RankFunction = Callable[[ClassAd, ClassAd], tuple[float, float, float]]
"""NEGOTIATOR_PRE_JOB_RANK, the job's Rank and NEGOTIATOR_POST_JOB_RANK for a job and a slot's ad."""
ComparePriorities = Callable[[CycleSubmitter, RowNumbers], Mask]
"""Returns a mask of the rows whose users have a worse priority than the submitter."""


@frozen
class PslotOffer:
    """A partitionable slot together with the resources that some of its dynamic slots would return."""

    key: Key
    reason: str
    rest: Remainder  #: with these resources, before the job takes its share
    amounts: dict[str, int]  #: the job's share
    cores: float
    preempted: tuple[int, ...]  #: the rows of the dynamic slots


@define
class _Offers:
    offers: list[PslotOffer]
    usage_changes: int  #: the value of ``CycleSubmitters.usage_changes`` when the offers were computed
    index: int = 0


@define
class PslotPreemption:
    """The dynamic slots that may be preempted in one cycle, by partitionable slot."""

    state: Manager
    pool: SlotAdTable
    context: Context
    rules: NegotiatorSettings
    accounts: CycleSubmitters
    remainders: Remainders
    eligible: Mask  #: the slots that the negotiator may match
    ranks: RankFunction
    has_worse_priority: ComparePriorities
    publish: Callable[[], None]  #: updates the usage by submitters in the slot ads
    dynamic_rows: dict[int, list[int]] = field(factory=dict)
    cached_offers: dict[tuple[int, str, bool], _Offers] = field(factory=dict)

    @classmethod
    def carved_slots(cls, pool: SlotAdTable) -> Mask:
        """Return a mask of the dynamic slots that partitionable slots list, none of which is preempted on its own."""
        return np.array([slot.kind == "dynamic" and pool.ads.has_rollup(slot) for slot in pool.slots], bool)

    def __attrs_post_init__(self) -> None:
        pool = self.pool
        for row in np.flatnonzero(pool.claimed & ~pool.retiring & self.carved_slots(pool)).tolist():
            parent = pool.row_of.get(pool.slots[row].parent, -1)
            if parent >= 0 and pool.free[parent] and self.eligible[parent]:
                self.dynamic_rows.setdefault(parent, []).append(row)
        for rows in self.dynamic_rows.values():
            rows.sort(key=lambda row: SlotName.parse(pool.slots[row].name).order)
            rows.sort(key=lambda row: float(pool.ranks[row]))

    @property
    def has_rank_preemption(self) -> bool:
        """Check whether any partitionable slot might rank another job above the job of one of its dynamic slots."""
        column = self.pool.table.columns.get("rank")
        if column is None or not self.dynamic_rows:
            return False
        parents = np.array(list(self.dynamic_rows))
        kinds = column.kinds[parents] if isinstance(column.kinds, np.ndarray) else np.array(column.kinds)
        if (kinds == OTHER).any():
            return True
        least = np.array([self.pool.ranks[rows[0]] for rows in self.dynamic_rows.values()])
        return bool((self.pool.table.of_slots(SLOT_RANK, NO_JOB, parents) > least).any())

    def has_available_slot(self, free: Mask) -> bool:
        """Check whether any partitionable slot is still available together with its dynamic slots."""
        return any(free[parent] and not self.remainders.version(parent) for parent in self.dynamic_rows)

    def best_offer(
        self,
        request: ResourceRequest,
        user: CycleSubmitter,
        over: bool,
        free: Mask,
        permits: Callable[[float, str], bool],
    ) -> PslotOffer | None:
        """Return the best offer for a job that the limits permit.

        :param over: whether the submitter has used its share, so that only slots whose RANK prefers the job count
        :param permits: returns whether the limits permit cores for this reason
        """
        key = (id(request), user.name, over)
        known = self.cached_offers.get(key)
        if known is None or (not self.rules.stable and known.usage_changes != self.accounts.usage_changes):
            if not self.rules.stable:
                self.publish()
            offers = sorted(self._offers(request, user, over, free), key=lambda offer: offer.key)
            known = self.cached_offers[key] = _Offers(offers, self.accounts.usage_changes)
        while known.index < len(known.offers) and not self._is_available(known.offers[known.index], free):
            known.index += 1
        for offer in known.offers[known.index :]:
            allowed = request.limits is None or request.limits.allows(offer.key[5])
            if allowed and self._is_available(offer, free) and permits(offer.cores, offer.reason):
                return offer
        return None

    def accept_offer(self, offer: PslotOffer, job: ClassAd) -> Remainder:
        """Take an offer for a job; return what remains of the slot."""
        remainder = evolve(offer.rest, resources=dict(offer.rest.resources), ad=offer.rest.ad.copy())
        self.remainders.by_row[offer.key[5]] = remainder
        del remainder.ad["RemoteUser"]
        remainder.subtract(offer.amounts, job)
        return remainder

    def _is_available(self, offer: PslotOffer, free: Mask) -> bool:
        row = offer.key[5]
        return bool(free[row]) and not self.remainders.version(row)

    def _offers(
        self, request: ResourceRequest, account: CycleSubmitter, over: bool, free: Mask
    ) -> Sequence[PslotOffer]:
        parents = [row for row in self.dynamic_rows if free[row] and not self.remainders.version(row)]
        parents = [
            row for row in parents if not request.match[row] or self.remainders.amounts(row, request.job) is None
        ]
        if not parents:
            return []
        job = ClassAd(submitter_attributes(account, self.accounts), request.job)
        values = self.pool.table.of_slots(SLOT_RANK, job, np.array(parents))
        ranked = list(zip(parents, np.where(np.isnan(values), 0.0, values).tolist(), strict=True))
        dynamic_rows = [(row, rank) for parent, rank in ranked for row in self.dynamic_rows[parent] if not over]
        equal_rows = [row for row, rank in dynamic_rows if self.pool.ranks[row] == rank]
        allowed = self._allowed(job, account, equal_rows)
        offers = (self._offer(request, job, parent, rank, allowed) for parent, rank in ranked)
        return [offer for offer in offers if offer is not None]

    def _allowed(self, job: ClassAd, account: CycleSubmitter, equal_rows: list[int]) -> set[int]:
        """Return the dynamic slots of equal rank to preempt by priority; none if PREEMPTION_REQUIREMENTS is not set."""
        pool, requirements = self.pool, self.rules.preemption_requirements
        user = pool.submitters.get(account.name, -2)
        equal_rows = [row for row in equal_rows if self.eligible[row] and pool.user_numbers[row] != user]
        if not equal_rows or requirements is None:
            return set()
        rows = np.array(equal_rows)
        values = pool.table.of_slots(requirements, job, rows)
        true = ~np.isnan(values) & (values != 0) & self.has_worse_priority(account, rows)
        return set(rows[true].tolist())

    def _offer(
        self, request: ResourceRequest, job: ClassAd, parent: int, rank: float, allowed: set[int]
    ) -> PslotOffer | None:
        pool, remainder = self.pool, self.remainders.remainder_of_row(parent)
        resources = {name: float(int(amount)) for name, amount in remainder.resources.items()}
        ad, reason, preempted = pool.table.ad(parent), RANK, []
        for row in self.dynamic_rows[parent]:
            current = float(pool.ranks[row])
            if current > rank or (current == rank and row not in allowed):
                continue
            reason = PRIORITY if current == rank else reason
            preempted.append(row)
            for name, amount in pool.ads.remaining_resources(pool.slots[row]).items():
                if name in resources:
                    resources[name] += int(amount)
                    ad[name] = int(resources[name])
            amounts = remainder.carver.amounts_for(request.job, resources)
            if amounts is None or not symmetric_match(request.job, ad, self.context):
                continue
            ad["RemoteUser"] = _USER
            enlarged = Remainder(remainder.slot, remainder.carver, resources, ad)
            cores = self.remainders.cores(enlarged, amounts, self.rules.use_slot_weights)
            key = candidate_key(*self.ranks(request.job, ad), reason, self._preemption_rank(job, ad), parent)
            return PslotOffer(key, reason, enlarged, amounts, cores, tuple(preempted))
        return None

    def _preemption_rank(self, job: ClassAd, ad: ClassAd) -> float:
        expression = self.rules.preemption_rank
        if expression is None:
            return LEAST
        return float(round_to_single(np.array([evaluate_number(expression, ad, job, self.context)]))[0])


@define
class Remainder:
    """A partitionable slot and the resources that the cycle's matches have left."""

    slot: Slot
    carver: SlotCarver
    resources: dict[str, float]
    ad: ClassAd
    version: int = 0

    def subtract(self, amounts: Mapping[str, int], job: ClassAd) -> None:
        """Subtract what a job takes."""
        if self.carver.devices:
            for name, available in (self.carver.devices_left(job, self.ad, amounts) or {}).items():
                self.ad[name] = available
        for name, amount in amounts.items():
            self.resources[name] -= amount
            self.ad[name] = int(self.resources[name])
        self.version += 1


@define
class Remainders:
    """The partitionable slots that a cycle has considered so far."""

    state: Manager
    pool: SlotAdTable
    context: Context
    once: bool = False
    """Whether a slot without a consumption policy is matched only once, as a whole, because in HTCondor the access
    point divides the remainder."""
    by_row: dict[int, Remainder] = field(factory=dict)

    def remainder_of_row(self, row: int) -> Remainder:
        remainder = self.by_row.get(row)
        if remainder is None:
            slot = self.state.slots[self.pool.names[row]]
            ads = self.pool.ads
            resources, ad = ads.remaining_resources(slot), self.pool.table.ad(row)
            remainder = self.by_row[row] = Remainder(slot, ads.slot_carver(slot), resources, ad)
        return remainder

    def amounts(self, row: int, job: ClassAd) -> dict[str, int] | None:
        """Return the resource amounts that a job would use of a partitionable slot, or None if too little is left."""
        remainder = self.remainder_of_row(row)
        carver = remainder.carver
        amounts = carver.amounts_for(job, remainder.resources)
        if amounts is not None and carver.devices and carver.devices_left(job, remainder.ad, amounts) is None:
            return None
        return amounts

    def version(self, row: int) -> int:
        """Return how often matches have cut resources from a slot in this cycle."""
        remainder = self.by_row.get(row)
        return 0 if remainder is None else remainder.version

    def cores(self, slot: Remainder, amounts: Mapping[str, int], weighted: bool) -> float:
        """Return the weight of a dynamic slot with these resource amounts: its SlotWeight, which is Cpus by default.
        Under a consumption policy, this is the decrease of the partitionable slot's weight, even if slot weights are
        not used (HTCondor's match cost)."""
        has_consumption_policy = slot.carver.has_consumption_policy
        if self.once and weighted and not has_consumption_policy:
            return self._weight({}, slot) if "SlotWeight" in slot.ad else float(slot.resources.get("Cpus", 1))
        if not weighted and not has_consumption_policy:
            return 1.0
        weight = slot.ad.get("SlotWeight")
        is_cpus = type(weight) is Attribute and weight.key == "cpus" and weight.base is None
        if weight is None or (is_cpus and not has_consumption_policy):
            return float(amounts.get("Cpus", 1))
        if not has_consumption_policy:
            return self._weight({name: int(amount) for name, amount in amounts.items()}, slot)
        resources = {name: int(slot.resources[name] - amount) for name, amount in amounts.items()}
        return round((self._weight({}, slot) - self._weight(resources, slot)) * 1000) / 1000

    def _weight(self, amounts: Mapping[str, int], slot: Remainder) -> float:
        try:
            value = ClassAd(amounts, slot.ad).eval("SlotWeight", None, self.context)
        except EvaluationError:
            return 1.0
        fit = isinstance(value, int | float) and 0 <= value < 1e300
        return round(value * 1000) / 1000 if fit else 1.0
