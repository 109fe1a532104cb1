"""Groups of waiting submitters with equal priority, so that a cycle need not look at each member.

Most waiting submitters have used nothing for a long time, and differ only in their names. The size of the pie, the
order of the turns and the number of rejections depend only on the number of members.
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
    """Submitters of equal priority, by name, for which all kinds of jobs are known."""

    key: PriorityKey
    names: SortedList[str] = field(factory=SortedList)
    idle: int = 0  #: the number of the members' idle jobs
    kinds: int = 0  #: the sum of the members' numbers of job kinds


class WaitingSubmitter(NamedTuple):
    group: EqualPriorityGroup
    idle: int
    kinds: int
    kind: int  #: the autocluster number of the jobs if all have the same, else -1


class EqualPriorityGroups:
    """All waiting submitters, in groups or alone."""

    def __init__(self) -> None:
        self.by_key: dict[PriorityKey, EqualPriorityGroup] = {}
        self.members: dict[str, WaitingSubmitter] = {}
        self.alone: dict[str, None] = {}
        self.of_several_kinds: dict[str, None] = {}
        """The members with jobs of more than one kind."""
        self._of_kind: dict[int, dict[str, None]] = {}
        self._unlogged: dict[int, dict[str, None]] = {}
        """By kind, the members whose current reason may not be in the log yet (``_logged_reasons``)."""
        self._logged_reasons: dict[int, int] = {}

    def leave(self, name: str) -> None:
        """Remove a submitter that no longer waits, or whose priority or jobs have changed."""
        self.alone.pop(name, None)
        member = self.members.pop(name, None)
        if member is None:
            return
        group = member.group
        group.names.remove(name)
        group.idle -= member.idle
        group.kinds -= member.kinds
        if not group.names:
            del self.by_key[group.key]
        self.of_several_kinds.pop(name, None)
        if member.kind >= 0:
            del self._of_kind[member.kind][name]
            self._unlogged[member.kind].pop(name, None)
            if not self._of_kind[member.kind]:
                for members in (self._of_kind, self._unlogged, self._logged_reasons):
                    members.pop(member.kind, None)

    def join(self, name: str, key: PriorityKey, idle: int, kinds: int, kind: int) -> None:
        group = self.by_key.get(key)
        if group is None:
            group = self.by_key[key] = EqualPriorityGroup(key)
        self.members[name] = WaitingSubmitter(group, idle, kinds, kind)
        group.names.add(name)
        group.idle += idle
        group.kinds += kinds
        if kind >= 0:
            self._of_kind.setdefault(kind, {})[name] = None
            self._unlogged.setdefault(kind, {})[name] = None
        else:
            self.of_several_kinds[name] = None

    # Reasons for members with one kind of jobs

    def kinds(self, excluded: Container[str]) -> Iterator[tuple[int, str]]:
        """Yield the members' kinds of jobs, each with one of the members, ignoring ``excluded`` members."""
        for kind, names in self._of_kind.items():
            first = next((name for name in names if name not in excluded), None)
            if first is not None:
                yield kind, first

    def unlogged(self, kind: int, number: int) -> Iterable[str]:
        """Return the members with a kind of jobs whose current reason, which has this number, may not be in the log
        yet."""
        if self._logged_reasons.get(kind) != number:
            self._logged_reasons[kind] = number
            self._unlogged[kind] = dict(self._of_kind.get(kind, ()))
        return self._unlogged[kind]

    def note_logged(self, name: str) -> None:
        member = self.members.get(name)
        if member is not None and member.kind >= 0:
            self._unlogged[member.kind].pop(name, None)


class RemainingMembers(NamedTuple):
    """The members of a group that had no turn."""

    key: PriorityKey
    size: int
    idle: int  #: the number of their idle jobs
    kinds: int  #: the sum of their numbers of job kinds


_Turn = tuple[float, float, str]
"""The sort key of turns: better priority first, then emptier slice, then name."""


class SubmitterOrder:
    """All waiting submitters, in the order of a pie's first spin."""

    def __init__(self, groups: EqualPriorityGroups, alone: Sequence[CycleSubmitter], total: float) -> None:
        """:param total: the cores to divide"""
        self._groups, self._total = groups, total
        self._alone = {account.name: PriorityKey(account.priority, account.using, account.ceiling) for account in alone}
        self.served: dict[str, None] = {}
        sizes = [(group.key, len(group.names)) for group in groups.by_key.values()]
        sizes += [(key, 1) for key in self._alone.values()]
        self._worst = max((key.priority for key, _ in sizes), default=1.0)
        self._normal = total_of((self._worst / key.priority, count) for key, count in sizes)
        self.pie = total_of((self.slice(key), count) for key, count in sizes)

    def __len__(self) -> int:
        return len(self._groups.members) + len(self._alone)

    def share(self, key: PriorityKey) -> float:
        """Return each such submitter's share of the pool, by the inverse ratio of the effective priorities."""
        return self._worst / (key.priority * self._normal)

    def slice(self, key: PriorityKey) -> float:
        """Return how many more cores each such submitter may have."""
        return max(0.0, self.share(key) * self._total - key.using)

    def key_of(self, name: str) -> PriorityKey:
        member = self._groups.members.get(name)
        return self._alone[name] if member is None else member.group.key

    def __iter__(self) -> Iterator[str]:
        """Yield the names; ``served`` contains those already yielded."""
        turns = [self._turns(group.key, group.names) for group in self._groups.by_key.values()]
        alone = sorted((*self._turn(key), name) for name, key in self._alone.items())
        for _, _, name in heapq.merge(alone, *turns):
            yield name
            self.served[name] = None

    def _turn(self, key: PriorityKey) -> tuple[float, float]:
        total = key.using + self.slice(key)
        return key.priority, key.using / total if total > 0 else inf

    def _turns(self, key: PriorityKey, names: Iterable[str]) -> Iterator[_Turn]:
        turn = self._turn(key)
        return ((*turn, name) for name in names)

    # Submitters that are not served

    def remaining_singles(self, separate: Iterable[str]) -> list[str]:
        """Return the remaining submitters that are alone or in ``separate``, in order."""
        members = self._groups.members
        names = [*self._alone, *(name for name in separate if name in members)]
        remaining = [name for name in names if name not in self.served]
        return sorted(remaining, key=lambda name: (*self._turn(self.key_of(name)), name))

    def remaining_groups(self, separate: Iterable[str]) -> Iterator[RemainingMembers]:
        """Yield the other remaining submitters, by group."""
        absent: dict[PriorityKey, list[WaitingSubmitter]] = {}
        for name in dict.fromkeys((*self.served, *separate)):
            member = self._groups.members.get(name)
            if member is not None:
                absent.setdefault(member.group.key, []).append(member)
        for group in self._groups.by_key.values():
            served_members = absent.get(group.key, ())
            idle = group.idle - sum(member.idle for member in served_members)
            kinds = group.kinds - sum(member.kinds for member in served_members)
            yield RemainingMembers(group.key, len(group.names) - len(served_members), idle, kinds)


_SPLIT = 134_217_729.0
"""2 to the power of 27, plus 1, which splits the digits of a number into two halves."""


def total_of(amounts: Iterable[tuple[float, int]]) -> float:
    """Return the sum of amounts times counts, rounded once, so that it does not depend on order or grouping."""
    parts: list[float] = []
    for amount, count in amounts:
        if count == 1:
            parts.append(amount)
        else:  # both products are exact
            upper = amount * _SPLIT - (amount * _SPLIT - amount)
            parts += (upper * count, (amount - upper) * count)
    return fsum(parts)
