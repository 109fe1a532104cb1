"""Partitionable slots in one cycle: what is left of them, and what they look like then."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from ..classad import ClassAd, Context, EvaluationError
from ..startd.slot_ad import compiled_ad
from ..startd.slot_resources import Cutter, cutter, left_of
from ..state.caches import Caches
from ..state.state import Slot, State
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

    state: State
    pool: PublicAds
    context: Context
    caches: Caches
    rests: dict[int, Remainder] = field(factory=dict)

    def of(self, place: int) -> Remainder:
        found = self.rests.get(place)
        if found is None:
            slot = self.state.slots[self.pool.names[place]]
            machine = self.state.machines.get(slot.machine)
            own = cutter(self.state, machine, slot, compiled_ad(self.state, slot, self.caches).ad, self.context)
            found = self.rests[place] = Remainder(slot, own, left_of(slot.ad), self.pool.table.ad(place))
        return found

    def version(self, place: int) -> int:
        """How often a slot has been cut in this cycle."""
        found = self.rests.get(place)
        return 0 if found is None else found.version

    def cores(self, rest: Remainder, amounts: Mapping[str, int], weighted: bool) -> float:
        """What a part counts for: its SlotWeight, which is Cpus unless configured."""
        if not weighted:
            return 1.0
        if "SlotWeight" not in rest.ad:
            return float(amounts.get("Cpus", 1))
        part = ClassAd({name: int(amount) for name, amount in amounts.items()}, rest.ad)
        try:
            value = part.eval("SlotWeight", None, self.context)
        except EvaluationError:
            return 1.0
        fit = isinstance(value, int | float) and 0 <= value < 1e300
        return round(value * 1000) / 1000 if fit else 1.0
