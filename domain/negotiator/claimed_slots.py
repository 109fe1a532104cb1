"""The claimed slots that a cycle may give to another submitter's job."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from attrs import define, field

from ..classad import ClassAd, Expression, parse
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
    ephemeral,
    is_true,
    job_rank,
    key_of,
    single,
)
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import Negotiator
from .pslot_preemption import PslotPreemption
from .share_limits import SpinLimits
from .slot_table import Mask, Places, PublicAds

_RANK_OF = parse("MY.Rank")
_NOBODY = ClassAd()


@define
class ClaimedSlots:
    """The claimed slots that are still available (``mask``, ``count``). ``eligible``: the slots that the negotiator may
    match. ``publish`` updates the usage by users in the slots' ads."""

    state: Manager
    rules: Negotiator
    accounts: CycleSubmitters
    pool: PublicAds
    eligible: Mask
    publish: Callable[[], None]
    weights: list[float] = field(factory=list)
    mask: Mask = field(init=False)
    count: int = field(init=False)
    prefers: bool = field(init=False)  #: whether a slot might be preempted because it prefers another job
    _priorities: Floats | None = None  #: the effective priorities of the slots' users

    def __attrs_post_init__(self) -> None:
        self.mask = self.pool.claimed & self.eligible
        if not self.rules.consider_preemption:
            self.mask[:] = False
        elif not self.rules.consider_early_preemption:
            self.mask &= ~self.pool.retiring
        if self.rules.allow_pslot_preemption:
            self.mask &= ~PslotPreemption.carved(self.pool)
        self.count = int(self.mask.sum())
        self.prefers = bool(self.count) and self._may_be_preferred()

    @property
    def _may_change_hands(self) -> bool:
        """Check whether any claimed slot may be preempted. By default, only RANK allows preemption."""
        requirements = self.rules.preemption_requirements
        return self.prefers or not isinstance(requirements, Literal) or is_satisfied(requirements.value)

    def _may_be_preferred(self) -> bool:
        """Check whether any claimed slot could rank another job above its current one. It cannot if its RANK is equal
        for all jobs and does not exceed the rank of its current job."""
        column = self.pool.table.columns.get("rank")
        if column is None:
            return False
        places = np.flatnonzero(self.mask)
        kinds = column.kinds[places] if isinstance(column.kinds, np.ndarray) else np.array(column.kinds)
        if (kinds == OTHER).any():
            return True
        values = self.pool.table.of_slots(_RANK_OF, _NOBODY, places)
        return bool((values > self.pool.ranks[places]).any())

    def swaps(self, account: CycleSubmitter, place: int) -> bool:
        """Check whether a submitter of the same group has the slot."""
        claim = self.state.slots[self.pool.names[place]].claim
        return claim is not None and self.accounts.of(claim.submitter).group == account.group

    def best(
        self, kind: ResourceRequest, account: CycleSubmitter, over: bool, limits: SpinLimits
    ) -> tuple[Key, str] | None:
        """Return the best preemptable claimed slot, and the reason for its preemption."""
        if not self.count:
            return None
        known = kind.preemptable.get(account.name)
        accounts = self.accounts
        if (
            known is None
            or known.regrouping != accounts.regrouping
            or (not self.rules.stable and known.given != accounts.given)
        ):
            known = kind.preemptable[account.name] = self._find(kind, account)
            known.regrouping = accounts.regrouping
        while known.index < len(known.keys) and not self.mask[known.keys[known.index][5]]:
            known.index += 1
        for at in range(known.index, len(known.keys)):
            key, reason = known.keys[at], known.reasons[at]
            place = key[5]
            if not self.mask[place] or (over and reason != RANK):
                continue
            if kind.limits is not None and not kind.limits.allows(place):
                continue
            if limits.permits(self.weights[place], reason, limits.quota < inf and self.swaps(account, place)):
                return key, reason
        return None

    def _find(self, kind: ResourceRequest, account: CycleSubmitter) -> PreemptableSlots:
        """Return the claimed slots that this submitter's job may preempt, and why it may not preempt the others."""
        pool, table = self.pool, self.pool.table
        places = np.flatnonzero(kind.match & self.mask)
        given = self.accounts.given
        if not len(places):
            return PreemptableSlots([], [], Denied(), given)
        same_user = pool.users[places] == pool.submitters.get(account.name, -2)
        if not self._may_change_hands:
            own_count = int(np.count_nonzero(same_user))
            priority = int(np.count_nonzero(~(same_user | self.behind(account, places))))
            return PreemptableSlots([], [], Denied(len(places) - own_count - priority, 0, priority, own_count), given)
        if not self.rules.stable:
            self.publish()
        job = ClassAd(ephemeral(account, self.accounts), kind.job)
        values, current = table.of_slots(_RANK_OF, job, places), pool.ranks[places]
        values = np.where(np.isnan(values), np.nan, values)
        with np.errstate(invalid="ignore"):
            prefers, no_worse = values > current, values >= current
        left = ~prefers
        same = left & same_user
        left &= ~same_user
        behind = self.behind(account, places)
        ahead = left & ~behind
        left &= behind
        allowed = self._allowed(job, places, left)
        policy = left & ~allowed
        left &= allowed
        worse = left & ~no_worse
        left &= no_worse
        denied = Denied(*(int(np.count_nonzero(each)) for each in (policy, worse, ahead, same)))
        preemptable = np.flatnonzero(prefers | left)
        return self._ordered(kind, job, places[preemptable], prefers[preemptable], denied, given)

    def behind(self, account: CycleSubmitter, places: Places) -> Mask:
        """Check which slots' users have a worse priority than the submitter. In HTCondor, PREEMPTION_REQUIREMENTS
        determines this."""
        if not self.state.dialect.preempts_only_worse_priorities:
            return np.ones(len(places), bool)
        if self._priorities is None:  # priorities are fixed during a cycle
            priorities = [self.accounts.of(name).priority for name in self.pool.submitters]
            self._priorities = np.array(priorities or [0.0])
        behind: Mask = self._priorities[self.pool.users[places]] > account.priority
        return behind

    def _allowed(self, job: ClassAd, places: Places, candidates: Mask) -> Mask:
        """Return the rows where PREEMPTION_REQUIREMENTS is true; if it is not set, all rows."""
        requirements = self.rules.preemption_requirements
        if requirements is None:
            return np.ones(len(places), bool)
        if isinstance(requirements, Literal) or not candidates.any():
            return np.full(len(places), isinstance(requirements, Literal) and is_satisfied(requirements.value))
        return is_true(self.pool.table.of_slots(requirements, job, places))

    def _ordered(
        self, kind: ResourceRequest, job: ClassAd, places: Places, prefers: Mask, denied: Denied, given: int
    ) -> PreemptableSlots:
        table, rules = self.pool.table, self.rules
        if not len(places):
            return PreemptableSlots([], [], denied, given)

        def of(expression: Expression | None) -> Floats:
            if expression is None:
                return np.full(len(places), LEAST)
            return single(table.of_slots(expression, job, places))

        pre, post, preemption = of(rules.pre_job_rank), of(rules.post_job_rank), of(rules.preemption_rank)
        rank = job_rank(table.rank(kind.job, places))
        reasons = [RANK if preferred else PRIORITY for preferred in prefers.tolist()]
        columns = (pre.tolist(), rank.tolist(), post.tolist(), reasons, preemption.tolist(), places.tolist())
        keys = [(key_of(*row), row[3]) for row in zip(*columns, strict=True)]
        keys.sort(key=lambda pair: pair[0])
        return PreemptableSlots([key for key, _ in keys], [reason for _, reason in keys], denied, given)

    def take(self, place: int) -> CycleSubmitter | None:
        """Take a slot from its user, and return the user's account."""
        self.mask[place] = False
        self.count -= 1
        claim = self.state.slots[self.pool.names[place]].claim
        return None if claim is None else self.accounts.of(claim.submitter)
