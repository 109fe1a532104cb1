"""Groups of waiting submitters with equal priority, which a cycle treats together instead of one by one.

Most waiting submitters have used nothing for a long time, and differ only in their names. The size of the pie, the
order in which submitters negotiate, and the number of rejections depend only on the number of members of each group.
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
    """The parts of a submitter's account that stay the same while the submitter uses nothing."""

    priority: float
    using: float
    ceiling: float


@define(eq=False)
class EqualPriorityGroup:
    """Submitters of equal priority, sorted by name. The autoclusters of all their jobs are known."""

    key: PriorityKey
    names: SortedList[str] = field(factory=SortedList)
    idle: int = 0  #: the number of the members' idle jobs
    autocluster_count: int = 0  #: the sum of the members' numbers of autoclusters


class WaitingSubmitter(NamedTuple):
    group: EqualPriorityGroup
    idle: int
    autocluster_count: int
    autocluster: int  #: the autocluster number of the jobs if all have the same, else -1


class EqualPriorityGroups:
    """All waiting submitters, each in a group or single."""

    def __init__(self) -> None:
        self.by_key: dict[PriorityKey, EqualPriorityGroup] = {}
        self.members: dict[str, WaitingSubmitter] = {}
        self.single: dict[str, None] = {}
        self.with_several_autoclusters: dict[str, None] = {}
        """The members with jobs in more than one autocluster."""
        self._by_autocluster: dict[int, dict[str, None]] = {}
        self._unlogged: dict[int, dict[str, None]] = {}
        """By autocluster, the members whose current reason may not be in the log yet (``_logged_reasons``)."""
        self._logged_reasons: dict[int, int] = {}

    def remove_submitter(self, name: str) -> None:
        """Remove a submitter that no longer waits, or whose priority or jobs have changed."""
        self.single.pop(name, None)
        member = self.members.pop(name, None)
        if member is None:
            return
        group = member.group
        group.names.remove(name)
        group.idle -= member.idle
        group.autocluster_count -= member.autocluster_count
        if not group.names:
            del self.by_key[group.key]
        self.with_several_autoclusters.pop(name, None)
        if member.autocluster >= 0:
            del self._by_autocluster[member.autocluster][name]
            self._unlogged[member.autocluster].pop(name, None)
            if not self._by_autocluster[member.autocluster]:
                for members in (self._by_autocluster, self._unlogged, self._logged_reasons):
                    members.pop(member.autocluster, None)

    def add_submitter(self, name: str, key: PriorityKey, idle: int, autocluster_count: int, autocluster: int) -> None:
        group = self.by_key.get(key)
        if group is None:
            group = self.by_key[key] = EqualPriorityGroup(key)
        self.members[name] = WaitingSubmitter(group, idle, autocluster_count, autocluster)
        group.names.add(name)
        group.idle += idle
        group.autocluster_count += autocluster_count
        if autocluster >= 0:
            self._by_autocluster.setdefault(autocluster, {})[name] = None
            self._unlogged.setdefault(autocluster, {})[name] = None
        else:
            self.with_several_autoclusters[name] = None

    def autoclusters(self, excluded: Container[str]) -> Iterator[tuple[int, str]]:
        """Yield the members' autoclusters, each with one of its members. Members in ``excluded`` are ignored."""
        for autocluster, names in self._by_autocluster.items():
            first = next((name for name in names if name not in excluded), None)
            if first is not None:
                yield autocluster, first

    def unlogged(self, autocluster: int, number: int) -> Iterable[str]:
        """Return the members with jobs of this autocluster for which the log may not contain the current rejection
        reason.

        :param number: the number of the autocluster's current rejection reason
        """
        if self._logged_reasons.get(autocluster) != number:
            self._logged_reasons[autocluster] = number
            self._unlogged[autocluster] = dict(self._by_autocluster.get(autocluster, ()))
        return self._unlogged[autocluster]

    def note_logged(self, name: str) -> None:
        member = self.members.get(name)
        if member is not None and member.autocluster >= 0:
            self._unlogged[member.autocluster].pop(name, None)


class RemainingMembers(NamedTuple):
    """The members of a group that did not negotiate before the slots ran out."""

    key: PriorityKey
    size: int
    idle: int  #: the number of their idle jobs
    autocluster_count: int  #: the sum of their numbers of autoclusters


_Turn = tuple[float, float, str]
"""The sort key of turns: better priority first, then emptier slice, then name."""


class SubmitterOrder:
    """The order in which all waiting submitters negotiate in a pie's first spin."""

    def __init__(self, groups: EqualPriorityGroups, single: Sequence[CycleSubmitter], total: float) -> None:
        """:param total: the cores to divide"""
        self._groups, self._total = groups, total
        self._single = {
            account.name: PriorityKey(account.priority, account.using, account.ceiling) for account in single
        }
        self.served: dict[str, None] = {}
        sizes = [(group.key, len(group.names)) for group in groups.by_key.values()]
        sizes += [(key, 1) for key in self._single.values()]
        self._worst = max((key.priority for key, _ in sizes), default=1.0)
        self._share_sum = total_of((self._worst / key.priority, count) for key, count in sizes)
        self.pie = total_of((self.slice(key), count) for key, count in sizes)

    def __len__(self) -> int:
        return len(self._groups.members) + len(self._single)

    def share(self, key: PriorityKey) -> float:
        """Return the pool share of each submitter with this key, which is inverse to its effective priority."""
        return self._worst / (key.priority * self._share_sum)

    def slice(self, key: PriorityKey) -> float:
        """Return how many more cores each such submitter may have."""
        return max(0.0, self.share(key) * self._total - key.using)

    def key_of(self, name: str) -> PriorityKey:
        member = self._groups.members.get(name)
        return self._single[name] if member is None else member.group.key

    def __iter__(self) -> Iterator[str]:
        """Yield the names; ``served`` contains those already yielded."""
        turns = [self._turns(group.key, group.names) for group in self._groups.by_key.values()]
        single = sorted((*self._turn_key(key), name) for name, key in self._single.items())
        for _, _, name in heapq.merge(single, *turns):
            yield name
            self.served[name] = None

    def _turn_key(self, key: PriorityKey) -> tuple[float, float]:
        total = key.using + self.slice(key)
        return key.priority, key.using / total if total > 0 else inf

    def _turns(self, key: PriorityKey, names: Iterable[str]) -> Iterator[_Turn]:
        turn = self._turn_key(key)
        return ((*turn, name) for name in names)

    def remaining_singles(self, individual_names: Iterable[str]) -> list[str]:
        """Return the remaining submitters that belong to no group or are in ``individual_names``, in order."""
        members = self._groups.members
        names = [*self._single, *(name for name in individual_names if name in members)]
        remaining = [name for name in names if name not in self.served]
        return sorted(remaining, key=lambda name: (*self._turn_key(self.key_of(name)), name))

    def remaining_groups(self, individual_names: Iterable[str]) -> Iterator[RemainingMembers]:
        """Yield the remaining submitters that are not in ``individual_names``, by group."""
        absent: dict[PriorityKey, list[WaitingSubmitter]] = {}
        for name in dict.fromkeys((*self.served, *individual_names)):
            member = self._groups.members.get(name)
            if member is not None:
                absent.setdefault(member.group.key, []).append(member)
        for group in self._groups.by_key.values():
            served_members = absent.get(group.key, ())
            idle = group.idle - sum(member.idle for member in served_members)
            autocluster_count = group.autocluster_count - sum(member.autocluster_count for member in served_members)
            yield RemainingMembers(group.key, len(group.names) - len(served_members), idle, autocluster_count)


_SPLIT = 134_217_729.0
"""2 to the power of 27, plus 1, which splits the digits of a number into two halves."""


def total_of(amounts: Iterable[tuple[float, int]]) -> float:
    """Return the sum of amounts times counts. It is rounded once, so it does not depend on order or grouping."""
    parts: list[float] = []
    for amount, count in amounts:
        if count == 1:
            parts.append(amount)
        else:  # both products are exact
            upper = amount * _SPLIT - (amount * _SPLIT - amount)
            parts += (upper * count, (amount - upper) * count)
    return fsum(parts)
