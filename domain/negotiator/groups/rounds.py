"""The rounds of a cycle: the groups' turns, and how many cores each group may have (hgq_negotiate_with_all_groups).

A round allocates cores to the groups according to their requests, and lets the groups negotiate in the order of
GROUP_SORT_EXPR. Cores that a group could not use are available to other groups in the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, inf

from msgspec import Struct, field

from ...classad import ClassAd, Context, EvaluationError, Expression
from ...state_machines import Dialect
from .group_tree import Node

# Surplus: unused quota is given to groups that accept surplus, from the leaves up (hgq_fairshare,
# hgq_allocate_surplus).

Line = list[tuple[Node, float]]


def allocate(node: Node) -> float:
    """Allocate to each node of a subtree what it requests, up to its quota, and the surplus to nodes that accept it.

    :returns: the cores that no node of the subtree can use
    """
    node.allocated = min(node.requested, node.quota)
    node.requested -= node.allocated
    node.subtree_requested = node.requested
    surplus = node.quota - node.allocated
    if not node.children:
        return surplus
    for child in node.children:
        surplus += allocate(child)
        if child.accepts_surplus:
            node.subtree_requested += child.subtree_requested
    return _divide(node, surplus)


def _divide(node: Node, surplus: float) -> float:
    """Divide surplus among the subgroups of a node that accept it and the node itself, which is treated like a
    subgroup.

    :returns: what is left of it
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
        given = requests
        surplus -= requested
        requested = 0.0
    else:
        given = [0.0] * len(among)
        weights = [*(child.subtree_quota for child in node.children), node.quota]
        surplus, requested = _compete(weights, given, requests, surplus, requested)
        surplus, requested = _compete([1.0] * len(among), given, requests, surplus, requested)
    node.hand_out(given, requested, _divide)
    return surplus


def _compete(
    weights: list[float], given: list[float], requests: list[float], surplus: float, requested: float
) -> tuple[float, float]:
    """Repeatedly divide the surplus by weights among nodes with requests, until it is used up or no node with a weight
    requests any. Changes ``given`` and ``requests``.

    :returns: the remaining surplus and the remaining requests
    """
    while surplus > 0:
        total = sum(weight for weight, left in zip(weights, requests, strict=True) if left > 0)
        if total <= 0:
            break
        enough, taken = False, 0.0
        for place, left in enumerate(requests):
            if left > 0:
                part = surplus * (weights[place] / total)
                if part > left:
                    part, enough = left, True
                given[place] += part
                requests[place] -= part
                taken += part
        surplus -= taken
        requested -= taken
        if not enough or surplus < 0:
            surplus = 0.0
    return surplus, requested


# Remainders: if each slot counts as one, the fractions left over by quotas are combined into whole slots, which the
# groups receive in turn (hgq_recover_remainders, hgq_round_robin).


def recover(node: Node) -> float:
    """Collect the fractions of the allocations in a subtree, and allocate whole slots from their sum.

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
        rest += recover(child)
        if child.accepts_surplus:
            node.subtree_requested += child.subtree_requested
            if child.subtree_requested > 0:
                node.subtree_served_at = min(node.subtree_served_at, child.subtree_served_at)
    return _go_around(node, rest)


def _go_around(node: Node, rest: float) -> float:
    """Give whole slots to the subgroups of a node that accept surplus and to the node itself: first to the one that was
    served longest ago, then to the one with the larger quota, then the larger request.

    :returns: what is left
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
    given = [0.0] * len(among)
    waiting = sum(request > 0 for request in requests)
    while rest >= 1 and requested > 0 and waiting:
        most = float(max(1, floor(rest / waiting)))
        waiting = 0
        for place in order:
            if requests[place] <= 0:
                continue
            part = min(requests[place], most)
            given[place] += part
            requests[place] -= part
            rest -= part
            requested -= part
            among[place].served = True
            waiting += requests[place] > 0
            if rest < most:
                break
    node.hand_out(given, requested, _go_around)
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


def sort_key(node: Node, order: Expression | None, total: float, dialect: Dialect, context: Context) -> float:
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
    try:
        value = order.evaluate(ad, None, context)
    except EvaluationError:
        return LAST
    return float(value) if isinstance(value, int | float) and value == value else LAST


class Rounds(Struct):
    """The rounds of a cycle. ``serve`` lets a group negotiate until its submitters have the given number of cores;
    ``skip`` is called for a group that may not negotiate."""

    nodes: Sequence[Node]  #: breadth first, with ``used`` and ``demand`` set
    rules: QuotaRules
    total: float  #: the number of cores in the pool
    weighted: bool  #: NEGOTIATOR_USE_SLOT_WEIGHTS
    preempts: bool  #: NEGOTIATOR_CONSIDER_PREEMPTION
    dialect: Dialect
    context: Context
    serve: Callable[[Node, float], None]
    skip: Callable[[Node], None]
    ends: Callable[[], bool]  #: returns whether no slot is left
    waits: Callable[[Node], bool]  #: returns whether submitters of a group are left in the cycle
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
            self._give_the_rest()

    @property
    def _regroups(self) -> bool:
        return self.nodes[0].group.autoregroup

    def _allocate(self) -> None:
        root = self.nodes[0]
        for node in self.nodes:
            node.allocated = node.subtree_requested = 0.0
            node.served = False
        allocate(root)
        if not self.weighted:
            recover(root)
            self.served |= {node.name: None for node in self.nodes if node.served}
        if self._regroups:
            root.quota = root.allocated = self.total

    # Turns

    def in_order(self) -> list[Node]:
        """Return the groups by GROUP_SORT_EXPR, smallest value first. With autoregroup, the root comes last."""
        order, context = self.rules.order, self.context
        keys = [sort_key(node, order, self.total, self.dialect, context) for node in self.nodes]
        last = self._regroups
        return sorted(self.nodes, key=lambda node: (last and not node.number, keys[node.number]))

    def _take_turns(self) -> None:
        """Let each group negotiate: once for its whole allocation, or repeatedly for parts that grow by
        GROUP_QUOTA_ROUND_ROBIN_RATE, until all groups had turns for their whole allocations."""
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

    def _take_turn(self, node: Node, part: float) -> None:
        if not self.waits(node):
            return
        full = node.before >= node.allocated and not self.preempts
        if node.allocated <= 0 or full:
            self.skip(node)
            return
        target = max(node.allocated, node.quota)
        more = max(0.0, target - node.before)
        self.serve(node, self._bounded(node, node.before + more * part if more > 0 else target))

    def _bounded(self, node: Node, cores: float) -> float:
        """Return a group's allocation, limited by its ancestors."""
        if not self.weighted:
            cores = float(floor(cores))
        if self.rules.strict:
            cores = node.usage + min(cores - node.usage, node.room())
        return float(int(cores)) if self.dialect.relaxes_group_quotas else cores

    # After the turns

    def _all_used(self) -> bool:
        """Update the groups' requests: a group that could not use its whole allocation requests no more than it has."""
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

    def _give_the_rest(self) -> None:
        """Give what the rounds left, fractions of slots and unused allocations, to the groups that accept surplus."""
        for node in self.in_order():
            if self.ends():
                return
            room = min(node.room(), self.total)
            if node.accepts_surplus and room > 0 and self.waits(node):
                self.serve(node, node.usage + room)
