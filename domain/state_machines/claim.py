"""The states of a claim, from its request to its release. ``rows.txt`` contains the rows.

The states are HTCondor's, and "Ended". A claim runs jobs one after another. Each claim ends through Vacating or
Killing; without a job, it leaves this state immediately. A claim's state is computed from its slot (``claim_state``)
and therefore not stored.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .rows import table

INITIAL_CLAIM_STATE: Final = "Unclaimed"
"""The state of a requested claim that the slot has not accepted yet."""

CLAIM: Final = table("claim")

ROWS_BY_STATE: Final = {"Running": "continue", "Suspended": "suspend", "Vacating": "vacate", "Killing": "kill"}
"""The row that moves a claim to each state together with its slot. (The start and end of a job move it too.)"""
ENDING_STATES: Final = ("Vacating", "Killing")


@lru_cache(256)
def claim_state(pair: str, has_job: bool) -> str:
    """Return the state of the claim on a slot in this state/activity, with or without a job."""
    state, _, activity = pair.partition("/")
    if state == "Preempting":
        return activity
    if not has_job:
        return "Idle"
    return "Suspended" if activity == "Suspended" else "Running"
