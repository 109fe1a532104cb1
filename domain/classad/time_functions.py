"""Courses: how the value of an expression goes on in time, from an instant ``now`` on.

What the time does not touch is a plain value. Everything else is one of three shapes, each good for ``now <= t <
until``, in whole seconds; what comes after, nobody has looked at yet:

=======  ======================================================================================================
Held     one value
Line     ``scale * ((t - origin) // unit) + offset``, an integer: the clock, and what was added to it or taken off
Curve    a number ``at(t)`` that never falls, or never rises; its type stays the same
=======  ======================================================================================================

An operation on courses yields a course that has the operation's value at *every* instant for which it is good. Where no
shape fits, the value of now is held until one of the operands moves. When a comparison turns is computed for a line,
and for a curve found by bisection, with the operators of the language itself: what a real rounds to is the same here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .operators import BINARY, UNARY
from .values import ERROR, Exceptional, wrap64

# The year 10000. No instant from here on is told apart, and all before it are small enough to compute with.
END = 253_402_300_800
# A line within these bounds stays far from where 64 bits wrap, until END.
_MOST_OFFSET = 1 << 60
_MOST_SCALE = 1 << 18
_MOST_STEPS = 1 << 43
_MOST_VALUE = 1 << 62
# Integers up to here are real numbers too.
_EXACT = 1 << 53


class Held:
    """A value that stays until an instant."""

    __slots__ = ("until", "value")

    def __init__(self, value: Any, until: int) -> None:
        self.value = value
        self.until = until


class Line:
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
        """Whether it goes up."""
        return self.scale > 0

    def at(self, t: int) -> int:
        """The value at an instant."""
        return self.scale * ((t - self.origin) // self.unit) + self.offset

    def reaches(self, value: int) -> int:
        """The instant from which on a value is reached or passed, be it long ago."""
        way = value - self.offset if self.scale > 0 else self.offset - value
        return self.origin - (-way // abs(self.scale)) * self.unit


class Curve:
    """A number that goes one way only."""

    __slots__ = ("at", "rising", "until")

    def __init__(self, at: Callable[[int], Any], rising: bool, until: int) -> None:
        self.at = at
        self.rising = rising
        self.until = until


COURSES = frozenset({Held, Line, Curve})
_NUMBERS = frozenset({int, float, bool})


class Moving:
    """An attribute whose value moves by the clock of itself: ``(t - origin) // unit``, modulo ``modulus`` if given.

    So ClockMin is ``Moving(origin=<the last midnight>, unit=60, until=<the next midnight>)``.

    :param origin: where the count is zero, in seconds since the epoch
    :param unit: the seconds from one step to the next
    :param until: the instant from which on the value is not known; None: it goes on like this
    """

    # Not of attrs: a command that only asks for ads need not import that.
    __slots__ = ("modulus", "origin", "unit", "until")

    def __init__(self, origin: int, unit: int = 1, until: int | None = None, modulus: int | None = None) -> None:
        for name, number in (("unit", unit), ("modulus", modulus)):
            if number is not None and number < 1:
                raise ValueError(f"the {name} of a moving attribute is 1 or more, not {number}")
        self.origin, self.unit, self.until, self.modulus = origin, unit, until, modulus

    def at(self, t: int) -> int:
        """The value at an instant."""
        count = (t - self.origin) // self.unit
        return count if self.modulus is None else count % self.modulus

    def course(self, now: int) -> Any:
        """Its course from an instant on; None where it is not known then."""
        until = END if self.until is None else min(self.until, END)
        return counted(self.origin, self.unit, self.modulus, now, until) if now < until else None


# -- one course --------------------------------------------------------------------------------------------------------


def value_at(course: Any, now: int) -> Any:
    """The value at an instant for which the course is good."""
    kind = type(course)
    if kind is Held:
        return course.value
    return course.at(now) if kind is Line or kind is Curve else course


def same(a: Any, b: Any) -> bool:
    """Whether two values are the same in all that an expression could tell: by type, a real zero by its sign too."""
    if type(a) is not type(b) or type(a) is Exceptional:
        return a is b
    if type(a) is float and a == 0.0 == b:
        return math.copysign(1.0, a) == math.copysign(1.0, b)
    return bool(a == b)


def next_step(course: Any, now: int) -> int:
    """The first instant after now at which the value may be another one; ``END`` where there is none."""
    kind = type(course)
    if kind is Held:
        return course.until  # type: ignore[no-any-return]
    if kind is Line:
        step = course.origin + ((now - course.origin) // course.unit + 1) * course.unit
        return step if step < course.until else course.until  # type: ignore[no-any-return]
    if kind is Curve:
        value = course.at(now)
        return first(lambda t: not same(course.at(t), value), now, course.until)
    return END


def first(holds: Callable[[int], bool], now: int, until: int) -> int:
    """The first instant after now at which a condition holds that, once true, stays true; ``until`` if none before."""
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


def held(course: Any, now: int) -> Any:
    """The value of now, until the course moves."""
    kind = type(course)
    return Held(course.at(now), next_step(course, now)) if kind is Line or kind is Curve else course


def condition(course: Any, now: int) -> Any:
    """A course where a condition is wanted: what a number stands for. All others stay what they are."""
    kind = type(course)
    return compared("!=", course, 0, now) if kind is Line or kind is Curve else course


# -- two courses -------------------------------------------------------------------------------------------------------


def combined(op: str, a: Any, b: Any, now: int) -> Any:
    """The course of ``a op b``, at least one of the two being a course (any binary operator that takes values)."""
    until = END
    if type(a) is Held:
        a, until = a.value, a.until
    if type(b) is Held:
        b, until = b.value, min(until, b.until)
    moves = type(a) in COURSES, type(b) in COURSES
    if not any(moves):
        return Held(BINARY[op](a, b), until)
    if op in _MIRRORED:
        course = compared(op, a, b, now)
    elif op in _ARITHMETIC:
        course = _computed(op, a, b, now)
    else:
        course = _frozen(op, a, b, now)
    if until < END:
        course = limited(course, until)
    return course


def limited(course: Any, until: int) -> Any:
    """A course that is not good for longer than until an instant."""
    kind = type(course)
    if kind not in COURSES:
        return Held(course, until)
    until = min(course.until, until)
    if kind is Held:
        return Held(course.value, until)
    if kind is Line:
        return Line(course.origin, course.unit, course.scale, course.offset, until)
    return Curve(course.at, course.rising, until)


def _frozen(op: str, a: Any, b: Any, now: int) -> Held:
    """The value of now, until one of the operands moves."""
    return Held(BINARY[op](value_at(a, now), value_at(b, now)), min(next_step(a, now), next_step(b, now)))


def _difference(a: Line, b: Line) -> tuple[int, int] | None:
    """``a - b`` as a scale and an offset on the steps of ``a``; None where the two do not step together."""
    if a.unit != b.unit or (a.origin - b.origin) % a.unit:
        return None
    return a.scale - b.scale, a.offset - b.offset - b.scale * ((a.origin - b.origin) // a.unit)


# -- comparisons -------------------------------------------------------------------------------------------------------

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=", "is": "is", "isnt": "isnt"}
_EQUALITIES = frozenset({"==", "!=", "is", "isnt"})
# The value that a rising, a falling line must reach for an order against c to turn, as c and this.
_TURNS: dict[str, tuple[int, int]] = {"<": (0, -1), ">=": (0, -1), "<=": (1, 0), ">": (1, 0)}


def compared(op: str, a: Any, b: Any, now: int) -> Any:
    """The course of a comparison of which at least one side is a line or a curve."""
    if type(a) not in COURSES:
        op, a, b = _MIRRORED[op], b, a
    kind = type(b)
    if kind in COURSES:
        return _compared_courses(op, a, b, now)
    value = BINARY[op](a.at(now), b)
    if kind not in _NUMBERS or type(value) is not bool:
        return Held(value, a.until)  # by the types alone
    if type(a) is Line:
        if kind is int:
            return Held(value, _turn_of_line(op, a, b, now, value))
        if kind is float and op not in _EQUALITIES and abs(b) < _EXACT and _exact(a, now):
            # Between two integers an order turns where it does at the one above, or below.
            bound = math.ceil(b) if op in ("<", ">=") else math.floor(b)
            return Held(value, _turn_of_line(op, a, bound, now, value))
    if op in ("is", "isnt") and kind is not type(a.at(now)):
        return Held(value, a.until)
    return Held(value, _turn(op, a, b, now, value))


def _exact(line: Line, now: int) -> bool:
    return abs(line.at(now)) < _EXACT and abs(line.at(line.until - 1)) < _EXACT


def _turn_of_line(op: str, line: Line, number: int, now: int, value: bool) -> int:
    """The instant until which a line's comparison with an integer stays as it is."""
    if op in _EQUALITIES:
        if value is (op == "==" or op == "is"):
            return next_step(line, now)
        turn = line.reaches(number)
        if turn <= now or turn >= line.until or line.at(turn) != number:
            return line.until
        return turn
    turn = line.reaches(number + _TURNS[op][0 if line.scale > 0 else 1])
    return turn if now < turn < line.until else line.until


def _turn(op: str, course: Any, number: Any, now: int, value: bool) -> int:
    """The same of any course that goes one way, and any number."""
    compute, at = BINARY[op], course.at
    if op not in _EQUALITIES or value is (op == "==" or op == "is"):
        return first(lambda t: compute(at(t), number) is not value, now, course.until)
    there = BINARY[">=" if course.rising else "<="]
    turn = first(lambda t: there(at(t), number), now, course.until)
    return turn if turn < course.until and compute(at(turn), number) is not value else course.until


def _compared_courses(op: str, a: Any, b: Any, now: int) -> Any:
    until = min(a.until, b.until)
    if type(a) is Line and type(b) is Line:
        between = _difference(a, b)
        if between is not None:
            scale, offset = between
            if scale == 0:
                return Held(BINARY[op](offset, 0), until)
            return compared(op, Line(a.origin, a.unit, scale, offset, until), 0, now)
    if a.rising is not b.rising and op not in _EQUALITIES:
        compute = BINARY[op]
        value = compute(a.at(now), b.at(now))
        return Held(value, first(lambda t: compute(a.at(t), b.at(t)) is not value, now, until))
    return _frozen(op, a, b, now)


# -- arithmetic --------------------------------------------------------------------------------------------------------

_ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})


def _computed(op: str, a: Any, b: Any, now: int) -> Any:
    """The course of an arithmetic operation of which at least one side is a line or a curve."""
    course = _line(op, a, b, now)
    if course is not None:
        return course
    moves = type(a) in COURSES, type(b) in COURSES
    if not all(moves):
        constant = b if moves[0] else a
        if type(constant) in (Exceptional, str):
            return Held(BINARY[op](value_at(a, now), value_at(b, now)), (a if moves[0] else b).until)
        if type(constant) not in _NUMBERS:
            return _frozen(op, a, b, now)
    rising = _direction(op, a, b)
    if rising is None or (op == "*" and not _small_product(a, b, now)):
        return _frozen(op, a, b, now)
    compute = BINARY[op]
    if all(moves):
        course = curve(lambda t: compute(a.at(t), b.at(t)), rising, now, min(a.until, b.until))
    elif moves[0]:
        course = curve(lambda t: compute(a.at(t), b), rising, now, a.until)
    else:
        course = curve(lambda t: compute(a, b.at(t)), rising, now, b.until)
    return _frozen(op, a, b, now) if course is None else course


def _line(op: str, a: Any, b: Any, now: int) -> Any:
    """The course of integer arithmetic that yields a line, or, of two lines that go side by side, a constant."""
    if type(a) is bool:
        a = int(a)
    if type(b) is bool:
        b = int(b)
    if type(a) is not Line:
        if type(a) is not int or type(b) is not Line or op not in ("+", "-", "*"):
            return None
        if op != "-":
            a, b = b, a
        else:
            return tame(b.origin, b.unit, -b.scale, a - b.offset, b.until)
    if type(b) is int:
        if op == "+":
            return tame(a.origin, a.unit, a.scale, a.offset + b, a.until)
        if op == "-":
            return tame(a.origin, a.unit, a.scale, a.offset - b, a.until)
        if b == 0:
            return Held(0 if op == "*" else ERROR, a.until)
        if op == "*":
            return tame(a.origin, a.unit, a.scale * b, a.offset * b, a.until)
        return _remainder(a, b, now) if op == "%" and b > 0 else None
    if type(b) is Line and op in ("+", "-"):
        if op == "+":
            b = Line(b.origin, b.unit, -b.scale, -b.offset, b.until)
        between = _difference(a, b)
        if between is not None:
            scale, offset = between
            until = min(a.until, b.until)
            return tame(a.origin, a.unit, scale, offset, until) if scale else Held(offset, until)
    return None


def counted(origin: int, unit: int, modulus: int | None, now: int, until: int) -> Any:
    """The course of ``(t - origin) // unit``, modulo ``modulus`` where there is one.

    :param until: the instant until which it is known; it must be later than now
    """
    count = (now - origin) // unit
    offset = 0
    if modulus is not None:
        offset = count % modulus - count
        until = min(until, origin + (modulus - offset) * unit)
    if max(abs(count), abs((until - 1 - origin) // unit)) > _MOST_STEPS:
        return Held(wrap64(count + offset), min(until, origin + (count + 1) * unit))
    return Line(origin, unit, 1, offset, until)


def tame(origin: int, unit: int, scale: int, offset: int, until: int) -> Line | None:
    """A line, if it stays far from where 64 bits wrap."""
    if -_MOST_SCALE < scale < _MOST_SCALE and -_MOST_OFFSET < offset < _MOST_OFFSET:
        return Line(origin, unit, scale, offset, until)
    return None


def _remainder(line: Line, divisor: int, now: int) -> Line | None:
    """``line % divisor``, until the quotient is another one; None below zero, where C's remainder is negative."""
    value = line.at(now)
    if value < 0:
        return None
    lowest = value - value % divisor
    turn = line.reaches(lowest + divisor if line.scale > 0 else lowest - 1)
    return Line(line.origin, line.unit, line.scale, line.offset - lowest, min(turn, line.until))


def _direction(op: str, a: Any, b: Any) -> bool | None:
    """Whether the result of an operation rises; None where it may go both ways."""
    ways = [course.rising if type(course) in COURSES else None for course in (a, b)]
    if op in ("+", "-"):
        if op == "-" and ways[1] is not None:
            ways[1] = not ways[1]
        known = {way for way in ways if way is not None}
        return known.pop() if len(known) == 1 else None
    if op in ("*", "/"):
        way, factor = (ways[0], b) if ways[0] is not None else (ways[1], a)
        if (op == "/" and ways[0] is None) or type(factor) in COURSES or not (factor < 0 or factor > 0):
            return None
        return way is (factor > 0)
    return None


def _small_product(a: Any, b: Any, now: int) -> bool:
    """Whether a course times a constant stays far from where 64 bits wrap."""
    course, factor = (a, b) if type(a) in COURSES else (b, a)
    return all(abs(float(course.at(t)) * factor) < _MOST_VALUE for t in (now, course.until - 1))


def curve(at: Callable[[int], Any], rising: bool, now: int, until: int) -> Curve | Held | None:
    """The course of an operation that goes one way; None where it leaves the numbers or may wrap on the way."""
    if until - now <= 1:
        return Held(at(now), until)
    start, end = at(now), at(until - 1)
    if type(start) is not type(end) or type(start) not in (int, float):
        return None
    if not (abs(start) < _MOST_VALUE and abs(end) < _MOST_VALUE):
        return None
    if (start > end) if rising else (start < end):
        return None
    return Curve(at, rising, until)


def mapped(compute: Callable[[Any], Any], course: Any, now: int, *, falling: bool = False) -> Any:
    """The course of a function of one number that never falls (or, ``falling``, never rises)."""
    if type(course) is Held:
        return Held(compute(course.value), course.until)
    result = curve(lambda t: compute(course.at(t)), course.rising is not falling, now, course.until)
    return Held(compute(course.at(now)), next_step(course, now)) if result is None else result


def negated(op: str, course: Any, now: int) -> Any:
    """The course of a unary operator."""
    if op == "!":
        course = condition(course, now)
    if op == "+":
        return course
    if op == "-" and type(course) is Line:
        return Line(course.origin, course.unit, -course.scale, -course.offset, course.until)
    if op == "-" and type(course) is Curve:
        return mapped(UNARY[op], course, now, falling=True)
    course = held(course, now)
    return Held(UNARY[op](course.value), course.until) if type(course) is Held else UNARY[op](course)
