"""Estimate the cost and the completion time of a drain that starts now (ExpectedMachine*Draining*).

Badput, in core-seconds, is the run time of the machine's jobs plus the time that the drain would still grant them. A
quick drain grants them their time to vacate; a graceful drain grants the remainder of their retirement time if that is
longer. The drain completes when the last job has ended. Without jobs, the completion time is when the last job ended,
or when the machine joined. HTCondor (``ResMgr::compute_draining_attrs``) updates the estimates only at policy
evaluations, but here they are computed for the current time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..state.records import Machine, Slot
from ..units import SECOND
from .time_limits import LimitPolicy, granted_retirement, vacate_time_within

MAX_ESTIMATE: Final = 2**31 - 1
"""The upper limit of all estimates."""


class DrainEstimates(NamedTuple):
    """Badput is in core-seconds, completion times are in seconds since the epoch."""

    graceful_badput: int
    graceful_completion: int
    quick_badput: int
    quick_completion: int


def drain_estimates(machine: Machine, policy_at: Callable[[Slot], LimitPolicy], now: int) -> DrainEstimates:
    """Return the estimates for a machine. ``policy_at`` returns a slot's current policy."""
    runs = [_run(policy_at(slot), now) for slot in machine.slots.values() if slot.activation is not None]
    if not runs:
        last_vacated = max((slot.vacated for slot in machine.slots.values()), default=0)
        idle_since = max(machine.joined, last_vacated) // SECOND
        return DrainEstimates(0, idle_since, 0, idle_since)
    second = now // SECOND
    estimates = (
        sum(run.cores * (run.ran + run.stay) for run in runs),
        second + max(run.stay for run in runs),
        sum(run.cores * (run.ran + run.vacate) for run in runs),
        second + max(run.vacate for run in runs),
    )
    return DrainEstimates(*(min(estimate, MAX_ESTIMATE) for estimate in estimates))


class _Run(NamedTuple):
    """A running job: its slot's cores, its run time, and the seconds that graceful and quick drains would leave it."""

    cores: int
    ran: int
    stay: int
    vacate: int


def _run(policy: LimitPolicy, now: int) -> _Run:
    activation = policy.slot.activation
    assert activation is not None
    ran = activation.run_seconds(now)
    retirement = max(0, granted_retirement(policy) - ran)
    vacate = vacate_time_within(policy, lambda: retirement * SECOND) // SECOND
    return _Run(int(policy.slot.cores), ran, max(retirement, vacate), vacate)
