"""Define the operators on values, with one function per operator, and tables of these functions.

The rules are HTCondor's (src/classad/operators.cpp, observed in 25.14); the manual describes only some. Unless noted,
operators are strict: if an operand is exceptional, they return the left error, else the right error, else undefined.
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


ORDER: dict[str, Operator] = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt,
}  # fmt: skip


def _comparison(op: str) -> Operator:
    """Return a function that compares two numbers or booleans, two strings without case, or two times of one type."""
    test = ORDER[op]

    def compare(a: Any, b: Any) -> Any:
        a_type, b_type = type(a), type(b)
        if a_type is int or a_type is float:
            if b_type is float and a_type is int:
                return test(float(a), b)
            if b_type is int and a_type is float:
                return test(a, float(b))
            if b_type is a_type:
                return test(a, b)
        if a_type is str and b_type is str:
            if a.isascii() and b.isascii():
                return test(a.lower(), b.lower())
            return test(compare_text(lower(a), lower(b)), 0)
        if a_type is Exceptional or b_type is Exceptional:
            return ERROR if a is ERROR or b is ERROR else UNDEFINED
        if a_type is bool:
            a, a_type = int(a), int
        if b_type is bool:
            b, b_type = int(b), int
        if (a_type is int or a_type is float) and (b_type is int or b_type is float):
            return compare(a, b)
        if (a_type is AbsTime and b_type is AbsTime) or (a_type is RelTime and b_type is RelTime):
            return test(a.seconds, b.seconds)
        return ERROR

    return compare


def identical(a: Any, b: Any) -> Any:
    """Evaluate ``is`` (``=?=``): same type and value, and same case of strings. Two lists or ads are an error."""
    a_type, b_type = type(a), type(b)
    if a_type is not b_type:
        return False
    if a_type is Exceptional:
        return a is b
    if a_type is ListValue:
        return ERROR if a.shared == b.shared else False
    if a_type in _PLAIN_TYPES:
        return a == b
    return ERROR


_PLAIN_TYPES = frozenset({int, float, str, bool, AbsTime, RelTime})


def not_identical(a: Any, b: Any) -> Any:
    """Evaluate ``isnt`` (``=!=``), the opposite of ``is``."""
    result = identical(a, b)
    return result if result is ERROR else not result


ARITHMETIC: dict[str, Operator] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _divide_integers(a: int, b: int) -> Any:
    if b == 0:
        return ERROR
    if a == INT_MIN and b == -1:
        return INT_MAX
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def divide_reals(a: float, b: float) -> float:
    """Divide by the rules of IEEE 754, also by zero."""
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _modulo_integers(a: int, b: int) -> Any:
    if b == 0:
        return ERROR
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def _operate_on_times(op: str, a: Any, b: Any) -> Any:
    """Calculate with times: time ± duration, time - time, duration ± duration, duration * number, duration / number."""
    a_type, b_type = type(a), type(b)
    if op in "+-":
        if a_type is AbsTime and b_type is RelTime:
            step = truncate32(b.seconds)
            return AbsTime(a.seconds + (step if op == "+" else -step), a.offset)
        if a_type is RelTime and b_type is AbsTime and op == "+":
            return AbsTime(b.seconds + truncate32(a.seconds), b.offset)
        if a_type is RelTime and b_type is RelTime:
            return RelTime(a.seconds + b.seconds if op == "+" else a.seconds - b.seconds)
        if a_type is AbsTime and b_type is AbsTime and op == "-":
            return RelTime(a.seconds - b.seconds)
    if op in "*/" and a_type is RelTime and (b_type is int or b_type is float):
        return RelTime(a.seconds * b if op == "*" else divide_reals(a.seconds, float(b)))
    if op == "*" and (a_type is int or a_type is float) and b_type is RelTime:
        return RelTime(a * b.seconds)
    return ERROR


def _arithmetic(op: str, integers: Operator, reals: Operator) -> Operator:
    def compute(a: Any, b: Any) -> Any:
        a_type, b_type = type(a), type(b)
        if a_type is int and b_type is int:
            result = integers(a, b)
            if result is ERROR or INT_MIN <= result <= INT_MAX:
                return result
            return wrap64(result)
        if a_type is float and b_type is float:
            result = reals(a, b)
            return ERROR if result == math.inf else result  # in HTCondor, only positive infinity is an error
        if a_type is Exceptional or b_type is Exceptional:
            return ERROR if a is ERROR or b is ERROR else UNDEFINED
        if (a_type is int or a_type is float or a_type is bool) and (
            b_type is int or b_type is float or b_type is bool
        ):
            if a_type is float or b_type is float:
                return compute(float(a), float(b))
            return compute(int(a), int(b))
        if a_type is AbsTime or a_type is RelTime or b_type is AbsTime or b_type is RelTime:
            return _operate_on_times(op, a, b)
        return ERROR

    return compute


def unary_minus(a: Any) -> Any:
    kind = type(a)
    if kind is int:
        return wrap64(-a)
    if kind is float:
        return -a
    if kind is RelTime:
        return RelTime(-a.seconds)
    return a if kind is Exceptional else ERROR


def _bitwise(compute: Callable[[int, int], int]) -> Operator:
    def operate(a: Any, b: Any) -> Any:
        if type(a) is int and type(b) is int:
            return wrap64(compute(a, b))
        if type(a) is Exceptional or type(b) is Exceptional:
            return ERROR if a is ERROR or b is ERROR else UNDEFINED
        return ERROR

    return operate


def _shift_right(a: int, count: int) -> int:
    if a >= 0:
        return a >> (count & 63)
    return a >> min(count, 64) if count > 0 else a


def _shift_right_unsigned(a: int, count: int) -> int:
    if a >= 0:
        return a >> (count & 63)
    return ((a >> 1) & INT_MAX) >> ((count - 1) & 63)


def bitwise_not(a: Any) -> Any:
    if type(a) is int:
        return ~a
    return a if type(a) is Exceptional else ERROR


def logical_not(a: Any) -> Any:
    if type(a) is Exceptional:
        return a
    condition = truth(a)
    return ERROR if condition is None else not condition


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
    "isnt": not_identical,
    **{op: _arithmetic(op, compute, compute) for op, compute in ARITHMETIC.items()},
    "/": _arithmetic("/", _divide_integers, divide_reals),
    "%": _arithmetic("%", _modulo_integers, lambda a, b: ERROR),
    "&": _bitwise(lambda a, b: a & b),
    "|": _bitwise(lambda a, b: a | b),
    "^": _bitwise(lambda a, b: a ^ b),
    "<<": _bitwise(lambda a, b: a << (b & 63)),
    ">>": _bitwise(_shift_right),
    ">>>": _bitwise(_shift_right_unsigned),
    "&&": lambda a, b: _connective(a, b, False),
    "||": lambda a, b: _connective(a, b, True),
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "+": lambda a: a if type(a) in (int, float, RelTime, Exceptional) else ERROR,
    "-": unary_minus,
    "!": logical_not,
    "~": bitwise_not,
}
