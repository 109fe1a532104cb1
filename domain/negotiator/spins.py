"""The spins of a cycle's pie: each submitter's slice, the order of the submitters, and the slots that each receives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum, inf

import numpy as np
from attrs import define, field, frozen

from ..classad import Context
from ..ports.slot_ads import Advertise
from ..requests.autoclusters import autoclusters_of, declared_attributes, slot_attribute_words
from ..requests.idle_jobs import idle_queues, remaining_starts
from ..state.caches import Caches
from ..state.peers import UNAVAILABLE_FOR
from ..state.state import Manager
from .autocluster_cache import AutoclusterCache
from .candidates import Floats
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .cycle_limits import CycleLimits
from .equal_priority_groups import RemainingMembers, SubmitterOrder
from .group_cycle import WHOLE, GroupCycle, PieBudget
from .job_limits import CONCURRENCY
from .matchmaker import Matchmaker
from .negotiator_settings import NegotiatorSettings
from .rejection_reasons import RejectionReasons
from .reported_rejections import ReportedRejections
from .resource_requests import IdleJobRequests, Request
from .share_limits import CEILING, MATCHES, QUOTA, RUNNING, SHARE, SpinLimits
from .slot_table import RowNumbers, public_ads_of
from .waiting_submitters import SubmitterTable, WaitingSubmitters

ALL = 1e300
"""The slice that applies if the pie is not divided."""


@frozen
class UnservedSubmitters:
    """The submitters for which no slot was left when they would have negotiated."""

    submitters: int = 0
    jobs: int = 0  #: the number of their idle jobs
    limited: int = 0  #: the number of these submitters that had used their share


def attributes_read(state: Manager, caches: Caches) -> set[str]:
    """Return a superset of the lower-case slot attributes that idle jobs and the negotiator may read."""
    texts = declared_attributes(state.settings).expressions
    attributes = {word for text in texts for word in slot_attribute_words((("", text),))}
    return attributes.union(*idle_queues(state, caches).words)


@define
class NegotiationCycle:
    """A negotiation cycle while it divides the slots among submitters. Amounts are in cores."""

    state: Manager
    caches: Caches
    advertise: Advertise
    now: int
    context: Context
    rules: NegotiatorSettings
    accounts: CycleSubmitters
    waiting: WaitingSubmitters
    submitter_order: Mapping[str, int]
    matchmaker: Matchmaker = field(init=False)
    request_cache: AutoclusterCache = field(init=False)
    reasons: RejectionReasons = field(init=False)
    groups: GroupCycle = field(init=False)
    requests: IdleJobRequests = field(init=False)
    concurrency: CycleLimits = field(init=False)
    participants: SubmitterTable = field(init=False)  #: the rows of ``waiting`` and of ``running``
    running: list[str] = field(factory=list)  #: submitters that have slots but no idle jobs
    running_rows: dict[str, int] = field(factory=dict)  #: their row numbers in ``participants``
    checked_choices: int = -1  #: the number of matches for which ``any_available`` is known
    any_available: bool = True  #: whether any slot is still available
    unserved: UnservedSubmitters = UnservedSubmitters()
    total_cores: float = 0.0
    lightest_match: float = inf
    spins: int = 0
    jobs_considered: int = 0
    rejections: int = 0
    active_submitters: dict[str, int] = field(factory=dict)
    share_limited: dict[str, None] = field(factory=dict)
    match_counts: dict[str, int] = field(factory=dict)
    max_matches: float = inf  #: per submitter, because HTCondor's schedd limits offers by file transfers
    starts_left: float = inf  #: how many more jobs of all submitters may start (MAX_JOBS_RUNNING)
    promised: dict[str, float] = field(factory=dict)  #: cores matched but not claimed yet, which count towards ceilings
    exhausted: dict[str, set[int]] = field(factory=dict)  #: autoclusters, by submitter, for which no slot is left

    def __attrs_post_init__(self) -> None:
        state = self.state
        autoclusters = autoclusters_of(state, self.caches)
        names = attributes_read(state, self.caches)
        pool = public_ads_of(state, self.caches, self.now, self.context, names, self.advertise)
        self.matchmaker = Matchmaker(state, self.caches, self.context, self.rules, self.accounts, pool)
        self.requests = IdleJobRequests(state, autoclusters, self.caches)
        self.requests.exclude_access_points(state.peers.full)
        self.requests.exclude(job for job, at in state.peers.unavailable.items() if self.now < at + UNAVAILABLE_FOR)
        if self.rules.job_constraint is not None:
            self.requests.exclude_jobs(self.rules.job_constraint, self.context)
        self.total_cores, self.lightest_match = self.matchmaker.weigh_slots()
        self.matchmaker.consider_pslots()
        self.request_cache = AutoclusterCache(
            pool, autoclusters, self.rules, self.accounts, self.matchmaker.ranks, state.configured, state.idle
        )
        self.concurrency = CycleLimits(state, pool, self.matchmaker.ranks, self.context)
        reported = self.caches.get(ReportedRejections)
        self.reasons = RejectionReasons(
            self.matchmaker, self.request_cache, self.requests, self.waiting, self.concurrency, reported
        )
        if self.rules.match_limits and state.dialect.limits_matches_of_submitters:
            self.max_matches = self.rules.most_matches
        self.promised = self._promised_cores()
        self.groups = GroupCycle(state, self.rules, self.accounts, self.total_cores, self.lightest_match, self.reasons)
        self.groups.assign_group_quotas(self.waiting.using, self.promised)
        self.starts_left = remaining_starts(state)
        self.matchmaker.publish()

    def _promised_cores(self) -> dict[str, float]:
        promised: dict[str, float] = {}
        state, row_of = self.state, self.matchmaker.pool.row_of
        for (number, _), name in state.assigned_slots.items():
            if number in state.clusters and name in row_of and name not in state.ready_claims:
                submitter = state.clusters[number].submitter
                promised[submitter] = promised.get(submitter, 0.0) + self.matchmaker.cores(row_of[name])
        return promised

    def run(self) -> None:
        """Divide one pie among all submitters, or one pie per accounting group."""
        if self._can_spin_by_groups():
            self._spin_by_groups()
            return
        everyone = self._find_participants()
        if self.rules.tree.has_groups:
            self.groups.run(everyone, self.participants, self._divide_pie, self._is_pool_exhausted, self.context)
            self.groups.report_used_up_quotas()
        else:
            self._divide_pie(everyone, WHOLE)

    def _can_spin_by_groups(self) -> bool:
        rules = self.rules
        return not (
            rules.tree.has_groups
            or rules.ignore_user_priorities
            or self.submitter_order
            or any(self.accounts.account_of(name).floor > 0 for name in self.waiting.groups.single)
        )

    def _spin_by_groups(self) -> None:
        """Spin the pie. When no slot is left, reject the remaining submitters group by group."""
        waiting = self.waiting
        ignoring = self.rules.consider_preemption
        single = [self.accounts.account_of(name) for name in (*waiting.groups.single, *self._running_submitters())]
        order = SubmitterOrder(waiting.groups, single, self.total_cores)
        pie = before = order.pie
        if not len(order) or (pie <= 0 and not ignoring):
            return
        self.spins += 1
        remaining: list[int] = []
        for name in order:
            if self._rejects_all_remaining():
                self._reject_remaining_groups(order, pie)
                return
            account = self._waiting_account(name)
            slice_cores = self._slice(account, order.share(order.key_of(name)), self.total_cores)
            self.reasons.slices[name] = account.using + slice_cores
            done, got = self._negotiate(account, SpinLimits(min(slice_cores, pie), slice_cores, inf), ignoring, False)
            pie -= got
            if not done:
                remaining.append(waiting.row_of[name])
        if (pie < before or len(remaining) < len(order)) and self.matchmaker.any_available():
            self._find_participants()
            self._spin(np.array(remaining, np.int64), False, WHOLE, first=False)

    def _waiting_account(self, name: str) -> CycleSubmitter:
        account, row = self.accounts.account_of(name), self.waiting.row_of.get(name, -1)
        account.idle = int(self.waiting.table["idle"][row]) if self.waiting.has_idle_jobs(name) else 0
        return account

    def _running_submitters(self) -> list[str]:
        if not self.rules.consider_preemption:
            return []
        using = self.waiting.in_record_order(name for name in self.waiting.using if self.state.submitters[name].slots)
        return [name for name in using if not self.waiting.has_idle_jobs(name)]

    def _reject_remaining_groups(self, order: SubmitterOrder, pie: float) -> None:
        """Finish a spin as ``_reject_remaining`` does, but once for each group of equal priority."""
        table, row_of, ignoring = self.waiting.table, self.waiting.row_of, self.rules.consider_preemption
        individuals = [name for name in (*self.requests.begun, *self.exhausted, *self.promised) if name in row_of]
        individuals = sorted({*individuals})
        unserved: list[int] = []
        for members in order.remaining_groups(individuals):
            self._count_unserved(members, min(order.slice(members.key), pie), members.key.using)
        for name in filter(self.waiting.has_idle_jobs, order.remaining_singles(individuals)):
            account, row, key = self._waiting_account(name), row_of[name], order.key_of(name)
            autocluster, autocluster_count = (int(table[name][row]) for name in ("autocluster", "autocluster_count"))
            cores = min(order.slice(key), pie)
            if autocluster_count > 0 and name not in individuals:
                self._count_unserved(RemainingMembers(key, 1, account.idle, autocluster_count), cores, account.using)
                unserved += [row] if autocluster >= 0 else []
            elif account.idle:
                self._negotiate(account, SpinLimits(cores, cores, inf), ignoring, False)
        self.reasons.unserved_rows = np.array(unserved, np.int64)
        self.reasons.individuals = dict.fromkeys((*order.served, *individuals))

    def _count_unserved(self, members: RemainingMembers, cores: float, using: float) -> None:
        """Count submitters for which no slot was left.

        :param cores: the slice of each of these submitters
        """
        room = members.key.ceiling - using
        if room <= 0 or room < self.matchmaker.lightest_slot:
            return
        over = cores <= 0
        before, autocluster_count = self.unserved, members.autocluster_count
        if over and not (self.rules.consider_preemption and self.matchmaker.claimed.has_rank_preemption):
            autocluster_count = 0
        self.jobs_considered += autocluster_count
        self.rejections += autocluster_count
        limited = before.limited + (members.size if over else 0)
        self.unserved = UnservedSubmitters(before.submitters + members.size, before.jobs + members.idle, limited)

    def _divide_pie(self, everyone: RowNumbers, budget: PieBudget) -> RowNumbers:
        if self.participants["floor"].any():
            idle, using, floor = (self.participants[name][everyone] for name in ("idle", "using", "floor"))
            low = everyone[(idle > 0) & (using < floor)]
            if len(low):
                self._spin(low, True, budget)
        return self._spin(everyone, False, budget)

    def _find_participants(self) -> RowNumbers:
        """Return the participating submitters: those with idle jobs, followed by those with only running jobs if the
        negotiator preempts jobs. The submitters with only running jobs do not negotiate, but their usage counts."""
        waiting = self.waiting
        self.running = self._running_submitters()
        count = len(waiting.table)
        self.participants = waiting.table.with_empty_rows(len(self.running), ("using", "name_order"))
        self.running_rows = {name: row for row, name in enumerate(self.running, count)}
        for name, row in self.running_rows.items():
            self.participants.write_account(row, self.accounts.account_of(name))
        if self.submitter_order:
            last = len(self.submitter_order)
            keys = [(self.submitter_order.get(name, last), name) for name in waiting.names]
            order = sorted(range(len(keys)), key=keys.__getitem__)
            self.participants["name_order"][order] = np.arange(len(order))
        return np.concatenate([waiting.in_order(), np.arange(count, len(self.participants))])

    def _spin(self, rows: RowNumbers, floors: bool, budget: PieBudget, first: bool = True) -> RowNumbers:
        total_cores = min(self.total_cores, budget.limit)
        while len(rows):
            ignoring = first and self.rules.consider_preemption
            if not ignoring and budget.is_spent():
                return rows
            self._update_usage()
            shares, group_room = self._shares(rows), budget.room()
            slices = self._slices(rows, shares, total_cores)
            if not self.rules.consider_preemption:
                slices = np.minimum(slices, group_room)
            pie = _sum(slices)
            if not self.rules.consider_preemption and pie <= 0:
                return rows
            if first:
                order = self._order(rows, slices)
                rows, shares = rows[order], shares[order]
            self.spins += 0 if floors else 1
            before = pie
            remaining: list[int] = []
            for position, row in enumerate(map(int, rows)):  # the loop usually ends early
                if first and not floors and self._rejects_all_remaining():
                    slices = np.minimum(self._slices(rows, shares, total_cores), pie)
                    self._reject_remaining(rows[position:], slices[position:], ignoring)
                    return rows[:0]
                if not ignoring and budget.is_spent():
                    remaining += map(int, rows[position:])
                    break
                account = self._account(row)
                slice_cores = self._slice(account, float(shares[position]), total_cores)
                if floors:
                    slice_cores = min(slice_cores, account.floor - account.using)
                self.reasons.slices[account.name] = account.using + slice_cores
                free = min(slice_cores, group_room)
                if not self.rules.consider_preemption:
                    slice_cores = free
                skip = not first and min(slice_cores, pie) < self.matchmaker.lightest_slot
                capped = SHARE if slice_cores < group_room else QUOTA
                limits = SpinLimits(min(slice_cores, pie), free, inf, budget.room() if budget.strict else inf, capped)
                done, got = self._negotiate(account, limits, ignoring, skip)
                pie -= got
                if not done:
                    remaining.append(row)
            size, rows, first = len(rows), np.array(remaining, np.int64), False
            if floors or (pie >= before and len(rows) >= size) or not self.matchmaker.any_available():
                return rows
        return rows

    def _account(self, row: int) -> CycleSubmitter:
        after = row - len(self.waiting.table)
        account = self.accounts.account_of(self.running[after] if after >= 0 else self.waiting.names[row])
        account.idle = int(self.participants["idle"][row])
        return account

    def _update_usage(self) -> None:
        for name, account in self.accounts.changed_usage.items():
            row = self.running_rows.get(name, self.waiting.row_of.get(name, -1))
            if row >= 0:
                self.participants["using"][row] = account.using
        self.accounts.changed_usage.clear()

    def _shares(self, rows: RowNumbers) -> Floats:
        priorities = self.participants["priority"][rows]
        worst = priorities.max()
        shares: Floats = worst / (priorities * _sum(worst / priorities))
        return shares

    def _slices(self, rows: RowNumbers, shares: Floats, total_cores: float) -> Floats:
        if self.rules.ignore_user_priorities:
            return np.full(len(rows), ALL)
        slices: Floats = np.maximum(0.0, shares * total_cores - self.participants["using"][rows])
        return slices

    def _slice(self, account: CycleSubmitter, share: float, total_cores: float) -> float:
        return ALL if self.rules.ignore_user_priorities else max(0.0, share * total_cores - account.using)

    def _order(self, rows: RowNumbers, slices: Floats) -> RowNumbers:
        using = self.participants["using"][rows]
        slice_cores = using + slices
        starvation = np.divide(using, slice_cores, out=np.full(len(rows), inf), where=slice_cores > 0)
        names, priorities = self.participants["name_order"][rows], self.participants["priority"][rows]
        order: RowNumbers = np.lexsort((names, starvation, priorities))
        return order

    def _is_pool_exhausted(self) -> bool:
        """Check whether no slot is left, so that all remaining submitters receive nothing."""
        if len(self.matchmaker.choices) != self.checked_choices:
            self.checked_choices, self.any_available = len(self.matchmaker.choices), self.matchmaker.any_available()
        return not self.any_available and not self.rules.all_jobs and self.max_matches > 0

    def _rejects_all_remaining(self) -> bool:
        """Check whether no slot is left and, in addition, all jobs of an autocluster have the same rejection reason."""
        return self.request_cache.lasts and self._is_pool_exhausted()

    def _reject_remaining(self, rows: RowNumbers, slices: Floats, ignoring: bool) -> None:
        """Finish a spin when no slot is left, by rejecting one job of each autocluster of each submitter. Submitters
        whose autoclusters are not known negotiate as usual.

        :param slices: how many more cores each submitter may receive
        """
        self._update_usage()
        row_of, individuals = self.waiting.row_of, np.zeros(len(self.participants), bool)
        names = self.requests.begun | self.exhausted.keys() | self.promised.keys()
        individuals[[row_of[name] for name in names if name in row_of]] = True
        columns = ("autocluster", "autocluster_count", "idle", "using", "ceiling")
        autocluster, autocluster_count, idle, using, ceiling = (self.participants[name][rows] for name in columns)
        counted = (autocluster_count > 0) & ~individuals[rows]
        for number in np.flatnonzero(~counted & (idle > 0)).tolist():
            account, cores = self._account(int(rows[number])), float(slices[number])
            self._negotiate(account, SpinLimits(cores, cores, inf), ignoring, False)
        self.reasons.unserved_rows = np.concatenate([self.reasons.unserved_rows, rows[counted & (autocluster >= 0)]])
        room = ceiling - using
        counted &= (room > 0) & (room >= self.matchmaker.lightest_slot)
        over = counted & (slices <= 0)
        jobs_considered = counted if ignoring and self.matchmaker.claimed.has_rank_preemption else counted & ~over
        autoclusters = int(autocluster_count[jobs_considered].sum())
        self.jobs_considered += autoclusters
        self.rejections += autoclusters
        before = self.unserved
        more = (int(counted.sum()), int(idle[counted].sum()), int(over.sum()))
        self.unserved = UnservedSubmitters(before.submitters + more[0], before.jobs + more[1], before.limited + more[2])

    def _negotiate(self, account: CycleSubmitter, limits: SpinLimits, ignoring: bool, skip: bool) -> tuple[bool, float]:
        if not account.idle:
            return True, 0.0
        if skip:
            self.share_limited[account.name] = None
            self.reasons.stopped[account.name, -1] = limits.capped
            return False, 0.0
        limits.room = account.ceiling - account.using - self.promised.get(account.name, 0.0)
        if limits.room <= 0 or limits.room < self.matchmaker.lightest_slot:
            self.reasons.stopped[account.name, -1] = CEILING
            return True, 0.0
        self.active_submitters.setdefault(account.name, account.idle)
        got, limited = 0.0, False
        self.reasons.stopped.pop((account.name, -1), None)
        for requests, rejected in self._requests(account.name):
            limited |= self._match_jobs(account, requests, limits, ignoring, rejected) or limits.got >= limits.limit
            got += limits.got
            limits = limits.remaining()
        if limited:
            self.share_limited[account.name] = None
        return not limited, got

    def _requests(self, submitter: str) -> Iterator[tuple[Iterator[Request], set[int]]]:
        """Yield a submitter's jobs in order, in several parts if its access points are asked one after another; each
        part with the autoclusters that it skips."""
        exhausted = self.exhausted.setdefault(submitter, set())
        numbers = self.requests.access_points(submitter)
        if len(numbers) > 1 and self.rules.fair_access_points:
            yield self.requests.in_turns(submitter, numbers, rejected := set(exhausted)), rejected
        elif len(numbers) > 1 and self.state.dialect.asks_each_access_point:
            for number in numbers:
                yield self.requests.at_access_point(submitter, number, rejected := set(exhausted)), rejected
        else:
            yield self.requests.requests_of_submitter(submitter, rejected := set(exhausted)), rejected

    def _match_jobs(
        self,
        account: CycleSubmitter,
        requests: Iterator[Request],
        limits: SpinLimits,
        ignoring: bool,
        rejected: set[int],
    ) -> bool:
        """Match a submitter's jobs in order. Return whether the submitter's share stopped any of them."""
        matchmaker, stopped, exhausted = self.matchmaker, self.reasons.stopped, self.exhausted[account.name]
        limited = False
        for cluster, proc, number in requests:
            over = limits.got >= limits.limit
            if over and not (ignoring and matchmaker.claimed.has_rank_preemption):
                stopped[account.name, -1] = limits.capped
                return True
            if limits.room - limits.got <= 0:
                stopped[account.name, -1] = CEILING
                return True
            if self.match_counts.get(account.name, 0) >= self.max_matches:
                stopped[account.name, -1] = MATCHES
                return limited
            if self.starts_left <= 0:
                stopped[account.name, -1] = RUNNING
                return limited
            self.jobs_considered += 1
            job_limits = self.concurrency.limits_of_job(number, cluster, proc)
            if job_limits is not None and not job_limits.has_room():
                self._reject(account, number, rejected, exhausted, CONCURRENCY)
                continue
            if self.request_cache.find_exhausted(number, cluster, proc) is not None:
                self._reject(account, number, rejected, exhausted, "")
                continue
            request = self.request_cache.request_of_job(number, cluster, proc, account)
            request.limits = job_limits
            choice = matchmaker.best_slot(request, account, cluster, proc, limits, over)
            if choice is not None:
                self.requests.record_match(cluster, proc)
                self.starts_left -= 1
                self.match_counts[account.name] = self.match_counts.get(account.name, 0) + 1
                stopped.pop((account.name, number), None)
                continue
            self.rejections += 1
            reason = limits.capped if over and matchmaker.has_available_slot(request) else limits.stopped
            limited = limited or reason in (SHARE, QUOTA)
            if not reason and job_limits is not None and job_limits.stopping_limits():
                reason = CONCURRENCY
            stopped[account.name, number] = reason
            if not self.rules.all_jobs:
                rejected.add(number)
            if reason in ("", CONCURRENCY) and (self.rules.stable or not matchmaker.has_available_slot(request)):
                exhausted.add(number)
        return limited

    def _reject(
        self, account: CycleSubmitter, number: int, rejected: set[int], exhausted: set[int], reason: str
    ) -> None:
        self.rejections += 1
        if reason:
            self.reasons.stopped[account.name, number] = reason
        if not self.rules.all_jobs:
            rejected.add(number)
        exhausted.add(number)

    def statistics(self, matches: int) -> dict[str, float]:
        """Return the LastNegotiationCycle* attributes, without that prefix. In the log, a cycle takes no time."""
        candidates = self.matchmaker.candidates()
        return {
            "Time": self.now // 1_000_000,
            "End": self.now // 1_000_000,
            "Duration": 0,
            "TotalSlots": len(self.matchmaker.pool.names),
            "TrimmedSlots": candidates,
            "CandidateSlots": candidates,
            "SlotShareIter": 1,
            "Pies": self.groups.pies or 1,
            "PieSpins": self.spins,
            "NumSchedulers": 1 if self.active_submitters or self.unserved.submitters else 0,
            "NumIdleJobs": sum(self.active_submitters.values()) + self.unserved.jobs,
            "NumJobsConsidered": self.jobs_considered,
            "Matches": matches,
            "Rejections": self.rejections,
            "ActiveSubmitterCount": len(self.active_submitters) + self.unserved.submitters,
            "SubmittersShareLimit": len(self.share_limited) + self.unserved.limited,
            "SubmittersMatchLimit": sum(count >= self.max_matches for count in self.match_counts.values()),
        }


def _sum(values: Floats) -> float:
    """Return the sum, rounded once so that it does not depend on the order of the values."""
    return fsum(values.tolist())
