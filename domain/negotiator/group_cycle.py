"""The accounting groups in a cycle: what each of them has and asks for, its pie, and what is told of its quota."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf

import numpy as np
from msgspec import Struct, field

from ..classad import Context
from ..events import GroupQuota
from ..state.cluster import IDLE, Cluster
from ..state.state import Manager
from .cycle_accounts import CycleSubmitter, CycleSubmitters
from .group_demand import weight_of
from .groups.group_tree import Node
from .groups.quotas import assign, logged_quotas, oversubscribes
from .groups.rounds import Rounds
from .negotiator_settings import Negotiator
from .rejection_reasons import Quota, Reasons
from .share_limits import QUOTA
from .slot_table import Places
from .waiting_submitters import Rows


class Budget(Struct, frozen=True):
    """What the submitters of a pie may have together: so many cores, counted from nothing."""

    limit: float = inf
    node: Node | None = None  #: the group whose pie it is; None: it is of all, or what no group limits
    strict: bool = False  #: whether no match may exceed it

    def room(self) -> float:
        """The cores that are left of it."""
        return inf if self.node is None else max(0.0, self.limit - self.node.usage)

    def strict_room(self) -> float:
        """The same, if no match may exceed it."""
        return self.room() if self.strict else inf

    def is_spent(self) -> bool:
        return self.node is not None and self.node.usage >= self.limit


WHOLE = Budget()
Share = Callable[[Places, Budget], Places]


class GroupTurns(Struct):
    """The groups of one cycle."""

    state: Manager
    rules: Negotiator
    accounts: CycleSubmitters
    total: float
    lightest: float
    reasons: Reasons
    demand: Mapping[str, float] = field(default_factory=dict)  #: what groups request, if it is not what the queue says
    pies: int = 0  #: how many pies were cut
    quotas: tuple[GroupQuota, ...] = ()  #: the quotas, as the log has them
    remainders: dict[str, None] = field(default_factory=dict)
    limits: dict[int, float] = field(default_factory=dict)  #: by a group's place what it might have in its last turn
    _members: dict[int, Places] = field(default_factory=dict)  #: by a group's place those of it who are left

    def begin(self, using: Iterable[str], promised: Mapping[str, float]) -> None:
        """Count what the groups have, and divide the pool's cores among them.

        :param using: all that have slots, among others
        :param promised: cores that were given, and are not held yet, by submitter
        """
        if not self.rules.tree.divides:
            return
        accounts, submitters, weighs = self.accounts, self.state.submitters, self.rules.use_slot_weights
        nodes, weighted = accounts.nodes, self.rules.quotas.weighted_demand
        for name in using:
            record = submitters[name]
            if record.slots:
                node = nodes[accounts.place_of(name)]
                node.take(record.weighted_in_use if weighs else 1000 * record.slots)
                node.demand += record.weighted_in_use / 1000 if weighted else record.slots
        for name, cores in promised.items():
            nodes[accounts.place_of(name)].take(round(cores * 1000))
        for cluster, proc in self._begun():  # of these, the slots are counted above
            nodes[accounts.place_of(cluster.submitter)].demand -= weight_of(cluster, proc) if weighted else 1
        for node in nodes:
            node.served_at = self.state.remainders.get(node.name, 0)
        assign(nodes[0], self.total, oversubscribes(self.rules.quotas, self.state.dialect))
        self.quotas = logged_quotas(nodes)
        self.reasons.quota_of = self.quota_of

    def _begun(self) -> Iterator[tuple[Cluster, int]]:
        """The jobs that are idle, and whose slots are held for them already."""
        for number, proc in self.state.claim_ready.values():
            cluster = self.state.clusters.get(number)
            if cluster is not None and not cluster.local and proc in cluster and cluster.status[proc] == IDLE:
                yield cluster, proc

    def run(self, everyone: Places, rows: Rows, share: Share, ends: Callable[[], bool], context: Context) -> None:
        """Let one group after the other have its pie.

        :param everyone: the places of all who take part, in their order
        :param rows: what is known of them
        :param share: cuts a pie, and says who is left
        :param ends: whether nothing may be had any more
        """
        self._request(everyone, rows)
        rules, dialect = self.rules, self.state.dialect

        def serve(node: Node, cores: float) -> None:
            self._serve(node, cores, share, not dialect.bends_group_quotas)

        rounds = Rounds(
            self.accounts.nodes, rules.quotas, self.total, rules.use_slot_weights, rules.consider_preemption, dialect,
            context, serve, self._stop, ends, self._waits,
        )  # fmt: skip
        rounds.run()
        self.remainders = rounds.served

    def _request(self, everyone: Places, rows: Rows) -> None:
        """Find who is in which group, and what the groups ask for."""
        nodes, groups = self.accounts.nodes, rows["group"][everyone]
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(len(nodes) + 1)).tolist()
        requested = rows["asked" if self.rules.quotas.weighted_demand else "idle"][everyone]
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

    # Turns

    def _waits(self, node: Node) -> bool:
        return node.number in self._members

    def _serve(self, node: Node, cores: float, share: Share, strict: bool) -> None:
        """Let a group's submitters negotiate until they have so many cores."""
        regroups = not node.number and node.group.autoregroup
        self.pies += 1
        self.limits[node.number] = cores
        self.accounts.regrouping = regroups
        left = share(self._members[node.number], Budget(cores) if regroups else Budget(cores, node, strict))
        self.accounts.regrouping = False
        if len(left):
            self._members[node.number] = left
        else:
            del self._members[node.number]

    def _stop(self, node: Node) -> None:
        """The group may have nothing in this round."""
        self.limits[node.number] = node.allocated

    # What is told

    def tell(self) -> None:
        """Whoever is left of a group that has what it may have was stopped by its quota."""
        names, nodes, stopped = self.reasons.waiting.names, self.accounts.nodes, self.reasons.stopped
        for number, places in self._members.items():
            node = nodes[number]
            if number and self.limits.get(number, 0.0) - node.usage < self.lightest:
                for place in places.tolist():
                    if place < len(names):
                        stopped.setdefault((names[place], -1), QUOTA)

    def quota_of(self, account: CycleSubmitter) -> Quota:
        """The group whose quota keeps a submitter's jobs waiting: the innermost that has all that it may have; its own,
        if none above it does."""
        node = self.accounts.nodes[account.group]
        for above in node.line():
            if above.left() < self.lightest:
                return Quota(above.name, above.subtree_quota, above.subtree_used / 1000)
        return Quota(node.name, self.limits.get(node.number, node.allocated), node.usage)
