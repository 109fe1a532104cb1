"""How events change a manager's accounting, its concurrency limits, and its records of cycles and polls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import events as e
from ..names import AccountName
from ..state.defrag_state import polled, switched
from ..state.pool_settings import DEFRAG
from ..state.state import Manager
from .matches import end_match, match_of_claim, own_job

INTERVAL = "DEFRAG_INTERVAL"


def _switch_defrag(state: Manager, event: e.PoolFounded | e.PoolConfigured) -> None:
    """Switch the defragmentation on or off; another name is another daemon."""
    settings = event.settings
    if "DEFRAG_NAME" in settings:
        state.defrag = switched(state.defrag, bool(settings["DEFRAG_NAME"].strip()), state.at)
    state.defrag.configured = state.at


def _defrag_polled(state: Manager, event: e.DefragPolled) -> None:
    interval = state.settings.get(INTERVAL, DEFRAG[INTERVAL].default)
    schedule = state.settings.get("DEFRAG_DRAINING_SCHEDULE", DEFRAG["DEFRAG_DRAINING_SCHEDULE"].default)
    polled(state.defrag, event, int(interval), schedule)


# What matches and claims hold of concurrency limits, and what claims count for


def _cycle(state: Manager, event: e.CycleHeld) -> None:
    for match in event.matches:
        state.match_limits.setdefault(match.slot, {})[match.job] = match.limits
        state.hold_limits(match.limits, 1)
        state.slots_matched.append(match.slot)
    state.cycles.note_cycle(event, state.position)
    for group in event.remainders:
        state.remainders[group] = event.at


def _end_claimed(state: Manager, slot: str, job: str | None) -> None:
    """End the match for which a claim of the slot was made, or waits."""
    matched = match_of_claim(state.match_limits, slot, job)
    if matched is not None:
        state.hold_limits(end_match(state.match_limits, *matched) or "", -1)


def _leave_queue(state: Manager, slot: str) -> None:
    state.hold_limits(state.queued_limits.pop(slot, ""), -1)


def _match_voided(state: Manager, event: e.MatchVoided) -> None:
    state.hold_limits(end_match(state.match_limits, event.slot, event.job) or "", -1)


def _submitted(state: Manager, event: e.ClusterSubmitted) -> None:
    state.submitter(event.submitter, event.factor)


def _claim_made(state: Manager, event: e.ClaimMade) -> None:
    slot = event.slot
    state.submitter(_account(event), event.factor).take(event.weight, event.at)
    _end_claimed(state, slot, own_job(event))
    _leave_queue(state, slot)
    before = state.resources.get(slot)
    if before is not None:
        state.hold_limits(before[1], -1)
    state.hold_limits(event.limits, 1)
    state.resources[slot] = event.weight, event.limits


def _claim_waits(state: Manager, event: e.ClaimQueued) -> None:
    job = own_job(event)
    if job is not None:
        _end_claimed(state, event.slot, job)
    _leave_queue(state, event.slot)
    if event.limits:
        state.hold_limits(event.limits, 1)
        state.queued_limits[event.slot] = event.limits


def _claim_withdrawn(state: Manager, event: e.ClaimWithdrawn) -> None:
    _leave_queue(state, event.slot)


def _claim_ended(state: Manager, event: e.ClaimEnded) -> None:
    weight, limits = state.resources.pop(event.slot, (None, ""))
    state.submitter(_account(event)).give_back(weight, event.usage, event.at)
    state.hold_limits(limits, -1)


def _account(event: e.ClaimMade | e.ClaimEnded) -> str:
    return str(AccountName(event.negotiator, event.submitter)) if event.negotiator else event.submitter


def _slot_died(state: Manager, event: e.SlotDestroyed) -> None:
    for limits in state.match_limits.pop(event.slot, {}).values():
        state.hold_limits(limits, -1)
    _leave_queue(state, event.slot)
    state.hold_limits(state.resources.pop(event.slot, (0, ""))[1], -1)


# Quotas and submitters


def _quotas_assigned(state: Manager, event: e.QuotasAssigned) -> None:
    state.quotas = event.groups


def _priorities(state: Manager, event: e.PrioritiesUpdated) -> None:
    for name, priority in event.priorities.items():
        state.submitter(str(AccountName(event.negotiator, name))).account(priority, event.at)
    if event.negotiator:
        state.accounted[event.negotiator] = event.at
    else:
        state.priorities_updated_at = event.at


def _submitter_set(state: Manager, event: e.SubmitterSet) -> None:
    state.cycles.news = state.position
    submitter = state.submitter(str(AccountName(event.negotiator, event.submitter)), event.factor)
    if event.until > event.at:
        submitter.leases[event.name] = event.value, event.until
    elif event.until:
        submitter.leases.pop(event.name, None)
    elif event.name == "priority":
        submitter.account(event.value, event.at)
    elif event.name == "usage":
        submitter.count(event.at)
        before = submitter.weighted_usage
        submitter.weighted_usage = round(event.value * 1_000_000_000)
        submitter.usage_accounted += submitter.weighted_usage - before
    elif event.name in ("begin", "last"):
        setattr(submitter, event.name, round(event.value * 1_000_000))
    else:
        setattr(submitter, event.name, event.value)


def _submitters_reset(state: Manager, event: e.SubmittersReset) -> None:
    state.cycles.news = state.position
    for name in event.submitters:
        submitter = state.submitter(str(AccountName(event.negotiator, name)), event.factors.get(name, 0.0))
        submitter.count(event.at)
        submitter.usage_accounted -= submitter.weighted_usage
        submitter.weighted_usage = submitter.unweighted_usage = 0
        submitter.begin = event.at


def _submitter_deleted(state: Manager, event: e.SubmitterDeleted) -> None:
    state.cycles.news = state.position
    account = str(AccountName(event.negotiator, event.submitter))
    gone = state.submitters.pop(account, None)
    state.note_submitter(account)
    if gone is not None and gone.slots:  # its present claims still count
        again = state.submitter(account, event.factor)
        again.weighted_in_use, again.slots = gone.weighted_in_use, gone.slots


FOLDS: dict[type[e.Event], Callable[[Manager, Any], None]] = {
    e.PoolFounded: _switch_defrag,
    e.PoolConfigured: _switch_defrag,
    e.DefragPolled: _defrag_polled,
    e.ClusterSubmitted: _submitted,
    e.CycleHeld: _cycle,
    e.MatchVoided: _match_voided,
    e.ClaimMade: _claim_made,
    e.ClaimQueued: _claim_waits,
    e.ClaimWithdrawn: _claim_withdrawn,
    e.ClaimEnded: _claim_ended,
    e.SlotDestroyed: _slot_died,
    e.QuotasAssigned: _quotas_assigned,
    e.PrioritiesUpdated: _priorities,
    e.SubmitterSet: _submitter_set,
    e.SubmittersReset: _submitters_reset,
    e.SubmitterDeleted: _submitter_deleted,
}
