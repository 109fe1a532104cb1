"""Run an idle job at once in place of running ones, the victims (condor_now).

The victims are vacated fast and their claims kept for the job: no other job gets them. When the last victim is gone,
one decision ends these claims, carves what the job asks for from the partitionable slot that theirs were parts of, and
begins the job there. Until then nothing binds the job itself. If it has been held, removed or started elsewhere by
then, or if what there is does not do, the claims are given up. Requirements of the job are not asked, START is.

Source: the reference's Scheduler::reassign_slot_handler and child_exit (schedd.cpp), pccc.cpp, and the startd's
command_coalesce_slots (command.cpp).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..classad.matching import requirements_met
from ..decision.command_results import answer
from ..decision.draft import Draft, Refusal, job_id
from ..events import ClaimMade, ClaimsEarmarked, EarmarkEnded
from ..negotiator.accounting import first_factor
from ..negotiator.autoclusters import significance, words
from ..negotiator.match_evidence import job_ad
from ..ports.stimuli import RunNow
from ..startd.claiming import accept_claim, carve_claimable, limits_of, rank_of, release
from ..startd.dynamic_slots import remaining, requested_resources, weight_of
from ..startd.slot_ad import UNIVERSE_VANILLA
from ..startd.slot_resources import dynamic_name
from ..state.cluster import Cluster
from ..state.pool_settings import seconds_of
from ..state.state import Earmark, Slot
from .claim_reuse import slot_ad
from .claims import begin, reuse_claim, signal
from .job_commands import allowed
from .waiting_claims import withdraw_better_matches


class _Role(NamedTuple):
    """What one of the named jobs has to be, with the reference's words where it is not."""

    unknown: str
    foreign: str
    universe: str
    status: str
    wanted: str


_NOW_JOB: Final = _Role(
    "no such job (now-job)",
    "you must own the now-job",
    "the now-job must be in the vanilla universe",
    "the now-job must be idle",
    "Idle",
)
_VICTIM: Final = _Role(
    "no such job (vacate-job)",
    "you must own the vacate-job",
    "vacate-job must be in the vanilla universe",
    "vacate-job must be running",
    "Running",
)


def run_now(draft: Draft, command: RunNow) -> None:
    """Vacate the victims, and keep their claims for the job.

    :raises Refusal: a job is not what it has to be; then none is vacated.
    """
    state = draft.state
    number, proc = command.job
    name = job_id(number, proc)
    _check(draft, command.user, command.job, _NOW_JOB)
    victims = list(dict.fromkeys(command.victims))
    for victim in victims:
        _check(draft, command.user, victim, _VICTIM)
    if not victims:
        way_out = f"name at least one running job that is to make room for {name}"
        raise _refused("invalid vacate-job ID list", way_out)
    if command.job in state.earmarks:
        there = ", ".join(state.earmarks[command.job].claims)
        rule = "the now-job must not already be scheduled to run immediately"
        raise _refused(rule, f"{name} waits for the jobs on {there} to go")
    runs = [state.by_job[victim] for victim in victims]
    held = {run.slot: state.slots[run.slot].claim for run in runs}
    claims = {slot: claim.id for slot, claim in held.items() if claim is not None}
    for job, earmark in list(state.earmarks.items()):
        if not claims.keys().isdisjoint(earmark.claims):
            _give_up(draft, job, earmark, "now_taken")
    until = draft.now + seconds_of(state.settings, "SCHEDD_NOW_JOB_VACATE_TIMEOUT") * 1_000_000
    draft.emit(ClaimsEarmarked(*draft.why("run_now"), number, proc, claims, until))
    for run in runs:
        if run.stop != "hard":
            signal(draft, run, "hard", "run_now")
    jobs = [job_id(*victim) for victim in victims]
    answer(draft, command, "run now", " ".join([name, *jobs]), {"job": name, "victims": jobs})


def _refused(rule: str, why: str) -> Refusal:
    """Return the refusal by a rule, in the reference's words, which is all that condor_now says."""
    return Refusal(f"{rule}: {why}", tool=rule)


def _check(draft: Draft, user: str, job: tuple[int, int], role: _Role) -> None:
    name, cluster = job_id(*job), draft.state.clusters.get(job[0])
    if cluster is None or job[1] not in cluster:
        raise _refused(role.unknown, f"{name} is not in the queue; `poolbook q -all` lists what is")
    if not allowed(draft, user, cluster):
        raise _refused(role.foreign, f"{name} is {draft.state.owner(cluster)}'s, and {user} is no super user")
    if cluster.universe not in ("", UNIVERSE_VANILLA):
        raise _refused(role.universe, f"{name} is of universe {cluster.universe}, which has no slot")
    status = cluster.status_of(job[1])
    if status != role.wanted:
        raise _refused(role.status, f"{name} is {status}")


# What becomes of it


def settle(draft: Draft) -> None:
    """See how far each job is that is to run at once, whatever was decided: its claims are given up if one has ended
    or their time is over, and put together for it when nothing runs on them any more."""
    state = draft.state
    for job, earmark in list(state.earmarks.items()):
        kept = _kept(draft, earmark)
        if len(kept) < len(earmark.claims):
            _give_up(draft, job, earmark, "now_lost")
        elif all(slot.state_activity == "Claimed/Idle" for slot in kept):
            _coalesce(draft, job, kept)
        elif earmark.until <= draft.now:
            _give_up(draft, job, earmark, "now_late")


def _kept(draft: Draft, earmark: Earmark) -> list[Slot]:
    """Return the slots whose claims are still there."""
    slots = (draft.state.slots.get(name) for name in earmark.claims)
    return [slot for slot in slots if slot and slot.claim and slot.claim.id == earmark.claims[slot.name]]


def _give_up(draft: Draft, job: tuple[int, int], earmark: Earmark, cause: str) -> None:
    """Keep these claims no longer. Those of which the job is gone are released, the others when theirs is."""
    draft.emit(EarmarkEnded(*draft.why(cause), *job))
    for slot in _kept(draft, earmark):
        if slot.state_activity == "Claimed/Idle":
            release(draft, slot, cause)


def _coalesce(draft: Draft, job: tuple[int, int], slots: list[Slot]) -> None:
    """Put together what the claims of these slots hold, and begin the job on it."""
    cause = _hindrance(draft, job, slots) or "coalesced"
    parent, negotiator = slots[0].parent, slots[0].claim.negotiator if slots[0].claim is not None else ""
    for slot in slots:
        release(draft, slot, cause)
    made = None
    if cause == "coalesced":
        made = _claimed(draft, draft.state.slots[parent], draft.state.clusters[job[0]], job[1], negotiator)
        cause = cause if made is not None else "now_unfit"
    draft.emit(EarmarkEnded(*draft.why(cause), *job, "" if made is None else made.name))
    if made is not None:
        _begin(draft, made, draft.state.clusters[job[0]], job[1])


def _hindrance(draft: Draft, job: tuple[int, int], slots: list[Slot]) -> str:
    """Return the cause for which the job cannot have what these slots hold; empty: there is none."""
    cluster = draft.state.clusters.get(job[0])
    if cluster is None or job[1] not in cluster:
        return "now_gone"
    if cluster.status_of(job[1]) != "Idle":
        return "now_not_idle"
    if any(slot.kind != "dynamic" for slot in slots):
        return "now_static"
    return "now_apart" if len({slot.parent for slot in slots}) > 1 else ""


def _claimed(draft: Draft, parent: Slot, cluster: Cluster, proc: int, negotiator: str) -> Slot | None:
    """Carve a slot for the job and claim it; None: too little is left of ``parent``, or its policy does not let it."""
    state, job = draft.state, job_ad(cluster, proc)
    read = words(significance(state, draft.caches).signature(cluster, proc))
    if not requirements_met(slot_ad(draft, parent, read), job, draft.context):
        return None
    if requested_resources(draft, parent, job, remaining(parent)) is None:
        return None
    slot = carve_claimable(draft, parent, dynamic_name(parent.name, state.slots), job)
    withdraw_better_matches(draft, cluster.id, [proc])
    ad = cluster.attributes(proc)
    made = ClaimMade(
        *draft.why("coalesced"),
        slot.name,
        f"{slot.name}#{draft.now}#{state.position + 1}",
        cluster.submitter,
        weight_of(slot),
        rank_of(draft, slot, ad),
        job=job_id(cluster.id, proc),
        factor=first_factor(state, cluster.submitter, negotiator),
        limits=limits_of(draft, slot, ad),
        negotiator=negotiator,
    )
    return slot if accept_claim(draft, slot, made) else None


def _begin(draft: Draft, slot: Slot, cluster: Cluster, proc: int) -> None:
    """Begin the job; if it may not run just now, the next one of its submitter that fits."""
    job = cluster.id, proc
    if job in draft.state.by_job or job in draft.state.cooling:
        reuse_claim(draft, slot, cluster.id)
    else:
        begin(draft, slot, cluster, proc)
