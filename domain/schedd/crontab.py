"""Compute the next start of a job with ``cron_`` commands.

Each of the five fields (minute, hour, day of month, month and day of week) lists values: numbers, ranges and ``*``,
each with an optional step. A job starts in the next minute that matches all fields. A day matches if either day field
lists it; a day field that lists all days is ignored. Times are in the access point's time zone.

Source: the manual's "CronTab Scheduling" and HTCondor (condor_crontab.cpp), as observed in an HTCondor pool. A step
selects multiples of its number, so 11-50/7 starts with 14. A number out of range, such as minute 61, means ``*``.
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
"""A function that returns the offset of local time from UTC, in seconds, at a given time in seconds."""


class Field(Struct, frozen=True):
    """A field of a schedule: the attribute that contains its text, and the range of its values."""

    attribute: str
    minimum: int
    maximum: int


FIELDS: Final = (
    Field("CronMinute", 0, 59),
    Field("CronHour", 0, 23),
    Field("CronDayOfMonth", 1, 31),
    Field("CronMonth", 1, 12),
    Field("CronDayOfWeek", 0, 7),
)
DAY_OF_WEEK: Final = FIELDS[4]
ATTRIBUTES: Final = tuple(field.attribute for field in FIELDS)
LOWER_ATTRIBUTES: Final = frozenset(map(str.lower, ATTRIBUTES))

MINUTE: Final = 60
_EPOCH: Final = datetime(1970, 1, 1)
DELAY_IF_PAST: Final = 2 * MINUTE
"""The delay in seconds after which HTCondor's access point starts a job whose next start time is already past."""
YEARS_SEARCHED: Final = 12
"""How many years to search for a matching day: 29 February may not occur for eight years."""
_INVALID = r"[^0-9,\-./* ]"
_NUMBER = r"\s*([+-]?[0-9]+)"


class InvalidCronTab(ValueError):
    """An invalid schedule. The message is HTCondor's where HTCondor has one."""


class CronTab(Struct, frozen=True):
    """A schedule, with the values of its fields in ascending order."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: tuple[int, ...]
    months: tuple[int, ...]
    days_of_week: tuple[int, ...]  #: 0 (Sunday) to 6; empty: the field lists no day

    def next_run(self, now: int, offset: Offset, *, extends_weekdays: bool = False) -> int:
        """Return the next start of a job in seconds, which is later than ``now``.

        A local time skipped by daylight saving is moved by the length of the change. If a local time occurs twice, the
        job starts only at the one with the current UTC offset, or at the other one if that is past.

        :param extends_weekdays: whether a schedule by weekday also matches the last day before each month
            (``Dialect.extends_cron_days_of_week``)
        :raises InvalidCronTab: if no day matches
        """
        first = now + MINUTE - now % MINUTE
        local = (_EPOCH + timedelta(seconds=first + offset(first))).timetuple()
        for year, month, day, hour, minute in self._times(local[:5], extends_weekdays):
            instant = _instant(timegm((year, month, day, hour, minute, 0)), first, now, offset)
            return instant if instant >= first else now + DELAY_IF_PAST
        raise InvalidCronTab(f"no day matches by the end of {local[0] + YEARS_SEARCHED}")

    def _times(self, start: tuple[int, ...], extends_weekdays: bool) -> Iterator[tuple[int, int, int, int, int]]:
        for year in range(start[0], start[0] + YEARS_SEARCHED + 1):
            for month in _values_from(self.months, start[1], year > start[0]):
                is_later = (year, month) > start[:2]
                for day in _values_from(self._days(year, month, extends_weekdays), start[2], is_later):
                    is_later = (year, month, day) > start[:3]
                    for hour in _values_from(self.hours, start[3], is_later):
                        is_later = (year, month, day, hour) > start[:4]
                        for minute in _values_from(self.minutes, start[4], is_later):
                            yield year, month, day, hour, minute

    def _days(self, year: int, month: int, extends_weekdays: bool) -> Sequence[int]:
        """Return the matching days of a month in ascending order. Day 0 is the last day of the previous month."""
        weekday, length = monthrange(year, month)  # 0 is Monday
        by_week = {day for day in range(1, length + 1) if (weekday + day) % 7 in self.days_of_week}
        by_month = {day for day in self.days_of_month if day <= length}
        all_days = len(self.days_of_month) == 31
        if not all_days or len(self.days_of_week) in (0, 7):
            return sorted(by_month | by_week)
        return sorted(by_week | {0} if extends_weekdays else by_week)


def _values_from(values: Sequence[int], first: int, is_later: bool) -> Iterator[int]:
    """Yield the values from ``first`` on, or all values if a larger unit is already later."""
    return (value for value in values if is_later or value >= first)


def _instant(local: int, first: int, now: int, offset: Offset) -> int:
    """Convert a local time, given as if it were UTC, to an instant. If two instants have this local time, return the
    one with the current offset, like C's mktime, unless it is before ``first``."""
    offset_before, offset_after = offset(local - 86_400), offset(local + 86_400)
    instants = sorted({local - east for east in (offset_before, offset_after) if offset(local - east) == east})
    if not instants:
        return local - offset_before
    best = local - offset(now)
    return (
        best
        if best in instants and best >= first
        else next((instant for instant in instants if instant >= first), instants[-1])
    )


@lru_cache(1000)
def parse_crontab(texts: tuple[str | None, ...]) -> CronTab:
    """Parse the texts of the five fields into a schedule; None means all values.

    :raises InvalidCronTab: if a text contains an invalid character or lists no value
    """
    specified = [(field, text) for field, text in zip(FIELDS, texts, strict=True) if text is not None]
    wrong = [(field, text) for field, text in specified if re.search(_INVALID, text)]
    invalid = [f"Invalid parameter value '{text}' for {field.attribute}" for field, text in wrong]
    if invalid:
        raise InvalidCronTab("".join(invalid))
    values, errors = [], []
    for field, text in zip(FIELDS, texts, strict=True):
        try:
            values.append(_parse_field(field, "*" if text is None else text.replace(" ", "")))
        except InvalidCronTab as error:
            errors.append(str(error))
    if errors:
        raise InvalidCronTab("".join(errors))
    return CronTab(*values)


def _parse_field(field: Field, text: str) -> tuple[int, ...]:
    values: set[int] = set()
    for part in filter(None, text.split(",")):
        element, slash, step_text = part.partition("/")
        step = _leading_number(step_text) if slash else 1
        if not step:
            raise InvalidCronTab(f"Invalid cron attribute: {text}")
        listed = _range_of(field, element)
        numbers = [value % 7 for value in listed] if field is DAY_OF_WEEK else listed  # Sunday is 0 or 7
        values.update(value for value in numbers if value % step == 0)
    if not values and field is not DAY_OF_WEEK:
        raise InvalidCronTab(f"Invalid cron attribute: {text}")
    return tuple(sorted(values))


def _range_of(field: Field, text: str) -> range:
    first_text, dash, last_text = text.partition("-")
    if dash:
        return range(
            max(_leading_number(first_text), field.minimum), min(_leading_number(last_text), field.maximum) + 1
        )
    if "*" in text:
        # In the weekday field, * selects no day, because weekdays are added to the days of the month.
        return range(0) if field is DAY_OF_WEEK else range(field.minimum, field.maximum + 1)
    number = _leading_number(text)
    is_valid = field.minimum <= number <= field.maximum
    return range(number, number + 1) if is_valid else range(field.minimum, field.maximum + 1)


def _leading_number(text: str) -> int:
    """Return the number at the start of a text, or 0, like C's atoi."""
    match = re.match(_NUMBER, text)
    return int(match[1]) if match else 0
