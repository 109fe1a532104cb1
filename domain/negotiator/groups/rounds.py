"""The rounds of a cycle: in which order the groups negotiate, and how many cores each group may have
(hgq_negotiate_with_all_groups).

A round allocates cores to the groups according to their requests, and lets the groups negotiate in the order of
GROUP_SORT_EXPR. The next round offers other groups the cores that a group could not use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, inf

from msgspec import Struct, field

from ...classad import ClassAd, Context, Expression
from ...classad.analysis import value_or_error
from ...state_machines import Dialect
from .group_tree import GroupNode

# Surplus: unused quota is given to groups that accept surplus, from the leaves up (hgq_fairshare,
# hgq_allocate_surplus).


def allocate_cores(node: GroupNode) -> float:
    """Allocate to each group of a subtree what it requests, up to its quota, and the surplus to groups that accept it.

    :returns: the cores that no group of the subtree can use
    """
    node.allocated = min(node.requested, node.quota)
    node.requested -= node.allocated
    node.subtree_requested = node.requested
    surplus = node.quota - node.allocated
    if not node.children:
        return surplus
    for child in node.children:
        surplus += allocate_cores(child)
        if child.accepts_surplus:
            node.subtree_requested += child.subtree_requested
    return _divide(node, surplus)


def _divide(node: GroupNode, surplus: float) -> float:
    """Divide surplus among a group and its subgroups that accept surplus. The group is treated like a
    subgroup.

    :returns: the remaining surplus
    """
    if surplus <= 0:
        return 0.0
    requested = node.subtree_requested
    if requested <= 0:
        return surplus
    among = [*node.children, node]
    requests = [child.subtree_requested if child.accepts_surplus else 0.0 for child in node.children]
    requests = [max(0.0, request) for request in (*requests, node.requested)]
    if surplus >= requested:
        granted = requests
        surplus -= requested
        requested = 0.0
    else:
        granted = [0.0] * len(among)
        weights = [*(child.subtree_quota for child in node.children), node.quota]
        surplus, requested = _share_surplus(weights, granted, requests, surplus, requested)
        surplus, requested = _share_surplus([1.0] * len(among), granted, requests, surplus, requested)
    node.distribute(granted, requested, _divide)
    return surplus


def _share_surplus(
    weights: list[float], granted: list[float], requests: list[float], surplus: float, requested: float
) -> tuple[float, float]:
    """Divide surplus by weight among groups with requests, and divide what a group does not need again. Stop when the
    surplus is used up or no group with a weight requests any. Modifies ``granted`` and ``requests``.

    :returns: the remaining surplus and the remaining requests
    """
    while surplus > 0:
        total = sum(weight for weight, request in zip(weights, requests, strict=True) if request > 0)
        if total <= 0:
            break
        enough, taken = False, 0.0
        for index, request in enumerate(requests):
            if request > 0:
                amount = surplus * (weights[index] / total)
                if amount > request:
                    amount, enough = request, True
                granted[index] += amount
                requests[index] -= amount
                taken += amount
        surplus -= taken
        requested -= taken
        if not enough or surplus < 0:
            surplus = 0.0
    return surplus, requested


# Remainders: if each slot counts as one, the fractions left over by quotas are combined into whole slots, which the
# groups receive in turn (hgq_recover_remainders, hgq_round_robin).


def recover_remainders(node: GroupNode) -> float:
    """Round the allocations in a subtree down to whole slots, and allocate whole slots from the sum of the fractions.

    :returns: the remaining fraction
    """
    rest = node.allocated - floor(node.allocated)
    node.allocated = float(floor(0.5 + node.allocated - rest))
    node.requested = float(floor(0.5 + node.requested + rest))
    node.subtree_requested = node.requested
    node.subtree_served_at = node.served_at if node.requested > 0 else inf
    if not node.children:
        return rest
    for child in node.children:
        rest += recover_remainders(child)
        if child.accepts_surplus:
            node.subtree_requested += child.subtree_requested
            if child.subtree_requested > 0:
                node.subtree_served_at = min(node.subtree_served_at, child.subtree_served_at)
    return _round_robin(node, rest)


def _round_robin(node: GroupNode, rest: float) -> float:
    """Give whole slots to a group and its subgroups that accept surplus. The group served longest ago comes
    first, then the one with the larger quota, then the one with the larger request.

    :returns: the slots left
    """
    node.subtree_requested = float(floor(node.subtree_requested))
    requested = node.subtree_requested
    if requested <= 0 or rest < 1:
        return rest
    among = [*node.children, node]
    requests = [child.subtree_requested if child.accepts_surplus else 0.0 for child in node.children]
    requests = [max(0.0, request) for request in (*requests, node.requested)]
    keys = [(child.subtree_served_at, -child.subtree_quota, -child.subtree_requested) for child in node.children]
    keys.append((node.served_at, -node.quota, -node.requested))
    order = sorted(range(len(among)), key=keys.__getitem__)
    granted = [0.0] * len(among)
    waiting = sum(request > 0 for request in requests)
    while rest >= 1 and requested > 0 and waiting:
        most = float(max(1, floor(rest / waiting)))
        waiting = 0
        for index in order:
            if requests[index] <= 0:
                continue
            amount = min(requests[index], most)
            granted[index] += amount
            requests[index] -= amount
            rest -= amount
            requested -= amount
            among[index].served = True
            waiting += requests[index] > 0
            if rest < most:
                break
    node.distribute(granted, requested, _round_robin)
    return rest


LAST = 3.4028234663852886e38
"""The sort key of a group for which GROUP_SORT_EXPR is not a number (FLT_MAX)."""
_OF_NO_GROUP, _WITHOUT_QUOTA = 3.4e38, 3.3e38


class QuotaRules(Struct, frozen=True):
    """The settings that determine how quotas are used."""

    order: Expression | None  #: GROUP_SORT_EXPR; None: HTCondor's default, lowest usage of the quota first
    oversubscribe: bool | None = None  #: NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION; None: the dialect's default
    weighted_demand: bool = True  #: NEGOTIATOR_USE_WEIGHTED_DEMAND
    strict: bool = True  #: NEGOTIATOR_STRICT_ENFORCE_QUOTA
    rounds: int = 3  #: GROUP_QUOTA_MAX_ALLOCATION_ROUNDS
    rate: float = 1e100  #: GROUP_QUOTA_ROUND_ROBIN_RATE


def sort_key(node: GroupNode, order: Expression | None, total: float, dialect: Dialect, context: Context) -> float:
    """Return the value of GROUP_SORT_EXPR for a group.

    :param total: the cores of the pool
    """
    if order is None:
        if not node.number:
            return _OF_NO_GROUP
        if node.quota > total and dialect.puts_unfillable_quotas_first:
            return -node.quota
        return node.usage / node.quota if node.quota > 0 else _WITHOUT_QUOTA
    ad = ClassAd(
        {
            "AccountingGroup": node.name,
            "GroupQuota": node.quota,
            "GroupResourcesInUse": node.usage,
            "GroupResourcesAllocated": node.allocated,
        }
    )
    value = value_or_error(order, ad, None, context)
    return float(value) if isinstance(value, int | float) and value == value else LAST


class GroupRounds(Struct):
    """The rounds of a cycle."""

    nodes: Sequence[GroupNode]  #: breadth first, with ``used`` and ``demand`` set
    rules: QuotaRules
    total: float  #: the number of cores in the pool
    weighted: bool  #: NEGOTIATOR_USE_SLOT_WEIGHTS
    preempts: bool  #: NEGOTIATOR_CONSIDER_PREEMPTION
    dialect: Dialect
    context: Context
    serve: Callable[[GroupNode, float], None]  #: lets a group negotiate until its submitters have this many cores
    skip: Callable[[GroupNode], None]  #: called for a group that may not negotiate
    ends: Callable[[], bool]  #: returns whether no slot is left
    waits: Callable[[GroupNode], bool]  #: returns whether submitters of a group are left in the cycle
    served: dict[str, None] = field(default_factory=dict)  #: the groups that received remainders

    def run(self) -> None:
        for node in self.nodes:
            node.requested = node.demand
            node.before = node.usage
        for _ in range(self.rules.rounds):
            self._allocate()
            self._take_turns()
            if self.ends() or self._all_used():
                break
        if self.rules.rounds > 1 and not self.dialect.relaxes_group_quotas and not self.ends():
            self._distribute_rest()

    @property
    def _regroups(self) -> bool:
        return self.nodes[0].group.autoregroup

    def _allocate(self) -> None:
        root = self.nodes[0]
        for node in self.nodes:
            node.allocated = node.subtree_requested = 0.0
            node.served = False
        allocate_cores(root)
        if not self.weighted:
            recover_remainders(root)
            self.served |= {node.name: None for node in self.nodes if node.served}
        if self._regroups:
            root.quota = root.allocated = self.total

    def in_order(self) -> list[GroupNode]:
        """Return the groups by GROUP_SORT_EXPR, smallest value first. With autoregroup, the root comes last."""
        order, context = self.rules.order, self.context
        keys = [sort_key(node, order, self.total, self.dialect, context) for node in self.nodes]
        last = self._regroups
        return sorted(self.nodes, key=lambda node: (last and not node.number, keys[node.number]))

    def _take_turns(self) -> None:
        """Let each group negotiate, for its whole allocation or for parts that grow by GROUP_QUOTA_ROUND_ROBIN_RATE."""
        surplus = any(node.accepts_surplus for node in self.nodes[1:])
        targets = (node.allocated if surplus else node.quota for node in self.nodes)
        most = max(0.0, *(target - node.before for target, node in zip(targets, self.nodes, strict=True)))
        order = self.in_order()
        reached = 0.0
        while True:
            reached = min(reached + self.rules.rate, most)
            for node in order:
                if self.ends():
                    return
                self._take_turn(node, reached / most if most > 0 else 1.0)
            if reached >= most:
                return

    def _take_turn(self, node: GroupNode, amount: float) -> None:
        if not self.waits(node):
            return
        full = node.before >= node.allocated and not self.preempts
        if node.allocated <= 0 or full:
            self.skip(node)
            return
        target = max(node.allocated, node.quota)
        more = max(0.0, target - node.before)
        self.serve(node, self._bounded(node, node.before + more * amount if more > 0 else target))

    def _bounded(self, node: GroupNode, cores: float) -> float:
        if not self.weighted:
            cores = float(floor(cores))
        if self.rules.strict:
            cores = node.usage + min(cores - node.usage, node.room())
        return float(int(cores)) if self.dialect.relaxes_group_quotas else cores

    def _all_used(self) -> bool:
        """Update the groups' requests. A group that could not use its allocation requests no more than it has now."""
        allocated = used = 0.0
        for node in self.nodes:
            node.before = usage = node.usage
            allocated += node.allocated
            used += min(usage, node.allocated)
            if usage < node.allocated:
                node.requested = usage
            else:
                node.requested += node.allocated
        return used >= allocated

    def _distribute_rest(self) -> None:
        """Give what the rounds left over, fractions of slots and unused allocations, to groups that accept surplus."""
        for node in self.in_order():
            if self.ends():
                return
            room = min(node.room(), self.total)
            if node.accepts_surplus and room > 0 and self.waits(node):
                self.serve(node, node.usage + room)
