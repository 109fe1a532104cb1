"""What a pool's log tells of its defragmentation: the last poll, and the statistics of all (the Defrag ad's).

Counts and averages are as the reference's daemon has them, for a daemon that runs as long as DEFRAG stands in
DAEMON_LIST: a pool that is started anew goes on counting.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import TypeVar

from msgspec import Struct, field

from ..events import DefragPolled
from ..units import SECOND

One = TypeVar("One")
WINDOW = 10
"""The length of what is Recent, in intervals between polls."""
LATEST = 10
"""How many drains, and how many cancels, are remembered one by one."""


class RecentCount(Struct):
    """A count, and the part of it of the last ``WINDOW`` intervals (the reference's ``stats_entry_recent``)."""

    total: int = 0
    parts: list[int] = field(default_factory=list)  #: the counts of the last intervals, the present one last

    def add(self, number: int) -> None:
        self.total += number
        if not self.parts:
            self.parts.append(0)
        self.parts[-1] += number

    def advance(self, intervals: int) -> None:
        if intervals and self.parts:
            self.parts = [*self.parts, *[0] * min(intervals, WINDOW)][-WINDOW:]

    @property
    def recent(self) -> int:
        return sum(self.parts)


class RecentSpan(Struct):
    """The time that what is Recent covers (the reference's ``generic_stats_Tick``). Instants in seconds."""

    updated: int = 0  #: when it was last brought up to date (0: it never was)
    begun: int = 0  #: when the present interval began
    seconds: int = 0  #: for how long there are counts, a window at most

    def advance(self, now: int, interval: int) -> int:
        """Bring it up to date; return how many intervals have ended."""
        if not self.updated:
            self.updated = self.begun = now
            return 0
        ended = max(0, now - self.begun) // max(1, interval)
        self.begun += ended * max(1, interval)
        self.seconds = min(self.seconds + now - self.updated, WINDOW * max(1, interval))
        self.updated = now
        return ended


class Arrivals(Struct):
    """How often machines come to be whole, per second: the mean of all times and its deviation, as the reference has
    them. Machines that no longer drain count too, since jobs may have taken them between two polls."""

    last: int = 0  #: the second of the last arrival (0: there was none)
    machines: int = 0  #: how many have come since the first
    seconds: int = 0  #: the times between arrivals, each as often as machines came
    squares: float = 0.0  #: the squares of what each rate differed from the mean
    mean: float = 0.0
    deviation: float = 0.0

    def count(self, machines: int, now: int) -> None:
        rate = 0.0
        if machines:
            if self.last:
                self.machines += machines
                passed = max(1, now - self.last)
                self.seconds += machines * passed
                rate = machines / passed
            self.last = now
        if self.seconds:
            self.mean = self.machines / self.seconds
            if machines:
                self.squares += (rate - self.mean) ** 2
            self.deviation = sqrt(self.squares / self.machines)


class Defrag(Struct):
    """The defragmentation of a pool. Instants in microseconds."""

    since: int = 0  #: when it was switched on, its counts begin (0: it is not)
    configured: int = 0  #: when the pool's settings were changed last
    last_poll: int = 0  #: when it looked at the pool last (0: it never did)
    in_hour: tuple[int, int] = (0, 0)  #: an hour since 1970 in UTC, and how many drains were begun in it
    in_day: tuple[int, int] = (0, 0)  #: a day since 1970 in UTC, and how many drains were begun in it
    draining: set[str] = field(default_factory=set)  #: the machines that drained at the last poll
    whole: set[str] = field(default_factory=set)  #: the machines that were whole at the last poll
    most_draining: int = 0  #: how many machines drained at once, at most
    most_whole: int = 0  #: how many machines were whole at once, at most
    successes: RecentCount = field(default_factory=RecentCount)  #: drains that were begun
    failures: RecentCount = field(default_factory=RecentCount)  #: drains that could not be begun
    span: RecentSpan = field(default_factory=RecentSpan)
    arrivals: Arrivals = field(default_factory=Arrivals)
    costs: dict[str, float] = field(default_factory=dict)  #: see `DefragPolled`
    drains: list[tuple[int, str, str]] = field(default_factory=list)  #: the latest: second, slot and schedule
    cancels: list[tuple[int, str]] = field(default_factory=list)  #: the latest: second and slot

    def begun_in(self, now: int) -> tuple[int, int]:
        """Return how many drains were begun in the hour and in the day of an instant."""
        hours, days = now // (3600 * SECOND), now // (86400 * SECOND)
        (hour, of_hour), (day, of_day) = self.in_hour, self.in_day
        return of_hour if hour == hours else 0, of_day if day == days else 0

    def advance(self, now: int, interval: int) -> None:
        """Bring the recent counts up to an instant."""
        ended = self.span.advance(now // SECOND, interval)
        self.successes.advance(ended)
        self.failures.advance(ended)


def switched(defrag: Defrag, on: bool, at: int) -> Defrag:
    """Return the defragmentation as it is switched on or off: counts begin anew, but what was drained in the present
    hour and day, and the last poll, are not forgotten."""
    since = at if on else 0
    return Defrag(since, last_poll=defrag.last_poll, in_hour=defrag.in_hour, in_day=defrag.in_day)


def polled(defrag: Defrag, event: DefragPolled, interval: int, schedule: str) -> None:
    """Fold a poll.

    :param interval: seconds between polls, by the settings in force
    :param schedule: how machines are drained, by the settings in force
    """
    now = event.at // SECOND
    defrag.advance(event.at, interval)
    begun = sum(not drain.refused for drain in event.drains)
    of_hour, of_day = defrag.begun_in(event.at)
    defrag.in_hour, defrag.in_day = (now // 3600, of_hour + begun), (now // 86400, of_day + begun)
    defrag.last_poll = event.at
    defrag.draining = (defrag.draining - set(event.over_draining)) | set(event.began_draining)
    defrag.whole = (defrag.whole - set(event.no_longer_whole)) | set(event.became_whole)
    defrag.most_draining = max(defrag.most_draining, event.draining)
    defrag.most_whole = max(defrag.most_whole, event.whole)
    defrag.arrivals.count(len(event.became_whole) + len(event.over_draining), now)
    defrag.costs = event.costs
    defrag.successes.add(begun)
    defrag.failures.add(len(event.drains) - begun)
    defrag.drains = _latest(defrag.drains, [(now, drain.slot, schedule) for drain in event.drains])
    defrag.cancels = _latest(defrag.cancels, [(now, cancel.slot) for cancel in event.cancels])


def _latest(before: list[One], added: Iterable[One]) -> list[One]:
    return [*before, *added][-LATEST:]
