"""When the defragmentation looks at the pool: each DEFRAG_INTERVAL, and at once where it never has.

The last poll is of the log. So a pool that was started anew polls when the old one would have, while the reference's
daemon polls at its start; and a pool that was down has missed its polls.
"""

from __future__ import annotations

from ..state.state import Manager
from ..units import SECOND
from .defrag_settings import policy_in_force


def next_poll(state: Manager) -> int | None:
    """Return when the next poll is due, in microseconds; None: there is none."""
    policy = policy_in_force(state.settings)
    if policy is None or policy.interval <= 0:
        return None
    last = state.defrag.last_poll
    return last + policy.interval * SECOND if last else state.at
