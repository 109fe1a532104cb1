"""Why jobs were rejected: the slots that satisfied each clause for a kind of jobs, and the limits that stopped the
jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from attrs import define, evolve, field, frozen

from ..events import Clause, Denied, Unmatched
from ..requests.idle_jobs import IdleJobs
from ..state.cluster import Cluster
from .autocluster_cache import AutoclusterCache
from .candidates import ResourceRequest
from .cycle_accounts import CycleSubmitter
from .cycle_limits import CycleLimits
from .matchmaker import Matchmaker
from .reported_rejections import ReportedRejections
from .resource_requests import Requests
from .share_limits import CEILING, QUOTA, SHARE
from .slot_table import Places, SlotCounts
from .waiting_submitters import WaitingSubmitters


@frozen
class _Counts:
    """The slots for one kind of jobs, after the cycle's matches."""

    left: bool  #: whether any slot is still available
    of_all: SlotCounts
    free: int  #: the number of matching free slots


class Quota(NamedTuple):
    """The group quota that stopped jobs."""

    group: str
    allowed: float = 0.0  #: cores that the group may have
    used: float = 0.0  #: cores that the group has


def _facts(one: Unmatched) -> tuple[object, ...]:
    """Return the facts of a reason, excluding the submitter, the number of jobs and the submitter's share."""
    reached = tuple([(limit.name, limit.most, limit.wanted) for limit in one.reached]) if one.reached else ()
    return one.taken, one.denied, one.limit, one.slots, one.refused_by_slot, one.clauses, reached, one.group


def is_logged(reason: Unmatched, before: Unmatched | None, submitter: str) -> bool:
    """Check whether the log already contains this reason for a job of the submitter. A different number of jobs or a
    different share does not make a reason new."""
    if before is None or before.submitter != submitter or before.taken != reason.taken:
        return False  # the most frequent case if all kinds have new reasons
    return _facts(before) == _facts(reason)


@define
class Reasons:
    """What stopped a submitter (under -1) or one of its kinds of jobs in one cycle."""

    chooser: Matchmaker
    kinds: AutoclusterCache
    requests: Requests
    waiting: WaitingSubmitters
    limits: CycleLimits
    log: ReportedRejections
    refused: Places = field(factory=lambda: np.zeros(0, np.int64))
    """The rows of submitters, each with jobs of one kind, for which no slot was left."""
    excluded: dict[str, None] | None = None
    """The exceptions, if nearly all members of the groups were rejected."""
    stopped: dict[tuple[str, int], str] = field(factory=dict)
    slices: dict[str, float] = field(factory=dict)  #: each submitter's slice in the last spin, in cores
    quota_of: Callable[[CycleSubmitter], Quota] = lambda account: Quota("")  #: returns the quota that stops a submitter
    _barren: list[tuple[int, Cluster, int, ResourceRequest, Unmatched]] = field(factory=list)
    _counts: dict[int, _Counts] = field(factory=dict)  #: by the id of the kind
    _of_match: dict[bytes, tuple[bool, int]] = field(factory=dict)
    """For each set of matching slots: whether any is still available, and how many are free. Most kinds share a set."""
    _any_free: bool = True  #: whether any slot is free after the cycle's matches
    _any_left: bool = True  #: whether any slot is still available
    _all_left: bool = False  #: whether all slots are still available

    def rejections(self) -> Iterator[Unmatched]:
        """Yield a reason for each kind of jobs with rejected jobs, unless the reason is already logged. Jobs for which
        no slot is left are not stopped by a limit."""
        chooser, rejections = self.chooser, self.chooser.state.rejections
        left = chooser.free | chooser.claimed.mask
        self._any_free, self._any_left, self._all_left = bool(chooser.free.any()), bool(left.any()), bool(left.all())
        numbers = {int(kind): self._number(int(kind), place) for kind, place in self._kinds_refused()}
        self.log.follow(chooser.state, self.requests.queues, chooser)
        requested = self._requested_kinds()
        for place, is_refused in self._to_log(numbers):
            user = chooser.accounts.of(self.waiting.names[place])
            queue, kinds_of_user = self.requests.queues.by_submitter[user.name], requested.get(user.name, ())
            kinds = (
                self.log.to_tell(queue, self.stopped.get((user.name, -1), ""), kinds_of_user)
                if self.kinds.lasts
                else None
            )
            if is_refused and kinds is not None and not kinds:
                self.waiting.note_logged(place, numbers[int(self.waiting.rows["kind"][place])])
            for number, (cluster, proc, count) in self.requests.tally(queue, kinds).items():
                job = f"{cluster.id}.{proc}"
                reason, kind = self._reason_of(user, number, cluster, proc, count)
                new = None
                if not is_logged(reason, rejections.get(cluster.id, {}).get(job), user.name):
                    is_same = (reason.job, reason.jobs, reason.submitter) == (job, count, user.name)
                    new = reason if is_same else evolve(reason, job=job, jobs=count, submitter=user.name)
                    yield new
                elif is_refused:
                    self.waiting.note_logged(place, numbers[number])
                # The use of a concurrency limit changes from cycle to cycle.
                if kinds is not None and number not in kinds_of_user and not self.limits.names_any(number):
                    kind = kind or self.kinds.of(number, cluster, proc, user)
                    self._skip(queue, number, kind, cluster.id, new)
        # These hold from the next cycle on: in this cycle, a submitter may have been denied a slot that others
        # received.
        for each in self._barren:
            self.kinds.keep_barren(*each)

    def _requested_kinds(self) -> dict[str, set[int]]:
        """Return the kinds of jobs for which the cycle searched slots, by submitter."""
        requested: dict[str, set[int]] = {}
        for name, number in self.stopped:
            if number >= 0:
                requested.setdefault(name, set()).add(number)
        for choice in self.chooser.choices:
            job_group = self.requests.queues.group_of(choice.cluster, choice.proc)
            if job_group is not None:
                requested.setdefault(choice.cluster.submitter, set()).add(job_group.kind)
        return requested

    def _skip(self, queue: IdleJobs, number: int, kind: ResourceRequest, cluster: int, new: Unmatched | None) -> None:
        """Let later cycles skip a kind of jobs until something changes."""
        job_group, reads = queue.groups.get(number), kind.planned.reads
        if job_group is not None and reads is not None and not self.requests.has_slots(job_group):
            self.log.note(queue, number, reads, self.chooser, cluster, new)

    def _kinds_refused(self) -> Iterator[tuple[int, int]]:
        """Yield the kinds of jobs for which no slot was left, each with the row of one submitter."""
        if self.excluded is not None:
            at = self.waiting.at
            yield from ((kind, at[name]) for kind, name in self.waiting.groups.kinds(self.excluded))
        kinds = self.waiting.rows["kind"][self.refused]
        if not len(kinds) or (kinds == kinds[0]).all():
            yield from zip(kinds[:1].tolist(), self.refused[:1].tolist(), strict=True)
            return
        distinct, first = np.unique(kinds, return_index=True)
        yield from zip(distinct.tolist(), self.refused[first].tolist(), strict=True)

    def _number(self, kind: int, place: int) -> int:
        """Return the number of the reason for a kind of jobs for which no slot was left."""
        account = self.chooser.accounts.of(self.waiting.names[place])
        ((cluster, proc, count),) = self.requests.tally(self.requests.queues.by_submitter[account.name]).values()
        return self.waiting.number_of(kind, _facts(self._reason_of(account, kind, cluster, proc, count)[0]))

    def _to_log(self, numbers: dict[int, int]) -> Iterator[tuple[int, bool]]:
        """Yield the rows of waiting submitters with new reasons, in the order of their records, each with whether no
        slot was left for the submitter."""
        if self.excluded is not None:
            return self._to_log_of_groups(numbers, self.excluded)
        rows, places = self.waiting.rows, self.waiting.in_turn()
        refused = np.zeros(len(rows), bool)
        refused[self.refused] = True
        if numbers:
            same = refused[places]
            kinds = np.array(list(numbers))
            order = np.searchsorted(kinds, rows["kind"][places][same])
            same[same] = rows["reason"][places][same] == np.array(list(numbers.values()))[order]
            places = places[~same]
        places = places[np.argsort(rows["born"][places], kind="stable")]
        return zip(places.tolist(), refused[places].tolist(), strict=True)

    def _to_log_of_groups(self, numbers: dict[int, int], excluded: dict[str, None]) -> Iterator[tuple[int, bool]]:
        """Yield the same rows if nearly all members of the groups were rejected; look only at the exceptions."""
        waiting = self.waiting
        rows, groups = waiting.rows, waiting.groups
        names = {**groups.alone, **dict.fromkeys(name for name in excluded if name in groups.members)}
        for kind, number in numbers.items():
            names |= dict.fromkeys(groups.unlogged(kind, number))
        places = [waiting.at[name] for name in {**names, **groups.of_several_kinds}]
        refused = {*self.refused.tolist()}
        for place in sorted(places, key=lambda place: int(rows["born"][place])):
            kind, name = int(rows["kind"][place]), waiting.names[place]
            is_refused = place in refused or (name in groups.members and kind >= 0 and name not in excluded)
            if not is_refused or rows["reason"][place] != numbers[kind]:
                yield place, is_refused

    def _reason_of(
        self, account: CycleSubmitter, number: int, cluster: Cluster, proc: int, count: int
    ) -> tuple[Unmatched, ResourceRequest | None]:
        """Return why a submitter's jobs of a kind were rejected, and the kind's request. If an earlier cycle found that
        no slot is left for such jobs, return that cycle's reason (and None)."""
        limits = self.limits.of(number, cluster, proc)
        reached = () if limits is None else limits.reached()
        barren = self.kinds.barren(number, cluster, proc)
        if barren is not None and barren.slots == len(self.chooser.pool.names):
            return barren.reason if barren.reason.reached == reached else evolve(barren.reason, reached=reached), None
        kind = self.kinds.of(number, cluster, proc, account)
        limit = self.stopped.get((account.name, number), self.stopped.get((account.name, -1), ""))
        counts = self._counts_of(kind)
        reason = self._reason(account, kind, counts, f"{cluster.id}.{proc}", count, limit if counts.left else "")
        if reached:
            reason = evolve(reason, reached=reached)
        if not counts.left:
            self._barren.append((number, cluster, proc, kind, reason))
        return reason, kind

    def _counts_of(self, kind: ResourceRequest) -> _Counts:
        """Count the slots for a kind of jobs, once for all submitters with such jobs."""
        counts = self._counts.get(id(kind))
        if counts is None:
            chooser, pool = self.chooser, self.chooser.pool
            of_all = kind.planned.counts
            if of_all is None:
                of_all = kind.planned.counts = self._count(kind)
            match = kind.match.tobytes()
            if match not in self._of_match:
                free = int(np.count_nonzero(kind.match & chooser.free & pool.counted)) if self._any_free else 0
                left = bool(kind.match.any()) if self._all_left else self._any_left and chooser.leaves_any(kind)
                self._of_match[match] = left, free
            left, free = self._of_match[match]
            counts = self._counts[id(kind)] = _Counts(left, of_all, free)
        return counts

    def _count(self, kind: ResourceRequest) -> SlotCounts:
        """Count the slots for a kind of jobs, claimed or not."""
        pool = self.chooser.pool
        counted = None if pool.counted.all() else pool.counted
        counts, left = kind.planned.plan.count_by_clause(counted)
        fits = int(np.count_nonzero(kind.match if counted is None else kind.match & counted))
        clauses = tuple([Clause(pool.text(each.clause), each.matched, each.left) for each in counts])
        slots = len(pool.names) if counted is None else int(np.count_nonzero(counted))
        return SlotCounts(slots, clauses, fits, int(np.count_nonzero(left)) - fits)

    def _reason(
        self, account: CycleSubmitter, kind: ResourceRequest, counts: _Counts, job: str, count: int, limit: str
    ) -> Unmatched:
        denied = self._denied(account, kind)
        unclaimed = counts.free if limit else 0
        others = 0 if denied is None else denied.policy + denied.rank + denied.priority + denied.own + denied.never
        quota = self.quota_of(account) if limit == QUOTA else Quota("", used=account.using)
        allowed = {SHARE: self.slices.get(account.name, 0.0), CEILING: account.ceiling}.get(limit, quota.allowed)
        return Unmatched(
            job,
            count,
            counts.of_all.slots,
            counts.of_all.clauses,
            counts.of_all.refused,
            max(0, counts.of_all.fits - unclaimed - others),
            account.name,
            denied,
            limit,
            round(allowed, 3) if limit else 0.0,
            round(quota.used, 3) if limit else 0.0,
            group=quota.group,
        )

    def _denied(self, account: CycleSubmitter, kind: ResourceRequest) -> Denied | None:
        """Return why the job may not preempt those claimed slots that accept it."""
        chooser = self.chooser
        if not chooser.rules.consider_preemption:
            never = int(np.count_nonzero(kind.match & chooser.pool.claimed & chooser.pool.counted))
            return Denied(never=never) if never else None
        preemptable = kind.preemptable.get(account.name)
        return None if preemptable is None or preemptable.denied == Denied() else preemptable.denied
