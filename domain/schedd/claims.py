"""The access point's side of a claim: request it for a match, activate it for one job after another, release it.

When a job ends, the claim is activated for the submitter's next matching job, or else released. A claim on a claimed
slot waits until that slot is free. The execution point (``startd``) decides when a claim starts, and when the machine
owner's policy ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from ..classad import ClassAd, symmetric_match
from ..classad.value_evidence import truth_of
from ..concurrency_limits import LIMITS
from ..decision.draft import Draft, job_id, ranges
from ..events import Ad, JobSignalled
from ..ports.messages import DropMatch, HoldJob, JobPaused, ShowAd, ShowAutoclusters, ShowSlot, SlotSeen
from ..ports.stimuli import ActivateClaim, DeactivateClaim, ReleaseClaim, RequestClaim, StarterGone, StarterReported
from ..requests.autoclusters import Signature, slot_attribute_words
from ..requests.idle_jobs import may_start_job, waiting_jobs
from ..requests.match_evidence import RequirementsNamesCache, job_ad, match_evidence
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import SYSTEM_MACHINE_ATTRIBUTES, hold_reason, machine_attributes, parse_int, vacate_reason
from ..state.job_limits import job_concurrency_limits
from ..state.pool_settings import MACHINE_ATTRIBUTE_RUNS, MACHINE_ATTRIBUTES, MATCH_ATTRIBUTES, schedd_seconds
from ..state.records import RUNS, Activation
from ..state.state import AccessPoint
from .expansion import expand_for_slot
from .job_deferral import deferred_start, unmatchable_until
from .local_jobs import start_local_jobs


def start_idle_jobs(draft: Draft[AccessPoint]) -> None:
    """Claim each matched slot, and activate the claim for its job. On a claimed slot, the new claim may have to wait. A
    match is void if its job is no longer idle (transition 8). Then activate the claims that finished waiting, and start
    the jobs that need no slot."""
    state = draft.state
    matches = [(name, *job_and_match) for name, jobs in state.matches.items() for job_and_match in jobs.items()]
    for name, (number, proc), matched in sorted(matches, key=lambda match: match[2].order):
        cluster = _cluster_of_idle_job(state, number, proc)
        if cluster is not None and draft.now < state.next_start:
            continue  # the match waits until the next job may start
        if cluster is None:
            draft.send(DropMatch(name, job_id(number, proc), "match_void"))
            continue
        added = _match_attributes(state, name)
        request = RequestClaim(
            draft.stimulus, name, "", "", cluster.submitter, job_id(number, proc),
            {**cluster.attributes(proc), **added} if added else cluster.attributes(proc),
            preempts=matched.preempts, limits=matched.limits, negotiator=matched.negotiator, reason=matched.reason,
        )  # fmt: skip
        if claimed := draft.send(request):
            start_on_claim(draft, claimed, cluster, proc)
    for name, (number, proc) in list(state.ready_claims.items()):
        if draft.now < state.next_start:
            break
        cluster = _cluster_of_idle_job(state, number, proc)
        is_deferred = cluster is not None and unmatchable_until(cluster, proc, draft.now, draft.context.timezone)
        if cluster is None or is_deferred or not _visible_slot(draft, name).starts_jobs:
            reuse_claim(draft, name, number)
        else:
            start_on_claim(draft, name, cluster, proc)
    for name, (_, number) in list(state.kept_claims.items()):
        if state.idle and has_idle_claim(draft, name):
            reuse_claim(draft, name, number)
    start_local_jobs(draft)


def _cluster_of_idle_job(state: AccessPoint, number: int, proc: int) -> Cluster | None:
    cluster = state.clusters.get(number)
    if cluster is None or proc not in cluster or (number, proc) in state.by_job:
        return None
    return cluster if cluster.status_of(proc) == "Idle" else None


def _visible_slot(draft: Draft[AccessPoint], name: str) -> SlotSeen:
    visible = draft.send(ShowSlot(name))
    assert visible is not None, f"slot {name} does not exist"
    return visible


def start_on_claim(draft: Draft[AccessPoint], slot: str, cluster: Cluster, proc: int) -> None:
    """Start the job for which the slot was claimed, or else the submitter's next matching job."""
    if not activate(draft, slot, cluster, proc):
        reuse_claim(draft, slot, cluster.id)


def activate(draft: Draft[AccessPoint], slot: str, cluster: Cluster, proc: int) -> bool:
    """Activate a claimed, idle slot for a job; the event starts the job's processes. Hold the job and return False if
    the slot's ad cannot expand the ``$$()`` macros in the job's ad."""
    expanded = expand_for_slot(
        draft, lambda: _visible_slot(draft, slot).ad, cluster, proc, _match_attributes(draft.state, slot)
    )
    if expanded is None:
        return False
    recorded = recorded_attributes(draft.state.settings, cluster, proc)
    start_time = deferred_start(draft, cluster, proc, _visible_slot(draft, slot).ad)
    draft.fire("job", "Idle", "activate")
    job, ad = job_id(cluster.id, proc), cluster.attributes(proc)
    draft.send(ActivateClaim(draft.stimulus, slot, job, ad, cluster.id, proc, *recorded, expanded, start_time))
    return True


def recorded_attributes(settings: Mapping[str, str], cluster: Cluster, proc: int) -> tuple[tuple[str, ...], int]:
    """Return the slot attributes that the ad of a starting job records, and for how many runs (0: as the job says)."""
    names = machine_attributes(cluster.requested_value(proc, "JobMachineAttrs"))
    if settings.keys().isdisjoint((MACHINE_ATTRIBUTES, MACHINE_ATTRIBUTE_RUNS)):
        return tuple(names), 0
    requested = {name.lower() for name in names}
    listed = machine_attributes(settings.get(MACHINE_ATTRIBUTES, ",".join(SYSTEM_MACHINE_ATTRIBUTES)))
    names += [name for name in listed if name.lower() not in requested]
    job_runs = parse_int(cluster.requested_value(proc, "JobMachineAttrsHistoryLength") or "1")
    runs = max(job_runs, schedd_seconds(settings, MACHINE_ATTRIBUTE_RUNS))
    return (tuple(names), runs) if runs else ((), 1)


def job_ended(draft: Draft[AccessPoint], slot: str, cluster: int, reuses: bool) -> None:
    """Handle the end of the last process of a slot's job. If this access point still holds the slot's claim, and no job
    is about to start there, run another job on the claim or release it.

    :param cluster: the ended job's cluster
    :param reuses: whether another job may run on the claim
    """
    draft.send(StarterReported(draft.stimulus, slot))
    draft.send(StarterGone(draft.stimulus, slot))
    if has_idle_claim(draft, slot):
        if reuses:
            reuse_claim(draft, slot, cluster)
        else:
            draft.send(ReleaseClaim(draft.stimulus, slot, "execution_failed"))


def has_idle_claim(draft: Draft[AccessPoint], slot: str) -> bool:
    """Return True if this access point has a claim on the slot, and no job runs or is about to start there."""
    visible, state = draft.send(ShowSlot(slot)), draft.state
    has_free_claim = slot in state.claims and slot not in state.ready_claims and not state.is_reserved(slot)
    return visible is not None and visible.state_activity == "Claimed/Idle" and has_free_claim


def reuse_claim(draft: Draft[AccessPoint], slot: str, previous_cluster: int) -> None:
    """Start the submitter's next matching job on an idle claimed slot, or release the claim, unless the last job asked
    to keep it for some time (keep_claim_idle).

    :param previous_cluster: the cluster of the claim's previous job. A match with a job of another cluster is logged
        with its evidence, because no negotiation cycle has recorded it.
    """
    no_room = draft.now < draft.state.next_start or not may_start_job(draft.state)
    while next_job := None if no_room else _next_job(draft, slot):
        cluster, proc, job, signature = next_job
        if cluster.id != previous_cluster:
            reads = draft.caches.get(RequirementsNamesCache).find(signature, job())
            slot_ad = _matched_ad(draft, slot, signature)
            draft.emit(match_evidence(draft.header("negotiated"), draft.context, job(), slot_ad, reads))
        if activate(draft, slot, cluster, proc):
            return
    if draft.state.kept_claims.get(slot, (0, 0))[0] <= draft.now:
        draft.send(ReleaseClaim(draft.stimulus, slot, "no_more_jobs"))


def _next_job(draft: Draft[AccessPoint], slot: str) -> tuple[Cluster, int, Callable[[], ClassAd], Signature] | None:
    """Return the submitter's next job that matches the claimed slot, with its ad and signature, or None if there is
    none."""
    visible, submitter = _visible_slot(draft, slot), draft.state.claims[slot].submitter
    if not visible.starts_jobs:
        return None
    autoclusters = draft.send(ShowAutoclusters())
    rejected: set[int] = set()
    for cluster, proc, number in waiting_jobs(draft.state, submitter, draft.caches, autoclusters, rejected):
        job, signature = cache(partial(job_ad, cluster, proc)), autoclusters.signature(cluster, proc)
        limits = cluster.requested_value(proc, LIMITS)
        if fits_slot(draft, slot, visible.version, job, signature) and uses_same_limits(
            draft, slot, limits, job, signature
        ):
            return cluster, proc, job, signature
        rejected.add(number)
    return None


# Ending runs


def end_job(
    draft: Draft[AccessPoint], activation: Activation, cause: str, evidence: int = 0, vacated: Ad | None = None
) -> None:
    """End the job of a claim but keep the claim. Use a soft kill if the job requests one; continue a suspended job
    first. ``evidence`` and ``vacated``: see ``JobSignalled``."""
    manner = "soft" if _wants_grace(draft, activation) else "hard"
    signal_job(draft, activation, manner, cause, evidence, vacated, resume_first=True)


def _wants_grace(draft: Draft[AccessPoint], activation: Activation) -> bool:
    """Check whether a held or removed job first receives its soft kill signal: by WantGracefulRemoval, or else by
    GRACEFULLY_REMOVE_JOBS (BaseShadow::jobWantsGracefulRemoval)."""
    cluster = draft.state.clusters[activation.cluster]
    condition = parse_cached(cluster.requested_value(activation.proc, "WantGracefulRemoval") or "undefined")
    grace = (
        None
        if condition is None
        else truth_of(condition, ad_from_attributes(cluster.attributes(activation.proc)), None, draft.context)
    )
    return draft.state.settings.get("GRACEFULLY_REMOVE_JOBS", "true").lower() != "false" if grace is None else grace


def signal_job(
    draft: Draft[AccessPoint],
    activation: Activation,
    manner: str,
    cause: str,
    evidence: int = 0,
    vacated: Ad | None = None,
    resume_first: bool = False,
    repeat: bool = False,
) -> None:
    """Signal a job's processes to exit. For a job without a slot, the access point sends the signal.

    :param manner: soft (the job's kill signal) or hard (SIGKILL)
    :param evidence: as in ``JobSignalled``, like ``vacated``
    :param resume_first: whether to continue a suspended job first
    :param repeat: whether to send a soft signal to a job that already received one
    """
    if not draft.state.clusters[activation.cluster].is_local:
        draft.send(
            DeactivateClaim(
                draft.stimulus, activation.slot, manner == "hard", False, cause, evidence, vacated or {}, resume_first
            )
        )
    elif manner == "hard" or not activation.stop_signal or repeat:
        timeout = draft.state.setting("KILLING_TIMEOUT" if manner == "hard" else "MachineMaxVacateTime")
        job = activation.cluster, activation.proc
        draft.emit(JobSignalled(*draft.header(cause), *job, manner, draft.now + timeout, evidence, vacated or {}))


# What a slot reports about its job


def job_paused(draft: Draft[AccessPoint], message: JobPaused) -> None:
    """Update the status of a job whose slot suspended or continued it. A job whose process has not started yet is
    suspended when it starts (``deferred_starts``)."""
    cluster = draft.state.clusters[message.cluster]
    run = draft.state.by_job.get((message.cluster, message.proc))
    if cluster.status_of(message.proc) == message.source and (run is None or not run.deferred):
        procs = ranges([message.proc])
        draft.move_jobs(cluster, procs, message.row, message.cause, message.source, {}, message.evidence)


def hold_job(draft: Draft[AccessPoint], message: HoldJob) -> Ad | None:
    """Hold a job for the machine owner's reason. If a transform of the job or a cool-down may replace this hold at the
    end of the run, return the attributes that will then record the eviction."""
    cluster, proc = draft.state.clusters[message.cluster], message.proc
    status = cluster.status_of(proc)
    if status not in RUNS:
        return None
    if cluster.has_evict_transforms(proc) or draft.state.settings.get("SYSTEM_ON_VACATE_COOL_DOWN"):
        return vacate_reason(message.why)
    draft.move_jobs(cluster, ranges([proc]), "hold", "held_by_machine", status, hold_reason(message.why))
    return None


# Matching by the access point: whether a job matches a slot that is already claimed

_MAX_CACHED_FITS = 10_000
_CONSIDERS_LIMITS = "CLAIM_RECYCLING_CONSIDER_LIMITS"


class _FitCache(dict[tuple[Signature, str, int, int], bool]):
    """Match results, keyed by the job's signature, the slot's name and version, and the current second."""


def _match_attributes(state: AccessPoint, slot: str) -> Ad:
    """Return the attributes of NEGOTIATOR_MATCH_EXPRS; none for a slot that the negotiator of another pool matched."""
    is_flocked = state.peers.flocked and slot.rpartition("@")[2] in state.peers.flocked
    return {} if is_flocked else MATCH_ATTRIBUTES.in_settings(state.settings)


def _matched_ad(draft: Draft[AccessPoint], slot: str, signature: Signature) -> ClassAd:
    """Return a claimed slot's ad with the attributes that the negotiator added."""
    added = _match_attributes(draft.state, slot)
    ad = draft.send(ShowAd(slot, slot_attribute_words(signature)))
    return ClassAd(ad_from_attributes(added), chained=ad) if added else ad


def fits_slot(
    draft: Draft[AccessPoint], slot: str, version: int, job: Callable[[], ClassAd], signature: Signature
) -> bool:
    """Check whether a job and a slot match now. The result is cached for equivalent jobs within the same second.

    :param version: the version of the slot's own ad
    """
    results = draft.caches.get(_FitCache)
    key = (signature, slot, version, draft.now // 1_000_000)
    fit = results.get(key)
    if fit is None:
        if len(results) >= _MAX_CACHED_FITS:
            results.clear()
        slot_ad = _matched_ad(draft, slot, signature)
        fit = results[key] = symmetric_match(job(), slot_ad, draft.context)
    return fit


def uses_same_limits(
    draft: Draft[AccessPoint], slot: str, limits: str, job: Callable[[], ClassAd], signature: Signature
) -> bool:
    """Check whether a job has the same concurrency limits as the slot's claim; otherwise the job cannot reuse the
    claim. The texts are compared, as in HTCondor (CLAIM_RECYCLING_CONSIDER_LIMITS).

    :param limits: the ConcurrencyLimits of the job's ad
    """
    claim_limits = draft.state.claims[slot].limits
    if not (limits or claim_limits) or draft.state.settings.get(_CONSIDERS_LIMITS, "true").lower() != "true":
        return True
    job_limits = job_concurrency_limits(job(), _matched_ad(draft, slot, signature), draft.context) if limits else ""
    return job_limits.lower() == claim_limits.lower()
