"""Those who wait and have equal rights, together: a cycle need not go through each of them to know what all have.

Most of those who wait have used nothing for long, and are told apart by nothing but their names. How large the pie is,
who comes first, and how many were refused follows from how many they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence
from math import fsum, inf
from typing import NamedTuple

from attrs import define, field
from sortedcontainers import SortedList

from .cycle_accounts import CycleSubmitter


class PriorityKey(NamedTuple):
    """What an account says that stays as time passes."""

    priority: float
    using: float
    ceiling: float


@define(eq=False)
class EqualPriorityGroup:
    """Submitters of equal rights, of all of whose jobs the kinds are known, by name."""

    rights: PriorityKey
    names: SortedList[str] = field(factory=SortedList)
    idle: int = 0  #: how many jobs of theirs wait
    kinds: int = 0  #: and of how many kinds those of each are, added up


class WaitingSubmitter(NamedTuple):
    standing: EqualPriorityGroup
    idle: int
    kinds: int
    kind: int  #: the number of their autocluster, if its jobs are of one, else -1


class EqualPriorityGroups:
    """All who wait: each in a standing, or alone."""

    def __init__(self) -> None:
        self.by_rights: dict[PriorityKey, EqualPriorityGroup] = {}
        self.members: dict[str, WaitingSubmitter] = {}
        self.alone: dict[str, None] = {}
        self.of_several_kinds: dict[str, None] = {}
        """The members whose jobs are of more than one kind."""
        self._of_kind: dict[int, dict[str, None]] = {}
        self._untold: dict[int, dict[str, None]] = {}
        """Of each kind those members of whom the log is not known to have what is told now (``_told``)."""
        self._told: dict[int, int] = {}

    def leave(self, name: str) -> None:
        """A submitter waits no longer, or with other rights or jobs."""
        self.alone.pop(name, None)
        member = self.members.pop(name, None)
        if member is None:
            return
        standing = member.standing
        standing.names.remove(name)
        standing.idle -= member.idle
        standing.kinds -= member.kinds
        if not standing.names:
            del self.by_rights[standing.rights]
        self.of_several_kinds.pop(name, None)
        if member.kind >= 0:
            del self._of_kind[member.kind][name]
            self._untold[member.kind].pop(name, None)
            if not self._of_kind[member.kind]:
                for members in (self._of_kind, self._untold, self._told):
                    members.pop(member.kind, None)

    def join(self, name: str, rights: PriorityKey, idle: int, kinds: int, kind: int) -> None:
        standing = self.by_rights.get(rights)
        if standing is None:
            standing = self.by_rights[rights] = EqualPriorityGroup(rights)
        self.members[name] = WaitingSubmitter(standing, idle, kinds, kind)
        standing.names.add(name)
        standing.idle += idle
        standing.kinds += kinds
        if kind >= 0:
            self._of_kind.setdefault(kind, {})[name] = None
            self._untold.setdefault(kind, {})[name] = None
        else:
            self.of_several_kinds[name] = None

    # What is told of those who are of one kind

    def kinds(self, spared: Container[str]) -> Iterator[tuple[int, str]]:
        """The kinds of the members but those that are spared, each with one of them."""
        for kind, names in self._of_kind.items():
            first = next((name for name in names if name not in spared), None)
            if first is not None:
                yield kind, first

    def untold(self, kind: int, number: int) -> Iterable[str]:
        """Of the members of a kind those of whom the log is not known to have what is told now, which has a number."""
        if self._told.get(kind) != number:
            self._told[kind] = number
            self._untold[kind] = dict(self._of_kind.get(kind, ()))
        return self._untold[kind]

    def note_told(self, name: str) -> None:
        member = self.members.get(name)
        if member is not None and member.kind >= 0:
            self._untold[member.kind].pop(name, None)


class Rest(NamedTuple):
    """Members of one standing who were not asked: how many, how many jobs of theirs wait, and of how many kinds."""

    rights: PriorityKey
    many: int
    idle: int
    kinds: int


_Turn = tuple[float, float, str]
"""By what submitters come one after the other: the better priority, then the emptier slice, then by name."""


class SubmitterOrder:
    """All who wait, in the order in which the first spin of a pie asks them."""

    def __init__(self, standings: EqualPriorityGroups, alone: Sequence[CycleSubmitter], total: float) -> None:
        """:param total: the cores that are to be divided"""
        self._standings, self._total = standings, total
        self._alone = {one.name: PriorityKey(one.priority, one.using, one.ceiling) for one in alone}
        self.walked: dict[str, None] = {}
        all_of_them = [(one.rights, len(one.names)) for one in standings.by_rights.values()]
        all_of_them += [(rights, 1) for rights in self._alone.values()]
        self._worst = max((rights.priority for rights, _ in all_of_them), default=1.0)
        self._normal = total_of((self._worst / rights.priority, many) for rights, many in all_of_them)
        self.pie = total_of((self.slice(rights), many) for rights, many in all_of_them)

    def __len__(self) -> int:
        return len(self._standings.members) + len(self._alone)

    def share(self, rights: PriorityKey) -> float:
        """The part of the pool that each is to have, by the inverse ratio of the effective priorities."""
        return self._worst / (rights.priority * self._normal)

    def slice(self, rights: PriorityKey) -> float:
        """The cores that each is to have further."""
        return max(0.0, self.share(rights) * self._total - rights.using)

    def rights_of(self, name: str) -> PriorityKey:
        member = self._standings.members.get(name)
        return self._alone[name] if member is None else member.standing.rights

    def __iter__(self) -> Iterator[str]:
        """The names. Whom the walk has come to is ``walked``."""
        turns = [self._turns(group.rights, group.names) for group in self._standings.by_rights.values()]
        alone = sorted((*self._turn(rights), name) for name, rights in self._alone.items())
        for _, _, name in heapq.merge(alone, *turns):
            yield name
            self.walked[name] = None

    def _turn(self, rights: PriorityKey) -> tuple[float, float]:
        total = rights.using + self.slice(rights)
        return rights.priority, rights.using / total if total > 0 else inf

    def _turns(self, rights: PriorityKey, names: Iterable[str]) -> Iterator[_Turn]:
        turn = self._turn(rights)
        return ((*turn, name) for name in names)

    # Those to whom the walk has not come

    def singles(self, apart: Iterable[str]) -> list[str]:
        """In their order, those who are alone or ``apart``."""
        members = self._standings.members
        names = [*self._alone, *(name for name in apart if name in members)]
        return sorted(
            (name for name in names if name not in self.walked),
            key=lambda name: (*self._turn(self.rights_of(name)), name),
        )

    def rests(self, apart: Iterable[str]) -> Iterator[Rest]:
        """The others, by their rights."""
        gone: dict[PriorityKey, list[WaitingSubmitter]] = {}
        for name in dict.fromkeys((*self.walked, *apart)):
            member = self._standings.members.get(name)
            if member is not None:
                gone.setdefault(member.standing.rights, []).append(member)
        for group in self._standings.by_rights.values():
            less = gone.get(group.rights, ())
            idle = group.idle - sum(member.idle for member in less)
            kinds = group.kinds - sum(member.kinds for member in less)
            yield Rest(group.rights, len(group.names) - len(less), idle, kinds)


_SPLIT = 134_217_729.0
"""2 to the 27th, and one: it takes a number's digits apart in two halves."""


def total_of(amounts: Iterable[tuple[float, int]]) -> float:
    """The sum of so many times each amount, rounded once: that is the same in any order, and however it is grouped."""
    parts: list[float] = []
    for amount, many in amounts:
        if many == 1:
            parts.append(amount)
        else:  # both products are exact
            upper = amount * _SPLIT - (amount * _SPLIT - amount)
            parts += (upper * many, (amount - upper) * many)
    return fsum(parts)
