"""Remainders: where slots count as one each, the fractions that quotas leave are put together to whole slots, which go
around among the groups (hgq_recover_remainders, hgq_round_robin)."""

from __future__ import annotations

from math import floor, inf

from .tree import Node


def recover(node: Node) -> float:
    """Take the fractions of what is allocated in a subtree, and give whole slots out of them.

    :returns: what is left of them
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
    """Give whole slots to a node's subgroups that accept surplus and to the node itself: who was served longest ago
    goes first, then who has the larger quota, then who requests more.

    :returns: what is left
    """
    node.subtree_requested = float(floor(node.subtree_requested))
    requested = node.subtree_requested
    if requested <= 0 or rest < 1:
        return rest
    among = [*node.children, node]
    wanted = [child.subtree_requested if child.accepts_surplus else 0.0 for child in node.children]
    wanted = [max(0.0, one) for one in (*wanted, node.requested)]
    keys = [(child.subtree_served_at, -child.subtree_quota, -child.subtree_requested) for child in node.children]
    keys.append((node.served_at, -node.quota, -node.requested))
    order = sorted(range(len(among)), key=keys.__getitem__)
    given = [0.0] * len(among)
    waiting = sum(one > 0 for one in wanted)
    while rest >= 1 and requested > 0 and waiting:
        most = float(max(1, floor(rest / waiting)))
        waiting = 0
        for place in order:
            if wanted[place] <= 0:
                continue
            part = min(wanted[place], most)
            given[place] += part
            wanted[place] -= part
            rest -= part
            requested -= part
            among[place].served = True
            waiting += wanted[place] > 0
            if rest < most:
                break
    node.hand_out(given, requested, _go_around)
    return rest
