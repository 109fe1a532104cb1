"""Check dynamic slots that go for a match of the slot that they were carved from."""

from __future__ import annotations

from typing import Final

from ...domain import events as e
from ...domain.names import SlotName
from ...domain.state.state import Slot
from ...domain.state_machines.slot_rows import KILLING
from .judged_pool import JudgedPool, has_wishes, policy

_GOING: Final = (KILLING, "Claimed/Cleaning")


def preempts(pool: JudgedPool, match: e.Match) -> None:
    """Check the dynamic slots that are to go for a match: claimed parts of the same slot, none with retirement time."""
    if match.preempts and not match.reason:
        pool.report_slot(match.slot, "match", f"others go for job {match.job}, and no reason is given")
    for name in match.preempts:
        slot = pool.state.slots.get(name)
        if slot is None or slot.claim is None or slot.parent != str(SlotName.parse(match.slot).parent):
            words = f"{name} is to go for job {match.job}, but is no claimed part of the slot that was matched"
            pool.report_slot(match.slot, "match", words)
            continue
        granted, run = policy(slot, "maxjobretirementtime") or "0", slot.activation
        at = 0 if pool.event is None else pool.event.at
        retires = run is not None and granted.isdecimal() and run.ran(at) < 1_000_000 * int(granted)
        if run is not None and retires and not has_wishes(pool, run):  # a job may ask for less
            words = f"it is to go for job {match.job}, and its job has retirement time left"
            pool.report_slot(name, "retirement", words)
        pool.preempted[name] = match.job


def goes(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """Take note of a slot that is said to go for a match, or for a claim from outside (asked at the stimulus's end)."""
    pool.going[slot.name] = slot.parent


def claimed(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    """Take note of a claim from outside of a part of a slot: others may have gone for it."""
    if event.holder and slot.parent:
        pool.claimed_parts.add(slot.parent)


def gives_back(pool: JudgedPool, slot: Slot, given: dict[str, int]) -> None:
    """Check that a dynamic slot that goes for a match gives all of its resources back."""
    if slot.name not in pool.going or slot.state_activity not in _GOING:
        pool.report_slot(slot.name, "resources", "it gives its resources back, but does not go for a match")
    if any(pool.amounts[slot.name].have.values()):
        pool.report_slot(slot.name, "resources", "it gives back a part of its resources alone")
    if slot.parent in pool.amounts:
        carved = pool.amounts[slot.parent].carved
        for resource, many in given.items():
            carved[resource] = carved.get(resource, 0) - many


def settle(pool: JudgedPool) -> None:
    """Check that who was to go goes."""
    for name, job in pool.preempted.items():
        slot = pool.state.slots.get(name)
        if slot is not None and slot.state_activity not in _GOING:
            pool.report_slot(name, "match", f"it was to go for job {job}, and is {slot.state_activity}")
    for name, parent in pool.going.items():
        if name not in pool.preempted and parent not in pool.claimed_parts:
            pool.report_slot(name, "match", "it is said to go for a match, and no match takes its resources")
    pool.preempted, pool.going, pool.claimed_parts = {}, {}, set()
