"""Golden: how much of the machine a job's processes may use, as measured in HTCondor's jobs (tests/data/beside:
stack-size, stack-default, core-size)."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from poolbook.adapters.machine.execution.supervisor import launch

from ..together import together

SAID = ["sh", "-c", "ulimit -Ss; ulimit -Sc"]
INFINITE = resource.RLIM_INFINITY


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Limit this process's stack like a shell's, and restore its own limits at the end."""
    kinds = (resource.RLIMIT_STACK, resource.RLIMIT_CORE, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)
    before = {kind: resource.getrlimit(kind) for kind in kinds}
    monkeypatch.setattr(launch, "_core", None)
    resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, before[resource.RLIMIT_STACK][1]))
    yield
    for kind, (soft, hard) in before.items():
        resource.setrlimit(kind, (soft, hard))


def hard_stack() -> str:
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    return "unlimited" if hard == INFINITE else str(hard // 1024)


@together(
    ("order", "stack", "core"),
    [
        ({}, "", "0"),
        ({"stack_bytes": 1 << 20}, "1024", "0"),
        ({"stack_bytes": -1}, "", "0"),
        ({"core_bytes": 4096}, "", "8"),
        ({"stack_bytes": 64 << 20, "core_bytes": 512}, "65536", "1"),
    ],
)
def test_a_child_has_the_stack_and_core_size_that_the_job_requests(
    order: dict[str, Any], stack: str, core: str
) -> None:
    with launch.limits_of_children(order):
        limits = subprocess.run(SAID, capture_output=True, text=True, check=True).stdout.split()
    assert limits == [stack or hard_stack(), core]


def test_a_small_stack_applies_only_to_the_job() -> None:
    with launch.limits_of_children({"stack_bytes": 1 << 20}):
        pass
    assert resource.getrlimit(resource.RLIMIT_STACK)[0] == resource.getrlimit(resource.RLIMIT_STACK)[1]
