"""Choose the best slot for each job in turn.

The matching slots of a kind of jobs, and their order, are the same for the whole cycle. A partitionable slot stays in
the order while it has resources left, and is ranked again after each cut.
"""

from __future__ import annotations

import heapq
from math import inf, isnan

import numpy as np
from attrs import define, field, frozen

from ..classad import ClassAd, Context, Expression, parse
from ..events import Match
from ..names import dynamic_name
from ..state.caches import Caches
from ..state.cluster import Cluster
from ..state.state import Manager
from .candidates import (
    LEAST,
    NOBODY,
    Key,
    Ranks,
    ResourceRequest,
    is_true,
    job_rank,
    key_of,
    number_of,
    publish_remote,
    single_number,
)
from .claimed_slots import ClaimedSlots
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import Negotiator
from .pslot_preemption import Offer, PslotPreemption, Remainder, Remainders
from .share_limits import EASING, QUOTA, SpinLimits
from .slot_table import Mask, PublicAds

_RANK_OF, _CPUS = parse("MY.Rank"), parse("Cpus")
_NOBODY = ClassAd()
NEEDED = ("Cpus", "Memory")
"""Resources of which every job takes at least 1."""


@frozen
class Choice:
    """A job and the slot with which the cycle matched it."""

    cluster: Cluster
    proc: int
    slot: str
    name: str  #: the slot's name, or the name of the dynamic slot that the match carves from it
    reason: str
    cores: float
    kind: ResourceRequest
    place: int
    key: Key | None = None  #: the sort key, unless it follows from the slot's row: the slot was cut, or is claimed
    limits: str = ""  #: the concurrency limits that the job uses
    preempts: tuple[str, ...] = ()  #: the dynamic slots whose resources it takes
    ad: ClassAd | None = None  #: the matched ad with the resources of preempted slots, if not the slot's row
    regrouped: bool = False  #: whether the submitter negotiated by autoregroup


@define
class Matchmaker:
    state: Manager
    caches: Caches
    context: Context
    rules: Negotiator
    accounts: CycleSubmitters
    pool: PublicAds
    choices: list[Choice] = field(factory=list)
    free: Mask = field(init=False)
    claimed: ClaimedSlots = field(init=False)
    total: float = 0.0
    lightest: float = inf  #: the fewest cores that a match may use
    lightest_slot: float = inf  #: the weight of the lightest whole slot (HTCondor's minSlotWeight)
    _names: set[str] = field(init=False)
    _cuts: list[int] = field(factory=list)  #: the slots that matches cut resources from, in order
    _weights: list[float] = field(factory=list)
    shares: Remainders = field(init=False)
    ranks: Ranks = field(init=False)
    pslots: PslotPreemption | None = None  #: the dynamic slots that may be preempted, if any

    def __attrs_post_init__(self) -> None:
        pool = self.pool
        matching = self._select(self.rules.slot_constraint)
        self.free = pool.free & matching
        self.claimed = ClaimedSlots(self.state, self.rules, self.accounts, pool, matching, self.publish)
        self._names = set(self.state.slots)
        self.shares = Remainders(self.state, pool, self.context)
        self.ranks = Ranks(pool, self.rules)

    @property
    def prefers(self) -> bool:
        """Check whether any slot might be preempted because it prefers another job."""
        return self.claimed.prefers

    def weigh(self) -> tuple[float, float]:
        """Return the cores of all slots, and the fewest that a match may use: one core of a partitionable slot."""
        pool, rules = self.pool, self.rules
        weights = pool.weights if rules.use_slot_weights else np.full(len(pool.names), 1000)
        self._weights = self.claimed.weights = (weights / 1000).tolist()
        matching, counted = self._select(rules.slot_constraint), self._select(rules.poolsize_constraint)
        self.total = int(weights[matching & counted].sum()) / 1000
        self.lightest_slot = float(weights[matching].min()) / 1000 if matching.any() else inf
        lightest = weights
        if rules.use_slot_weights and pool.shared.any():
            cores = pool.table.of_slots(_CPUS, _NOBODY)
            lightest = np.where(pool.shared & (cores > 1), weights / np.where(cores > 1, cores, 1.0), weights)
        self.lightest = float(lightest[matching].min()) / 1000 if matching.any() else inf
        return self.total, self.lightest

    def consider_pslots(self) -> None:
        """Find the dynamic slots that may be preempted for a job on their partitionable slot."""
        if not (self.rules.allow_pslot_preemption and self.rules.consider_preemption):
            return
        matching = self._select(self.rules.slot_constraint)
        pslots = PslotPreemption(
            self.state, self.pool, self.context, self.rules, self.accounts, self.shares, matching, self.total,
            self._scalar_ranks, self.claimed.behind, self.publish,
        )  # fmt: skip
        if pslots.parts:
            self.pslots = pslots
            self.claimed.prefers = self.claimed.prefers or pslots.prefers

    def cores(self, place: int) -> float:
        """Return the weight of a whole slot, in cores."""
        return self._weights[place]

    def _select(self, constraint: Expression | None) -> Mask:
        """Return the rows of slots for which a constraint is true."""
        if constraint is None:
            return np.ones(len(self.pool.names), bool)
        return is_true(self.pool.table.of_slots(constraint, _NOBODY))

    def publish(self) -> None:
        """Set the attributes about the slots' users in the slots' ads, for this cycle."""
        publish_remote(self.pool, self.accounts, self.pool.read())

    def any_left(self) -> bool:
        """Check whether any slot is still available."""
        return bool(self.free.any()) or bool(self.claimed.count)

    def candidates(self) -> int:
        """Return the number of slots considered."""
        return int((self.pool.free | self.claimed.mask).sum())

    def leaves_any(self, kind: ResourceRequest) -> bool:
        """Check whether any slot that matches such jobs is still available."""
        free = bool((kind.match & (self.free | self.claimed.mask)).any())
        return free or (self.pslots is not None and self.pslots.leaves_any(self.free))

    # The best slot

    def best(
        self, kind: ResourceRequest, user: CycleSubmitter, cluster: Cluster, proc: int, limits: SpinLimits, over: bool
    ) -> Choice | None:
        """Take the best available slot for a job; None if the limits permit none.

        :param over: the submitter has used its share: only slots that prefer the job count
        """
        limits.stopped = ""
        free = None if over or self._forbids_free(kind, limits) else self._best_free_slot(kind, limits)
        claimed = self.claimed.best(kind, user, over, limits)
        offer = None if self.pslots is None else self.pslots.best(kind, user, over, self.free, limits.permits)
        if offer is not None and all(each is None or offer.key < each[0] for each in (free, claimed)):
            choice = self._take_offer(kind, user, cluster, proc, offer)
        elif claimed is not None and (free is None or claimed[0] < free[0]):
            choice = self._take_claimed(kind, user, cluster, proc, *claimed)
        elif free is not None:
            choice = self._take_free(kind, user, cluster, proc, *free)
        else:
            return None
        limits.take(choice.cores, choice.reason, bool(choice.reason) and self.claimed.swaps(user, choice.place))
        return choice

    # Unclaimed slots

    def _forbids_free(self, kind: ResourceRequest, limits: SpinLimits) -> bool:
        """Check whether a group's quota allows no unclaimed slot at all."""
        if limits.capped != QUOTA and limits.quota == inf:
            return False
        share = limits.fresh + self.lightest <= limits.unclaimed + EASING or limits.fresh <= 0 < limits.unclaimed
        forbids = limits.quota + EASING < self.lightest or not share
        if forbids and bool((kind.match & self.free).any()):
            limits.stopped = limits.capped if limits.quota == inf else QUOTA
        return forbids

    def _extend_free_places(self, kind: ResourceRequest) -> bool:
        """Add the next part of the free slots; return False if there are no more."""
        if kind.parts is None:
            kind.parts = self.ranks.parts(kind, self.free)
        for part in kind.parts:
            part = part[kind.match[part] & self.free[part]]
            if len(part):
                kind.free_places, kind.index = [*(kind.free_places or [])[kind.index :], *part.tolist()], 0
                return True
        kind.free_places = kind.free_places or []
        return False

    def _best_free_slot(self, kind: ResourceRequest, limits: SpinLimits) -> tuple[Key, int] | None:
        """Return the key and the row of the best unclaimed slot."""
        if kind.cuts < len(self._cuts):
            self._follow_cuts(kind)
        first = self._first_free(kind, limits)
        cut_slot = self._best_cut_slot(kind, limits) if kind.cut_slots else None
        if first < 0:
            return cut_slot
        key = self._key(kind, first)
        return cut_slot if cut_slot is not None and cut_slot[0] < key else (key, first)

    def _first_free(self, kind: ResourceRequest, limits: SpinLimits) -> int:
        """Return the row of the first slot that is still available; -1 if there is none."""
        free, shared, weights = self.free, self.pool.shared, self._weights
        at = kind.index
        while True:
            places = kind.free_places
            if places is None or at >= len(places):
                before = 0 if places is None else len(places) - kind.index
                if not self._extend_free_places(kind):
                    return -1
                at = kind.index + before
                continue
            place = places[at]
            if not free[place]:
                is_gone = True
            elif shared[place] and (self.shares.version(place) or not self._amounts(place, kind)):
                is_gone = True  # it is in ``cut_slots`` if enough of it is left
            elif kind.limits is not None and not kind.limits.allows(place):
                is_gone = True
            elif limits.permits(self._cores_of(place, kind) if shared[place] else weights[place], NOBODY):
                return place
            else:
                is_gone = False  # a slot that is only forbidden by limits may be taken later
            if is_gone and at == kind.index:
                kind.index += 1
            at += 1

    def _key(self, kind: ResourceRequest, place: int) -> Key:
        """Return the sort key of an unclaimed slot, which is needed only for comparison with another slot."""
        if not kind.cut_slots and not self.claimed.count and self.pslots is None:
            return 0.0, 0.0, 0.0, 0, 0.0, place
        remainder = self.shares.by_place.get(place)
        version = 0 if remainder is None else remainder.version
        if kind.cached_key is None or kind.cached_key[:2] != (place, version):
            ad = remainder.ad if remainder is not None else self.pool.table.ad(place)
            kind.cached_key = place, version, key_of(*self._scalar_ranks(kind.job, ad), NOBODY, LEAST, place)
        return kind.cached_key[2]

    def _scalar_ranks(self, job: ClassAd, ad: ClassAd) -> tuple[float, float, float]:
        pre = number_of(self.rules.pre_job_rank, ad, job, self.context)
        post = number_of(self.rules.post_job_rank, ad, job, self.context)
        rank = number_of(job.get("Rank"), job, ad, self.context)
        return single_number(pre), 0.0 if isnan(rank) else min(max(rank, LEAST), -LEAST), single_number(post)

    def _amounts(self, place: int, kind: ResourceRequest) -> dict[str, int] | None:
        """Return the amounts that a job uses of a partitionable slot; None if too little is left."""
        remainder = self.shares.of(place)
        return remainder.carver.amounts_for(kind.job, remainder.left)

    def _cores_of(self, place: int, kind: ResourceRequest) -> float:
        amounts = self._amounts(place, kind)
        assert amounts is not None
        return self.shares.cores(self.shares.of(place), amounts, self.rules.use_slot_weights)

    def _follow_cuts(self, kind: ResourceRequest) -> None:
        """Rank again the slots that were cut since these jobs' last turn, because one may now be better than before."""
        for place in dict.fromkeys(self._cuts[kind.cuts :]):
            if not kind.match[place] or not self.free[place] or self._amounts(place, kind) is None:
                continue
            remainder = self.shares.of(place)
            if kind.planned.plan.still_matches(place, remainder.ad, frozenset(map(str.lower, remainder.left))):
                key = key_of(*self._scalar_ranks(kind.job, remainder.ad), NOBODY, LEAST, place)
                heapq.heappush(kind.cut_slots, (key, remainder.version))
        kind.cuts = len(self._cuts)

    def _best_cut_slot(self, kind: ResourceRequest, limits: SpinLimits) -> tuple[Key, int] | None:
        """Return the best of the cut slots, by current rank."""
        entries: list[tuple[Key, int]] = []
        best = None
        while kind.cut_slots:
            key, version = kind.cut_slots[0]
            place = key[5]
            if version != self.shares.version(place):
                heapq.heappop(kind.cut_slots)  # it is in the heap a second time, with its current rank
            elif kind.limits is not None and not kind.limits.allows(place):
                heapq.heappop(kind.cut_slots)
            elif limits.permits(self._cores_of(place, kind), NOBODY):
                best = (key, place)
                break
            else:
                entries.append(heapq.heappop(kind.cut_slots))
        for entry in entries:
            heapq.heappush(kind.cut_slots, entry)
        return best

    def _take_free(
        self, kind: ResourceRequest, account: CycleSubmitter, cluster: Cluster, proc: int, key: Key, place: int
    ) -> Choice:
        name = self.pool.names[place]
        if not self.pool.shared[place]:
            self.free[place] = False
            weight, limits, regroups = self._weights[place], _take_limits(kind, place), self._regroups
            choice = Choice(cluster, proc, name, name, NOBODY, weight, kind, place, limits=limits, regrouped=regroups)
            return self._add_choice(choice, account)
        amounts = self._amounts(place, kind)
        assert amounts is not None
        remainder = self.shares.of(place)
        cores = self.shares.cores(remainder, amounts, self.rules.use_slot_weights)
        ranked = key if remainder.version else None
        remainder.take(amounts)
        part, limits = self._note_cut(name, place, remainder), _take_limits(kind, place)
        choice = Choice(cluster, proc, name, part, NOBODY, cores, kind, place, ranked, limits, regrouped=self._regroups)
        return self._add_choice(choice, account)

    def _note_cut(self, name: str, place: int, remainder: Remainder) -> str:
        """Record a cut of a partitionable slot; return the slot name for the match."""
        self._cuts.append(place)
        enough = all(remainder.left.get(name, 1) >= 1 for name in NEEDED)  # else there is too little for any job
        self.free[place] = enough and self.shares.can_match_again(remainder)
        if not self.state.dialect.informs_startd_of_matches:
            return name  # the startd carves the dynamic slot on the claim
        part = dynamic_name(name, self._names)
        self._names.add(part)
        return part

    def _take_offer(
        self, kind: ResourceRequest, account: CycleSubmitter, cluster: Cluster, proc: int, offer: Offer
    ) -> Choice:
        assert self.pslots is not None
        place, remainder = offer.key[5], self.pslots.take(offer)
        name = self.pool.names[place]
        part = self._note_cut(name, place, remainder)
        parts = tuple([self.pool.names[each] for each in offer.preempted])
        limits = _take_limits(kind, place)
        choice = Choice(
            cluster, proc, name, part, offer.reason, offer.cores, kind, place, offer.key, limits, parts, offer.rest.ad,
            self._regroups,
        )  # fmt: skip
        return self._add_choice(choice, account)

    @property
    def _regroups(self) -> bool:
        return self.accounts.regrouping

    def _add_choice(self, choice: Choice, account: CycleSubmitter, before: CycleSubmitter | None = None) -> Choice:
        self.choices.append(choice)
        self.accounts.give(account, choice.cores, before)
        return choice

    def _take_claimed(
        self, kind: ResourceRequest, account: CycleSubmitter, cluster: Cluster, proc: int, key: Key, reason: str
    ) -> Choice:
        place = key[5]
        before, name, cores = self.claimed.take(place), self.pool.names[place], self._weights[place]
        limits, regroups = _take_limits(kind, place), self._regroups
        choice = Choice(cluster, proc, name, name, reason, cores, kind, place, key, limits, regrouped=regroups)
        return self._add_choice(choice, account, before)

    # The results

    def matches_whole(self) -> bool:
        """Check whether a match names a partitionable slot, from which a dynamic slot is carved on the claim."""
        return bool(self._cuts) and not self.state.dialect.informs_startd_of_matches

    def matches(self) -> tuple[Match, ...]:
        """Return the choices as events record them."""
        by_kind: dict[int, list[int]] = {}
        for number, pick in enumerate(self.choices):
            by_kind.setdefault(id(pick.kind), []).append(number)
        matches: list[Match | None] = [None] * len(self.choices)
        for numbers in by_kind.values():
            kind = self.choices[numbers[0]].kind
            places = np.array([self.choices[number].place for number in numbers])
            rank = job_rank(np.array([number_of(kind.job.get("Rank"), kind.job, _NOBODY, self.context)]))
            values = [self.ranks.of(name, kind.job, places) for name in self.ranks.names_of(kind)]
            pairs = zip((0.0, float(rank[0]), 0.0), values, strict=True)
            columns = [[same] * len(numbers) if cells is None else cells.tolist() for same, cells in pairs]
            for number, pre, rank, post in zip(numbers, *columns, strict=True):
                pick = self.choices[number]
                ranks, last = (rank, pre, post), 0.0
                if pick.key is not None:
                    ranks = (-pick.key[1], -pick.key[0], -pick.key[2])
                    last = -pick.key[4] if pick.reason else 0.0
                ranks, last = self._logged_ranks(ranks, last)
                job = f"{pick.cluster.id}.{pick.proc}"
                ranked = Match(job, pick.name, ranks[0], pick.reason, *ranks[1:], last, pick.limits, pick.preempts)
                matches[number] = ranked
        return tuple(match for match in matches if match is not None)

    def _logged_ranks(self, ranks: tuple[float, float, float], last: float) -> tuple[tuple[float, float, float], float]:
        """Replace the values of ranks without an expression by 0."""
        rules = self.rules
        pre = 0.0 if rules.pre_job_rank is None else ranks[1]
        post = 0.0 if rules.post_job_rank is None else ranks[2]
        return (ranks[0], pre, post), 0.0 if rules.preemption_rank is None else last


def _take_limits(kind: ResourceRequest, place: int) -> str:
    """Take the units of concurrency limits that a job uses on a slot, and return their text."""
    return "" if kind.limits is None else kind.limits.take(place)
