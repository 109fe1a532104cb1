"""What draining a machine would cost, and when it would be over, if that began now (ExpectedMachine*Draining*).

Badput is in core-seconds: what the machine's jobs have run for, and the time that the drain would grant them still. In
a quick drain that is their time to vacate; in a graceful one what is left of their retirement, if that is more. The
drain is over when the last of them is gone. A machine on which nothing runs keeps the instant at which its last job
was gone; one that never ran any, that at which it joined. Source: the reference (``ResMgr::compute_draining_attrs``),
which computes it at each evaluation of its policy; here it is as of the instant at which it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..state.records import Machine, Slot
from ..units import SECOND
from .time_limits import SlotTerms, granted_retirement, vacate_time_within

MOST: Final = 2**31 - 1
"""What larger figures are cut to."""


class DrainEstimates(NamedTuple):
    """Badput is in core-seconds, the instants are seconds since the epoch."""

    graceful_badput: int
    graceful_completion: int
    quick_badput: int
    quick_completion: int


def drain_estimates(machine: Machine, terms: Callable[[Slot], SlotTerms], now: int) -> DrainEstimates:
    """Return the estimates of a machine; ``terms``: what each of its slots grants the job that it has."""
    runs = [_run(terms(slot), now) for slot in machine.slots.values() if slot.activation is not None]
    if not runs:
        last = max((slot.vacated for slot in machine.slots.values()), default=0)
        idle_since = max(machine.joined, last) // SECOND
        return DrainEstimates(0, idle_since, 0, idle_since)
    second = now // SECOND
    found = (
        sum(run.cores * (run.ran + run.stay) for run in runs),
        second + max(run.stay for run in runs),
        sum(run.cores * (run.ran + run.vacate) for run in runs),
        second + max(run.vacate for run in runs),
    )
    return DrainEstimates(*(min(one, MOST) for one in found))


class _Run(NamedTuple):
    """A job: its slot's cores, and in seconds how long it ran, and may stay in a graceful and in a quick drain."""

    cores: int
    ran: int
    stay: int
    vacate: int


def _run(asked: SlotTerms, now: int) -> _Run:
    activation = asked.slot.activation
    assert activation is not None
    ran = activation.ran_seconds(now)
    left = max(0, granted_retirement(asked) - ran)
    vacate = vacate_time_within(asked, lambda: left * SECOND) // SECOND
    return _Run(int(asked.slot.cores), ran, max(left, vacate), vacate)
