"""Leases of claims: how long a claim lasts while its holder is silent."""

from __future__ import annotations

from ..decision.draft import Draft, Refusal
from ..events import ClaimHolderSilent
from ..ports import stimuli as s
from ..state.records import Slot
from ..state.state import ExecutionPoint, GivenAd
from ..units import SECOND
from .claiming import slot_named
from .slot_policy_evaluation import policy_of
from .startd_settings import duration


def _default_lease(draft: Draft[ExecutionPoint], slot: Slot) -> int:
    """Return MAX_CLAIM_ALIVES_MISSED times ALIVE_INTERVAL, in seconds."""
    machine = draft.state.machines.get(slot.machine)
    missed = duration(draft.state, machine, "MAX_CLAIM_ALIVES_MISSED") // SECOND
    return missed * duration(draft.state, machine, "ALIVE_INTERVAL") // SECOND


def holder_silent(draft: Draft[ExecutionPoint], stimulus: s.HolderSilent) -> None:
    """Record that the holder is silent, and when its lease expires."""
    slot = slot_named(draft, stimulus.slot)
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
    slot = slot_named(draft, stimulus.slot)
    if slot.claim is not None and slot.claim.until:
        draft.emit(ClaimHolderSilent(*draft.why("heard"), slot.name, slot.claim.id, 0))
