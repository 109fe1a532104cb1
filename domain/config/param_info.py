"""Additions to the table of defaults: which settings are expressions, have a range, or are predefined.

Source: the manual's pages "Policy Configuration for Execution Points" and "Configuration Macros".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

# Policy expressions: their values must parse as expressions.
EXPRESSIONS = frozenset({
    "start", "suspend", "continue", "preempt", "kill", "want_suspend", "want_vacate", "want_hold", "want_hold_reason",
    "want_hold_subcode", "is_owner", "isowner", "cpubusy", "cpu_busy", "claim_worklife", "default_draining_start_expr",
    "rank", "maxjobretirementtime", "machinemaxvacatetime", "start_backfill", "evict_backfill", "slot_weight",
    "slotweight", "runbenchmarks", "periodic_checkpoint", "preemption_requirements", "preemption_rank",
    "negotiator_pre_job_rank", "negotiator_post_job_rank", "withinresourcelimits", "startd_ad_reeval_expr",
    "defrag_requirements", "defrag_draining_start_expr", "defrag_rank", "defrag_whole_machine_expr",
    "defrag_cancel_requirements",
})  # fmt: skip
_RESOURCE_EXPRESSION_PREFIXES = ("consumption_", "modify_request_expr_")

# Detected values override the configured values of these settings.
PREDEFINED = frozenset({
    "TILDE", "HOSTNAME", "FULL_HOSTNAME", "SUBSYSTEM", "LOCALNAME", "USERNAME", "REAL_UID", "REAL_GID", "PID", "PPID",
    "IP_ADDRESS", "IP_ADDRESS_IS_IPV6", "IPV4_ADDRESS", "IPV6_ADDRESS", "DETECTED_CPUS",
})  # fmt: skip

# The minimum and maximum of settings, by upper-case name; values out of range are rejected.
RANGES: Mapping[str, tuple[float | None, float | None]] = MappingProxyType(
    {
        "DEFRAG_DRAINING_MACHINES_PER_HOUR": (0, None),
        "DEFRAG_MAX_CONCURRENT_DRAINING": (-1, None),
        "DEFRAG_MAX_WHOLE_MACHINES": (-1, None),
        "GROUP_QUOTA_MAX_ALLOCATION_ROUNDS": (1, 1_000_000_000),
        "GROUP_QUOTA_ROUND_ROBIN_RATE": (1.0, 1.0e100),
        "JOB_START_COUNT": (1, None),
        "KILLING_TIMEOUT": (0, None),
        "MAX_CONCURRENT_DOWNLOADS": (0, None),
        "MAX_CONCURRENT_UPLOADS": (0, None),
        "NEGOTIATION_CYCLE_STATS_LENGTH": (0, 100),
        "NEGOTIATOR_RESOURCE_REQUEST_LIST_SIZE": (1, None),
        "NEGOTIATOR_SOCKET_CACHE_SIZE": (1, None),
        "PERIODIC_EXPR_TIMESLICE": (0.0, 1.0),
        "POLLING_INTERVAL": (1, None),
        "PRIORITY_HALFLIFE": (0.00001, None),
        "STATISTICS_WINDOW_QUANTUM": (1, 1_000_000_000),
        "STATISTICS_WINDOW_SECONDS": (1, 1_000_000_000),
        "UPDATE_INTERVAL": (1, None),
    }
)

_PREFIX = re.compile(r"(?:[a-z]+\.)?(?:slot[0-9]+_|slot_type_[0-9]+_)?(.+)", re.IGNORECASE | re.DOTALL)


def without_prefix(name: str) -> str:
    """Return a name without ``STARTD.``, ``SLOT1_`` or ``SLOT_TYPE_1_``."""
    match = _PREFIX.fullmatch(name)
    return name if match is None else match[1]


def is_expression(name: str) -> bool:
    """Check whether a setting is a policy expression, also for one slot, slot type, or the vanilla universe."""
    bare = without_prefix(name).lower()
    return bare.removesuffix("_vanilla") in EXPRESSIONS or bare.startswith(_RESOURCE_EXPRESSION_PREFIXES)
