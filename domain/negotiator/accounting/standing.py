"""How submitters stand: their priorities as of the last update, and what they have used until some instant."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from .priorities import Account, Terms, brought_to, ceiling, factor, floor, group_of, rounded

NO_GROUP: Final = "<none>"
"""The group of those that are in none."""
_THOUSANDTHS: Final = 1000
_SECOND: Final = 1_000_000


class Book(Account, Protocol):
    """What is kept of a submitter, with what it uses and has used (``state.Submitter`` explains)."""

    @property
    def weighted_in_use(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def counted(self) -> int: ...
    @property
    def weighted_usage(self) -> int: ...
    @property
    def unweighted_usage(self) -> int: ...
    @property
    def begin(self) -> int: ...
    @property
    def last(self) -> int: ...


class Standing(NamedTuple):
    """A submitter. Lengths of time are in seconds, instants in seconds since the epoch.

    :param group: the accounting group, of those that there are; ``NO_GROUP`` for none
    :param priority: the real priority
    :param factor: the priority factor that counts now; so do ``floor`` (0: none) and ``ceiling`` (-1: none)
    :param slots: how many slots it has, ``cores`` what they weigh
    :param used: the time for which it had slots, times their weights, since ``begin``; ``held``: without the weights
    :param begin: when it had a slot first, ``last`` when last; 0: it never had one
    """

    name: str
    group: str
    priority: float
    factor: float
    floor: float
    ceiling: float
    slots: int
    cores: float
    used: float
    held: float
    begin: float
    last: float

    @property
    def effective(self) -> float:
        """The effective priority: who has less gets more."""
        return self.priority * self.factor


def group_names(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The accounting groups that a pool's settings name."""
    return tuple(settings.get("GROUP_NAMES", "").replace(",", " ").split())


def standings(
    books: Iterable[Book], rules: Terms, groups: Sequence[str], accounted: int, at: int, now: int
) -> list[Standing]:
    """The submitters, by name.

    :param groups: the names of the accounting groups that there are
    :param accounted: when the priorities were brought up to date last: they are told as of then
    :param at: until when the use of slots is counted
    :param now: which factors, floors and ceilings are lent at this instant
    """
    known = {group.lower(): group for group in groups}
    ordered = sorted(books, key=lambda book: book.name)
    return [_standing(book, rules, _assigned(book.name, known), accounted, at, now) for book in ordered]


def _standing(book: Book, rules: Terms, group: str, accounted: int, at: int, now: int) -> Standing:
    at = max(at, book.counted)
    return Standing(
        book.name,
        group,
        rounded(brought_to(book, max(accounted, book.updated), rules.halflife)),
        factor(book, rules, now),
        floor(book, now),
        ceiling(book, now),
        book.slots,
        book.weighted_in_use / _THOUSANDTHS,
        (book.weighted_usage + (at - book.counted) * book.weighted_in_use) / _THOUSANDTHS / _SECOND,
        (book.unweighted_usage + (at - book.counted) * book.slots) / _SECOND,
        book.begin / _SECOND,
        (max(book.last, at) if book.slots else book.last) / _SECOND,
    )


def shares(found: Iterable[Standing], taking_part: Container[str]) -> dict[str, float]:
    """Which part of the pie each of those who take part in a cycle gets: by the inverse of the effective priorities."""
    inverse = {one.name: 1 / one.effective for one in found if one.name in taking_part}
    whole = sum(inverse.values())
    return {name: part / whole for name, part in inverse.items()}


def _assigned(name: str, known: Mapping[str, str]) -> str:
    """The innermost group that there is, of those that a submitter's name tells."""
    group = group_of(name).lower()
    while group and group not in known:
        group = group.rpartition(".")[0]
    return known.get(group, NO_GROUP)
