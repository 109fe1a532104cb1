"""What happens because time passes. A timer is state: what is due, and when the next thing will be, is asked of it."""

from __future__ import annotations

from ..state import State
from .claims import deadline, escalate, match_timed_out
from .draft import Draft, Tables


def _due(draft: Draft) -> list[tuple[int, str, str]]:
    """Every timer that runs: when, what, whose."""
    state = draft.state
    found = []
    if state.matches:
        timeout = state.setting("MATCH_TIMEOUT")
        found += [(state.slots[n].entered_state + timeout, "match", n) for n in state.matches]
    for activation in state.activations.values():
        when = deadline(draft, activation) if activation.stop else None
        if when is not None:
            found.append((when, "stop", activation.key))
    return sorted(found)


def tick(draft: Draft) -> None:
    """Let happen what is due by now, the earliest first."""
    for when, what, name in _due(draft):
        if when > draft.now:
            break
        if what == "match" and name in draft.state.matches:
            match_timed_out(draft, draft.state.slots[name])
        elif what == "stop" and name in draft.state.activations:
            escalate(draft, draft.state.activations[name])


def next_deadline(state: State, now: int, tables: Tables) -> int | None:
    """The earliest instant at which a timer is due; None while none runs."""
    due = _due(Draft(state, "", now, tables))
    return due[0][0] if due else None
