"""Apply the operators to values: one function each, and tables to find them.

The rules are HTCondor's (src/classad/operators.cpp as observed in 25.14), of which the manual tells a part. Operators
are strict unless they say otherwise: an error on the left wins, then one on the right, then undefined.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .tree import ListValue
from .values import (
    ERROR,
    INT_MAX,
    INT_MIN,
    UNDEFINED,
    AbsTime,
    Exceptional,
    RelTime,
    compare_text,
    lower,
    truncate32,
    truth,
    wrap64,
)

Operator = Callable[[Any, Any], Any]


# -- comparisons -------------------------------------------------------------------------------------------------------

ORDER: dict[str, Operator] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


def _comparison(op: str) -> Operator:
    """Compare numbers (booleans are 0 and 1), strings without case, or times of one type; all else is an error."""
    test = ORDER[op]

    def compare(a: Any, b: Any) -> Any:
        ka, kb = type(a), type(b)
        if ka is int or ka is float:
            if kb is float and ka is int:
                return test(float(a), b)
            if kb is int and ka is float:
                return test(a, float(b))
            if kb is ka:
                return test(a, b)
        if ka is str and kb is str:
            if a.isascii() and b.isascii():
                return test(a.lower(), b.lower())
            return test(compare_text(lower(a), lower(b)), 0)
        if ka is Exceptional or kb is Exceptional:
            return ERROR if a is ERROR or b is ERROR else UNDEFINED
        if ka is bool:
            a, ka = int(a), int
        if kb is bool:
            b, kb = int(b), int
        if (ka is int or ka is float) and (kb is int or kb is float):
            return compare(a, b)
        if (ka is AbsTime and kb is AbsTime) or (ka is RelTime and kb is RelTime):
            return test(a.seconds, b.seconds)
        return ERROR

    return compare


def identical(a: Any, b: Any) -> Any:
    """Evaluate ``is``, ``=?=``: same type and value, strings with case. Two lists or two ads are an error."""
    ka, kb = type(a), type(b)
    if ka is not kb:
        return False
    if ka is Exceptional:
        return a is b
    if ka is ListValue:
        return ERROR if a.shared == b.shared else False
    if ka in _PLAIN_KINDS:
        return a == b
    return ERROR


_PLAIN_KINDS = frozenset({int, float, str, bool, AbsTime, RelTime})


def different(a: Any, b: Any) -> Any:
    """Evaluate ``isnt``, ``=!=``: the opposite of ``is``."""
    same = identical(a, b)
    return same if same is ERROR else not same


# -- arithmetic --------------------------------------------------------------------------------------------------------


ARITHMETIC: dict[str, Operator] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _real(number: float) -> Any:
    # HTCondor makes positive infinity an error, and negative infinity not.
    return ERROR if number == math.inf else number


def _divide_integers(a: int, b: int) -> Any:
    if b == 0:
        return ERROR
    if a == INT_MIN and b == -1:
        return INT_MAX
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def divide_reals(a: float, b: float) -> float:
    """Divide as IEEE 754 does, by zero too."""
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _modulo_integers(a: int, b: int) -> Any:
    if b == 0:
        return ERROR
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _times_only(op: str, a: Any, b: Any) -> Any:
    """Compute with times: point ± length, point - point, length ± length, length times or by a number."""
    ka, kb = type(a), type(b)
    if op in "+-":
        if ka is AbsTime and kb is RelTime:
            step = truncate32(b.seconds)
            return AbsTime(a.seconds + (step if op == "+" else -step), a.offset)
        if ka is RelTime and kb is AbsTime and op == "+":
            return AbsTime(b.seconds + truncate32(a.seconds), b.offset)
        if ka is RelTime and kb is RelTime:
            return RelTime(a.seconds + b.seconds if op == "+" else a.seconds - b.seconds)
        if ka is AbsTime and kb is AbsTime and op == "-":
            return RelTime(a.seconds - b.seconds)
    if op in "*/" and ka is RelTime and (kb is int or kb is float):
        return RelTime(a.seconds * b if op == "*" else divide_reals(a.seconds, float(b)))
    if op == "*" and (ka is int or ka is float) and kb is RelTime:
        return RelTime(a * b.seconds)
    return ERROR


def _arithmetic(op: str, integers: Operator, reals: Operator) -> Operator:
    def compute(a: Any, b: Any) -> Any:
        ka, kb = type(a), type(b)
        if ka is int and kb is int:
            result = integers(a, b)
            if result is ERROR or INT_MIN <= result <= INT_MAX:
                return result
            return wrap64(result)
        if ka is float and kb is float:
            return _real(reals(a, b))
        if ka is Exceptional or kb is Exceptional:
            return ERROR if a is ERROR or b is ERROR else UNDEFINED
        if (ka is int or ka is float or ka is bool) and (kb is int or kb is float or kb is bool):
            if ka is float or kb is float:
                return compute(float(a), float(b))
            return compute(int(a), int(b))
        if ka is AbsTime or ka is RelTime or kb is AbsTime or kb is RelTime:
            return _times_only(op, a, b)
        return ERROR

    return compute


def negative(a: Any) -> Any:
    kind = type(a)
    if kind is int:
        return wrap64(-a)
    if kind is float:
        return -a
    if kind is RelTime:
        return RelTime(-a.seconds)
    return a if kind is Exceptional else ERROR


def positive(a: Any) -> Any:
    return a if type(a) in (int, float, RelTime, Exceptional) else ERROR


# -- bits --------------------------------------------------------------------------------------------------------------


def _bitwise(compute: Callable[[int, int], int]) -> Operator:
    """Accept integers only; not even booleans."""

    def operate(a: Any, b: Any) -> Any:
        if type(a) is int and type(b) is int:
            return wrap64(compute(a, b))
        if type(a) is Exceptional or type(b) is Exceptional:
            return ERROR if a is ERROR or b is ERROR else UNDEFINED
        return ERROR

    return operate


def _shift_right(a: int, by: int) -> int:
    if a >= 0:
        return a >> (by & 63)
    return a >> min(by, 64) if by > 0 else a


def _shift_right_unsigned(a: int, by: int) -> int:
    if a >= 0:
        return a >> (by & 63)
    return ((a >> 1) & INT_MAX) >> ((by - 1) & 63)


def invert(a: Any) -> Any:
    if type(a) is int:
        return ~a
    return a if type(a) is Exceptional else ERROR


# -- logic -------------------------------------------------------------------------------------------------------------


def negation(a: Any) -> Any:
    if type(a) is Exceptional:
        return a
    condition = truth(a)
    return ERROR if condition is None else not condition


def both(a: Any, b: Any) -> Any:
    """Evaluate ``&&`` of two values. Not symmetric: an error on the left always wins, one on the right does not."""
    return _connective(a, b, False)


def either(a: Any, b: Any) -> Any:
    """Evaluate ``||`` of two values; like ``&&``, with true and false exchanged."""
    return _connective(a, b, True)


def _connective(a: Any, b: Any, decisive: bool) -> Any:
    if a is ERROR:
        return ERROR
    left = UNDEFINED if a is UNDEFINED else truth(a)
    if left is decisive:
        return decisive
    if left is None:
        return ERROR
    right = b if type(b) is Exceptional else truth(b)
    if right is None:
        return ERROR
    if left is UNDEFINED and type(right) is bool and right is not decisive:
        return UNDEFINED
    return right


BINARY: dict[str, Operator] = {
    **{op: _comparison(op) for op in ORDER},
    "is": identical,
    "isnt": different,
    **{op: _arithmetic(op, compute, compute) for op, compute in ARITHMETIC.items()},
    "/": _arithmetic("/", _divide_integers, divide_reals),
    "%": _arithmetic("%", _modulo_integers, lambda a, b: ERROR),
    "&": _bitwise(lambda a, b: a & b),
    "|": _bitwise(lambda a, b: a | b),
    "^": _bitwise(lambda a, b: a ^ b),
    "<<": _bitwise(lambda a, b: a << (b & 63)),
    ">>": _bitwise(_shift_right),
    ">>>": _bitwise(_shift_right_unsigned),
    "&&": both,
    "||": either,
}
UNARY: dict[str, Callable[[Any], Any]] = {"+": positive, "-": negative, "!": negation, "~": invert}
