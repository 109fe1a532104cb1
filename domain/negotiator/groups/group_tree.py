"""The tree of accounting groups: as it is configured, and with what a cycle computes at its nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from attrs import define, field, frozen

from ...state.accounting_groups import NO_GROUP, group_of, innermost


@frozen
class AccountingGroup:
    """An accounting group as it is configured."""

    name: str  #: as GROUP_NAMES spells it, as physics.hep
    quota: float = 0.0  #: cores if it is ``static``, else a part of what its parent gives to such groups, up to 1
    static: bool = False  #: whether the quota is GROUP_QUOTA_<name>, and not GROUP_QUOTA_DYNAMIC_<name>
    accepts_surplus: bool = False  #: whether it may have what other groups leave
    autoregroup: bool = False  #: whether its submitters negotiate once more, with those of no group


@define(eq=False)
class Node:
    """A group in one cycle. All amounts are cores (weights of slots), the quotas and the use alike."""

    group: AccountingGroup
    number: int  #: its place in the tree, breadth first; the root is 0
    parent: Node | None = field(default=None, repr=False)
    children: list[Node] = field(factory=list, repr=False)
    accepts_surplus: bool = False
    quota: float = 0.0  #: what its own submitters may have, without surplus
    subtree_quota: float = 0.0  #: the same with what its subgroups may have
    demand: float = 0.0  #: what its own submitters use and ask for
    requested: float = 0.0  #: of that, what nothing is allocated for
    allocated: float = 0.0  #: what its own submitters may have in this round, with surplus
    subtree_requested: float = 0.0
    used: int = 0  #: what its own submitters have, in thousandths
    subtree_used: int = 0  #: what they and those of its subgroups have, in thousandths
    before: float = 0.0  #: what its own submitters had when the round began
    served_at: float = 0.0  #: when it got one of the remainders last (``rounds``)
    subtree_served_at: float = 0.0
    served: bool = False  #: whether it has got one of them in this round

    def __attrs_post_init__(self) -> None:
        self.accepts_surplus = self.group.accepts_surplus

    @property
    def name(self) -> str:
        return self.group.name

    def line(self) -> Iterator[Node]:
        """It, its parent, and so on up to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def usage(self) -> float:
        """What its own submitters have."""
        return self.used / 1000

    def hand_out(self, parts: Sequence[float], requested: float, below: Callable[[Node, float], object]) -> None:
        """Give each subgroup its part, which ``below`` divides further, and the last part to the group itself.

        :param requested: what the group and its subgroups request after that
        """
        for child, part in zip(self.children, parts, strict=False):
            if part > 0:
                below(child, part)
        self.allocated += parts[-1]
        self.requested -= parts[-1]
        self.subtree_requested = requested

    def take(self, thousandths: int) -> None:
        """Its submitters have more than before."""
        self.used += thousandths
        for node in self.line():
            node.subtree_used += thousandths

    def left(self) -> float:
        """The cores that its subtree may still get: a node that accepts surplus has no end."""
        return inf if self.accepts_surplus else max(0.0, self.subtree_quota - self.subtree_used / 1000)

    def room(self) -> float:
        """The cores that it may still get for all that it and the nodes above it may have."""
        return min(node.left() for node in self.line())


@frozen
class GroupTree:
    """The groups that there are, in the order of the tree: breadth first, children by name. Who is in none of them is
    in the root, ``<none>``."""

    groups: tuple[AccountingGroup, ...]
    parents: tuple[int, ...]  #: the place of each group's parent; the root's own is -1
    places: Mapping[str, int]  #: by names in small letters
    ignored: Mapping[str, str]  #: names that make no group, and why

    @property
    def divides(self) -> bool:
        """Whether there is any group: without one, no cycle looks at quotas."""
        return len(self.groups) > 1

    def place_of(self, submitter: str) -> int:
        """The place of the innermost group that there is, of those that a submitter's name tells."""
        if not self.divides:
            return 0
        return self.places[innermost(group_of(submitter).lower(), self.places)]

    def grown(self) -> list[Node]:
        """Nodes for a cycle, in the order of the groups."""
        nodes: list[Node] = []
        for number, (group, above) in enumerate(zip(self.groups, self.parents, strict=True)):
            parent = nodes[above] if number else None
            nodes.append(Node(group, number, parent))
            if parent is not None:
                parent.children.append(nodes[-1])
        return nodes


ROOT: Final = AccountingGroup(NO_GROUP, accepts_surplus=True)


def group_tree(names: Iterable[str], configured: Mapping[str, AccountingGroup]) -> GroupTree:
    """The tree of these groups.

    :param names: as GROUP_NAMES has them
    :param configured: what is set for groups, by names in small letters; the others have no quota
    """
    ignored: dict[str, str] = {}
    known: dict[str, AccountingGroup] = {}
    for name in sorted(names, key=str.lower):  # so that a parent comes before its children
        lower = name.lower()
        above = lower.rpartition(".")[0]
        if name == NO_GROUP:
            ignored[name] = "it is the name of the group of those that are in none"
        elif lower in known:
            ignored[name] = f"it is {known[lower].name} once more"
        elif "." in lower and (above not in known or lower.endswith(".")):
            ignored[name] = f"there is no group {name.rpartition('.')[0]}"
        else:
            known[lower] = configured.get(lower, AccountingGroup(name))
    return _laid_out(known, ignored)


def _laid_out(known: Mapping[str, AccountingGroup], ignored: Mapping[str, str]) -> GroupTree:
    regroups = any(group.autoregroup for group in known.values())
    below: dict[str, list[str]] = {}
    for lower in known:
        below.setdefault(lower.rpartition(".")[0], []).append(lower)
    groups, parents = (
        [AccountingGroup(NO_GROUP, accepts_surplus=True, autoregroup=regroups) if regroups else ROOT],
        [-1],
    )
    order = [""]
    for number, path in enumerate(order):
        for child in below.get(path, ()):
            groups.append(known[child])
            parents.append(number)
            order.append(child)
    return GroupTree(tuple(groups), tuple(parents), {path: place for place, path in enumerate(order)}, ignored)
