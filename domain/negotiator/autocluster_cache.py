"""What is known of each kind of jobs in a cycle, and what is kept of it for the next ones.

Kept are a kind's plan, the names of its ranks, and that no slot is left for it. Nothing of that may change what a cycle
comes to: it is dropped with what it was read from.
"""

from __future__ import annotations

from attrs import define, field

from ..classad import ClassAd, Expression, Plan
from ..classad.columnar import JOB, SLOT
from ..classad.tree import Literal
from ..events import Unmatched
from ..state.cluster import Cluster
from ..state.expression_cache import ad_of
from .autoclusters import SignificantAttributes
from .candidates import Kind, Ranks, ephemeral, is_published
from .cycle_accounts import Account, Accounts
from .settings import Negotiator
from .slot_table import MOVING, Exhausted, LastingFacts, PublicAds

_PLANS_KEPT = 4000


@define
class AutoclusterCache:
    """The kinds of jobs of one cycle, each by the number of its autocluster, and by its submitter if that is asked
    for."""

    pool: PublicAds
    likeness: SignificantAttributes
    rules: Negotiator
    accounts: Accounts
    ranks: Ranks
    total: float = 0.0  #: the pool's weight
    _known: dict[tuple[int, str], Kind] = field(factory=dict)
    _personal: bool = False  #: a condition or rank asks who the submitter is: nothing holds for another one's like jobs
    _lasts: bool = False  #: what holds for one job holds for all that count as alike, also in later cycles
    _moving: dict[tuple[tuple[str, int], ...], tuple[list[Expression], bool]] = field(factory=dict)
    """By a job's expressions, which it keeps alive."""

    def __attrs_post_init__(self) -> None:
        self._personal = any(name.startswith(("submitter", "submittor")) for name in self.pool.read())
        self._lasts = not self._personal and self.likeness.whole and not self.pool.reads_anything

    def of(self, number: int, cluster: Cluster, proc: int, one: Account) -> Kind:
        """What is known of a job's like."""
        whose = one.name if self._personal else ""
        found = self._known.get((number, whose))
        if found is None:
            if self._lasts:
                plan = self._plan(number, cluster, proc)
                ranks = self._aspect(number, cluster, proc, plan.job).ranks
            else:
                job = ad_of(cluster.attributes(proc))
                if whose:
                    job = ClassAd(ephemeral(one, self.accounts, self.total), job)
                plan, ranks = self.pool.table.plan(job), self.ranks.names(job)
            found = self._known[number, whose] = Kind(plan.job, plan, plan.matches(), ranks)
        return found

    def _plan(self, number: int, cluster: Cluster, proc: int) -> Plan:
        plans, signature = self.pool.plans, self.likeness.signature(cluster, proc)
        found = plans.get(number)
        if found is None or found[0] is not signature:
            if len(plans) >= _PLANS_KEPT:
                plans.clear()
            found = plans[number] = (signature, self.pool.table.plan(ad_of(cluster.attributes(proc))))
        return found[1]

    def _aspect(self, number: int, cluster: Cluster, proc: int, job: ClassAd) -> LastingFacts:
        aspects, signature = self.pool.aspects, self.likeness.signature(cluster, proc)
        found = aspects.get(number)
        if found is None or found.signature is not signature:
            found = aspects[number] = LastingFacts(signature, self.ranks.names(job))
        return found

    def barren(self, number: int, cluster: Cluster, proc: int) -> Exhausted | None:
        """What an earlier cycle has found, if it is that no slot is left for such jobs and nothing has changed that
        since."""
        known = self.pool.barren.get(number) if self._lasts else None
        same = known is not None and known.signature is self.likeness.signature(cluster, proc)
        return known if same else None

    def keep_barren(self, number: int, cluster: Cluster, proc: int, kind: Kind, told: Unmatched) -> None:
        """Remember that no slot is left for such jobs, if only an event can change that."""
        if not self._lasts or (told.denied is not None and self.rules.consider_preemption):
            return  # the slots that were denied have gone to others: the next cycle says so
        aspect = self._aspect(number, cluster, proc, kind.job)
        if aspect.moves is None:
            aspect.moves = self._moves(kind.job)
        if not aspect.moves:
            self.pool.barren[number] = Exhausted(aspect.signature, len(self.pool.names), told)

    def _moves(self, job: ClassAd) -> bool:
        """Whether what the job matches may change without an event of its slots: by time passing, by chance, or by the
        priorities of those who have them. Only a job's expressions lead further, and most jobs have the same."""
        leads = [(key, one) for key, (_, one) in job._all().items() if type(one) is not Literal]
        key = tuple([(name, id(one)) for name, one in leads])
        if key not in self._moving:
            self._moving[key] = [one for _, one in leads], self._reach_what_moves(job)
        return self._moving[key][1]

    def _reach_what_moves(self, job: ClassAd) -> bool:
        conditions = [(job.get("Requirements"), JOB), (self.rules.slot_constraint, SLOT)]
        conditions += [(one, SLOT) for one in self.pool.table.expressions("Requirements")]
        reached = (self.ranks.reached(one, job, own) for one, own in conditions if one is not None)
        return any(name in MOVING or is_published(name) for read in reached for _, name in read)
