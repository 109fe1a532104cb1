"""Claim leases: a claim ends when its holder has been silent for too long."""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import Ad, ClaimHolderSilent
from ..names import SlotName
from ..ports import stimuli as s
from ..state.records import Slot
from ..state.state import ExecutionPoint, SentAd
from ..units import SECOND
from .claiming import find_slot
from .slot_policy_evaluation import policy_of
from .startd_settings import duration
from .vacating import kill_claim


def record_holder_silence(draft: Draft[ExecutionPoint], stimulus: s.HolderSilent) -> None:
    """Record that the claim's holder is silent, and when its lease expires. If it has expired, end the claim."""
    slot = find_slot(draft, stimulus.slot)
    if slot.claim is None:
        raise Refusal(f"slot {slot.name} is not claimed, so it has no lease")
    lease_end = stimulus.heard + claim_lease(draft, slot) * SECOND
    draft.emit(ClaimHolderSilent(*draft.header("unheard"), slot.name, slot.claim.id, lease_end))
    if lease_end <= draft.now and slot.state == "Claimed":
        kill_claim(draft, slot, "lease_over")


def claim_lease(draft: Draft[ExecutionPoint], slot: Slot) -> int:
    """Return the number of seconds for which the slot's claim lasts without a message from its holder (the manual's
    "The Claimed State and Leases"): JobLeaseDuration of the running job, or of the job it was claimed for; if that is
    undefined or 0, the lease that the holder requested; else MAX_CLAIM_ALIVES_MISSED times ALIVE_INTERVAL."""
    claim = slot.claim
    lease = policy_of(draft, slot).job_number("JobLeaseDuration") or 0
    if lease <= 0 and claim is not None:
        text = SentAd(claim.ad).value("JobLeaseDuration")
        lease = int(text) if text.isdecimal() else claim.lease
    if lease > 0:
        return lease
    return default_lease(draft, slot.name)


def lease_of_claim(slot: Slot, job: Ad | None = None) -> int:
    """Return the lease of an access point with a separate log, in seconds, as both sides compute it: JobLeaseDuration
    in the ad that the job had when it was activated, or else the lease that the claim was granted with; 0 if the slot
    is not claimed.

    :param job: the ad of a job that is being activated
    """
    claim, run = slot.claim, slot.activation
    if claim is None:
        return 0
    text = SentAd(job if job is not None else claim.ad if run is None else run.ad).value("JobLeaseDuration")
    return int(text) if text.isdecimal() and int(text) else claim.lease


def lease_time(slot: Slot, job: Ad | None = None) -> int:
    """Return for how many microseconds a claim lasts after its last renewal: the lease and a third, because the last
    renewal before the network failed may be that old, and a failure shorter than the lease must not end the claim.

    :param job: as in ``lease_of_claim``
    """
    lease = lease_of_claim(slot, job) * SECOND
    return lease + lease // 3


def default_lease(draft: Draft[ExecutionPoint], slot: str) -> int:
    """Return the lease of a claim whose job has no JobLeaseDuration, in seconds."""
    machine = draft.state.machines.get(SlotName.parse(slot).machine)
    max_missed = duration(draft.state, machine, "MAX_CLAIM_ALIVES_MISSED") // SECOND
    return max_missed * duration(draft.state, machine, "ALIVE_INTERVAL") // SECOND


def record_holder_message(draft: Draft[ExecutionPoint], stimulus: s.HolderHeard) -> None:
    slot = find_slot(draft, stimulus.slot)
    if slot.claim is not None and slot.claim.lease_end:
        draft.emit(ClaimHolderSilent(*draft.header("heard"), slot.name, slot.claim.id, 0))
