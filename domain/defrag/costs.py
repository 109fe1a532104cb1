"""What drains have cost the pool: AvgDrainingBadput and AvgDrainingUnclaimed, parts of the time of its cores.

As the reference averages them (``Defrag::queryDrainingCost``): over the ads with SlotID 1 that tell of a cost, so that
a machine counts once more for each dynamic slot of its first slot, and one that no drain has cost anything not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..classad import ClassAd, Context
from ..startd.public_ad import PublishedSlots
from ..startd.slot_ad import unclaimed_in_drains
from ..state.caches import Caches
from ..state.state import Machine, State
from .candidates import SlotAd, number

BADPUT, UNCLAIMED = "AvgDrainingBadput", "AvgDrainingUnclaimed"
SECOND = 1_000_000


class Cost(NamedTuple):
    """What drains have cost a machine, by its slots' ads: core-seconds, since a startd that began so many seconds ago.
    ``cores``: its TotalCpus; ``ads``: how many ads tell it."""

    age: int
    badput: int
    unclaimed: int
    cores: int
    ads: int = 1


def draining_costs(state: State, caches: Caches, now: int, context: Context) -> dict[str, float]:
    """Return the averages at an instant, in microseconds."""
    slots = PublishedSlots(state, caches, now, context)
    drained = (machine for machine in state.machines.values() if machine.drains)
    return averages(cost for machine in drained if (cost := _cost(slots, machine, context)) is not None)


def _cost(slots: PublishedSlots, machine: Machine, context: Context) -> Cost | None:
    first = [slot for slot in machine.slots.values() if slot.ad.get("SlotID") == "1"]
    if not first:
        return None
    m = slots.snapshot(first[0])
    unclaimed = unclaimed_in_drains(m)
    if not (machine.badput or unclaimed):  # the ads do not tell of it
        return None
    ad = ClassAd({} if (cpus := slots.attribute(m, "totalcpus")) is None else {"TotalCpus": cpus})
    cores = number(SlotAd(m.slot.name, machine.name, ad), "TotalCpus", context)
    return Cost(slots.now // SECOND - machine.joined // SECOND, machine.badput, unclaimed, cores, len(first))


def averages(costs: Iterable[Cost]) -> dict[str, float]:
    """Return the averages over ads with SlotID 1 that tell of a cost."""
    badput = unclaimed = 0.0
    cores = 0
    for cost in costs:
        if cost.age > 0:
            badput += cost.badput / cost.age * cost.ads
            unclaimed += cost.unclaimed / cost.age * cost.ads
            cores += cost.cores * cost.ads
    return {BADPUT: badput / cores if cores else badput, UNCLAIMED: unclaimed / cores if cores else unclaimed}
