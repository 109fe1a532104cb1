"""Golden: which limits a job has by CGROUP_MEMORY_LIMIT_POLICY and STARTD_ENFORCE_DISK_LIMITS."""

from __future__ import annotations

import pytest

from poolbook.adapters.machine.execution.activation import ResourceLimits
from poolbook.adapters.machine.limit_policy import LimitPolicy
from poolbook.adapters.runtime.configuration import load
from poolbook.domain.config.config_errors import ConfigError

from ..together import together

STATIC, DYNAMIC = {"Memory": "1000", "Disk": "2000"}, {"Memory": "1000", "Disk": "2000", "DynamicSlot": "true"}
CUSTOM = "CGROUP_MEMORY_LIMIT_POLICY = custom\nCGROUP_HARD_MEMORY_LIMIT_EXPR = "


@together(
    ("text", "slot", "limits"),
    [
        ("", STATIC, (None, None)),
        ("", DYNAMIC, (1000, 2000)),
        ("CGROUP_MEMORY_LIMIT_POLICY = hard", STATIC, (None, None)),
        ("CGROUP_MEMORY_LIMIT_POLICY = none", DYNAMIC, (None, 2000)),
        ("CGROUP_MEMORY_LIMIT_POLICY = soft", DYNAMIC, (None, 2000)),
        (f"{CUSTOM}2 * MY.Memory + TARGET.RequestMemory", STATIC, (2010, None)),
        (f"{CUSTOM}Nothing", DYNAMIC, (None, 2000)),
        (f"{CUSTOM}-1", DYNAMIC, (None, 2000)),
        ("STARTD_ENFORCE_DISK_LIMITS = true", STATIC, (None, 2000)),
        ("STARTD_ENFORCE_DISK_LIMITS = false", DYNAMIC, (1000, 2000)),
    ],
)
def test_the_settings_decide_what_a_job_may_not_exceed(
    text: str, slot: dict[str, str], limits: tuple[int | None, int | None]
) -> None:
    policy = LimitPolicy.from_configuration(load(text=f"{text}\n", environment={}))
    memory, disk = limits
    assert policy.limits(slot, {"RequestMemory": "10"}, 1000, 2000) == ResourceLimits(memory_mb=memory, disk_kb=disk)


def test_an_unknown_policy_is_an_error_and_does_not_remove_the_limits() -> None:
    with pytest.raises(ConfigError, match="CGROUP_MEMORY_LIMIT_POLICY: hrad is unknown; use hard, soft, custom, none"):
        LimitPolicy.from_configuration(load(text="CGROUP_MEMORY_LIMIT_POLICY = hrad\n", environment={}))
