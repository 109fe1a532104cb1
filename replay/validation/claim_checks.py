"""Check events about claims, by the pool's own schedd and by external access points."""

from __future__ import annotations

from operator import attrgetter

from msgspec import DecodeError
from msgspec.structs import replace

from ...domain import events as e
from ...domain.ports.run_reports import decode_report, ends_run
from ...domain.state.peers import ACCESS_POINT, role_of
from ...domain.state.pool_settings import schedd_seconds
from ...domain.state.records import Claim, PendingMatch, Reservation, Slot, report_name
from ...domain.state.slot_fold import JOB_FLAGS
from ...domain.state_machines import claim_state
from ...domain.state_machines.drain import SCHEDULES
from ...domain.state_machines.hold_codes import HELD_BY_STARTD
from ..narration.formatting import interval
from .accounting_checks import check_initial_factor
from .job_checks import known_cluster
from .judged_pool import JudgedPool, has_own_times, job_name, job_of, known_slot, policy, rule, rule_of
from .machine_checks import may_await_client
from .match_checks import check_limits_of_ad, check_limits_of_match, match_of, note_claimed_part
from .run_checks import check_drain_counted, check_slot_free, is_waiting_for_slot, signal_order_errors

MOST_DIGITS = 12  #: the maximum number of digits in a number of seconds
_terms = attrgetter("submitter", "rank", "holder", "job", "ad", "lease", "limits", "negotiator")
"""Return the fields that must be equal in a queued claim and the later ``ClaimMade``."""


@rule_of(e.ClaimMade, known_slot)
def check_claim_made(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    if slot.claim is not None:
        pool.report(slot, "claim", f"it is already claimed by {slot.claim.submitter}")
    waiting_claim = slot.queued_claim
    takes_waiting = waiting_claim is not None and waiting_claim.id == event.claim
    job, matched = match_of(pool, slot, event.job) or (None, None)
    if event.cause == "coalesced":
        check_coalesced(pool, slot, event)
        job = job_of(event.job)
    elif not event.holder and not takes_waiting:
        _check_match_terms(pool, slot, event, matched)
    if waiting_claim is not None and (waiting_claim.id != event.claim or _terms(waiting_claim) != _terms(event)):
        text = f"claim {waiting_claim.id} waited for it, but {event.claim} takes it, or its terms differ"
        pool.report(slot, "waiting", text)
    if slot.state_activity != "Claimed/Idle" and not (takes_waiting and slot.state == "Preempting"):
        pool.report(slot, "claim", f"a claim begins in Claimed/Idle, but it is {slot.state_activity}")
    if event.weight < 0 or pool.amounts[slot.name].weight not in (None, event.weight):
        pool.report(slot, "value", f"it is claimed with the weight {event.weight}, which is not its SlotWeight")
    machine = pool.state.machines.get(slot.machine)
    if machine is not None and machine.shutdown and not (takes_waiting and pool.dialect.better_match_survives_shutdown):
        pool.report(slot, "shutdown", f"it is claimed while {slot.machine} is shut down")
    note_claimed_part(pool, slot, event, matched)
    _check_request(pool, event)
    check_initial_factor(pool, event.submitter, event.factor, event.negotiator)
    if waiting_claim is not None and takes_waiting and not event.holder:
        job = job_of(waiting_claim.job)
        if job is not None and not is_waiting_for_slot(pool, *job):
            pool.report(slot, "waiting", f"its preempting claim is for job {event.job}, which no longer waits")
    pool.notified.discard(slot.name)
    pool.expected.pop(slot.name, None)
    if job is not None:
        pool.expected[slot.name] = job


def _check_match_terms(pool: JudgedPool, slot: Slot, event: e.ClaimMade, matched: PendingMatch | None) -> None:
    if matched is None:
        pool.report(slot, "match", "it is claimed without a match")
    elif event.negotiator != matched.negotiator:
        pool.report(slot, "match", "the claim is charged to a negotiator that did not match it")
    check_limits_of_match(pool, event, "" if matched is None else matched.limits)


def _check_request(pool: JudgedPool, event: e.ClaimMade | e.ClaimQueued) -> None:
    if event.holder:
        check_limits_of_ad(pool, event, event.ad)
    pool.check_negotiator(event.slot, event.negotiator)
    if event.lease < 0:
        pool.report_slot(event.slot, "value", f"a claim's lease is {event.lease} s, below 0")
    if event.job and not event.holder and job_of(event.job) is None:
        pool.report_slot(event.slot, "value", f"its claim is for {event.job!r}, which is not a job")
        pool.folds = replace(event, job="")


def _named_claim(pool: JudgedPool, slot: Slot, claim: str) -> Claim | None:
    """Return the slot's claim if the event names it. Otherwise report the event and do not fold it."""
    claim_now = slot.claim
    if claim_now is not None and claim_now.id == claim:
        return claim_now
    pool.folds = None
    claim_text = "it has none" if claim_now is None else f"its claim is {claim_now.id}"
    pool.report(slot, "claim", f"the event names claim {claim}, but {claim_text}")
    return None


@rule_of(e.ClaimQueued, known_slot)
def check_claim_queued(pool: JudgedPool, slot: Slot, event: e.ClaimQueued) -> None:
    if slot.claim is None and not may_await_client(pool, slot):
        pool.report(slot, "waiting", "a preempting claim waits for it, but it is not claimed")
    if slot.queued_claim is not None and slot.queued_claim.id == event.claim:
        pool.report(slot, "waiting", f"{event.claim} is recorded as waiting for it a second time")
    _check_request(pool, event)
    if not event.holder:
        _check_own_waits(pool, slot, event)


def _check_own_waits(pool: JudgedPool, slot: Slot, event: e.ClaimQueued) -> None:
    """Check that the pool's own schedd queues a claim only for a slot that was matched with the claim's job."""
    job, matched = match_of(pool, slot, event.job) or (None, PendingMatch())
    check_limits_of_match(pool, event, matched.limits)
    if job is None or f"{job[0]}.{job[1]}" != event.job:
        pool.report(slot, "match", f"job {event.job} waits for it, but it was not matched with that job")
    elif not is_waiting_for_slot(pool, *job):
        pool.report(slot, "match", f"job {event.job} is recorded as waiting for it, but is not idle")
    if event.negotiator != matched.negotiator:
        pool.report(slot, "match", "the claim that waits for it is charged to a negotiator that did not match it")
    if slot.claim is not None and event.rank < slot.claim.rank:
        text = f"it prefers the job that it has ({slot.claim.rank:g}) to {event.job} ({event.rank:g}), which waits"
        pool.report(slot, "waiting", text)


@rule_of(e.ClaimWithdrawn, known_slot)
def check_claim_withdrawn(pool: JudgedPool, slot: Slot, event: e.ClaimWithdrawn) -> None:
    if slot.queued_claim is None or slot.queued_claim.id != event.claim:
        pool.report(slot, "waiting", f"{event.claim} no longer waits for it, but it never did")


@rule_of(e.ClaimFlagged, known_slot)
def check_claim_flagged(pool: JudgedPool, slot: Slot, event: e.ClaimFlagged) -> None:
    claim = _named_claim(pool, slot, event.claim)
    if claim is None:
        return
    for flag in event.flags:
        if flag not in e.CLAIM_FLAG_CODES:
            pool.report(slot, "value", f"{flag!r} is not a flag of a claim: {', '.join(e.CLAIM_FLAG_CODES)}")
    if "resumed" in event.flags and "by_command" not in claim.flags:
        pool.report(slot, "claim", "a user continues its job, but no user suspended it")
    if "job_over" in event.flags and (slot.activation is not None or not claim.flags & JOB_FLAGS):
        pool.report(slot, "claim", "its job is recorded as over, but it had no flag that ends with a job")
    if claim.flags.issuperset(event.flags) and event.reason in ("", claim.reason):
        pool.report(slot, "claim", "its claim already has this flag")


@rule_of(e.ClaimActivated, known_slot)
def check_claim_activated(pool: JudgedPool, slot: Slot, event: e.ClaimActivated) -> None:
    claim = _named_claim(pool, slot, event.claim)
    pool.folds = event
    if claim is not None and not claim.holder:
        text = f"job {event.job} of an outside access point starts, but this pool's access point holds the claim"
        pool.report(slot, "activation", text)
    if claim is not None and len(pool.state.roles) == 1 and role_of(claim.holder) == ACCESS_POINT:
        pool.copies.setdefault(claim.holder, event)
    check_slot_free(pool, slot)
    if event.vacate < 0:
        pool.report(slot, "value", "the job's MaxVacateTime is below 0")
    if event.key and job_of(event.job) is None:
        pool.report(slot, "value", f"its processes run {event.job!r}, which is not a job")


@rule_of(e.ClaimJobEdited, known_slot)
def check_claim_job_edited(pool: JudgedPool, slot: Slot, event: e.ClaimJobEdited) -> None:
    run = slot.activation
    _named_claim(pool, slot, event.claim)
    if run is None or run.job != event.job:
        run_text = f"it runs {job_name(run)}" if run else "nothing runs on it"
        pool.report(slot, "activation", f"job {event.job} of an outside access point is edited, but {run_text}")


@rule_of(e.ClaimDeactivated, known_slot)
def check_claim_deactivated(pool: JudgedPool, slot: Slot, event: e.ClaimDeactivated) -> None:
    run = slot.activation
    if run is None or run.job != event.job:
        run_text = f"it runs {job_name(run)}" if run else "nothing runs on it"
        pool.report(slot, "activation", f"job {event.job} of an outside access point is gone, but {run_text}")
    if slot.claim is not None:
        _named_claim(pool, slot, event.claim)
    if run is not None and event.starter != (run.key if run.remote_key else ""):
        pool.report(slot, "activation", f"starter {event.starter or 'of the access point'} ends, but it has {run.key}")
    if run is not None and run.remote_key:
        pool.ended_runs[slot.name] = event.claim, event.job, run.remote_key
    check_drain_counted(pool, slot)
    pool.folds = event


@rule_of(e.StarterSignalled, known_slot)
def check_starter_signalled(pool: JudgedPool, slot: Slot, event: e.StarterSignalled) -> None:
    run = slot.activation
    if run is None or not run.job:
        run_text = "no job" if run is None else f"job {job_name(run)} of this pool"
        pool.report(slot, "end", f"the starter of an outside access point ends its job, but it has {run_text}")
        pool.folds = None
        return
    for text in signal_order_errors(run, event):
        pool.report(slot, "end", text)
    if event.signal not in ("", "hold", "remove"):
        pool.report(slot, "value", f"{event.signal!r} is not a soft signal: hold or remove")
    if bool(event.reason) != (event.cause == "held_by_machine"):
        pool.report(slot, "end", "a reason to hold the job needs a true WANT_HOLD, and the other way round")
    if event.code != (HELD_BY_STARTD if event.reason else 0) or (event.subcode and not event.reason):
        pool.report(slot, "value", f"code {event.code}, subcode {event.subcode} do not match the reason of the signal")


@rule(e.RunReported)
def check_run_reported(pool: JudgedPool, event: e.RunReported) -> None:
    """Check that a report is about the processes that the slot has or, at their end, had until this decision."""
    pool.add_to_story(event.slot)
    try:
        report = decode_report(event)
    except DecodeError:
        pool.report_slot(event.slot, "value", f"{event.report} is not a kind of report, or has not these fields")
        pool.folds = None
        return
    slot = pool.state.slots.get(event.slot)
    run, claim = (None, None) if slot is None else (slot.activation, slot.claim)
    reporting = None if run is None else ("" if claim is None else claim.id, run.job, run.remote_key)
    if ends_run(report):
        reporting = pool.ended_runs.pop(event.slot, None)
    if reporting != (event.claim, event.job, event.key):
        pool.report_slot(event.slot, "activation", f"processes of job {event.job} report, but it has no such processes")
    elif run is not None and run.reports.get(report_name(event.report, getattr(report, "way", ""))) == event.stimulus:
        pool.report_slot(event.slot, "activation", f"processes of job {event.job} report the same again")


def settle_ended_runs(pool: JudgedPool) -> None:
    for name, (_, job, _) in pool.ended_runs.items():
        pool.report_slot(name, "activation", f"the end of job {job} is not reported to its access point")
    pool.ended_runs.clear()


@rule_of(e.ClaimHolderSilent, known_slot)
def check_holder_silent(pool: JudgedPool, slot: Slot, event: e.ClaimHolderSilent) -> None:
    claim = _named_claim(pool, slot, event.claim)
    if claim is None:
        return
    if not event.until and not claim.lease_end:
        pool.report(slot, "lease", "its holder answers again, but was not silent")
    if event.until < 0:
        pool.report(slot, "value", f"{event.until} is not an instant")


@rule_of(e.ClaimEnded, known_slot)
def check_claim_ended(pool: JudgedPool, slot: Slot, event: e.ClaimEnded) -> None:
    claim = slot.claim
    if claim is None or claim.id != event.claim:
        claim_text = "it has none" if claim is None else f"its claim is {claim.id}"
        pool.report(slot, "claim", f"claim {event.claim} ends, but {claim_text}")
        return
    pool.expected.pop(slot.name, None)
    if (claim.submitter, claim.negotiator) != (event.submitter, event.negotiator):
        pool.report(slot, "claim", f"{event.submitter} gives up a claim that {claim.submitter} holds")
    where = claim_state(slot.state_activity, slot.activation is not None)
    if not pool.claim_table.allows(where, "end", "Ended") and not _may_end_there(pool, slot, claim, event):
        pool.report(slot, "claim", f"a claim ends in Preempting, but it is {slot.state_activity}")
    usage = (event.at - claim.since) * claim.weight
    if usage != event.usage:
        pool.report(slot, "usage", f"the claim used {usage}, but {event.usage} is charged")
    if slot.activation is not None:
        pool.report(slot, "activation", f"the claim ends while job {job_name(slot.activation)} runs on it")


def _may_end_there(pool: JudgedPool, slot: Slot, claim: Claim, event: e.ClaimEnded) -> bool:
    """Return True if a claim may end outside of Preempting because it was rejected (5b) or its machine leaves."""
    machine = pool.state.machines.get(slot.machine)
    return claim.since == event.at or (event.cause == "shutdown" and machine is not None and bool(machine.shutdown))


def check_lease_over(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    until = slot.claim.lease_end if slot.claim is not None else 0
    if not 0 < until <= event.at:
        text = "its holder was not silent" if not until else "it has not expired"
        pool.report(slot, "lease", f"the claim's lease is recorded as expired, but {text}")


def check_retirement_over(pool: JudgedPool, slot: Slot, event: e.SlotTransitioned) -> None:
    """If a job's retirement time and vacate time are plain numbers of seconds, check that the job had the retirement
    time minus the vacate time. If they are expressions, their evidence is checked instead."""
    run, claim, machine = slot.activation, slot.claim, pool.state.machines.get(slot.machine)
    limit, vacate = (
        _microseconds(policy(slot, name) or "0") for name in ("maxjobretirementtime", "machinemaxvacatetime")
    )
    if run is None or claim is None or machine is None or limit is None or vacate is None or has_own_times(pool, run):
        return
    drain = machine.drain
    hurried = drain is not None and (drain.final or (drain.state in SCHEDULES and not SCHEDULES[drain.state].retires))
    if "late" in claim.flags or hurried:
        return
    run_time = run.run_time(event.at)
    if run_time + max(run.max_vacate_time, vacate, pool.vacate) < limit:
        text = f"its job's retirement is recorded as over, but it ran for {interval(run_time)} of {interval(limit)}"
        pool.report(slot, "retirement", text)


def _microseconds(text: str) -> int | None:
    """Convert seconds to microseconds; return None if the text is not a plain number."""
    return int(text) * 1_000_000 if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


# Claims that are reserved for a job that condor_now runs immediately


@rule(e.ClaimsReserved)
def check_reservation_made(pool: JudgedPool, event: e.ClaimsReserved) -> None:
    job = event.cluster, event.proc
    if known_cluster(pool, *job) is not None and not is_waiting_for_slot(pool, *job):
        pool.report(job, "reservation", "claims are reserved for it, but it is not idle")
    if job in pool.state.reservations:
        pool.report(job, "reservation", "claims are already reserved for it")
    if event.until != event.at + schedd_seconds(pool.state.settings, "SCHEDD_NOW_JOB_VACATE_TIMEOUT") * 1_000_000:
        pool.report(job, "value", "its claims are not reserved for SCHEDD_NOW_JOB_VACATE_TIMEOUT")
    if not event.claims:
        pool.report(job, "reservation", "claims are reserved for it, but none is named")
    for name, claim in event.claims.items():
        slot = pool.state.slots.get(name)
        if slot is None or slot.claim is None or slot.claim.id != claim:
            pool.report(job, "reservation", f"{claim}, which is reserved for it, is not the claim of {name}")
        elif slot.activation is None or not slot.activation.cluster:
            pool.report(job, "reservation", f"the claim of {name} is reserved for it, but no job of this queue has it")
        elif pool.state.is_reserved(slot.name):
            pool.report(job, "reservation", f"the claim of {name} is already reserved for another job")


@rule(e.ReservationEnded)
def check_reservation_ended(pool: JudgedPool, event: e.ReservationEnded) -> None:
    job = event.cluster, event.proc
    reservation = pool.state.reservations.get(job)
    if reservation is None:
        pool.report(job, "reservation", "a reservation of claims ends, but it had none")
        return
    if bool(event.slot) != (event.cause == "coalesced"):
        pool.report(job, "reservation", "a reservation names a slot only if one was made for the job")
    slot = pool.state.slots.get(event.slot)
    claim = None if slot is None else slot.claim
    is_requested = event.slot in (pool.state.assigned_slots.get(job), "")  # an execution point elsewhere answers later
    if not is_requested and (claim is None or claim.holder or job_of(claim.job) != job):
        pool.report(job, "reservation", f"{event.slot} was created for it, but is not claimed for it")
    if event.cause == "now_late" and event.at < reservation.deadline:
        pool.report(job, "reservation", "the vacate timeout for its claims is recorded as over, but is not")


def check_coalesced(pool: JudgedPool, slot: Slot, event: e.ClaimMade) -> None:
    """Check the claim of a slot that condor_now combined from the slots of the job's reserved claims."""
    job = job_of(event.job)
    reservation = None if job is None else pool.state.reservations.get(job)
    if job is None or reservation is None:
        pool.report(slot, "reservation", f"it is claimed for job {event.job}, for which no claims were reserved")
        return
    slots = _existing_slots(pool, reservation)
    if slots:
        text = f"it is combined for job {event.job}, but the claim of {', '.join(slots)} still exists"
        pool.report(slot, "reservation", text)
    if not is_waiting_for_slot(pool, *job):
        pool.report(slot, "reservation", f"it is combined for job {event.job}, which is not idle")
    check_limits_of_ad(
        pool, event, pool.state.clusters[job[0]].attributes(job[1]) if job[0] in pool.state.clusters else {}
    )


def _existing_slots(pool: JudgedPool, reservation: Reservation) -> list[str]:
    slots = ((pool.state.slots.get(name), claim) for name, claim in reservation.claims.items())
    return [slot.name for slot, claim in slots if slot is not None and slot.claim and slot.claim.id == claim]


def settle_reservations(pool: JudgedPool) -> None:
    for job, reservation in list(pool.state.reservations.items()):
        if len(_existing_slots(pool, reservation)) < len(reservation.claims):
            pool.report(job, "reservation", "one of the claims that are reserved for it is gone")
            del pool.state.reservations[job]
