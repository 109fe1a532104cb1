"""What happens because time passes. A timer is state: what is due, and when the next thing will be, is asked of it.

Each role has timers of its own (``schedd.timers``, ``startd.timers``); a state that is several roles has all of theirs.
What else is due by itself is in ``agenda``.
"""

from __future__ import annotations

from typing import Any

from ..decision.draft import Draft
from ..ports.timers import Timer
from ..schedd import timers as schedd
from ..startd import timers as startd
from ..state.state import AccessPoint, ExecutionPoint, LogState


def _timers(state: LogState) -> list[tuple[Timer, Any]]:
    """Every timer that runs, each with what its role does about it."""
    found: list[tuple[Timer, Any]] = []
    if isinstance(state, AccessPoint):
        found += [(timer, schedd.fire) for timer in schedd.timers(state)]
    if isinstance(state, ExecutionPoint):
        found += [(timer, startd.fire) for timer in startd.timers(state)]
    return found


def fire_timers(draft: Draft[Any]) -> None:
    """Let happen what is due by now, the earliest first."""
    for timer, fire in sorted(_timers(draft.state), key=lambda one: one[0][:3]):
        if timer.when > draft.now:
            break
        fire(draft, timer)


def next_timer(state: LogState) -> int | None:
    """The earliest instant at which a timer is due; None while none runs."""
    return min((timer.when for timer, _ in _timers(state)), default=None)
