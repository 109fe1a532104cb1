"""Describe how the value of an expression changes from an instant ``now`` on.

A value that the time does not touch is a plain value. Everything else is one of three functions, each good for ``now <=
t < until``, in whole seconds; later values are not known yet:

================  ======================================================================================================
ConstantUntil     one value
StepFunction      ``scale * ((t - origin) // unit) + offset``, an integer: the clock, plus or minus something
MonotoneFunction  a number ``at(t)`` that never falls, or never rises; its type stays the same
================  ======================================================================================================

The result of an operation (``time_operators``) is exact at *every* instant for which it is good. Where none of the
three fits, it is the value of now until one of the operands changes. When a comparison turns is computed for steps, and
found by bisection for a monotone function, with the language's own operators, so that reals round alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .values import Exceptional, wrap64

# The year 10000: instants from here on are all alike, and all before it are small enough to compute with.
END = 253_402_300_800
# Steps within these bounds stay far from where 64 bits wrap, until END.
_MOST_OFFSET = 1 << 60
_MOST_SCALE = 1 << 18
_MAX_STEPS = 1 << 43
MOST_VALUE = 1 << 62
# Integers up to here are real numbers too.
EXACT = 1 << 53


class ConstantUntil:
    """A value that stays until an instant."""

    __slots__ = ("until", "value")

    def __init__(self, value: Any, until: int) -> None:
        self.value = value
        self.until = until


class StepFunction:
    """An integer that takes equal steps (``scale``, not 0) at equal distances (``unit`` seconds)."""

    __slots__ = ("offset", "origin", "scale", "unit", "until")

    def __init__(self, origin: int, unit: int, scale: int, offset: int, until: int) -> None:
        self.origin = origin
        self.unit = unit
        self.scale = scale
        self.offset = offset
        self.until = until

    @property
    def rising(self) -> bool:
        return self.scale > 0

    def at(self, t: int) -> int:
        return self.scale * ((t - self.origin) // self.unit) + self.offset

    def reaches(self, value: int) -> int:
        """Return the first instant, perhaps past, at which a value is reached or passed."""
        distance = value - self.offset if self.scale > 0 else self.offset - value
        return self.origin - (-distance // abs(self.scale)) * self.unit


class MonotoneFunction:
    """A number that only rises, or only falls."""

    __slots__ = ("at", "rising", "until")

    def __init__(self, at: Callable[[int], Any], rising: bool, until: int) -> None:
        # Sums of sums ask the same function for one instant again and again.
        self.at = lru_cache(maxsize=1)(at)
        self.rising = rising
        self.until = until


TIME_FUNCTIONS = frozenset({ConstantUntil, StepFunction, MonotoneFunction})
NUMBERS = frozenset({int, float, bool})


class Moving:
    """An attribute that moves by the clock alone: ``(t - origin) // unit``, modulo ``modulus`` if given.

    So ClockMin is ``Moving(origin=<the last midnight>, unit=60, until=<the next midnight>)``.

    :param origin: where the count is zero, in seconds since the epoch
    :param unit: the seconds from one step to the next
    :param until: the instant from which on the value is not known; None: it continues like this
    """

    # Not an attrs class: a command that only asks for ads need not import attrs.
    __slots__ = ("modulus", "origin", "unit", "until")

    def __init__(self, origin: int, unit: int = 1, until: int | None = None, modulus: int | None = None) -> None:
        for name, number in (("unit", unit), ("modulus", modulus)):
            if number is not None and number < 1:
                raise ValueError(f"the {name} of a moving attribute is 1 or more, not {number}")
        self.origin, self.unit, self.until, self.modulus = origin, unit, until, modulus

    def at(self, t: int) -> int:
        count = (t - self.origin) // self.unit
        return count if self.modulus is None else count % self.modulus

    def from_instant(self, now: int) -> Any:
        """Return its function of time from an instant on; None where it is not known then."""
        until = END if self.until is None else min(self.until, END)
        return counting(self.origin, self.unit, self.modulus, now, until) if now < until else None


# -- one function of time ----------------------------------------------------------------------------------------------


def value_at(f: Any, now: int) -> Any:
    """Return the value at an instant for which the function is good."""
    kind = type(f)
    if kind is ConstantUntil:
        return f.value
    return f.at(now) if kind is StepFunction or kind is MonotoneFunction else f


def is_identical(a: Any, b: Any) -> bool:
    """Return whether two values are the same to any expression: by type, a real zero by its sign too."""
    if type(a) is not type(b) or type(a) is Exceptional:
        return a is b
    if type(a) is float and a == 0.0 == b:
        return math.copysign(1.0, a) == math.copysign(1.0, b)
    return bool(a == b)


def next_step(f: Any, now: int) -> int:
    """Return the first instant after now at which the value may change; ``END`` where there is none."""
    kind = type(f)
    if kind is ConstantUntil:
        return f.until  # type: ignore[no-any-return]
    if kind is StepFunction:
        step = f.origin + ((now - f.origin) // f.unit + 1) * f.unit
        return step if step < f.until else f.until  # type: ignore[no-any-return]
    if kind is MonotoneFunction:
        value = f.at(now)
        return first_instant(lambda t: not is_identical(f.at(t), value), now, f.until)
    return END


def first_instant(holds: Callable[[int], bool], now: int, until: int) -> int:
    """Return the first instant after now at which a condition holds, then stays true; ``until`` if none before."""
    before, step = now, 1
    while True:
        after = before + step
        if after >= until:
            after = until
            break
        if holds(after):
            break
        before, step = after, 2 * step
    while after - before > 1:
        middle = (before + after) // 2
        if holds(middle):
            after = middle
        else:
            before = middle
    return after


def constant_now(f: Any, now: int) -> Any:
    """Hold the value of now until the function takes another one."""
    kind = type(f)
    return ConstantUntil(f.at(now), next_step(f, now)) if kind is StepFunction or kind is MonotoneFunction else f


def limited(f: Any, until: int) -> Any:
    """Return the function, good for no longer than until an instant."""
    kind = type(f)
    if kind not in TIME_FUNCTIONS:
        return ConstantUntil(f, until)
    until = min(f.until, until)
    if kind is ConstantUntil:
        return ConstantUntil(f.value, until)
    if kind is StepFunction:
        return StepFunction(f.origin, f.unit, f.scale, f.offset, until)
    return MonotoneFunction(f.at, f.rising, until)


def counting(origin: int, unit: int, modulus: int | None, now: int, until: int) -> Any:
    """Return ``(t - origin) // unit``, modulo ``modulus`` if given, known until an instant later than now."""
    count = (now - origin) // unit
    offset = 0
    if modulus is not None:
        offset = count % modulus - count
        until = min(until, origin + (modulus - offset) * unit)
    if max(abs(count), abs((until - 1 - origin) // unit)) > _MAX_STEPS:
        return ConstantUntil(wrap64(count + offset), min(until, origin + (count + 1) * unit))
    return StepFunction(origin, unit, 1, offset, until)


def steps(origin: int, unit: int, scale: int, offset: int, until: int) -> StepFunction | None:
    """Return a line, if it stays far from where 64 bits wrap."""
    if -_MOST_SCALE < scale < _MOST_SCALE and -_MOST_OFFSET < offset < _MOST_OFFSET:
        return StepFunction(origin, unit, scale, offset, until)
    return None


def monotone(at: Callable[[int], Any], rising: bool, now: int, until: int) -> MonotoneFunction | ConstantUntil | None:
    """Return an operation's result as a function; None where it leaves the numbers or may wrap on the way."""
    if until - now <= 1:
        return ConstantUntil(at(now), until)
    start, end = at(now), at(until - 1)
    if type(start) is not type(end) or type(start) not in (int, float):
        return None
    if not (abs(start) < MOST_VALUE and abs(end) < MOST_VALUE):
        return None
    if (start > end) if rising else (start < end):
        return None
    return MonotoneFunction(at, rising, until)


def mapped(compute: Callable[[Any], Any], f: Any, now: int, *, falling: bool = False) -> Any:
    """Apply a function of one number that never falls (or, ``falling``, never rises)."""
    if type(f) is ConstantUntil:
        return ConstantUntil(compute(f.value), f.until)
    result = monotone(lambda t: compute(f.at(t)), f.rising is not falling, now, f.until)
    return ConstantUntil(compute(f.at(now)), next_step(f, now)) if result is None else result
