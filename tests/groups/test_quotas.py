"""Table: how a pool's cores are divided among accounting groups (CM, "Hierarchical Group Quotas"); property: for any
tree."""

from __future__ import annotations

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.negotiator.groups.group_tree import GroupNode

from ..together import together
from .trees import MANUAL, MANUAL_DYNAMIC, nodes, quotas, subtrees, tree

TWO = {
    "GROUP_NAMES": "group_physics, group_chemistry", "GROUP_QUOTA_group_physics": "20",
    "GROUP_QUOTA_group_chemistry": "10",
}  # fmt: skip
THIRDS = {
    "GROUP_NAMES": "group_physics, group_chemistry", "GROUP_QUOTA_DYNAMIC_group_chemistry": "0.33",
    "GROUP_QUOTA_DYNAMIC_group_physics": "0.66",
}  # fmt: skip


@together(
    ("settings", "slots", "oversubscribe", "physics", "chemistry", "none"),
    [
        (TWO, 30, False, 20, 10, 0),
        (TWO, 15, False, 10, 5, 0),  # half of the pool is gone
        (TWO, 60, False, 20, 10, 30),  # it has doubled: no quota does
        (TWO, 15, True, 20, 10, 0),
        (TWO, 0, False, 0, 0, 0),
        (THIRDS, 30, False, 19.8, 9.9, 0.3),
        (THIRDS, 60, True, 39.6, 19.8, 0.6),
        (THIRDS | {"GROUP_QUOTA_DYNAMIC_group_physics": "0.99"}, 30, False, 22.5, 7.5, 0),  # 3 to 1
        # static quotas come first, dynamic ones divide the remainder
        (THIRDS | {"GROUP_QUOTA_group_physics": "20"}, 30, False, 20, 3.3, 6.7),
        ({"GROUP_NAMES": "group_physics group_chemistry"}, 30, False, 0, 0, 30),
    ],
)
def test_the_manuals_two_groups_get_their_quotas(
    settings: dict[str, str], slots: float, oversubscribe: bool, physics: float, chemistry: float, none: float
) -> None:
    assert quotas(settings, slots, oversubscribe) == {
        "<none>": none, "group_physics": physics, "group_chemistry": chemistry,
    }  # fmt: skip


@together(
    ("settings", "slots", "hep", "lep", "physics"),
    [
        (MANUAL, 30, 15, 5, 20),
        (MANUAL, 15, 7.5, 2.5, 10),
        (MANUAL_DYNAMIC, 30, 15.000075, 5.000025, 20.0001),
        (MANUAL_DYNAMIC, 60, 30.00015, 10.00005, 40.0002),
    ],
)
def test_a_subgroups_quota_is_part_of_its_parents(
    settings: dict[str, str], slots: float, hep: float, lep: float, physics: float
) -> None:
    if settings is MANUAL_DYNAMIC:  # 0.66667 and 0.33334 add up to more than 1: they are scaled, too
        hep, lep, physics = (round(group / 1.00001, 9) for group in (hep, lep, physics))
    trees = subtrees(settings, slots)
    assert [trees[f"group_physics{name}"] for name in (".hep", ".lep", "")] == pytest.approx([hep, lep, physics])
    assert quotas(settings, slots)["group_physics"] == pytest.approx(0, abs=1e-9)


def test_if_quotas_may_be_oversubscribed_a_parent_keeps_its_own() -> None:
    """As in the negotiator's tables in HTCondor (traces 09b)."""
    assert quotas(MANUAL, 30, True) == {
        "<none>": 0, "group_chemistry": 10, "group_physics": 20, "group_physics.hep": 15, "group_physics.lep": 5,
    }  # fmt: skip


# The tree


def test_groups_are_in_the_order_of_the_tree_each_level_by_name() -> None:
    groups = tree({"GROUP_NAMES": "b.z, A, b, a.y c B.a"})
    assert [group.name for group in groups.groups] == ["<none>", "A", "b", "c", "a.y", "B.a", "b.z"]
    assert groups.parents == (-1, 0, 0, 0, 1, 2, 2)


@together(
    ("names", "ignored"),
    [
        ("<none> a", {"<none>": "it is the name of the root, for submitters without a group"}),
        ("a A", {"A": "it is a again"}),
        ("a.b c", {"a.b": "there is no group a"}),
        ("a a.b.c", {"a.b.c": "there is no group a.b"}),
    ],
)
def test_an_invalid_group_name_is_left_out(names: str, ignored: dict[str, str]) -> None:
    assert tree({"GROUP_NAMES": names}).ignored == ignored


@together(
    ("submitter", "group"),
    [
        ("ann@here", "<none>"), ("a.ann@here", "a"), ("A.ann@here", "a"), ("a.B.ann@here", "a.b"),
        ("a.b.c.ann@here", "a.b"), ("a.x.ann@here", "a"), ("x.ann@here", "<none>"), ("x.b.ann@here", "<none>"),
        ("a@here", "<none>"), ("nice-user.ann@here", "<none>"),
    ],
)  # fmt: skip
def test_a_submitter_is_in_the_innermost_group_that_exists(submitter: str, group: str) -> None:
    groups = tree({"GROUP_NAMES": "a a.b"})
    assert groups.groups[groups.index_of(submitter)].name == group


def test_settings_of_a_group_count_whatever_their_case() -> None:
    groups = tree(
        {
            "GROUP_NAMES": "A, a.b, c", "GROUP_QUOTA_a": "3", "GROUP_QUOTA_DYNAMIC_A.B": "0.5",
            "GROUP_ACCEPT_SURPLUS": "true", "GROUP_ACCEPT_SURPLUS_C": "false", "GROUP_AUTOREGROUP_a.B": "true",
        }
    )  # fmt: skip
    assert {g.name: (g.quota, g.static, g.accepts_surplus, g.autoregroup) for g in groups.groups} == {
        "<none>": (0, False, True, True), "A": (3, True, True, False), "a.b": (0.5, False, True, True),
        "c": (0, False, False, False),
    }  # fmt: skip


# Any tree

PARTS = ("a", "b", "c")


@st.composite
def trees(draw: st.DrawFn) -> dict[str, str]:
    """Draw up to four levels of groups, of either kind."""
    names: list[str] = []
    for _ in range(draw(st.integers(1, 9))):
        parent = draw(st.sampled_from(["", *names]))
        name = f"{parent}.{draw(st.sampled_from(PARTS))}".lstrip(".")
        if name not in names and name.count(".") < 4:
            names.append(name)
    settings = {"GROUP_NAMES": " ".join(names)}
    for name in names:
        if draw(st.booleans()):
            settings[f"GROUP_QUOTA_{name}"] = str(draw(st.integers(0, 40)))
        else:
            settings[f"GROUP_QUOTA_DYNAMIC_{name}"] = str(draw(st.integers(0, 100)) / 100)
        settings[f"GROUP_ACCEPT_SURPLUS_{name}"] = str(draw(st.booleans())).lower()
    return settings


def inner(nodes_by_name: dict[str, GroupNode]) -> list[GroupNode]:
    return [node for node in nodes_by_name.values() if node.children]


@given(trees(), st.integers(0, 100))
def test_quotas_are_scaled_down_to_the_available_cores_and_never_up(settings: dict[str, str], slots: int) -> None:
    nodes_by_name = nodes(settings, slots)
    for node in nodes_by_name.values():
        below = sum(child.subtree_quota for child in node.children)
        assert isclose(below + node.quota, node.subtree_quota, abs_tol=1e-6)
        statics = [child for child in node.children if child.group.static]
        static_total = sum(child.group.quota for child in statics)
        for child in statics:
            share = min(1.0, node.subtree_quota / static_total) if static_total else 0.0
            assert isclose(child.subtree_quota, child.group.quota * share, abs_tol=1e-6)
        remainder = max(0.0, node.subtree_quota - static_total)
        parts = sum(child.group.quota for child in node.children if not child.group.static)
        for child in node.children:
            if not child.group.static:
                assert isclose(child.subtree_quota, remainder * child.group.quota / max(1.0, parts), abs_tol=1e-6)


@given(trees(), st.integers(1, 100))
def test_static_quotas_that_may_be_oversubscribed_are_as_configured(settings: dict[str, str], slots: int) -> None:
    for node in nodes(settings, slots, oversubscribe=True).values():
        if node.parent is not None and node.group.static and node.parent.subtree_quota > 0:
            assert isclose(node.subtree_quota, node.group.quota)
