"""What jobs alike take of concurrency limits in a cycle, and whether enough is left.

A cycle never returns anything to a limit: after a refusal, a job is refused for the rest of the cycle.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from ..concurrency_limits import Amount, in_units
from ..events import ReachedLimit

CONCURRENCY = "concurrency"
"""A job was stopped by a concurrency limit."""


class Limit(Struct):
    """One limit: its maximum, and how much is left, which may be negative."""

    name: str
    most: Amount
    left: Amount

    def reached(self, amount: Amount) -> ReachedLimit:
        return ReachedLimit(self.name, in_units(self.most - self.left), in_units(self.most), in_units(amount))


class Latest(Struct):
    """The latest use. Consecutive jobs mostly take the same, so it is subtracted once for all of them."""

    wanted: ConcurrencyUse | None = None

    def settle(self) -> None:
        """Subtract what was taken."""
        last, self.wanted = self.wanted, None
        if last is not None and last.owed:
            for limit, units in last.units:
                limit.left -= units * last.owed
            last.owed = 0


class ConcurrencyUse(Struct):
    """The units that a text of ConcurrencyLimits takes of each finite limit, and whether they are exhausted."""

    text: str  #: as it was evaluated
    units: tuple[tuple[Limit, Amount], ...]
    latest: Latest
    gone: bool = False
    room: Amount = 0  #: how many more jobs there is enough for, while it is the latest
    owed: int = 0  #: for how many jobs it is not subtracted yet

    def fits(self) -> bool:
        """Check whether enough of each limit is left."""
        if self.latest.wanted is not self and not self.gone:
            self.latest.settle()
            self.latest.wanted = self
            self.room = min([limit.left // units for limit, units in self.units], default=inf)
        self.gone = self.gone or self.room < 1
        return not self.gone

    def take(self) -> None:
        """Take the units for a job that they suffice for."""
        if self.latest.wanted is not self:
            self.fits()
        self.room -= 1
        self.owed += 1

    def reached(self) -> list[ReachedLimit]:
        """Return the limits that do not have as much left."""
        self.latest.settle()
        return [limit.reached(units) for limit, units in self.units if limit.left < units]


class JobLimits(Struct):
    """What jobs alike take: ``always`` the same, or for each slot the use at its place in ``kinds`` (-1: nothing)."""

    always: ConcurrencyUse | None = None
    wanted: list[ConcurrencyUse] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    refused: dict[str, ConcurrencyUse] = field(default_factory=dict)  #: the uses refused for some slot, by text

    def fits(self) -> bool:
        """Check whether the limits that are the same for all slots permit the jobs any slot."""
        return self.always is None or self.always.fits()

    def allows(self, place: int) -> bool:
        """Check whether the limits permit the jobs the slot at a place. A refusal holds for the whole cycle."""
        if self.always is not None:
            return True
        kind = self.kinds[place]
        if kind < 0:
            return True
        use = self.wanted[kind]
        if use.fits():
            return True
        self.refused[use.text] = use
        return False

    def take(self, place: int) -> str:
        """Take a job's units for the slot at a place; return their text."""
        use = self.always
        if use is None:
            if self.kinds[place] < 0:
                return ""
            use = self.wanted[self.kinds[place]]
        use.take()
        return use.text

    def reached(self) -> tuple[ReachedLimit, ...]:
        """Return the limits that stopped the jobs, by name."""
        uses = self.refused.values() if self.always is None else (self.always,)
        return tuple(sorted((limit for use in uses for limit in use.reached()), key=lambda limit: limit.name))
