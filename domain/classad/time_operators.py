"""Apply the language's operators to functions of time: when a comparison changes, how a sum continues."""

from __future__ import annotations

import math
from typing import Any

from .operators import BINARY, UNARY
from .time_functions import (
    END,
    EXACT,
    MOST_VALUE,
    NUMBERS,
    TIME_FUNCTIONS,
    ConstantUntil,
    MonotoneFunction,
    StepFunction,
    constant_now,
    first_instant,
    limited,
    mapped,
    monotone,
    next_step,
    steps,
    value_at,
)
from .values import ERROR, Exceptional


def condition(f: Any, now: int) -> Any:
    """Return a number as the truth value that it is in a condition; return all else unchanged."""
    kind = type(f)
    return compared("!=", f, 0, now) if kind is StepFunction or kind is MonotoneFunction else f


def negated(op: str, f: Any, now: int) -> Any:
    if op == "!":
        f = condition(f, now)
    if op == "+":
        return f
    if op == "-" and type(f) is StepFunction:
        return StepFunction(f.origin, f.unit, -f.scale, -f.offset, f.until)
    if op == "-" and type(f) is MonotoneFunction:
        return mapped(UNARY[op], f, now, falling=True)
    f = constant_now(f, now)
    return ConstantUntil(UNARY[op](f.value), f.until) if type(f) is ConstantUntil else UNARY[op](f)


# -- two operands -----------------------------------------------------------------------------------------------------


def combined(op: str, a: Any, b: Any, now: int) -> Any:
    """Apply a binary operator that takes values; at least one operand is a function of time."""
    until = END
    if type(a) is ConstantUntil:
        a, until = a.value, a.until
    if type(b) is ConstantUntil:
        b, until = b.value, min(until, b.until)
    moves = type(a) in TIME_FUNCTIONS, type(b) in TIME_FUNCTIONS
    if not any(moves):
        return ConstantUntil(BINARY[op](a, b), until)
    if op in _MIRRORED:
        f = compared(op, a, b, now)
    elif op in _ARITHMETIC:
        f = _arithmetic(op, a, b, now)
    else:
        f = _frozen(op, a, b, now)
    if until < END:
        f = limited(f, until)
    return f


def _frozen(op: str, a: Any, b: Any, now: int) -> ConstantUntil:
    """Return the value of now, until one of the operands moves."""
    return ConstantUntil(BINARY[op](value_at(a, now), value_at(b, now)), min(next_step(a, now), next_step(b, now)))


def _difference(a: StepFunction, b: StepFunction) -> tuple[int, int] | None:
    """Return ``a - b`` as a scale and an offset on the steps of ``a``; None where the two do not step together."""
    if a.unit != b.unit or (a.origin - b.origin) % a.unit:
        return None
    return a.scale - b.scale, a.offset - b.offset - b.scale * ((a.origin - b.origin) // a.unit)


# -- comparisons -------------------------------------------------------------------------------------------------------

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=", "is": "is", "isnt": "isnt"}
_EQUALITIES = frozenset({"==", "!=", "is", "isnt"})
# The values that a rising and a falling line must reach for an order against c to turn.
_TURNS: dict[str, tuple[int, int]] = {"<": (0, -1), ">=": (0, -1), "<=": (1, 0), ">": (1, 0)}


def compared(op: str, a: Any, b: Any, now: int) -> Any:
    """Compare two operands, of which at least one moves (is neither a value nor constant)."""
    if type(a) not in TIME_FUNCTIONS:
        op, a, b = _MIRRORED[op], b, a
    kind = type(b)
    if kind in TIME_FUNCTIONS:
        return _compared_functions(op, a, b, now)
    value = BINARY[op](a.at(now), b)
    if kind not in NUMBERS or type(value) is not bool:
        return ConstantUntil(value, a.until)  # decided by the types alone
    if type(a) is StepFunction:
        if kind is int:
            return ConstantUntil(value, _turn_of_steps(op, a, b, now, value))
        if kind is float and op not in _EQUALITIES and abs(b) < EXACT and _exact(a, now):
            # Between two integers an order turns as it does at the one above, or below.
            bound = math.ceil(b) if op in ("<", ">=") else math.floor(b)
            return ConstantUntil(value, _turn_of_steps(op, a, bound, now, value))
    if op in ("is", "isnt") and kind is not type(a.at(now)):
        return ConstantUntil(value, a.until)
    return ConstantUntil(value, _turn(op, a, b, now, value))


def _exact(line: StepFunction, now: int) -> bool:
    return abs(line.at(now)) < EXACT and abs(line.at(line.until - 1)) < EXACT


def _turn_of_steps(op: str, line: StepFunction, number: int, now: int, value: bool) -> int:
    """Return the instant until which a line's comparison with an integer stays the same."""
    if op in _EQUALITIES:
        if value is (op == "==" or op == "is"):
            return next_step(line, now)
        turn = line.reaches(number)
        if turn <= now or turn >= line.until or line.at(turn) != number:
            return line.until
        return turn
    turn = line.reaches(number + _TURNS[op][0 if line.scale > 0 else 1])
    return turn if now < turn < line.until else line.until


def _turn(op: str, f: Any, number: Any, now: int, value: bool) -> int:
    """Return the same for any monotone function, and any number."""
    compute, at = BINARY[op], f.at
    if op not in _EQUALITIES or value is (op == "==" or op == "is"):
        return first_instant(lambda t: compute(at(t), number) is not value, now, f.until)
    there = BINARY[">=" if f.rising else "<="]
    turn = first_instant(lambda t: there(at(t), number), now, f.until)
    return turn if turn < f.until and compute(at(turn), number) is not value else f.until


def _compared_functions(op: str, a: Any, b: Any, now: int) -> Any:
    until = min(a.until, b.until)
    if type(a) is StepFunction and type(b) is StepFunction:
        between = _difference(a, b)
        if between is not None:
            scale, offset = between
            if scale == 0:
                return ConstantUntil(BINARY[op](offset, 0), until)
            return compared(op, StepFunction(a.origin, a.unit, scale, offset, until), 0, now)
    if a.rising is not b.rising and op not in _EQUALITIES:
        compute = BINARY[op]
        value = compute(a.at(now), b.at(now))
        return ConstantUntil(value, first_instant(lambda t: compute(a.at(t), b.at(t)) is not value, now, until))
    return _frozen(op, a, b, now)


# -- arithmetic --------------------------------------------------------------------------------------------------------

_ARITHMETIC = frozenset({"+", "-", "*", "/", "%"})


def _arithmetic(op: str, a: Any, b: Any, now: int) -> Any:
    """Compute with two operands, of which at least one moves."""
    f = _steps(op, a, b, now)
    if f is not None:
        return f
    moves = type(a) in TIME_FUNCTIONS, type(b) in TIME_FUNCTIONS
    if not all(moves):
        constant = b if moves[0] else a
        if type(constant) in (Exceptional, str):
            return ConstantUntil(BINARY[op](value_at(a, now), value_at(b, now)), (a if moves[0] else b).until)
        if type(constant) not in NUMBERS:
            return _frozen(op, a, b, now)
    rising = _direction(op, a, b)
    if rising is None or (op == "*" and not _small_product(a, b, now)):
        return _frozen(op, a, b, now)
    compute = BINARY[op]
    if all(moves):
        f = monotone(lambda t: compute(a.at(t), b.at(t)), rising, now, min(a.until, b.until))
    elif moves[0]:
        f = monotone(lambda t: compute(a.at(t), b), rising, now, a.until)
    else:
        f = monotone(lambda t: compute(a, b.at(t)), rising, now, b.until)
    return _frozen(op, a, b, now) if f is None else f


def _steps(op: str, a: Any, b: Any, now: int) -> Any:
    """Compute with integers where the result is steps, or a constant of two that step side by side; else None."""
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
            return steps(b.origin, b.unit, -b.scale, a - b.offset, b.until)
    if type(b) is int:
        if op == "+":
            return steps(a.origin, a.unit, a.scale, a.offset + b, a.until)
        if op == "-":
            return steps(a.origin, a.unit, a.scale, a.offset - b, a.until)
        if b == 0:
            return ConstantUntil(0 if op == "*" else ERROR, a.until)
        if op == "*":
            return steps(a.origin, a.unit, a.scale * b, a.offset * b, a.until)
        return _remainder(a, b, now) if op == "%" and b > 0 else None
    if type(b) is StepFunction and op in ("+", "-"):
        if op == "+":
            b = StepFunction(b.origin, b.unit, -b.scale, -b.offset, b.until)
        between = _difference(a, b)
        if between is not None:
            scale, offset = between
            until = min(a.until, b.until)
            return steps(a.origin, a.unit, scale, offset, until) if scale else ConstantUntil(offset, until)
    return None


def _remainder(line: StepFunction, divisor: int, now: int) -> StepFunction | None:
    """Return ``line % divisor`` until the quotient changes; None below zero, where C's remainder is negative."""
    value = line.at(now)
    if value < 0:
        return None
    lowest = value - value % divisor
    turn = line.reaches(lowest + divisor if line.scale > 0 else lowest - 1)
    return StepFunction(line.origin, line.unit, line.scale, line.offset - lowest, min(turn, line.until))


def _direction(op: str, a: Any, b: Any) -> bool | None:
    """Return whether the result of an operation rises; None where it may go both ways."""
    ways = [f.rising if type(f) in TIME_FUNCTIONS else None for f in (a, b)]
    if op in ("+", "-"):
        if op == "-" and ways[1] is not None:
            ways[1] = not ways[1]
        known = {direction for direction in ways if direction is not None}
        return known.pop() if len(known) == 1 else None
    if op in ("*", "/"):
        direction, factor = (ways[0], b) if ways[0] is not None else (ways[1], a)
        if (op == "/" and ways[0] is None) or type(factor) in TIME_FUNCTIONS or not (factor < 0 or factor > 0):
            return None
        return direction is (factor > 0)
    return None


def _small_product(a: Any, b: Any, now: int) -> bool:
    """Return whether a function times a constant stays far from where 64 bits wrap."""
    f, factor = (a, b) if type(a) in TIME_FUNCTIONS else (b, a)
    return all(abs(float(f.at(t)) * factor) < MOST_VALUE for t in (now, f.until - 1))
