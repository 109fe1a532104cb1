"""Run an idle job at once in place of running ones, the victims (condor_now).

The victims are vacated fast and their claims kept for the job: no other job gets them. When the last victim is gone,
one decision ends these claims, carves what the job asks for from the partitionable slot that theirs were parts of, and
begins the job there. Until then nothing binds the job itself. If it has been held, removed or started elsewhere by
then, or if what there is does not do, the claims are given up. Requirements of the job are not asked, START is.

Source: HTCondor's Scheduler::reassign_slot_handler and child_exit (schedd.cpp), pccc.cpp, and the startd's
command_coalesce_slots (command.cpp).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..classad.matching import requirements_met
from ..decision.draft import Draft, Refusal, answer, job_id
from ..events import ClaimsReserved, ReservationEnded
from ..ports.messages import ShowAd, ShowSlot, SlotSeen, TellLikeness
from ..ports.stimuli import ReleaseClaim, RequestClaim, RunNow
from ..requests.autoclusters import slot_attribute_words
from ..requests.match_evidence import job_ad
from ..state.cluster import UNIVERSE_VANILLA, Cluster
from ..state.pool_settings import schedd_seconds
from ..state.records import Reservation
from ..state.state import AccessPoint
from .claims import reuse_claim, signal_job, start_on_claim
from .job_commands import allowed
from .waiting_claims import withdraw_better_matches


class _Role(NamedTuple):
    """What one of the named jobs has to be, with HTCondor's words where it is not."""

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


def run_now(draft: Draft[AccessPoint], command: RunNow) -> None:
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
    if command.job in state.reservations:
        names = ", ".join(state.reservations[command.job].claims)
        rule = "the now-job must not already be scheduled to run immediately"
        raise _refused(rule, f"{name} waits for the jobs on {names} to go")
    runs = [state.by_job[victim] for victim in victims]
    claims = {run.slot: state.claims[run.slot].claim for run in runs if run.slot in state.claims}
    for job, reservation in list(state.reservations.items()):
        if not claims.keys().isdisjoint(reservation.claims):
            _give_up(draft, job, reservation, "now_taken")
    until = draft.now + schedd_seconds(state.settings, "SCHEDD_NOW_JOB_VACATE_TIMEOUT") * 1_000_000
    draft.emit(ClaimsReserved(*draft.why("run_now"), number, proc, claims, until))
    for run in runs:
        if run.stop != "hard":
            signal_job(draft, run, "hard", "run_now")
    jobs = [job_id(*victim) for victim in victims]
    answer(draft, command, "run now", " ".join([name, *jobs]), {"job": name, "victims": jobs})


def _refused(rule: str, why: str) -> Refusal:
    """Return the refusal by a rule, in HTCondor's words, which is all that condor_now says."""
    return Refusal(f"{rule}: {why}", tool=rule)


def _check(draft: Draft[AccessPoint], user: str, job: tuple[int, int], role: _Role) -> None:
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


# Progress and result


def settle(draft: Draft[AccessPoint]) -> None:
    """See how far each job is that is to run at once, whatever was decided: its claims are given up if one has ended
    or their time is over, and put together for it when nothing runs on them any more."""
    state = draft.state
    for job, reservation in list(state.reservations.items()):
        claims = _kept(draft, reservation)
        if len(claims) < len(reservation.claims):
            _give_up(draft, job, reservation, "now_lost")
        elif all(seen.state_activity == "Claimed/Idle" for seen in claims.values()):
            _coalesce(draft, job, claims)
        elif reservation.deadline <= draft.now:
            _give_up(draft, job, reservation, "now_late")


def _kept(draft: Draft[AccessPoint], reservation: Reservation) -> dict[str, SlotSeen]:
    """Return the slots whose claims are still there."""
    held = draft.state.claims
    names = (name for name, claim in reservation.claims.items() if name in held and held[name].claim == claim)
    return {name: seen for name in names if (seen := draft.send(ShowSlot(name))) is not None}


def _give_up(draft: Draft[AccessPoint], job: tuple[int, int], reservation: Reservation, cause: str) -> None:
    """Keep these claims no longer. Those of which the job is gone are released, the others when theirs is."""
    draft.emit(ReservationEnded(*draft.why(cause), *job))
    for slot, seen in _kept(draft, reservation).items():
        if seen.state_activity == "Claimed/Idle":
            draft.send(ReleaseClaim(draft.stimulus, slot, cause))


def _coalesce(draft: Draft[AccessPoint], job: tuple[int, int], slots: dict[str, SlotSeen]) -> None:
    """Put together what the claims of these slots hold, and begin the job on it."""
    cause = _hindrance(draft, job, slots) or "coalesced"
    first = next(iter(slots))
    parent, negotiator = slots[first].parent, draft.state.claims[first].negotiator
    for slot in slots:
        draft.send(ReleaseClaim(draft.stimulus, slot, cause))
    made = ""
    if cause == "coalesced":
        made = _claimed(draft, parent, draft.state.clusters[job[0]], job[1], negotiator)
        cause = cause if made else "now_unfit"
    draft.emit(ReservationEnded(*draft.why(cause), *job, made))
    if made:
        _begin(draft, made, draft.state.clusters[job[0]], job[1])


def _hindrance(draft: Draft[AccessPoint], job: tuple[int, int], slots: dict[str, SlotSeen]) -> str:
    """Return the cause for which the job cannot have what these slots hold; empty: there is none."""
    cluster = draft.state.clusters.get(job[0])
    if cluster is None or job[1] not in cluster:
        return "now_gone"
    if cluster.status_of(job[1]) != "Idle":
        return "now_not_idle"
    if any(seen.kind != "dynamic" for seen in slots.values()):
        return "now_static"
    return "now_apart" if len({seen.parent for seen in slots.values()}) > 1 else ""


def _claimed(draft: Draft[AccessPoint], parent: str, cluster: Cluster, proc: int, negotiator: str) -> str:
    """Claim a slot for the job, which is carved from ``parent``; empty: too little is left of it, or its policy does
    not let it."""
    job = job_ad(cluster, proc)
    read = slot_attribute_words(draft.send(TellLikeness()).signature(cluster, proc))
    if not requirements_met(draft.send(ShowAd(parent, read)), job, draft.context):
        return ""
    withdraw_better_matches(draft, cluster.id, [proc])
    request = RequestClaim(
        draft.stimulus, parent, "", "", cluster.submitter, job_id(cluster.id, proc), cluster.attributes(proc),
        negotiator=negotiator, cause="coalesced", may_wait=False,
    )  # fmt: skip
    return draft.send(request)


def _begin(draft: Draft[AccessPoint], slot: str, cluster: Cluster, proc: int) -> None:
    """Begin the job; if it may not run just now, the next one of its submitter that fits."""
    job = cluster.id, proc
    if job in draft.state.by_job or job in draft.state.cool_downs:
        reuse_claim(draft, slot, cluster.id)
    else:
        start_on_claim(draft, slot, cluster, proc)
