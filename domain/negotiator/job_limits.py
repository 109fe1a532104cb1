"""The concurrency limits that the jobs of one autocluster use in a cycle, and whether enough units are left.

A cycle never returns units to a limit, so it rejects a job for the rest of the cycle once a limit stopped it.
"""

from __future__ import annotations

from math import inf

from attrs import define, field

from ..concurrency_limits import Amount, to_units
from ..events import ReachedLimit

CONCURRENCY = "concurrency"
"""The reason for jobs that a concurrency limit stopped."""
_PARTS = 16
"""A use reserves a sixteenth of the units left, so that many uses can reserve units of the same limit."""


@define(eq=False)
class ConcurrencyLimit:
    """A concurrency limit, with its maximum and the number of units left, which may be negative."""

    name: str
    most: Amount
    units_left: Amount

    def as_reached_limit(self, amount: Amount) -> ReachedLimit:
        return ReachedLimit(self.name, to_units(self.most - self.units_left), to_units(self.most), to_units(amount))


@define(eq=False)
class ConcurrencyUse:
    """The units of each finite limit that a ConcurrencyLimits text uses, for jobs that use the same on all slots.

    Units are reserved for many jobs at once, so that a match only counts down. If they do not suffice for another use,
    all units that no match has taken are returned, and the limits are checked exactly.
    """

    text: str  #: the evaluated text
    units: tuple[tuple[ConcurrencyLimit, Amount], ...]
    reserving: dict[str, ConcurrencyUse]  #: the cycle's uses that may have reserved units, by text
    reserved: Amount = field(init=False)  #: for how many more jobs units are reserved
    gone: bool = False  #: whether the limits are exhausted

    def __attrs_post_init__(self) -> None:
        self.reserved = 0 if self.units else inf

    def has_room(self) -> bool:
        """Check whether enough units of each limit are left for one more job."""
        return self.reserved >= 1 or self._reserve()

    def allows(self, row: int) -> bool:
        """Return True: ``has_room`` was checked, and the use is the same on all slots."""
        return True

    def take_units(self, row: int) -> str:
        """Take the units for one job, and return their text; enough units must be left."""
        if self.reserved < 1:
            self._reserve()
        self.reserved -= 1
        return self.text

    def stopping_limits(self) -> tuple[ReachedLimit, ...]:
        """Return the limits with too few units left, sorted by name."""
        self._return_reserved()
        reached = [limit.as_reached_limit(units) for limit, units in self.units if limit.units_left < units]
        return tuple(sorted(reached, key=lambda limit: limit.name))

    def _reserve(self) -> bool:
        """Reserve units for a part of the jobs that the limits allow, because other uses may need the same limits.
        Return False if the limits allow no job."""
        if not self.gone and not self._suffices():
            self._return_reserved()
            self.gone = not self._suffices()
        if self.gone:
            return False
        self.reserved = max(1, min(limit.units_left // units for limit, units in self.units) // _PARTS)
        for limit, units in self.units:
            limit.units_left -= units * self.reserved
        self.reserving[self.text] = self
        return True

    def _suffices(self) -> bool:
        return all(limit.units_left >= units for limit, units in self.units)

    def _return_reserved(self) -> None:
        for use in self.reserving.values():
            for limit, units in use.units:
                limit.units_left += units * use.reserved
            use.reserved = 0
        self.reserving.clear()


@define(eq=False)
class SlotLimits:
    """The concurrency limits of jobs for which they depend on the slot."""

    uses: list[ConcurrencyUse | None]  #: by the slot's row; None: no limits
    refused: dict[str, ConcurrencyUse] = field(factory=dict)  #: the uses rejected for some slot, by text

    def has_room(self) -> bool:
        """Return True: whether the limits allow a job depends on the slot."""
        return True

    def allows(self, row: int) -> bool:
        """Check whether the limits allow a job on the slot in this row. A rejection holds for the whole cycle."""
        use = self.uses[row]
        if use is None or use.has_room():
            return True
        self.refused[use.text] = use
        return False

    def take_units(self, row: int) -> str:
        """Take the units for a job on the slot in this row, and return their text."""
        use = self.uses[row]
        return "" if use is None else use.take_units(row)

    def stopping_limits(self) -> tuple[ReachedLimit, ...]:
        """Return the limits that stopped the jobs, sorted by name."""
        reached = (limit for use in self.refused.values() for limit in use.stopping_limits())
        return tuple(sorted(reached, key=lambda limit: limit.name))


JobLimits = ConcurrencyUse | SlotLimits
"""The concurrency limits that an autocluster's jobs use."""
