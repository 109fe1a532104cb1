"""Partitionable slots in one cycle: what is left of them, and what they look like then."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from ..classad import ClassAd, Context, EvaluationError
from ..ports.slot_ads import Cutter
from ..state.state import Manager, Slot
from .slot_table import PublicAds


@define
class Remainder:
    """A partitionable slot, and what is left of its resources. ``version`` counts the cuts of this cycle; ``ad`` is its
    published ad with what is left."""

    slot: Slot
    cutter: Cutter
    left: dict[str, float]
    ad: ClassAd
    version: int = 0

    def take(self, amounts: Mapping[str, int]) -> None:
        for name, amount in amounts.items():
            self.left[name] -= amount
            self.ad[name] = int(self.left[name])
        self.version += 1


@define
class Remainders:
    """The partitionable slots that a cycle has looked at."""

    state: Manager
    pool: PublicAds
    context: Context
    once: bool = False
    """Whether a slot without a consumption policy is matched once, as a whole: the reference leaves it to the access
    point to cut the rest."""
    rests: dict[int, Remainder] = field(factory=dict)

    def of(self, place: int) -> Remainder:
        found = self.rests.get(place)
        if found is None:
            slot = self.state.slots[self.pool.names[place]]
            ads = self.pool.ads
            found = self.rests[place] = Remainder(slot, ads.cutter(slot), ads.left_of(slot), self.pool.table.ad(place))
        return found

    def version(self, place: int) -> int:
        """How often a slot has been cut in this cycle."""
        found = self.rests.get(place)
        return 0 if found is None else found.version

    def goes_on(self, rest: Remainder) -> bool:
        """Whether a slot that was cut may be matched again in this cycle."""
        return rest.cutter.consumes or not self.once

    def cores(self, rest: Remainder, amounts: Mapping[str, int], weighted: bool) -> float:
        """What a part counts for: its SlotWeight, which is Cpus unless configured. Under a consumption policy it is by
        how much less the slot weighs without it, even where slot weights are not used (the reference's match cost)."""
        consumes = rest.cutter.consumes
        if self.once and weighted and not consumes:
            return self._weight({}, rest) if "SlotWeight" in rest.ad else float(rest.left.get("Cpus", 1))
        if not weighted and not consumes:
            return 1.0
        if "SlotWeight" not in rest.ad:
            return float(amounts.get("Cpus", 1))
        if not consumes:
            return self._weight({name: int(amount) for name, amount in amounts.items()}, rest)
        left = {name: int(rest.left[name] - amount) for name, amount in amounts.items()}
        return round((self._weight({}, rest) - self._weight(left, rest)) * 1000) / 1000

    def _weight(self, amounts: Mapping[str, int], rest: Remainder) -> float:
        """The SlotWeight of a slot with these amounts of its resources."""
        try:
            value = ClassAd(amounts, rest.ad).eval("SlotWeight", None, self.context)
        except EvaluationError:
            return 1.0
        fit = isinstance(value, int | float) and 0 <= value < 1e300
        return round(value * 1000) / 1000 if fit else 1.0
