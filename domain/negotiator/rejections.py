"""Why jobs got nothing: of each kind of them what each condition left, and what else stood in the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import define, evolve, field

from ..events import Clause, Denied, Unmatched
from .autocluster_cache import AutoclusterCache
from .candidates import Kind
from .cycle_accounts import Account
from .matchmaker import CEILING, SHARE, Matchmaker
from .resource_requests import Requests


def _facts(one: Unmatched) -> tuple[object, ...]:
    """What is told but for whose jobs they are, and how many, and how much the submitter's share is."""
    return one.slots, one.clauses, one.refused_by_slot, one.taken, one.denied, one.limit


def known(reason: Unmatched, before: Unmatched | None, submitter: str) -> bool:
    """Whether the log has this reason for a job of the submitter. That it holds for more or fewer jobs is no news, nor
    how much the share is now."""
    return before is not None and before.submitter == submitter and _facts(before) == _facts(reason)


@define
class Reasons:
    """What stood in the way in one cycle: of a submitter (under -1), or of one of its kinds of jobs."""

    chooser: Matchmaker
    kinds: AutoclusterCache
    requests: Requests
    stopped: dict[tuple[str, int], str] = field(factory=dict)
    slices: dict[str, float] = field(factory=dict)  #: the cores that each was to have at most in the last spin

    def told(self) -> Iterator[Unmatched]:
        """One for each kind of jobs of which some have got nothing, if the log does not have it. No limit is in the way
        of jobs that no slot is left for."""
        chooser, kinds, found = self.chooser, self.kinds, []
        slots, refusals = len(chooser.pool.names), chooser.state.rejections
        for one in chooser.accounts.waiting():
            name = one.name
            for number, (cluster, proc, count) in self.requests.tally(name).items():
                job = f"{cluster.id}.{proc}"
                barren = kinds.barren(number, cluster, proc)
                if barren is not None and barren.slots == slots:
                    if not known(barren.told, refusals.get(job), name):
                        yield evolve(barren.told, job=job, jobs=count, submitter=name)
                    continue
                kind = kinds.of(number, cluster, proc, one)
                limit = self.stopped.get((name, number), self.stopped.get((name, -1), ""))
                left = chooser.leaves_any(kind)
                reason = self._reason(one, kind, job, count, limit if left else "")
                if not known(reason, refusals.get(job), name):
                    yield reason
                if not left:
                    found.append((number, cluster, proc, kind, reason))
        for each in found:  # it holds from the next cycle on: in this one, others may have been denied what has gone
            kinds.keep_barren(*each)

    def _reason(self, one: Account, kind: Kind, job: str, count: int, limit: str) -> Unmatched:
        chooser, pool = self.chooser, self.chooser.pool
        counted = None if pool.counted.all() else pool.counted
        counts, left = kind.plan.by_clause(counted)
        match = kind.match if counted is None else kind.match & counted
        fits = int(np.count_nonzero(match))
        denied = self._denied(one, kind)
        still = int(np.count_nonzero(match & chooser.free)) if limit else 0
        slots = len(pool.names) if counted is None else int(np.count_nonzero(counted))
        refused = int(np.count_nonzero(left)) - fits
        others = 0 if denied is None else denied.policy + denied.rank + denied.priority + denied.own + denied.never
        allowed = {SHARE: self.slices.get(one.name, 0.0), CEILING: one.ceiling}.get(limit, 0.0)
        return Unmatched(
            job,
            count,
            slots,
            tuple([Clause(pool.text(each.clause), each.matched, each.left) for each in counts]),
            refused,
            max(0, fits - still - others),
            one.name,
            denied,
            limit,
            round(allowed, 3) if limit else 0.0,
            round(one.using, 3) if limit else 0.0,
        )

    def _denied(self, one: Account, kind: Kind) -> Denied | None:
        """Of the slots that others have and that accept the job, why it may not have them."""
        chooser = self.chooser
        if not chooser.rules.consider_preemption:
            never = int(np.count_nonzero(kind.match & chooser.pool.held & chooser.pool.counted))
            return Denied(never=never) if never else None
        held = kind.held.get(one.name)
        return None if held is None or held.denied == Denied() else held.denied
