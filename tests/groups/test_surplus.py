"""Table: which groups may use what others leave, at each level of the tree; property: nothing is wasted, no cap is
exceeded."""

from __future__ import annotations

from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.negotiator.groups.group_tree import GroupNode
from poolbook.domain.negotiator.groups.rounds import allocate_cores, recover_remainders

from ..together import together
from .test_quotas import trees
from .trees import MANUAL, nodes

HEP, LEP, PHYSICS, CHEMISTRY, NONE = (
    "group_physics.hep", "group_physics.lep", "group_physics", "group_chemistry", "<none>",
)  # fmt: skip


def accepting(*names: str) -> dict[str, str]:
    return MANUAL | {f"GROUP_ACCEPT_SURPLUS_{name}": "true" for name in names}


def allocated(
    settings: dict[str, str], slots: float, requests: dict[str, float], whole_slots: bool = False
) -> dict[str, float]:
    """Return the allocation of each group that gets any."""
    nodes_by_name = nodes(settings, slots)
    for name, request in requests.items():
        nodes_by_name[name].requested = nodes_by_name[name].demand = request
    allocate_cores(nodes_by_name[NONE])
    if whole_slots:
        recover_remainders(nodes_by_name[NONE])
    return {name: round(node.allocated, 9) for name, node in nodes_by_name.items() if node.allocated}


@together(
    ("accepts", "requests", "gets"),
    [
        # no group accepts any: only submitters without a group may use it
        ((), {HEP: 60, CHEMISTRY: 60}, {HEP: 15, CHEMISTRY: 10}),
        ((), {HEP: 60, NONE: 60}, {HEP: 15, NONE: 15}),  # lep's and chemistry's go up to submitters without a group
        # siblings
        ((HEP, LEP), {HEP: 60}, {HEP: 20}),
        ((HEP, LEP), {LEP: 60}, {LEP: 20}),
        ((HEP, LEP), {HEP: 60, LEP: 60}, {HEP: 15, LEP: 5}),
        ((HEP, LEP), {HEP: 60, LEP: 2}, {HEP: 18, LEP: 2}),
        # and chemistry's: only if physics accepts it, too
        ((HEP, LEP, PHYSICS), {HEP: 60}, {HEP: 30}),
        ((HEP, PHYSICS), {HEP: 60, LEP: 60}, {HEP: 25, LEP: 5}),
        ((HEP, LEP, PHYSICS), {HEP: 60, LEP: 60}, {HEP: 22.5, LEP: 7.5}),  # 15 to 5
        ((PHYSICS,), {HEP: 60, PHYSICS: 4}, {HEP: 15, PHYSICS: 4}),
        # chemistry has physics'
        ((CHEMISTRY,), {HEP: 3, CHEMISTRY: 60}, {HEP: 3, CHEMISTRY: 27}),
        ((CHEMISTRY,), {HEP: 60, LEP: 60, CHEMISTRY: 60}, {HEP: 15, LEP: 5, CHEMISTRY: 10}),
    ],
)
def test_unused_quota_goes_to_the_groups_that_accept_surplus(
    accepts: tuple[str, ...], requests: dict[str, float], gets: dict[str, float]
) -> None:
    assert allocated(accepting(*accepts), 30, requests) == gets


def test_groups_without_a_quota_divide_evenly_what_the_others_leave() -> None:
    settings = {"GROUP_NAMES": "a b c", "GROUP_QUOTA_a": "10", "GROUP_ACCEPT_SURPLUS": "true"}
    assert allocated(settings, 10, {"b": 60, "c": 60}) == {"b": 5, "c": 5}
    assert allocated(settings, 10, {"a": 4, "b": 1, "c": 60}) == {"a": 4, "b": 1, "c": 5}


def test_fractions_are_combined_to_whole_slots_if_each_slot_counts_as_one() -> None:
    settings = {"GROUP_NAMES": "a b", "GROUP_QUOTA_DYNAMIC_a": "0.55", "GROUP_QUOTA_DYNAMIC_b": "0.45"}
    everybody = {"GROUP_ACCEPT_SURPLUS": "true"}
    assert allocated(settings, 9, {"a": 60, "b": 60}) == {"a": 4.95, "b": 4.05}
    assert allocated(settings, 9, {"a": 60, "b": 60}, whole_slots=True) == {
        "a": 4,
        "b": 4,
    }  # no group accepts the ninth
    assert allocated(settings | everybody, 9, {"a": 60, "b": 60}, whole_slots=True) == {"a": 5, "b": 4}


def test_a_remainder_goes_to_the_group_that_got_one_longest_ago() -> None:
    settings = {
        "GROUP_NAMES": "a b", "GROUP_QUOTA_DYNAMIC_a": "0.5", "GROUP_QUOTA_DYNAMIC_b": "0.5",
        "GROUP_ACCEPT_SURPLUS": "true",
    }  # fmt: skip
    for last, first in (("a", "b"), ("b", "a")):
        nodes_by_name = nodes(settings, 9)
        nodes_by_name["a"].requested = nodes_by_name["b"].requested = 60
        nodes_by_name[last].served_at = 5
        allocate_cores(nodes_by_name[NONE])
        recover_remainders(nodes_by_name[NONE])
        assert (nodes_by_name[first].allocated, nodes_by_name[last].allocated) == (5, 4)
        assert nodes_by_name[first].served and not nodes_by_name[last].served


# Any tree


@st.composite
def draw_requests(draw: st.DrawFn) -> tuple[dict[str, GroupNode], int]:
    slots = draw(st.integers(0, 60))
    nodes_by_name = nodes(draw(trees()), slots)
    for node in nodes_by_name.values():
        node.demand = node.requested = float(draw(st.integers(0, 60)))
    return nodes_by_name, slots


def within(node: GroupNode) -> float:
    return node.allocated + sum(within(child) for child in node.children)


@given(draw_requests())
def test_no_group_gets_more_than_it_requests_and_no_cap_is_exceeded(case: tuple[dict[str, GroupNode], int]) -> None:
    nodes_by_name, slots = case
    unallocated = allocate_cores(nodes_by_name[NONE])
    assert isclose(within(nodes_by_name[NONE]) + unallocated, slots, abs_tol=1e-6)
    for node in nodes_by_name.values():
        assert -1e-6 <= node.allocated <= node.demand + 1e-6
        if not node.accepts_surplus:
            assert within(node) <= node.subtree_quota + 1e-6


@given(draw_requests())
def test_no_surplus_is_left_that_a_group_would_accept(case: tuple[dict[str, GroupNode], int]) -> None:
    nodes_by_name, _ = case
    unallocated = allocate_cores(nodes_by_name[NONE])
    for node in nodes_by_name.values():
        wants = node.demand - node.allocated > 1e-6
        if wants and unallocated > 1e-6:
            assert not all(above.accepts_surplus for above in node.ancestry())
