"""How many machines a poll may drain: a rate per hour, as whole numbers of machines.

The reference divides the rate into whole machines for each poll, what is left of it into whole machines for each hour,
and the rest into whole machines for each day, rounded. The hour's and the day's are drained by the first poll in an
hour or a day, and fewer if that comes late. Hours and days are those of UTC.

So a rate is kept on the average. In the manual's dialect no hour and no day exceeds it besides, whatever was
reconfigured or polled late: what the settings in force allow, less what was drained in the hour and the day.
"""

from __future__ import annotations

from math import floor
from typing import Final, NamedTuple

HOUR: Final = 3600
DAY: Final = 24 * HOUR
_SLACK: Final = 0.00001
"""What the reference adds to a rate before it takes the whole machines of it."""


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
    found = rate.poll
    if last:
        if now // HOUR != last // HOUR:
            found += _what_is_left(rate.hour, now % HOUR, HOUR, interval)
        if now // DAY != last // DAY:
            found += _what_is_left(rate.day, now % DAY, DAY, interval)
    return found


def _what_is_left(number: int, elapsed: int, period: int, interval: int) -> int:
    """Return the part of a number per period for what is left of the period, and for the interval that a poll may come
    late by."""
    part = (period - elapsed) / period + interval / period
    return min(number, floor(number * part + 0.5))


class Spent(NamedTuple):
    """How many drains were begun in the present hour and in the present day of UTC."""

    in_hour: int
    in_day: int


def left(per_hour: float, interval: int, spent: Spent) -> int:
    """Return how many machines may still be drained in the present hour and day without exceeding the rate. Of a rate
    that is no whole number an hour may have all that the day has of its fraction."""
    whole = floor(per_hour + _SLACK)
    fraction = floor((per_hour - whole) * 24 + 0.5)
    of_day = whole * 24 + fraction - spent.in_day
    of_hour = whole + fraction - spent.in_hour
    return max(0, of_day if interval > HOUR else min(of_hour, of_day))
