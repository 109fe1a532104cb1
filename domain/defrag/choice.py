"""The decision of one poll: which drains to cancel, and which machines to drain.

The order is HTCondor's (``Defrag::poll``): evaluate all machines once, cancel drains regardless of limits, check the
limits, and choose machines by rank. The decision depends only on the ads, the earlier polls in the state, and the
policy.
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
from .drain_candidates import CandidateSlot, PolicyConditions, integer_attribute, sort_by_rank

# The cost of drains to the pool: AvgDrainingBadput and AvgDrainingUnclaimed, as fractions of its core time.
#
# As in HTCondor (``Defrag::queryDrainingCost``), the average is over the ads with SlotID 1 that contain a cost. So each
# dynamic slot of a machine's first slot counts the machine again, and machines without costs are not counted.

BADPUT, UNCLAIMED = "AvgDrainingBadput", "AvgDrainingUnclaimed"


class DrainCost(NamedTuple):
    """The core-seconds that drains have cost a machine since its startd started, according to its slot ads."""

    age: int  #: the seconds since the startd started
    badput: int
    unclaimed: int
    cores: int  #: the machine's TotalCpus
    ads: int = 1  #: how many ads contain the cost


def draining_costs(state: Manager, slots: SlotAds, now: int, context: Context) -> dict[str, float]:
    """Return the average costs of drains at the time ``now``, in microseconds, by attribute name."""
    drained = (machine for machine in state.machines.values() if machine.drains)
    return average_costs(cost for machine in drained if (cost := _cost(slots, machine, now, context)) is not None)


def _cost(slots: SlotAds, machine: Machine, now: int, context: Context) -> DrainCost | None:
    first = [slot for slot in machine.slots.values() if slot.ad.get("SlotID") == "1"]
    if not first:
        return None
    snapshot = slots.snapshot(first[0])
    unclaimed = slots.unclaimed_in_drains(machine)
    if not (machine.badput or unclaimed):  # the ads contain no cost
        return None
    ad = ClassAd({} if (cpus := slots.attribute(snapshot, "totalcpus")) is None else {"TotalCpus": cpus})
    cores = integer_attribute(CandidateSlot(first[0].name, machine.name, ad), "TotalCpus", context)
    return DrainCost(now // SECOND - machine.joined // SECOND, machine.badput, unclaimed, cores, len(first))


def average_costs(costs: Iterable[DrainCost]) -> dict[str, float]:
    """Return the average costs of drains over the ads with SlotID 1 that contain a cost, by attribute name."""
    badput = unclaimed = 0.0
    cores = 0
    for cost in costs:
        if cost.age > 0:
            badput += cost.badput / cost.age * cost.ads
            unclaimed += cost.unclaimed / cost.age * cost.ads
            cores += cost.cores * cost.ads
    return {BADPUT: badput / cores if cores else badput, UNCLAIMED: unclaimed / cores if cores else unclaimed}


# How many machines a poll may drain: a rate per hour, converted to whole machines.
#
# HTCondor splits the rate into whole machines per poll, the remainder into whole machines per hour, and what is then
# left into whole machines per day, rounded. The first poll of an hour or a day also drains the machines for that hour
# or day, or fewer if the poll is late. Hours and days are in UTC.
#
# So the average rate is correct. In the manual's dialect, moreover, no hour or day exceeds the rate after a reconfig or
# a late poll: the limit is what the settings in force allow, minus the drains of the current hour and day.

_SLACK: Final = 0.00001
"""The number that HTCondor adds to a rate before rounding down."""


class DrainRates(NamedTuple):
    """How many machines to drain in each poll, and how many more in the first poll of each hour and of each day."""

    poll: int
    hour: int
    day: int


def drain_rates(per_hour: float, interval: int) -> DrainRates:
    """Convert a rate per hour to whole machines.

    :param interval: the seconds between two polls, more than 0
    """
    per_poll = per_hour / HOUR * interval
    poll = floor(per_poll + _SLACK)
    remainder = (per_poll - poll) / interval * HOUR
    hour = floor(remainder + _SLACK)
    if interval > HOUR:
        hour = 0
    day = floor((remainder - hour) * 24 + 0.5)
    return DrainRates(poll, hour, 0 if day < 0 or interval > DAY else day)


def machines_to_drain(rate: DrainRates, interval: int, last: int, now: int) -> int:
    """Return how many machines a poll should drain.

    :param last: when the previous poll took place, in seconds, or 0 if there was none
    """
    drains = rate.poll
    if last:
        if now // HOUR != last // HOUR:
            drains += _part_left(rate.hour, now % HOUR, HOUR, interval)
        if now // DAY != last // DAY:
            drains += _part_left(rate.day, now % DAY, DAY, interval)
    return drains


def _part_left(count: int, elapsed: int, period: int, interval: int) -> int:
    """Return the share of ``count`` machines per period that is left for the rest of the period. One interval is added
    to the rest, because a poll may be late by that much."""
    part = (period - elapsed) / period + interval / period
    return min(count, floor(count * part + 0.5))


class DrainsBegun(NamedTuple):
    """The numbers of drains that began in the current hour and in the current day (UTC)."""

    in_hour: int
    in_day: int


def drains_left(per_hour: float, interval: int, begun: DrainsBegun) -> int:
    """Return how many more machines may be drained in the current hour and day without exceeding the rate. If the rate
    is not an integer, one hour may use the fractions of all hours of a day."""
    full = floor(per_hour + _SLACK)
    fraction = floor((per_hour - full) * 24 + 0.5)
    of_day = full * 24 + fraction - begun.in_day
    of_hour = full + fraction - begun.in_hour
    return max(0, of_day if interval > HOUR else min(of_hour, of_day))


ObstacleCheck = Callable[[CandidateSlot], str]
"""Returns why a slot's machine cannot be drained, or its drain cannot be canceled; empty if it can."""


class DialectRules(Struct, frozen=True):
    """The rules that differ between the dialects (see ``state_machines/dialects.py``)."""

    exceeds_maxima: bool
    stops_at_long_intervals: bool


class EarlierPolls(Struct, frozen=True):
    """The earlier polls: the second of the last one (0: none), and the drains of the current hour and day."""

    last: int
    begun: DrainsBegun


class ChosenSlot(Struct, frozen=True):
    """A slot whose machine is chosen. ``refused``: why it cannot be drained, or its drain canceled; empty if it can."""

    seen: CandidateSlot
    rank: float = 0.0
    refused: str = ""


class DrainDecision(Struct, frozen=True):
    """The decision of a poll. For ``stopped`` and ``wanted`` see ``DefragPolled``."""

    wanted: int
    draining: frozenset[str]
    whole: frozenset[str]
    cancels: tuple[ChosenSlot, ...]
    drains: tuple[ChosenSlot, ...]
    candidates: int
    stopped: str


def choose(
    policy: DefragPolicy,
    conditions: PolicyConditions,
    slots: Sequence[CandidateSlot],
    before: EarlierPolls,
    now: int,
    context: Context,
    rules: DialectRules,
    may_drain: ObstacleCheck = lambda seen: "",
    may_cancel: ObstacleCheck = lambda seen: "",
) -> DrainDecision:
    """Return the decision of a poll.

    :param slots: the published ads
    :param now: the time in seconds
    :param context: the same time, and the time zone, for evaluating expressions
    :param may_drain: returns why a machine cannot be drained, or empty if it can
    :param may_cancel: returns why a drain cannot be canceled, or empty if it can
    """
    draining = frozenset(slot.machine for slot in conditions.draining.true_of(slots, context))
    whole = frozenset(slot.machine for slot in conditions.whole.true_of(slots, context))
    cancels = _choose_cancels(conditions, slots, context, may_cancel)
    count, stopped = allowed_drains(policy, before, now, len(draining), len(whole), rules)
    if stopped:
        return DrainDecision(count, draining, whole, cancels, (), 0, stopped)
    done = {slot.seen.machine for slot in cancels} | whole
    matching = [slot for slot in conditions.drain.true_of(slots, context) if slot.machine not in done]
    drains = _choose_drains(sort_by_rank(matching, conditions.rank, context), count, may_drain)
    machines = len({slot.machine for slot in matching})
    return DrainDecision(count, draining, whole, cancels, drains, machines, "")


def allowed_drains(
    policy: DefragPolicy, before: EarlierPolls, now: int, draining: int, whole: int, rules: DialectRules
) -> tuple[int, str]:
    """Return how many machines a poll may drain, and the name of the limit that prevents all drains (empty if none
    does).

    :param now: the time in seconds
    :param draining: the number of machines that defragmentation is draining
    :param whole: the number of whole machines
    """
    count = machines_to_drain(drain_rates(policy.per_hour, policy.interval), policy.interval, before.last, now)
    stopped = _limit_reached(policy, count, draining, whole, rules)
    if not stopped and not rules.exceeds_maxima:
        count = _limit_by_maxima(policy, count, draining, whole, before.begun)
        stopped = "" if count else "spent"
    return count, stopped


def _limit_reached(policy: DefragPolicy, count: int, draining: int, whole: int, rules: DialectRules) -> str:
    if count <= 0 or ceil(policy.per_hour) <= 0:
        return "rate"
    if policy.interval > HOUR and rules.stops_at_long_intervals:
        return "interval"
    if 0 <= policy.most_draining <= draining:
        return "concurrent"
    if 0 <= policy.most_whole <= whole:
        return "whole"
    return ""


def _limit_by_maxima(policy: DefragPolicy, count: int, draining: int, whole: int, begun: DrainsBegun) -> int:
    limits = [drains_left(policy.per_hour, policy.interval, begun)]
    if policy.most_draining >= 0:
        limits.append(policy.most_draining - draining)
    if policy.most_whole >= 0:
        limits.append(policy.most_whole - whole)
    return max(0, min(count, *limits))


def _choose_cancels(
    conditions: PolicyConditions, slots: Sequence[CandidateSlot], context: Context, may_cancel: ObstacleCheck
) -> tuple[ChosenSlot, ...]:
    if conditions.cancel is None:
        return ()
    chosen: dict[str, ChosenSlot] = {}
    for rank, slot in sort_by_rank(conditions.cancel.true_of(slots, context), conditions.rank, context):
        if slot.machine not in chosen:
            chosen[slot.machine] = ChosenSlot(slot, rank, may_cancel(slot))
    return tuple(chosen.values())


def _choose_drains(
    candidates: Sequence[tuple[float, CandidateSlot]], count: int, may_drain: ObstacleCheck
) -> tuple[ChosenSlot, ...]:
    """Return the slots of the machines to drain, and also, uncounted, slots of machines that cannot be drained."""
    chosen: list[ChosenSlot] = []
    done: set[str] = set()
    for rank, slot in candidates:
        if len(done) == count:
            break
        if slot.machine in done:
            continue
        refused = may_drain(slot)
        chosen.append(ChosenSlot(slot, rank, refused))
        if not refused:
            done.add(slot.machine)
    return tuple(chosen)
