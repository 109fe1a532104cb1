"""When a job with ``cron_`` commands is to begin next.

Five fields, minute, hour, day of month, month and day of week, each name values: lists of numbers, ranges and ``*``,
each with a step. A job begins in the first minute, from the next one on, that fits all of them; of the days, those that
either of their two fields names, as long as that one does not name all. Times are those of the access point's zone.

Source: the manual's "CronTab Scheduling"; where it is silent, HTCondor (condor_crontab.cpp), as recorded from a
real pool. Two surprises of it: a step takes its multiples, so that 11-50/7 begins with 14, and a number out of its
range, as 61 for a minute, is a ``*``.
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from msgspec import Struct

Offset = Callable[[int], int]
"""The seconds by which local time is ahead of UTC, at an instant in seconds."""


class Field(Struct, frozen=True):
    """A field of a schedule: the attribute that has its text, and its values."""

    attribute: str
    least: int
    most: int


FIELDS: Final = (
    Field("CronMinute", 0, 59),
    Field("CronHour", 0, 23),
    Field("CronDayOfMonth", 1, 31),
    Field("CronMonth", 1, 12),
    Field("CronDayOfWeek", 0, 7),
)
DAY_OF_WEEK: Final = FIELDS[4]
ATTRIBUTES: Final = tuple(field.attribute for field in FIELDS)

MINUTE: Final = 60
_EPOCH: Final = datetime(1970, 1, 1)
PUT_OFF: Final = 2 * MINUTE
"""How far from now a job of the real access point begins whose next time turns out to be past."""
YEARS_LOOKED_AT: Final = 12
"""A 29th of February comes within eight years; what does not come in so many never does."""
_FOREIGN = re.compile(r"[^0-9,\-./* ]")
_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")


class InvalidCronTab(ValueError):
    """A schedule that makes no sense; its words are HTCondor's, where that has any."""


class CronTab(Struct, frozen=True):
    """A schedule: the values of its fields, ascending."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: tuple[int, ...]
    months: tuple[int, ...]
    days_of_week: tuple[int, ...]  #: from 0, a Sunday, to 6; empty: the field names no day

    def next_run(self, now: int, offset: Offset, *, slips_days: bool = False) -> int:
        """Return the instant at which a job begins next, in seconds; it is later than ``now``.

        A local time that daylight saving leaves out is as long after the change as it would have been without. Of one
        that there is twice it is that of the offset from UTC now, unless it is past: the job begins once.

        :param slips_days: whether a schedule of weekdays alone begins on the day before a month, too (``Dialect``)
        :raises InvalidCronTab: no such day ever comes
        """
        first = now + MINUTE - now % MINUTE
        local = (_EPOCH + timedelta(seconds=first + offset(first))).timetuple()
        for year, month, day, hour, minute in self._times(local[:5], slips_days):
            instant = _instant(timegm((year, month, day, hour, minute, 0)), first, now, offset)
            return instant if instant >= first else now + PUT_OFF
        raise InvalidCronTab(f"no such day comes by the end of {local[0] + YEARS_LOOKED_AT}")

    def _times(self, since: tuple[int, ...], slips_days: bool) -> Iterator[tuple[int, int, int, int, int]]:
        """The local times of the schedule, from this one on."""
        for year in range(since[0], since[0] + YEARS_LOOKED_AT + 1):
            for month in _from(self.months, since[1], year > since[0]):
                later = (year, month) > since[:2]
                for day in _from(self._days(year, month, slips_days), since[2], later):
                    later = (year, month, day) > since[:3]
                    for hour in _from(self.hours, since[3], later):
                        later = (year, month, day, hour) > since[:4]
                        for minute in _from(self.minutes, since[4], later):
                            yield year, month, day, hour, minute

    def _days(self, year: int, month: int, slips_days: bool) -> Sequence[int]:
        """The days of a month on which the job begins, ascending. The day 0 is the last of the month before."""
        weekday, length = monthrange(year, month)  # from 0, a Monday
        by_week = {day for day in range(1, length + 1) if (weekday + day) % 7 in self.days_of_week}
        by_month = {day for day in self.days_of_month if day <= length}
        all_days = len(self.days_of_month) == 31
        if not all_days or len(self.days_of_week) in (0, 7):
            return sorted(by_month | by_week)
        return sorted(by_week | {0} if slips_days else by_week)


def _from(values: Sequence[int], first: int, later: bool) -> Iterator[int]:
    """Those of the values that are not before ``first``; all of them where a larger field is later already."""
    return (value for value in values if later or value >= first)


def _instant(local: int, first: int, now: int, offset: Offset) -> int:
    """The instant of a local time, given as if it were UTC. Of two it is the one with the offset of now, as C's mktime
    goes by the offset that it came to last; but none before ``first``, if there is another."""
    before, behind = offset(local - 86_400), offset(local + 86_400)
    instants = sorted({local - east for east in (before, behind) if offset(local - east) == east})
    if not instants:
        return local - before
    here = local - offset(now)
    return here if here in instants and here >= first else next((at for at in instants if at >= first), instants[-1])


@lru_cache(1000)
def crontab(texts: tuple[str | None, ...]) -> CronTab:
    """Return the schedule of these five texts; None: the field is not given, and names all values.

    :raises InvalidCronTab: a text has a letter that it may not have, or names nothing
    """
    given = [(field, text) for field, text in zip(FIELDS, texts, strict=True) if text is not None]
    foreign = [
        f"Invalid parameter value '{text}' for {field.attribute}" for field, text in given if _FOREIGN.search(text)
    ]
    if foreign:
        raise InvalidCronTab("".join(foreign))
    values, wrong = [], []
    for field, text in zip(FIELDS, texts, strict=True):
        try:
            values.append(_values(field, "*" if text is None else text.replace(" ", "")))
        except InvalidCronTab as error:
            wrong.append(str(error))
    if wrong:
        raise InvalidCronTab("".join(wrong))
    return CronTab(*values)


def _values(field: Field, text: str) -> tuple[int, ...]:
    """The values that a field's text names."""
    values: set[int] = set()
    for part in filter(None, text.split(",")):
        span, slash, stride = part.partition("/")
        step = _number(stride) if slash else 1
        if not step:
            raise InvalidCronTab(f"Invalid cron attribute: {text}")
        values.update(value for value in map(_sunday(field), _span(field, span)) if value % step == 0)
    if not values and field is not DAY_OF_WEEK:
        raise InvalidCronTab(f"Invalid cron attribute: {text}")
    return tuple(sorted(values))


def _span(field: Field, text: str) -> range:
    """What a part of a list names, without its step."""
    low, dash, high = text.partition("-")
    if dash:
        return range(max(_number(low), field.least), min(_number(high), field.most) + 1)
    if "*" in text:
        # All weekdays are none: else they would be added to the days of a month that another field names.
        return range(0) if field is DAY_OF_WEEK else range(field.least, field.most + 1)
    number = _number(text)
    within = field.least <= number <= field.most
    return range(number, number + 1) if within else range(field.least, field.most + 1)


def _sunday(field: Field) -> Callable[[int], int]:
    """A Sunday is 0 and 7."""
    return (lambda value: value % 7) if field is DAY_OF_WEEK else (lambda value: value)


def _number(text: str) -> int:
    """The number that a text begins with, as C's atoi reads it; 0 if it begins with none."""
    match = _NUMBER.match(text)
    return int(match[1]) if match else 0
