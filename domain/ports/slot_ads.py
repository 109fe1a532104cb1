"""The slots' ads as their execution points publish them: what a negotiator, or the defragmentation, knows of a slot.

In one process the startd computes an attribute when it is asked for (``startd.public_ad``), so that an ad costs nothing
that nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Final, Protocol

from ..classad import ClassAd, Context, Expression, Moving
from ..state.caches import Caches
from ..state.records import Machine, Slot

EXPECTED: Final = frozenset(
    f"expectedmachine{how}draining{what}" for how in ("graceful", "quick") for what in ("badput", "completion")
)
"""What a drain of the slot's machine would cost, in small letters. These move by the clock while it has a job."""
TOTALLED: Final = (
    "Owner/Idle", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Matched/Idle", "Claimed/Idle", "Claimed/Busy",
    "Claimed/Suspended", "Claimed/Retiring", "Claimed/Cleaning", "Preempting/Vacating", "Preempting/Killing",
    "Backfill/Idle", "Backfill/Busy", "Backfill/Killing", "Drained/Idle", "Drained/Retiring",
)  # fmt: skip
"""The pairs of which a slot's ad tells the total time."""


def total_name(pair: str) -> str:
    """Return TotalTimeClaimedBusy for Claimed/Busy."""
    return f"TotalTime{pair.replace('/', '')}"


Snapshot = Any
"""One slot at one instant, as ``SlotAds.snapshot`` returns it and the other methods take it."""


class SlotCarver(Protocol):
    """Computes the resources that jobs take from a partitionable slot."""

    @property
    def consumes(self) -> bool:
        """Whether the slot has a consumption policy."""

    def amounts_for(self, job: ClassAd, left: Mapping[str, float]) -> dict[str, int] | None:
        """Return the amounts that a job takes, or None if not enough is ``left``."""


class SlotAds(Protocol):
    """The published ads at one instant. Attributes are asked for by their names in small letters."""

    live: Mapping[str, str]
    """The attributes that change from moment to moment, each with how it is written."""

    def snapshot(self, slot: Slot) -> Snapshot: ...
    def attribute(self, m: Snapshot, key: str) -> Expression | None:
        """Return an attribute; None: the slot has none of that name."""

    def ad(self, slot: Slot) -> ClassAd:
        """Return the whole ad."""

    def value(self, m: Snapshot, key: str) -> Any:
        """Return the value of one of the ``live`` attributes; None: the slot has none now."""

    def public(self, slot: Slot) -> Mapping[str, str]:
        """Return what was published of the slot's sensors."""

    def names(self, m: Snapshot) -> Set[str]:
        """Return how the attributes are written that the slot may have besides the ``live`` ones."""

    def is_published(self, name: str) -> bool:
        """Return True if an attribute of a slot's own ad is published."""

    def moving(self, m: Snapshot) -> dict[str, Moving]:
        """Return the attributes that move evenly by the clock."""

    def moves_by_itself(self, m: Snapshot) -> bool:
        """Return True if time alone, or a neighbour, may change what the slot says in other ways than ``moving``."""

    def is_free(self, slot: Slot) -> bool:
        """Return True if a claim may come to the slot, which nobody has."""

    def retires_for(self, slot: Slot) -> int:
        """Return the microseconds that are left of the retirement time of the slot's job; 0 without a job."""

    def unclaimed_in_drains(self, machine: Machine) -> int:
        """Return TotalMachineDrainingUnclaimedTime: the core-seconds that its slots spent in Drained."""

    def why_not_drained(self, machine: str) -> str:
        """Return why no drain of the machine can begin; empty: one can."""

    def why_not_canceled(self, machine: str) -> str:
        """Return why the machine's drain cannot be canceled; empty: it can, or there is none."""

    # Partitionable slots

    def is_rollup_attribute(self, key: str) -> bool:
        """Return True if an attribute may summarize dynamic slots."""

    def has_rollup(self, slot: Slot) -> bool:
        """Return True if a slot's ad has, or contributes to, a summary of dynamic slots."""

    def remaining_resources(self, slot: Slot) -> dict[str, float]:
        """Return the remaining amount of each resource of a slot."""

    def slot_carver(self, slot: Slot) -> SlotCarver:
        """Return the carver of a partitionable slot."""


Advertise = Callable[[Any, Caches, int, Context], SlotAds]
"""Gives the ads of a state's slots at an instant, in microseconds."""
