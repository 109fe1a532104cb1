"""Convert Python values to ClassAd expressions, and ads to values; check numeric arguments; wait between polls."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from math import isfinite
from numbers import Real
from threading import Event
from typing import Any, TypeGuard

from ...domain.classad import ClassAd, Context, EvaluationError, Exceptional, ListValue, Value, parse
from ...domain.classad.matching import is_satisfied
from ...domain.state.job_ad import quoted


class Expr(str):
    """A ClassAd expression as a value; a plain `str` is a string literal.

    >>> pool.edit("1.5", Requirements=Expr("Memory >= 4096"), Note="needs much memory")
    [{'cluster': 1, 'first': 5, 'last': 5, 'result': 'done', 'changes': {...}}]
    """

    __slots__ = ()


def text_of(value: object) -> str:
    """Return the text of the ClassAd expression for a Python value."""
    if isinstance(value, Expr):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return repr(value)
    if value is None:
        return "undefined"
    if isinstance(value, str):
        return quoted(value)
    raise ValueError(f"{value!r} is not a valid attribute value: give a number, a text, True, False, None or an Expr")


def values(ad: ClassAd) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an ad with their values; an expression that needs another ad becomes a text."""
    for name in ad:
        try:
            value = ad.eval(name)
        except EvaluationError:
            value = None
        if isinstance(value, Exceptional) or value is None:
            text = str(ad[name])
            if text not in ("undefined", "error"):
                yield name, text
        else:
            yield name, _python_value(value)


def _python_value(value: Value) -> Any:
    """Convert a value to Python's types, also within an ad or a list; a value without such a type becomes a string."""
    if isinstance(value, ClassAd):
        return dict(values(value))
    if isinstance(value, ListValue):
        return [_python_value(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else str(value)


def plain_ads(ads: Iterable[ClassAd], constraint: str, now: int) -> list[dict[str, Any]]:
    """Return the ads for which `constraint` is true (empty: all) at the instant `now`, in microseconds, as plain
    dictionaries. Raise `ClassAdSyntaxError` if the constraint is not a valid expression."""
    condition = parse(constraint) if constraint else None
    context = Context(now=now // 1_000_000)
    return [dict(values(ad)) for ad in ads if condition is None or is_satisfied(condition.evaluate(ad, None, context))]


def seconds_of(value: object, name: str) -> float:
    """Check that an argument is a length of time, in seconds. Raise `ValueError` if it is not a number, or negative."""
    if not _is_number(value) or value < 0:
        raise ValueError(f"{name} = {value!r} is not a valid duration: give a number of seconds, at least 0")
    return float(value)


def instant_of(value: object, name: str) -> int:
    """Convert an argument, in seconds since the epoch, to an instant in microseconds. Raise `ValueError` if it is not a
    number, or negative."""
    if not _is_number(value) or value < 0:
        raise ValueError(f"{name} = {value!r} is not a valid time: give a number of seconds since the epoch")
    return round(value * 1_000_000)


def number_of(value: object, name: str) -> float:
    """Check that an argument is a number. Raise `ValueError` if not."""
    if not _is_number(value):
        raise ValueError(f"{name} = {value!r} is not a number")
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


# Pauses between polls.


def pauses(interval: float, timeout: float | None = None) -> Iterator[float]:
    """Yield the seconds to wait before each poll: 0 before the first one, then `interval`. The last poll is due
    `timeout` seconds after this call (None: never). Raise `ValueError` if one of them is not a valid length of time."""
    pause = seconds_of(interval, "interval")
    end = math.inf if timeout is None else time.monotonic() + seconds_of(timeout, "timeout")
    return _pauses(pause, end)


def _pauses(pause: float, end: float) -> Iterator[float]:
    yield 0.0
    while (remaining := end - time.monotonic()) > 0:
        yield min(pause, remaining)


def polls(waits: Iterator[float], stop: Event | None = None) -> Iterator[None]:
    """Wait, then yield, for each wait; after `stop` is set, yield once more and end."""
    enough = stop or Event()
    for pause in waits:
        over = enough.wait(pause)
        yield
        if over:
            return
