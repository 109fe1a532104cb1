"""The ads of offline machines, which the collector keeps so that jobs can request a machine that sleeps.

Source: HTCondor's OfflineCollectorPlugin::update and Matchmaker::RegisterAttemptedOfflineMatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ..events import Ad, OfflineMatched
from ..names import SlotName

OFFLINE: Final = "Offline"
_INT_MAX: Final = str(2**31 - 1)
LAST_MATCH: Final = "MachineLastMatchTime"
RESET: Final[Mapping[str, str]] = {
    OFFLINE: "true", "State": '"Unclaimed"', "Activity": '"Idle"', "EnteredCurrentState": "0",
    "EnteredCurrentActivity": "0", "LoadAvg": "0.0", "CondorLoadAvg": "0.0", "TotalLoadAvg": "0.0",
    "TotalCondorLoadAvg": "0.0", "CpuIsBusy": "false", "CpuBusyTime": "0", "KeyboardIdle": _INT_MAX,
    "ConsoleIdle": _INT_MAX,
}  # fmt: skip
"""What replaces the values in the ad of a machine that goes offline, which might prevent a match later."""


class OfflineAd(Struct):
    """The ad of a slot of an offline machine."""

    machine: str
    ad: Ad
    until: int  #: when it is forgotten, in microseconds


def is_offline(ad: Mapping[str, str]) -> bool:
    return ad.get(OFFLINE, "").lower() == "true"


def match_changes(event: OfflineMatched) -> dict[str, Ad]:
    """Return the changes of the ads of a match's slot and of the machine's first slot, which has the times of all."""
    name, seconds = SlotName.parse(event.slot), str(event.at // 1_000_000)
    changes: dict[str, Ad] = {event.slot: {LAST_MATCH: seconds}}
    prefix = name.slot.rstrip("0123456789")
    if number := name.slot.removeprefix(prefix):
        changes.setdefault(f"{prefix}1@{name.machine}", {})[f"slot{number}_{LAST_MATCH}"] = seconds
    return changes
