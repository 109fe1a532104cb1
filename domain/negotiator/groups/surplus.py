"""Surplus: what some groups leave of their quotas goes to others that accept it, from the leaves up (hgq_fairshare,
hgq_allocate_surplus)."""

from __future__ import annotations

from .tree import Node

Line = list[tuple[Node, float]]


def allocate(node: Node) -> float:
    """Allocate to each node of a subtree what it requests, up to its quota, and the surplus to those that accept it.

    :returns: the cores that nobody in the subtree may have
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
    """Divide surplus among a node's subgroups that accept it and the node itself, which counts as one of them.

    :returns: what is left of it
    """
    if surplus <= 0:
        return 0.0
    requested = node.subtree_requested
    if requested <= 0:
        return surplus
    among = [*node.children, node]
    wanted = [child.subtree_requested if child.accepts_surplus else 0.0 for child in node.children]
    wanted = [max(0.0, one) for one in (*wanted, node.requested)]
    if surplus >= requested:
        given = wanted
        surplus -= requested
        requested = 0.0
    else:
        given = [0.0] * len(among)
        weights = [*(child.subtree_quota for child in node.children), node.quota]
        surplus, requested = _compete(weights, given, wanted, surplus, requested)
        surplus, requested = _compete([1.0] * len(among), given, wanted, surplus, requested)
    node.hand_out(given, requested, _divide)
    return surplus


def _compete(
    weights: list[float], given: list[float], wanted: list[float], surplus: float, requested: float
) -> tuple[float, float]:
    """Divide surplus by weights among those that want some, again and again, until it is gone or nobody with a weight
    wants any. ``given`` and ``wanted`` change.

    :returns: what is left of the surplus, and of what is requested
    """
    while surplus > 0:
        whole = sum(weight for weight, left in zip(weights, wanted, strict=True) if left > 0)
        if whole <= 0:
            break
        enough, taken = False, 0.0
        for place, left in enumerate(wanted):
            if left > 0:
                part = surplus * (weights[place] / whole)
                if part > left:
                    part, enough = left, True
                given[place] += part
                wanted[place] -= part
                taken += part
        surplus -= taken
        requested -= taken
        if not enough or surplus < 0:
            surplus = 0.0
    return surplus, requested
