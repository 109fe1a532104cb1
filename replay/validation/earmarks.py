"""Check claims that are kept for a job which is to run at once (condor_now)."""

from __future__ import annotations

from ...domain import events as e
from ...domain.state.pool_settings import seconds_of
from ...domain.state.state import Earmark, Slot
from .concurrency_limit_checks import as_its_ad_says
from .job_checks import known_cluster
from .judged_pool import JudgedPool, job_of, rule
from .run_checks import waits_for_a_slot


@rule(e.ClaimsEarmarked)
def earmarked(pool: JudgedPool, event: e.ClaimsEarmarked) -> None:
    job = event.cluster, event.proc
    if known_cluster(pool, *job) is not None and not waits_for_a_slot(pool, *job):
        pool.report_job(*job, "earmark", "claims are kept for it, but it does not wait")
    if job in pool.state.earmarks:
        pool.report_job(*job, "earmark", "claims are kept for it already")
    if event.until != event.at + seconds_of(pool.state.settings, "SCHEDD_NOW_JOB_VACATE_TIMEOUT") * 1_000_000:
        pool.report_job(
            *job, "value", "the claims are kept for it for another time than SCHEDD_NOW_JOB_VACATE_TIMEOUT says"
        )
    if not event.claims:
        pool.report_job(*job, "earmark", "claims are kept for it, but none is named")
    for name, claim in event.claims.items():
        slot = pool.state.slots.get(name)
        if slot is None or slot.claim is None or slot.claim.id != claim:
            pool.report_job(*job, "earmark", f"{claim}, which is kept for it, is not the claim of {name}")
        elif slot.activation is None or not slot.activation.cluster:
            pool.report_job(*job, "earmark", f"the claim of {name} is kept for it, but no job of this queue has it")
        elif pool.state.is_earmarked(slot):
            pool.report_job(*job, "earmark", f"the claim of {name} is kept for another job already")


@rule(e.EarmarkEnded)
def ended(pool: JudgedPool, event: e.EarmarkEnded) -> None:
    job = event.cluster, event.proc
    earmark = pool.state.earmarks.get(job)
    if earmark is None:
        pool.report_job(*job, "earmark", "no claims are kept for it any more, but none were")
        return
    if bool(event.slot) != (event.cause == "coalesced"):
        pool.report_job(*job, "earmark", "a slot is named for it where one was made, and nowhere else")
    slot = pool.state.slots.get(event.slot)
    claim = None if slot is None else slot.claim
    if event.slot and (claim is None or claim.holder or job_of(claim.job) != job):
        pool.report_job(*job, "earmark", f"{event.slot} was made for it, but is not claimed for it")
    if event.cause == "now_late" and event.at < earmark.until:
        pool.report_job(*job, "earmark", "the jobs that were to go for it are said to be late, but have time left")


def coalesced(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    """Check a claim of a slot that was put together for a job of what claims held that were kept for it."""
    job = job_of(event.job)
    earmark = None if job is None else pool.state.earmarks.get(job)
    if job is None or earmark is None:
        pool.report_slot(slot.name, "earmark", f"it is claimed for job {event.job}, for which no claims were kept")
        return
    there = _there(pool, earmark)
    if there:
        words = f"it is put together for job {event.job}, but the claim of {', '.join(there)} is still there"
        pool.report_slot(slot.name, "earmark", words)
    if not waits_for_a_slot(pool, *job):
        pool.report_slot(slot.name, "earmark", f"it is put together for job {event.job}, which does not wait")
    as_its_ad_says(pool, event, pool.state.clusters[job[0]].attributes(job[1]) if job[0] in pool.state.clusters else {})


def _there(pool: JudgedPool, earmark: Earmark) -> list[str]:
    """Return the slots whose claims are still there of those that are kept."""
    slots = ((pool.state.slots.get(name), claim) for name, claim in earmark.claims.items())
    return [
        slot.name for slot, claim in slots if slot is not None and slot.claim is not None and slot.claim.id == claim
    ]


def settle(pool: JudgedPool) -> None:
    """Check that no claim is kept that is gone."""
    for job, earmark in list(pool.state.earmarks.items()):
        if len(_there(pool, earmark)) < len(earmark.claims):
            pool.report_job(*job, "earmark", "claims are kept for it, of which one is gone")
            del pool.state.earmarks[job]
