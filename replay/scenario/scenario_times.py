"""Parse the times of a scenario (durations, and instants since its start), as described in docs/play.md.

An instant without a date or weekday is relative to the start. Other instants use the wall clock of the scenario's time
zone, also after a change to or from summer time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

from attrs import frozen

from ...domain.units import SECOND

DAY = 86_400 * SECOND
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
LONGEST = 100 * 366 * DAY  #: the maximum time between the start and an instant: a century

_UNITS = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86_400}
_LENGTH = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)(s|min|h|d|)", re.ASCII)
_CLOCK = re.compile(r"(\d{1,6}):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_DAYS = re.compile(r"(\d{1,6})d", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def length(word: str) -> int:
    """Parse a duration, written as one word, into microseconds. Raise ValueError if it is invalid."""
    amount, clock = _LENGTH.fullmatch(word), _CLOCK.fullmatch(word)
    if amount:
        microseconds = round(float(amount[1]) * _UNITS[amount[2]] * SECOND)
    elif clock:
        first_number, second, third = clock.groups()
        parts = (0, int(first_number), int(second)) if third is None else (int(first_number), int(second), int(third))
        microseconds = (parts[0] * 3600 + parts[1] * 60 + parts[2]) * SECOND
    else:
        raise ValueError(f"{word!r} is not a duration: write 0:10 (ten seconds), 1:02:03, 90s, 15min, 2h or 3d")
    if microseconds > LONGEST:
        raise ValueError(f"{word!r} is longer than a century")
    return microseconds


def may_have_two_words(word: str) -> bool:
    """Return True if an instant that begins with this word may have a second word: ``Mon 08:30``, ``2d 3:00``."""
    return bool(_DATE.fullmatch(word) or _DAYS.fullmatch(word) or word.capitalize() in DAYS)


def is_time_word(word: str) -> bool:
    """Return True if a word of an ``at`` line is part of its time."""
    return word in ("to", "every", "until") or word[:1].isdigit() or word.capitalize() in DAYS


def is_clock(word: str) -> bool:
    """Return True if the word may follow a date, a weekday or a number of days."""
    return _CLOCK.fullmatch(word) is not None


def _time_of_day(word: str) -> timedelta:
    match = _CLOCK.fullmatch(word)
    if match is None or int(match[1]) > 23:
        raise ValueError(f"{word!r} is not a time of day: write hours and minutes, 08:30")
    return timedelta(hours=int(match[1]), minutes=int(match[2]), seconds=int(match[3] or 0))


@frozen
class ScenarioCalendar:
    """A scenario's start (microseconds since the epoch), and the zone of its clock."""

    start: int
    zone: tzinfo = UTC

    def local_time(self, instant: int) -> datetime:
        """Convert an instant since the start to a date and time in the zone."""
        return datetime.fromtimestamp((self.start + instant) / SECOND, self.zone)

    def _instant_of(self, time: datetime) -> int:
        since = round(time.replace(tzinfo=self.zone).timestamp() * SECOND) - self.start
        if abs(since) > LONGEST:
            raise ValueError(f"{time.date()} is more than a century from the start")
        return since

    def instant(self, words: list[str]) -> int:
        """Parse an instant of one or two words into microseconds since the start. Raise ValueError if it is invalid or
        before the start."""
        first_word, clock = words[0], words[1] if len(words) > 1 else ""
        days = _DAYS.fullmatch(first_word)
        if _DATE.fullmatch(first_word):
            since = self._instant_of(datetime.fromisoformat(first_word) + _time_of_day(clock or "0:00"))
        elif first_word.capitalize() in DAYS:
            since = self._weekday(DAYS.index(first_word.capitalize()), _time_of_day(clock or "0:00"))
        elif days and clock:
            since = int(days[1]) * DAY + round(_time_of_day(clock).total_seconds()) * SECOND
        else:
            return length(first_word)
        if since < 0:
            raise ValueError(f"{' '.join(words)} is before the scenario's start, {format_time(self.local_time(0))}")
        return since

    def days_later(self, instant: int, days: int) -> int:
        """Return the instant a number of days later, at the same time of day."""
        return self._instant_of(self.local_time(instant).replace(tzinfo=None) + timedelta(days=days))

    def _weekday(self, day: int, clock: timedelta) -> int:
        start = self.local_time(0)
        days_ahead = (day - start.weekday()) % 7
        midnight = datetime(start.year, start.month, start.day)
        first_time = self._instant_of(midnight + timedelta(days=days_ahead) + clock)
        return first_time if first_time >= 0 else self._instant_of(midnight + timedelta(days=days_ahead + 7) + clock)


def start_instant(date: str, clock: str, zone: tzinfo) -> int:
    """Return the instant (microseconds since the epoch) of a date and a time of day. Raise ValueError if either is
    invalid."""
    time = datetime.fromisoformat(date) + _time_of_day(clock)
    if not 1971 <= time.year <= 9000:
        raise ValueError(f"{date}: the year must be from 1971 to 9000")
    return round(time.replace(tzinfo=zone).timestamp() * SECOND)


def elapsed(instant: int) -> str:
    """Format an instant since the start in the notation of scenarios: ``0:00:10``, ``2d 3:00:00``."""
    seconds, microseconds = divmod(instant, SECOND)
    days, seconds = divmod(seconds, 86_400)
    text = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if microseconds:
        text += f".{microseconds // 1000:03}"
    return f"{days}d {text}" if days else text


def format_time(time: datetime) -> str:
    """Format a date and time for display: ``Mon 2026-11-02 08:30:00``."""
    return f"{DAYS[time.weekday()]} {time:%Y-%m-%d %H:%M:%S}"
