"""The priorities of submitters at the last update, for comparisons."""

from __future__ import annotations

from poolbook.domain.negotiator.accounting import (
    LEAST_PRIORITY,
    AccountantSettings,
    decayed_priority,
    priority_factor,
    rounded,
)
from poolbook.domain.state.records import Submitter
from poolbook.domain.state.state import Manager


def effective_priority(submitter: Submitter, rules: AccountantSettings, now: int) -> float:
    """Return the effective priority, based on the last updated real priority."""
    return max(LEAST_PRIORITY, submitter.priority) * priority_factor(submitter, rules, now)


def real_priority(state: Manager, submitter: Submitter, halflife: float) -> float:
    """Return the real priority as of the pool's last update."""
    return rounded(decayed_priority(submitter, max(state.priorities_updated_at, submitter.updated), halflife))
