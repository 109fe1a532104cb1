"""How much of the machine a job's processes may use, as the reference's starter lets them: as large a stack and as
large core files as the job says; else, and of CPU time, data and files, as much as the supervisor's hard limits allow.

Source: sysapi_set_resource_limits (resource_limits.cpp) and OsProc::StartJob of the reference.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator
from typing import Any

_UNBOUNDED = (resource.RLIMIT_STACK, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA)
_core: int | None = None  #: the size of core files that was asked for last


def take(order: dict[str, Any]) -> None:
    """Give this process, which becomes the job's, its limits."""
    for which in _UNBOUNDED:
        _soften(which, 0)
    core = order.get("core_bytes", 0)
    resource.setrlimit(resource.RLIMIT_CORE, (core, core) if core >= 0 else (resource.RLIM_INFINITY,) * 2)
    _soften(resource.RLIMIT_STACK, order.get("stack_bytes", 0))


@contextlib.contextmanager
def of_children(order: dict[str, Any]) -> Iterator[None]:
    """Let the processes that are made meanwhile have the job's limits, which children inherit. What this process itself
    may use follows; it is asked for only where it changes. A stack that the job wants smaller is given back at once."""
    global _core
    if _core is None:
        for which in _UNBOUNDED:
            _soften(which, 0)
    core, stack = order.get("core_bytes", 0), order.get("stack_bytes", 0)
    if core != _core:
        _soften(resource.RLIMIT_CORE, core, bounded=True)
        _core = core
    if stack <= 0:
        yield
        return
    _soften(resource.RLIMIT_STACK, stack)
    try:
        yield
    finally:
        _soften(resource.RLIMIT_STACK, 0)


def _soften(which: int, wanted: int, bounded: bool = False) -> None:
    """Set a soft limit, at most to the hard one; 0, unless it is ``bounded``, and below: to that."""
    soft, hard = resource.getrlimit(which)
    unlimited = wanted < 0 or (wanted == 0 and not bounded)
    most = hard if unlimited or (hard != resource.RLIM_INFINITY and wanted > hard) else wanted
    if most != soft:
        resource.setrlimit(which, (most, hard))
