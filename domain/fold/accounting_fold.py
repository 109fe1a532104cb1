"""Fold events into a manager's accounting, concurrency limits, negotiation cycles and defragmentation state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from .. import events as e
from ..names import AccountName
from ..state.defrag_state import fold_poll, switch_defrag
from ..state.pool_settings import defrag_setting, split_defrag
from ..state.state import Manager
from .matches import end_match, match_of_claim, own_job


def _switch_defrag(state: Manager, event: e.PoolFounded | e.PoolConfigured) -> None:
    """Switch defragmentation on or off. A new DEFRAG_NAME means a new daemon."""
    for name, text in event.settings.items():
        daemon, setting = split_defrag(name)
        if setting == "DEFRAG_NAME":
            switched = switch_defrag(state.defrag.of(daemon), bool(text.strip()), state.at)
            if daemon:
                state.defrag.others[daemon] = switched
            else:
                state.defrag = switched
    for defrag in (state.defrag, *state.defrag.others.values()):
        defrag.configured = state.at


def _fold_defrag_polled(state: Manager, event: e.DefragPolled) -> None:
    interval, schedule = (
        defrag_setting(state.settings, event.daemon, name) for name in ("DEFRAG_INTERVAL", "DEFRAG_DRAINING_SCHEDULE")
    )
    fold_poll(state.defrag.of(event.daemon), event, int(interval), schedule)


# The concurrency limits of matches and claims, and the weights of claims


def _fold_cycle_held(state: Manager, event: e.CycleHeld) -> None:
    for match in event.matches:
        state.match_limits.setdefault(match.slot, {})[match.job] = match.limits
        state.slots_matched.append(match.slot)
    for limits, count in Counter([match.limits for match in event.matches]).items():
        state.count_limits(limits, count)
    state.cycles.record_cycle(event, state.position)
    for group in event.remainders:
        state.remainders[group] = event.at


def _end_match_of_claim(state: Manager, slot: str, job: str | None) -> None:
    match = match_of_claim(state.match_limits, slot, job)
    if match is not None:
        state.count_limits(end_match(state.match_limits, *match) or "", -1)


def _end_queued_claim(state: Manager, slot: str) -> None:
    state.count_limits(state.queued_limits.pop(slot, ""), -1)


def _fold_match_voided(state: Manager, event: e.MatchVoided) -> None:
    state.count_limits(end_match(state.match_limits, event.slot, event.job) or "", -1)


def _fold_cluster_submitted(state: Manager, event: e.ClusterSubmitted) -> None:
    state.submitter(event.submitter, event.factor)


def _fold_claim_made(state: Manager, event: e.ClaimMade) -> None:
    slot = event.slot
    state.submitter(_account(event), event.factor).add_claim(event.weight, event.at)
    _end_match_of_claim(state, slot, own_job(event))
    _end_queued_claim(state, slot)
    before = state.resources.get(slot)
    if before is not None:
        state.count_limits(before[1], -1)
    state.count_limits(event.limits, 1)
    state.resources[slot] = event.weight, event.limits


def _fold_claim_queued(state: Manager, event: e.ClaimQueued) -> None:
    job = own_job(event)
    if job is not None:
        _end_match_of_claim(state, event.slot, job)
    _end_queued_claim(state, event.slot)
    if event.limits:
        state.count_limits(event.limits, 1)
        state.queued_limits[event.slot] = event.limits


def _fold_claim_withdrawn(state: Manager, event: e.ClaimWithdrawn) -> None:
    _end_queued_claim(state, event.slot)


def _fold_claim_ended(state: Manager, event: e.ClaimEnded) -> None:
    weight, limits = state.resources.pop(event.slot, (None, ""))
    state.submitter(_account(event)).end_claim(weight, event.usage, event.at)
    state.count_limits(limits, -1)


def _account(event: e.ClaimMade | e.ClaimEnded) -> str:
    return str(AccountName(event.negotiator, event.submitter)) if event.negotiator else event.submitter


def _fold_slot_destroyed(state: Manager, event: e.SlotDestroyed) -> None:
    for limits in state.match_limits.pop(event.slot, {}).values():
        state.count_limits(limits, -1)
    _end_queued_claim(state, event.slot)
    state.count_limits(state.resources.pop(event.slot, (0, ""))[1], -1)


# Quotas and submitters


def _fold_quotas_assigned(state: Manager, event: e.QuotasAssigned) -> None:
    state.quotas = event.groups


def _fold_priorities_updated(state: Manager, event: e.PrioritiesUpdated) -> None:
    for name, priority in event.priorities.items():
        state.submitter(str(AccountName(event.negotiator, name))).set_priority(priority, event.at)
    if event.negotiator:
        state.accounted[event.negotiator] = event.at
    else:
        state.priorities_updated_at = event.at


def _fold_submitter_set(state: Manager, event: e.SubmitterSet) -> None:
    state.cycles.account_change_position = state.position
    submitter = state.submitter(str(AccountName(event.negotiator, event.submitter)), event.factor)
    if event.until > event.at:
        submitter.leases[event.name] = event.value, event.until
    elif event.until:
        submitter.leases.pop(event.name, None)
    elif event.name == "priority":
        submitter.set_priority(event.value, event.at)
    elif event.name == "usage":
        submitter.count_usage(event.at)
        before = submitter.weighted_usage
        submitter.weighted_usage = round(event.value * 1_000_000_000)
        submitter.usage_accounted += submitter.weighted_usage - before
    elif event.name == "begin":
        submitter.first_used = round(event.value * 1_000_000)
    elif event.name == "last":
        submitter.last_used = round(event.value * 1_000_000)
    else:
        setattr(submitter, event.name, event.value)


def _fold_submitters_reset(state: Manager, event: e.SubmittersReset) -> None:
    state.cycles.account_change_position = state.position
    for name in event.submitters:
        submitter = state.submitter(str(AccountName(event.negotiator, name)), event.factors.get(name, 0.0))
        submitter.count_usage(event.at)
        submitter.usage_accounted -= submitter.weighted_usage
        submitter.weighted_usage = submitter.unweighted_usage = 0
        submitter.first_used = event.at


def _fold_submitter_deleted(state: Manager, event: e.SubmitterDeleted) -> None:
    state.cycles.account_change_position = state.position
    account = str(AccountName(event.negotiator, event.submitter))
    deleted = state.submitters.pop(account, None)
    state.record_submitter_change(account)
    if deleted is not None and deleted.slots:  # its current claims are still counted
        submitter = state.submitter(account, event.factor)
        submitter.weighted_in_use, submitter.slots = deleted.weighted_in_use, deleted.slots


FOLDS: dict[type[e.Event], Callable[[Manager, Any], None]] = {
    e.PoolFounded: _switch_defrag,
    e.PoolConfigured: _switch_defrag,
    e.DefragPolled: _fold_defrag_polled,
    e.ClusterSubmitted: _fold_cluster_submitted,
    e.CycleHeld: _fold_cycle_held,
    e.MatchVoided: _fold_match_voided,
    e.ClaimMade: _fold_claim_made,
    e.ClaimQueued: _fold_claim_queued,
    e.ClaimWithdrawn: _fold_claim_withdrawn,
    e.ClaimEnded: _fold_claim_ended,
    e.SlotDestroyed: _fold_slot_destroyed,
    e.QuotasAssigned: _fold_quotas_assigned,
    e.PrioritiesUpdated: _fold_priorities_updated,
    e.SubmitterSet: _fold_submitter_set,
    e.SubmittersReset: _fold_submitters_reset,
    e.SubmitterDeleted: _fold_submitter_deleted,
}
