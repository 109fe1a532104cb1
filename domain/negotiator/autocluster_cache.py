"""The cycle's resource requests by autocluster, and the matching results that later cycles can reuse.

A plan per autocluster is cached, and so is the result that no slot is left for an autocluster. Because a cached value
must not change a cycle's result, an entry is dropped when one of its inputs changes.
"""

from __future__ import annotations

from attrs import define, field

from ..classad import ClassAd, Expression
from ..classad.columnar import JOB, SLOT
from ..classad.tree import Literal
from ..events import Unmatched
from ..requests.autoclusters import Autoclusters
from ..state.caches import ad_from_attributes
from ..state.cluster import Cluster
from .candidates import ResourceRequest, SlotRanks, is_user_attribute, submitter_attributes
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .negotiator_settings import NegotiatorSettings
from .slot_table import MOVING, AutoclusterPlan, ExhaustedAutocluster, SlotAdTable

_PLANS_KEPT = 4000
"""The number of plans to cache, in addition to one per idle job: a plan takes 4 kB, less than such a job. With fewer
plans than autoclusters, every plan would be recomputed in each cycle."""
_MOST_OF_MASKS = 48_000_000  # bytes


@define
class AutoclusterCache:
    """The cycle's resource requests by autocluster, and also by submitter if an expression reads the submitter."""

    pool: SlotAdTable
    autoclusters: Autoclusters
    rules: NegotiatorSettings
    accounts: CycleSubmitters
    ranks: SlotRanks
    configured: int  #: how often the pool was configured
    waiting: int  #: the number of idle jobs
    _known: dict[tuple[int, str], ResourceRequest] = field(factory=dict)
    _personal: bool = False  #: whether a condition or rank reads the submitter: results are then valid for it only
    lasts: bool = False  #: whether a job's result is valid for all equivalent jobs, also in later cycles
    _reading: dict[tuple[tuple[str, int], ...], tuple[list[Expression], tuple[str, ...] | None]] = field(factory=dict)
    """By the ids of a job's expressions, which the entry keeps alive."""
    _known_versions: dict[tuple[str, ...], tuple[int, ...]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._personal = any(name.startswith(("submitter", "submittor")) for name in self.pool.attributes_read())
        self.lasts = not self._personal and self.autoclusters.whole and not self.pool.reads_anything

    def request_of_job(self, number: int, cluster: Cluster, proc: int, account: CycleSubmitter) -> ResourceRequest:
        """Return the resource request of an autocluster, of which this job is a member."""
        whose = f"{self.accounts.negotiating_group(account.name)} {account.name}" if self._personal else ""
        request = self._known.get((number, whose))
        if request is None:
            if self.lasts:
                planned = self._plan_of_job(number, cluster, proc)
                match = planned.match if planned.match is not None else planned.plan.matches()
            else:
                job = ad_from_attributes(cluster.attributes(proc))
                if whose:
                    job = ClassAd(submitter_attributes(account, self.accounts), job)
                planned = AutoclusterPlan((), self.pool.table.plan(job))
                match = planned.plan.matches()
            request = self._known[number, whose] = ResourceRequest(planned.plan.job, planned, match)
        return request

    def _plan_of_job(self, number: int, cluster: Cluster, proc: int) -> AutoclusterPlan:
        plans, signature = self.pool.plans, self.autoclusters.signature(cluster, proc)
        planned = plans.get(number)
        if planned is None or planned.signature is not signature:
            if len(plans) >= _PLANS_KEPT + self.waiting:
                plans.clear()
            planned = plans[number] = AutoclusterPlan(
                signature, self.pool.table.plan(ad_from_attributes(cluster.attributes(proc)))
            )
        if planned.as_of is None or planned.reads is None or planned.as_of != self._versions(planned.reads):
            planned.reads = self._reads(planned.plan.job)
            keeps = planned.reads is not None and (len(plans) + 1) * len(self.pool.names) <= _MOST_OF_MASKS
            planned.as_of = self._versions(planned.reads) if keeps and planned.reads is not None else None
            planned.match, planned.counts = planned.plan.matches() if keeps else None, None
        return planned

    def _versions(self, reads: tuple[str, ...]) -> tuple[int, ...]:
        versions = self._known_versions.get(reads)
        if versions is None:
            versions = self._known_versions[reads] = (self.configured, *self.pool.versions(reads))
        return versions

    def find_exhausted(self, number: int, cluster: Cluster, proc: int) -> ExhaustedAutocluster | None:
        """Return an earlier cycle's result that no slot is left for an autocluster, if it is still valid."""
        known = self.pool.exhausted.get(number) if self.lasts else None
        same = known is not None and known.signature is self.autoclusters.signature(cluster, proc)
        return known if same else None

    def cache_exhausted(
        self, number: int, cluster: Cluster, proc: int, request: ResourceRequest, reason: Unmatched
    ) -> None:
        """Cache the result that no slot is left for an autocluster, if only an event can change it."""
        if not self.lasts or (reason.denied is not None and self.rules.consider_preemption):
            return  # other jobs took the denied slots, which the next cycle reports
        if request.planned.reads is not None:
            signature = self.autoclusters.signature(cluster, proc)
            self.pool.exhausted[number] = ExhaustedAutocluster(signature, len(self.pool.names), reason)

    def _reads(self, job: ClassAd) -> tuple[str, ...] | None:
        """Return the lower-case slot attributes that determine which slots match. Return None if matches may change
        without a slot event: with time, by chance, or with user priorities. The result is cached by the job's
        expressions, because most jobs have the same ones."""
        leads = [(key, expression) for key, (_, expression) in job._all().items() if type(expression) is not Literal]
        key = tuple([(name, id(expression)) for name, expression in leads])
        if key not in self._reading:
            self._reading[key] = [expression for _, expression in leads], self._names_reached(job)
        return self._reading[key][1]

    def _names_reached(self, job: ClassAd) -> tuple[str, ...] | None:
        conditions = [(job.get("Requirements"), JOB), (self.rules.slot_constraint, SLOT)]
        conditions += [(node, SLOT) for node in self.pool.table.expressions("Requirements")]
        reached = {
            read for node, own in conditions if node is not None for read in self.ranks.names_reached(node, job, own)
        }
        if any(name in MOVING or is_user_attribute(name) for _, name in reached):
            return None
        return tuple(sorted({"requirements", *(name for side, name in reached if side == SLOT)}))
