"""One poll's decision: of which machines the drain is canceled, and which machines are drained.

The order is the reference's (``Defrag::poll``): all machines are looked at once; drains are canceled whatever else
holds; then every limit is asked, and last the machines are taken by their rank. A function of the ads, of what the
state has of the polls before, and of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

from attrs import frozen

from ..classad import Context
from .budget import HOUR, Spent, left, rates, wanted
from .candidates import Questions, SlotAd, ranked
from .settings import DefragPolicy

WhyNot = Callable[[SlotAd], str]
"""Tells why something cannot be done with a slot's machine; empty: it can."""


@frozen
class Habits:
    """Where the dialects differ (``state_machines/dialects.py`` says how)."""

    exceeds_maxima: bool
    stops_at_long_intervals: bool


@frozen
class Before:
    """What the polls before tell: the second of the last one (0: there was none), and the drains of this hour and
    day."""

    last: int
    spent: Spent


@frozen
class Chosen:
    """A slot, and why nothing is done with its machine (empty: it is)."""

    seen: SlotAd
    rank: float = 0.0
    refused: str = ""


@frozen
class Decision:
    """What a poll decides. ``stopped`` and ``wanted`` are those of ``DefragPolled``."""

    wanted: int
    draining: frozenset[str]
    whole: frozenset[str]
    cancels: tuple[Chosen, ...]
    drains: tuple[Chosen, ...]
    candidates: int
    stopped: str


def choose(
    policy: DefragPolicy,
    asked: Questions,
    slots: Sequence[SlotAd],
    before: Before,
    now: int,
    context: Context,
    habits: Habits,
    may_drain: WhyNot = lambda seen: "",
    may_cancel: WhyNot = lambda seen: "",
) -> Decision:
    """Decide.

    :param slots: the published ads
    :param now: the second
    :param context: the same instant, and the time zone, for the expressions
    """
    draining = frozenset(one.machine for one in asked.draining.true_of(slots, context))
    whole = frozenset(one.machine for one in asked.whole.true_of(slots, context))
    cancels = _cancels(asked, slots, context, may_cancel)
    number, stopped = allowed(policy, before, now, len(draining), len(whole), habits)
    if stopped:
        return Decision(number, draining, whole, cancels, (), 0, stopped)
    done = {one.seen.machine for one in cancels} | whole
    free = [one for one in asked.drain.true_of(slots, context) if one.machine not in done]
    drains = _drains(ranked(free, asked.rank, context), number, may_drain)
    machines = len({one.machine for one in free})
    return Decision(number, draining, whole, cancels, drains, machines, "")


def allowed(
    policy: DefragPolicy, before: Before, now: int, draining: int, whole: int, habits: Habits
) -> tuple[int, str]:
    """Return how many machines a poll may drain at the second ``now``, and what keeps it from draining any (empty:
    nothing).

    :param draining: how many machines drain, by the defragmentation
    :param whole: how many machines are whole
    """
    number = wanted(rates(policy.per_hour, policy.interval), policy.interval, before.last, now)
    stopped = _stopped(policy, number, draining, whole, habits)
    if not stopped and not habits.exceeds_maxima:
        number = _within(policy, number, draining, whole, before.spent)
        stopped = "" if number else "spent"
    return number, stopped


def _stopped(policy: DefragPolicy, number: int, draining: int, whole: int, habits: Habits) -> str:
    if number <= 0 or ceil(policy.per_hour) <= 0:
        return "rate"
    if policy.interval > HOUR and habits.stops_at_long_intervals:
        return "interval"
    if 0 <= policy.most_draining <= draining:
        return "concurrent"
    if 0 <= policy.most_whole <= whole:
        return "whole"
    return ""


def _within(policy: DefragPolicy, number: int, draining: int, whole: int, spent: Spent) -> int:
    """Return how many of these machines may be drained at once without exceeding a maximum."""
    limits = [left(policy.per_hour, policy.interval, spent)]
    if policy.most_draining >= 0:
        limits.append(policy.most_draining - draining)
    if policy.most_whole >= 0:
        limits.append(policy.most_whole - whole)
    return max(0, min(number, *limits))


def _cancels(asked: Questions, slots: Sequence[SlotAd], context: Context, may_cancel: WhyNot) -> tuple[Chosen, ...]:
    """Return a slot for each machine of which the drain is to be canceled."""
    if asked.cancel is None:
        return ()
    found: dict[str, Chosen] = {}
    for rank, one in ranked(asked.cancel.true_of(slots, context), asked.rank, context):
        if one.machine not in found:
            found[one.machine] = Chosen(one, rank, may_cancel(one))
    return tuple(found.values())


def _drains(candidates: Sequence[tuple[float, SlotAd]], number: int, may_drain: WhyNot) -> tuple[Chosen, ...]:
    """Return the slots of the machines to drain. One that cannot be drained takes no other's place."""
    found: list[Chosen] = []
    done: set[str] = set()
    for rank, one in candidates:
        if len(done) == number:
            break
        if one.machine in done:
            continue
        refused = may_drain(one)
        found.append(Chosen(one, rank, refused))
        if not refused:
            done.add(one.machine)
    return tuple(found)
