"""Built-in functions on times: now, conversions, parts and formats."""

from __future__ import annotations

import math
from typing import Any

from ..units import DAY
from .ad import ClassAd
from .environment import Ad, Environment
from .function_registry import FunctionInputs, eager, lazy
from .times import Calendar, calendar, days_before, format_time, split_duration
from .tree import Literal
from .values import ERROR, UNDEFINED, AbsTime, EvaluationFailed, RelTime, low32, to_integer, truncate32


@eager("time", 0, needs=FunctionInputs.CONTEXT)
def _time(env: Environment, ad: Ad, values: list[Any]) -> Any:
    return env.context.time("time()")


def _now(env: Environment, function_name: str) -> AbsTime:
    now = env.context.time(function_name)
    return AbsTime(now, env.context.utc_offset(now))


@eager("currenttime", 0, needs=FunctionInputs.CONTEXT)
def _current_time(env: Environment, ad: Ad, values: list[Any]) -> Any:
    return _now(env, "currentTime()")


@eager("timezoneoffset", 0, needs=FunctionInputs.CONTEXT)
def _zone_offset(env: Environment, ad: Ad, values: list[Any]) -> Any:
    return RelTime(_now(env, "timeZoneOffset()").offset)


@eager("daytime", 0, needs=FunctionInputs.CONTEXT)
def _day_time(env: Environment, ad: Ad, values: list[Any]) -> Any:
    now = _now(env, "dayTime()")
    return RelTime((now.seconds + now.offset) % DAY)


@eager("abstime", 0, 2, needs=FunctionInputs.CONTEXT)
def _abstime(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if not values:
        return _now(env, "absTime()")
    value = values[0]
    offset: int | None = None
    if len(values) == 2:
        second = values[1]
        if type(second) is int:
            offset = low32(second)
        elif type(second) in (float, RelTime):
            offset = truncate32(second if type(second) is float else second.seconds)
        else:
            return ERROR
    kind = type(value)
    if kind is AbsTime:
        return value
    if kind is int:
        seconds = low32(value)
    elif kind is float:
        seconds = truncate32(value)
    elif kind is RelTime:
        seconds = truncate32(value.seconds)
    elif kind is str:
        return value  # the parser converts literal strings; like HTCondor, return a computed string unchanged
    else:
        return UNDEFINED if value is UNDEFINED else ERROR
    if offset is None:
        offset = env.context.utc_offset(seconds)
    if offset == -1 and kind is int:
        raise EvaluationFailed("absTime(): -1 is not a valid time zone offset")
    return AbsTime(seconds, offset)


@eager("reltime", 1, 2)
def _reltime(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if len(values) == 2:
        return ERROR
    (value,) = values
    kind = type(value)
    if kind is int:
        return RelTime(low32(value))
    if kind is float:
        return RelTime(value)
    if kind is RelTime:
        return value
    if kind is AbsTime:
        return RelTime(value.seconds)
    if kind is str:
        return RelTime(0.0)  # only the parser converts (literal) strings
    return UNDEFINED if value is UNDEFINED else ERROR


_TIME_PARTS: dict[str, Any] = {
    "getyear": lambda t: t.year,
    "getmonth": lambda t: t.month,
    "getdayofyear": lambda t: t.yearday,
    "getdayofmonth": lambda t: t.day,
    "getdayofweek": lambda t: t.weekday,
    "gethours": lambda t: t.hour,
    "getminutes": lambda t: t.minute,
    "getseconds": lambda t: t.second,
}
_DURATION_PARTS: dict[str, Any] = {
    "getdays": lambda s: s // DAY,
    "gethours": lambda s: s % DAY // 3600,
    "getminutes": lambda s: s % 3600 // 60,
    "getseconds": lambda s: s % 60,
}


def _declare_part(name: str) -> None:
    @eager(name, 1, needs=FunctionInputs.CONTEXT)
    def _part(env: Environment, ad: Ad, values: list[Any]) -> Any:
        (value,) = values
        if type(value) is AbsTime and name in _TIME_PARTS:
            return _TIME_PARTS[name](calendar(value.seconds + env.context.utc_offset(value.seconds)))
        if type(value) is RelTime and name in _DURATION_PARTS:
            seconds = truncate32(value.seconds)
            # C divides towards zero.
            part = _DURATION_PARTS[name](abs(seconds))
            return part if seconds >= 0 else -part
        return ERROR


for _name in _TIME_PARTS | _DURATION_PARTS:
    _declare_part(_name)


def _parts_ad(attributes: dict[str, Any]) -> ClassAd:
    return ClassAd._nested({name.lower(): (name, Literal(value)) for name, value in attributes.items()}, None)


def split_time(env: Environment, value: Any) -> ClassAd | None:
    """Return the parts of a time as an ad, or None if it is not a time."""
    kind = type(value)
    if kind is int or kind is float:
        seconds = value if kind is int else truncate32(value)
        value, kind = AbsTime(seconds, env.context.utc_offset(seconds)), AbsTime
    if kind is AbsTime:
        t = calendar(value.seconds + value.offset)
        day = {"Type": "AbsoluteTime", "Year": t.year, "Month": t.month, "Day": t.day}
        return _parts_ad({**day, "Hours": t.hour, "Minutes": t.minute, "Seconds": t.second, "Offset": value.offset})
    return _split_length(value.seconds) if kind is RelTime else None


def _split_length(seconds: float) -> ClassAd:
    days, hours, minutes, whole_seconds, fraction = split_duration(abs(seconds))
    parts: dict[str, Any] = {"Days": days, "Hours": hours, "Minutes": minutes, "Seconds": whole_seconds + fraction}
    if seconds < 0:
        # Only the largest nonzero part has the sign.
        signed = next((name for name in ("Days", "Hours", "Minutes") if parts[name] > 0), "Seconds")
        parts[signed] = -parts[signed]
    return _parts_ad({"Type": "RelativeTime", **parts})


@eager("splittime", 1, needs=FunctionInputs.CONTEXT)
def _split_time(env: Environment, ad: Ad, values: list[Any]) -> Any:
    (value,) = values
    if value is UNDEFINED:
        return UNDEFINED
    parts = split_time(env, value)
    return ERROR if parts is None else parts


@lazy("formattime", 0, 2, needs=FunctionInputs.CONTEXT)
def _format_time(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    pattern = "%c"
    zone = env.context.zone_name()
    if not arguments:
        now = _now(env, "formatTime()")
        fields = calendar(now.seconds + now.offset)
        return format_time(pattern, fields, now.seconds, zone)
    value = arguments[0](env, ad)
    if type(value) is RelTime:
        return ERROR
    parts = value if type(value) is ClassAd else split_time(env, value)
    if parts is None:
        return ERROR
    if len(arguments) == 2:
        pattern = arguments[1](env, ad)
        if type(pattern) is not str:
            return ERROR

    def part(name: str, default: int) -> int:
        number = parts.eval(name, context=env.context)
        return low32(number) if type(number) is int else default

    year, month, day = part("Year", 1900), part("Month", 1), part("Day", 0)
    weekday, yearday = day_numbers(year, month, day)
    fields = Calendar(year, month, day, part("Hours", 0), part("Minutes", 0), part("Seconds", 0), weekday, yearday)
    time_of_day = fields.hour * 3600 + fields.minute * 60 + fields.second
    local = days_before(year, month, day) * DAY + time_of_day
    return format_time(pattern, fields, env.context.from_standard_time(local), zone)


def day_numbers(year: int, month: int, day: int) -> tuple[int, int]:
    """Return the day of the week and of the year by HTCondor's formula, which accepts any numbers."""

    def day_count(month: int, day: int) -> int:
        leap = year % 4 == 0 and year % 400 not in (100, 200, 300)
        adjustment = 0 if month <= 2 else -1 if leap else -2
        return (
            365 * (year - 1)
            + int((year - 1) / 4)
            - int((year - 1) / 100)
            + int((year - 1) / 400)
            + int((367 * month - 362) / 12)
            + adjustment
            + day
        )

    days = day_count(month, day)
    return int(math.fmod(days, 7)), days - day_count(1, 1)


@eager("interval", 1)
def _interval(env: Environment, ad: Ad, values: list[Any]) -> Any:
    number = to_integer(values[0])
    if type(number) is not int:
        return ERROR
    seconds = low32(number)
    sign = -1 if seconds < 0 else 1
    days, rest = divmod(abs(seconds), DAY)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{sign * days}+{hours:02}:{minutes:02}:{rest:02}"
    if hours:
        return f"{sign * hours}:{minutes:02}:{rest:02}"
    if minutes:
        return f"{sign * minutes}:{rest:02}"
    return str(sign * rest)
