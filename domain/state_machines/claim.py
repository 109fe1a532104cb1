"""The life of a claim: a schedd's hold of a slot, from the claiming to the release; ``rows.txt`` has the rows.

Its states are those of HTCondor's claims, and "Ended". A claim serves many jobs, one at a time. It ends through
Vacating or Killing also without a job; these are over at once then. The state follows from the slot (``claim_state``):
nothing else is kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .rows import table

REQUESTED: Final = "Unclaimed"
"""Before the slot has agreed."""

CLAIM: Final = table("claim")

ENTERED: Final = {"Running": "continue", "Suspended": "suspend", "Vacating": "vacate", "Killing": "kill"}
"""The claim's state and row for each pair that its slot enters. (Jobs move the claim before its slot.)"""
ENDING: Final = ("Vacating", "Killing")


@lru_cache(256)
def claim_state(pair: str, job: bool) -> str:
    """Return the state of the claim of a slot in this pair, with or without a job."""
    state, _, activity = pair.partition("/")
    if state == "Preempting":
        return activity
    if not job:
        return "Idle"
    return "Suspended" if activity == "Suspended" else "Running"
