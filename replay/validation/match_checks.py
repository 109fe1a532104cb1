"""Check a cycle's matches, their concurrency limits, and the dynamic slots that are preempted for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from ...domain import events as e
from ...domain.classad.tree import Literal
from ...domain.concurrency_limits import LIMITS, Amount, format_amount, maximum_amount, requested_amounts
from ...domain.decision.draft import job_id
from ...domain.names import NEGOTIATOR, JobId, SlotName
from ...domain.schedd.flocking import is_offered, level_of
from ...domain.state.caches import parse_cached
from ...domain.state.peers import MANAGER
from ...domain.state.records import PendingMatch, Slot
from ...domain.state.state import Manager, acts_as
from ...domain.state_machines import void_row
from ...domain.state_machines.slot_rows import KILLING
from .judged_pool import JudgedPool, has_own_times, job_of, known_slot, policy, rule, rule_of
from .run_checks import is_waiting_for_slot
from .transition_rules import REASONS


@rule(e.CycleHeld)
def check_cycle(pool: JudgedPool, event: e.CycleHeld) -> None:
    pool.cycle = True
    pool.check_negotiator("negotiator", event.negotiator)
    if acts_as(pool.state, Manager) and (event.negotiator or NEGOTIATOR) in pool.state.had.off:
        pool.report("negotiator", "source", f"{event.negotiator or NEGOTIATOR} holds a cycle, but is turned off")
    pool.matched_any = pool.matched_any or bool(event.matches)
    if event.flocked and not level_of(pool.state, f"{MANAGER}/{event.flocked}"):
        pool.report("negotiator", "peers", f"{event.flocked} made the matches, but is not in FLOCK_TO")
    matches: dict[tuple[str, str], e.Match] = {}
    taken_slots: set[str] = set()
    jobs = set()
    for match in event.matches:
        job = job_of(match.job)
        cluster = pool.state.clusters.get(job[0]) if job else None
        if job is None or cluster is None or not 0 <= job[1] < cluster.count:
            pool.report(match.job, "reference", f"the queue has no job {match.job} to match")
            continue
        if not is_offered(pool.state, JobId(*job), event.flocked):
            pool.report(job, "match", f"{event.flocked} matched it, but the job does not flock there")
        if not is_waiting_for_slot(pool, *job) or job in pool.state.assigned_slots or job in jobs:
            pool.report(job, "match", f"it is matched with {match.slot}, but is not idle")
        _check_preemption_reason(pool, match)
        if (match.slot in pool.state.matches or match.slot in taken_slots) and not _is_carved_later(pool, match.slot):
            pool.report_slot(match.slot, "match", f"it is matched with {match.job}, but is already matched or claimed")
            matches = {pair: other_match for pair, other_match in matches.items() if other_match.slot != match.slot}
        taken_slots.add(match.slot)
        matches[match.slot, match.job] = match
        jobs.add(job)
        pool.touched_slots[match.slot] = None
    for name in event.regrouped:
        if all(match.job != name for match in event.matches):
            pool.report(name, "match", "it is recorded as matched by autoregroup, but was not matched")
    check_concurrency_limits(pool, event.matches)
    if len(matches) < len(event.matches):
        pool.folds = replace(event, matches=tuple(matches.values()))


def _is_carved_later(pool: JudgedPool, name: str) -> bool:
    """Return True if a slot may have several matches, because each claim carves its own dynamic slot."""
    slot = pool.state.slots.get(name)
    return slot is not None and slot.kind == "partitionable" and not pool.dialect.informs_startd_of_matches


def _check_preemption_reason(pool: JudgedPool, match: e.Match) -> None:
    """Check that a match has a reason for preemption if, and only if, its slot is claimed."""
    slot = pool.state.slots.get(match.slot)
    claim = None if slot is None else slot.claim
    check_preempted_slots(pool, match)
    if match.reason and match.reason not in REASONS:
        pool.report_slot(match.slot, "value", f"{match.reason!r} is not a reason of a match: {', '.join(REASONS)}")
    elif match.reason and claim is None and not match.preempts:
        pool.report_slot(match.slot, "match", f"it is matched by {match.reason}, but it is not claimed")
    elif claim is not None and not match.reason:
        text = f"it is matched with {match.job} without a reason, but {claim.submitter} has it"
        pool.report_slot(match.slot, "match", text)


def match_of(pool: JudgedPool, slot: Slot, job: str) -> tuple[tuple[int, int], PendingMatch] | None:
    """Return the match on which a job's claim is based: a match of the slot or of its partitionable slot."""
    for own_match in pool.state.matches.get(slot.name, {}).items():
        return own_match
    job_id = job_of(job)
    job_match = pool.state.matches.get(slot.parent, {}).get(job_id) if job_id else None
    return None if job_id is None or job_match is None else (job_id, job_match)


@rule_of(e.MatchVoided, known_slot)
def check_match_voided(pool: JudgedPool, slot: Slot, event: e.MatchVoided) -> None:
    if not pool.match_table.lookup.get((slot.match_state, void_row(event.cause))):
        text = f"{void_row(event.cause)} is not how a match ends without a notification of the slot"
        pool.report_slot(event.slot, "match", text)
    if MANAGER not in pool.state.roles:
        if event.job not in pool.state.slot_matches.get(event.slot, ()):
            pool.report_slot(event.slot, "match", f"it was not matched with {event.job}")
        return
    matches = pool.state.matches.get(event.slot, {})
    if job_of(event.job) not in matches:
        pool.report_slot(event.slot, "match", f"it was not matched with {event.job}")
        pool.folds = next((replace(event, job=job_id(*job)) for job in matches), None)


# Concurrency limits


def check_concurrency_limits(pool: JudgedPool, matches: Sequence[e.Match]) -> None:
    """Check that no match of a cycle, taken in order, exceeds a concurrency limit."""
    if not any(match.limits for match in matches):
        return
    held_amounts: dict[str, Amount] = {}
    for text, count in pool.state.limits_in_use.items():
        for limit in requested_amounts(text):
            held_amounts[limit.name] = held_amounts.get(limit.name, 0) + limit.units * count
    for match in matches:
        for name, units in requested_amounts(match.limits):
            used_amount, allowed_amount = held_amounts.get(name, 0), maximum_amount(pool.state.settings, name)
            if used_amount + units > allowed_amount:
                words = f"of which {format_amount(used_amount)} of {format_amount(allowed_amount)} are held"
                pool.report(match.job, "limit", f"its match takes {format_amount(units)} of {name.upper()}, {words}")
            held_amounts[name] = used_amount + units


def check_limits_of_ad(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued, ad: e.Ad) -> None:
    """Check that a claim without a match uses the concurrency limits in the job's ad, if they are a literal."""
    parsed = parse_cached(ad.get(LIMITS, '""'))
    limits = parsed.value if isinstance(parsed, Literal) else event.limits
    if event.limits != (limits if isinstance(limits, str) else ""):
        text = f"its claim holds {event.limits or 'nothing'} of concurrency limits, but the job's ad says {limits}"
        pool.report_slot(event.slot, "limit", text)


def check_limits_of_match(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued, limits: str) -> None:
    if event.limits != limits:
        text = f"its claim holds {event.limits or 'nothing'} of concurrency limits, but its match {limits or 'nothing'}"
        pool.report_slot(event.slot, "limit", text)


# Dynamic slots that are preempted for a match of their partitionable slot

_GOING: Final = (KILLING, "Claimed/Cleaning")


def check_preempted_slots(pool: JudgedPool, match: e.Match) -> None:
    """Check that the slots that a match preempts are claimed parts of one slot and have no retirement time left."""
    if match.preempts and not match.reason:
        pool.report_slot(match.slot, "match", f"slots are preempted for job {match.job} without a reason")
    for name in match.preempts:
        slot = pool.state.slots.get(name)
        parent_name = match.slot if _is_carved_later(pool, match.slot) else str(SlotName.parse(match.slot).parent)
        if slot is None or slot.claim is None or slot.parent != parent_name:
            text = f"{name} is evicted for job {match.job}, but is not a claimed part of the matched slot"
            pool.report_slot(match.slot, "match", text)
            continue
        limit_text, run = policy(slot, "maxjobretirementtime") or "0", slot.activation
        at = 0 if pool.event is None else pool.event.at
        is_retiring = run is not None and limit_text.isdecimal() and run.run_time(at) < 1_000_000 * int(limit_text)
        if run is not None and is_retiring and not has_own_times(pool, run):  # a job may ask for less
            text = f"it is preempted for job {match.job}, but its job has retirement time left"
            pool.report_slot(name, "retirement", text)
        if parent_name != match.slot:
            pool.preempted[name] = match.job


def note_preempted_slot(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    pool.preempted_for[slot.name] = slot.parent


def note_claimed_part(pool: JudgedPool, slot: Slot, event: e.ClaimMade, matched: PendingMatch | None) -> None:
    """Note a claim that takes a part of a slot, and the slots that it must preempt (for ``settle_preempted``)."""
    if event.holder and slot.parent:
        pool.claimed_parts.add(slot.parent)
    elif matched is not None and slot.name not in pool.state.matches:
        pool.preempted.update(dict.fromkeys(matched.preempts, event.job))


def check_resources_returned(pool: JudgedPool, slot: Slot, given: dict[str, int]) -> None:
    """Check that a dynamic slot that is preempted for a match returns all of its resources."""
    if slot.name not in pool.preempted_for or slot.state_activity not in _GOING:
        pool.report(slot, "resources", "it gives its resources back, but is not preempted for a match")
    if any(pool.amounts[slot.name].have.values()):
        pool.report(slot, "resources", "it gives back only a part of its resources")
    if slot.parent in pool.amounts:
        carved_amounts = pool.amounts[slot.parent].carved
        for resource, amount in given.items():
            carved_amounts[resource] = carved_amounts.get(resource, 0) - amount


def settle_preempted(pool: JudgedPool) -> None:
    """Check at the end of a stimulus that exactly the slots to preempt were preempted."""
    for name, job in pool.preempted.items():
        slot = pool.state.slots.get(name)
        if slot is not None and slot.state_activity not in _GOING:
            pool.report_slot(name, "match", f"it was to be preempted for job {job}, but is {slot.state_activity}")
    for name, parent in pool.preempted_for.items():
        if name not in pool.preempted and parent not in pool.claimed_parts:
            pool.report_slot(name, "match", "it is recorded as preempted for a match, but no match takes its resources")
    pool.preempted, pool.preempted_for, pool.claimed_parts = {}, {}, set()
