"""The concurrency limits that the jobs of one autocluster use in a cycle, and whether enough units are left.

A cycle never returns units to a limit, so it rejects a job for the rest of the cycle once a limit stopped it.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct, field

from ..concurrency_limits import Amount, to_units
from ..events import ReachedLimit

CONCURRENCY = "concurrency"
"""The reason for jobs that a concurrency limit stopped."""


class ConcurrencyLimit(Struct):
    """A concurrency limit, with its maximum and the number of units left, which may be negative."""

    name: str
    most: Amount
    units_left: Amount

    def as_reached_limit(self, amount: Amount) -> ReachedLimit:
        return ReachedLimit(self.name, to_units(self.most - self.units_left), to_units(self.most), to_units(amount))


class LatestUse(Struct):
    """The use that was requested last. Its units are subtracted once for all consecutive jobs with this use."""

    use: ConcurrencyUse | None = None

    def subtract_taken(self) -> None:
        """Subtract the units that were taken."""
        last, self.use = self.use, None
        if last is not None and last.owed:
            for limit, units in last.units:
                limit.units_left -= units * last.owed
            last.owed = 0


class ConcurrencyUse(Struct):
    """The units of each finite limit that a ConcurrencyLimits text uses, and whether the limits are exhausted."""

    text: str  #: the evaluated text
    units: tuple[tuple[ConcurrencyLimit, Amount], ...]
    latest: LatestUse
    gone: bool = False
    room: Amount = 0  #: for the latest use: how many more jobs the limits allow
    owed: int = 0  #: the number of jobs whose units are not subtracted yet

    def has_room(self) -> bool:
        """Check whether enough units of each limit are left for one more job."""
        if self.latest.use is not self and not self.gone:
            self.latest.subtract_taken()
            self.latest.use = self
            self.room = min([limit.units_left // units for limit, units in self.units], default=inf)
        self.gone = self.gone or self.room < 1
        return not self.gone

    def take_units(self) -> None:
        """Take the units for one job; enough units must be left."""
        if self.latest.use is not self:
            self.has_room()
        self.room -= 1
        self.owed += 1

    def exhausted_limits(self) -> list[ReachedLimit]:
        """Return the limits with too few units left."""
        self.latest.subtract_taken()
        return [limit.as_reached_limit(units) for limit, units in self.units if limit.units_left < units]


class JobLimits(Struct):
    """The concurrency limits that an autocluster's jobs use: ``always`` the same ones, or, if the limits depend on
    the slot, ``uses[use_indexes[row]]`` for the slot in that row (index -1: no limits)."""

    always: ConcurrencyUse | None = None
    uses: list[ConcurrencyUse] = field(default_factory=list)
    use_indexes: list[int] = field(default_factory=list)
    refused: dict[str, ConcurrencyUse] = field(default_factory=dict)  #: the uses rejected for some slot, by text

    def has_room(self) -> bool:
        """Check whether the limits that are the same on all slots allow one more job."""
        return self.always is None or self.always.has_room()

    def allows(self, row: int) -> bool:
        """Check whether the limits allow a job on the slot in this row. A rejection holds for the whole cycle."""
        if self.always is not None:
            return True
        use_index = self.use_indexes[row]
        if use_index < 0:
            return True
        use = self.uses[use_index]
        if use.has_room():
            return True
        self.refused[use.text] = use
        return False

    def take_units(self, row: int) -> str:
        """Take the units for a job on the slot in this row, and return their text."""
        use = self.always
        if use is None:
            if self.use_indexes[row] < 0:
                return ""
            use = self.uses[self.use_indexes[row]]
        use.take_units()
        return use.text

    def stopping_limits(self) -> tuple[ReachedLimit, ...]:
        """Return the limits that stopped the jobs, sorted by name."""
        uses = self.refused.values() if self.always is None else (self.always,)
        return tuple(sorted((limit for use in uses for limit in use.exhausted_limits()), key=lambda limit: limit.name))
