"""Trees of accounting groups, written as in a configuration."""

from __future__ import annotations

from poolbook.domain.negotiator.groups.group_tree import GroupNode, GroupTree
from poolbook.domain.negotiator.groups.quotas import assign_quotas
from poolbook.domain.negotiator.negotiator_settings import parse_settings

MANUAL = {
    "GROUP_NAMES": "group_physics, group_physics.hep, group_physics.lep, group_chemistry",
    "GROUP_QUOTA_group_physics": "20",
    "GROUP_QUOTA_group_physics.hep": "15",
    "GROUP_QUOTA_group_physics.lep": "5",
    "GROUP_QUOTA_group_chemistry": "10",
}
"""The manual's tree with static quotas."""
MANUAL_DYNAMIC = {
    "GROUP_NAMES": MANUAL["GROUP_NAMES"],
    "GROUP_QUOTA_DYNAMIC_group_chemistry": "0.33334",
    "GROUP_QUOTA_DYNAMIC_group_physics": "0.66667",
    "GROUP_QUOTA_DYNAMIC_group_physics.hep": "0.75",
    "GROUP_QUOTA_DYNAMIC_group_physics.lep": "0.25",
}
"""The same with dynamic ones."""


def tree(settings: dict[str, str]) -> GroupTree:
    return parse_settings(settings).tree


def nodes(settings: dict[str, str], total: float, oversubscribe: bool = False) -> dict[str, GroupNode]:
    """Return the groups by their names, with their quotas."""
    groups = tree(settings).new_nodes()
    assign_quotas(groups[0], total, oversubscribe)
    return {node.name: node for node in groups}


def quotas(settings: dict[str, str], total: float, oversubscribe: bool = False) -> dict[str, float]:
    return {name: round(node.quota, 9) for name, node in nodes(settings, total, oversubscribe).items()}


def subtrees(settings: dict[str, str], total: float, oversubscribe: bool = False) -> dict[str, float]:
    return {name: round(node.subtree_quota, 9) for name, node in nodes(settings, total, oversubscribe).items()}
