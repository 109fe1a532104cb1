"""The accounting groups that a pool has (GROUP_NAMES), and the one that a submitter's name assigns it to."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Final

NO_GROUP: Final = "<none>"
"""The group of those that are in none."""


def group_of(name: str) -> str:
    """The accounting group of a submitter (``physics.hep`` of ``physics.hep.higgs@pool``); empty for none."""
    return name.partition("@")[0].rpartition(".")[0]


def named_groups(settings: Mapping[str, str]) -> tuple[str, ...]:
    """All names of GROUP_NAMES."""
    return tuple(settings.get("GROUP_NAMES", "").replace(",", " ").split())


def group_names(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The accounting groups that there are by a pool's settings: a subgroup needs its parent."""
    found: dict[str, str] = {}
    for name in sorted(named_groups(settings), key=str.lower):
        lower = name.lower()
        outer = lower.rpartition(".")[0]
        if name != NO_GROUP and (not outer or outer in found) and "." not in (lower[:1], lower[-1:]):
            found.setdefault(lower, name)
    return tuple(found.values())


def innermost(group: str, known: Container[str]) -> str:
    """The innermost group that there is, of a group's name with those around it (in small letters); empty: there is
    none."""
    while group and group not in known:
        group = group.rpartition(".")[0]
    return group


def assigned_group(name: str, settings: Mapping[str, str]) -> str:
    """Return the accounting group of a submitter, of those of a pool's settings; ``NO_GROUP`` for none."""
    return group_among(name, _groups_by_key(settings.get("GROUP_NAMES", "")))


@lru_cache(16)
def _groups_by_key(names: str) -> dict[str, str]:
    return {name.lower(): name for name in group_names({"GROUP_NAMES": names})}


def group_among(name: str, known: Mapping[str, str]) -> str:
    """Return the same, of groups by their names in small letters."""
    return known.get(innermost(group_of(name).lower(), known), NO_GROUP)
