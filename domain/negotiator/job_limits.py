"""What jobs alike take of concurrency limits in a cycle, and whether as much is left.

Within a cycle nothing is given back: what is refused once is refused until its end.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from ..concurrency_limits import Amount, in_units
from ..events import ReachedLimit

CONCURRENCY = "concurrency"
"""What kept a job from a slot: a concurrency limit."""


class Limit(Struct):
    """One limit: how much there is of it, and how much is left, which may be less than nothing."""

    name: str
    most: Amount
    left: Amount

    def reached(self, amount: Amount) -> ReachedLimit:
        return ReachedLimit(self.name, in_units(self.most - self.left), in_units(self.most), in_units(amount))


class Latest(Struct):
    """What was asked for last: jobs that follow each other mostly take the same, so that it is subtracted once for all
    of them."""

    wanted: ConcurrencyUse | None = None

    def settle(self) -> None:
        """Subtract what was taken."""
        last, self.wanted = self.wanted, None
        if last is not None and last.owed:
            for limit, units in last.units:
                limit.left -= units * last.owed
            last.owed = 0


class ConcurrencyUse(Struct):
    """What a text of ConcurrencyLimits takes: of each limit that has an end the units; and whether these are there no
    more."""

    text: str  #: as it was evaluated
    units: tuple[tuple[Limit, Amount], ...]
    latest: Latest
    gone: bool = False
    room: Amount = 0  #: for how many more jobs there is enough, while it is the latest
    owed: int = 0  #: for how many it is still to be subtracted

    def fits(self) -> bool:
        """Tell whether all of it may be had."""
        if self.latest.wanted is not self and not self.gone:
            self.latest.settle()
            self.latest.wanted = self
            self.room = min([limit.left // units for limit, units in self.units], default=inf)
        self.gone = self.gone or self.room < 1
        return not self.gone

    def take(self) -> None:
        """Have a job take it, for which it fits."""
        if self.latest.wanted is not self:
            self.fits()
        self.room -= 1
        self.owed += 1

    def reached(self) -> list[ReachedLimit]:
        """Return the limits that do not have as much left."""
        self.latest.settle()
        return [limit.reached(units) for limit, units in self.units if limit.left < units]


class JobLimits(Struct):
    """What jobs alike take: ``always`` the same, or of each slot what is at its place in ``kinds`` (-1: nothing)."""

    always: ConcurrencyUse | None = None
    wanted: list[ConcurrencyUse] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    refused: dict[str, ConcurrencyUse] = field(default_factory=dict)  #: what stood in the way at some slot, by its text

    def fits(self) -> bool:
        """Tell whether the jobs may have any slot, as far as limits go that are the same for all slots."""
        return self.always is None or self.always.fits()

    def allows(self, place: int) -> bool:
        """Tell whether the jobs may have the slot at a place. Once not, never again in this cycle."""
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
        """Have a job take what it takes with the slot at a place; return that."""
        use = self.always
        if use is None:
            if self.kinds[place] < 0:
                return ""
            use = self.wanted[self.kinds[place]]
        use.take()
        return use.text

    def reached(self) -> tuple[ReachedLimit, ...]:
        """Return the limits that are, or were, in the way, by name."""
        those = self.refused.values() if self.always is None else (self.always,)
        return tuple(sorted((one for use in those for one in use.reached()), key=lambda one: one.name))
