"""Fire the timers of all roles. Running timers are computed from the state.

Each role has its own timers (``schedd.timers``, ``startd.timers``). ``agenda`` handles everything else that time
causes.
"""

from __future__ import annotations

from typing import Any

from ..decision.draft import Draft
from ..ports.timers import Timer
from ..schedd import flocking
from ..schedd import timers as schedd
from ..startd import timers as startd
from ..state.state import AccessPoint, ExecutionPoint, LogState, acts_as


def _timers(state: LogState) -> list[tuple[Timer, Any]]:
    timers: list[tuple[Timer, Any]] = []
    if acts_as(state, AccessPoint):
        timers += [(timer, schedd.fire_timer) for timer in schedd.timers(state)]
        timers += [(timer, flocking.fire_timer) for timer in flocking.timers(state)]
    if acts_as(state, ExecutionPoint):
        timers += [(timer, startd.fire_timer) for timer in startd.timers(state)]
    return timers


def fire_timers(draft: Draft[Any]) -> None:
    """Fire the timers that are due now, earliest first."""
    for timer, fire in sorted(_timers(draft.state), key=lambda pair: pair[0][:3]):
        if timer.when > draft.now:
            break
        fire(draft, timer)


def next_timer(state: LogState) -> int | None:
    """Return the earliest time at which a timer is due, or None if no timer is running."""
    return min((timer.when for timer, _ in _timers(state)), default=None)
