"""The state of defragmentation: the last poll, and the statistics of the Defrag ad.

Counts and averages are computed as condor_defrag does, while DEFRAG is in DAEMON_LIST. A restarted pool continues them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import TypeVar

from msgspec import Struct, field

from ..events import DefragPolled
from ..units import SECOND

Item = TypeVar("Item")
WINDOW = 10
"""The number of intervals between polls that a Recent attribute covers."""
MAX_LATEST = 10
"""The number of recent drains, and of recent cancels, to store."""


class RecentCount(Struct):
    """A count, and the part of it from the last ``WINDOW`` intervals (HTCondor's ``stats_entry_recent``)."""

    total: int = 0
    parts: list[int] = field(default_factory=list)  #: the counts of the last intervals; the current one is last

    def add_to_current(self, number: int) -> None:
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
    """The time that Recent attributes cover (HTCondor's ``generic_stats_Tick``). Times are in seconds."""

    updated: int = 0  #: when it was last updated (0: never)
    begun: int = 0  #: when the current interval began
    seconds: int = 0  #: the time covered, at most a window

    def advance(self, now: int, interval: int) -> int:
        """Update the window, and return the number of intervals that have ended."""
        if not self.updated:
            self.updated = self.begun = now
            return 0
        ended = max(0, now - self.begun) // max(1, interval)
        self.begun += ended * max(1, interval)
        self.seconds = min(self.seconds + now - self.updated, WINDOW * max(1, interval))
        self.updated = now
        return ended


class Arrivals(Struct):
    """The rate, in machines per second, at which machines become whole: mean and standard deviation, computed as by
    condor_defrag. Machines that stopped draining are included, because jobs may have claimed them between two polls."""

    last: int = 0  #: the second of the last arrival (0: none)
    machines: int = 0  #: the number of arrivals after the first
    seconds: int = 0  #: the sum of the times between arrivals, weighted by number of machines
    squares: float = 0.0  #: the sum of the squared differences of the rates from the mean
    mean: float = 0.0
    deviation: float = 0.0

    def count_arrivals(self, machines: int, now: int) -> None:
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
    """The state of a pool's defragmentation by one daemon. Times are in microseconds."""

    since: int = 0  #: when it was switched on and its counts began (0: switched off)
    configured: int = 0  #: when the pool's settings last changed
    last_poll: int = 0  #: when it last polled the pool (0: never)
    in_hour: tuple[int, int] = (0, 0)  #: the hour of the last poll, since 1970 in UTC, and the drains begun in it
    in_day: tuple[int, int] = (0, 0)  #: the day of the last poll, counted since 1970 in UTC, and the drains begun in it
    draining: set[str] = field(default_factory=set)  #: the machines that were draining at the last poll
    whole: set[str] = field(default_factory=set)  #: the machines that were whole at the last poll
    most_draining: int = 0  #: the maximum number of machines draining at a poll
    most_whole: int = 0  #: the maximum number of machines whole at a poll
    successes: RecentCount = field(default_factory=RecentCount)  #: drains begun
    failures: RecentCount = field(default_factory=RecentCount)  #: drains that could not start
    span: RecentSpan = field(default_factory=RecentSpan)
    arrivals: Arrivals = field(default_factory=Arrivals)
    costs: dict[str, float] = field(default_factory=dict)  #: see `DefragPolled`
    drains: list[tuple[int, str, str]] = field(default_factory=list)  #: recent drains: second, slot, schedule
    cancels: list[tuple[int, str]] = field(default_factory=list)  #: recent cancels: second and slot
    others: dict[str, Defrag] = field(default_factory=dict)  #: the states of further daemons, such as DEFRAG2

    def of(self, daemon: str) -> Defrag:
        """Return the state of a daemon (empty: DEFRAG)."""
        return self.others.get(daemon, Defrag()) if daemon else self

    def begun_in(self, now: int) -> tuple[int, int]:
        """Return how many drains began in the hour and in the day that contain a given time."""
        current_hour, current_day = now // (3600 * SECOND), now // (86400 * SECOND)
        (hour, hour_drains), (day, day_drains) = self.in_hour, self.in_day
        return hour_drains if hour == current_hour else 0, day_drains if day == current_day else 0

    def advance(self, now: int, interval: int) -> None:
        """Update the recent counts to a given time."""
        ended = self.span.advance(now // SECOND, interval)
        self.successes.advance(ended)
        self.failures.advance(ended)


def switch_defrag(defrag: Defrag, on: bool, at: int) -> Defrag:
    """Return the state after defragmentation is switched on or off. Counts restart, except for the drains in the
    current hour and day; the last poll is retained."""
    since = at if on else 0
    return Defrag(since, last_poll=defrag.last_poll, in_hour=defrag.in_hour, in_day=defrag.in_day, others=defrag.others)


def fold_poll(defrag: Defrag, event: DefragPolled, interval: int, schedule: str) -> None:
    """Fold a poll.

    :param interval: seconds between polls, in the settings in force
    :param schedule: how machines are drained, in the settings in force
    """
    now = event.at // SECOND
    defrag.advance(event.at, interval)
    begun = sum(not drain.refused for drain in event.drains)
    hour_drains, day_drains = defrag.begun_in(event.at)
    defrag.in_hour, defrag.in_day = (now // 3600, hour_drains + begun), (now // 86400, day_drains + begun)
    defrag.last_poll = event.at
    defrag.draining = (defrag.draining - set(event.over_draining)) | set(event.began_draining)
    defrag.whole = (defrag.whole - set(event.no_longer_whole)) | set(event.became_whole)
    defrag.most_draining = max(defrag.most_draining, event.draining)
    defrag.most_whole = max(defrag.most_whole, event.whole)
    defrag.arrivals.count_arrivals(len(event.became_whole) + len(event.over_draining), now)
    defrag.costs = event.costs
    defrag.successes.add_to_current(begun)
    defrag.failures.add_to_current(len(event.drains) - begun)
    defrag.drains = _latest(defrag.drains, [(now, drain.slot, schedule) for drain in event.drains])
    defrag.cancels = _latest(defrag.cancels, [(now, cancel.slot) for cancel in event.cancels])


def _latest(before: list[Item], added: Iterable[Item]) -> list[Item]:
    return [*before, *added][-MAX_LATEST:]
