"""Find events that happen only once but that one source records twice: a job left the queue, a run ended, a claim ran a
job."""

from __future__ import annotations

from collections.abc import Iterator, Set
from datetime import tzinfo
from typing import Final

from ....domain.imported.packed_ads import unquoted
from ...audit_result import AuditFinding
from ...narration.formatting import instant
from ..imported_log import Sources
from .findings import finding
from .job_ad_facts import READ, Ad, date, int_of, text_of
from .scratch_db import ScratchDatabase
from .tolerances import FAR, NEAR

_SLACK: Final = {"P": NEAR, "S": FAR}
"""The time by which the runs of one claim may overlap: a starter exits some seconds after its job."""


def find_duplicates(scratch: ScratchDatabase, sources: Sources, zone: tzinfo) -> Iterator[AuditFinding]:
    """Yield a finding for each repetition in the scratch database; stories print times in `zone`."""
    yield from _repeated_in_histories(scratch, sources, zone)
    repeated_ad_places = set[tuple[int, int]]()  # ads that a shadow wrote again: it could not reach the schedd
    for letter, source, line, ad in scratch.ads_of("PS", READ["claims"]):
        begin = date(ad, "JobCurrentStartDate")
        until = date(ad, "EpochWriteDate" if letter == "P" else "CompletionDate")
        _add_end(scratch, letter, sources.chain(source), source, line, ad)
        if ad.get("TerminationPending", "").lower() == "true":
            repeated_ad_places.add((source, line))
        counts = unquoted(ad.get("EpochAdType", "EPOCH")) == "EPOCH" if letter == "P" else "JobDuration" in ad
        if counts and begin is not None and until is not None and "PublicClaimId" in ad:
            job = f"{ad.get('ClusterId')}.{ad.get('ProcId')}"
            scratch.add_run(unquoted(ad["PublicClaimId"]), letter, begin, until, job, source, line)
    yield from _repeated_ends(scratch, sources, zone, repeated_ad_places)
    yield from _overlapping_claims(scratch, sources, zone)


def _repeated_in_histories(scratch: ScratchDatabase, sources: Sources, zone: tzinfo) -> Iterator[AuditFinding]:
    """Yield the jobs that are in one history more than once. Two histories may be copies, in any format."""
    for job, places in scratch.repeated_in_histories():
        chains: dict[int, list[tuple[int, str, str]]] = {}
        for source, line, at in places:
            step = (at, f"{source}:{line}", "its ad was added to the history")
            chains.setdefault(sources.chain(source), []).append(step)
        subject = _job_number(job)
        for story in chains.values():
            if len(story) > 1:
                text = f"{job} left the queue {len(story)} times"
                yield finding(sources, subject, "history_twice", text, story, zone=zone)


def _job_number(job: str) -> str:
    """Return the job id in a job's global id; an id in another format is returned unchanged."""
    parts = job.split("#")
    return parts[1] if len(parts) == 3 else job


def _add_end(scratch: ScratchDatabase, letter: str, chain: int, source: int, line: int, ad: Ad) -> None:
    """Add the end of a run to the scratch database.

    The key of a run includes its shadow's start, in seconds: if the schedd lost a shadow and starts another one with
    the same number, the second one started later. A shadow that puts its job on hold at the end records the end twice.
    """
    if letter == "P" and (text_of(ad, "EpochAdType") != "EPOCH" or "HoldReasonCode" in ad):
        return
    job, shadow, placed = text_of(ad, "GlobalJobId"), int_of(ad, "NumShadowStarts"), date(ad, "JobCurrentStartDate")
    if job and shadow is not None and placed is not None:
        at = date(ad, "EpochWriteDate" if letter == "P" else "CompletionDate") or 0
        scratch.add_end(job, letter, chain, f"{shadow} {placed}", at, source, line)


_ENDS: Final = {
    "P": ("run_twice", "the end of its run", "a run of {} ended {} times"),
    "S": ("run_twice", "the end of its run", "a run of {} ended {} times"),
    "Q": ("gone_twice", "its ad was destroyed", "the ad of {} was destroyed {} times"),
}


def _repeated_ends(
    scratch: ScratchDatabase, sources: Sources, zone: tzinfo, repeated_ad_places: Set[tuple[int, int]]
) -> Iterator[AuditFinding]:
    for job, letter, places in scratch.repeated_ends():
        rule, event_text, text = _ENDS[letter]
        if not repeated_ad_places.isdisjoint((source, line) for _, source, line in places):
            rule = "repeated"
        story = [(at, f"{source}:{line}", event_text) for at, source, line in dict.fromkeys(places)]
        subject = _job_number(job)
        yield finding(sources, subject, rule, text.format(job, len(story)), story, zone=zone)


def _overlapping_claims(scratch: ScratchDatabase, sources: Sources, zone: tzinfo) -> Iterator[AuditFinding]:
    for claim, letter, runs in scratch.runs_by_claim():
        latest = next(runs)
        for run in runs:
            if run[2] != latest[2] and run[0] < latest[1] - _SLACK[letter]:
                story = [
                    (begin, f"{source}:{line}", f"job {job} starts, and ends at {instant(until, zone)}")
                    for begin, until, job, source, line in (latest, run)
                ]
                text = f"jobs {latest[2]} and {run[2]} ran at the same time"
                yield finding(sources, claim, "claim_twice", text, story, zone=zone)
            latest = max(latest, run, key=lambda r: r[1])
