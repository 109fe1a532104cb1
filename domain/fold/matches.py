"""The matches of slots, as each role keeps them: by slot and job, until they are claimed or voided."""

from __future__ import annotations

from typing import TypeVar

from ..events import ClaimMade, ClaimQueued
from ..names import SlotName

Job = TypeVar("Job")
Kept = TypeVar("Kept")
Matches = dict[str, dict[Job, Kept]]


def end_match(matches: Matches[Job, Kept], slot: str, job: Job) -> Kept | None:
    """A slot's match with a job was claimed or voided; return what was kept of it, if there was one."""
    jobs = matches.get(slot)
    if jobs is None:
        return None
    kept = jobs.pop(job, None)
    if not jobs:
        del matches[slot]
    return kept


def match_of_claim(matches: Matches[Job, Kept], slot: str, job: Job | None) -> tuple[str, Job] | None:
    """Return the match of which a claim is made, of the slot or of the one it was carved from, by its slot and job.

    :param job: the job of the pool's own queue that the claim names; None: it names none
    """
    for own in matches.get(slot, ()):
        return slot, own
    parent = "" if job is None else str(SlotName.parse(slot).parent)
    return (parent, job) if job is not None and job in matches.get(parent, ()) else None


def own_job(claim: ClaimMade | ClaimQueued) -> str | None:
    """Return the job of the pool's own queue that a claim names; None: it names none."""
    return None if claim.holder or not claim.job else claim.job
