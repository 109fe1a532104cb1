"""Read and write times: literals, texts, the calendar, and formatting.

The calendar is the proleptic Gregorian one over the whole range of 64-bit seconds, as in the C library's gmtime; the
zone of local times comes from the ``Context``. Formatting is strftime in the C locale, the same everywhere.
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
    """Return the days from 1970-01-01 to a date; months and days beyond their range carry over."""
    year += (month - 1) // 12
    month = (month - 1) % 12 + 1
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year + day - 1 - 719468


def calendar(seconds: int) -> Calendar:
    """Return the date and time of day of a number of seconds since the epoch."""
    days, rest = divmod(seconds, DAY)
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
        rest // 3600,
        rest // 60 % 60,
        rest % 60,
        (days + 4) % 7,
        days - days_before(year, 1, 1),
    )


# -- texts ---------------------------------------------------------------------------------------------------------


def abstime_text(time: AbsTime) -> str:
    """Return ``2003-01-25T09:00:00-06:00``. An offset of zero is ``-00:00``, as in HTCondor."""
    fields = calendar(time.seconds + time.offset)
    sign = "+" if time.offset > 0 else "-"
    zone = abs(time.offset)
    return (
        f"{fields.year}-{fields.month:02}-{fields.day:02}T{fields.hour:02}:{fields.minute:02}:{fields.second:02}"
        f"{sign}{zone // 3600:02}:{zone // 60 % 60:02}"
    )


def reltime_text(seconds: float) -> str:
    """Return ``[-][days+][hh:][mm:]ss[.fff]``, without leading zero parts."""
    sign = "-" if seconds < 0 else ""
    days, hours, minutes, rest, fraction = length_parts(abs(seconds))
    last = f"{rest:02}" if fraction == 0 else f"{f'{rest + fraction:g}':>02}"
    if days:
        return f"{sign}{days}+{hours:02}:{minutes:02}:{last}"
    if hours:
        return f"{sign}{hours:02}:{minutes:02}:{last}"
    if minutes:
        return f"{sign}{minutes:02}:{last}"
    return f"{sign}{last}"


def length_parts(seconds: float) -> tuple[int, int, int, int, float]:
    """Return the days, hours, minutes and whole seconds of a length of time, and its fraction of a second."""
    fraction = seconds - math.floor(seconds) if math.isfinite(seconds) else math.nan
    days, of_day = _divide(truncate32(seconds), DAY)
    hours, of_hour = _divide(of_day, 3600)
    return days, hours, *_divide(of_hour, 60), fraction


def _divide(number: int, by: int) -> tuple[int, int]:
    """Return quotient and remainder, truncated towards zero as in C."""
    quotient = abs(number) // by
    if number < 0:
        quotient = -quotient
    return quotient, number - quotient * by


# -- literals ------------------------------------------------------------------------------------------------------


def absolute_literal(text: str) -> tuple[AbsTime, bool] | None:
    """Return the time of ``absTime("...")``, and whether it names no zone; None where it is no time.

    The form is loose: a year of four digits, then pairs of digits as far as they go, anything in between; then a zone,
    ``z`` or ``+hh:mm``. As in HTCondor, a date without a day is the last day of the month before.
    """
    text = to_bytes(text).decode("latin-1")
    offset: int | None = None
    end = len(text.rstrip(_BLANKS)) - 1
    if end > 0 and text[end] in "zZ":
        offset = 0
        text = text[:end] + text[end + 1 :]
    elif len(text) > 5 and text[-5] in "+-":
        text, offset = _take_zone(text)
    elif len(text) > 6 and text[-6] in "+-" and text[-3] == ":":
        text, offset = _take_zone(text[:-3] + text[-2:])

    at = _next_digit(text, 0)
    if at > len(text) - 4:
        return None
    fields = [_leading_integer(text[at : at + 4])]
    at = _next_digit(text, at + 4)
    for _ in range(5):
        if at <= len(text) - 2:
            fields.append(_leading_integer(text[at : at + 2]))
            at += 2
        at = _next_digit(text, at)
    if at < len(text):
        return None
    year, month, day, hour, minute, second = fields + [1, 0, 0, 0, 0][len(fields) - 1 :]
    seconds = days_before(year, month, day) * DAY + hour * 3600 + minute * 60 + second
    if seconds == -1:  # mktime's error value
        return None
    return AbsTime(seconds - (offset or 0), offset or 0), offset is None


def _take_zone(text: str) -> tuple[str, int | None]:
    zone = text[-5:]
    if zone[0] not in "+-" or any(c not in _DIGITS for c in zone[1:]):
        return text, None
    offset = int(zone[1:3]) * 3600 + int(zone[3:5]) * 60
    return text[:-5], offset if zone[0] == "+" else -offset


def _next_digit(text: str, at: int) -> int:
    while at < len(text) and text[at] not in _DIGITS:
        at += 1
    return at


def _leading_integer(text: str) -> int:
    match = re.match(r"[ \t\n\r\f\v]*([+-]?[0-9]+)", text)
    return int(match[1]) if match else 0


def relative_literal(text: str) -> tuple[RelTime, bool] | None:
    """Return the length of time of ``relTime("[-][days+][hh:][mm:]ss")``; None where it is none.

    Read from the right: seconds, minutes before ``:`` or ``m``, hours before ``:`` or ``h``, days before ``+`` or
    ``d``, each optional.
    """
    rest = to_bytes(text).decode("latin-1").rstrip(_BLANKS)
    seconds = ""
    if rest and rest[-1] in "sS0123456789":
        if rest[-1] in "sS":
            rest = rest[:-1].rstrip(_BLANKS)
        rest, seconds = _trailing_digits(rest)
        if rest.endswith("."):
            rest, whole_seconds = _trailing_digits(rest[:-1])
            seconds = whole_seconds + "." + seconds
    whole = 0
    for markers, unit in (("mM:", 60), ("hH:", 3600), ("dD+", DAY)):
        rest = rest.rstrip(_BLANKS)
        if rest and rest[-1] in markers:
            rest = rest[:-1].rstrip(_BLANKS)
            rest, digits = _trailing_digits(rest)
            whole += _small(digits) * unit
    rest = rest.rstrip(_BLANKS)
    negative = rest.endswith("-")
    if rest[: -1 if negative else None].rstrip(_BLANKS):
        return None
    total = low32(whole) + (float(seconds) if seconds.strip(".") else 0.0)
    return RelTime(-total if negative else total), False


def _trailing_digits(text: str) -> tuple[str, str]:
    """Split the digits off the end of a text."""
    rest = text.rstrip(_DIGITS)
    return rest, text[len(rest) :]


def _small(digits: str) -> int:
    """Return a number of 32 bits; a larger one counts as 0, as in HTCondor."""
    number = int(digits) if digits and len(digits) < 1000 else 0
    return number if number < 1 << 31 else 0


# -- formatting ----------------------------------------------------------------------------------------------------

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_COMPOSED = {
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
_DIRECTIVE = re.compile(r"%([_\-0^#+]*)([0-9]*)([EO]?)(.)", re.DOTALL)


def format_time(form: str, t: Calendar, epoch: int, zone: str) -> str:
    """Format a time as strftime in the C locale, with glibc's flags and widths.

    :param epoch: the seconds that ``%s`` shows
    :param zone: the name that ``%Z`` shows
    """

    def directive(match: re.Match[str]) -> str:
        flags, width, _, code = match.groups()
        if code in _COMPOSED and code != "+":
            text, pad, least = format_time(_COMPOSED[code], t, epoch, zone), " ", 0
        else:
            field = _field(code, t, epoch, zone)
            if field is None:
                return match[0]
            text, pad, least = field
        for flag in flags:
            if flag == "_":
                pad = " "
            elif flag == "-":
                pad, least = "", 0
            elif flag in "0+":
                pad = "0"
            elif flag == "^":
                text = text.upper()
            elif flag == "#":
                text = text.lower() if code == "p" else text.upper()
        least = int(width) if width else least
        if pad and len(text) < least:
            negative = text.startswith("-") and pad == "0"
            text = "-" + text[1:].rjust(least - 1, "0") if negative else text.rjust(least, pad)
        return text

    return from_bytes(to_bytes(_DIRECTIVE.sub(directive, form)))


def _field(code: str, t: Calendar, epoch: int, zone: str) -> tuple[str, str, int] | None:
    """Return the text of one directive, its padding character and its width."""
    named: dict[str, Callable[[], str]] = {
        "a": lambda: _named(_WEEKDAYS, t.weekday)[:3],
        "A": lambda: _named(_WEEKDAYS, t.weekday),
        "b": lambda: _named(_MONTHS, t.month - 1)[:3],
        "h": lambda: _named(_MONTHS, t.month - 1)[:3],
        "B": lambda: _named(_MONTHS, t.month - 1),
        "p": lambda: "PM" if t.hour > 11 else "AM",
        "P": lambda: "pm" if t.hour > 11 else "am",
        "n": lambda: "\n",
        "t": lambda: "\t",
        "%": lambda: "%",
        "z": lambda: "+0000",
        "Z": lambda: zone,
    }
    if code in named:
        return named[code](), " ", 0
    hour12 = t.hour % 12 or 12
    numbers = {
        "C": (t.year // 100, "0", 2),
        "d": (t.day, "0", 2),
        "e": (t.day, " ", 2),
        "g": (_iso_week(t)[0] % 100, "0", 2),
        "G": (_iso_week(t)[0], "0", 1),
        "H": (t.hour, "0", 2),
        "I": (hour12, "0", 2),
        "j": (t.yearday + 1, "0", 3),
        "k": (t.hour, " ", 2),
        "l": (hour12, " ", 2),
        "m": (t.month, "0", 2),
        "M": (t.minute, "0", 2),
        "s": (epoch, "0", 1),
        "S": (t.second, "0", 2),
        "u": ((t.weekday - 1) % 7 + 1, "0", 1),
        "U": ((t.yearday - t.weekday + 7) // 7, "0", 2),
        "V": (_iso_week(t)[1], "0", 2),
        "w": (t.weekday, "0", 1),
        "W": ((t.yearday - (t.weekday - 1) % 7 + 7) // 7, "0", 2),
        "y": (t.year % 100, "0", 2),
        "Y": (t.year, "0", 1),
    }
    if code not in numbers:
        return None
    number, pad, least = numbers[code]
    return str(number), pad, least


def _named(names: tuple[str, ...], index: int) -> str:
    return names[index] if 0 <= index < len(names) else "?"


def _iso_week(t: Calendar) -> tuple[int, int]:
    monday_based = (t.weekday - 1) % 7
    week = (t.yearday - monday_based + 10) // 7
    if week < 1:
        return t.year - 1, _weeks_in(t.year - 1)
    if week > _weeks_in(t.year):
        return t.year + 1, 1
    return t.year, week


def _weeks_in(year: int) -> int:
    def weekday(y: int) -> int:  # of 31 December
        return (y + y // 4 - y // 100 + y // 400) % 7

    return 53 if weekday(year) == 4 or weekday(year - 1) == 3 else 52
