"""The tree of accounting groups: the configured tree, and the nodes that a cycle computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from attrs import define, field, frozen

from ...state.accounting_groups import NO_GROUP, group_of, innermost_group


@frozen
class AccountingGroup:
    """An accounting group as configured."""

    name: str  #: as spelled in GROUP_NAMES, for example physics.hep
    quota: float = 0.0  #: cores if ``static``; otherwise a fraction of what its parent assigns to dynamic quotas
    static: bool = False  #: whether the quota is GROUP_QUOTA_<name>, not GROUP_QUOTA_DYNAMIC_<name>
    accepts_surplus: bool = False  #: whether it may use what other groups leave unused
    autoregroup: bool = False  #: whether its submitters negotiate again, together with submitters without a group


@define(eq=False)
class GroupNode:
    """A group in one cycle. Amounts are in cores (slot weights) unless their comments say otherwise."""

    group: AccountingGroup
    number: int  #: the index in the tree, breadth first; the root is 0
    parent: GroupNode | None = field(default=None, repr=False)
    children: list[GroupNode] = field(factory=list, repr=False)
    accepts_surplus: bool = False
    quota: float = 0.0  #: the maximum for its own submitters, without surplus
    subtree_quota: float = 0.0  #: the same including its subgroups
    demand: float = 0.0  #: usage and requests of its submitters, without subgroups
    requested: float = 0.0  #: the part of ``demand`` for which nothing is allocated
    allocated: float = 0.0  #: the maximum for its own submitters in this round, with surplus
    subtree_requested: float = 0.0
    used: int = 0  #: usage of its submitters, without subgroups, in thousandths
    subtree_used: int = 0  #: the same including its subgroups
    before: float = 0.0  #: usage of its submitters, without subgroups, when the round began
    served_at: float = 0.0  #: when it last received a remainder (``rounds``)
    subtree_served_at: float = 0.0
    served: bool = False  #: whether it received a remainder in this round

    def __attrs_post_init__(self) -> None:
        self.accepts_surplus = self.group.accepts_surplus

    @property
    def name(self) -> str:
        return self.group.name

    def ancestry(self) -> Iterator[GroupNode]:
        """Yield the node, its parent, and so on up to the root."""
        node: GroupNode | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def usage(self) -> float:
        """Return the cores used by the group's own submitters."""
        return self.used / 1000

    def distribute(
        self, amounts: Sequence[float], requested: float, below: Callable[[GroupNode, float], object]
    ) -> None:
        """Allocate an amount to each subgroup, and the last amount to the group itself.

        :param amounts: cores for each subgroup in order, and for the group itself
        :param requested: the cores that the group and its subgroups still request
        :param below: divides a subgroup's cores further
        """
        for child, amount in zip(self.children, amounts, strict=False):
            if amount > 0:
                below(child, amount)
        self.allocated += amounts[-1]
        self.requested -= amounts[-1]
        self.subtree_requested = requested

    def add_usage(self, thousandths: int) -> None:
        self.used += thousandths
        node: GroupNode | None = self
        while node is not None:
            node.subtree_used += thousandths
            node = node.parent

    def remaining_quota(self) -> float:
        """Return how many more cores the subtree may receive; infinity for a group that accepts surplus."""
        return inf if self.accepts_surplus else max(0.0, self.subtree_quota - self.subtree_used / 1000)

    def room(self) -> float:
        """Return how many more cores the group may receive within its own quota and the quotas of its ancestors."""
        return min(node.remaining_quota() for node in self.ancestry())


@frozen
class GroupTree:
    """All groups, breadth first, children by name. Submitters without a group belong to the root, ``<none>``."""

    groups: tuple[AccountingGroup, ...]
    parents: tuple[int, ...]  #: the index of each group's parent; -1 for the root
    indexes: Mapping[str, int]  #: the index of each group, by lower-case name
    ignored: Mapping[str, str]  #: invalid names, with reasons

    @property
    def has_groups(self) -> bool:
        """Check whether there are any accounting groups; without groups, a cycle has no quotas."""
        return len(self.groups) > 1

    def index_of(self, submitter: str) -> int:
        """Return the index of the innermost existing group that a submitter's name contains."""
        if not self.has_groups:
            return 0
        return self.indexes[innermost_group(group_of(submitter).lower(), self.indexes)]

    def new_nodes(self) -> list[GroupNode]:
        """Return nodes for a new cycle, in the order of the groups."""
        nodes: list[GroupNode] = []
        for number, (group, above) in enumerate(zip(self.groups, self.parents, strict=True)):
            parent = nodes[above] if number else None
            nodes.append(GroupNode(group, number, parent))
            if parent is not None:
                parent.children.append(nodes[-1])
        return nodes


ROOT: Final = AccountingGroup(NO_GROUP, accepts_surplus=True)


def group_tree(names: Iterable[str], configured: Mapping[str, AccountingGroup]) -> GroupTree:
    """Return the tree of these groups.

    :param names: the names in GROUP_NAMES
    :param configured: the groups' settings, by lower-case name; other groups have no quota
    """
    ignored: dict[str, str] = {}
    known: dict[str, AccountingGroup] = {}
    for name in sorted(names, key=str.lower):  # a parent must come before its children
        lower = name.lower()
        above = lower.rpartition(".")[0]
        if name == NO_GROUP:
            ignored[name] = "it is the name of the root, for submitters without a group"
        elif lower in known:
            ignored[name] = f"it is {known[lower].name} again"
        elif "." in lower and (above not in known or lower.endswith(".")):
            ignored[name] = f"there is no group {name.rpartition('.')[0]}"
        else:
            known[lower] = configured.get(lower, AccountingGroup(name))
    return _build_tree(known, ignored)


def _build_tree(known: Mapping[str, AccountingGroup], ignored: Mapping[str, str]) -> GroupTree:
    regroups = any(group.autoregroup for group in known.values())
    below: dict[str, list[str]] = {}
    for lower in known:
        below.setdefault(lower.rpartition(".")[0], []).append(lower)
    root = AccountingGroup(NO_GROUP, accepts_surplus=True, autoregroup=regroups) if regroups else ROOT
    groups, parents = [root], [-1]
    order = [""]
    for number, path in enumerate(order):
        for child in below.get(path, ()):
            groups.append(known[child])
            parents.append(number)
            order.append(child)
    return GroupTree(tuple(groups), tuple(parents), {path: index for index, path in enumerate(order)}, ignored)
