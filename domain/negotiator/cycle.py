"""One negotiation cycle, from what the log says to what it decides.

The steps are the manual's ("Negotiation", "The Layperson's Description of the Pie Spin and Pie Slice"), in the
reference's order where it is more exact: priorities, floors, then the pie, spun until nothing changes any more. In the
first spin, whoever has its slice may still get slots that prefer its job to the one that they have. A submitter gets
one slot more than its slice allows if it has got none in this spin; from the second spin on, who may have less than the
lightest slot waits for the next cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

import numpy as np
from attrs import define, field, frozen

from ..classad import Context
from ..events import CycleHeld, PrioritiesUpdated
from ..state.caches import Caches
from ..state.cluster import IDLE
from ..state.state import State
from .autocluster_cache import AutoclusterCache
from .autoclusters import significance, words
from .cycle_accounts import Account, Accounts
from .idle_jobs import queues, waits
from .matchmaker import CEILING, MATCHES, SHARE, Choice, Limits, Matchmaker
from .rejections import Reasons
from .resource_requests import Requests
from .settings import Negotiator, settings_of
from .slot_table import public_ads_of

RULES = 1
"""The number of the way in which cycles are decided here (``CycleHeld.rules``)."""
Why = Callable[[str], tuple[int, str, str]]


@frozen
class Cycle:
    """What a cycle decided."""

    priorities: PrioritiesUpdated | None  #: the priorities as of it, if any has changed
    held: CycleHeld | None  #: itself, if it matched something or learned something new
    choices: tuple[Choice, ...] = ()  #: the matches with what they are made of


def hold(state: State, caches: Caches, why: Why, context: Context, offset: int = 0, turns: Sequence[str] = ()) -> Cycle:
    """Hold a cycle. It changes nothing: what it decided stands in the events that it returns.

    :param why: what an event of a cause begins with: the instant, the cause, the stimulus
    :param context: what expressions see of the world; of the pool's time zone ``offset`` is the seconds from UTC
    :param turns: submitters in the order in which those of equal rights are asked; the others are asked by name
    """
    now = why("negotiated")[0]
    rules = settings_of(state, caches)
    accounts = Accounts(state, now, rules)
    aged = accounts.aged()
    priorities = PrioritiesUpdated(*why("accounted"), aged) if aged else None
    if not waits(state):
        return Cycle(priorities, None)
    turn = _Turn(state, caches, now, context, rules, accounts, {name: place for place, name in enumerate(turns)})
    turn.run()
    matches = turn.chooser.matches()
    turn.chooser.pool.given = np.array([choice.place for choice in turn.chooser.choices], np.int64)
    unmatched = tuple(turn.reasons.told())
    if not matches and not unmatched:
        return Cycle(priorities, None)
    held = CycleHeld(*why("negotiated"), matches, unmatched, turn.statistics(len(matches)), offset, RULES)
    return Cycle(priorities, held, tuple(turn.chooser.choices))


def asked(state: State, caches: Caches) -> set[str]:
    """What the jobs that wait, and the negotiator itself, may read of a slot, and more: in small letters."""
    likeness = significance(state, caches)
    found = {word for text in settings_of(state, caches).own for word in words((("", text),))}
    for cluster in state.clusters.values():
        if cluster.counts[IDLE] and not cluster.local:
            found |= likeness.words_of(cluster)
    return found


@define
class _Turn:
    state: State
    caches: Caches
    now: int
    context: Context
    rules: Negotiator
    accounts: Accounts
    turns: Mapping[str, int]
    chooser: Matchmaker = field(init=False)
    kinds: AutoclusterCache = field(init=False)
    reasons: Reasons = field(init=False)
    requests: Requests = field(init=False)
    total: float = 0.0
    lightest: float = inf
    spins: int = 0
    considered: int = 0
    rejections: int = 0
    active: dict[str, int] = field(factory=dict)
    shared: dict[str, None] = field(factory=dict)
    matched: dict[str, int] = field(factory=dict)
    most: float = inf  #: matches that each may get: the real access point offers no more jobs than it may send files of
    promised: dict[str, float] = field(factory=dict)  #: cores given, but not held yet: they count for ceilings
    hopeless: dict[str, set[int]] = field(factory=dict)  #: kinds of jobs, by submitter, for which no slot is left

    def __attrs_post_init__(self) -> None:
        state = self.state
        likeness = significance(state, self.caches)
        pool = public_ads_of(state, self.caches, self.now, self.context, asked(state, self.caches))
        self.chooser = Matchmaker(state, self.caches, self.context, self.rules, self.accounts, pool)
        self.requests = Requests(state, likeness, self.caches)
        if self.rules.job_constraint is not None:
            self.requests.leave_out(self.rules.job_constraint, self.context)
        self.total, self.lightest = self.chooser.weigh()
        self.kinds = AutoclusterCache(pool, likeness, self.rules, self.accounts, self.chooser.ranks, self.total)
        self.reasons = Reasons(self.chooser, self.kinds, self.requests)
        if self.rules.match_limits and state.dialect.limits_matches_of_submitters:
            self.most = self.rules.most_matches
        self.promised = self._promised()
        self.chooser.publish()

    def _promised(self) -> dict[str, float]:
        found: dict[str, float] = {}
        state, places = self.state, self.chooser.pool.places
        for (number, _), name in state.reserved.items():
            if number in state.clusters and name in places and name not in state.claim_ready:
                submitter = state.clusters[number].submitter
                found[submitter] = found.get(submitter, 0.0) + self.chooser.cores(places[name])
        return found

    # Spins

    def run(self) -> None:
        """The floors first, then the pie."""
        names = self._taking_part()
        low = [one for one in names if one.idle and one.using < one.floor]
        if low:
            self._spin(low, floors=True)
        self._spin(names, floors=False)

    def _taking_part(self) -> list[Account]:
        """Who has jobs: such that wait or, as long as slots may change hands, such that run."""
        found: dict[str, Account] = {}
        for name, entries in queues(self.state, self.caches).items():
            idle = sum(cluster.counts[IDLE] for _, _, cluster in entries)
            if idle:
                found[name] = self.accounts.of(name)
                found[name].idle = idle
        if self.rules.consider_preemption:
            for name, record in self.state.submitters.items():
                if record.slots:
                    found.setdefault(name, self.accounts.of(name))
        return list(found.values())

    def _spin(self, taking: list[Account], floors: bool) -> None:
        first = True
        while taking:
            ignoring = first and self.rules.consider_preemption
            shares = self._shares(taking)
            pie = sum(self._slice(one, shares) for one in taking)
            if not self.rules.consider_preemption and pie <= 0:
                return
            if first:
                for one in taking:
                    one.starvation = _ratio(one.using, one.using + self._slice(one, shares))
                last = len(self.turns)
                taking = sorted(
                    taking, key=lambda one: (one.priority, one.starvation, self.turns.get(one.name, last), one.name)
                )
            self.spins += 0 if floors else 1
            before, many = pie, len(taking)
            left = []
            for one in taking:
                whole = self._slice(one, shares)
                if floors:
                    whole = min(whole, one.floor - one.using)
                self.reasons.slices[one.name] = one.using + whole
                skip = not first and min(whole, pie) < self.lightest
                done, got = self._negotiate(one, min(whole, pie), whole, ignoring, skip)
                pie -= got
                if not done:
                    left.append(one)
            taking, first = left, False
            if floors or (pie >= before and len(taking) >= many) or not self.chooser.any_left():
                return

    def _shares(self, taking: list[Account]) -> dict[str, float]:
        """The part of the pool that each is to have, by the inverse ratio of the effective priorities."""
        worst = max(one.priority for one in taking)
        factor = sum(worst / one.priority for one in taking)
        return {one.name: worst / (one.priority * factor) for one in taking}

    def _slice(self, one: Account, shares: dict[str, float]) -> float:
        """The cores that a submitter is to have further."""
        if self.rules.ignore_user_priorities:
            return 1e300
        return max(0.0, shares[one.name] * self.total - one.using)

    # One submitter

    def _negotiate(
        self, one: Account, limit: float, unclaimed: float, ignoring: bool, skip: bool
    ) -> tuple[bool, float]:
        """Find slots for a submitter's jobs; whether it is done for this cycle, and the cores that it got."""
        if not one.idle:
            return True, 0.0
        if skip:
            self.shared[one.name] = None
            self.reasons.stopped[one.name, -1] = SHARE
            return False, 0.0
        room = one.ceiling - one.using - self.promised.get(one.name, 0.0)
        if room <= 0 or room < self.lightest:
            self.reasons.stopped[one.name, -1] = CEILING
            return True, 0.0
        self.active.setdefault(one.name, one.idle)
        limits = Limits(limit, unclaimed, room)
        limited = self._serve(one, limits, ignoring)
        if limits.got >= limit or limited:
            self.shared[one.name] = None
            return False, limits.got
        return True, limits.got

    def _serve(self, one: Account, limits: Limits, ignoring: bool) -> bool:
        """Serve a submitter's jobs in their order; whether its share was in the way of any."""
        chooser, stopped = self.chooser, self.reasons.stopped
        hopeless = self.hopeless.setdefault(one.name, set())
        failed = set(hopeless)
        limited = False
        stopped.pop((one.name, -1), None)
        for cluster, proc, number in self.requests.of(one.name, failed):
            over = limits.got >= limits.limit
            if over and not (ignoring and chooser.prefers):
                stopped[one.name, -1] = SHARE
                return True
            if limits.room - limits.got <= 0:
                stopped[one.name, -1] = CEILING
                return True
            if self.matched.get(one.name, 0) >= self.most:
                stopped[one.name, -1] = MATCHES
                return limited
            self.considered += 1
            if self.kinds.barren(number, cluster, proc) is not None:
                self.rejections += 1
                if not self.rules.all_jobs:
                    failed.add(number)
                hopeless.add(number)
                continue
            kind = self.kinds.of(number, cluster, proc, one)
            choice = chooser.best(kind, one, cluster, proc, limits, over)
            if choice is not None:
                self.requests.give(cluster, proc)
                self.matched[one.name] = self.matched.get(one.name, 0) + 1
                stopped.pop((one.name, number), None)
                continue
            self.rejections += 1
            why = SHARE if over and chooser.leaves_any(kind) else limits.stopped
            limited = limited or why == SHARE
            stopped[one.name, number] = why
            if not self.rules.all_jobs:
                failed.add(number)
            if not why and (chooser.stable or not chooser.leaves_any(kind)):
                hopeless.add(number)
        return limited

    # What is told

    def statistics(self, matches: int) -> dict[str, float]:
        """LastNegotiationCycle*, without that prefix. An instant of the log takes no time."""
        candidates = self.chooser.candidates()
        return {
            "Time": self.now // 1_000_000,
            "End": self.now // 1_000_000,
            "Duration": 0,
            "TotalSlots": len(self.chooser.pool.names),
            "TrimmedSlots": candidates,
            "CandidateSlots": candidates,
            "SlotShareIter": 1,
            "Pies": 1,
            "PieSpins": self.spins,
            "NumSchedulers": 1 if self.active else 0,
            "NumIdleJobs": sum(self.active.values()),
            "NumJobsConsidered": self.considered,
            "Matches": matches,
            "Rejections": self.rejections,
            "ActiveSubmitterCount": len(self.active),
            "SubmittersShareLimit": len(self.shared),
            "SubmittersMatchLimit": sum(count >= self.most for count in self.matched.values()),
        }


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else inf
