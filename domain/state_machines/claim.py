"""The life of a claim: a schedd's hold of a slot, from the claiming to the release.

* Its states are those of HTCondor's claims, and "Ended". While it lives its slot is in Claimed or Preempting.
* A claim serves many jobs, one at a time: each ``activate`` begins one, and ``end_job`` brings the claim back to Idle.
* It ends through Vacating or Killing also without a job; these are over at once then.
* The state follows from the slot (``claim_state``): nothing else is kept.

Places: sections of the manual's page "Configuration for Execution Points", within "condor_startd Policy Configuration".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from .rows import row

REQUESTED: Final = "Unclaimed"
"""Before the slot has agreed."""

# fmt: off
CLAIM: Final = (
    # number, from, to, place,
    #     cause
    row("accept", REQUESTED, "Idle", "Machine States",
        "The access point asks for the slot by the match's claim id, and the slot agrees."),
    row("refuse", REQUESTED, "Ended", "Machine States",
        "The slot does not agree: START is false for the job, the claim id is not its own, or an error."),
    row("activate", "Idle", "Running", "Machine Activities",
        "The holder begins a job."),
    row("suspend", "Running", "Suspended", "Claimed State",
        "The job's processes are stopped."),
    row("continue", "Suspended", "Running", "Claimed State",
        "The job's processes go on."),
    row("end_job", "Running, Suspended", "Idle", "Claimed State",
        "The job is over; the holder may begin another until CLAIM_WORKLIFE has passed."),
    row("vacate", "Idle, Running, Suspended", "Vacating", "Preempting State",
        "The claim is to end, and its job may end in its own way."),
    row("kill", "Idle, Running, Suspended, Vacating", "Killing", "Preempting State; The Claimed State and Leases",
        "The claim is to end at once: KILL is true, the time to vacate is over, it is released, or its lease ran out."),
    row("end", "Vacating, Killing", "Ended", "Preempting State",
        "Nothing of the job runs any more, and the holder has been told that the claim is broken."),
)
# fmt: on

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
