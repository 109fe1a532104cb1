"""The concurrency limits that jobs of one kind use in a cycle, and whether enough is left of each.

A cycle never returns units to a limit, so a job that was rejected stays rejected for the rest of the cycle.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from ..concurrency_limits import Amount, in_units
from ..events import ReachedLimit

CONCURRENCY = "concurrency"
"""The reason for jobs that a concurrency limit stopped."""


class Limit(Struct):
    """A limit: its maximum, and the units left, which may be negative."""

    name: str
    most: Amount
    left: Amount

    def reached(self, amount: Amount) -> ReachedLimit:
        return ReachedLimit(self.name, in_units(self.most - self.left), in_units(self.most), in_units(amount))


class Latest(Struct):
    """The latest use. Consecutive jobs usually use the same limits, which are then subtracted once for all these
    jobs."""

    wanted: ConcurrencyUse | None = None

    def settle(self) -> None:
        """Subtract the units that were taken."""
        last, self.wanted = self.wanted, None
        if last is not None and last.owed:
            for limit, units in last.units:
                limit.left -= units * last.owed
            last.owed = 0


class ConcurrencyUse(Struct):
    """The units of each finite limit that a ConcurrencyLimits text takes, and whether the limits are exhausted."""

    text: str  #: the evaluated text
    units: tuple[tuple[Limit, Amount], ...]
    latest: Latest
    gone: bool = False
    room: Amount = 0  #: for the latest use: how many more jobs the limits allow
    owed: int = 0  #: the number of jobs whose units are not subtracted yet

    def fits(self) -> bool:
        """Check whether enough units of each limit are left."""
        if self.latest.wanted is not self and not self.gone:
            self.latest.settle()
            self.latest.wanted = self
            self.room = min([limit.left // units for limit, units in self.units], default=inf)
        self.gone = self.gone or self.room < 1
        return not self.gone

    def take(self) -> None:
        """Take the units for one job; enough units must be left."""
        if self.latest.wanted is not self:
            self.fits()
        self.room -= 1
        self.owed += 1

    def reached(self) -> list[ReachedLimit]:
        """Return the limits with too few units left."""
        self.latest.settle()
        return [limit.reached(units) for limit, units in self.units if limit.left < units]


class JobLimits(Struct):
    """The use by jobs of one kind: ``always`` the same, or per slot the use at its index in ``kinds`` (-1: none)."""

    always: ConcurrencyUse | None = None
    wanted: list[ConcurrencyUse] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    refused: dict[str, ConcurrencyUse] = field(default_factory=dict)  #: the uses rejected for some slot, by text

    def fits(self) -> bool:
        """Check whether the limits that apply to all slots alike allow the jobs to use any slot."""
        return self.always is None or self.always.fits()

    def allows(self, place: int) -> bool:
        """Check whether the limits allow the jobs to use the slot at this index. A rejection holds for the whole
        cycle."""
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
        """Take the units for a job on the slot at this index, and return their text."""
        use = self.always
        if use is None:
            if self.kinds[place] < 0:
                return ""
            use = self.wanted[self.kinds[place]]
        use.take()
        return use.text

    def reached(self) -> tuple[ReachedLimit, ...]:
        """Return the limits that stopped the jobs, sorted by name."""
        uses = self.refused.values() if self.always is None else (self.always,)
        return tuple(sorted((limit for use in uses for limit in use.reached()), key=lambda limit: limit.name))
