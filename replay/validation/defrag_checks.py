"""Check the defragmentation: when it polls, how many machines it drains, and that each drain in its name is one of
those that it chose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from ...domain import events as e
from ...domain.defrag.choice import allowed
from ...domain.defrag.defrag_settings import DefragPolicy, policy_in_force
from ...domain.defrag.poll import COMPLETION, before, habits_of
from ...domain.units import SECOND
from ..narration.defrag_words import STOPPED
from .judged_pool import JudgedPool, rule

THING = "defrag"
DRAINED, CANCELED = "defrag", "defrag_cancel"
"""The causes of what follows from a poll."""


@rule(e.DefragPolled)
def polled(pool: JudgedPool, event: e.DefragPolled) -> None:
    policy = policy_in_force(pool.state.settings)
    if policy is None:
        pool.report(THING, "defrag", "it polls, but DEFRAG does not stand in the pool's DAEMON_LIST")
        pool.folds = None
        return
    _in_time(pool, policy, event)
    _changes(pool, "drain", pool.state.defrag.draining, event.began_draining, event.over_draining, event.draining)
    _changes(pool, "be whole", pool.state.defrag.whole, event.became_whole, event.no_longer_whole, event.whole)
    _count(pool, policy, event)
    _machines(pool, event)
    if not all(isfinite(value) and value >= 0 for value in event.costs.values()):
        pool.report(THING, "value", "what drains cost on the average is no number of 0 or more")
    pool.to_drain = {one.machine for one in event.drains if not one.refused}
    pool.to_cancel = {one.machine for one in event.cancels if not one.refused}


def _in_time(pool: JudgedPool, policy: DefragPolicy, event: e.DefragPolled) -> None:
    last = pool.state.defrag.last_poll
    if policy.interval <= 0:
        pool.report(THING, "defrag", f"it polls, but DEFRAG_INTERVAL is {policy.interval}")
    elif last and event.at < last + policy.interval * SECOND:
        pool.report(THING, "defrag", f"it polls {(event.at - last) / SECOND:g} s after its last poll, too early")


def _changes(
    pool: JudgedPool, what: str, known: set[str], came: Sequence[str], went: Sequence[str], count: int
) -> None:
    if known & set(came) or not set(went) <= known:
        pool.report(THING, "defrag", f"machines are said to {what} from here on, or no longer, as they did before")
    if len((known - set(went)) | set(came)) != count:
        pool.report(THING, "defrag", f"{count} machines are said to {what}, but the polls so far make that others")


def _count(pool: JudgedPool, policy: DefragPolicy, event: e.DefragPolled) -> None:
    if policy.interval <= 0:
        return
    known = before(pool.state, event.at)
    number, stopped = allowed(policy, known, event.at // SECOND, event.draining, event.whole, habits_of(pool.state))
    if (event.wanted, event.stopped) != (number, stopped):
        why = f" ({STOPPED[stopped]})" if stopped else ""
        pool.report(THING, "defrag", f"it may drain {number} machines{why}, but is said to drain {event.wanted}")
    begun = sum(not one.refused for one in event.drains)
    if begun > (0 if stopped else number):
        pool.report(THING, "defrag", f"it drains {begun} machines, more than the {number} that it may")


def _machines(pool: JudgedPool, event: e.DefragPolled) -> None:
    """Check that what was chosen is there, is chosen once, and has its evidence."""
    state = pool.state
    whole = (state.defrag.whole - set(event.no_longer_whole)) | set(event.became_whole)
    _once(pool, [one.machine for one in event.drains if not one.refused], "drained")
    _once(pool, [one.machine for one in event.cancels], "canceled")
    choices: list[e.DefragDrain | e.DefragCancel] = [*event.drains, *event.cancels]
    for one in choices:
        slot = state.slots.get(one.slot)
        if slot is None or slot.machine != one.machine:
            pool.report(THING, "reference", f"{one.slot} is no slot of {one.machine}")
        missing = [position for position in one.evidence if position not in pool.notes]
        if missing:
            pool.report(THING, "evidence", f"its evidence is said to be {missing[0]}, where the poll noted none")
        if isinstance(one, e.DefragDrain):
            if one.machine in whole:
                pool.report(THING, "defrag", f"{one.machine} is drained, but it is whole")
            _asked(pool, one.evidence, "DEFRAG_REQUIREMENTS")
        else:
            _asked(pool, one.evidence, "DEFRAG_CANCEL_REQUIREMENTS")


def _once(pool: JudgedPool, machines: Sequence[str], what: str) -> None:
    if len(set(machines)) < len(machines):
        pool.report(THING, "defrag", f"a machine is {what} twice by one poll")


def _asked(pool: JudgedPool, evidence: Iterable[int], name: str) -> None:
    notes = [pool.notes[position] for position in evidence if position in pool.notes]
    if not any(note.name == name and note.value == "true" for note in notes):
        pool.report(THING, "evidence", f"it chose a machine, and noted no {name} that was true of it")


def began(pool: JudgedPool, event: e.DrainBegan) -> None:
    """Check a drain: whether the defragmentation chose it, and under its terms."""
    if event.cause != DRAINED:
        return
    policy = policy_in_force(pool.state.settings)
    if event.machine not in pool.to_drain or policy is None:
        pool.report(event.machine, "defrag", "it drains because the defragmentation chose it, but no poll did")
        return
    pool.to_drain.discard(event.machine)
    terms = (event.schedule, event.reason, event.completion)
    if terms != (policy.schedule, policy.reason, COMPLETION):
        pool.report(event.machine, "defrag", f"it drains otherwise than the settings say: {', '.join(terms)}")


def moved(pool: JudgedPool, event: e.DrainTransitioned) -> None:
    """Check that a drain is canceled by the defragmentation where it decided so alone."""
    if event.cause != CANCELED:
        return
    if event.machine not in pool.to_cancel:
        pool.report(event.machine, "defrag", "the defragmentation is said to cancel its drain, but no poll did")
    pool.to_cancel.discard(event.machine)


def settle(pool: JudgedPool) -> None:
    """Check at the end of a stimulus that all that a poll chose was done."""
    for machine in sorted(pool.to_drain):
        pool.report(machine, "defrag", "the defragmentation chose it, but no drain of it began")
    for machine in sorted(pool.to_cancel):
        pool.report(machine, "defrag", "the defragmentation canceled its drain, but that did not end")
    pool.to_drain, pool.to_cancel = set(), set()
