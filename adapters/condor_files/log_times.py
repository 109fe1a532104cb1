"""Parse the times before a daemon's messages; compile a strftime format to a parser.

The usual formats are built in (``KNOWN``); DEBUG_TIME_FORMAT names any other. Names of days and months are in the C
locale. A time has no zone, and does not show whether it is in the first or second pass of the hour repeated at the end
of daylight saving time. In an old format it has no year. ``LogClock`` derives these from the preceding times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Final, NamedTuple

from ...domain.units import DAY

KNOWN: Final = (
    "%m/%d/%y %H:%M:%S",
    "%m/%d %H:%M:%S",
    "%m/%d/%Y %H:%M:%S",
    "%Y-%m-%dT%H:%M:%S%z",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%d %H:%M:%S%z",
    "%Y-%m-%d %H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S",
    "(%s)",
    "%s",
)
"""The recognized formats: HTCondor's, its older one without a year, ISO 8601, and the one of LOGS_USE_TIMESTAMP."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MAX_STEP_BACK = 60_000_000  #: microseconds; a clock set back by at most this does not repeat the hour
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)

# The pattern and the field of each directive; an empty field is ignored.
_DIRECTIVES: Final[dict[str, tuple[str, str]]] = {
    "Y": (r"\d{4}", "year"),
    "y": (r"\d\d", "short_year"),
    "m": (r"[ \d]?\d", "month"),
    "b": (r"[A-Za-z]{3}", "month_name"),
    "B": (r"[A-Za-z]{3,9}", "month_name"),
    "d": (r"[ \d]?\d", "day"),
    "j": (r"\d{1,3}", "day_of_year"),
    "H": (r"[ \d]?\d", "hour"),
    "I": (r"[ \d]?\d", "half_hour"),
    "p": (r"[AaPp][Mm]", "half"),
    "M": (r"\d{1,2}", "minute"),
    "S": (r"\d\d", "second"),
    "z": (r"Z|[+-]\d\d:?\d\d", "offset"),
    "Z": (r"[A-Za-z]{1,6}|[+-]\d{2,4}", "zone"),
    "s": (r"\d{9,11}", "epoch"),
    "a": (r"[A-Za-z]{3}", ""),
    "A": (r"[A-Za-z]{6,9}", ""),
    "G": (r"\d{4}", ""),
    "%": (r"%", ""),
    **dict.fromkeys("uw", (r"\d", "")),
    **dict.fromkeys("CUWVg", (r"\d\d", "")),
    **dict.fromkeys("nt", (r"\s", "")),
}
_FIELD_OF_DIRECTIVE: Final = {"e": "d", "k": "H", "l": "I", "h": "b", "P": "p"}
_SHORT_FORMS: Final = {
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "R": "%H:%M",
    "r": "%I:%M:%S %p",
    "T": "%H:%M:%S",
    "x": "%m/%d/%y",
    "X": "%H:%M:%S",
    "+": "%a %b %e %H:%M:%S %Z %Y",
}
_FIELD = re.compile(r"%[-_0^#]?[EO]?(.)|([^%]+)|(%)", re.DOTALL)
_DAYS = ({"day", "month"}, {"day", "month_name"}, {"day_of_year"})


class TimeFormat(NamedTuple):
    """A compiled strftime format: ``shape`` matches a time, without groups; ``fields`` has a group for each field."""

    text: str
    shape: str
    fields: re.Pattern[str]
    seconds_last: bool


@cache
def compile_format(text: str) -> TimeFormat:
    """Compile a strftime format. Raise ``ValueError`` if it is invalid, or lacks the day or the hour."""
    form = text.strip('"')
    while any(short_directive in form for short_directive in (f"%{name}" for name in _SHORT_FORMS)):
        form = re.sub(r"%([cDFRrTxX+])", lambda match: _SHORT_FORMS[match[1]], form)
    shape_pattern, fields, names = "", "", set[str]()
    for directive, literal, lone_char in _FIELD.findall(form):
        directive = _FIELD_OF_DIRECTIVE.get(directive, directive)
        if lone_char or (directive and directive not in _DIRECTIVES):
            raise ValueError(f"invalid time format {text!r}: unknown directive %{directive}")
        if literal:
            shape_pattern += re.escape(literal)
            fields += re.escape(literal)
            continue
        look_pattern, name = _DIRECTIVES[directive]
        shape_pattern += f"(?:{look_pattern})"
        fields += f"(?P<{name}>{look_pattern})" if name and name not in names else f"(?:{look_pattern})"
        names.add(name)
    if "epoch" not in names:
        if not any(days <= names for days in _DAYS):
            raise ValueError(f"invalid time format {text!r}: it has no day")
        if not (names & {"hour", "half_hour"} and "minute" in names):
            raise ValueError(f"invalid time format {text!r}: it has no time of day")
    return TimeFormat(form, shape_pattern, re.compile(fields, re.ASCII), form.endswith("%S"))


class LogClock:
    """Converts the times in one file (or chain of rotated files), in order, to microseconds since the epoch. ``last``
    is the last time (0: none yet). ``limit`` is the file's modification time (seconds): a time without a year is at
    most a day later."""

    def __init__(self, zone: tzinfo, limit: float, last_time: int) -> None:
        self.zone = zone
        self.limit = limit
        self.last = last_time
        self._base = ("", "", 0)

    def instant(self, form: TimeFormat, time_stamp: str) -> int:
        """Convert a time in this format. Raise ``ValueError`` for an invalid time."""
        if not form.seconds_last:
            at = self._parse(form, time_stamp)
        else:  # add the seconds to the minute, since zone offsets change at whole minutes
            text, minute, at = self._base
            if minute != time_stamp[:-2] or text != form.text:
                at = self._parse(form, time_stamp[:-2] + "00")
                self._base = (form.text, time_stamp[:-2], at)
            at += int(time_stamp[-2:]) * 1_000_000
        self.last = at
        return at

    def _parse(self, form: TimeFormat, time_stamp: str) -> int:
        match = form.fields.fullmatch(time_stamp)
        if match is None:
            raise ValueError(f"no time: {time_stamp!r}")
        fields = {name: value for name, value in match.groupdict().items() if value is not None}
        if "epoch" in fields:
            return int(fields["epoch"]) * 1_000_000
        found_times: list[int] = []
        for year in [_year(fields)] if {"year", "short_year"} & fields.keys() else self._possible_years():
            try:
                found_times.append(self._to_utc(_date(fields, year) + _time(fields), fields))
            except (ValueError, OverflowError):  # 29 February in another year
                continue
        if not found_times:
            raise ValueError(f"no such time: {time_stamp!r}")
        latest_time, earliest_time = (self.limit + DAY) * 1_000_000, self.last - DAY * 1_000_000
        possible_times = [at for at in found_times if at <= latest_time] or found_times
        return next((at for at in possible_times if at >= earliest_time), possible_times[0])

    def _possible_years(self) -> list[int]:
        """Return the possible years of a time without one, the most likely first: the first year not before the
        preceding time or, without one, the last year not after the file's modification."""
        latest_year = datetime.fromtimestamp(max(self.limit, 0) + DAY, self.zone).year
        if not self.last:
            return [latest_year, *range(latest_year - 1, latest_year - 9, -1)]
        year = (datetime.fromtimestamp(self.last // 1_000_000, self.zone)).year
        return [*range(year - 1, latest_year + 1), *range(year - 2, year - 9, -1)]

    def _to_utc(self, when: datetime, fields: dict[str, str]) -> int:
        offset = fields.get("offset", "")
        zone = fields.get("zone", "")
        if offset or zone in ("UTC", "GMT", "Z"):
            return _micros(when.replace(tzinfo=datetime.strptime(offset, "%z").tzinfo if offset else UTC))
        first_fold, second = (when.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        at = _micros(first_fold)
        if second.utcoffset() == first_fold.utcoffset() or _micros(second) < at:  # <: this local time does not exist
            return at
        if zone and second.tzname() == zone != first_fold.tzname():
            return _micros(second)
        return _micros(second) if at < self.last - _MAX_STEP_BACK and zone != first_fold.tzname() else at


def _micros(when: datetime) -> int:
    return (when - _BEGIN) // timedelta(microseconds=1)


def _year(fields: dict[str, str]) -> int:
    if "year" in fields:
        return int(fields["year"])
    short_year = int(fields["short_year"])
    return short_year + (1900 if short_year >= 69 else 2000)


def _date(fields: dict[str, str], year: int) -> datetime:
    if "month" in fields:
        return datetime(year, int(fields["month"]), int(fields["day"]))
    if "month_name" in fields:
        month = _MONTHS.index(fields["month_name"][:3].lower()) + 1
        return datetime(year, month, int(fields["day"]))
    return datetime(year, 1, 1) + timedelta(days=int(fields["day_of_year"]) - 1)


def _time(fields: dict[str, str]) -> timedelta:
    hour = int(fields.get("hour", "0"))
    if "hour" not in fields:
        hour = int(fields["half_hour"]) % 12 + (12 if fields.get("half", "am").lower() == "pm" else 0)
    minute, second = int(fields["minute"]), int(fields.get("second", "0"))
    if hour > 24 or minute > 59 or second > 60:
        raise ValueError("no such time of day")
    return timedelta(hours=hour, minutes=minute, seconds=second)
