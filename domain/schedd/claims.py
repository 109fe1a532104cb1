"""The access point's side of a claim: made for a match, activated for one job after the other, given up.

When a job has ended, the claim is activated for the next one of the same submitter that fits, or else released. A slot
that somebody has is waited for. What the slot makes of it, and when its owner's policy ends it, is the execution
point's (``startd``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from ..classad import ClassAd
from ..concurrency_limits import LIMITS
from ..decision.draft import Draft, job_id
from ..events import Ad, ClaimMade, ClaimQueued, JobActivated
from ..negotiator.accounting import first_factor
from ..negotiator.autoclusters import Signature, significance, words
from ..negotiator.idle_jobs import waiting
from ..negotiator.job_limits import room
from ..negotiator.match_evidence import ReadsOfKinds, evidence, job_ad
from ..startd import time_limits
from ..startd.backfill_client import is_in_the_way
from ..startd.claiming import HELD, accept_claim, job_gone, queue_claim, rank_of, release, wait_for_client
from ..startd.draining import accepts_claims
from ..startd.dynamic_slots import weight_of
from ..startd.evaluation import truth
from ..startd.job_signals import resume, signal_job
from ..startd.slot_policy_evaluation import policy_of
from ..startd.transitions import trigger
from ..startd.vacating import kill, retire, void
from ..state.caches import ad_of, expression
from ..state.cluster import Cluster
from ..state.state import Activation, Slot, State, provides
from ..state_machines import SlotRow
from ..state_machines.slot_rows import BACKFILL_BUSY
from .claim_reuse import fits, slot_ad, takes_the_same
from .expansion import expanded_by
from .job_deferral import deferral, sleeps
from .local_jobs import start_local_jobs


def claim_all(draft: Draft) -> None:
    """Do all that the access point does by itself for the jobs that wait."""
    claim_matches(draft)
    start_local_jobs(draft)


def claim_matches(draft: Draft) -> None:
    """Claim each slot that was matched, and activate the claim for its job; where somebody has the slot, let the claim
    wait. A job that no longer waits leaves its match void (transition 8). Then activate the claims that have waited."""
    state = draft.state
    for name, (number, proc) in list(state.matches.items()):
        slot, cluster = state.slots[name], _waits(state, number, proc)
        if cluster is None:
            void(draft, slot, "match_void")
            continue
        claim = f"{name}#{draft.now}#{state.position + 1}"
        value = rank_of(draft, slot, cluster.attributes(proc))
        if slot.state in HELD:
            _let_wait(draft, slot, cluster, proc, claim, value)
            continue
        if slot.state_activity == BACKFILL_BUSY or is_in_the_way(state, slot):
            _let_client_go(draft, slot, cluster, proc, claim, value)
            continue
        whose, limits = state.matched_by.get(name, ""), state.matched_limits.get(name, "")
        factor = first_factor(state, cluster.submitter, whose)
        made = ClaimMade(
            *draft.why("claimed"),
            name,
            claim,
            cluster.submitter,
            weight_of(slot),
            value,
            factor=factor,
            limits=limits,
            negotiator=whose,
        )
        if accept_claim(draft, slot, made):
            begin(draft, slot, cluster, proc)
        elif name in state.matches:
            void(draft, slot, "claim_failed")
    for name, (number, proc) in list(state.claim_ready.items()):
        slot, cluster = state.slots[name], _waits(state, number, proc)
        late = cluster is not None and sleeps(cluster, proc, draft.now, draft.context.timezone)
        if cluster is None or late or _ends(draft, slot):
            reuse_claim(draft, slot, number)
        else:
            begin(draft, slot, cluster, proc)


def _waits(state: State, number: int, proc: int) -> Cluster | None:
    """Return the cluster of a job that waits, with nothing left of an earlier run; None if it does not."""
    cluster = state.clusters.get(number)
    if cluster is None or proc not in cluster or (number, proc) in state.by_job:
        return None
    return cluster if cluster.status_of(proc) == "Idle" else None


# Slots that somebody has


def _let_wait(draft: Draft, slot: Slot, cluster: Cluster, proc: int, claim: str, value: float) -> None:
    """The claim waits for a slot that somebody has. As the real startd, the slot refuses it if it likes the job less
    than the one that it has, or that waits already. What the job says is in the queue: no need to repeat it."""
    machine = draft.state.machines.get(slot.machine)
    likes_more = any(one is not None and value < one.rank for one in (slot.claim, slot.waiting))
    if likes_more or (machine is not None and not accepts_claims(machine)):
        void(draft, slot, "claim_failed")
        return
    draft.move_match(slot, "claim")
    job, limits = job_id(cluster.id, proc), draft.state.matched_limits.get(slot.name, "")
    why = draft.why("better_match")
    whose = draft.state.matched_by.get(slot.name, "")
    waits = ClaimQueued(*why, slot.name, claim, cluster.submitter, value, "", job, {}, limits=limits, negotiator=whose)
    queue_claim(draft, slot, waits)


def _let_client_go(draft: Draft, slot: Slot, cluster: Cluster, proc: int, claim: str, value: float) -> None:
    """The claim waits until the backfill client is gone. Where the slot was told of the match, and where it is a part
    of one with a client, the match waits instead."""
    machine = draft.state.machines.get(slot.machine)
    if machine is not None and not accepts_claims(machine):
        void(draft, slot, "claim_failed")
        return
    if slot.destination == "Matched" or slot.kind == "dynamic":
        return
    draft.move_match(slot, "claim")
    why, job = draft.why("claimed"), job_id(cluster.id, proc)
    whose, limits = draft.state.matched_by.get(slot.name, ""), draft.state.matched_limits.get(slot.name, "")
    waits = ClaimQueued(*why, slot.name, claim, cluster.submitter, value, "", job, {}, limits=limits, negotiator=whose)
    wait_for_client(draft, slot, waits)


def begin(draft: Draft, slot: Slot, cluster: Cluster, proc: int) -> None:
    """Start the job for which the slot was claimed, or the next one."""
    if not activate(draft, slot, cluster, proc):
        reuse_claim(draft, slot, cluster.id)


def activate(draft: Draft, slot: Slot, cluster: Cluster, proc: int) -> bool:
    """Start a job on a claimed, idle slot. What starts its processes is the event's being in the log. Return False if
    the slot cannot fill in what the job's ad asks for: it is held."""
    assert slot.claim is not None
    expanded = expanded_by(draft, slot.ad, cluster, proc)
    if expanded is None:
        return False
    draft.fire("job", "Idle", "activate")
    promised = time_limits.machine_vacate_time(policy_of(draft, slot))
    draft.move_claim(slot, "activate")
    draft.emit(
        JobActivated(
            *draft.why("activated"),
            cluster.id,
            proc,
            slot.name,
            slot.claim.id,
            promised,
            provides(slot, cluster.requested_value(proc, "JobMachineAttrs")),
            expanded,
            deferral(draft, cluster, proc),
        )
    )
    trigger(draft, slot, "activate", "activated")
    return True


def job_ended(draft: Draft, slot: Slot, cluster: int, reuses: bool) -> None:
    """The last process of the slot's job, of this cluster, is gone: the slot goes on, and if it is still claimed and
    idle then, so does its holder: with its next job there, or without ``reuses`` by giving the claim up."""
    trigger(draft, slot, "job reported", "job_ended")
    job_gone(draft, slot)
    if draft.state.slots.get(slot.name) is slot and slot.state_activity == "Claimed/Idle" and _goes_on(draft, slot):
        if reuses:
            reuse_claim(draft, slot, cluster)
        else:
            release(draft, slot, "execution_failed")


def _goes_on(draft: Draft, slot: Slot) -> bool:
    """Return whether the pool's own access point holds the slot, and not for a job that is still to begin."""
    state = draft.state
    own = slot.claim is not None and not slot.claim.holder
    return own and slot.name not in state.claim_ready and not state.is_earmarked(slot)


def _ends(draft: Draft, slot: Slot) -> bool:
    """Return whether the slot's machine is shut down: no job begins there any more."""
    machine = draft.state.machines.get(slot.machine)
    return machine is not None and bool(machine.shutdown)


def reuse_claim(draft: Draft, slot: Slot, before: int) -> None:
    """A claimed slot is idle: give it the next job of its submitter that fits, or release the claim. `before`: the
    cluster of the job that it had; that one of another fits is noted with its evidence."""
    assert slot.claim is not None
    over = room(draft.state) <= 0
    while found := None if over or _ends(draft, slot) else _next(draft, slot, slot.claim.submitter):
        cluster, proc, job, signature = found
        if cluster.id != before:
            reads = draft.caches.of(ReadsOfKinds).find(signature, job())
            draft.emit(evidence(draft, job(), slot_ad(draft, slot, words(signature)), reads))
        if activate(draft, slot, cluster, proc):
            return
    release(draft, slot, "no_more_jobs")


def _next(draft: Draft, slot: Slot, submitter: str) -> tuple[Cluster, int, Callable[[], ClassAd], Signature] | None:
    """Return the submitter's next job that fits, with its ad and what makes it like others; None: there is none."""
    likeness = significance(draft.state, draft.caches)
    refused: set[int] = set()
    for cluster, proc, number in waiting(draft.state, submitter, draft.caches, refused):
        job, signature = cache(partial(job_ad, cluster, proc)), likeness.signature(cluster, proc)
        wish = cluster.requested_value(proc, LIMITS)
        if fits(draft, slot, job, signature) and takes_the_same(draft, slot, wish, job, signature):
            return cluster, proc, job, signature
        refused.add(number)
    return None


# Ending what runs


def vacate(draft: Draft, slot: Slot, fast: bool, cause: str) -> bool:
    """Vacate a slot, whatever it does, because of `cause`; False if it has neither claim nor match."""
    return kill(draft, slot, cause) if fast else retire(draft, slot, cause) or slot.state == "Preempting"


def stop(draft: Draft, activation: Activation, cause: str, evidence: int = 0, vacated: Ad | None = None) -> None:
    """The claim's holder ends its job and keeps the claim: softly, unless the job wants no grace. A suspended job is
    let go on for it. ``evidence`` and ``vacated``: see ``JobSignalled``."""
    slot = draft.state.slots.get(activation.slot)
    if slot is not None and slot.state_activity == "Claimed/Suspended":
        resume(draft, slot, cause, evidence)
        draft.move_slot(slot, SlotRow.CONTINUE, cause)
    signal(draft, activation, "soft" if _wants_grace(draft, activation) else "hard", cause, evidence, vacated)


def _wants_grace(draft: Draft, activation: Activation) -> bool:
    """Whether a job that is held or removed is first told to end by its kill signal: WantGracefulRemoval, or else
    GRACEFULLY_REMOVE_JOBS (BaseShadow::jobWantsGracefulRemoval)."""
    cluster = draft.state.clusters[activation.cluster]
    asked = expression(cluster.requested_value(activation.proc, "WantGracefulRemoval") or "undefined")
    wanted = None if asked is None else truth(asked, ad_of(cluster.attributes(activation.proc)), None, draft.context)
    return draft.state.settings.get("GRACEFULLY_REMOVE_JOBS", "true").lower() != "false" if wanted is None else wanted


def signal(
    draft: Draft, activation: Activation, how: str, cause: str, evidence: int = 0, vacated: Ad | None = None
) -> None:
    """Tell a job's processes to end. Once told softly, they are not told so again."""
    if how == "hard" or not activation.stop:
        signal_job(draft, activation, how, cause, evidence, vacated)
