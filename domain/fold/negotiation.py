"""How negotiation cycles and their accounting change the state."""

from __future__ import annotations

from collections.abc import Callable

from .. import events as e
from ..names import AccountName, JobId
from ..state.state import Matched, State
from .claim_fold import end_match, forget_rejection, note_rejections


def _cycle(state: State, event: e.CycleHeld) -> None:
    regrouped = set(event.regrouped)
    for match in event.matches:
        job = JobId.parse(match.job)
        forget_rejection(state, job)
        matched = Matched(match.limits, match.preempts, event.negotiator, match.job in regrouped)
        state.matches.setdefault(match.slot, {})[job] = matched
        state.reserved[job] = match.slot
        state.hold_limits(match.limits, 1)
        state.slots_matched.append(match.slot)
    state.cycles.note_cycle(event, state.position)
    for group in event.remainders:
        state.remainders[group] = event.at
    rejections = state.rejections
    if event.negotiator:
        rejections = state.further_rejections.setdefault(event.negotiator, {})
    for unmatched in event.unmatched:
        rejections.setdefault(JobId.parse(unmatched.job)[0], {})[unmatched.job] = unmatched
    note_rejections(state, [unmatched.job for unmatched in event.unmatched])


def _quotas_assigned(state: State, event: e.QuotasAssigned) -> None:
    state.quotas = event.groups


def _match_voided(state: State, event: e.MatchVoided) -> None:
    end_match(state, event.slot, JobId.parse(event.job))
    state.slot_changes.append(event.slot)


def _priorities(state: State, event: e.PrioritiesUpdated) -> None:
    for name, priority in event.priorities.items():
        state.submitter(str(AccountName(event.negotiator, name))).account(priority, event.at)
    if event.negotiator:
        state.accounted[event.negotiator] = event.at
    else:
        state.priorities_updated_at = event.at


def _submitter_set(state: State, event: e.SubmitterSet) -> None:
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


def _submitters_reset(state: State, event: e.SubmittersReset) -> None:
    state.cycles.news = state.position
    for name in event.submitters:
        submitter = state.submitter(str(AccountName(event.negotiator, name)), event.factors.get(name, 0.0))
        submitter.count(event.at)
        submitter.usage_accounted -= submitter.weighted_usage
        submitter.weighted_usage = submitter.unweighted_usage = 0
        submitter.begin = event.at


def _submitter_deleted(state: State, event: e.SubmitterDeleted) -> None:
    state.cycles.news = state.position
    account = str(AccountName(event.negotiator, event.submitter))
    gone = state.submitters.pop(account, None)
    state.note_submitter(account)
    if gone is not None and gone.slots:  # what it has goes on to count
        again = state.submitter(account, event.factor)
        again.weighted_in_use, again.slots = gone.weighted_in_use, gone.slots


FOLDS: dict[type[e.Event], Callable[..., None]] = {
    e.CycleHeld: _cycle,
    e.QuotasAssigned: _quotas_assigned,
    e.MatchVoided: _match_voided,
    e.PrioritiesUpdated: _priorities,
    e.SubmitterSet: _submitter_set,
    e.SubmittersReset: _submitters_reset,
    e.SubmitterDeleted: _submitter_deleted,
}
