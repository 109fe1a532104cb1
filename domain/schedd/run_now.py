"""condor_now: run an idle job immediately by vacating running jobs, its victims.

The victims are vacated fast and their claims are reserved for the job; no other job can use them. When the last victim
has left, a single decision ends these claims, carves a slot for the job from the victims' partitionable slot, and
starts the job there. Until then, the job is idle like any other. If it is held, removed or started elsewhere in the
meantime, or the resources are insufficient, the claims are released. START is evaluated; the job's Requirements are
not.

Source: HTCondor's Scheduler::reassign_slot_handler and child_exit (schedd.cpp), pccc.cpp, and the startd's
command_coalesce_slots (command.cpp).
"""

from __future__ import annotations

from ..classad.matching import requirements_met
from ..decision.draft import Draft, Refusal, answer, job_id
from ..events import ClaimsReserved, ReservationEnded
from ..ports.messages import ShowAd, ShowAutoclusters, ShowSlot, SlotSeen
from ..ports.stimuli import ReleaseClaim, RequestClaim, RunNow
from ..requests.autoclusters import slot_attribute_words
from ..requests.match_evidence import job_ad
from ..state.cluster import UNIVERSE_VANILLA, Cluster
from ..state.pool_settings import schedd_seconds
from ..state.records import Reservation
from ..state.state import AccessPoint
from .claims import reuse_claim, signal_job, start_on_claim
from .job_commands import may_act_on
from .waiting_claims import withdraw_better_matches


def run_now(draft: Draft[AccessPoint], command: RunNow) -> None:
    """Vacate the victims, and reserve their claims for the job.

    :raises Refusal: if a job does not meet the requirements; no job is vacated then
    """
    state = draft.state
    number, proc = command.job
    name = job_id(number, proc)
    _check_job(draft, command.user, command.job, "now-job", "Idle")
    victims = list(dict.fromkeys(command.victims))
    for victim in victims:
        _check_job(draft, command.user, victim, "vacate-job", "Running")
    if not victims:
        advice = f"name at least one running job to vacate for {name}"
        raise _refused("invalid vacate-job ID list", advice)
    if command.job in state.reservations:
        names = ", ".join(state.reservations[command.job].claims)
        rule = "the now-job must not already be scheduled to run immediately"
        raise _refused(rule, f"{name} already waits for the jobs on {names} to be vacated")
    activations = [state.by_job[victim] for victim in victims]
    claims = {run.slot: state.claims[run.slot].claim for run in activations if run.slot in state.claims}
    for job, reservation in list(state.reservations.items()):
        if not claims.keys().isdisjoint(reservation.claims):
            _give_up(draft, job, reservation, "now_taken")
    deadline = draft.now + schedd_seconds(state.settings, "SCHEDD_NOW_JOB_VACATE_TIMEOUT") * 1_000_000
    draft.emit(ClaimsReserved(*draft.header("run_now"), number, proc, claims, deadline))
    for run in activations:
        if run.stop_signal != "hard":
            signal_job(draft, run, "hard", "run_now")
    jobs = [job_id(*victim) for victim in victims]
    answer(draft, command, "run now", " ".join([name, *jobs]), {"job": name, "victims": jobs})


def _refused(rule: str, why: str) -> Refusal:
    """Return a refusal. ``rule`` is HTCondor's message, which is all that condor_now prints."""
    return Refusal(f"{rule}: {why}", tool=rule)


def _check_job(draft: Draft[AccessPoint], user: str, job: tuple[int, int], role: str, required_status: str) -> None:
    """Check a job that condor_now names. ``role`` is HTCondor's name for it: now-job or vacate-job.

    :raises Refusal: if the job does not exist, is another user's, needs no slot, or has another status
    """
    name, cluster = job_id(*job), draft.state.clusters.get(job[0])
    subject = "the now-job" if role == "now-job" else role  # as in HTCondor's messages
    if cluster is None or job[1] not in cluster:
        raise _refused(f"no such job ({role})", f"{name} is not in the queue; `poolbook q -all` lists all jobs")
    if not may_act_on(draft, user, cluster):
        raise _refused(
            f"you must own the {role}",
            f"{name} belongs to {draft.state.owner(cluster)}, and {user} is not a super user",
        )
    if cluster.universe not in ("", UNIVERSE_VANILLA):
        raise _refused(
            f"{subject} must be in the vanilla universe",
            f"{name} is in universe {cluster.universe}, whose jobs run without slots",
        )
    status = cluster.status_of(job[1])
    if status != required_status:
        raise _refused(f"{subject} must be {required_status.lower()}", f"{name} is {status}")


# Progress and result


def update_reservations(draft: Draft[AccessPoint]) -> None:
    """Check every reservation for a job that is to run immediately, after each decision. Release its claims if one of
    them has ended or time has run out; combine them for the job when no job runs on them any more."""
    state = draft.state
    for job, reservation in list(state.reservations.items()):
        claims = _kept_slots(draft, reservation)
        if len(claims) < len(reservation.claims):
            _give_up(draft, job, reservation, "now_lost")
        elif all(seen.state_activity == "Claimed/Idle" for seen in claims.values()):
            _coalesce(draft, job, claims)
        elif reservation.deadline <= draft.now:
            _give_up(draft, job, reservation, "now_late")


def _kept_slots(draft: Draft[AccessPoint], reservation: Reservation) -> dict[str, SlotSeen]:
    claims = draft.state.claims
    names = (name for name, claim in reservation.claims.items() if name in claims and claims[name].claim == claim)
    return {name: seen for name in names if (seen := draft.send(ShowSlot(name))) is not None}


def _give_up(draft: Draft[AccessPoint], job: tuple[int, int], reservation: Reservation, cause: str) -> None:
    """End a reservation. Release the claims whose jobs have left; the other claims are released when theirs leave."""
    draft.emit(ReservationEnded(*draft.header(cause), *job))
    for slot, seen in _kept_slots(draft, reservation).items():
        if seen.state_activity == "Claimed/Idle":
            draft.send(ReleaseClaim(draft.stimulus, slot, cause))


def _coalesce(draft: Draft[AccessPoint], job: tuple[int, int], slots: dict[str, SlotSeen]) -> None:
    cause = _obstacle(draft, job, slots) or "coalesced"
    first = next(iter(slots))
    parent, negotiator = slots[first].parent, draft.state.claims[first].negotiator
    for slot in slots:
        draft.send(ReleaseClaim(draft.stimulus, slot, cause))
    slot = ""
    if cause == "coalesced":
        slot = _claim_slot(draft, parent, draft.state.clusters[job[0]], job[1], negotiator)
        slot = slot or draft.state.assigned_slots.get(job, "")  # an execution point elsewhere answers later
        cause = cause if slot else "now_unfit"
    draft.emit(ReservationEnded(*draft.header(cause), *job, slot))
    if slot in draft.state.claims:
        _start_job(draft, slot, draft.state.clusters[job[0]], job[1])


def _obstacle(draft: Draft[AccessPoint], job: tuple[int, int], slots: dict[str, SlotSeen]) -> str:
    """Return why the job cannot use the resources of these slots, or an empty string if it can."""
    cluster = draft.state.clusters.get(job[0])
    if cluster is None or job[1] not in cluster:
        return "now_gone"
    if cluster.status_of(job[1]) != "Idle":
        return "now_not_idle"
    if any(seen.kind != "dynamic" for seen in slots.values()):
        return "now_static"
    return "now_apart" if len({seen.parent for seen in slots.values()}) > 1 else ""


def _claim_slot(draft: Draft[AccessPoint], parent: str, cluster: Cluster, proc: int, negotiator: str) -> str:
    """Claim a slot carved from ``parent`` for the job. Return its name; empty if its resources or policy refuse the
    job, or if the execution point answers later."""
    if draft.send(ShowSlot(parent)) is not None:
        signature = slot_attribute_words(draft.send(ShowAutoclusters()).signature(cluster, proc))
        if not requirements_met(draft.send(ShowAd(parent, signature)), job_ad(cluster, proc), draft.context):
            return ""
    withdraw_better_matches(draft, cluster.id, [proc])
    request = RequestClaim(
        draft.stimulus, parent, "", "", cluster.submitter, job_id(cluster.id, proc), cluster.attributes(proc),
        negotiator=negotiator, cause="coalesced", may_wait=False,
    )  # fmt: skip
    return draft.send(request)


def _start_job(draft: Draft[AccessPoint], slot: str, cluster: Cluster, proc: int) -> None:
    """Start the job, or if it cannot run now, the submitter's next matching job."""
    job = cluster.id, proc
    if job in draft.state.by_job or job in draft.state.cool_downs:
        reuse_claim(draft, slot, cluster.id)
    else:
        start_on_claim(draft, slot, cluster, proc)
