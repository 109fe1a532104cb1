"""The access point's side of a claim: made for a match, activated for one job after the other, released.

When a job ends, the claim is activated for the submitter's next job that fits, or else released. A claim on a claimed
slot waits for the slot. The execution point (``startd``) decides when a claim starts, and when the owner's policy ends
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ..classad import ClassAd, symmetric_match
from ..classad.evidence import truth
from ..concurrency_limits import LIMITS
from ..decision.draft import Draft, job_id, ranges
from ..events import Ad, JobSignalled
from ..ports.messages import DropMatch, HoldJob, JobPaused, ShowAd, ShowSlot, SlotSeen, TellLikeness
from ..ports.stimuli import (
    ActivateClaim,
    DeactivateClaim,
    ReleaseClaim,
    RequestClaim,
    StarterGone,
    StarterReported,
)
from ..requests.autoclusters import Signature, words
from ..requests.idle_jobs import room, waiting
from ..requests.match_evidence import ReadsOfKinds, evidence, job_ad
from ..state.caches import ad_of, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import hold_reason, vacate_reason
from ..state.job_limits import job_concurrency_limits
from ..state.records import RUNS, Activation
from ..state.state import AccessPoint
from .expansion import expanded_by
from .job_deferral import deferral, sleeps
from .local_jobs import start_local_jobs


def claim_all(draft: Draft[AccessPoint]) -> None:
    """Start idle jobs on their matches and claims, and without a slot."""
    claim_matches(draft)
    start_local_jobs(draft)


def claim_matches(draft: Draft[AccessPoint]) -> None:
    """Claim each matched slot, and activate the claim for its job; if the slot is claimed, the new claim may wait. A
    match is void if its job is no longer idle (transition 8). Then activate the claims that have waited."""
    state = draft.state
    matches = [(name, *one) for name, jobs in state.matches.items() for one in jobs.items()]
    for name, (number, proc), matched in sorted(matches, key=lambda match: match[2].order):
        cluster = _waits(state, number, proc)
        if cluster is None:
            draft.send(DropMatch(name, job_id(number, proc), "match_void"))
            continue
        request = RequestClaim(
            draft.stimulus, name, "", "", cluster.submitter, job_id(number, proc), cluster.attributes(proc),
            preempts=matched.preempts, limits=matched.limits, negotiator=matched.negotiator,
        )  # fmt: skip
        if claimed := draft.send(request):
            begin(draft, claimed, cluster, proc)
    for name, (number, proc) in list(state.claim_ready.items()):
        cluster = _waits(state, number, proc)
        late = cluster is not None and sleeps(cluster, proc, draft.now, draft.context.timezone)
        if cluster is None or late or not _slot(draft, name).starts_jobs:
            reuse_claim(draft, name, number)
        else:
            begin(draft, name, cluster, proc)


def _waits(state: AccessPoint, number: int, proc: int) -> Cluster | None:
    """Return the cluster of an idle job without an earlier run's processes; None if the job is not idle."""
    cluster = state.clusters.get(number)
    if cluster is None or proc not in cluster or (number, proc) in state.by_job:
        return None
    return cluster if cluster.status_of(proc) == "Idle" else None


def _slot(draft: Draft[AccessPoint], name: str) -> SlotSeen:
    seen = draft.send(ShowSlot(name))
    assert seen is not None, f"there is no slot {name}"
    return seen


def begin(draft: Draft[AccessPoint], slot: str, cluster: Cluster, proc: int) -> None:
    """Start the job for which the slot was claimed, or the next one."""
    if not activate(draft, slot, cluster, proc):
        reuse_claim(draft, slot, cluster.id)


def activate(draft: Draft[AccessPoint], slot: str, cluster: Cluster, proc: int) -> bool:
    """Start a job on a claimed, idle slot. Its processes start because the event is in the log. Return False if the
    slot cannot substitute the ``$$()`` of the job's ad: the job is held."""
    expanded = expanded_by(draft, lambda: _slot(draft, slot).ad, cluster, proc)
    if expanded is None:
        return False
    draft.fire("job", "Idle", "activate")
    attributes, deferred = cluster.requested_value(proc, "JobMachineAttrs"), deferral(draft, cluster, proc)
    job, ad = job_id(cluster.id, proc), cluster.attributes(proc)
    draft.send(ActivateClaim(draft.stimulus, slot, job, ad, cluster.id, proc, attributes, expanded, deferred))
    return True


def job_ended(draft: Draft[AccessPoint], slot: str, cluster: int, reuses: bool) -> None:
    """Continue after the last process of the slot's job, of this cluster, has ended. If the slot is still claimed and
    idle then, start the claim's next job, or without ``reuses`` release the claim."""
    draft.send(StarterReported(draft.stimulus, slot))
    draft.send(StarterGone(draft.stimulus, slot))
    seen = draft.send(ShowSlot(slot))
    if seen is not None and seen.state_activity == "Claimed/Idle" and _goes_on(draft, slot):
        if reuses:
            reuse_claim(draft, slot, cluster)
        else:
            draft.send(ReleaseClaim(draft.stimulus, slot, "execution_failed"))


def _goes_on(draft: Draft[AccessPoint], slot: str) -> bool:
    """Return whether the pool's own access point holds the slot, and not for a job that has not begun yet."""
    state = draft.state
    return slot in state.claims and slot not in state.claim_ready and not state.is_earmarked(slot)


def reuse_claim(draft: Draft[AccessPoint], slot: str, before: int) -> None:
    """Start the submitter's next job that fits on an idle claimed slot, or release the claim. `before`: the cluster of
    the previous job; if the next job is of another one, the match is logged with its evidence."""
    over = room(draft.state) <= 0
    while candidate := None if over else _next(draft, slot):
        cluster, proc, job, signature = candidate
        if cluster.id != before:
            reads = draft.caches.of(ReadsOfKinds).find(signature, job())
            draft.emit(
                evidence(
                    draft.why("negotiated"), draft.context, job(), draft.send(ShowAd(slot, words(signature))), reads
                )
            )
        if activate(draft, slot, cluster, proc):
            return
    draft.send(ReleaseClaim(draft.stimulus, slot, "no_more_jobs"))


def _next(draft: Draft[AccessPoint], slot: str) -> tuple[Cluster, int, Callable[[], ClassAd], Signature] | None:
    """Return the next job of the claim's submitter that fits, with its ad and signature; None: there is none, or the
    slot starts no more jobs."""
    seen, submitter = _slot(draft, slot), draft.state.claims[slot].submitter
    if not seen.starts_jobs:
        return None
    likeness = draft.send(TellLikeness())
    refused: set[int] = set()
    for cluster, proc, number in waiting(draft.state, submitter, draft.caches, likeness, refused):
        job, signature = cache(partial(job_ad, cluster, proc)), likeness.signature(cluster, proc)
        limits = cluster.requested_value(proc, LIMITS)
        if fits(draft, slot, seen.version, job, signature) and takes_the_same(draft, slot, limits, job, signature):
            return cluster, proc, job, signature
        refused.add(number)
    return None


# Ending runs


def stop(
    draft: Draft[AccessPoint], activation: Activation, cause: str, evidence: int = 0, vacated: Ad | None = None
) -> None:
    """End a claim's job and keep the claim: softly, unless the job wants no grace. A suspended job is continued for
    it. ``evidence`` and ``vacated``: see ``JobSignalled``."""
    how = "soft" if _wants_grace(draft, activation) else "hard"
    signal(draft, activation, how, cause, evidence, vacated, resumes=True)


def _wants_grace(draft: Draft[AccessPoint], activation: Activation) -> bool:
    """Return whether a held or removed job first gets its soft kill signal: WantGracefulRemoval, or else
    GRACEFULLY_REMOVE_JOBS (BaseShadow::jobWantsGracefulRemoval)."""
    cluster = draft.state.clusters[activation.cluster]
    wants = parse_cached(cluster.requested_value(activation.proc, "WantGracefulRemoval") or "undefined")
    grace = None if wants is None else truth(wants, ad_of(cluster.attributes(activation.proc)), None, draft.context)
    return draft.state.settings.get("GRACEFULLY_REMOVE_JOBS", "true").lower() != "false" if grace is None else grace


def signal(
    draft: Draft[AccessPoint],
    activation: Activation,
    how: str,
    cause: str,
    evidence: int = 0,
    vacated: Ad | None = None,
    resumes: bool = False,
    again: bool = False,
) -> None:
    """Signal a job's processes to end. A soft signal is not repeated, unless ``again``. The access point itself signals
    a job without a slot."""
    if not draft.state.clusters[activation.cluster].is_local:
        draft.send(
            DeactivateClaim(
                draft.stimulus, activation.slot, how == "hard", False, cause, evidence, vacated or {}, resumes
            )
        )
    elif how == "hard" or not activation.stop or again:
        patience = draft.state.setting("KILLING_TIMEOUT" if how == "hard" else "MachineMaxVacateTime")
        job = activation.cluster, activation.proc
        draft.emit(JobSignalled(*draft.why(cause), *job, how, draft.now + patience, evidence, vacated or {}))


# What a slot reports of its job


def job_paused(draft: Draft[AccessPoint], message: JobPaused) -> None:
    """Change the status of a slot's job that was suspended or continued. A job whose process has not started yet is
    suspended when it starts (``deferred_starts``)."""
    cluster = draft.state.clusters[message.cluster]
    run = draft.state.by_job.get((message.cluster, message.proc))
    if cluster.status_of(message.proc) == message.source and (run is None or not run.deferred):
        procs = ranges([message.proc])
        draft.move_jobs(cluster, procs, message.row, message.cause, message.source, {}, message.evidence)


def hold_job(draft: Draft[AccessPoint], message: HoldJob) -> Ad | None:
    """Hold a job with the machine owner's reason. If the job's own transform or a cool-down may replace the hold at the
    end of the run, instead return what its ad will record about the eviction."""
    cluster, proc = draft.state.clusters[message.cluster], message.proc
    status = cluster.status_of(proc)
    if status not in RUNS:
        return None
    if cluster.has_evict_transforms(proc) or draft.state.settings.get("SYSTEM_ON_VACATE_COOL_DOWN"):
        return vacate_reason(message.why)
    draft.move_jobs(cluster, ranges([proc]), "hold", "held_by_machine", status, hold_reason(message.why))
    return None


# The access point's own matching: whether a job fits a slot that is already claimed

_FITS_KEPT = 10_000
_CONSIDERS_LIMITS = "CLAIM_RECYCLING_CONSIDER_LIMITS"


class _Fits(dict[tuple[Signature, str, int, int], bool]):
    """Answers by the job's signature, the slot's name and version, and the second."""


def fits(draft: Draft[AccessPoint], slot: str, version: int, job: Callable[[], ClassAd], signature: Signature) -> bool:
    """Return whether job and slot accept each other now. The answer for jobs alike is kept for this second, without
    building the job's ad.

    :param version: the version of the slot's own ad
    """
    answers = draft.caches.of(_Fits)
    key = (signature, slot, version, draft.now // 1_000_000)
    answer = answers.get(key)
    if answer is None:
        if len(answers) >= _FITS_KEPT:
            answers.clear()
        slot_now = draft.send(ShowAd(slot, words(signature)))
        answer = answers[key] = symmetric_match(job(), slot_now, draft.context)
    return answer


def takes_the_same(
    draft: Draft[AccessPoint], slot: str, limits: str, job: Callable[[], ClassAd], signature: Signature
) -> bool:
    """Return whether a job takes the concurrency limits that the slot's claim holds: otherwise it cannot reuse the
    claim. As in HTCondor, the texts are compared (CLAIM_RECYCLING_CONSIDER_LIMITS).

    :param limits: the ConcurrencyLimits of the job's ad
    """
    holds = draft.state.claims[slot].limits
    if not (limits or holds) or draft.state.settings.get(_CONSIDERS_LIMITS, "true").lower() != "true":
        return True
    takes = job_concurrency_limits(job(), draft.send(ShowAd(slot, words(signature))), draft.context) if limits else ""
    return takes.lower() == holds.lower()
