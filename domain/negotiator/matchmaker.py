"""Choose the best slot for each job, one job after another.

Which slots match a request, and in which order, stays the same for the whole cycle. A partitionable slot stays in the
order while it has resources left, and is ranked again after each match that takes resources from it.
"""

from __future__ import annotations

import heapq
from collections import ChainMap
from math import inf, isnan

import numpy as np
from attrs import define, field
from msgspec import Struct

from ..classad import ClassAd, Context, Expression
from ..events import Match
from ..names import dynamic_name
from ..state.caches import Caches
from ..state.cluster import Cluster
from ..state.pool_settings import MATCH_ATTRIBUTES
from ..state.state import Manager
from .candidates import (
    LEAST,
    UNCLAIMED,
    Key,
    ResourceRequest,
    SlotRanks,
    candidate_key,
    evaluate_number,
    is_true,
    job_rank,
    publish_match_attributes,
    publish_user_attributes,
    round_number_to_single,
)
from .claimed_slots import ClaimedSlots
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import NegotiatorSettings
from .pslot_preemption import PslotOffer, PslotPreemption, Remainder, Remainders
from .share_limits import EASING, QUOTA, SpinLimits
from .slot_table import CPUS, NO_JOB, Mask, SlotAdTable

NEEDED = ("Cpus", "Memory")
"""Resources of which every job takes at least 1."""


class ChosenMatch(Struct, frozen=True):
    """A job and the slot with which the cycle matched it."""

    cluster: Cluster
    proc: int
    slot: str
    name: str  #: the slot's name, or the name of the dynamic slot that the match carves from it
    reason: str
    cores: float
    request: ResourceRequest
    row: int
    key: Key | None = None  #: the sort key, unless it follows from the slot's row: the slot was cut, or is claimed
    limits: str = ""  #: the concurrency limits that the job uses
    preempts: tuple[str, ...] = ()  #: the dynamic slots whose resources it takes
    ad: ClassAd | None = None  #: the matched ad with the resources of preempted slots, if not the slot's row
    regrouped: bool = False  #: whether the submitter negotiated by autoregroup


@define
class Matchmaker:
    """The slots available in one cycle, and the matches made so far."""

    state: Manager
    caches: Caches
    context: Context
    rules: NegotiatorSettings
    accounts: CycleSubmitters
    pool: SlotAdTable
    choices: list[ChosenMatch] = field(factory=list)
    counted: Mask = field(init=False)  #: rejection reasons count the slot: the negotiator's slots, but dynamic ones
    free: Mask = field(init=False)
    claimed: ClaimedSlots = field(init=False)
    lightest: float = inf  #: the fewest cores that a match may use
    lightest_slot: float = inf
    """The weight of the lightest whole slot (HTCondor's minSlotWeight), less the allowed rounding error."""
    _names: ChainMap[str, object] = field(init=False)  #: the slots, and the dynamic slots that the cycle carves
    _cuts: list[int] = field(factory=list)  #: the slots that matches cut resources from, in order
    _weights: list[float] = field(factory=list)
    remainders: Remainders = field(init=False)
    ranks: SlotRanks = field(init=False)
    pslots: PslotPreemption | None = None  #: the dynamic slots that may be preempted, if any

    def __attrs_post_init__(self) -> None:
        pool = self.pool
        matching = self._select(self.rules.slot_constraint)
        self.counted, self.free = pool.counted & matching, pool.free & matching
        self.claimed = ClaimedSlots(self.state, self.rules, self.accounts, pool, matching, self.publish)
        self._names = ChainMap({}, self.state.slots, self.state.slot_matches)  # type: ignore[arg-type]
        self.remainders = Remainders(self.state, pool, self.context)
        self.ranks = SlotRanks(pool, self.rules)

    def weigh_slots(self) -> tuple[float, float]:
        """Compute the slots' weights. Return the cores of all slots, and the fewest cores that a match may use."""
        pool, rules = self.pool, self.rules
        weights = pool.weights if rules.use_slot_weights else np.full(len(pool.names), 1000)
        self._weights = self.claimed.weights = (weights / 1000).tolist()
        matching, counted = self._select(rules.slot_constraint), self._select(rules.poolsize_constraint)
        total = int(weights[matching & counted].sum()) / 1000
        self.lightest_slot = float(weights[matching].min()) / 1000 - EASING if matching.any() else inf
        lightest = weights
        if rules.use_slot_weights and pool.shared.any():
            cores = pool.table.of_slots(CPUS, NO_JOB)
            lightest = np.where(pool.shared & (cores > 1), weights / np.where(cores > 1, cores, 1.0), weights)
        self.lightest = float(lightest[matching].min()) / 1000 if matching.any() else inf
        return total, self.lightest

    def consider_pslots(self) -> None:
        """Find the dynamic slots that may be preempted for a job on their partitionable slot."""
        if not (self.rules.allow_pslot_preemption and self.rules.consider_preemption):
            return
        matching = self._select(self.rules.slot_constraint)
        pslots = PslotPreemption(
            self.state, self.pool, self.context, self.rules, self.accounts, self.remainders, matching,
            self._scalar_ranks, self.claimed.has_worse_priority, self.publish,
        )  # fmt: skip
        if pslots.dynamic_rows:
            self.pslots = pslots
            self.claimed.has_rank_preemption = self.claimed.has_rank_preemption or pslots.has_rank_preemption

    def cores(self, row: int) -> float:
        """Return the weight of the whole slot in this row, in cores."""
        return self._weights[row]

    def _select(self, constraint: Expression | None) -> Mask:
        if constraint is None:
            return np.ones(len(self.pool.names), bool)
        return is_true(self.pool.table.of_slots(constraint, NO_JOB))

    def publish(self) -> None:
        """Set the attributes that only the negotiator's slot ads have, if this cycle reads them."""
        read = self.pool.attributes_read()
        publish_user_attributes(self.pool, self.accounts, read)
        publish_match_attributes(self.pool, MATCH_ATTRIBUTES.in_settings(self.state.settings), read)

    def any_available(self) -> bool:
        """Check whether any slot is still available."""
        return bool(self.free.any()) or bool(self.claimed.count)

    def candidates(self) -> int:
        return int((self.pool.free | self.claimed.mask).sum())

    def has_available_slot(self, request: ResourceRequest) -> bool:
        """Check whether any slot that matches the request is still available."""
        free = bool((request.match & (self.free | self.claimed.mask)).any())
        return free or (self.pslots is not None and self.pslots.has_available_slot(self.free))

    def best_slot(
        self,
        request: ResourceRequest,
        user: CycleSubmitter,
        cluster: Cluster,
        proc: int,
        limits: SpinLimits,
        over: bool,
    ) -> ChosenMatch | None:
        """Take the best available slot for a job; return None if the limits permit no slot.

        :param over: whether the submitter has used its share, so that only slots whose RANK prefers the job count
        """
        limits.stopped = ""
        free = None if over or self._forbids_free(request, limits) else self._best_free_slot(request, limits)
        claimed = self.claimed.best_slot(request, user, over, limits)
        offer = None if self.pslots is None else self.pslots.best_offer(request, user, over, self.free, limits.permits)
        if offer is not None and all(each is None or offer.key < each[0] for each in (free, claimed)):
            choice = self._take_offer(request, user, cluster, proc, offer)
        elif claimed is not None and (free is None or claimed[0] < free[0]):
            choice = self._take_claimed(request, user, cluster, proc, *claimed)
        elif free is not None:
            choice = self._take_free(request, user, cluster, proc, *free)
        else:
            return None
        limits.count_match(
            choice.cores, choice.reason, bool(choice.reason) and self.claimed.is_within_group(user, choice.row)
        )
        return choice

    def _forbids_free(self, request: ResourceRequest, limits: SpinLimits) -> bool:
        """Check whether the quota of the submitter's group allows no unclaimed slot at all."""
        if limits.capped != QUOTA and limits.quota == inf:
            return False
        share = limits.got_free + self.lightest <= limits.unclaimed + EASING or limits.got_free <= 0 < limits.unclaimed
        forbids = limits.quota + EASING < self.lightest or not share
        if forbids and bool((request.match & self.free).any()):
            limits.stopped = limits.capped if limits.quota == inf else QUOTA
        return forbids

    def _extend_free_rows(self, request: ResourceRequest) -> bool:
        if request.parts is None:
            request.parts = self.ranks.parts(request, self.free)
        part = next(request.parts, None)
        if part is not None:
            request.free_rows, request.index = [*(request.free_rows or [])[request.index :], *part.tolist()], 0
            return True
        request.free_rows = request.free_rows or []
        return False

    def _best_free_slot(self, request: ResourceRequest, limits: SpinLimits) -> tuple[Key, int] | None:
        if request.cuts < len(self._cuts):
            self._follow_cuts(request)
        first = self._first_free(request, limits)
        cut_slot = self._best_cut_slot(request, limits) if request.cut_slots else None
        if first < 0:
            return cut_slot
        key = self._key(request, first)
        return cut_slot if cut_slot is not None and cut_slot[0] < key else (key, first)

    def _first_free(self, request: ResourceRequest, limits: SpinLimits) -> int:
        free, shared, weights = self.free, self.pool.shared, self._weights
        at = request.index
        while True:
            rows = request.free_rows
            if rows is None or at >= len(rows):
                before = 0 if rows is None else len(rows) - request.index
                if not self._extend_free_rows(request):
                    return -1
                at = request.index + before
                continue
            row = rows[at]
            if not free[row]:
                is_gone = True
            elif shared[row] and (self.remainders.version(row) or not self.remainders.amounts(row, request.job)):
                is_gone = True  # it is in ``cut_slots`` if enough of it is left
            elif request.limits is not None and not request.limits.allows(row):
                is_gone = True
            elif limits.permits(self._cores_of(row, request) if shared[row] else weights[row], UNCLAIMED):
                return row
            else:
                is_gone = False  # a slot that is only forbidden by limits may be taken later
            if is_gone and at == request.index:
                request.index += 1
            at += 1

    def _key(self, request: ResourceRequest, row: int) -> Key:
        if not request.cut_slots and not self.claimed.count and self.pslots is None:
            return 0.0, 0.0, 0.0, 0, 0.0, row
        remainder = self.remainders.by_row.get(row)
        version = 0 if remainder is None else remainder.version
        if request.cached_key is None or request.cached_key[:2] != (row, version):
            ad = remainder.ad if remainder is not None else self.pool.table.ad(row)
            request.cached_key = (
                row,
                version,
                candidate_key(*self._scalar_ranks(request.job, ad), UNCLAIMED, LEAST, row),
            )
        return request.cached_key[2]

    def _scalar_ranks(self, job: ClassAd, ad: ClassAd) -> tuple[float, float, float]:
        pre = evaluate_number(self.rules.pre_job_rank, ad, job, self.context)
        post = evaluate_number(self.rules.post_job_rank, ad, job, self.context)
        rank = evaluate_number(job.get("Rank"), job, ad, self.context)
        return (
            round_number_to_single(pre),
            0.0 if isnan(rank) else min(max(rank, LEAST), -LEAST),
            round_number_to_single(post),
        )

    def _cores_of(self, row: int, request: ResourceRequest) -> float:
        amounts = self.remainders.amounts(row, request.job)
        assert amounts is not None
        return self.remainders.cores(self.remainders.remainder_of_row(row), amounts, self.rules.use_slot_weights)

    def _follow_cuts(self, request: ResourceRequest) -> None:
        """Rank slots again that matches have cut since this request was last considered: they may rank higher now."""
        for row in dict.fromkeys(self._cuts[request.cuts :]):
            if not request.match[row] or not self.free[row] or self.remainders.amounts(row, request.job) is None:
                continue
            remainder = self.remainders.remainder_of_row(row)
            if request.planned.plan.still_matches(row, remainder.ad):
                key = candidate_key(*self._scalar_ranks(request.job, remainder.ad), UNCLAIMED, LEAST, row)
                heapq.heappush(request.cut_slots, (key, remainder.version))
        request.cuts = len(self._cuts)

    def _best_cut_slot(self, request: ResourceRequest, limits: SpinLimits) -> tuple[Key, int] | None:
        entries: list[tuple[Key, int]] = []
        best = None
        while request.cut_slots:
            key, version = request.cut_slots[0]
            row = key[5]
            if version != self.remainders.version(row):
                heapq.heappop(request.cut_slots)  # it is in the heap a second time, with its current rank
            elif request.limits is not None and not request.limits.allows(row):
                heapq.heappop(request.cut_slots)
            elif limits.permits(self._cores_of(row, request), UNCLAIMED):
                best = (key, row)
                break
            else:
                entries.append(heapq.heappop(request.cut_slots))
        for entry in entries:
            heapq.heappush(request.cut_slots, entry)
        return best

    def _take_free(
        self, request: ResourceRequest, account: CycleSubmitter, cluster: Cluster, proc: int, key: Key, row: int
    ) -> ChosenMatch:
        name = self.pool.names[row]
        if not self.pool.shared[row]:
            self.free[row] = False
            weight, limits, regroups = self._weights[row], _take_limits(request, row), self.accounts.regrouping
            choice = ChosenMatch(
                cluster, proc, name, name, UNCLAIMED, weight, request, row, limits=limits, regrouped=regroups
            )
            return self._add_choice(choice, account)
        amounts = self.remainders.amounts(row, request.job)
        assert amounts is not None
        remainder = self.remainders.remainder_of_row(row)
        cores = self.remainders.cores(remainder, amounts, self.rules.use_slot_weights)
        ranked = key if remainder.version else None
        remainder.subtract(amounts, request.job)
        part, limits = self._record_cut(name, row, remainder), _take_limits(request, row)
        choice = ChosenMatch(
            cluster,
            proc,
            name,
            part,
            UNCLAIMED,
            cores,
            request,
            row,
            ranked,
            limits,
            regrouped=self.accounts.regrouping,
        )
        return self._add_choice(choice, account)

    def _record_cut(self, name: str, row: int, remainder: Remainder) -> str:
        self._cuts.append(row)
        enough = all(remainder.resources.get(name, 1) >= 1 for name in NEEDED)  # else there is too little for any job
        self.free[row] = enough and (remainder.carver.has_consumption_policy or not self.remainders.once)
        if not self.state.dialect.informs_startd_of_matches:
            return name  # the startd carves the dynamic slot on the claim
        part = dynamic_name(name, self._names)
        self._names[part] = None
        return part

    def _take_offer(
        self, request: ResourceRequest, account: CycleSubmitter, cluster: Cluster, proc: int, offer: PslotOffer
    ) -> ChosenMatch:
        assert self.pslots is not None
        row, remainder = offer.key[5], self.pslots.accept_offer(offer, request.job)
        name = self.pool.names[row]
        part = self._record_cut(name, row, remainder)
        parts = tuple([self.pool.names[each] for each in offer.preempted])
        limits = _take_limits(request, row)
        choice = ChosenMatch(
            cluster, proc, name, part, offer.reason, offer.cores, request, row, offer.key, limits, parts, offer.rest.ad,
            self.accounts.regrouping,
        )  # fmt: skip
        return self._add_choice(choice, account)

    def _add_choice(
        self, choice: ChosenMatch, account: CycleSubmitter, before: CycleSubmitter | None = None
    ) -> ChosenMatch:
        self.choices.append(choice)
        self.accounts.move_usage(account, choice.cores, before)
        return choice

    def _take_claimed(
        self, request: ResourceRequest, account: CycleSubmitter, cluster: Cluster, proc: int, key: Key, reason: str
    ) -> ChosenMatch:
        row = key[5]
        before, name, cores = self.claimed.take_from_user(row), self.pool.names[row], self._weights[row]
        limits, regroups = _take_limits(request, row), self.accounts.regrouping
        choice = ChosenMatch(cluster, proc, name, name, reason, cores, request, row, key, limits, regrouped=regroups)
        return self._add_choice(choice, account, before)

    def matches_whole(self) -> bool:
        """Check whether any match names a partitionable slot, from which a dynamic slot is carved on the claim."""
        return bool(self._cuts) and not self.state.dialect.informs_startd_of_matches

    def matches(self) -> tuple[Match, ...]:
        """Return the matches as events record them."""
        by_request: dict[int, list[int]] = {}
        for number, pick in enumerate(self.choices):
            by_request.setdefault(id(pick.request), []).append(number)
        matches: list[Match | None] = [None] * len(self.choices)
        for numbers in by_request.values():
            request = self.choices[numbers[0]].request
            rows = np.array([self.choices[number].row for number in numbers])
            rank = job_rank(np.array([evaluate_number(request.job.get("Rank"), request.job, NO_JOB, self.context)]))
            values = [self.ranks.rank_values(name, request.job, rows) for name in self.ranks.names_of(request)]
            pairs = zip((0.0, float(rank[0]), 0.0), values, strict=True)
            columns = [[same] * len(numbers) if cells is None else cells.tolist() for same, cells in pairs]
            for number, pre, rank, post in zip(numbers, *columns, strict=True):
                pick = self.choices[number]
                ranks, last = (rank, pre, post), 0.0
                if pick.key is not None:
                    ranks = (-pick.key[1], -pick.key[0], -pick.key[2])
                    ranks, last = self._logged_ranks(ranks, -pick.key[4] if pick.reason else 0.0)
                job = f"{pick.cluster.id}.{pick.proc}"
                ranked = Match(job, pick.name, ranks[0], pick.reason, *ranks[1:], last, pick.limits, pick.preempts)
                matches[number] = ranked
        return tuple(match for match in matches if match is not None)

    def _logged_ranks(self, ranks: tuple[float, float, float], last: float) -> tuple[tuple[float, float, float], float]:
        rules = self.rules
        pre = 0.0 if rules.pre_job_rank is None else ranks[1]
        post = 0.0 if rules.post_job_rank is None else ranks[2]
        return (ranks[0], pre, post), 0.0 if rules.preemption_rank is None else last


def _take_limits(request: ResourceRequest, row: int) -> str:
    return "" if request.limits is None else request.limits.take_units(row)
