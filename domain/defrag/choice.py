"""One poll's decision: which drains are canceled, and which machines are drained.

The order is HTCondor's (``Defrag::poll``): all machines are evaluated once; drains are canceled in any case; then the
limits are checked, and last the machines are taken by their rank. The decision is a function of the ads, the earlier
polls in the state, and the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor
from typing import Final, NamedTuple

from msgspec import Struct

from ..classad import ClassAd, Context
from ..ports.slot_ads import SlotAds
from ..state.records import Machine
from ..state.state import Manager
from ..units import DAY, HOUR, SECOND
from .defrag_settings import DefragPolicy
from .drain_candidates import CandidateSlot, Questions, number, ranked

# What drains have cost the pool: AvgDrainingBadput and AvgDrainingUnclaimed, parts of the time of its cores.
#
# As HTCondor averages them (``Defrag::queryDrainingCost``): over the ads with SlotID 1 that have a cost. So a machine
# counts again for each dynamic slot of its first slot, and a machine without costs does not count.

BADPUT, UNCLAIMED = "AvgDrainingBadput", "AvgDrainingUnclaimed"


class Cost(NamedTuple):
    """What drains have cost a machine since its startd began, by its slots' ads, in core-seconds. ``cores``: its
    TotalCpus; ``ads``: how many ads have the cost."""

    age: int
    badput: int
    unclaimed: int
    cores: int
    ads: int = 1


def draining_costs(state: Manager, slots: SlotAds, now: int, context: Context) -> dict[str, float]:
    """Return the averages at an instant, in microseconds."""
    drained = (machine for machine in state.machines.values() if machine.drains)
    return averages(cost for machine in drained if (cost := _cost(slots, machine, now, context)) is not None)


def _cost(slots: SlotAds, machine: Machine, now: int, context: Context) -> Cost | None:
    first = [slot for slot in machine.slots.values() if slot.ad.get("SlotID") == "1"]
    if not first:
        return None
    m = slots.snapshot(first[0])
    unclaimed = slots.unclaimed_in_drains(machine)
    if not (machine.badput or unclaimed):  # the ads do not have it
        return None
    ad = ClassAd({} if (cpus := slots.attribute(m, "totalcpus")) is None else {"TotalCpus": cpus})
    cores = number(CandidateSlot(first[0].name, machine.name, ad), "TotalCpus", context)
    return Cost(now // SECOND - machine.joined // SECOND, machine.badput, unclaimed, cores, len(first))


def averages(costs: Iterable[Cost]) -> dict[str, float]:
    """Return the averages over ads with SlotID 1 that have a cost."""
    badput = unclaimed = 0.0
    cores = 0
    for cost in costs:
        if cost.age > 0:
            badput += cost.badput / cost.age * cost.ads
            unclaimed += cost.unclaimed / cost.age * cost.ads
            cores += cost.cores * cost.ads
    return {BADPUT: badput / cores if cores else badput, UNCLAIMED: unclaimed / cores if cores else unclaimed}


# How many machines a poll may drain: a rate per hour, as whole numbers of machines.
#
# HTCondor divides the rate into whole machines for each poll, what is left of it into whole machines for each
# hour, and the rest into whole machines for each day, rounded. The hour's and the day's are drained by the first poll
# in an hour or a day, and fewer if that comes late. Hours and days are those of UTC.
#
# So a rate is kept on the average. In the manual's dialect no hour and no day exceeds it besides, whatever was
# reconfigured or polled late: what the settings in force allow, less what was drained in the hour and the day.

_SLACK: Final = 0.00001
"""What HTCondor adds to a rate before it takes the whole machines of it."""


class Rates(NamedTuple):
    """Machines to drain in each poll, and besides in the first one of each hour and of each day."""

    poll: int
    hour: int
    day: int


def rates(per_hour: float, interval: int) -> Rates:
    """Return the whole numbers of machines that a rate per hour makes.

    :param interval: seconds between two polls, more than 0
    """
    each = per_hour / HOUR * interval
    poll = floor(each + _SLACK)
    rest = (each - poll) / interval * HOUR
    hour = floor(rest + _SLACK)
    if interval > HOUR:
        hour = 0
    day = floor((rest - hour) * 24 + 0.5)
    return Rates(poll, hour, 0 if day < 0 or interval > DAY else day)


def wanted(rate: Rates, interval: int, last: int, now: int) -> int:
    """Return how many machines a poll is to drain.

    :param last: the second of the poll before it; 0: there was none
    """
    drains = rate.poll
    if last:
        if now // HOUR != last // HOUR:
            drains += _what_is_left(rate.hour, now % HOUR, HOUR, interval)
        if now // DAY != last // DAY:
            drains += _what_is_left(rate.day, now % DAY, DAY, interval)
    return drains


def _what_is_left(number: int, elapsed: int, period: int, interval: int) -> int:
    """Return the part of a number per period for the rest of the period, and for the interval that a poll may be late
    by."""
    part = (period - elapsed) / period + interval / period
    return min(number, floor(number * part + 0.5))


class DrainsBegun(NamedTuple):
    """How many drains were begun in the current hour and the current day of UTC."""

    in_hour: int
    in_day: int


def drains_left(per_hour: float, interval: int, spent: DrainsBegun) -> int:
    """Return how many machines may still be drained in the current hour and day without exceeding the rate. If the rate
    is not an integer, one hour may use the day's share of its fraction."""
    full = floor(per_hour + _SLACK)
    fraction = floor((per_hour - full) * 24 + 0.5)
    of_day = full * 24 + fraction - spent.in_day
    of_hour = full + fraction - spent.in_hour
    return max(0, of_day if interval > HOUR else min(of_hour, of_day))


WhyNot = Callable[[CandidateSlot], str]
"""Returns why something cannot be done with a slot's machine; empty: it can."""


class Habits(Struct, frozen=True):
    """Where the dialects differ (``state_machines/dialects.py`` says how)."""

    exceeds_maxima: bool
    stops_at_long_intervals: bool


class Before(Struct, frozen=True):
    """The earlier polls: the second of the last one (0: there was none), and the drains of this hour and day."""

    last: int
    spent: DrainsBegun


class Chosen(Struct, frozen=True):
    """A slot, and why its machine is not drained, or its drain not canceled (empty: it is)."""

    seen: CandidateSlot
    rank: float = 0.0
    refused: str = ""


class Decision(Struct, frozen=True):
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
    expressions: Questions,
    slots: Sequence[CandidateSlot],
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
    draining = frozenset(slot.machine for slot in expressions.draining.true_of(slots, context))
    whole = frozenset(slot.machine for slot in expressions.whole.true_of(slots, context))
    cancels = _cancels(expressions, slots, context, may_cancel)
    number, stopped = allowed(policy, before, now, len(draining), len(whole), habits)
    if stopped:
        return Decision(number, draining, whole, cancels, (), 0, stopped)
    done = {slot.seen.machine for slot in cancels} | whole
    free = [slot for slot in expressions.drain.true_of(slots, context) if slot.machine not in done]
    drains = _drains(ranked(free, expressions.rank, context), number, may_drain)
    machines = len({slot.machine for slot in free})
    return Decision(number, draining, whole, cancels, drains, machines, "")


def allowed(
    policy: DefragPolicy, before: Before, now: int, draining: int, whole: int, habits: Habits
) -> tuple[int, str]:
    """Return how many machines a poll may drain at the second ``now``, and what stops it from draining any (empty:
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


def _within(policy: DefragPolicy, number: int, draining: int, whole: int, spent: DrainsBegun) -> int:
    """Return how many of these machines may be drained at once without exceeding a maximum."""
    limits = [drains_left(policy.per_hour, policy.interval, spent)]
    if policy.most_draining >= 0:
        limits.append(policy.most_draining - draining)
    if policy.most_whole >= 0:
        limits.append(policy.most_whole - whole)
    return max(0, min(number, *limits))


def _cancels(
    expressions: Questions, slots: Sequence[CandidateSlot], context: Context, may_cancel: WhyNot
) -> tuple[Chosen, ...]:
    """Return a slot of each machine whose drain is to be canceled."""
    if expressions.cancel is None:
        return ()
    chosen: dict[str, Chosen] = {}
    for rank, slot in ranked(expressions.cancel.true_of(slots, context), expressions.rank, context):
        if slot.machine not in chosen:
            chosen[slot.machine] = Chosen(slot, rank, may_cancel(slot))
    return tuple(chosen.values())


def _drains(candidates: Sequence[tuple[float, CandidateSlot]], number: int, may_drain: WhyNot) -> tuple[Chosen, ...]:
    """Return the slots of the machines to drain. A machine that cannot be drained does not count."""
    chosen: list[Chosen] = []
    done: set[str] = set()
    for rank, slot in candidates:
        if len(done) == number:
            break
        if slot.machine in done:
            continue
        refused = may_drain(slot)
        chosen.append(Chosen(slot, rank, refused))
        if not refused:
            done.add(slot.machine)
    return tuple(chosen)
