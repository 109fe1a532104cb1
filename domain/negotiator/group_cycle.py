"""Accounting groups in a cycle: their usage, requests and pies, and which jobs their quotas stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf

import numpy as np
from msgspec import Struct, field

from ..classad import Context
from ..events import GroupQuota
from ..state.cluster import IDLE
from ..state.state import Manager
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .group_demand import weight_of
from .groups.group_tree import GroupNode
from .groups.quotas import assign_quotas, logged_quotas, oversubscribes
from .groups.rounds import GroupRounds
from .negotiator_settings import NegotiatorSettings
from .rejection_reasons import ReachedQuota, RejectionReasons
from .share_limits import QUOTA
from .slot_table import RowNumbers
from .waiting_submitters import SubmitterTable


class PieBudget(Struct, frozen=True):
    """How many cores the submitters of a pie may have in total."""

    limit: float = inf
    node: GroupNode | None = None  #: the group of the pie; None: for all submitters, or not limited by a group
    strict: bool = False  #: whether no match may exceed the budget

    def room(self) -> float:
        """Return the number of cores left."""
        return inf if self.node is None else max(0.0, self.limit - self.node.usage)

    def is_spent(self) -> bool:
        return self.node is not None and self.node.usage >= self.limit


WHOLE = PieBudget()
Share = Callable[[RowNumbers, PieBudget], RowNumbers]


class GroupCycle(Struct):
    """The negotiation of the accounting groups, one after another, in one cycle."""

    state: Manager
    rules: NegotiatorSettings
    accounts: CycleSubmitters
    total: float
    lightest: float
    reasons: RejectionReasons
    demand: Mapping[str, float] = field(default_factory=dict)  #: the groups' requests, if they differ from the queue
    pies: int = 0  #: the number of pies divided
    quotas: tuple[GroupQuota, ...] = ()  #: the quotas as logged
    remainders: dict[str, None] = field(default_factory=dict)
    limits: dict[int, float] = field(default_factory=dict)  #: each group's limit in its last turn, by index
    _members: dict[int, RowNumbers] = field(default_factory=dict)  #: each group's remaining submitters, by group index

    def assign_group_quotas(self, using: Iterable[str], cores_promised: Mapping[str, float]) -> None:
        """Sum up the groups' usage, and divide the pool's cores among them.

        :param using: submitters, including all that have slots
        :param cores_promised: cores matched but not claimed yet, by submitter
        """
        if not self.rules.tree.has_groups:
            return
        accounts, submitters, weighs = self.accounts, self.state.submitters, self.rules.use_slot_weights
        nodes, weighted = accounts.nodes, self.rules.quotas.weighted_demand
        for name in using:
            record = submitters[name]
            if record.slots:
                node = nodes[accounts.group_index(name)]
                node.add_usage(record.weighted_in_use if weighs else 1000 * record.slots)
                node.demand += record.weighted_in_use / 1000 if weighted else record.slots
        for name, cores in cores_promised.items():
            nodes[accounts.group_index(name)].add_usage(round(cores * 1000))
        for number, proc in self.state.ready_claims.values():  # the slots of these idle jobs are included above
            cluster = self.state.clusters.get(number)
            if cluster is not None and not cluster.is_local and proc in cluster and cluster.status[proc] == IDLE:
                nodes[accounts.group_index(cluster.submitter)].demand -= weight_of(cluster, proc) if weighted else 1
        for node in nodes:
            node.served_at = self.state.remainders.get(node.name, 0)
        assign_quotas(nodes[0], self.total, oversubscribes(self.rules.quotas, self.state.dialect))
        self.quotas = logged_quotas(nodes)
        self.reasons.quota_of = self.quota_of

    def run(
        self, everyone: RowNumbers, table: SubmitterTable, share: Share, ends: Callable[[], bool], context: Context
    ) -> None:
        """Divide the pies of the groups, one after another.

        :param everyone: the row numbers of the participating submitters, in order
        :param table: the table that contains these rows
        :param share: divides a pie, and returns the remaining submitters
        :param ends: returns whether no slot is left
        """
        self._request(everyone, table)
        rules, dialect = self.rules, self.state.dialect

        def serve(node: GroupNode, cores: float) -> None:
            self._serve(node, cores, share, not dialect.relaxes_group_quotas)

        rounds = GroupRounds(
            self.accounts.nodes, rules.quotas, self.total, rules.use_slot_weights, rules.consider_preemption, dialect,
            context, serve, self._note_refused_group, ends, lambda node: node.number in self._members,
        )  # fmt: skip
        rounds.run()
        self.remainders = rounds.served

    def _request(self, everyone: RowNumbers, table: SubmitterTable) -> None:
        nodes, groups = self.accounts.nodes, table["group"][everyone]
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(len(nodes) + 1)).tolist()
        requested = table["requested_cores" if self.rules.quotas.weighted_demand else "idle"][everyone]
        demand = np.bincount(groups, requested, len(nodes)).tolist()
        members = everyone[order]
        for node, first, last in zip(nodes, starts[:-1], starts[1:], strict=True):
            node.demand = self.demand.get(node.name, node.demand + demand[node.number])
            if last > first:
                self._members[node.number] = members[first:last]
        regroup = np.array([node.group.autoregroup for node in nodes])
        if regroup[0]:
            own = self._members.get(0, everyone[:0])
            regroup[0] = False
            self._members[0] = np.concatenate([own, everyone[regroup[groups]]])

    def _serve(self, node: GroupNode, cores: float, share: Share, strict: bool) -> None:
        regroups = not node.number and node.group.autoregroup
        self.pies += 1
        self.limits[node.number] = cores
        self.accounts.regrouping = regroups
        remaining = share(self._members[node.number], PieBudget(cores) if regroups else PieBudget(cores, node, strict))
        self.accounts.regrouping = False
        if len(remaining):
            self._members[node.number] = remaining
        else:
            del self._members[node.number]

    def _note_refused_group(self, node: GroupNode) -> None:
        self.limits[node.number] = node.allocated

    def report_used_up_quotas(self) -> None:
        """For each group without remaining quota, report that the quota stopped the group's remaining submitters."""
        names, nodes, stopped = self.reasons.waiting.names, self.accounts.nodes, self.reasons.stopped
        for number, rows in self._members.items():
            node = nodes[number]
            if number and self._is_used_up(self.limits.get(number, 0.0) - node.usage):
                for row in rows.tolist():
                    if row < len(names):
                        stopped.setdefault((names[row], -1), QUOTA)

    def _is_used_up(self, quota: float) -> bool:
        return quota <= 0 or quota < self.lightest  # a partitionable slot without cores left weighs nothing

    def quota_of(self, account: CycleSubmitter) -> ReachedQuota:
        """Return the quota that stops a submitter's jobs: of the innermost group without remaining quota, or its
        own."""
        node = self.accounts.nodes[account.group]
        for above in node.ancestry():
            if self._is_used_up(above.remaining_quota()):
                return ReachedQuota(above.name, above.subtree_quota, above.subtree_used / 1000)
        return ReachedQuota(node.name, self.limits.get(node.number, node.allocated), node.usage)
