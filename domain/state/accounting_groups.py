"""The accounting groups of a pool (GROUP_NAMES), and the group that a submitter's name selects."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Final

NO_GROUP: Final = "<none>"
"""The accounting group of submitters that belong to no configured group."""


def group_of(name: str) -> str:
    """Return the accounting group in a submitter's name: ``physics.hep`` in ``physics.hep.higgs@pool``."""
    return name.partition("@")[0].rpartition(".")[0]


def named_groups(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return all names in GROUP_NAMES."""
    return tuple(settings.get("GROUP_NAMES", "").replace(",", " ").split())


def group_names(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the valid accounting groups in a pool's settings: a subgroup needs its parent."""
    names_by_key: dict[str, str] = {}
    for name in sorted(named_groups(settings), key=str.lower):
        lower = name.lower()
        parent = lower.rpartition(".")[0]
        if name != NO_GROUP and (not parent or parent in names_by_key) and "." not in (lower[:1], lower[-1:]):
            names_by_key.setdefault(lower, name)
    return tuple(names_by_key.values())


def innermost_group(group: str, known_groups: Container[str]) -> str:
    """Return the group or its nearest known ancestor (in lower case), or an empty string if none is known."""
    while group and group not in known_groups:
        group = group.rpartition(".")[0]
    return group


def assigned_group(name: str, settings: Mapping[str, str]) -> str:
    """Return the accounting group of a submitter under a pool's settings, or ``NO_GROUP``."""
    return find_group(name, _groups_by_key(settings.get("GROUP_NAMES", "")))


@lru_cache(16)
def _groups_by_key(names: str) -> dict[str, str]:
    return {name.lower(): name for name in group_names({"GROUP_NAMES": names})}


def find_group(name: str, groups_by_key: Mapping[str, str]) -> str:
    """Return the accounting group of a submitter, or ``NO_GROUP``. The keys are lower-case group names."""
    return groups_by_key.get(innermost_group(group_of(name).lower(), groups_by_key), NO_GROUP)
