"""The settings of a startd, and the policy expressions in its slots' ads.

Defaults come from HTCondor 25 (``condor_config_val -dump``). A pool's own setting takes precedence over a default.
"""

from __future__ import annotations

import math
from typing import Final

from ..state.pool_settings import defaults
from ..state.records import Machine
from ..state.state import ExecutionPoint
from ..units import SECOND

BACKFILL_SYSTEMS: Final = {name: tuple(defaults(f"startd backfill {name}")) for name in ("BOINC", "EXEC")}
"""The backfill systems, each with its client's settings."""
SETTINGS: Final = {
    **defaults("startd"), **defaults("startd backfill BOINC"), **defaults("startd backfill EXEC")
}  # fmt: skip
"""The settings of a startd that are not in its slots' ads, with their defaults."""
EXPRESSIONS: Final = defaults("slot")
"""The policy expressions, by their name in a slot's ad, with their defaults."""

FREE_DISK: Final = "FreeDiskWhenJoined"
"""The attribute with the free space (KiB) on a slot's volume when its machine joined, which was divided then."""

PRIVATE: Final = frozenset(
    name.lower() for name in (*EXPRESSIONS, FREE_DISK) if name not in ("Start", "MaxJobRetirementTime", "CpuBusy")
)
"""The attributes that are not published, in lower case."""


def setting(state: ExecutionPoint, machine: Machine | None, name: str) -> str:
    """Return a setting of a machine: its own value, else the pool's, else the default."""
    if machine is not None and name in machine.settings:
        return machine.settings[name]
    return state.settings.get(name) or SETTINGS[name]


def duration(state: ExecutionPoint, machine: Machine | None, name: str) -> int:
    """Return a setting in seconds, converted to microseconds; the default if it is not a number. (Settings are checked
    when the configuration is read.)"""
    try:
        seconds = float(setting(state, machine, name))
    except ValueError:
        seconds = math.nan
    return round((seconds if math.isfinite(seconds) else float(SETTINGS[name])) * SECOND)
