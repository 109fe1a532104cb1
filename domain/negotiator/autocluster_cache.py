"""What is known of each kind of jobs in a cycle, and what is kept of it for the next ones.

Kept are a kind's plan, and that no slot is left for it. Nothing of that may change what a cycle
comes to: it is dropped with what it was read from.
"""

from __future__ import annotations

from attrs import define, field

from ..classad import ClassAd, Expression
from ..classad.columnar import JOB, SLOT
from ..classad.tree import Literal
from ..events import Unmatched
from ..requests.autoclusters import SignificantAttributes
from ..state.caches import ad_of
from ..state.cluster import Cluster
from .candidates import Ranks, ResourceRequest, ephemeral, is_published
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import Negotiator
from .slot_table import MOVING, Exhausted, Planned, PublicAds

_PLANS_KEPT = 4000
"""Plans that are kept, and as many more as jobs wait: 4 kB each, less than such a job takes anyway. With fewer than the
kinds that are looked at in turn, each would be made anew each time."""
_MOST_OF_MASKS = 48_000_000  # bytes


@define
class AutoclusterCache:
    """The kinds of jobs of one cycle, each by the number of its autocluster, and by its submitter if that is asked
    for."""

    pool: PublicAds
    likeness: SignificantAttributes
    rules: Negotiator
    accounts: CycleSubmitters
    ranks: Ranks
    configured: int  #: as of how many configurations
    waiting: int  #: how many jobs wait
    _known: dict[tuple[int, str], ResourceRequest] = field(factory=dict)
    _personal: bool = False  #: a condition or rank asks who the submitter is: nothing holds for another one's like jobs
    lasts: bool = False  #: what holds for one job holds for all that count as alike, also in later cycles
    _reading: dict[tuple[tuple[str, int], ...], tuple[list[Expression], tuple[str, ...] | None]] = field(factory=dict)
    """By a job's expressions, which it keeps alive."""
    _known_versions: dict[tuple[str, ...], tuple[int, ...]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._personal = any(name.startswith(("submitter", "submittor")) for name in self.pool.read())
        self.lasts = not self._personal and self.likeness.whole and not self.pool.reads_anything

    def of(self, number: int, cluster: Cluster, proc: int, account: CycleSubmitter) -> ResourceRequest:
        """What is known of a job's like."""
        whose = f"{self.accounts.negotiating(account.name)} {account.name}" if self._personal else ""
        request = self._known.get((number, whose))
        if request is None:
            if self.lasts:
                planned = self._planned(number, cluster, proc)
                match = planned.match if planned.match is not None else planned.plan.matches()
            else:
                job = ad_of(cluster.attributes(proc))
                if whose:
                    job = ClassAd(ephemeral(account, self.accounts), job)
                planned = Planned((), self.pool.table.plan(job))
                match = planned.plan.matches()
            request = self._known[number, whose] = ResourceRequest(planned.plan.job, planned, match)
        return request

    def _planned(self, number: int, cluster: Cluster, proc: int) -> Planned:
        plans, signature = self.pool.plans, self.likeness.signature(cluster, proc)
        planned = plans.get(number)
        if planned is None or planned.signature is not signature:
            if len(plans) >= _PLANS_KEPT + self.waiting:
                plans.clear()
            planned = plans[number] = Planned(signature, self.pool.table.plan(ad_of(cluster.attributes(proc))))
        if planned.as_of is None or planned.reads is None or planned.as_of != self._versions(planned.reads):
            planned.reads = self._reads(planned.plan.job)
            keeps = planned.reads is not None and (len(plans) + 1) * len(self.pool.names) <= _MOST_OF_MASKS
            planned.as_of = self._versions(planned.reads) if keeps and planned.reads is not None else None
            planned.match, planned.counts = planned.plan.matches() if keeps else None, None
        return planned

    def _versions(self, reads: tuple[str, ...]) -> tuple[int, ...]:
        """Which versions these attributes of the slots have in this cycle, and all else that tells slots apart."""
        versions = self._known_versions.get(reads)
        if versions is None:
            versions = self._known_versions[reads] = (self.configured, *self.pool.versions(reads))
        return versions

    def barren(self, number: int, cluster: Cluster, proc: int) -> Exhausted | None:
        """What an earlier cycle has found, if it is that no slot is left for such jobs and nothing has changed that
        since."""
        known = self.pool.barren.get(number) if self.lasts else None
        same = known is not None and known.signature is self.likeness.signature(cluster, proc)
        return known if same else None

    def keep_barren(self, number: int, cluster: Cluster, proc: int, kind: ResourceRequest, reason: Unmatched) -> None:
        """Remember that no slot is left for such jobs, if only an event can change that."""
        if not self.lasts or (reason.denied is not None and self.rules.consider_preemption):
            return  # the slots that were denied have gone to others: the next cycle says so
        if kind.planned.reads is not None:
            signature = self.likeness.signature(cluster, proc)
            self.pool.barren[number] = Exhausted(signature, len(self.pool.names), reason)

    def _reads(self, job: ClassAd) -> tuple[str, ...] | None:
        """The attributes of slots, in small letters, that decide which of them such jobs match. None: that may change
        without an event of its slots: by time passing, by chance, or by the priorities of those who have them. Only a
        job's expressions lead further, and most jobs have the same."""
        leads = [(key, expression) for key, (_, expression) in job._all().items() if type(expression) is not Literal]
        key = tuple([(name, id(expression)) for name, expression in leads])
        if key not in self._reading:
            self._reading[key] = [expression for _, expression in leads], self._reached(job)
        return self._reading[key][1]

    def _reached(self, job: ClassAd) -> tuple[str, ...] | None:
        conditions = [(job.get("Requirements"), JOB), (self.rules.slot_constraint, SLOT)]
        conditions += [(node, SLOT) for node in self.pool.table.expressions("Requirements")]
        reached = {read for node, own in conditions if node is not None for read in self.ranks.reached(node, job, own)}
        if any(name in MOVING or is_published(name) for _, name in reached):
            return None
        return tuple(sorted({"requirements", *(name for side, name in reached if side == SLOT)}))
