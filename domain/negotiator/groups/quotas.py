"""The quotas in a cycle: how a node's cores are divided among its subgroups and itself (hgq_assign_quotas)."""

from __future__ import annotations

from collections.abc import Iterable

from ...events import GroupQuota
from ...state_machines import Dialect
from .group_tree import GroupNode, GroupTree
from .rounds import QuotaRules


def oversubscribes(rules: QuotaRules, dialect: Dialect) -> bool:
    """Check whether static quotas may add up to more than the size of the pool."""
    return dialect.oversubscribes_quotas if rules.oversubscribe is None else rules.oversubscribe


def quotas_of(tree: GroupTree, total: float, oversubscribe: bool) -> tuple[GroupQuota, ...]:
    """Return the quotas of all groups for a pool of ``total`` cores, as logged; empty without groups."""
    if not tree.has_groups:
        return ()
    nodes = tree.new_nodes()
    assign_quotas(nodes[0], total, oversubscribe)
    return logged_quotas(nodes)


def logged_quotas(nodes: Iterable[GroupNode]) -> tuple[GroupQuota, ...]:
    return tuple(GroupQuota(node.name, node.quota, node.subtree_quota) for node in nodes)


def assign_quotas(node: GroupNode, quota: float, oversubscribe: bool) -> None:
    """Assign ``quota`` cores to a group and its subtree.

    Static quotas are assigned first, and dynamic quotas divide the remainder. Static quotas that add up to more than
    ``quota`` are scaled down, unless quotas may be oversubscribed. Dynamic quotas that add up to more than 1 are scaled
    down.

    :param oversubscribe: NEGOTIATOR_ALLOW_QUOTA_OVERSUBSCRIPTION; if true, a group also keeps its whole quota
    """
    if quota <= 0:
        return
    node.subtree_quota = quota
    statics = sum(child.group.quota for child in node.children if child.group.static)
    dynamics = sum(child.group.quota for child in node.children if not child.group.static)
    for_statics = statics if oversubscribe else min(statics, quota)
    for_dynamics = max(0.0, quota - for_statics)
    assigned = 0.0
    for child in node.children:
        if child.group.static:
            own = child.group.quota * (for_statics / (statics if statics > 0 else 1))
        else:
            own = child.group.quota * (for_dynamics / max(dynamics, 1.0))
        assign_quotas(child, own, oversubscribe)
        assigned += own
    # The root's quota is what the groups leave; it cannot be configured.
    node.quota = max(0.0, quota if oversubscribe and node.parent is not None else quota - assigned)
