"""Check claims and matches: those of the pool's own schedd, and of holders outside of it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from ...domain import events as e
from ...domain.classad.tree import Literal
from ...domain.concurrency_limits import LIMITS, Amount, amount_text, most, requested_amounts
from ...domain.state.caches import expression
from ...domain.state.pool_settings import seconds_of
from ...domain.state.slot_fold import OF_ITS_JOB
from ...domain.state.state import Claim, Earmark, Slot
from ...domain.state_machines import claim_state, void_row
from ...domain.state_machines.drain import SCHEDULES
from ..narration.formatting import interval
from .accounting_checks import begins
from .backfill_checks import may_wait
from .job_checks import known_cluster
from .judged_pool import JudgedPool, has_wishes, job_name, job_of, known_slot, policy, rule, rule_of
from .pslot_preemption_checks import claimed, preempts
from .run_checks import begins_on, leaves, waits_for_a_slot, wrong_order
from .transition_rules import REASONS

MOST_DIGITS = 12  #: the most digits of a number of seconds
_terms = attrgetter("submitter", "rank", "holder", "job", "ad", "lease", "limits", "negotiator")
"""The terms that a waiting claim keeps when it is made."""


@rule_of(e.ClaimMade, known_slot)
def made(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    if slot.claim is not None:
        pool.report_slot(slot.name, "claim", f"it is claimed, by {slot.claim.submitter}")
    waited = slot.waiting
    takes_over = waited is not None and waited.id == event.claim
    job = pool.state.matches.get(event.slot)
    if event.cause == "coalesced":
        coalesced(pool, slot, event)
        job = job_of(event.job)
    elif not event.holder and not takes_over:
        _as_matched(pool, slot, event)
    if waited is not None and (waited.id != event.claim or _terms(waited) != _terms(event)):
        words = f"claim {waited.id} waited for it, but {event.claim} takes it, or with other terms"
        pool.report_slot(slot.name, "waiting", words)
    if slot.state_activity != "Claimed/Idle" and not (takes_over and slot.state == "Preempting"):
        pool.report_slot(slot.name, "claim", f"a claim begins in Claimed/Idle, but it is {slot.state_activity}")
    if event.weight < 0 or pool.amounts[slot.name].weight not in (None, event.weight):
        pool.report_slot(slot.name, "value", f"it is claimed with the weight {event.weight}, which is not its own")
    machine = pool.state.machines.get(slot.machine)
    if machine is not None and machine.shutdown and not (takes_over and pool.dialect.better_match_survives_shutdown):
        pool.report_slot(slot.name, "shutdown", f"it is claimed while {slot.machine} is shut down")
    claimed(pool, slot, event)
    _asked_for(pool, event)
    begins(pool, event.submitter, event.factor, event.negotiator)
    if waited is not None and takes_over and not event.holder:
        job = job_of(waited.job)
        if job is not None and not waits_for_a_slot(pool, *job):
            pool.report_slot(slot.name, "waiting", f"its better match is for job {event.job}, which waits no longer")
    pool.notified.discard(slot.name)
    pool.expected.pop(slot.name, None)
    if job is not None:
        pool.expected[slot.name] = job


def _as_matched(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    """Check that a claim of the pool's own schedd is of a slot that it was given, on the terms of that."""
    if slot.name not in pool.state.matches:
        pool.report_slot(slot.name, "match", "it is claimed without a match")
    elif event.negotiator != pool.state.matched_by.get(slot.name, ""):
        pool.report_slot(slot.name, "match", "the claim counts for another negotiator than matched it")
    keeps_limits(pool, event)


def _asked_for(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued) -> None:
    """Check that a claim's lease is a time, and its job is a job or none."""
    if event.holder:
        as_its_ad_says(pool, event, event.ad)
    pool.counts_for(event.slot, event.negotiator)
    if event.lease < 0:
        pool.report_slot(event.slot, "value", f"a claim's lease is {event.lease} s, below 0")
    if event.job and not event.holder and job_of(event.job) is None:
        pool.report_slot(event.slot, "value", f"its claim is for {event.job!r}, which is no job")
        pool.folds = replace(event, job="")


def _of(pool: JudgedPool, slot: Slot, claim: str) -> Claim | None:
    """Return the slot's claim, if it is the named one; else fold nothing."""
    found = slot.claim
    if found is not None and found.id == claim:
        return found
    pool.folds = None
    has = "it has none" if found is None else f"its claim is {found.id}"
    pool.report_slot(slot.name, "claim", f"something is said of claim {claim}, but {has}")
    return None


@rule_of(e.ClaimQueued, known_slot)
def queued(pool: JudgedPool, slot: Slot, event: e.ClaimQueued) -> None:
    if slot.claim is None and not may_wait(pool, slot):
        pool.report_slot(slot.name, "waiting", "a better match waits for it, but nobody has it")
    if slot.waiting is not None and slot.waiting.id == event.claim:
        pool.report_slot(slot.name, "waiting", f"{event.claim} is said to wait for it a second time")
    _asked_for(pool, event)
    if not event.holder:
        _own_waits(pool, slot, event)


def _own_waits(pool: JudgedPool, slot: Slot, event: e.ClaimQueued) -> None:
    """Check that the pool's own schedd waits for a slot it was given; its job gets no other until then."""
    keeps_limits(pool, event)
    job = pool.state.matches.get(slot.name)
    if job is None or f"{job[0]}.{job[1]}" != event.job:
        pool.report_slot(slot.name, "match", f"job {event.job} waits for it, but it was not matched with that job")
    elif not waits_for_a_slot(pool, *job):
        pool.report_slot(slot.name, "match", f"job {event.job} waits for it, but not for a slot")
    if event.negotiator != pool.state.matched_by.get(slot.name, ""):
        pool.report_slot(
            slot.name, "match", "the claim that waits for it counts for another negotiator than matched it"
        )
    if slot.claim is not None and event.rank < slot.claim.rank:
        words = f"it prefers the job that it has ({slot.claim.rank:g}) to {event.job} ({event.rank:g}), which waits"
        pool.report_slot(slot.name, "waiting", words)


@rule_of(e.ClaimWithdrawn, known_slot)
def withdrawn(pool: JudgedPool, slot: Slot, event: e.ClaimWithdrawn) -> None:
    if slot.waiting is None or slot.waiting.id != event.claim:
        pool.report_slot(slot.name, "waiting", f"{event.claim} waits for it no longer, but it did not wait")


@rule_of(e.ClaimFlagged, known_slot)
def flagged(pool: JudgedPool, slot: Slot, event: e.ClaimFlagged) -> None:
    claim = _of(pool, slot, event.claim)
    if claim is None:
        return
    for flag in event.flags:
        if flag not in e.CLAIM_FLAG_CODES:
            pool.report_slot(slot.name, "value", f"{flag!r} is no flag of a claim: {', '.join(e.CLAIM_FLAG_CODES)}")
    if "resumed" in event.flags and "by_command" not in claim.marks:
        pool.report_slot(slot.name, "claim", "its job goes on by request, but was not suspended by one")
    if "job_over" in event.flags and (slot.activation is not None or not claim.marks & OF_ITS_JOB):
        pool.report_slot(slot.name, "claim", "its job is said to be over, but nothing held for it that ends with a job")
    if claim.marks.issuperset(event.flags) and event.reason in ("", claim.reason):
        pool.report_slot(slot.name, "claim", "its claim is flagged with what it has already")


@rule_of(e.ClaimActivated, known_slot)
def activated(pool: JudgedPool, slot: Slot, event: e.ClaimActivated) -> None:
    claim = _of(pool, slot, event.claim)
    pool.folds = event
    if claim is not None and not claim.holder:
        words = f"job {event.job} of a holder outside begins, but the pool's own access point holds it"
        pool.report_slot(slot.name, "activation", words)
    begins_on(pool, slot)
    if event.vacate < 0:
        pool.report_slot(slot.name, "value", "the time to vacate that its job was promised is below 0")


@rule_of(e.ClaimDeactivated, known_slot)
def deactivated(pool: JudgedPool, slot: Slot, event: e.ClaimDeactivated) -> None:
    run = slot.activation
    if run is None or run.job != event.job:
        has = f"it runs {job_name(run)}" if run else "nothing runs on it"
        pool.report_slot(slot.name, "activation", f"job {event.job} of a holder outside is gone, but {has}")
    if slot.claim is not None:
        _of(pool, slot, event.claim)
    leaves(pool, slot)
    pool.folds = event


@rule_of(e.StarterSignalled, known_slot)
def signalled(pool: JudgedPool, slot: Slot, event: e.StarterSignalled) -> None:
    run = slot.activation
    if run is None or not run.job:
        has = "no job" if run is None else f"job {job_name(run)} of the pool's own"
        pool.report_slot(slot.name, "end", f"the starter of a holder outside is told to end its job, but it has {has}")
        pool.folds = None
        return
    for words in wrong_order(run, event):
        pool.report_slot(slot.name, "end", words)


@rule_of(e.ClaimHolderSilent, known_slot)
def silent(pool: JudgedPool, slot: Slot, event: e.ClaimHolderSilent) -> None:
    claim = _of(pool, slot, event.claim)
    if claim is None:
        return
    if not event.until and not claim.until:
        pool.report_slot(slot.name, "lease", "its holder is heard again, but was not silent")
    if event.until < 0:
        pool.report_slot(slot.name, "value", f"{event.until} is no instant")


@rule_of(e.ClaimEnded, known_slot)
def ended(pool: JudgedPool, slot: Slot, event: e.ClaimEnded) -> None:
    claim = slot.claim
    if claim is None or claim.id != event.claim:
        has = "it has none" if claim is None else f"its claim is {claim.id}"
        pool.report_slot(slot.name, "claim", f"claim {event.claim} ends, but {has}")
        return
    pool.expected.pop(slot.name, None)
    if (claim.submitter, claim.negotiator) != (event.submitter, event.negotiator):
        pool.report_slot(slot.name, "claim", f"{event.submitter} gives up a claim that {claim.submitter} holds")
    where = claim_state(slot.state_activity, slot.activation is not None)
    if not pool.claim_table.legal(where, "end", "Ended") and not _ends_there(pool, slot, claim, event):
        pool.report_slot(slot.name, "claim", f"a claim ends in Preempting, but it is {slot.state_activity}")
    usage = (event.at - claim.since) * claim.weight
    if usage != event.usage:
        words = f"the claim was held for a usage of {usage}, but {event.usage} is charged"
        pool.report_slot(slot.name, "usage", words)
    if slot.activation is not None:
        words = f"the claim ends while job {job_name(slot.activation)} runs on it"
        pool.report_slot(slot.name, "activation", words)


def _ends_there(pool: JudgedPool, slot: Slot, claim: Claim, event: e.ClaimEnded) -> bool:
    """Tell whether a claim may end without Preempting: it was just made and is taken back (5b), or its machine ends."""
    machine = pool.state.machines.get(slot.machine)
    return claim.since == event.at or (event.cause == "shutdown" and machine is not None and bool(machine.shutdown))


def lease_over(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """Check that the lease is over when a claim is given up for its holder's silence."""
    until = slot.claim.until if slot.claim is not None else 0
    if not 0 < until <= event.at:
        words = "its holder was not silent" if not until else "it runs on"
        pool.report_slot(slot.name, "lease", f"the claim's lease is said to be over, but {words}")


def retirement_over(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """Check that a job ran for its retirement, less its vacate time; plain numbers only, expressions have evidence."""
    run, claim, machine = slot.activation, slot.claim, pool.state.machines.get(slot.machine)
    granted, vacate = (_seconds(policy(slot, name) or "0") for name in ("maxjobretirementtime", "machinemaxvacatetime"))
    if run is None or claim is None or machine is None or granted is None or vacate is None or has_wishes(pool, run):
        return
    drain = machine.drain
    hurried = drain is not None and (drain.final or (drain.state in SCHEDULES and not SCHEDULES[drain.state].retires))
    if "late" in claim.marks or hurried:
        return
    ran = run.ran(event.at)
    if ran + max(run.vacate, vacate, pool.vacate) < granted:
        words = f"its job's retirement is said to be over, but it ran for {interval(ran)} of {interval(granted)}"
        pool.report_slot(slot.name, "retirement", words)


def _seconds(text: str) -> int | None:
    """Return a plain number of seconds in microseconds; None for every other expression."""
    return int(text) * 1_000_000 if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


# Matches


@rule(e.CycleHeld)
def cycle(pool: JudgedPool, event: e.CycleHeld) -> None:
    pool.cycle = True
    pool.counts_for("negotiator", event.negotiator)
    pool.matched_any = pool.matched_any or bool(event.matches)
    matches: dict[str, e.Match] = {}
    jobs = set()
    for match in event.matches:
        job = job_of(match.job)
        cluster = pool.state.clusters.get(job[0]) if job else None
        if job is None or cluster is None or not 0 <= job[1] < cluster.count:
            pool.report(match.job, "reference", f"there is no job {match.job} to match")
            continue
        if not waits_for_a_slot(pool, *job) or job in pool.state.reserved or job in jobs:
            pool.report_job(*job, "match", f"it is matched with {match.slot}, but does not wait")
        _reason(pool, match)
        if match.slot in pool.state.matches or match.slot in matches:
            pool.report_slot(match.slot, "match", f"it is matched with {match.job}, but is taken already")
        matches[match.slot] = match
        jobs.add(job)
        pool.touched[match.slot] = None
    for name in event.regrouped:
        if all(match.job != name for match in event.matches):
            pool.report(name, "match", "it is said to have negotiated by autoregroup, but was not matched")
    exceed_no_limit(pool, event.matches)
    if len(matches) < len(event.matches):
        pool.folds = replace(event, matches=tuple(matches.values()))


def _reason(pool: JudgedPool, match: e.Match) -> None:
    """Check that a match of a claimed slot has a reason, and any other has none."""
    slot = pool.state.slots.get(match.slot)
    claim = None if slot is None else slot.claim
    preempts(pool, match)
    if match.reason and match.reason not in REASONS:
        pool.report_slot(match.slot, "value", f"{match.reason!r} is no reason of a match: {', '.join(REASONS)}")
    elif match.reason and claim is None and not match.preempts:
        pool.report_slot(match.slot, "match", f"it is matched by {match.reason}, but nobody has it")
    elif claim is not None and not match.reason:
        words = f"it is matched with {match.job}, but {claim.submitter} has it, and no reason is given"
        pool.report_slot(match.slot, "match", words)


@rule_of(e.MatchVoided, known_slot)
def voided(pool: JudgedPool, slot: Slot, event: e.MatchVoided) -> None:
    job = pool.state.matches.get(event.slot)
    if not pool.match_table.legal(slot.match_state, void_row(event.cause)):
        words = f"{void_row(event.cause)} is not how a match ends that the slot was not told of"
        pool.report_slot(event.slot, "match", words)
    if job is None or f"{job[0]}.{job[1]}" != event.job:
        pool.report_slot(event.slot, "match", f"it was not matched with {event.job}")


# Check concurrency limits: that no match exceeds one, and that a claim holds what its match was given.


def exceed_no_limit(pool: JudgedPool, matches: Sequence[e.Match]) -> None:
    """Check a cycle's matches one after the other."""
    if not any(match.limits for match in matches):
        return
    held: dict[str, Amount] = {}
    for text, count in pool.state.limits_in_use.items():
        for one in requested_amounts(text):
            held[one.name] = held.get(one.name, 0) + one.units * count
    for match in matches:
        for name, units in requested_amounts(match.limits):
            used, there = held.get(name, 0), most(pool.state.settings, name)
            if used + units > there:
                words = f"of which {amount_text(used)} of {amount_text(there)} are held"
                pool.report(match.job, "limit", f"its match takes {amount_text(units)} of {name.upper()}, {words}")
            held[name] = used + units


def as_its_ad_says(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued, ad: e.Ad) -> None:
    """Check that a claim that was made without a match holds what the job's ad says, if that is a plain text."""
    meaning = expression(ad.get(LIMITS, '""'))
    says = meaning.value if isinstance(meaning, Literal) else event.limits
    if event.limits != (says if isinstance(says, str) else ""):
        words = f"its claim holds {event.limits or 'nothing'} of concurrency limits, but the job's ad says {says}"
        pool.report_slot(event.slot, "limit", words)


def keeps_limits(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued) -> None:
    """Check that a claim of the pool's own schedd holds what its match was given."""
    given = pool.state.matched_limits.get(event.slot, "")
    if event.limits != given:
        words = f"its claim holds {event.limits or 'nothing'} of concurrency limits, but its match {given or 'nothing'}"
        pool.report_slot(event.slot, "limit", words)


# Check claims that are kept for a job which is to run at once (condor_now).


@rule(e.ClaimsEarmarked)
def earmarked(pool: JudgedPool, event: e.ClaimsEarmarked) -> None:
    job = event.cluster, event.proc
    if known_cluster(pool, *job) is not None and not waits_for_a_slot(pool, *job):
        pool.report_job(*job, "earmark", "claims are kept for it, but it does not wait")
    if job in pool.state.earmarks:
        pool.report_job(*job, "earmark", "claims are kept for it already")
    if event.until != event.at + seconds_of(pool.state.settings, "SCHEDD_NOW_JOB_VACATE_TIMEOUT") * 1_000_000:
        pool.report_job(
            *job, "value", "the claims are kept for it for another time than SCHEDD_NOW_JOB_VACATE_TIMEOUT says"
        )
    if not event.claims:
        pool.report_job(*job, "earmark", "claims are kept for it, but none is named")
    for name, claim in event.claims.items():
        slot = pool.state.slots.get(name)
        if slot is None or slot.claim is None or slot.claim.id != claim:
            pool.report_job(*job, "earmark", f"{claim}, which is kept for it, is not the claim of {name}")
        elif slot.activation is None or not slot.activation.cluster:
            pool.report_job(*job, "earmark", f"the claim of {name} is kept for it, but no job of this queue has it")
        elif pool.state.is_earmarked(slot.name):
            pool.report_job(*job, "earmark", f"the claim of {name} is kept for another job already")


@rule(e.EarmarkEnded)
def earmark_ended(pool: JudgedPool, event: e.EarmarkEnded) -> None:
    job = event.cluster, event.proc
    earmark = pool.state.earmarks.get(job)
    if earmark is None:
        pool.report_job(*job, "earmark", "no claims are kept for it any more, but none were")
        return
    if bool(event.slot) != (event.cause == "coalesced"):
        pool.report_job(*job, "earmark", "a slot is named for it where one was made, and nowhere else")
    slot = pool.state.slots.get(event.slot)
    claim = None if slot is None else slot.claim
    if event.slot and (claim is None or claim.holder or job_of(claim.job) != job):
        pool.report_job(*job, "earmark", f"{event.slot} was made for it, but is not claimed for it")
    if event.cause == "now_late" and event.at < earmark.until:
        pool.report_job(*job, "earmark", "the jobs that were to go for it are said to be late, but have time left")


def coalesced(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    """Check a claim of a slot that was put together for a job of what claims held that were kept for it."""
    job = job_of(event.job)
    earmark = None if job is None else pool.state.earmarks.get(job)
    if job is None or earmark is None:
        pool.report_slot(slot.name, "earmark", f"it is claimed for job {event.job}, for which no claims were kept")
        return
    there = _there(pool, earmark)
    if there:
        words = f"it is put together for job {event.job}, but the claim of {', '.join(there)} is still there"
        pool.report_slot(slot.name, "earmark", words)
    if not waits_for_a_slot(pool, *job):
        pool.report_slot(slot.name, "earmark", f"it is put together for job {event.job}, which does not wait")
    as_its_ad_says(pool, event, pool.state.clusters[job[0]].attributes(job[1]) if job[0] in pool.state.clusters else {})


def _there(pool: JudgedPool, earmark: Earmark) -> list[str]:
    """Return the slots whose claims are still there of those that are kept."""
    slots = ((pool.state.slots.get(name), claim) for name, claim in earmark.claims.items())
    return [
        slot.name for slot, claim in slots if slot is not None and slot.claim is not None and slot.claim.id == claim
    ]


def settle_earmarks(pool: JudgedPool) -> None:
    """Check that no claim is kept that is gone."""
    for job, earmark in list(pool.state.earmarks.items()):
        if len(_there(pool, earmark)) < len(earmark.claims):
            pool.report_job(*job, "earmark", "claims are kept for it, of which one is gone")
            del pool.state.earmarks[job]
