"""The settings of a startd, and the policy expressions of its slots' ads.

Defaults are HTCondor 25's (``condor_config_val -dump``), except that a time which the pool has as a setting is taken
from there.
"""

from __future__ import annotations

import math
from typing import Final

from ..state.state import Machine, State

BACKFILL_SYSTEMS: Final[dict[str, tuple[str, ...]]] = {
    "BOINC": ("BOINC_Executable", "BOINC_InitialDir", "BOINC_Universe", "BOINC_Owner", "BOINC_Arguments",
              "BOINC_Environment", "BOINC_Output", "BOINC_Error"),
    "EXEC": ("EXEC_Executable", "EXEC_InitialDir", "EXEC_Universe", "EXEC_Owner", "EXEC_Arguments",
             "EXEC_Environment", "EXEC_Output", "EXEC_Error"),
}  # fmt: skip
"""The backfill systems, each with the settings that say how its client is run."""

SETTINGS: Final[dict[str, str]] = {
    "POLLING_INTERVAL": "5",
    "UPDATE_INTERVAL": "300",
    "MATCH_TIMEOUT": "120",
    "KILLING_TIMEOUT": "30",
    "ALIVE_INTERVAL": "300",
    "MAX_CLAIM_ALIVES_MISSED": "6",
    "MAX_DRAINING_ACTIVATION_DELAY": "20",
    "DEFAULT_DRAINING_START_EXPR": "",
    "STARTD_SLOT_ATTRS": "",
    "STARTD_LATCH_EXPRS": "",
    "SLOTS_CONNECTED_TO_KEYBOARD": "",
    "SLOTS_CONNECTED_TO_CONSOLE": "",
    "DISCONNECTED_KEYBOARD_IDLE_BOOST": "1200",
    "MODIFY_REQUEST_EXPR_REQUESTCPUS": "quantize(RequestCpus,{1})",
    "MODIFY_REQUEST_EXPR_REQUESTMEMORY": "quantize(RequestMemory,{128})",
    "MODIFY_REQUEST_EXPR_REQUESTDISK": "quantize(RequestDisk,{1024})",
    "MUST_MODIFY_REQUEST_EXPRS": "false",
    "ADVERTISE_PSLOT_ROLLUP_INFORMATION": "true",
    "STARTD_PARTITIONABLE_SLOT_ATTRS": "",
    "ENABLE_BACKFILL": "false",
    "BACKFILL_SYSTEM": "",
    **{name: "" for names in BACKFILL_SYSTEMS.values() for name in names},
}
"""The settings of a startd that stand in no ad, with their defaults; times are seconds. SLOTS_CONNECTED_TO_* empty: all
slots."""

EXPRESSIONS: Final[dict[str, str]] = {
    "Start": "true",
    "IS_OWNER": "false",
    "RUNBENCHMARKS": "false",
    "WANT_SUSPEND": "false",
    "SUSPEND": "false",
    "CONTINUE": "true",
    "PREEMPT": "false",
    "WANT_VACATE": "true",
    "WANT_HOLD": "false",
    "WANT_HOLD_REASON": "undefined",
    "WANT_HOLD_SUBCODE": "undefined",
    "KILL": "false",
    "MaxJobRetirementTime": "0",
    "CpuBusy": "false",
    "START_BACKFILL": "false",
    "EVICT_BACKFILL": "false",
}
"""The policy expressions by their names in a slot's ad, with their defaults. Each but the first three, CpuBusy and
those of backfill may have a variant for the vanilla universe, with the suffix _VANILLA."""

FREE_DISK: Final = "FreeDiskWhenJoined"
"""The free space (KiB) on a slot's volume when its machine joined, which was divided then."""

PRIVATE: Final = frozenset(
    name.lower() for name in (*EXPRESSIONS, FREE_DISK) if name not in ("Start", "MaxJobRetirementTime", "CpuBusy")
)
"""The attributes that the startd keeps to itself, and others that stand in no published ad."""

MICROSECONDS: Final = 1_000_000


def setting(state: State, machine: Machine | None, name: str) -> str:
    """Return a setting of a startd: its own, else the pool's, else the default."""
    if machine is not None and name in machine.settings:
        return machine.settings[name]
    return state.settings.get(name) or SETTINGS[name]


def duration(state: State, machine: Machine | None, name: str) -> int:
    """Return a setting in seconds as microseconds. A text that is no number counts as the default: the configuration is
    checked when it is read."""
    try:
        seconds = float(setting(state, machine, name))
    except ValueError:
        seconds = math.nan
    return round((seconds if math.isfinite(seconds) else float(SETTINGS[name])) * MICROSECONDS)
