"""The best slot for one job after the other: what a cycle takes slots from.

What is found for a kind of job holds for the cycle: slots that match, in their order. A partitionable slot stays as
long as something is left of it, and is ranked anew after each cut.
"""

from __future__ import annotations

import heapq
from math import inf

import numpy as np
from attrs import define, field, frozen

from ..classad import ClassAd, Context, EvaluationError, Expression, parse, symmetric_match
from ..classad.columns import OTHER
from ..classad.match import accepts
from ..classad.tree import Literal
from ..events import Denied, Match
from ..startd.slot_resources import dynamic_name
from ..state.caches import Caches
from ..state.cluster import Cluster
from ..state.state import State
from .candidates import (
    LEAST,
    NOBODY,
    PRIORITY,
    RANK,
    Floats,
    Held,
    Key,
    Kind,
    Ranks,
    ephemeral,
    job_rank,
    key_of,
    publish_remote,
    single,
)
from .cycle_accounts import Account, Accounts
from .pslot_preemption import Offer, PslotPreemption
from .pslot_remainders import Remainder, Remainders
from .settings import Negotiator
from .slot_table import Mask, Places, PublicAds

_RANK_OF, _CPUS = parse("MY.Rank"), parse("Cpus")
_NOBODY = ClassAd()
NEEDED = ("Cpus", "Memory")
"""Resources of which every job takes at least 1."""
EASING = 1e-9
"""Cores that sums of weights may be off by."""
SHARE, CEILING, MATCHES, RUNNING, QUOTA = "share", "ceiling", "matches", "running", "quota"
"""The limits that may keep a submitter from a slot."""


@define
class Limits:
    """What a submitter may get in a spin: ``limit`` cores, ``unclaimed`` of them from slots that nobody has, ``room``
    until its ceiling, and ``quota`` until its group has what it may have, which no match may exceed; of which it has
    ``got`` so much, ``fresh`` from nobody. ``stopped`` says which of them was in the last job's way: share, ceiling,
    quota, or empty for none."""

    limit: float
    unclaimed: float
    room: float
    quota: float = inf
    capped: str = SHARE  #: what ``unclaimed`` is bounded by
    got: float = 0.0
    fresh: float = 0.0
    stopped: str = ""

    def permits(self, cores: float, reason: str, swapped: bool = False) -> bool:
        """Whether a slot may be had. Who has got nothing in this spin may exceed its share once; a slot's preference
        goes before all shares.

        :param swapped: a submitter of the same group has the slot
        """
        if self.got + cores > self.room + EASING:
            self.stopped = self.stopped or CEILING
            return False
        if not swapped and cores > self.quota + EASING:
            self.stopped = self.stopped or QUOTA
            return False
        if reason == RANK:
            return True
        used, limit = (self.got, self.limit) if reason else (self.fresh, self.unclaimed)
        if used + cores <= limit + EASING or (used <= 0 < limit):
            return True
        self.stopped = SHARE if reason else self.capped
        return False

    def take(self, cores: float, reason: str, swapped: bool = False) -> None:
        self.got += cores
        if not swapped:
            self.quota -= cores
        if not reason:
            self.fresh += cores


@frozen
class Choice:
    """A job and the slot that it may have."""

    cluster: Cluster
    proc: int
    slot: str
    name: str  #: the slot's, or that of what is to be carved from it
    reason: str
    cores: float
    kind: Kind
    place: int
    key: Key | None = None  #: what it was ordered by, if the slot's row does not say it: it was cut, or somebody has it
    limits: str = ""  #: what the job takes of concurrency limits
    preempts: tuple[str, ...] = ()  #: the dynamic slots whose resources it takes
    ad: ClassAd | None = None  #: what was matched, if the slot's row does not say it: it was given these back
    regrouped: bool = False  #: whether the submitter negotiated by autoregroup


@define
class Matchmaker:
    state: State
    caches: Caches
    context: Context
    rules: Negotiator
    accounts: Accounts
    pool: PublicAds
    choices: list[Choice] = field(factory=list)
    free: Mask = field(init=False)
    held: Mask = field(init=False)
    total: float = 0.0
    lightest: float = inf  #: the least that a match may take
    lightest_slot: float = inf  #: what the lightest slot weighs, whole (HTCondor's minSlotWeight)
    _names: set[str] = field(init=False)
    prefers: bool = False  #: a slot might change hands because it prefers another job
    _held_left: int = 0
    _priorities: Floats | None = None  #: the effective priorities of those who have slots
    _cuts: list[int] = field(factory=list)  #: the slots that something was cut from, one after the other
    _weights: list[float] = field(factory=list)
    shares: Remainders = field(init=False)
    ranks: Ranks = field(init=False)
    pslots: PslotPreemption | None = None  #: what dynamic slots may go for, if any may

    def __attrs_post_init__(self) -> None:
        pool = self.pool
        self.free, self.held = pool.free.copy(), pool.held.copy()
        if not self.rules.consider_preemption:
            self.held[:] = False
        elif not self.rules.consider_early_preemption:
            self.held &= ~pool.retiring
        if self.rules.slot_constraint is not None:
            there = self._meet(self.rules.slot_constraint)
            self.free &= there
            self.held &= there
        if self.rules.allow_pslot_preemption:
            self.held &= ~PslotPreemption.carved(self.state, pool)
        self._names = set(self.state.slots)
        self.shares = Remainders(self.state, pool, self.context, self.caches)
        self.ranks = Ranks(pool, self.rules)
        self._held_left = int(self.held.sum())
        self.prefers = bool(self._held_left) and self._may_be_preferred()

    @property
    def _may_change_hands(self) -> bool:
        """Whether any slot that somebody has may go to another: by default for its RANK alone."""
        requirements = self.rules.preemption_requirements
        return self.prefers or not isinstance(requirements, Literal) or accepts(requirements.value)

    def _may_be_preferred(self) -> bool:
        """Whether any slot that is held could value another job more than its own: not if its RANK is the same for all
        jobs, and not more than that of the job that it has."""
        column = self.pool.table.columns.get("rank")
        if column is None:
            return False
        held = np.flatnonzero(self.held)
        kinds = column.kinds[held] if isinstance(column.kinds, np.ndarray) else np.array(column.kinds)
        if (kinds == OTHER).any():
            return True
        values = self.pool.table.of_slots(_RANK_OF, _NOBODY, held)
        return bool((values > self.pool.ranks[held]).any())

    def weigh(self) -> tuple[float, float]:
        """Return the cores of all slots, and the least that a match may take: of a slot that may be cut, one core."""
        pool, rules = self.pool, self.rules
        weights = pool.weights if rules.use_slot_weights else np.full(len(pool.names), 1000)
        self._weights = (weights / 1000).tolist()
        there, counted = self._meet(rules.slot_constraint), self._meet(rules.poolsize_constraint)
        self.total = int(weights[there & counted].sum()) / 1000
        self.lightest_slot = float(weights[there].min()) / 1000 if there.any() else inf
        lightest = weights
        if rules.use_slot_weights and pool.shared.any():
            cores = pool.table.of_slots(_CPUS, _NOBODY)
            lightest = np.where(pool.shared & (cores > 1), weights / np.where(cores > 1, cores, 1.0), weights)
        self.lightest = float(lightest[there].min()) / 1000 if there.any() else inf
        return self.total, self.lightest

    def consider_pslots(self) -> None:
        """See which dynamic slots may go for a job on the slot that they were carved from."""
        if not (self.rules.allow_pslot_preemption and self.rules.consider_preemption):
            return
        there = self._meet(self.rules.slot_constraint)
        pslots = PslotPreemption(
            self.state, self.pool, self.context, self.rules, self.accounts, self.shares, there, self.total,
            self._scalar_ranks, _number, self._behind, self.publish,
        )  # fmt: skip
        if pslots.parts:
            self.pslots = pslots
            self.prefers = self.prefers or pslots.prefers

    def cores(self, place: int) -> float:
        """What a whole slot counts for."""
        return self._weights[place]

    def _meet(self, constraint: Expression | None) -> Mask:
        """The slots for which a constraint is true."""
        if constraint is None:
            return np.ones(len(self.pool.names), bool)
        return _true(self.pool.table.of_slots(constraint, _NOBODY))

    def publish(self) -> None:
        """What slots' ads say of their users during the cycle."""
        publish_remote(self.pool, self.accounts, self.pool.read())

    def any_left(self) -> bool:
        """Whether any slot may still be had."""
        return bool(self.free.any()) or bool(self._held_left)

    def candidates(self) -> int:
        """How many slots were looked at."""
        return int((self.pool.free | self.held).sum())

    @property
    def stable(self) -> bool:
        """Whether what a slot's holder and a job's submitter use counts as the same during the cycle. Else
        PREEMPTION_REQUIREMENTS and PREEMPTION_RANK are asked anew whenever it has changed."""
        return self.rules.preemption_requirements_stable and self.rules.preemption_rank_stable

    def leaves_any(self, kind: Kind) -> bool:
        """Whether any slot that such jobs match may still be had."""
        mine = bool((kind.match & (self.free | self.held)).any())
        return mine or (self.pslots is not None and self.pslots.leaves_any(self.free))

    # The best slot

    def best(self, kind: Kind, one: Account, cluster: Cluster, proc: int, limits: Limits, over: bool) -> Choice | None:
        """The best slot for a job that is still to be had; it is taken. None: there is none that the limits permit.

        :param over: the submitter has its share: only slots that prefer the job count
        """
        limits.stopped = ""
        mine = None if over or self._forbids_free(kind, limits) else self._free_head(kind, limits)
        other = self._held_head(kind, one, over, limits)
        offer = None if self.pslots is None else self.pslots.best(kind, one, over, self.free, limits.permits)
        if offer is not None and all(each is None or offer.key < each[0] for each in (mine, other)):
            choice = self._take_offer(kind, one, cluster, proc, offer)
        elif other is not None and (mine is None or other[0] < mine[0]):
            choice = self._take_held(kind, one, cluster, proc, *other)
        elif mine is not None:
            choice = self._take_free(kind, one, cluster, proc, *mine)
        else:
            return None
        limits.take(choice.cores, choice.reason, bool(choice.reason) and self._swaps(one, choice.place))
        return choice

    # Slots that nobody has

    def _forbids_free(self, kind: Kind, limits: Limits) -> bool:
        """Whether a group's quota permits none of the slots that nobody has, whichever it is."""
        if limits.capped != QUOTA and limits.quota == inf:
            return False
        share = limits.fresh + self.lightest <= limits.unclaimed + EASING or limits.fresh <= 0 < limits.unclaimed
        forbids = limits.quota + EASING < self.lightest or not share
        if forbids and bool((kind.match & self.free).any()):
            limits.stopped = limits.capped if limits.quota == inf else QUOTA
        return forbids

    def _more(self, kind: Kind) -> bool:
        """Have the next part of the line; false: there is no more."""
        if kind.parts is None:
            kind.parts = self.ranks.parts(kind, self.free)
        for part in kind.parts:
            part = part[kind.match[part] & self.free[part]]
            if len(part):
                kind.line, kind.at = [*(kind.line or [])[kind.at :], *part.tolist()], 0
                return True
        kind.line = kind.line or []
        return False

    def _free_head(self, kind: Kind, limits: Limits) -> tuple[Key, int] | None:
        """The best of the slots that nobody has, and its place."""
        if kind.cuts < len(self._cuts):
            self._follow_cuts(kind)
        first = self._first(kind, limits)
        again = self._again_head(kind, limits) if kind.again else None
        if first < 0:
            return again
        key = self._key(kind, first)
        return again if again is not None and again[0] < key else (key, first)

    def _first(self, kind: Kind, limits: Limits) -> int:
        """The place of the first slot of the line that is still to be had; -1: there is none."""
        free, shared, weights = self.free, self.pool.shared, self._weights
        at = kind.at
        while True:
            line = kind.line
            if line is None or at >= len(line):
                before = 0 if line is None else len(line) - kind.at
                if not self._more(kind):
                    return -1
                at = kind.at + before
                continue
            place = line[at]
            if not free[place]:
                gone = True
            elif shared[place] and (self.shares.version(place) or not self._parts(place, kind)):
                gone = True  # it stands in `again` if there is enough left of it
            elif kind.limits is not None and not kind.limits.allows(place):
                gone = True
            elif limits.permits(self._cores_of(place, kind) if shared[place] else weights[place], NOBODY):
                return place
            else:
                gone = False  # a slot that only the limits forbid may be had later
            if gone and at == kind.at:
                kind.at += 1
            at += 1

    def _key(self, kind: Kind, place: int) -> Key:
        """What orders a slot that nobody has. It is asked for only where there is something to compare with."""
        if not kind.again and not self._held_left and self.pslots is None:
            return 0.0, 0.0, 0.0, 0, 0.0, place
        rest = self.shares.rests.get(place)
        ad = rest.ad if rest is not None else self.pool.table.ad(place)
        return key_of(*self._scalar_ranks(kind.job, ad), NOBODY, LEAST, place)

    def _scalar_ranks(self, job: ClassAd, ad: ClassAd) -> tuple[float, float, float]:
        pre = _number(self.rules.pre_job_rank, ad, job, self.context)
        post = _number(self.rules.post_job_rank, ad, job, self.context)
        rank = _number(job.get("Rank"), job, ad, self.context)
        values = single(np.array([pre, post]))
        return float(values[0]), float(job_rank(np.array([rank]))[0]), float(values[1])

    def _parts(self, place: int, kind: Kind) -> dict[str, int] | None:
        """What a job takes of a partitionable slot; None: too little is left."""
        rest = self.shares.of(place)
        return rest.cutter.taken(kind.job, rest.left)

    def _cores_of(self, place: int, kind: Kind) -> float:
        amounts = self._parts(place, kind)
        assert amounts is not None
        return self.shares.cores(self.shares.of(place), amounts, self.rules.use_slot_weights)

    def _follow_cuts(self, kind: Kind) -> None:
        """Rank the slots that were cut since these jobs were asked for last: one may be better than it was."""
        for place in dict.fromkeys(self._cuts[kind.cuts :]):
            if not kind.match[place] or not self.free[place] or self._parts(place, kind) is None:
                continue
            rest = self.shares.of(place)
            if symmetric_match(kind.job, rest.ad, self.context):
                key = key_of(*self._scalar_ranks(kind.job, rest.ad), NOBODY, LEAST, place)
                heapq.heappush(kind.again, (key, rest.version))
        kind.cuts = len(self._cuts)

    def _again_head(self, kind: Kind, limits: Limits) -> tuple[Key, int] | None:
        """The best of the slots that were cut, all of them ranked as they are."""
        kept: list[tuple[Key, int]] = []
        found = None
        while kind.again:
            key, version = kind.again[0]
            place = key[5]
            if version != self.shares.version(place):
                heapq.heappop(kind.again)  # it stands there once more, as it is
            elif kind.limits is not None and not kind.limits.allows(place):
                heapq.heappop(kind.again)
            elif limits.permits(self._cores_of(place, kind), NOBODY):
                found = (key, place)
                break
            else:
                kept.append(heapq.heappop(kind.again))
        for one in kept:
            heapq.heappush(kind.again, one)
        return found

    def _take_free(self, kind: Kind, one: Account, cluster: Cluster, proc: int, key: Key, place: int) -> Choice:
        name = self.pool.names[place]
        if not self.pool.shared[place]:
            self.free[place] = False
            weight, limits, by = self._weights[place], _take_limits(kind, place), self._regroups
            choice = Choice(cluster, proc, name, name, NOBODY, weight, kind, place, limits=limits, regrouped=by)
            return self._chosen(choice, one)
        amounts = self._parts(place, kind)
        assert amounts is not None
        rest = self.shares.of(place)
        cores = self.shares.cores(rest, amounts, self.rules.use_slot_weights)
        ranked = key if rest.version else None
        rest.take(amounts)
        part, limits = self._cut(name, place, rest), _take_limits(kind, place)
        choice = Choice(cluster, proc, name, part, NOBODY, cores, kind, place, ranked, limits, regrouped=self._regroups)
        return self._chosen(choice, one)

    def _cut(self, name: str, place: int, rest: Remainder) -> str:
        """Note what is left of a partitionable slot; return the name of the part."""
        self._cuts.append(place)
        enough = all(rest.left.get(name, 1) >= 1 for name in NEEDED)  # else there is too little for any job
        self.free[place] = enough and self.shares.goes_on(rest)
        part = dynamic_name(name, self._names)
        self._names.add(part)
        return part

    def _take_offer(self, kind: Kind, one: Account, cluster: Cluster, proc: int, offer: Offer) -> Choice:
        assert self.pslots is not None
        place, rest = offer.key[5], self.pslots.take(offer)
        name = self.pool.names[place]
        part = self._cut(name, place, rest)
        gone = tuple([self.pool.names[each] for each in offer.preempted])
        limits = _take_limits(kind, place)
        choice = Choice(
            cluster, proc, name, part, offer.reason, offer.cores, kind, place, offer.key, limits, gone, offer.rest.ad,
            self._regroups,
        )  # fmt: skip
        return self._chosen(choice, one)

    @property
    def _regroups(self) -> bool:
        return self.accounts.regrouping

    def _chosen(self, choice: Choice, one: Account, before: Account | None = None) -> Choice:
        self.choices.append(choice)
        self.accounts.give(one, choice.cores, before)
        return choice

    # Slots that others have

    def _swaps(self, one: Account, place: int) -> bool:
        """Whether a submitter of the same group has a slot."""
        claim = self.state.slots[self.pool.names[place]].claim
        return claim is not None and self.accounts.of(claim.submitter).group == one.group

    def _held_head(self, kind: Kind, one: Account, over: bool, limits: Limits) -> tuple[Key, str] | None:
        """The best of the slots that somebody has and that may change hands, and for which reason."""
        if not self._held_left:
            return None
        known = kind.held.get(one.name)
        accounts = self.accounts
        if (
            known is None
            or known.regrouping != accounts.regrouping
            or (not self.stable and known.given != accounts.given)
        ):
            known = kind.held[one.name] = self._held_of(kind, one)
            known.regrouping = accounts.regrouping
        while known.at < len(known.keys) and not self.held[known.keys[known.at][5]]:
            known.at += 1
        for at in range(known.at, len(known.keys)):
            key, reason = known.keys[at], known.reasons[at]
            place = key[5]
            if not self.held[place] or (over and reason != RANK):
                continue
            if kind.limits is not None and not kind.limits.allows(place):
                continue
            if limits.permits(self._weights[place], reason, limits.quota < inf and self._swaps(one, place)):
                return key, reason
        return None

    def _held_of(self, kind: Kind, one: Account) -> Held:
        """The slots that a job of this submitter may have although somebody has them, and why not others."""
        pool, table = self.pool, self.pool.table
        places = np.flatnonzero(kind.match & self.held)
        given = self.accounts.given
        if not len(places):
            return Held([], [], Denied(), given)
        own = pool.users[places] == pool.submitters.get(one.name, -2)
        if not self._may_change_hands:
            counts = int(np.count_nonzero(own)), int(np.count_nonzero(~(own | self._behind(one, places))))
            return Held([], [], Denied(len(places) - sum(counts), 0, counts[1], counts[0]), given)
        if not self.stable:
            self.publish()
        job = ClassAd(ephemeral(one, self.accounts), kind.job)
        values, current = table.of_slots(_RANK_OF, job, places), pool.ranks[places]
        values = np.where(np.isnan(values), np.nan, values)
        with np.errstate(invalid="ignore"):
            prefers, no_worse = values > current, values >= current
        left = ~prefers
        same = left & own
        left &= ~own
        behind = self._behind(one, places)
        ahead = left & ~behind
        left &= behind
        allowed = self._allowed(job, places, left)
        policy = left & ~allowed
        left &= allowed
        worse = left & ~no_worse
        left &= no_worse
        denied = Denied(*(int(np.count_nonzero(each)) for each in (policy, worse, ahead, same)))
        taken = np.flatnonzero(prefers | left)
        return self._ordered(kind, job, places[taken], prefers[taken], denied, given)

    def _behind(self, one: Account, places: Places) -> Mask:
        """Whether those who have the slots come behind the submitter. The reference leaves that to
        PREEMPTION_REQUIREMENTS."""
        if not self.state.dialect.preempts_only_worse_priorities:
            return np.ones(len(places), bool)
        if self._priorities is None:  # they stay during a cycle
            found = [self.accounts.of(name).priority for name in self.pool.submitters]
            self._priorities = np.array(found or [0.0])
        behind: Mask = self._priorities[self.pool.users[places]] > one.priority
        return behind

    def _allowed(self, job: ClassAd, places: Places, asked: Mask) -> Mask:
        """Where PREEMPTION_REQUIREMENTS is true; without it, everywhere."""
        requirements = self.rules.preemption_requirements
        if requirements is None:
            return np.ones(len(places), bool)
        if isinstance(requirements, Literal) or not asked.any():
            return np.full(len(places), isinstance(requirements, Literal) and accepts(requirements.value))
        return _true(self.pool.table.of_slots(requirements, job, places))

    def _ordered(self, kind: Kind, job: ClassAd, places: Places, prefers: Mask, denied: Denied, given: int) -> Held:
        table, rules = self.pool.table, self.rules
        if not len(places):
            return Held([], [], denied, given)

        def of(expression: Expression | None) -> Floats:
            if expression is None:
                return np.full(len(places), LEAST)
            return single(table.of_slots(expression, job, places))

        pre, post, preemption = of(rules.pre_job_rank), of(rules.post_job_rank), of(rules.preemption_rank)
        rank = job_rank(table.rank(kind.job, places))
        reasons = [RANK if one else PRIORITY for one in prefers.tolist()]
        columns = (pre.tolist(), rank.tolist(), post.tolist(), reasons, preemption.tolist(), places.tolist())
        keys = [(key_of(*row), row[3]) for row in zip(*columns, strict=True)]
        keys.sort(key=lambda pair: pair[0])
        return Held([key for key, _ in keys], [reason for _, reason in keys], denied, given)

    def _take_held(self, kind: Kind, one: Account, cluster: Cluster, proc: int, key: Key, reason: str) -> Choice:
        place = key[5]
        self.held[place] = False
        self._held_left -= 1
        name = self.pool.names[place]
        claim = self.state.slots[name].claim
        before = None if claim is None else self.accounts.of(claim.submitter)
        cores = self._weights[place]
        limits, by = _take_limits(kind, place), self._regroups
        choice = Choice(cluster, proc, name, name, reason, cores, kind, place, key, limits, regrouped=by)
        return self._chosen(choice, one, before)

    # What is told

    def matches(self) -> tuple[Match, ...]:
        """The choices as the log has them."""
        by_kind: dict[int, list[int]] = {}
        for number, choice in enumerate(self.choices):
            by_kind.setdefault(id(choice.kind), []).append(number)
        found: list[Match | None] = [None] * len(self.choices)
        for numbers in by_kind.values():
            kind = self.choices[numbers[0]].kind
            places = np.array([self.choices[number].place for number in numbers])
            rank = job_rank(np.array([_number(kind.job.get("Rank"), kind.job, _NOBODY, self.context)]))
            values = [self.ranks.of(name, kind.job, places) for name in self.ranks.names_of(kind)]
            columns = [
                [same] * len(numbers) if own is None else own.tolist()
                for same, own in zip((0.0, float(rank[0]), 0.0), values, strict=True)
            ]
            for number, pre, rank, post in zip(numbers, *columns, strict=True):
                one = self.choices[number]
                ranks, last = (rank, pre, post), 0.0
                if one.key is not None:
                    ranks = (-one.key[1], -one.key[0], -one.key[2])
                    last = -one.key[4] if one.reason else 0.0
                ranks, last = self._said(ranks, last)
                job = f"{one.cluster.id}.{one.proc}"
                ranked = Match(job, one.name, ranks[0], one.reason, *ranks[1:], last, one.limits, one.preempts)
                found[number] = ranked
        return tuple(match for match in found if match is not None)

    def _said(self, ranks: tuple[float, float, float], last: float) -> tuple[tuple[float, float, float], float]:
        """A rank that there is no expression for is told of as 0."""
        rules = self.rules
        pre = 0.0 if rules.pre_job_rank is None else ranks[1]
        post = 0.0 if rules.post_job_rank is None else ranks[2]
        return (ranks[0], pre, post), 0.0 if rules.preemption_rank is None else last


def _take_limits(kind: Kind, place: int) -> str:
    """Have a job take what it takes of concurrency limits with a slot."""
    return "" if kind.limits is None else kind.limits.take(place)


def _true(values: Floats) -> Mask:
    """Which values are true: numbers other than 0."""
    true: Mask = ~np.isnan(values) & (values != 0)
    return true


def _number(expression: Expression | None, my: ClassAd, target: ClassAd, context: Context) -> float:
    """The number that an expression is; NaN where it is none."""
    if expression is None:
        return float("nan")
    try:
        value = expression.evaluate(my, target, context)
    except EvaluationError:
        return float("nan")
    return float(value) if isinstance(value, int | float) else float("nan")
