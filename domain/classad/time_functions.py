"""Describe how the value of an expression changes after an instant ``now``.

A value that does not depend on the time is a plain value. Any other value is one of three functions, valid for ``now <=
t < until``, in whole seconds; later values are unknown:

================  ======================================================================================================
ConstantUntil     one value
StepFunction      ``scale * ((t - origin) // unit) + offset``, an integer: the clock, plus or minus a number
MonotoneFunction  a number ``at(t)`` that never decreases, or never increases; its type stays the same
================  ======================================================================================================

The result of an operation (``time_operators``) is exact at *every* instant for which it is valid. If it is none of the
three functions, the current value is used until an operand changes. The instant at which a comparison changes is
computed for step functions; for monotone functions, bisection with the ClassAd operators rounds reals in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .values import Exceptional, wrap64

# The year 10000, where all predictions end, so that computations with instants do not overflow.
END = 253_402_300_800
# Steps within these bounds do not overflow 64 bits before END.
_MAX_OFFSET = 1 << 60
_MAX_SCALE = 1 << 18
_MAX_STEPS = 1 << 43
MAX_VALUE = 1 << 62
# Reals represent all integers up to this one exactly.
MAX_EXACT_INTEGER = 1 << 53


class ConstantUntil:
    """A value that stays the same until an instant."""

    __slots__ = ("until", "value")

    def __init__(self, value: Any, until: int) -> None:
        self.value = value
        self.until = until


class StepFunction:
    """An integer that changes in equal steps (``scale``, not 0) at equal intervals (``unit`` seconds)."""

    __slots__ = ("offset", "origin", "scale", "unit", "until")

    def __init__(self, origin: int, unit: int, scale: int, offset: int, until: int) -> None:
        self.origin = origin
        self.unit = unit
        self.scale = scale
        self.offset = offset
        self.until = until

    @property
    def is_rising(self) -> bool:
        return self.scale > 0

    def value_at(self, t: int) -> int:
        return self.scale * ((t - self.origin) // self.unit) + self.offset

    def instant_of_value(self, value: int) -> int:
        """Return the first instant, possibly in the past, at which the function reaches or passes a value."""
        distance = value - self.offset if self.scale > 0 else self.offset - value
        return self.origin - (-distance // abs(self.scale)) * self.unit


class MonotoneFunction:
    """A number that never decreases, or never increases."""

    __slots__ = ("is_rising", "until", "value_at")

    def __init__(self, at: Callable[[int], Any], rising: bool, until: int) -> None:
        # Nested sums evaluate the same function repeatedly for one instant.
        self.value_at = lru_cache(maxsize=1)(at)
        self.is_rising = rising
        self.until = until


TIME_FUNCTIONS = frozenset({ConstantUntil, StepFunction, MonotoneFunction})
NUMBERS = frozenset({int, float, bool})


class Moving:
    """An attribute that depends only on the clock. Its value is ``(t - origin) // unit``, modulo ``modulus`` if given.

    For example, ClockMin is ``Moving(origin=<the last midnight>, unit=60, until=<the next midnight>)``.

    :param origin: the instant at which the value is zero, in seconds since the epoch
    :param unit: the seconds from one step to the next
    :param until: the instant from which the value is unknown, or None if never
    """

    # This is not an attrs class, so that commands that only read ads need not import attrs.
    __slots__ = ("modulus", "origin", "unit", "until")

    def __init__(self, origin: int, unit: int = 1, until: int | None = None, modulus: int | None = None) -> None:
        for name, number in (("unit", unit), ("modulus", modulus)):
            if number is not None and number < 1:
                raise ValueError(f"the {name} of a moving attribute must be 1 or more, not {number}")
        self.origin, self.unit, self.until, self.modulus = origin, unit, until, modulus

    def value_at(self, t: int) -> int:
        count = (t - self.origin) // self.unit
        return count if self.modulus is None else count % self.modulus

    def from_instant(self, now: int) -> Any:
        """Return the attribute's function of time, starting at an instant, or None if the value is unknown by then."""
        until = END if self.until is None else min(self.until, END)
        return clock_count(self.origin, self.unit, self.modulus, now, until) if now < until else None


def value_at(f: Any, now: int) -> Any:
    """Return the value at an instant for which the function is valid."""
    kind = type(f)
    if kind is ConstantUntil:
        return f.value
    return f.value_at(now) if kind is StepFunction or kind is MonotoneFunction else f


def is_identical(a: Any, b: Any) -> bool:
    """Check whether two values are indistinguishable to expressions: the same type, and the same sign of a zero."""
    if type(a) is not type(b) or type(a) is Exceptional:
        return a is b
    if type(a) is float and a == 0.0 == b:
        return math.copysign(1.0, a) == math.copysign(1.0, b)
    return bool(a == b)


def next_step(f: Any, now: int) -> int:
    """Return the first instant after now at which the value may change; ``END`` if it never changes."""
    kind = type(f)
    if kind is ConstantUntil:
        return f.until  # type: ignore[no-any-return]
    if kind is StepFunction:
        step = f.origin + ((now - f.origin) // f.unit + 1) * f.unit
        return step if step < f.until else f.until  # type: ignore[no-any-return]
    if kind is MonotoneFunction:
        value = f.value_at(now)
        return first_instant(lambda t: not is_identical(f.value_at(t), value), now, f.until)
    return END


def first_instant(holds: Callable[[int], bool], now: int, until: int) -> int:
    """Return the first instant after ``now`` from which a condition holds; ``until`` if there is none before it."""
    latest_false, step = now, 1
    while True:
        earliest_true = latest_false + step
        if earliest_true >= until:
            earliest_true = until
            break
        if holds(earliest_true):
            break
        latest_false, step = earliest_true, 2 * step
    while earliest_true - latest_false > 1:
        middle = (latest_false + earliest_true) // 2
        if holds(middle):
            earliest_true = middle
        else:
            latest_false = middle
    return earliest_true


def hold_until_change(f: Any, now: int) -> Any:
    """Return the current value as a function that is valid until ``f`` changes."""
    kind = type(f)
    return ConstantUntil(f.value_at(now), next_step(f, now)) if kind is StepFunction or kind is MonotoneFunction else f


def limit_validity(f: Any, until: int) -> Any:
    """Return a function that is valid only before ``until``."""
    kind = type(f)
    if kind not in TIME_FUNCTIONS:
        return ConstantUntil(f, until)
    until = min(f.until, until)
    if kind is ConstantUntil:
        return ConstantUntil(f.value, until)
    if kind is StepFunction:
        return StepFunction(f.origin, f.unit, f.scale, f.offset, until)
    return MonotoneFunction(f.value_at, f.is_rising, until)


def clock_count(origin: int, unit: int, modulus: int | None, now: int, until: int) -> Any:
    """Return the function ``(t - origin) // unit``, modulo ``modulus`` if given, valid until ``until``."""
    count = (now - origin) // unit
    offset = 0
    if modulus is not None:
        offset = count % modulus - count
        until = min(until, origin + (modulus - offset) * unit)
    if max(abs(count), abs((until - 1 - origin) // unit)) > _MAX_STEPS:
        return ConstantUntil(wrap64(count + offset), min(until, origin + (count + 1) * unit))
    return StepFunction(origin, unit, 1, offset, until)


def checked_steps(origin: int, unit: int, scale: int, offset: int, until: int) -> StepFunction | None:
    """Return a step function, or None if it may overflow 64 bits."""
    if -_MAX_SCALE < scale < _MAX_SCALE and -_MAX_OFFSET < offset < _MAX_OFFSET:
        return StepFunction(origin, unit, scale, offset, until)
    return None


def as_monotone(
    at: Callable[[int], Any], rising: bool, now: int, until: int
) -> ConstantUntil | MonotoneFunction | None:
    """Return the result of an operation as a function, or None if the result is not always a number or may overflow."""
    if until - now <= 1:
        return ConstantUntil(at(now), until)
    start, end = at(now), at(until - 1)
    if type(start) is not type(end) or type(start) not in (int, float):
        return None
    if not (abs(start) < MAX_VALUE and abs(end) < MAX_VALUE):
        return None
    if (start > end) if rising else (start < end):
        return None
    return MonotoneFunction(at, rising, until)


def apply_monotone(compute: Callable[[Any], Any], f: Any, now: int, *, falling: bool = False) -> Any:
    """Apply a nondecreasing (with ``falling``, a nonincreasing) function of one number to a function of time."""
    if type(f) is ConstantUntil:
        return ConstantUntil(compute(f.value), f.until)
    result = as_monotone(lambda t: compute(f.value_at(t)), f.is_rising is not falling, now, f.until)
    return ConstantUntil(compute(f.value_at(now)), next_step(f, now)) if result is None else result
