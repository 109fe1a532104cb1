"""Apply the ClassAd operators to functions of time: find when a comparison changes, and how a sum changes over time."""

from __future__ import annotations

import math
from typing import Any

from .operators import BINARY, UNARY
from .time_functions import (
    END,
    MAX_EXACT_INTEGER,
    MAX_VALUE,
    NUMBERS,
    TIME_FUNCTIONS,
    ConstantUntil,
    MonotoneFunction,
    StepFunction,
    apply_monotone,
    as_monotone,
    checked_steps,
    first_instant,
    hold_until_change,
    limit_validity,
    next_step,
    value_at,
)
from .values import ERROR, Exceptional


def to_condition(function: Any, now: int) -> Any:
    """Convert a number to its truth value as a condition; return any other value unchanged."""
    kind = type(function)
    return compare("!=", function, 0, now) if kind is StepFunction or kind is MonotoneFunction else function


def apply_unary(op: str, function: Any, now: int) -> Any:
    if op == "!":
        function = to_condition(function, now)
    if op == "+":
        return function
    if op == "-" and type(function) is StepFunction:
        return StepFunction(function.origin, function.unit, -function.scale, -function.offset, function.until)
    if op == "-" and type(function) is MonotoneFunction:
        return apply_monotone(UNARY[op], function, now, falling=True)
    function = hold_until_change(function, now)
    value = function.value if type(function) is ConstantUntil else function
    result = UNARY[op](value)
    return ConstantUntil(result, function.until) if type(function) is ConstantUntil else result


def combine(op: str, a: Any, b: Any, now: int) -> Any:
    """Apply a binary operator to two operands, of which at least one is a function of time."""
    until = END
    if type(a) is ConstantUntil:
        a, until = a.value, a.until
    if type(b) is ConstantUntil:
        b, until = b.value, min(until, b.until)
    is_moving = type(a) in TIME_FUNCTIONS, type(b) in TIME_FUNCTIONS
    if not any(is_moving):
        return ConstantUntil(BINARY[op](a, b), until)
    if op in _MIRRORED_OPERATORS:
        function = compare(op, a, b, now)
    elif op in _ARITHMETIC:
        function = _arithmetic(op, a, b, now)
    else:
        function = _hold_value(op, a, b, now)
    if until < END:
        function = limit_validity(function, until)
    return function


def _hold_value(op: str, a: Any, b: Any, now: int) -> ConstantUntil:
    """Return the current result as a function that is valid until an operand changes."""
    return ConstantUntil(BINARY[op](value_at(a, now), value_at(b, now)), min(next_step(a, now), next_step(b, now)))


def _difference(a: StepFunction, b: StepFunction) -> tuple[int, int] | None:
    """Return ``a - b`` as a scale and an offset for the steps of ``a``, or None if they step at different times."""
    if a.unit != b.unit or (a.origin - b.origin) % a.unit:
        return None
    return a.scale - b.scale, a.offset - b.offset - b.scale * ((a.origin - b.origin) // a.unit)


_MIRRORED_OPERATORS = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=", "is": "is", "isnt": "isnt"}
_EQUALITIES = frozenset({"==", "!=", "is", "isnt"})
# For each operator, the value, relative to c, at which a comparison of a rising or a falling line with c changes.
_CHANGE_POINTS: dict[str, tuple[int, int]] = {"<": (0, -1), ">=": (0, -1), "<=": (1, 0), ">": (1, 0)}


def compare(op: str, a: Any, b: Any, now: int) -> Any:
    """Compare two operands, at least one of which is a function of time."""
    if type(a) not in TIME_FUNCTIONS:
        op, a, b = _MIRRORED_OPERATORS[op], b, a
    kind = type(b)
    if kind in TIME_FUNCTIONS:
        return _compare_functions(op, a, b, now)
    value = BINARY[op](a.value_at(now), b)
    if kind not in NUMBERS or type(value) is not bool:
        return ConstantUntil(value, a.until)  # the result depends only on the types
    if type(a) is StepFunction:
        if kind is int:
            return ConstantUntil(value, _change_of_steps(op, a, b, now, value))
        if kind is float and op not in _EQUALITIES and abs(b) < MAX_EXACT_INTEGER and _is_exact(a, now):
            # A comparison with a real changes at the same instant as one with the next integer above or below it.
            bound = math.ceil(b) if op in ("<", ">=") else math.floor(b)
            return ConstantUntil(value, _change_of_steps(op, a, bound, now, value))
    if op in ("is", "isnt") and kind is not type(a.value_at(now)):
        return ConstantUntil(value, a.until)
    return ConstantUntil(value, _change_of_monotone(op, a, b, now, value))


def _is_exact(line: StepFunction, now: int) -> bool:
    return abs(line.value_at(now)) < MAX_EXACT_INTEGER and abs(line.value_at(line.until - 1)) < MAX_EXACT_INTEGER


def _change_of_steps(op: str, line: StepFunction, number: int, now: int, value: bool) -> int:
    """Return the instant until which the comparison of a line with an integer stays the same."""
    if op in _EQUALITIES:
        if value is (op == "==" or op == "is"):
            return next_step(line, now)
        change = line.instant_of_value(number)
        if change <= now or change >= line.until or line.value_at(change) != number:
            return line.until
        return change
    change = line.instant_of_value(number + _CHANGE_POINTS[op][0 if line.scale > 0 else 1])
    return change if now < change < line.until else line.until


def _change_of_monotone(op: str, function: Any, number: Any, now: int, value: bool) -> int:
    """Return the instant until which the comparison of a monotone function with a number stays the same."""
    compute, at = BINARY[op], function.value_at
    if op not in _EQUALITIES or value is (op == "==" or op == "is"):
        return first_instant(lambda t: compute(at(t), number) is not value, now, function.until)
    reaches = BINARY[">=" if function.is_rising else "<="]
    change = first_instant(lambda t: reaches(at(t), number), now, function.until)
    return change if change < function.until and compute(at(change), number) is not value else function.until


def _compare_functions(op: str, a: Any, b: Any, now: int) -> Any:
    until = min(a.until, b.until)
    if type(a) is StepFunction and type(b) is StepFunction:
        difference = _difference(a, b)
        if difference is not None:
            scale, offset = difference
            if scale == 0:
                return ConstantUntil(BINARY[op](offset, 0), until)
            return compare(op, StepFunction(a.origin, a.unit, scale, offset, until), 0, now)
    if a.is_rising is not b.is_rising and op not in _EQUALITIES:
        compute = BINARY[op]
        value = compute(a.value_at(now), b.value_at(now))
        change = first_instant(lambda t: compute(a.value_at(t), b.value_at(t)) is not value, now, until)
        return ConstantUntil(value, change)
    return _hold_value(op, a, b, now)


_ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})


def _arithmetic(op: str, a: Any, b: Any, now: int) -> Any:
    function = _step_result(op, a, b, now)
    if function is not None:
        return function
    is_moving = type(a) in TIME_FUNCTIONS, type(b) in TIME_FUNCTIONS
    if not all(is_moving):
        constant = b if is_moving[0] else a
        if type(constant) in (Exceptional, str):
            return ConstantUntil(BINARY[op](value_at(a, now), value_at(b, now)), (a if is_moving[0] else b).until)
        if type(constant) not in NUMBERS:
            return _hold_value(op, a, b, now)
    rising = _is_rising(op, a, b)
    if rising is None or (op == "*" and not _cannot_overflow(a, b, now)):
        return _hold_value(op, a, b, now)
    compute = BINARY[op]
    if all(is_moving):
        function = as_monotone(lambda t: compute(a.value_at(t), b.value_at(t)), rising, now, min(a.until, b.until))
    elif is_moving[0]:
        function = as_monotone(lambda t: compute(a.value_at(t), b), rising, now, a.until)
    else:
        function = as_monotone(lambda t: compute(a, b.value_at(t)), rising, now, b.until)
    return _hold_value(op, a, b, now) if function is None else function


def _step_result(op: str, a: Any, b: Any, now: int) -> Any:
    """Return the result of integer arithmetic if it is a step function or a constant, else None."""
    if type(a) is bool:
        a = int(a)
    if type(b) is bool:
        b = int(b)
    if type(a) is not StepFunction:
        if type(a) is not int or type(b) is not StepFunction or op not in ("+", "-", "*"):
            return None
        if op != "-":
            a, b = b, a
        else:
            return checked_steps(b.origin, b.unit, -b.scale, a - b.offset, b.until)
    if type(b) is int:
        if op == "+":
            return checked_steps(a.origin, a.unit, a.scale, a.offset + b, a.until)
        if op == "-":
            return checked_steps(a.origin, a.unit, a.scale, a.offset - b, a.until)
        if b == 0:
            return ConstantUntil(0 if op == "*" else ERROR, a.until)
        if op == "*":
            return checked_steps(a.origin, a.unit, a.scale * b, a.offset * b, a.until)
        return _remainder(a, b, now) if op == "%" and b > 0 else None
    if type(b) is StepFunction and op in ("+", "-"):
        if op == "+":
            b = StepFunction(b.origin, b.unit, -b.scale, -b.offset, b.until)
        difference = _difference(a, b)
        if difference is not None:
            scale, offset = difference
            until = min(a.until, b.until)
            return checked_steps(a.origin, a.unit, scale, offset, until) if scale else ConstantUntil(offset, until)
    return None


def _remainder(line: StepFunction, divisor: int, now: int) -> StepFunction | None:
    """Return ``line % divisor`` until the quotient changes; None for a negative ``line``, as C's remainder is then."""
    value = line.value_at(now)
    if value < 0:
        return None
    lowest = value - value % divisor
    change = line.instant_of_value(lowest + divisor if line.scale > 0 else lowest - 1)
    return StepFunction(line.origin, line.unit, line.scale, line.offset - lowest, min(change, line.until))


def _is_rising(op: str, a: Any, b: Any) -> bool | None:
    """Check whether the result of an operation rises; return None if it may both rise and fall."""
    directions = [function.is_rising if type(function) in TIME_FUNCTIONS else None for function in (a, b)]
    if op in ("+", "-"):
        if op == "-" and directions[1] is not None:
            directions[1] = not directions[1]
        distinct = {direction for direction in directions if direction is not None}
        return distinct.pop() if len(distinct) == 1 else None
    if op in ("*", "/"):
        direction, factor = (directions[0], b) if directions[0] is not None else (directions[1], a)
        if (op == "/" and directions[0] is None) or type(factor) in TIME_FUNCTIONS or not (factor < 0 or factor > 0):
            return None
        return direction is (factor > 0)
    return None


def _cannot_overflow(a: Any, b: Any, now: int) -> bool:
    """Check whether a function times a constant cannot overflow 64 bits."""
    function, factor = (a, b) if type(a) in TIME_FUNCTIONS else (b, a)
    return all(abs(float(function.value_at(t)) * factor) < MAX_VALUE for t in (now, function.until - 1))
