"""What becomes of dynamic slots whose resources a match of their partitionable slot takes.

Their claims are killed, whatever their jobs ask for, and their resources go back at once, while the jobs are still to
end. Source: the real startd's ``request_claim``, to which the access point gives the claims to be preempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..decision.draft import Draft, Refusal
from ..state.records import Slot
from ..state.state import ExecutionPoint
from .dynamic_slots import give_back
from .slot_policy_evaluation import policy_of
from .time_limits import retirement_over
from .vacating import kill

CAUSE: Final = "pslot_preemption"


def preempt(draft: Draft[ExecutionPoint], parent: Slot, names: Sequence[str]) -> None:
    """Kill the claims of these dynamic slots of ``parent``, and give it back what they have."""
    for name in names:
        slot = draft.state.slots[name]
        kill(draft, slot, CAUSE)
        if draft.state.slots.get(name) is slot:  # else it had no job to end, and is gone
            give_back(draft, parent, slot, CAUSE)


def preempt_for_claim(draft: Draft[ExecutionPoint], names: Sequence[str]) -> None:
    """Do the same for a claim from outside of this pool.

    :raises Refusal: one of them is no claimed dynamic slot, or of another slot than the others, or its job has
        retirement time left: then none goes
    """
    slots = [draft.state.slots.get(name) for name in names]
    for name, slot in zip(names, slots, strict=True):
        if slot is None or slot.kind != "dynamic" or slot.claim is None:
            raise Refusal(f"slot {name} is no claimed dynamic slot: it cannot go for a claim")
        if not retirement_over(policy_of(draft, slot)):
            raise Refusal(f"slot {name} still has retirement time: it cannot go for a claim at once")
    parents = {slot.parent for slot in slots if slot is not None}
    if len(parents) > 1:
        raise Refusal(f"slots {', '.join(names)} are not of one partitionable slot")
    preempt(draft, draft.state.slots[parents.pop()], names)
