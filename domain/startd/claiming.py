"""Claims of slots: by the pool's own schedd, or by one outside of it.

A claim of a slot that has one already is a better match: it waits for the end of that one, which the policy causes. All
other messages of an outside holder come in here, too.
"""

from __future__ import annotations

from math import isfinite

from msgspec.structs import replace

from ..classad import ClassAd, Context, EvaluationError
from ..classad.tree import Literal
from ..concurrency_limits import LIMITS
from ..decision.draft import Draft, Refusal
from ..events import (
    Ad,
    ClaimActivated,
    ClaimDeactivated,
    ClaimHolderSilent,
    ClaimMade,
    ClaimQueued,
    ClaimWithdrawn,
    DrainBadputAdded,
    JobActivated,
)
from ..names import SlotName, dynamic_name
from ..ports import stimuli as s
from ..ports.messages import CarveSlot, DropMatch, EndJob, OpenAccount, ShowSlot, SlotSeen
from ..state import negotiators
from ..state.caches import Caches, ad_of, expression
from ..state.job_limits import evaluated
from ..state.slot_fold import OF_ITS_JOB
from ..state.state import ExecutionPoint, GivenAd, Slot, provides
from ..state_machines import SlotRow
from ..state_machines.claim import REQUESTED
from ..state_machines.slot_rows import BACKFILL_BUSY, BACKFILL_IDLE, BACKFILL_KILLING
from ..units import SECOND
from . import time_limits
from .backfill_client import is_in_the_way
from .draining import accepts_claims
from .dynamic_slots import carve, remaining, requested_resources, weight_of
from .job_signals import resume, signal
from .pslot_preemption import preempt, preempt_for_claim
from .public_ad import PublishedSlots
from .slot_policy_evaluation import note_evidence, policy_of
from .startd_settings import duration
from .transitions import (
    apply_policy,
    end_claim,
    leave_preempting,
    mark,
    reevaluate,
    transition,
    trigger,
    withdraw_better_match,
)
from .vacating import void


def negotiator_of(state: ExecutionPoint, caches: Caches, slot: Slot, now: int, context: Context) -> str:
    """Return the negotiator whose slot this is, as events have it: it counts who claims it. Of a slot that is nobody's,
    the first."""
    if not negotiators.has_several(state.settings):
        return ""
    published = PublishedSlots(state, caches, now, context).ad(slot)
    named = negotiators.names(state.settings)
    for name in named:
        asked = expression(negotiators.partition(state.settings, name) or "true")
        try:
            if asked is not None and asked.evaluate(published, None, context) is True:
                return negotiators.short(name)
        except EvaluationError:
            continue
    return negotiators.short(named[0])


HELD = ("Claimed", "Preempting")
"""The states of a slot that somebody has."""


def rank_of(draft: Draft[ExecutionPoint], slot: Slot, job: Ad) -> float:
    """Return the slot's RANK of a job; a value that is no number counts as 0.

    A slot without a RANK values all jobs alike, says the manual. The real startd looks up in the job what its ad lacks
    (Resource::compute_rank), and so takes the job's own Rank of the slot.
    """
    policy = policy_of(draft, slot)
    asked, swapped = policy.expression("Rank"), False
    if asked is None and draft.state.dialect.takes_job_rank_for_missing_rank:
        asked, swapped = ad_of(job).get("Rank"), True
    if asked is None:
        return 0.0
    if isinstance(asked, Literal):
        value = asked.value
    else:
        ads = policy.whole_ads()[0], ad_of(job)
        mine, target = ads[::-1] if swapped else ads
        try:
            value = asked.evaluate(mine, target, draft.context)
        except EvaluationError:
            return 0.0
    return float(value) if isinstance(value, int | float) and isfinite(value) else 0.0


def accept_claim(draft: Draft[ExecutionPoint], slot: Slot, made: ClaimMade, fired: str = "claim") -> bool:
    """Claim the slot. Return False if it could not be, or if its policy took the claim back at once.

    :param fired: the trigger, by which a slot goes to Claimed whose backfill client is gone
    """
    steps = draft.state.dialect.steps(fired, slot.state_activity)
    draft.fire("claim", REQUESTED, "accept" if steps else "refuse")
    if not steps:
        return False
    if slot.name in draft.state.slot_matches:
        draft.move_match(slot, "claim")
    before = slot.state_activity
    for step in steps:
        draft.move_slot(slot, step.row, "claimed", step.target)
    draft.emit(made)
    if time_limits.draining(policy_of(draft, slot)):
        mark(draft, slot, "late")
    if draft.state.dialect.steps("revert", slot.state_activity) and _unwanted(draft, slot):
        end_claim(draft, slot, "start_false")
        trigger(draft, slot, "revert", "claim_failed", before)
        if slot.state_activity == BACKFILL_IDLE:
            transition(draft, slot, SlotRow.LEAVE_BACKFILL, "claim_failed")
        return False
    reevaluate(draft, slot)
    return slot.claim is not None


def _unwanted(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Tell whether the policy would end the claim in the instant in which it begins."""
    return policy_of(draft, slot).true("IS_OWNER")


# Slots with a backfill client, or on the cores of one that is still to go


def wait_for_client(draft: Draft[ExecutionPoint], slot: Slot, waits: ClaimQueued) -> None:
    """Let a claim wait for the end of the client, and end it; one claim at a time, the last that came."""
    if slot.waiting is not None:
        draft.emit(ClaimWithdrawn(*draft.why("claimed"), slot.name, slot.waiting.id))
    draft.emit(waits)
    trigger(draft, slot, "claim waits", "claimed")
    if not is_in_the_way(draft.state, slot):
        claim_for_waiting(draft, slot)


def waits_without_claim(slot: Slot) -> bool:
    """Tell whether a claim waits for a slot that nobody has."""
    return slot.waiting is not None and slot.claim is None


def claim_for_waiting(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Give a slot to the claim that waits for it, since no client is in the way any more."""
    waiting = slot.waiting
    assert waiting is not None
    made = ClaimMade(
        *draft.why("claimed"), slot.name, waiting.id, waiting.submitter, weight_of(slot), waiting.rank, waiting.holder,
        waiting.job, waiting.ad, waiting.lease,
        draft.send(OpenAccount(waiting.submitter, waiting.negotiator)), waiting.limits, waiting.negotiator,
    )  # fmt: skip
    in_backfill = slot.state_activity == BACKFILL_KILLING
    accept_claim(draft, slot, made, "client gone, claimed" if in_backfill else "claim")
    if slot.waiting is waiting:  # it cannot be claimed where it is by now
        withdraw_better_match(draft, slot, "claim_failed")
        if in_backfill:
            trigger(draft, slot, "client gone", "client_gone")


def leave_for_part(draft: Draft[ExecutionPoint], parent: Slot) -> None:
    """End the client on the cores of a partitionable slot of which a part was given away."""
    if parent.state == "Backfill":
        trigger(draft, parent, "retire", "carved")


# Messages from outside


def _slot(draft: Draft[ExecutionPoint], name: str) -> Slot:
    slot = draft.state.slots.get(name)
    if slot is None:
        raise Refusal(f"there is no slot {name}; `poolbook status` lists them")
    return slot


def notify_match(draft: Draft[ExecutionPoint], stimulus: s.NotifyMatch) -> None:
    """Carve the part that was matched, if it is one; match the slot (6): it waits for its claim."""
    slot = _slot(draft, stimulus.slot)
    if stimulus.part:
        parent = slot
        preempt(draft, parent, stimulus.preempts)
        slot = carve(draft, parent, stimulus.part, ad_of(stimulus.ad))
        leave_for_part(draft, parent)
        if stimulus.carves_alone:
            return
        reevaluate(draft, slot)
    trigger(draft, slot, "match", "matched")


def request_claim(draft: Draft[ExecutionPoint], stimulus: s.RequestClaim) -> bool:
    """Claim a slot; on a claimed slot, the claim waits. Return True if the holder has the slot now."""
    if not stimulus.holder:
        return _claim_for_own(draft, stimulus)
    machine = draft.state.machines.get(SlotName.parse(stimulus.slot).machine)
    if machine is not None and not accepts_claims(machine):
        raise Refusal(f"machine {machine.name} drains or is shut down: it takes no claims")
    slot = draft.state.slots.get(stimulus.slot)
    if slot is not None and slot.state in HELD and _likes_more(slot, rank_of(draft, slot, stimulus.ad)):
        raise Refusal(f"slot {slot.name} has, or waits for, a claim that its RANK values more: it refuses this one")
    if stimulus.preempts:
        preempt_for_claim(draft, stimulus.preempts)
    if slot is None or slot.kind == "partitionable":
        slot = _carved(draft, stimulus, slot)
    value = rank_of(draft, slot, stimulus.ad)
    limits = limits_of(draft, slot, stimulus.ad)
    whose = negotiator_of(draft.state, draft.caches, slot, draft.now, draft.context)
    waits = ClaimQueued(
        *draft.why("better_match"), slot.name, stimulus.claim, stimulus.submitter, value, stimulus.holder,
        stimulus.job, stimulus.ad, stimulus.lease, limits, whose,
    )  # fmt: skip
    if slot.state in HELD:
        queue_claim(draft, slot, waits)
        return False
    if slot.state_activity == BACKFILL_BUSY or is_in_the_way(draft.state, slot):
        wait_for_client(draft, slot, replace(waits, cause="claimed"))
        return False
    made = ClaimMade(
        *draft.why("claimed"), slot.name, stimulus.claim, stimulus.submitter, weight_of(slot), value, stimulus.holder,
        stimulus.job, stimulus.ad, stimulus.lease,
        draft.send(OpenAccount(stimulus.submitter, whose)), limits, whose,
    )  # fmt: skip
    accepted = accept_claim(draft, slot, made)
    if not accepted and slot.state not in HELD and not draft.events:
        raise Refusal(f"slot {slot.name} is {slot.state_activity}: it cannot be claimed there")
    return accepted


def _claim_for_own(draft: Draft[ExecutionPoint], stimulus: s.RequestClaim) -> bool:
    """Claim a slot for the pool's own access point, which was matched with it."""
    state, slot = draft.state, _slot(draft, stimulus.slot)
    value = rank_of(draft, slot, stimulus.ad)
    machine = state.machines.get(slot.machine)
    closed = machine is not None and not accepts_claims(machine)
    if not stimulus.claims_part and slot.state in HELD:
        if closed or _likes_more(slot, value):
            void(draft, slot, "claim_failed")
        else:
            draft.move_match(slot, "claim")
            queue_claim(draft, slot, _waiting(draft, stimulus, "better_match", value))
        return False
    if not stimulus.claims_part and (slot.state_activity == BACKFILL_BUSY or is_in_the_way(state, slot)):
        if closed:
            void(draft, slot, "claim_failed")
        elif slot.destination != "Matched" and slot.kind != "dynamic":  # else the match waits for the client instead
            draft.move_match(slot, "claim")
            wait_for_client(draft, slot, _waiting(draft, stimulus, "claimed", value))
        return False
    limits = limits_of(draft, slot, stimulus.ad) if stimulus.claims_part else stimulus.limits
    factor = draft.send(OpenAccount(stimulus.submitter, stimulus.negotiator))
    cause, job = ("coalesced", stimulus.job) if stimulus.claims_part else ("claimed", "")
    made = ClaimMade(
        *draft.why(cause), slot.name, stimulus.claim, stimulus.submitter, weight_of(slot), value, job=job,
        ad=state.recorded(stimulus.ad), factor=factor, limits=limits, negotiator=stimulus.negotiator,
    )  # fmt: skip
    if accept_claim(draft, slot, made):
        return True
    if slot.name in state.slot_matches:
        void(draft, slot, "claim_failed")
    return False


def _likes_more(slot: Slot, rank: float) -> bool:
    """Return True if the slot values the claim that it has, or the one that waits, more than a job of this rank: then
    it refuses the job's claim (the real startd's request_claim)."""
    return any(claim is not None and rank < claim.rank for claim in (slot.claim, slot.waiting))


def _waiting(draft: Draft[ExecutionPoint], stimulus: s.RequestClaim, cause: str, rank: float) -> ClaimQueued:
    return ClaimQueued(
        *draft.why(cause), stimulus.slot, stimulus.claim, stimulus.submitter, rank, "", stimulus.job,
        draft.state.recorded(stimulus.ad), limits=stimulus.limits, negotiator=stimulus.negotiator,
    )  # fmt: skip


def limits_of(draft: Draft[ExecutionPoint], slot: Slot, job: Ad) -> str:
    """Return what a job takes of concurrency limits with the slot, without a match: from outside of this pool it counts
    as well."""
    if LIMITS not in job:
        return ""
    return evaluated(ad_of(job), policy_of(draft, slot).whole_ads()[0], draft.context)


def queue_claim(draft: Draft[ExecutionPoint], slot: Slot, waits: ClaimQueued) -> None:
    """Let a better match wait for a slot that somebody has: one at a time, the last that came."""
    if slot.waiting is not None:
        draft.emit(ClaimWithdrawn(*draft.why("better_match"), slot.name, slot.waiting.id))
    draft.emit(waits)
    apply_policy(draft, slot)  # at once, as the real startd does


def _carved(draft: Draft[ExecutionPoint], stimulus: s.RequestClaim, parent: Slot | None) -> Slot:
    """Return the dynamic slot that a claim of a partitionable one asks for; carve it unless it exists."""
    name = stimulus.slot
    if parent is not None:
        name = dynamic_name(parent.name, draft.state.slots)
    else:
        parent = draft.state.slots.get(str(SlotName.parse(name).parent))
    if parent is None or parent.kind != "partitionable":
        raise Refusal(f"there is no slot {name}, and no partitionable slot to carve it from")
    return carve_claimable(draft, parent, name, ad_of(stimulus.ad))


def carve_slot(draft: Draft[ExecutionPoint], message: CarveSlot) -> str:
    parent = draft.state.slots[message.slot]
    if requested_resources(draft, parent, message.ad, remaining(parent)) is None:
        return ""
    return carve_claimable(draft, parent, dynamic_name(parent.name, draft.state.slots), message.ad).name


def show_slot(draft: Draft[ExecutionPoint], message: ShowSlot) -> SlotSeen | None:
    slot = draft.state.slots.get(message.slot)
    if slot is None:
        return None
    machine = draft.state.machines.get(slot.machine)
    starts = machine is None or not machine.shutdown
    return SlotSeen(slot.state_activity, slot.kind, slot.parent, slot.ad, slot.version, starts)


def drop_match(draft: Draft[ExecutionPoint], message: DropMatch) -> None:
    void(draft, draft.state.slots[message.slot], message.cause)


def carve_claimable(draft: Draft[ExecutionPoint], parent: Slot, name: str, job: ClassAd) -> Slot:
    """Carve a dynamic slot for a job from ``parent``, and have it where it can be claimed.

    :raises Refusal: too little is left of the parent
    """
    slot = carve(draft, parent, name, job)
    leave_for_part(draft, parent)
    policy = policy_of(draft, slot)
    if not draft.state.dialect.steps("claim", slot.state_activity) and not policy.true("IS_OWNER"):
        draft.move_slot(slot, SlotRow.OWNER_LEAVES, "not_owner", evidence=note_evidence(draft, policy))
    return slot


def _default_lease(draft: Draft[ExecutionPoint], slot: Slot) -> int:
    """Return MAX_CLAIM_ALIVES_MISSED times ALIVE_INTERVAL, in seconds."""
    machine = draft.state.machines.get(slot.machine)
    missed = duration(draft.state, machine, "MAX_CLAIM_ALIVES_MISSED") // SECOND
    return missed * duration(draft.state, machine, "ALIVE_INTERVAL") // SECOND


def fail_claim(draft: Draft[ExecutionPoint], stimulus: s.FailClaim) -> None:
    """Return a slot in Matched or Unclaimed to Owner, since the claiming protocol failed."""
    trigger(draft, _slot(draft, stimulus.slot), "claim failed", "claim_failed")


def withdraw_claim(draft: Draft[ExecutionPoint], stimulus: s.WithdrawClaim) -> None:
    """Withdraw a waiting better match; a job that retired for it alone goes on at the policy's next round."""
    slot, job = draft.state.slots.get(stimulus.slot), stimulus.for_job
    waiting = None if slot is None and job else _slot(draft, stimulus.slot).waiting
    if waiting is not None and (not job or (not waiting.holder and waiting.job == job)):
        draft.emit(ClaimWithdrawn(*draft.why("better_match_gone"), stimulus.slot, waiting.id))


def activate_claim(draft: Draft[ExecutionPoint], stimulus: s.ActivateClaim) -> None:
    """Start a job on an idle claim (11)."""
    slot = _slot(draft, stimulus.slot)
    if slot.state_activity != "Claimed/Idle" or slot.claim is None:
        raise Refusal(f"slot {slot.name} is {slot.state_activity}: a claim can be activated in Claimed/Idle alone")
    machine = draft.state.machines.get(slot.machine)
    if machine is not None and machine.shutdown:
        raise Refusal(f"machine {machine.name} is shut down: no job can start there any more")
    promised = time_limits.machine_vacate_time(policy_of(draft, slot))
    draft.move_claim(slot, "activate")
    why, claim = draft.why("activated"), slot.claim.id
    if stimulus.cluster:
        job = stimulus.cluster, stimulus.proc
        given, ad = provides(slot, stimulus.wanted), draft.state.recorded(stimulus.ad)
        begun = JobActivated(*why, *job, slot.name, claim, promised, given, stimulus.expanded, stimulus.deferred, ad=ad)
        draft.emit(begun)
    else:
        draft.emit(ClaimActivated(*why, slot.name, claim, stimulus.job, stimulus.ad, promised))
    trigger(draft, slot, "activate", "activated")


def deactivate_claim(draft: Draft[ExecutionPoint], stimulus: s.DeactivateClaim) -> None:
    """End the holder's job, softly unless ``fast``. If the claim is to end anyway, it is released with the job (the
    real startd's release_claim)."""
    slot, how = _slot(draft, stimulus.slot), "hard" if stimulus.fast else "soft"
    if slot.activation is not None and slot.activation.cluster and not stimulus.closing:
        if stimulus.resumes and slot.state_activity == "Claimed/Suspended":
            resume(draft, slot, stimulus.cause, stimulus.evidence)
            draft.move_slot(slot, SlotRow.CONTINUE, stimulus.cause)
        signal(draft, slot, how, stimulus.cause, stimulus.evidence, stimulus.vacated)
        return
    if stimulus.closing or _closes(draft, slot):
        if slot.activity == "Cleaning":
            mark(draft, slot, "closing")
        if trigger(draft, slot, "deactivate and close", "deactivated"):
            return
    signal(draft, slot, how, stimulus.cause)


def _closes(draft: Draft[ExecutionPoint], slot: Slot) -> bool:
    """Tell whether the claim gets no further job: it retires, a better match waits, its machine drains, or it is too
    old."""
    if slot.claim is None:
        return False
    policy = policy_of(draft, slot)
    retires = slot.activity == "Retiring" or slot.waiting is not None
    return retires or time_limits.draining(policy) or time_limits.worklife_over(policy)


def release_claim(draft: Draft[ExecutionPoint], stimulus: s.ReleaseClaim) -> None:
    """Give the claim up for its holder. In Cleaning, it ends when the job is gone."""
    slot = _slot(draft, stimulus.slot)
    if slot.activity == "Cleaning":
        mark(draft, slot, "closing")
    else:
        trigger(draft, slot, "release", stimulus.cause)


def _slot_of_starter(draft: Draft[ExecutionPoint], name: str) -> Slot:
    """Return the slot that another access point's starter tells of."""
    slot = _slot(draft, name)
    if slot.activation is not None and slot.activation.cluster:
        job = f"{slot.activation.cluster}.{slot.activation.proc}"
        raise Refusal(f"{name} runs job {job} of this queue: its own processes tell of its end, and nobody else")
    return slot


def starter_reported(draft: Draft[ExecutionPoint], stimulus: s.StarterReported) -> None:
    trigger(draft, _slot_of_starter(draft, stimulus.slot), "job reported", "job_ended")


def starter_gone(draft: Draft[ExecutionPoint], stimulus: s.StarterGone) -> None:
    slot = _slot_of_starter(draft, stimulus.slot)
    if slot.activation is not None:
        claim = slot.claim.id if slot.claim else ""
        charge_badput(draft, slot)
        draft.move_claim(slot, "end_job")
        draft.emit(ClaimDeactivated(*draft.why("job_ended"), slot.name, claim, slot.activation.job))
    job_gone(draft, slot)


def end_job(draft: Draft[ExecutionPoint], message: EndJob) -> str:
    """Note that the job of the pool's own queue is gone, before its access point logs that."""
    slot = draft.state.slots.get(message.slot)
    if slot is None:
        return ""
    charge_badput(draft, slot)
    draft.move_claim(slot, "end_job")
    return "" if slot.activation is None else slot.activation.leaving


def charge_badput(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Charge the run time of a job that a drain ended as the drain's badput."""
    claim, activation = slot.claim, slot.activation
    if (
        claim is not None
        and activation is not None
        and "drained" in claim.marks
        and slot.machine in draft.state.machines
    ):
        seconds = activation.ran(draft.now) // SECOND
        draft.emit(DrainBadputAdded(*draft.why("draining"), slot.machine, slot.name, round(seconds * slot.cores)))


def job_gone(draft: Draft[ExecutionPoint], slot: Slot) -> None:
    """Let the slot go on, since its job is gone."""
    if slot.state == "Preempting":
        leave_preempting(draft, slot, "claim_over")
        return
    closing = slot.claim is not None and "closing" in slot.claim.marks
    if (closing or slot.waiting is not None) and trigger(draft, slot, "job gone, claim closing", "job_ended"):
        return
    if slot.claim is not None and slot.activity != "Retiring" and slot.claim.marks & OF_ITS_JOB:
        mark(draft, slot, "job_over")
    trigger(draft, slot, "job gone", "job_ended")


# Leases


def holder_silent(draft: Draft[ExecutionPoint], stimulus: s.HolderSilent) -> None:
    """Note that the holder is silent: its lease runs out."""
    slot = _slot(draft, stimulus.slot)
    if slot.claim is None:
        raise Refusal(f"slot {slot.name} is not claimed: nobody's silence matters to it")
    until = stimulus.heard + lease_of(draft, slot) * SECOND
    draft.emit(ClaimHolderSilent(*draft.why("unheard"), slot.name, slot.claim.id, until))


def lease_of(draft: Draft[ExecutionPoint], slot: Slot) -> int:
    """Return how long the slot's claim lasts without a sign of its holder, in seconds: JobLeaseDuration of the job that
    runs, or that it was claimed for; where that is undefined or 0, the holder's request; else MAX_CLAIM_ALIVES_MISSED
    times ALIVE_INTERVAL (the manual's "The Claimed State and Leases")."""
    claim = slot.claim
    wish = policy_of(draft, slot).job_number("JobLeaseDuration") or 0
    if wish <= 0 and claim is not None:
        text = GivenAd(claim.ad).value("JobLeaseDuration")
        wish = int(text) if text.isdecimal() else claim.lease
    return wish if wish > 0 else _default_lease(draft, slot)


def holder_heard(draft: Draft[ExecutionPoint], stimulus: s.HolderHeard) -> None:
    slot = _slot(draft, stimulus.slot)
    if slot.claim is not None and slot.claim.until:
        draft.emit(ClaimHolderSilent(*draft.why("heard"), slot.name, slot.claim.id, 0))
