"""The rules about claims and matches: the pool's own access point's, and those of holders outside of it."""

from __future__ import annotations

from ...domain import events as e
from ...domain.state_machines import claim_state, match_state, state, void_row
from ..narration.wording import interval
from . import accounting
from .jobs import READY, leaves, waits_for_a_slot, wrong_order
from .judged_pool import Books, Claim, Slot, Stay, Stop, job_of, wishes
from .judged_pool import known_slot as known
from .rules import REASONS

MOST_DIGITS = 12
"""A number of seconds has no more."""


def made(books: Books, event: e.ClaimMade) -> None:
    slot = known(books, event.slot)
    accounting.takes(books, event)
    if slot is None:
        return
    if slot.claim is not None:
        books.blame_slot(slot.name, "claim", f"it is claimed, by {slot.claim.submitter}")
    waited = slot.waiting
    takes_over = waited is not None and waited.claim == event.claim
    job = drop_match(books, event.slot)
    if job is None and not event.holder and not takes_over:
        books.blame_slot(slot.name, "match", "it is claimed without a match")
    if waited is not None and _claimed(waited) != _claimed(event):
        words = f"claim {waited.claim} waited for it, but {event.claim} takes it, or with other terms"
        books.blame_slot(slot.name, "waiting", words)
    if slot.pair != "Claimed/Idle" and not (takes_over and state(slot.pair) == "Preempting"):
        books.blame_slot(slot.name, "claim", f"a claim begins in Claimed/Idle, but it is {slot.pair}")
    if event.weight < 0 or slot.weight not in (None, event.weight):
        books.blame_slot(slot.name, "value", f"it is claimed with the weight {event.weight}, which is not its own")
    machine = books.machines.get(slot.machine)
    if machine is not None and machine.shutdown and not (takes_over and books.dialect.better_match_survives_shutdown):
        books.blame_slot(slot.name, "shutdown", f"it is claimed while {slot.machine} is shut down")
    _lease(books, slot, event)
    if waited is not None and takes_over and not event.holder:
        job = job_of(waited.job)
        if job is not None and not waits_for_a_slot(books, *job):
            books.blame_slot(slot.name, "waiting", f"its better match is for job {event.job}, which waits no longer")
    elif waited is not None:
        drop_waiting(books, waited)
    slot.waiting, slot.notified = None, False
    slot.claim = Claim(event, job)


def _claimed(event: e.ClaimMade | e.ClaimQueued) -> tuple[object, ...]:
    """What a claim that waited still is when it is made."""
    return event.claim, event.submitter, event.rank, event.holder, event.job, event.ad, event.lease


def drop_waiting(books: Books, waited: e.ClaimQueued) -> None:
    """A better match waits no longer: its job, if it is of the pool's own queue, may be given another slot."""
    job = None if waited.holder else job_of(waited.job)
    if job is not None:
        books.matched.pop(job, None)


def _lease(books: Books, slot: Slot, event: e.ClaimMade | e.ClaimQueued) -> None:
    if event.lease < 0:
        books.blame_slot(slot.name, "value", f"a claim's lease is {event.lease} s, below 0")


def _of(books: Books, slot: Slot, claim: str) -> Claim | None:
    """The slot's claim, if it is the one of which something is said."""
    found = slot.claim
    if found is None or found.id != claim:
        has = "it has none" if found is None else f"its claim is {found.id}"
        books.blame_slot(slot.name, "claim", f"something is said of claim {claim}, but {has}")
        return None
    return found


def waits(books: Books, event: e.ClaimQueued) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    if slot.claim is None:
        books.blame_slot(slot.name, "waiting", "a better match waits for it, but nobody has it")
    if slot.waiting is not None and slot.waiting.claim == event.claim:
        books.blame_slot(slot.name, "waiting", f"{event.claim} is said to wait for it a second time")
    _lease(books, slot, event)
    if slot.waiting is not None:
        drop_waiting(books, slot.waiting)
    if not event.holder:
        _own_waits(books, slot, event)
    slot.waiting = event


def _own_waits(books: Books, slot: Slot, event: e.ClaimQueued) -> None:
    """The pool's own access point waits for a slot that it was given; its job is not given another until then."""
    job = books.matches.pop(slot.name, None)
    if job is None or f"{job[0]}.{job[1]}" != event.job:
        books.blame_slot(slot.name, "match", f"job {event.job} waits for it, but it was not matched with that job")
    elif not waits_for_a_slot(books, *job):
        books.blame_slot(slot.name, "match", f"job {event.job} waits for it, but not for a slot")
    if slot.claim is not None and event.rank < slot.claim.rank:
        words = f"it prefers the job that it has ({slot.claim.rank:g}) to {event.job} ({event.rank:g}), which waits"
        books.blame_slot(slot.name, "waiting", words)


def withdrawn(books: Books, event: e.ClaimWithdrawn) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    if slot.waiting is None or slot.waiting.claim != event.claim:
        books.blame_slot(slot.name, "waiting", f"{event.claim} waits for it no longer, but it did not wait")
    if slot.waiting is not None:
        drop_waiting(books, slot.waiting)
    slot.waiting = None


def marked(books: Books, event: e.ClaimFlagged) -> None:
    slot = known(books, event.slot)
    claim = None if slot is None else _of(books, slot, event.claim)
    if slot is None or claim is None:
        return
    for flag in event.flags:
        if flag not in e.CLAIM_FLAGS:
            books.blame_slot(slot.name, "value", f"{flag!r} is no flag of a claim: {', '.join(e.CLAIM_FLAGS)}")
    if "resumed" in event.flags and "by_command" not in claim.marks:
        books.blame_slot(slot.name, "claim", "its job goes on by request, but was not suspended by one")
    if claim.marks.issuperset(event.flags) and event.reason in ("", claim.reason):
        books.blame_slot(slot.name, "claim", "it is marked with what holds for its claim already")
    claim.marks.update(event.flags)
    claim.reason = event.reason or claim.reason
    if "resumed" in event.flags:
        claim.marks -= {"by_command", "resumed"}


def activated(books: Books, event: e.ClaimActivated) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    claim = _of(books, slot, event.claim)
    if claim is not None and not claim.holder:
        words = f"job {event.job} of a holder outside begins, but the pool's own access point holds it"
        books.blame_slot(slot.name, "activation", words)
    if slot.stay is not None:
        books.blame_slot(slot.name, "activation", f"it runs job {slot.stay.job} already")
    if slot.pair not in READY:
        words = f"a job is activated in {' or '.join(READY)}, but it is {slot.pair}"
        books.blame_slot(slot.name, "activation", words)
    if event.vacate < 0:
        books.blame_slot(slot.name, "value", "the time to vacate that its job was promised is below 0")
    slot.stay = Stay(books.position, event.at, event.job, None, event.vacate)
    slot.stay.plain = not wishes(event.ad)


def deactivated(books: Books, event: e.ClaimDeactivated) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    stay = slot.stay
    if stay is None or stay.own is not None or stay.job != event.job:
        has = f"it runs {stay.job}" if stay else "nothing runs on it"
        books.blame_slot(slot.name, "activation", f"job {event.job} of a holder outside is gone, but {has}")
    if slot.claim is not None:
        _of(books, slot, event.claim)
    leaves(books, slot)


def told(books: Books, event: e.StarterSignalled) -> None:
    slot = known(books, event.slot)
    if slot is None:
        return
    stay = slot.stay
    if stay is None or stay.own is not None:
        has = "no job" if stay is None else f"job {stay.job} of the pool's own"
        books.blame_slot(slot.name, "end", f"the starter of a holder outside is told to end its job, but it has {has}")
        return
    for words in wrong_order(stay.stop, event):
        books.blame_slot(slot.name, "end", words)
    stay.stop = Stop(event.how, event.until)


def unheard(books: Books, event: e.ClaimHolderSilent) -> None:
    slot = known(books, event.slot)
    claim = None if slot is None else _of(books, slot, event.claim)
    if slot is None or claim is None:
        return
    if not event.until and not claim.until:
        books.blame_slot(slot.name, "lease", "its holder is heard again, but was not silent")
    if event.until < 0:
        books.blame_slot(slot.name, "value", f"{event.until} is no instant")
    claim.until = event.until


def ended(books: Books, event: e.ClaimEnded) -> None:
    slot = known(books, event.slot)
    accounting.gives_back(books, event, slot)
    if slot is None:
        return
    claim, slot.claim = slot.claim, None
    if claim is None or claim.id != event.claim:
        has = "it has none" if claim is None else f"its claim is {claim.id}"
        books.blame_slot(slot.name, "claim", f"claim {event.claim} ends, but {has}")
        return
    if claim.expected is not None:
        books.matched.pop(claim.expected, None)
    if claim.submitter != event.submitter:
        books.blame_slot(slot.name, "claim", f"{event.submitter} gives up a claim that {claim.submitter} holds")
    where = claim_state(slot.pair, slot.stay is not None)
    if not books.claim_table.legal(where, "end", "Ended") and not _ends_there(books, slot, claim, event):
        books.blame_slot(slot.name, "claim", f"a claim ends in Preempting, but it is {slot.pair}")
    usage = (event.at - claim.since) * claim.weight
    if usage != event.usage:
        books.blame_slot(slot.name, "usage", f"the claim was held for a usage of {usage}, but {event.usage} is charged")
    if slot.stay is not None:
        books.blame_slot(slot.name, "activation", f"the claim ends while job {slot.stay.job} runs on it")


def _ends_there(books: Books, slot: Slot, claim: Claim, event: e.ClaimEnded) -> bool:
    """Whether a claim may end without Preempting: it was just made and is taken back (5b), or its machine ends."""
    machine = books.machines.get(slot.machine)
    return claim.since == event.at or (event.cause == "shutdown" and machine is not None and bool(machine.shutdown))


def lease_over(books: Books, slot: Slot, event: e.SlotTransitioned) -> None:
    """A claim is given up for its holder's silence: its lease is over."""
    until = slot.claim.until if slot.claim is not None else 0
    if not 0 < until <= event.at:
        words = "its holder was not silent" if not until else "it runs on"
        books.blame_slot(slot.name, "lease", f"the claim's lease is said to be over, but {words}")


def retirement_over(books: Books, slot: Slot, event: e.SlotTransitioned) -> None:
    """A job has run for its retirement time, or for so much of it that the rest is its time to vacate. Only where both
    are plain numbers: what an expression grants, its evidence says."""
    stay, claim, machine = slot.stay, slot.claim, books.machines.get(slot.machine)
    granted, vacate = (
        _seconds(slot.policy.get(name, "0")) for name in ("maxjobretirementtime", "machinemaxvacatetime")
    )
    if stay is None or claim is None or machine is None or granted is None or vacate is None or not stay.plain:
        return
    hurried = machine.drain is not None and (machine.drain.final or machine.drain.state in ("Quick", "Fast"))
    if "late" in claim.marks or hurried:
        return
    ran = stay.ran(event.at)
    if ran + max(stay.vacate, vacate, books.vacate) < granted:
        words = f"its job's retirement is said to be over, but it ran for {interval(ran)} of {interval(granted)}"
        books.blame_slot(slot.name, "retirement", words)


def _seconds(text: str) -> int | None:
    """A plain number of seconds in microseconds; None for every other expression."""
    return int(text) * 1_000_000 if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


# Matches


def drop_match(books: Books, slot: str) -> tuple[int, int] | None:
    job = books.matches.pop(slot, None)
    if job is not None:
        books.matched.pop(job, None)
    return job


def cycle(books: Books, event: e.CycleHeld) -> None:
    books.cycle = True
    books.matched_any = books.matched_any or bool(event.matches)
    for match in event.matches:
        job = job_of(match.job)
        cluster = books.clusters.get(job[0]) if job else None
        if job is None or cluster is None or not 0 <= job[1] < cluster.count:
            books.blame(match.job, "reference", f"there is no job {match.job} to match")
            continue
        if not waits_for_a_slot(books, *job) or job in books.matched:
            books.blame_job(*job, "match", f"it is matched with {match.slot}, but does not wait")
        _reason(books, match)
        if match.slot in books.matches:
            books.blame_slot(match.slot, "match", f"it is matched with {match.job}, but is taken already")
            drop_match(books, match.slot)
        books.matches[match.slot] = job
        books.matched[job] = match.slot
        books.touched[match.slot] = None


def _reason(books: Books, match: e.Match) -> None:
    """A slot that somebody has is matched for a reason, one that nobody has for none."""
    slot = books.slots.get(match.slot)
    claim = None if slot is None else slot.claim
    if match.reason and match.reason not in REASONS:
        books.blame_slot(match.slot, "value", f"{match.reason!r} is no reason of a match: {', '.join(REASONS)}")
    elif match.reason and claim is None:
        books.blame_slot(match.slot, "match", f"it is matched by {match.reason}, but nobody has it")
    elif claim is not None and not match.reason:
        words = f"it is matched with {match.job}, but {claim.submitter} has it, and no reason is given"
        books.blame_slot(match.slot, "match", words)


def voided(books: Books, event: e.MatchVoided) -> None:
    slot = known(books, event.slot)
    job = drop_match(books, event.slot)
    if slot is not None and not books.match_table.lookup.get((match_state(slot.pair), void_row(event.cause))):
        words = f"{void_row(event.cause)} is not how a match ends of which the slot has not heard"
        books.blame_slot(event.slot, "match", words)
    if slot is not None and (job is None or f"{job[0]}.{job[1]}" != event.job):
        books.blame_slot(event.slot, "match", f"it was not matched with {event.job}")
