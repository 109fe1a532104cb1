"""The spins of a cycle's pie: each submitter's slice, the order of the submitters, and the slots that each receives."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, inf

import numpy as np
from attrs import define, field, frozen

from ..classad import Context
from ..ports.slot_ads import Advertise
from ..requests.autoclusters import autoclusters_of, declared_attributes, slot_attribute_words
from ..requests.idle_jobs import idle_queues, remaining_starts
from ..state.caches import Caches
from ..state.state import Manager
from .autocluster_cache import AutoclusterCache
from .candidates import Floats
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .cycle_limits import CycleLimits
from .equal_priority_groups import RemainingMembers, SubmitterOrder
from .group_cycle import WHOLE, Budget, GroupTurns
from .job_limits import CONCURRENCY
from .matchmaker import Matchmaker
from .negotiator_settings import Negotiator
from .rejection_reasons import Reasons
from .reported_rejections import ReportedRejections
from .resource_requests import Requests
from .share_limits import CEILING, MATCHES, QUOTA, RUNNING, SHARE, SpinLimits
from .slot_table import Places, public_ads_of
from .waiting_submitters import Rows, WaitingSubmitters

ALL = 1e300
"""The slice that applies if the pie is not divided."""


@frozen
class UnservedSubmitters:
    """The submitters whose turn came when no slot was left."""

    submitters: int = 0
    jobs: int = 0  #: the number of their idle jobs
    limited: int = 0  #: the number of these submitters that had used their share


def attributes_read(state: Manager, caches: Caches) -> set[str]:
    """Return a superset of the lower-case slot attributes that idle jobs and the negotiator may read."""
    texts = declared_attributes(state.settings).expressions
    attributes = {word for text in texts for word in slot_attribute_words((("", text),))}
    return attributes.union(*idle_queues(state, caches).words)


@define
class Turn:
    state: Manager
    caches: Caches
    advertise: Advertise
    now: int
    context: Context
    rules: Negotiator
    accounts: CycleSubmitters
    waiting: WaitingSubmitters
    turns: Mapping[str, int]
    chooser: Matchmaker = field(init=False)
    kinds: AutoclusterCache = field(init=False)
    reasons: Reasons = field(init=False)
    groups: GroupTurns = field(init=False)
    requests: Requests = field(init=False)
    limits: CycleLimits = field(init=False)
    participants: Rows = field(init=False)  #: the rows of ``waiting`` and of ``running``
    running: list[str] = field(factory=list)  #: submitters that have slots but no idle jobs
    places: dict[str, int] = field(factory=dict)  #: their row numbers in ``participants``
    chosen: int = -1  #: the number of matches for which ``any_left`` is known
    any_left: bool = True  #: whether any slot is still available
    refused: UnservedSubmitters = UnservedSubmitters()
    total: float = 0.0
    lightest: float = inf
    spins: int = 0
    considered: int = 0
    rejections: int = 0
    active: dict[str, int] = field(factory=dict)
    shared: dict[str, None] = field(factory=dict)
    matched: dict[str, int] = field(factory=dict)
    most: float = inf  #: maximum matches per submitter, because HTCondor's schedd limits offers by file transfers
    jobs: float = inf  #: how many more jobs of all submitters may start (MAX_JOBS_RUNNING)
    promised: dict[str, float] = field(factory=dict)  #: cores matched but not claimed yet, which count towards ceilings
    hopeless: dict[str, set[int]] = field(factory=dict)  #: kinds of jobs, by submitter, for which no slot is left

    def __attrs_post_init__(self) -> None:
        state = self.state
        autoclusters = autoclusters_of(state, self.caches)
        names = attributes_read(state, self.caches)
        pool = public_ads_of(state, self.caches, self.now, self.context, names, self.advertise)
        self.chooser = Matchmaker(state, self.caches, self.context, self.rules, self.accounts, pool)
        self.requests = Requests(state, autoclusters, self.caches)
        if self.rules.job_constraint is not None:
            self.requests.leave_out(self.rules.job_constraint, self.context)
        self.total, self.lightest = self.chooser.weigh()
        self.chooser.consider_pslots()
        self.kinds = AutoclusterCache(
            pool, autoclusters, self.rules, self.accounts, self.chooser.ranks, state.configured, state.idle
        )
        self.limits = CycleLimits(state, pool, self.chooser.ranks, self.context)
        reported = self.caches.of(ReportedRejections)
        self.reasons = Reasons(self.chooser, self.kinds, self.requests, self.waiting, self.limits, reported)
        if self.rules.match_limits and state.dialect.limits_matches_of_submitters:
            self.most = self.rules.most_matches
        self.promised = self._promised()
        self.groups = GroupTurns(state, self.rules, self.accounts, self.total, self.lightest, self.reasons)
        self.groups.begin(self.waiting.using, self.promised)
        self.jobs = remaining_starts(state)
        self.chooser.publish()

    def _promised(self) -> dict[str, float]:
        promised: dict[str, float] = {}
        state, places = self.state, self.chooser.pool.places
        for (number, _), name in state.assigned_slots.items():
            if number in state.clusters and name in places and name not in state.ready_claims:
                submitter = state.clusters[number].submitter
                promised[submitter] = promised.get(submitter, 0.0) + self.chooser.cores(places[name])
        return promised

    # Spins

    def run(self) -> None:
        """Divide one pie among all submitters; with accounting groups, one pie per group."""
        if self._can_spin_by_groups():
            self._spin_by_groups()
            return
        everyone = self._participating()
        if self.rules.tree.divides:
            self.groups.run(everyone, self.participants, self._share_out, self._all_gone, self.context)
            self.groups.tell()
        else:
            self._share_out(everyone, WHOLE)

    def _can_spin_by_groups(self) -> bool:
        """Check whether the pie can be divided among groups of equal priority instead of single submitters."""
        rules = self.rules
        return not (
            rules.tree.divides
            or rules.ignore_user_priorities
            or self.turns
            or any(self.accounts.of(name).floor > 0 for name in self.waiting.groups.alone)
        )

    def _spin_by_groups(self) -> None:
        """Spin the pie. When no slot is left, reject the remaining submitters group by group."""
        waiting = self.waiting
        ignoring = self.rules.consider_preemption
        alone = [self.accounts.of(name) for name in (*waiting.groups.alone, *self._running_submitters())]
        order = SubmitterOrder(waiting.groups, alone, self.total)
        pie = before = order.pie
        if not len(order) or (pie <= 0 and not ignoring):
            return
        self.spins += 1
        left: list[int] = []
        for name in order:
            if self._nothing_left():
                self._refuse_remaining(order, pie)
                return
            account = self._waiting_account(name)
            whole = self._slice(account, order.share(order.key_of(name)), self.total)
            self.reasons.slices[name] = account.using + whole
            done, got = self._negotiate(account, SpinLimits(min(whole, pie), whole, inf), ignoring, False)
            pie -= got
            if not done:
                left.append(waiting.at[name])
        if (pie < before or len(left) < len(order)) and self.chooser.any_left():
            self._participating()
            self._spin(np.array(left, np.int64), False, WHOLE, first=False)

    def _waiting_account(self, name: str) -> CycleSubmitter:
        account, place = self.accounts.of(name), self.waiting.at.get(name, -1)
        account.idle = int(self.waiting.rows["idle"][place]) if self.waiting.waits(name) else 0
        return account

    def _running_submitters(self) -> list[str]:
        """Return the submitters that have slots but no idle jobs, if slots may be preempted."""
        if not self.rules.consider_preemption:
            return []
        using = self.waiting.by_record(name for name in self.waiting.using if self.state.submitters[name].slots)
        return [name for name in using if not self.waiting.waits(name)]

    def _refuse_remaining(self, order: SubmitterOrder, pie: float) -> None:
        """Finish a spin like ``_refuse``, but once for each group of equal priority."""
        rows, at, ignoring = self.waiting.rows, self.waiting.at, self.rules.consider_preemption
        separate = [name for name in (*self.requests.begun, *self.hopeless, *self.promised) if name in at]
        separate = sorted({*separate})
        refused: list[int] = []
        for members in order.remaining_groups(separate):
            self._count_refused(members, min(order.slice(members.key), pie), members.key.using)
        for name in filter(self.waiting.waits, order.remaining_singles(separate)):
            account, place, key = self._waiting_account(name), at[name], order.key_of(name)
            kind, kinds, cores = int(rows["kind"][place]), int(rows["kinds"][place]), min(order.slice(key), pie)
            if kinds > 0 and name not in separate:
                self._count_refused(RemainingMembers(key, 1, account.idle, kinds), cores, account.using)
                refused += [place] if kind >= 0 else []
            elif account.idle:
                self._negotiate(account, SpinLimits(cores, cores, inf), ignoring, False)
        self.reasons.refused = np.array(refused, np.int64)
        self.reasons.excluded = dict.fromkeys((*order.served, *separate))

    def _count_refused(self, members: RemainingMembers, cores: float, using: float) -> None:
        """Record submitters for which no slot was left, each with a slice of this many cores."""
        room = members.key.ceiling - using
        if room <= 0 or room < self.chooser.lightest_slot:
            return
        over = cores <= 0
        before, kinds = self.refused, members.kinds
        if over and not (self.rules.consider_preemption and self.chooser.prefers):
            kinds = 0
        self.considered += kinds
        self.rejections += kinds
        limited = before.limited + (members.size if over else 0)
        self.refused = UnservedSubmitters(before.submitters + members.size, before.jobs + members.idle, limited)

    def _share_out(self, everyone: Places, budget: Budget) -> Places:
        """Serve the floors, then divide the pie; return the submitters that may still take slots."""
        if self.participants["floor"].any():
            idle, using, floor = (self.participants[name][everyone] for name in ("idle", "using", "floor"))
            low = everyone[(idle > 0) & (using < floor)]
            if len(low):
                self._spin(low, True, budget)
        return self._spin(everyone, False, budget)

    def _participating(self) -> Places:
        """Return the participating submitters: first those with idle jobs, then those with only running jobs, if slots
        may be preempted. The latter have no turn."""
        waiting = self.waiting
        self.running = self._running_submitters()
        count = len(waiting.rows)
        self.participants = waiting.rows.followed_by(len(self.running), ("using", "spelled"))
        self.places = {name: place for place, name in enumerate(self.running, count)}
        for name, place in self.places.items():
            self.participants.put(place, self.accounts.of(name))
        if self.turns:
            last = len(self.turns)
            keys = [(self.turns.get(name, last), name) for name in waiting.names]
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self.participants["spelled"][order] = np.arange(len(order))
        return np.concatenate([waiting.in_turn(), np.arange(count, len(self.participants))])

    def _spin(self, places: Places, floors: bool, budget: Budget, first: bool = True) -> Places:
        """Spin a pie until nothing changes; return the submitters that may still take slots."""
        total = min(self.total, budget.limit)
        while len(places):
            ignoring = first and self.rules.consider_preemption
            if not ignoring and budget.is_spent():
                return places
            self._update_usage()
            shares, most = self._shares(places), budget.room()
            slices = self._slices(places, shares, total)
            if not self.rules.consider_preemption:
                slices = np.minimum(slices, most)
            pie = _sum(slices)
            if not self.rules.consider_preemption and pie <= 0:
                return places
            if first:
                order = self._order(places, slices)
                places, shares = places[order], shares[order]
            self.spins += 0 if floors else 1
            before = pie
            left: list[int] = []
            for turn, place in enumerate(map(int, places)):  # the loop usually ends early
                if first and not floors and self._nothing_left():
                    self._refuse(places[turn:], np.minimum(self._slices(places, shares, total)[turn:], pie), ignoring)
                    return places[:0]
                if not ignoring and budget.is_spent():
                    left += map(int, places[turn:])
                    break
                account = self._account(place)
                whole = self._slice(account, float(shares[turn]), total)
                if floors:
                    whole = min(whole, account.floor - account.using)
                self.reasons.slices[account.name] = account.using + whole
                free = min(whole, most)
                if not self.rules.consider_preemption:
                    whole = free
                skip = not first and min(whole, pie) < self.chooser.lightest_slot
                limits = SpinLimits(min(whole, pie), free, inf, budget.strict_room(), SHARE if whole < most else QUOTA)
                done, got = self._negotiate(account, limits, ignoring, skip)
                pie -= got
                if not done:
                    left.append(place)
            size, places, first = len(places), np.array(left, np.int64), False
            if floors or (pie >= before and len(places) >= size) or not self.chooser.any_left():
                return places
        return places

    def _account(self, place: int) -> CycleSubmitter:
        after = place - len(self.waiting.rows)
        account = self.accounts.of(self.running[after] if after >= 0 else self.waiting.names[place])
        account.idle = int(self.participants["idle"][place])
        return account

    def _update_usage(self) -> None:
        """Update the usage to include the matches so far."""
        for name, account in self.accounts.moved.items():
            place = self.places.get(name, self.waiting.at.get(name, -1))
            if place >= 0:
                self.participants["using"][place] = account.using
        self.accounts.moved.clear()

    def _shares(self, places: Places) -> Floats:
        """Return each submitter's share of the pool, by the inverse ratio of the effective priorities."""
        priorities = self.participants["priority"][places]
        worst = priorities.max()
        shares: Floats = worst / (priorities * _sum(worst / priorities))
        return shares

    def _slices(self, places: Places, shares: Floats, total: float) -> Floats:
        """Return how many more cores each submitter's share allows."""
        if self.rules.ignore_user_priorities:
            return np.full(len(places), ALL)
        slices: Floats = np.maximum(0.0, shares * total - self.participants["using"][places])
        return slices

    def _slice(self, account: CycleSubmitter, share: float, total: float) -> float:
        """Return the current slice of one submitter."""
        return ALL if self.rules.ignore_user_priorities else max(0.0, share * total - account.using)

    def _order(self, places: Places, slices: Floats) -> Places:
        """Return the order of turns: better priority first, then emptier slice, then name."""
        using = self.participants["using"][places]
        whole = using + slices
        starvation = np.divide(using, whole, out=np.full(len(places), inf), where=whole > 0)
        names, priorities = self.participants["spelled"][places], self.participants["priority"][places]
        order: Places = np.lexsort((names, starvation, priorities))
        return order

    # When no slot is left

    def _all_gone(self) -> bool:
        """Check whether all remaining submitters receive nothing because no slot is left."""
        if len(self.chooser.choices) != self.chosen:
            self.chosen, self.any_left = len(self.chooser.choices), self.chooser.any_left()
        return not self.any_left and not self.rules.all_jobs and self.most > 0

    def _nothing_left(self) -> bool:
        """Check whether, in addition, one answer is valid for all jobs of a kind."""
        return self.kinds.lasts and self._all_gone()

    def _refuse(self, places: Places, slices: Floats, ignoring: bool) -> None:
        """Finish a spin when no slot is left: take one job of each kind from each submitter. Submitters that already
        have more cores than they have kinds of jobs negotiate as usual.

        :param slices: how many more cores each submitter may take
        """
        self._update_usage()
        at, separate = self.waiting.at, np.zeros(len(self.participants), bool)
        names = self.requests.begun | self.hopeless.keys() | self.promised.keys()
        separate[[at[name] for name in names if name in at]] = True
        columns = ("kind", "kinds", "idle", "using", "ceiling")
        kind, kinds, idle, using, ceiling = (self.participants[name][places] for name in columns)
        counted = (kinds > 0) & ~separate[places]
        for number in np.flatnonzero(~counted & (idle > 0)).tolist():
            account, cores = self._account(int(places[number])), float(slices[number])
            self._negotiate(account, SpinLimits(cores, cores, inf), ignoring, False)
        self.reasons.refused = np.concatenate([self.reasons.refused, places[counted & (kind >= 0)]])
        room = ceiling - using
        counted &= (room > 0) & (room >= self.chooser.lightest_slot)
        over = counted & (slices <= 0)
        considered = counted if ignoring and self.chooser.prefers else counted & ~over
        kind_count = int(kinds[considered].sum())
        self.considered += kind_count
        self.rejections += kind_count
        before = self.refused
        more = (int(counted.sum()), int(idle[counted].sum()), int(over.sum()))
        self.refused = UnservedSubmitters(before.submitters + more[0], before.jobs + more[1], before.limited + more[2])

    # One submitter

    def _negotiate(self, account: CycleSubmitter, limits: SpinLimits, ignoring: bool, skip: bool) -> tuple[bool, float]:
        """Find slots for a submitter's jobs. Return whether the submitter is done for this cycle, and the cores it
        received."""
        if not account.idle:
            return True, 0.0
        if skip:
            self.shared[account.name] = None
            self.reasons.stopped[account.name, -1] = limits.capped
            return False, 0.0
        limits.room = account.ceiling - account.using - self.promised.get(account.name, 0.0)
        if limits.room <= 0 or limits.room < self.chooser.lightest_slot:
            self.reasons.stopped[account.name, -1] = CEILING
            return True, 0.0
        self.active.setdefault(account.name, account.idle)
        limited = self._serve(account, limits, ignoring)
        if limits.got >= limits.limit or limited:
            self.shared[account.name] = None
            return False, limits.got
        return True, limits.got

    def _serve(self, account: CycleSubmitter, limits: SpinLimits, ignoring: bool) -> bool:
        """Serve a submitter's jobs in order. Return whether the submitter's share stopped any of them."""
        chooser, stopped = self.chooser, self.reasons.stopped
        hopeless = self.hopeless.setdefault(account.name, set())
        failed = set(hopeless)
        limited = False
        stopped.pop((account.name, -1), None)
        for cluster, proc, number in self.requests.of(account.name, failed):
            over = limits.got >= limits.limit
            if over and not (ignoring and chooser.prefers):
                stopped[account.name, -1] = limits.capped
                return True
            if limits.room - limits.got <= 0:
                stopped[account.name, -1] = CEILING
                return True
            if self.matched.get(account.name, 0) >= self.most:
                stopped[account.name, -1] = MATCHES
                return limited
            if self.jobs <= 0:
                stopped[account.name, -1] = RUNNING
                return limited
            self.considered += 1
            job_limits = self.limits.of(number, cluster, proc)
            if job_limits is not None and not job_limits.fits():
                self._reject(account, number, failed, hopeless, CONCURRENCY)
                continue
            if self.kinds.barren(number, cluster, proc) is not None:
                self._reject(account, number, failed, hopeless, "")
                continue
            kind = self.kinds.of(number, cluster, proc, account)
            kind.limits = job_limits
            choice = chooser.best(kind, account, cluster, proc, limits, over)
            if choice is not None:
                self.requests.give(cluster, proc)
                self.jobs -= 1
                self.matched[account.name] = self.matched.get(account.name, 0) + 1
                stopped.pop((account.name, number), None)
                continue
            self.rejections += 1
            reason = limits.capped if over and chooser.leaves_any(kind) else limits.stopped
            limited = limited or reason in (SHARE, QUOTA)
            if not reason and job_limits is not None and job_limits.refused:
                reason = CONCURRENCY
            stopped[account.name, number] = reason
            if not self.rules.all_jobs:
                failed.add(number)
            if reason in ("", CONCURRENCY) and (self.rules.stable or not chooser.leaves_any(kind)):
                hopeless.add(number)
        return limited

    def _reject(self, account: CycleSubmitter, number: int, failed: set[int], hopeless: set[int], reason: str) -> None:
        """Reject a job and all equivalent jobs for this cycle."""
        self.rejections += 1
        if reason:
            self.reasons.stopped[account.name, number] = reason
        if not self.rules.all_jobs:
            failed.add(number)
        hopeless.add(number)

    # The results

    def statistics(self, matches: int) -> dict[str, float]:
        """Return the LastNegotiationCycle* attributes, without that prefix. In the log, a cycle takes no time."""
        candidates = self.chooser.candidates()
        return {
            "Time": self.now // 1_000_000,
            "End": self.now // 1_000_000,
            "Duration": 0,
            "TotalSlots": len(self.chooser.pool.names),
            "TrimmedSlots": candidates,
            "CandidateSlots": candidates,
            "SlotShareIter": 1,
            "Pies": self.groups.pies or 1,
            "PieSpins": self.spins,
            "NumSchedulers": 1 if self.active or self.refused.submitters else 0,
            "NumIdleJobs": sum(self.active.values()) + self.refused.jobs,
            "NumJobsConsidered": self.considered,
            "Matches": matches,
            "Rejections": self.rejections,
            "ActiveSubmitterCount": len(self.active) + self.refused.submitters,
            "SubmittersShareLimit": len(self.shared) + self.refused.limited,
            "SubmittersMatchLimit": sum(count >= self.most for count in self.matched.values()),
        }


def _sum(values: Floats) -> float:
    """Return the sum, rounded once so that it does not depend on the order."""
    return fsum(values.tolist())
