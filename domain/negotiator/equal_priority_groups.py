"""Groups of waiting submitters with equal priority: a cycle need not look at each member.

Most waiting submitters have used nothing for a long time, and differ only by name. The size of the pie, the order of
the turns and the number of refusals follow from the number of members.
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
    """The parts of an account that do not change with time."""

    priority: float
    using: float
    ceiling: float


@define(eq=False)
class EqualPriorityGroup:
    """Submitters of equal priority whose jobs' kinds are all known, by name."""

    rights: PriorityKey
    names: SortedList[str] = field(factory=SortedList)
    idle: int = 0  #: the members' idle jobs
    kinds: int = 0  #: the sum of the members' numbers of kinds


class WaitingSubmitter(NamedTuple):
    standing: EqualPriorityGroup
    idle: int
    kinds: int
    kind: int  #: the number of the jobs' autocluster if they have only one, else -1


class EqualPriorityGroups:
    """All waiting submitters: in groups, or alone."""

    def __init__(self) -> None:
        self.by_rights: dict[PriorityKey, EqualPriorityGroup] = {}
        self.members: dict[str, WaitingSubmitter] = {}
        self.alone: dict[str, None] = {}
        self.of_several_kinds: dict[str, None] = {}
        """The members with jobs of more than one kind."""
        self._of_kind: dict[int, dict[str, None]] = {}
        self._untold: dict[int, dict[str, None]] = {}
        """The members of each kind for which the log may not have the current reason (``_told``)."""
        self._told: dict[int, int] = {}

    def leave(self, name: str) -> None:
        """Remove a submitter that no longer waits, or whose priority or jobs changed."""
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

    # Reasons for members with one kind of jobs

    def kinds(self, spared: Container[str]) -> Iterator[tuple[int, str]]:
        """Yield the kinds of the members, each with one of them, without the ``spared`` members."""
        for kind, names in self._of_kind.items():
            first = next((name for name in names if name not in spared), None)
            if first is not None:
                yield kind, first

    def untold(self, kind: int, number: int) -> Iterable[str]:
        """Return the members of a kind for which the log may not have the current reason, which has this number."""
        if self._told.get(kind) != number:
            self._told[kind] = number
            self._untold[kind] = dict(self._of_kind.get(kind, ()))
        return self._untold[kind]

    def note_told(self, name: str) -> None:
        member = self.members.get(name)
        if member is not None and member.kind >= 0:
            self._untold[member.kind].pop(name, None)


class Rest(NamedTuple):
    """The members of one group that had no turn."""

    rights: PriorityKey
    many: int
    idle: int  #: their idle jobs
    kinds: int  #: the sum of their numbers of kinds


_Turn = tuple[float, float, str]
"""The sort key of turns: the better priority, then the emptier slice, then the name."""


class SubmitterOrder:
    """All waiting submitters, in the order of the first spin of a pie."""

    def __init__(self, standings: EqualPriorityGroups, alone: Sequence[CycleSubmitter], total: float) -> None:
        """:param total: the cores to divide"""
        self._standings, self._total = standings, total
        self._alone = {account.name: PriorityKey(account.priority, account.using, account.ceiling) for account in alone}
        self.walked: dict[str, None] = {}
        all_of_them = [(group.rights, len(group.names)) for group in standings.by_rights.values()]
        all_of_them += [(rights, 1) for rights in self._alone.values()]
        self._worst = max((rights.priority for rights, _ in all_of_them), default=1.0)
        self._normal = total_of((self._worst / rights.priority, many) for rights, many in all_of_them)
        self.pie = total_of((self.slice(rights), many) for rights, many in all_of_them)

    def __len__(self) -> int:
        return len(self._standings.members) + len(self._alone)

    def share(self, rights: PriorityKey) -> float:
        """Return the part of the pool for each, by the inverse ratio of the effective priorities."""
        return self._worst / (rights.priority * self._normal)

    def slice(self, rights: PriorityKey) -> float:
        """Return how many more cores each may have."""
        return max(0.0, self.share(rights) * self._total - rights.using)

    def rights_of(self, name: str) -> PriorityKey:
        member = self._standings.members.get(name)
        return self._alone[name] if member is None else member.standing.rights

    def __iter__(self) -> Iterator[str]:
        """Yield the names; ``walked`` has the ones already yielded."""
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

    # Submitters that are not walked

    def singles(self, apart: Iterable[str]) -> list[str]:
        """Return the remaining submitters that are alone or ``apart``, in their order."""
        members = self._standings.members
        names = [*self._alone, *(name for name in apart if name in members)]
        return sorted(
            (name for name in names if name not in self.walked),
            key=lambda name: (*self._turn(self.rights_of(name)), name),
        )

    def rests(self, apart: Iterable[str]) -> Iterator[Rest]:
        """Yield the other remaining submitters, by group."""
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
"""2 to the 27th, plus 1: splits a number's digits in two halves."""


def total_of(amounts: Iterable[tuple[float, int]]) -> float:
    """Return the sum of amounts times counts, rounded once: the same for any order and grouping."""
    parts: list[float] = []
    for amount, many in amounts:
        if many == 1:
            parts.append(amount)
        else:  # both products are exact
            upper = amount * _SPLIT - (amount * _SPLIT - amount)
            parts += (upper * many, (amount - upper) * many)
    return fsum(parts)
