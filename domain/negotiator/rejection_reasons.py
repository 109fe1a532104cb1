"""Why jobs were rejected: how many slots satisfied each clause of their Requirements, and which limits stopped them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from attrs import define, field, frozen
from msgspec.structs import replace

from ..events import Clause, Denied, Unmatched
from ..state.cluster import Cluster
from .autocluster_cache import AutoclusterCache
from .candidates import ResourceRequest
from .cycle_accounts import CycleSubmitter
from .cycle_limits import CycleLimits
from .matchmaker import Matchmaker
from .reported_rejections import ReportedRejections
from .resource_requests import IdleJobRequests
from .share_limits import CEILING, QUOTA, SHARE
from .slot_table import RowNumbers, SlotCounts
from .waiting_submitters import WaitingSubmitters


@frozen
class _Counts:
    left: bool  #: whether any slot is still available
    all_slots: SlotCounts
    free: int  #: the number of matching free slots


class ReachedQuota(NamedTuple):
    """The group quota that stopped jobs."""

    group: str
    allowed: float = 0.0  #: cores that the group may have
    used: float = 0.0  #: cores that the group has


def _facts(one: Unmatched) -> tuple[object, ...]:
    """Return the facts of a reason, excluding the submitter, the number of jobs and the submitter's share."""
    reached = tuple([(limit.name, limit.most, limit.wanted) for limit in one.reached]) if one.reached else ()
    return one.taken, one.denied, one.limit, one.slots, one.refused_by_slot, one.clauses, reached, one.group


def is_logged(reason: Unmatched, before: Unmatched | None, submitter: str) -> bool:
    """Check whether the log contains this reason for a job of the submitter, ignoring job counts and shares."""
    if before is None or before.submitter != submitter or before.taken != reason.taken:
        return False  # the most frequent case if all autoclusters have new reasons
    return _facts(before) == _facts(reason)


@define
class RejectionReasons:
    """The rejections of one cycle. ``stopped`` is the limit that stopped an autocluster or (-1) a submitter."""

    matchmaker: Matchmaker
    request_cache: AutoclusterCache
    requests: IdleJobRequests
    waiting: WaitingSubmitters
    concurrency: CycleLimits
    reported: ReportedRejections
    unserved_rows: RowNumbers = field(factory=lambda: np.zeros(0, np.int64))
    """The rows of submitters, each with jobs of one autocluster, for which no slot was left."""
    individuals: dict[str, None] | None = None
    """The exceptions, if nearly all members of the groups were rejected."""
    stopped: dict[tuple[str, int], str] = field(factory=dict)
    slices: dict[str, float] = field(factory=dict)  #: each submitter's slice in the last spin, in cores
    quota_of: Callable[[CycleSubmitter], ReachedQuota] = lambda account: ReachedQuota(
        ""
    )  #: returns the quota that stops a submitter
    _exhausted: list[tuple[int, Cluster, int, ResourceRequest, Unmatched]] = field(factory=list)
    _counts: dict[int, _Counts] = field(factory=dict)  #: by the id of the request
    _of_match: dict[int, tuple[bool, int]] = field(factory=dict)
    """For each mask of matching slots, by its id: whether any is still available, and how many are free."""
    _any_free: bool = True  #: whether any slot is free after the cycle's matches
    _any_available: bool = True  #: whether any slot is still available

    def rejections(self) -> Iterator[Unmatched]:
        """Yield a reason for each autocluster with rejected jobs, unless the log already contains the reason. If no
        slot is left for jobs, the reason names no limit."""
        matchmaker, rejections = self.matchmaker, self.matchmaker.state.rejections
        available = matchmaker.free | matchmaker.claimed.mask
        self._any_free, self._any_available = bool(matchmaker.free.any()), bool(available.any())
        numbers = {
            int(autocluster): self._number(int(autocluster), row) for autocluster, row in self._unserved_autoclusters()
        }
        self.reported.update_to_state(matchmaker.state, self.requests.queues, matchmaker)
        requested_of = self._requested_autoclusters()
        for row, is_unserved in self._rows_to_log(numbers):
            user = matchmaker.accounts.account_of(self.waiting.names[row])
            queue, requested = self.requests.queues.by_submitter[user.name], requested_of.get(user.name, ())
            autoclusters = (
                self.reported.autoclusters_to_evaluate(queue, self.stopped.get((user.name, -1), ""), requested)
                if self.request_cache.lasts
                else None
            )
            if is_unserved and autoclusters is not None and not autoclusters:
                self.waiting.note_logged(row, numbers[int(self.waiting.table["autocluster"][row])])
            for number, (cluster, proc, count) in self.requests.tally(queue, autoclusters).items():
                job = f"{cluster.id}.{proc}"
                reason, request = self._reason_of(user, number, cluster, proc, count)
                new = None
                if not is_logged(reason, rejections.get(cluster.id, {}).get(job), user.name):
                    is_same = (reason.job, reason.jobs, reason.submitter) == (job, count, user.name)
                    new = reason if is_same else replace(reason, job=job, jobs=count, submitter=user.name)
                    yield new
                elif is_unserved:
                    self.waiting.note_logged(row, numbers[number])
                # The use of a concurrency limit changes from cycle to cycle.
                if autoclusters is not None and number not in requested and not self.concurrency.names_any(number):
                    request = request or self.request_cache.request_of_job(number, cluster, proc, user)
                    job_group, reads = queue.groups.get(number), request.planned.reads
                    if job_group is not None and reads is not None and not self.requests.has_slots(job_group):
                        self.reported.note_logged_reason(queue, number, reads, matchmaker, cluster.id, new)
        # These hold from the next cycle on: in this cycle, a submitter may have been denied a slot that others
        # received.
        for each in self._exhausted:
            self.request_cache.cache_exhausted(*each)

    def _requested_autoclusters(self) -> dict[str, set[int]]:
        requested_of: dict[str, set[int]] = {}
        for name, number in self.stopped:
            if number >= 0:
                requested_of.setdefault(name, set()).add(number)
        for choice in self.matchmaker.choices:
            job_group = self.requests.queues.group_of(choice.cluster, choice.proc)
            if job_group is not None:
                requested_of.setdefault(choice.cluster.submitter, set()).add(job_group.autocluster)
        return requested_of

    def _unserved_autoclusters(self) -> Iterator[tuple[int, int]]:
        if self.individuals is not None:
            for autocluster, name in self.waiting.groups.autoclusters(self.individuals):
                yield autocluster, self.waiting.row_of[name]
        autoclusters = self.waiting.table["autocluster"][self.unserved_rows]
        if not len(autoclusters) or (autoclusters == autoclusters[0]).all():
            yield from zip(autoclusters[:1].tolist(), self.unserved_rows[:1].tolist(), strict=True)
            return
        distinct, first = np.unique(autoclusters, return_index=True)
        yield from zip(distinct.tolist(), self.unserved_rows[first].tolist(), strict=True)

    def _number(self, autocluster: int, row: int) -> int:
        account = self.matchmaker.accounts.account_of(self.waiting.names[row])
        ((cluster, proc, count),) = self.requests.tally(self.requests.queues.by_submitter[account.name]).values()
        reason, _ = self._reason_of(account, autocluster, cluster, proc, count)
        return self.waiting.reason_number(autocluster, _facts(reason))

    def _rows_to_log(self, numbers: dict[int, int]) -> Iterator[tuple[int, bool]]:
        """Yield the rows of submitters that may have new reasons, and whether no slot was left, in record order."""
        if self.individuals is not None:
            return self._group_rows_to_log(numbers, self.individuals)
        table, rows = self.waiting.table, self.waiting.in_order()
        unserved_rows = np.zeros(len(table), bool)
        unserved_rows[self.unserved_rows] = True
        if numbers:
            same = unserved_rows[rows]
            autoclusters = np.array(list(numbers))
            order = np.searchsorted(autoclusters, table["autocluster"][rows][same])
            same[same] = table["reason"][rows][same] == np.array(list(numbers.values()))[order]
            rows = rows[~same]
        rows = rows[np.argsort(table["record_index"][rows], kind="stable")]
        return zip(rows.tolist(), unserved_rows[rows].tolist(), strict=True)

    def _group_rows_to_log(self, numbers: dict[int, int], individuals: dict[str, None]) -> Iterator[tuple[int, bool]]:
        """Yield the same as ``_rows_to_log`` if nearly all group members were rejected; visit only the others."""
        waiting = self.waiting
        table, groups = waiting.table, waiting.groups
        names = {**groups.single, **dict.fromkeys(name for name in individuals if name in groups.members)}
        for autocluster, number in numbers.items():
            names |= dict.fromkeys(groups.unlogged(autocluster, number))
        rows = [waiting.row_of[name] for name in {**names, **groups.with_several_autoclusters}]
        unserved_rows = {*self.unserved_rows.tolist()}
        for row in sorted(rows, key=lambda row: int(table["record_index"][row])):
            autocluster, name = int(table["autocluster"][row]), waiting.names[row]
            in_group = name in groups.members and autocluster >= 0 and name not in individuals
            is_unserved = in_group or row in unserved_rows
            if not is_unserved or table["reason"][row] != numbers[autocluster]:
                yield row, is_unserved

    def _reason_of(
        self, account: CycleSubmitter, number: int, cluster: Cluster, proc: int, count: int
    ) -> tuple[Unmatched, ResourceRequest | None]:
        """Return why a submitter's jobs of an autocluster were rejected, and their request. If an earlier cycle found
        that no slot is left for them, return that cycle's reason and None."""
        limits = self.concurrency.limits_of_job(number, cluster, proc)
        reached = () if limits is None else limits.stopping_limits()
        exhausted = self.request_cache.find_exhausted(number, cluster, proc)
        if exhausted is not None and exhausted.slots == len(self.matchmaker.pool.names):
            return exhausted.reason if exhausted.reason.reached == reached else replace(
                exhausted.reason, reached=reached
            ), None
        request = self.request_cache.request_of_job(number, cluster, proc, account)
        limit = self.stopped.get((account.name, number), self.stopped.get((account.name, -1), ""))
        counts = self._counts_of(request)
        reason = self._reason(account, request, counts, f"{cluster.id}.{proc}", count, limit if counts.left else "")
        if reached:
            reason = replace(reason, reached=reached)
        if not counts.left:
            self._exhausted.append((number, cluster, proc, request, reason))
        return reason, request

    def _counts_of(self, request: ResourceRequest) -> _Counts:
        counts = self._counts.get(id(request))
        if counts is None:
            matchmaker = self.matchmaker
            all_slots = request.planned.counts
            if all_slots is None:
                all_slots = request.planned.counts = self._count(request)
            match = id(request.match)
            if match not in self._of_match:
                free = (
                    int(np.count_nonzero(request.match & matchmaker.free & matchmaker.counted)) if self._any_free else 0
                )
                left = self._any_available and matchmaker.has_available_slot(request)
                self._of_match[match] = left, free
            left, free = self._of_match[match]
            counts = self._counts[id(request)] = _Counts(left, all_slots, free)
        return counts

    def _count(self, request: ResourceRequest) -> SlotCounts:
        pool, counted_slots = self.matchmaker.pool, self.matchmaker.counted
        counted = None if counted_slots.all() else counted_slots
        counts, left = request.planned.plan.count_by_clause(counted)
        fits = pool.table.count(request.match if counted is None else request.match & counted)
        clauses = tuple([Clause(pool.text(each.clause), each.matched, each.left) for each in counts])
        slots = len(pool.names) if counted is None else int(np.count_nonzero(counted))
        return SlotCounts(slots, clauses, fits, pool.table.count(left) - fits)

    def _reason(
        self, account: CycleSubmitter, request: ResourceRequest, counts: _Counts, job: str, count: int, limit: str
    ) -> Unmatched:
        denied = self._denied(account, request)
        unclaimed = counts.free if limit else 0
        others = 0 if denied is None else denied.policy + denied.rank + denied.priority + denied.own + denied.never
        quota = self.quota_of(account) if limit == QUOTA else ReachedQuota("", used=account.using)
        allowed = {SHARE: self.slices.get(account.name, 0.0), CEILING: account.ceiling}.get(limit, quota.allowed)
        return Unmatched(
            job,
            count,
            counts.all_slots.slots,
            counts.all_slots.clauses,
            counts.all_slots.rejecting,
            max(0, counts.all_slots.fits - unclaimed - others),
            account.name,
            denied,
            limit,
            round(allowed, 3) if limit else 0.0,
            round(quota.used, 3) if limit else 0.0,
            group=quota.group,
        )

    def _denied(self, account: CycleSubmitter, request: ResourceRequest) -> Denied | None:
        matchmaker = self.matchmaker
        if not matchmaker.rules.consider_preemption:
            never = int(np.count_nonzero(request.match & matchmaker.pool.claimed & matchmaker.counted))
            return Denied(never=never) if never else None
        preemptable = request.preemptable.get(account.name)
        return None if preemptable is None or preemptable.denied == Denied() else preemptable.denied
