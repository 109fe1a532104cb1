"""Slot ads as execution points publish them to the negotiator and to condor_defrag.

Within one process, the startd computes an attribute only when it is read (``startd.public_ad``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, Final, Protocol

from ..classad import ClassAd, Context, Expression, Moving
from ..state.caches import Caches
from ..state.records import Machine, Slot

EXPECTED: Final = frozenset(
    f"expectedmachine{how}draining{cost}" for how in ("graceful", "quick") for cost in ("badput", "completion")
)
"""The expected costs of draining the slot's machine, in lower case. They change with time while the machine has a
job."""
PAIRS_WITH_TOTAL: Final = (
    "Owner/Idle", "Unclaimed/Idle", "Unclaimed/Benchmarking", "Matched/Idle", "Claimed/Idle", "Claimed/Busy",
    "Claimed/Suspended", "Claimed/Retiring", "Claimed/Cleaning", "Preempting/Vacating", "Preempting/Killing",
    "Backfill/Idle", "Backfill/Busy", "Backfill/Killing", "Drained/Idle", "Drained/Retiring",
)  # fmt: skip
"""The states/activities whose total time is in a slot's ad."""


def total_name(pair: str) -> str:
    """Return the attribute name for a pair's total time, for example TotalTimeClaimedBusy for Claimed/Busy."""
    return f"TotalTime{pair.replace('/', '')}"


Snapshot = Any
"""A slot at a given time, as returned by ``SlotAds.snapshot`` and passed to the other methods."""


class SlotCarver(Protocol):
    """Computes the resources that jobs take from a partitionable slot."""

    @property
    def has_consumption_policy(self) -> bool:
        """Return True if the slot has a consumption policy."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the resources that are devices."""

    def amounts_for(self, job: ClassAd, left: Mapping[str, float]) -> dict[str, int] | None:
        """Return the amounts that a job takes, or None if not enough is ``left``."""

    def devices_left(self, job: ClassAd, ad: ClassAd, amounts: Mapping[str, int]) -> dict[str, Expression] | None:
        """Return the attributes of a slot's ad that list its available devices, without the devices of a job, or None
        if too few of them are suitable."""


class SlotAds(Protocol):
    """The published ads at a given time. Keys are lower-case attribute names."""

    live: Mapping[str, str]
    """The attributes that change with time, each with its spelling."""

    def snapshot(self, slot: Slot) -> Snapshot: ...
    def attribute(self, snapshot: Snapshot, key: str) -> Expression | None:
        """Return an attribute, or None if the slot lacks it."""

    def ad(self, slot: Slot) -> ClassAd:
        """Return the complete ad."""

    def value(self, snapshot: Snapshot, key: str) -> Any:
        """Return the value of a ``live`` attribute, or None if the slot does not have that attribute now."""

    def published_ad(self, slot: Slot) -> Mapping[str, str]:
        """Return the published attributes of the slot's sensors."""

    def names(self, snapshot: Snapshot) -> Set[str]:
        """Return the spellings of the attributes that the slot may have, except the ``live`` ones."""

    def is_published(self, name: str) -> bool:
        """Return True if an attribute of a slot's own ad is published."""

    def moving(self, snapshot: Snapshot) -> dict[str, Moving]:
        """Return the attributes that are linear functions of time, as functions of time."""

    def changes_over_time(self, snapshot: Snapshot) -> bool:
        """Return True if time or other slots may change the ad in ways that ``moving`` does not cover."""

    def is_free(self, slot: Slot) -> bool:
        """Return True if the slot is unclaimed and can be claimed."""

    def remaining_retirement(self, slot: Slot) -> int:
        """Return the remaining retirement time of the slot's job, in microseconds, or 0 without a job."""

    def unclaimed_in_drains(self, machine: Machine) -> int:
        """Return TotalMachineDrainingUnclaimedTime: how many core-seconds the machine's slots spent in Drained."""

    def why_not_drained(self, machine: str) -> str:
        """Return why the machine cannot be drained, or an empty string if it can."""

    def why_not_canceled(self, machine: str) -> str:
        """Return why the machine's drain cannot be canceled, or an empty string if it can, or there is none."""

    # Partitionable slots

    def is_rollup_attribute(self, key: str) -> bool:
        """Return True if an attribute may summarize dynamic slots."""

    def has_rollup(self, slot: Slot) -> bool:
        """Return True if a slot's ad contains, or contributes to, a summary of dynamic slots."""

    def remaining_resources(self, slot: Slot) -> dict[str, float]:
        """Return the remaining amount of each resource of a slot."""

    def slot_carver(self, slot: Slot) -> SlotCarver:
        """Return the carver of a partitionable slot."""


Advertise = Callable[[Any, Caches, int, Context], SlotAds]
"""A function that returns the ads of a state's slots at the given time, in microseconds."""
