"""Matches by slot and job, until they are claimed or voided. Each role has such a table."""

from __future__ import annotations

from typing import TypeVar

from ..events import ClaimMade, ClaimQueued
from ..names import SlotName

Job = TypeVar("Job")
Details = TypeVar("Details")
Matches = dict[str, dict[Job, Details]]


def end_match(matches: Matches[Job, Details], slot: str, job: Job) -> Details | None:
    """Remove and return the details of a slot's match with a job, or None if there is no such match."""
    jobs = matches.get(slot)
    if jobs is None:
        return None
    details = jobs.pop(job, None)
    if not jobs:
        del matches[slot]
    return details


def match_of_claim(matches: Matches[Job, Details], slot: str, job: Job | None) -> tuple[str, Job] | None:
    """Return the slot and job of the match that became a claim of this slot. It may be a match of the slot's parent.

    :param job: the job in the pool's own queue that the claim is for, if any
    """
    for slot_job in matches.get(slot, ()):
        return slot, slot_job
    parent = "" if job is None else str(SlotName.parse(slot).parent)
    return (parent, job) if job is not None and job in matches.get(parent, ()) else None


def own_job(claim: ClaimMade | ClaimQueued) -> str | None:
    """Return the job in the pool's own queue that a claim is for, or None."""
    return None if claim.holder or not claim.job else claim.job
