"""Preempt dynamic slots for a match with their partitionable slot.

The claims of the dynamic slots are killed regardless of their jobs' retirement time. Their resources return to the
partitionable slot immediately, even before the jobs have ended, so that the match can be claimed. Source: HTCondor's
``request_claim``, to which the access point passes the claims to preempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..decision.draft import Draft, Refusal
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .dynamic_slots import return_resources
from .slot_policy_evaluation import policy_of
from .time_limits import retirement_over
from .vacating import kill_claim

CAUSE: Final = "pslot_preemption"


def preempt_slots(draft: Draft[ExecutionPoint], parent: Slot, names: Sequence[str]) -> None:
    """Kill the claims of these dynamic slots, and return their resources to ``parent``."""
    for name in names:
        slot = draft.state.slots[name]
        kill_claim(draft, slot, CAUSE)
        if draft.state.slots.get(name) is slot:  # a slot without a job no longer exists
            return_resources(draft, parent, slot, CAUSE)


def preempt_for_claim(draft: Draft[ExecutionPoint], names: Sequence[str]) -> None:
    """Preempt these dynamic slots for a requested claim.

    :raises Refusal: if a slot is not a claimed dynamic slot, its job has retirement time left, or the slots have
        different parents; no slot is preempted then
    """
    slots = [draft.state.slots.get(name) for name in names]
    for name, slot in zip(names, slots, strict=True):
        if slot is None or slot.kind != "dynamic" or slot.claim is None:
            raise Refusal(f"slot {name} is not a claimed dynamic slot, so it cannot be preempted for a claim")
        if not retirement_over(policy_of(draft, slot)):
            raise Refusal(f"slot {name} still has retirement time, so it cannot be preempted for a claim now")
    parents = {slot.parent for slot in slots if slot is not None}
    if len(parents) > 1:
        raise Refusal(f"slots {', '.join(names)} do not belong to the same partitionable slot")
    preempt_slots(draft, draft.state.slots[parents.pop()], names)
