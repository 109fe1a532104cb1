"""The claimed slots that a cycle may give to another submitter's job."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from attrs import define, field

from ..classad import ClassAd, Expression
from ..classad.columns import OTHER
from ..classad.matching import is_satisfied
from ..classad.tree import Literal
from ..events import Denied
from ..state.state import Manager
from .candidates import (
    LEAST,
    PRIORITY,
    RANK,
    Floats,
    Key,
    PreemptableSlots,
    ResourceRequest,
    candidate_key,
    is_true,
    job_rank,
    round_to_single,
    submitter_attributes,
)
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import NegotiatorSettings
from .pslot_preemption import PslotPreemption
from .share_limits import SpinLimits
from .slot_table import NO_JOB, SLOT_RANK, Mask, RowNumbers, SlotAdTable


@define
class ClaimedSlots:
    """The claimed slots that the cycle may still give to another submitter's job."""

    state: Manager
    rules: NegotiatorSettings
    accounts: CycleSubmitters
    pool: SlotAdTable
    eligible: Mask  #: the slots that the negotiator may match
    publish: Callable[[], None]  #: updates the usage by submitters in the slot ads
    weights: list[float] = field(factory=list)
    mask: Mask = field(init=False)
    count: int = field(init=False)
    has_rank_preemption: bool = field(init=False)  #: whether a slot might be preempted because it prefers another job
    _priorities: Floats | None = None  #: the effective priorities of the slots' users

    def __attrs_post_init__(self) -> None:
        self.mask = self.pool.claimed & self.eligible
        if not self.rules.consider_preemption:
            self.mask[:] = False
        elif not self.rules.consider_early_preemption:
            self.mask &= ~self.pool.retiring
        if self.rules.allow_pslot_preemption:
            self.mask &= ~PslotPreemption.carved_slots(self.pool)
        self.count = int(self.mask.sum())
        self.has_rank_preemption = bool(self.count) and self._may_preempt_by_rank()

    @property
    def _may_preempt_any(self) -> bool:
        requirements = self.rules.preemption_requirements
        return self.has_rank_preemption or not isinstance(requirements, Literal) or is_satisfied(requirements.value)

    def _may_preempt_by_rank(self) -> bool:
        """Check whether the RANK of any claimed slot could prefer another job to the current one. This is impossible if
        the slot's RANK is the same for all jobs and not above the rank of its current job."""
        column = self.pool.table.columns.get("rank")
        if column is None:
            return False
        rows = np.flatnonzero(self.mask)
        kinds = column.kinds[rows] if isinstance(column.kinds, np.ndarray) else np.array(column.kinds)
        if (kinds == OTHER).any():
            return True
        values = self.pool.table.of_slots(SLOT_RANK, NO_JOB, rows)
        return bool((values > self.pool.ranks[rows]).any())

    def is_within_group(self, account: CycleSubmitter, row: int) -> bool:
        """Check whether a submitter of the same accounting group has the slot."""
        claim = self.state.slots[self.pool.names[row]].claim
        return claim is not None and self.accounts.account_of(claim.submitter).group == account.group

    def best_slot(
        self, request: ResourceRequest, account: CycleSubmitter, over: bool, limits: SpinLimits
    ) -> tuple[Key, str] | None:
        """Return the best preemptable claimed slot, and the reason for its preemption."""
        if not self.count:
            return None
        known = request.preemptable.get(account.name)
        accounts = self.accounts
        if (
            known is None
            or known.regrouping != accounts.regrouping
            or (not self.rules.stable and known.usage_changes != accounts.usage_changes)
        ):
            known = request.preemptable[account.name] = self._find(request, account)
            known.regrouping = accounts.regrouping
        while known.index < len(known.keys) and not self.mask[known.keys[known.index][5]]:
            known.index += 1
        for at in range(known.index, len(known.keys)):
            key, reason = known.keys[at], known.reasons[at]
            row = key[5]
            if not self.mask[row] or (over and reason != RANK):
                continue
            if request.limits is not None and not request.limits.allows(row):
                continue
            if limits.permits(self.weights[row], reason, limits.quota < inf and self.is_within_group(account, row)):
                return key, reason
        return None

    def _find(self, request: ResourceRequest, account: CycleSubmitter) -> PreemptableSlots:
        """Return the claimed slots that the submitter's job may preempt, and count why it may not preempt others."""
        pool, table = self.pool, self.pool.table
        rows = np.flatnonzero(request.match & self.mask)
        usage_changes = self.accounts.usage_changes
        if not len(rows):
            return PreemptableSlots([], [], Denied(), usage_changes)
        same_user = pool.user_numbers[rows] == pool.submitters.get(account.name, -2)
        if not self._may_preempt_any:
            own_count = int(np.count_nonzero(same_user))
            priority = int(np.count_nonzero(~(same_user | self.has_worse_priority(account, rows))))
            denied = Denied(len(rows) - own_count - priority, 0, priority, own_count)
            return PreemptableSlots([], [], denied, usage_changes)
        if not self.rules.stable:
            self.publish()
        job = ClassAd(submitter_attributes(account, self.accounts), request.job)
        values, current = table.of_slots(SLOT_RANK, job, rows), pool.ranks[rows]
        values = np.where(np.isnan(values), np.nan, values)
        with np.errstate(invalid="ignore"):
            has_rank_preemption, no_worse = values > current, values >= current
        by_priority = ~has_rank_preemption
        same = by_priority & same_user
        by_priority &= ~same_user
        has_worse_priority = self.has_worse_priority(account, rows)
        ahead = by_priority & ~has_worse_priority
        by_priority &= has_worse_priority
        allowed = self._allowed(job, rows, by_priority)
        policy = by_priority & ~allowed
        by_priority &= allowed
        worse = by_priority & ~no_worse
        by_priority &= no_worse
        denied = Denied(*(int(np.count_nonzero(each)) for each in (policy, worse, ahead, same)))
        preemptable = np.flatnonzero(has_rank_preemption | by_priority)
        return self._ordered(request, job, rows[preemptable], has_rank_preemption[preemptable], denied, usage_changes)

    def has_worse_priority(self, account: CycleSubmitter, rows: RowNumbers) -> Mask:
        """Return a mask of the slots whose users have a worse priority than the submitter. HTCondor leaves this
        comparison to PREEMPTION_REQUIREMENTS, so all slots count in that dialect."""
        if not self.state.dialect.preempts_only_worse_priorities:
            return np.ones(len(rows), bool)
        if self._priorities is None:  # priorities are fixed during a cycle
            priorities = [self.accounts.account_of(name).priority for name in self.pool.submitters]
            self._priorities = np.array(priorities or [0.0])
        has_worse_priority: Mask = self._priorities[self.pool.user_numbers[rows]] > account.priority
        return has_worse_priority

    def _allowed(self, job: ClassAd, rows: RowNumbers, candidates: Mask) -> Mask:
        requirements = self.rules.preemption_requirements
        if requirements is None:
            return np.ones(len(rows), bool)
        if isinstance(requirements, Literal) or not candidates.any():
            return np.full(len(rows), isinstance(requirements, Literal) and is_satisfied(requirements.value))
        return is_true(self.pool.table.of_slots(requirements, job, rows))

    def _ordered(
        self,
        request: ResourceRequest,
        job: ClassAd,
        rows: RowNumbers,
        has_rank_preemption: Mask,
        denied: Denied,
        usage_changes: int,
    ) -> PreemptableSlots:
        table, rules = self.pool.table, self.rules
        if not len(rows):
            return PreemptableSlots([], [], denied, usage_changes)

        def slot_values(expression: Expression | None) -> Floats:
            if expression is None:
                return np.full(len(rows), LEAST)
            return round_to_single(table.of_slots(expression, job, rows))

        pre, post, preemption = (
            slot_values(rules.pre_job_rank),
            slot_values(rules.post_job_rank),
            slot_values(rules.preemption_rank),
        )
        rank = job_rank(table.rank(request.job, rows))
        reasons = [RANK if preferred else PRIORITY for preferred in has_rank_preemption.tolist()]
        columns = (pre.tolist(), rank.tolist(), post.tolist(), reasons, preemption.tolist(), rows.tolist())
        keys = [(candidate_key(*row), row[3]) for row in zip(*columns, strict=True)]
        keys.sort(key=lambda pair: pair[0])
        return PreemptableSlots([key for key, _ in keys], [reason for _, reason in keys], denied, usage_changes)

    def take_from_user(self, row: int) -> CycleSubmitter | None:
        """Take a slot from its user, and return the user's account."""
        self.mask[row] = False
        self.count -= 1
        claim = self.state.slots[self.pool.names[row]].claim
        return None if claim is None else self.accounts.account_of(claim.submitter)
