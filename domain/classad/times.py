"""Parse and format times, and convert them to the calendar.

The calendar is proleptic Gregorian over the complete range of 64-bit seconds, as in the C library's gmtime. The time
zone of local times comes from the ``Context``. Times are formatted like strftime in the C locale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

from ..units import DAY
from .values import AbsTime, RelTime, from_bytes, low32, to_bytes, truncate32

_DIGITS = "0123456789"
_BLANKS = " \t\n\r\f\v"


class Calendar(NamedTuple):
    """The fields of C's struct tm, with the full year and months from 1."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    weekday: int  # 0 is Sunday
    yearday: int  # 0 is 1 January


def days_before(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date; months and days out of range carry over."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year + day - 1 - 719468


def calendar(seconds: int) -> Calendar:
    """Return the date and time of day for a number of seconds since the epoch."""
    days, second_of_day = divmod(seconds, DAY)
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    month = shifted_month + (3 if shifted_month < 10 else -9)
    year = year_of_era + era * 400 + (month <= 2)
    return Calendar(
        year,
        month,
        of_year - (153 * shifted_month + 2) // 5 + 1,
        second_of_day // 3600,
        second_of_day // 60 % 60,
        second_of_day % 60,
        (days + 4) % 7,
        days - days_before(year, 1, 1),
    )


def format_abstime(time: AbsTime) -> str:
    """Return ``2003-01-25T09:00:00-06:00``. An offset of zero is ``-00:00``, as in HTCondor."""
    fields = calendar(time.seconds + time.offset)
    sign = "+" if time.offset > 0 else "-"
    zone = abs(time.offset)
    return (
        f"{fields.year}-{fields.month:02}-{fields.day:02}T{fields.hour:02}:{fields.minute:02}:{fields.second:02}"
        f"{sign}{zone // 3600:02}:{zone // 60 % 60:02}"
    )


def format_reltime(seconds: float) -> str:
    """Return ``[-][days+][hh:][mm:]ss[.fff]``, without leading parts that are zero."""
    sign = "-" if seconds < 0 else ""
    days, hours, minutes, remaining, fraction = split_duration(abs(seconds))
    last = f"{remaining:02}" if fraction == 0 else f"{f'{remaining + fraction:g}':>02}"
    if days:
        return f"{sign}{days}+{hours:02}:{minutes:02}:{last}"
    if hours:
        return f"{sign}{hours:02}:{minutes:02}:{last}"
    if minutes:
        return f"{sign}{minutes:02}:{last}"
    return f"{sign}{last}"


def split_duration(seconds: float) -> tuple[int, int, int, int, float]:
    """Return the days, hours, minutes, whole seconds and fraction of a second of a duration."""
    fraction = seconds - math.floor(seconds) if math.isfinite(seconds) else math.nan
    days, of_day = _divide(truncate32(seconds), DAY)
    hours, of_hour = _divide(of_day, 3600)
    return days, hours, *_divide(of_hour, 60), fraction


def _divide(number: int, divisor: int) -> tuple[int, int]:
    """Return quotient and remainder, truncated towards zero as in C."""
    quotient = abs(number) // divisor
    if number < 0:
        quotient = -quotient
    return quotient, number - quotient * divisor


def parse_abstime(text: str) -> tuple[AbsTime, bool] | None:
    """Return the time in ``absTime("...")``, and whether it lacks a zone, or None if the text is not a time.

    The format is lenient: a year of four digits, then pairs of digits separated by any text, then a zone, ``z`` or
    ``+hh:mm``. As in HTCondor, a date without a day means the last day of the previous month.
    """
    text = to_bytes(text).decode("latin-1")
    offset: int | None = None
    end = len(text.rstrip(_BLANKS)) - 1
    if end > 0 and text[end] in "zZ":
        offset = 0
        text = text[:end] + text[end + 1 :]
    elif len(text) > 5 and text[-5] in "+-":
        text, offset = _split_zone(text)
    elif len(text) > 6 and text[-6] in "+-" and text[-3] == ":":
        text, offset = _split_zone(text[:-3] + text[-2:])

    position = _next_digit(text, 0)
    if position > len(text) - 4:
        return None
    fields = [_leading_integer(text[position : position + 4])]
    position = _next_digit(text, position + 4)
    for _ in range(5):
        if position <= len(text) - 2:
            fields.append(_leading_integer(text[position : position + 2]))
            position += 2
        position = _next_digit(text, position)
    if position < len(text):
        return None
    year, month, day, hour, minute, second = fields + [1, 0, 0, 0, 0][len(fields) - 1 :]
    seconds = days_before(year, month, day) * DAY + hour * 3600 + minute * 60 + second
    if seconds == -1:  # mktime's error value
        return None
    return AbsTime(seconds - (offset or 0), offset or 0), offset is None


def _split_zone(text: str) -> tuple[str, int | None]:
    zone = text[-5:]
    if zone[0] not in "+-" or any(c not in _DIGITS for c in zone[1:]):
        return text, None
    offset = int(zone[1:3]) * 3600 + int(zone[3:5]) * 60
    return text[:-5], offset if zone[0] == "+" else -offset


def _next_digit(text: str, position: int) -> int:
    while position < len(text) and text[position] not in _DIGITS:
        position += 1
    return position


def _leading_integer(text: str) -> int:
    match = re.match(r"[ \t\n\r\f\v]*([+-]?[0-9]+)", text)
    return int(match[1]) if match else 0


def parse_reltime(text: str) -> tuple[RelTime, bool] | None:
    """Return the duration in ``relTime("[-][days+][hh:][mm:]ss")``, or None if the text is not a duration.

    The text is parsed from the right: seconds, minutes before ``:`` or ``m``, hours before ``:`` or ``h``, days before
    ``+`` or ``d``; each part is optional.
    """
    remaining = to_bytes(text).decode("latin-1").rstrip(_BLANKS)
    seconds = ""
    if remaining and remaining[-1] in "sS0123456789":
        if remaining[-1] in "sS":
            remaining = remaining[:-1].rstrip(_BLANKS)
        remaining, seconds = _trailing_digits(remaining)
        if remaining.endswith("."):
            remaining, integer_part = _trailing_digits(remaining[:-1])
            seconds = integer_part + "." + seconds
    whole_seconds = 0
    for markers, unit in (("mM:", 60), ("hH:", 3600), ("dD+", DAY)):
        remaining = remaining.rstrip(_BLANKS)
        if remaining and remaining[-1] in markers:
            remaining = remaining[:-1].rstrip(_BLANKS)
            remaining, digits = _trailing_digits(remaining)
            whole_seconds += _integer32(digits) * unit
    remaining = remaining.rstrip(_BLANKS)
    negative = remaining.endswith("-")
    if remaining[: -1 if negative else None].rstrip(_BLANKS):
        return None
    total = low32(whole_seconds) + (float(seconds) if seconds.strip(".") else 0.0)
    return RelTime(-total if negative else total), False


def _trailing_digits(text: str) -> tuple[str, str]:
    """Split a text into the part before its trailing digits, and the digits."""
    remaining = text.rstrip(_DIGITS)
    return remaining, text[len(remaining) :]


def _integer32(digits: str) -> int:
    """Return a number of up to 32 bits; as in HTCondor, a larger one counts as 0."""
    number = int(digits) if digits and len(digits) < 1000 else 0
    return number if number < 1 << 31 else 0


_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_COMPOSED_DIRECTIVES = {
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "r": "%I:%M:%S %p",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "x": "%m/%d/%y",
    "X": "%H:%M:%S",
    "+": "%a %b %e %H:%M:%S %Y",
}
_DIRECTIVE = r"(?s)%([_\-0^#+]*)([0-9]*)([EO]?)(.)"


def format_time(pattern: str, fields: Calendar, epoch: int, zone: str) -> str:
    """Format a time like strftime in the C locale, with glibc's flags and widths.

    :param epoch: the seconds for ``%s``
    :param zone: the name of the time zone for ``%Z``
    """

    def directive(match: re.Match[str]) -> str:
        flags, width, _, code = match.groups()
        if code in _COMPOSED_DIRECTIVES and code != "+":
            text, pad, min_width = format_time(_COMPOSED_DIRECTIVES[code], fields, epoch, zone), " ", 0
        else:
            field = _field(code, fields, epoch, zone)
            if field is None:
                return match[0]
            text, pad, min_width = field
        for flag in flags:
            if flag == "_":
                pad = " "
            elif flag == "-":
                pad, min_width = "", 0
            elif flag in "0+":
                pad = "0"
            elif flag == "^":
                text = text.upper()
            elif flag == "#":
                text = text.lower() if code == "p" else text.upper()
        min_width = int(width) if width else min_width
        if pad and len(text) < min_width:
            negative = text.startswith("-") and pad == "0"
            text = "-" + text[1:].rjust(min_width - 1, "0") if negative else text.rjust(min_width, pad)
        return text

    return from_bytes(to_bytes(re.sub(_DIRECTIVE, directive, pattern)))


def _field(code: str, fields: Calendar, epoch: int, zone: str) -> tuple[str, str, int] | None:
    """Return the text of one directive, its padding character and its width."""
    texts: dict[str, Callable[[], str]] = {
        "a": lambda: _name_at(_WEEKDAYS, fields.weekday)[:3],
        "A": lambda: _name_at(_WEEKDAYS, fields.weekday),
        "b": lambda: _name_at(_MONTHS, fields.month - 1)[:3],
        "h": lambda: _name_at(_MONTHS, fields.month - 1)[:3],
        "B": lambda: _name_at(_MONTHS, fields.month - 1),
        "p": lambda: "PM" if fields.hour > 11 else "AM",
        "P": lambda: "pm" if fields.hour > 11 else "am",
        "n": lambda: "\n",
        "t": lambda: "\t",
        "%": lambda: "%",
        "z": lambda: "+0000",
        "Z": lambda: zone,
    }
    if code in texts:
        return texts[code](), " ", 0
    hour12 = fields.hour % 12 or 12
    numbers = {
        "C": (fields.year // 100, "0", 2),
        "d": (fields.day, "0", 2),
        "e": (fields.day, " ", 2),
        "g": (_iso_week(fields)[0] % 100, "0", 2),
        "G": (_iso_week(fields)[0], "0", 1),
        "H": (fields.hour, "0", 2),
        "I": (hour12, "0", 2),
        "j": (fields.yearday + 1, "0", 3),
        "k": (fields.hour, " ", 2),
        "l": (hour12, " ", 2),
        "m": (fields.month, "0", 2),
        "M": (fields.minute, "0", 2),
        "s": (epoch, "0", 1),
        "S": (fields.second, "0", 2),
        "u": ((fields.weekday - 1) % 7 + 1, "0", 1),
        "U": ((fields.yearday - fields.weekday + 7) // 7, "0", 2),
        "V": (_iso_week(fields)[1], "0", 2),
        "w": (fields.weekday, "0", 1),
        "W": ((fields.yearday - (fields.weekday - 1) % 7 + 7) // 7, "0", 2),
        "y": (fields.year % 100, "0", 2),
        "Y": (fields.year, "0", 1),
    }
    if code not in numbers:
        return None
    number, pad, min_width = numbers[code]
    return str(number), pad, min_width


def _name_at(names: tuple[str, ...], index: int) -> str:
    return names[index] if 0 <= index < len(names) else "?"


def _iso_week(fields: Calendar) -> tuple[int, int]:
    monday_based = (fields.weekday - 1) % 7
    week = (fields.yearday - monday_based + 10) // 7
    if week < 1:
        return fields.year - 1, _weeks_in(fields.year - 1)
    if week > _weeks_in(fields.year):
        return fields.year + 1, 1
    return fields.year, week


def _weeks_in(year: int) -> int:
    def weekday(y: int) -> int:  # the weekday of 31 December
        return (y + y // 4 - y // 100 + y // 400) % 7

    return 53 if weekday(year) == 4 or weekday(year - 1) == 3 else 52
