"""Compile binary operators with the rules of ``operators`` and fast paths for common types."""

from __future__ import annotations

import math
from typing import Any

from .ad import ClassAd
from .environment import Environment, Evaluator
from .operators import ARITHMETIC, BINARY, ORDER, UNARY
from .tree import Binary, Literal, Parentheses, Unary
from .values import ERROR, INT_MAX, INT_MIN, UNDEFINED, Exceptional, lower, truth, wrap64

NOT_CONSTANT = object()
_ARITHMETIC_OPS = frozenset({"+", "-", "*", "/", "%"})


def constant_value(node: Any, levels: int = 20) -> Any:
    """Return the value of a literal or of arithmetic on literals (``15 * 60``); ``NOT_CONSTANT`` for any other node."""
    kind = type(node)
    if kind is Literal:
        return node.value
    if levels == 0:
        return NOT_CONSTANT
    if kind is Parentheses:
        return constant_value(node.inner, levels - 1)
    if kind is Unary:
        value = constant_value(node.operand, levels - 1)
        return value if value is NOT_CONSTANT else UNARY[node.op](value)
    if kind is Binary and node.op in _ARITHMETIC_OPS:
        right = constant_value(node.right, levels - 1)
        left = NOT_CONSTANT if right is NOT_CONSTANT else constant_value(node.left, levels - 1)
        return NOT_CONSTANT if left is NOT_CONSTANT else BINARY[node.op](left, right)
    return NOT_CONSTANT


def compile_operation(op: str, parts: list[Evaluator], constant: Any) -> Evaluator:
    """Return the evaluator of a binary operator other than the subscript.

    :param parts: the evaluators of the operands (``a && b && c`` has three)
    :param constant: the value of the right operand if it is known, else ``NOT_CONSTANT``
    """
    if op == "&&" or op == "||":
        return _connective(tuple(parts), op == "||")
    left, right = parts
    if op == "?:":
        return _elvis(left, right)
    compute = BINARY[op]
    if constant is not NOT_CONSTANT:
        return _operation_on_constant(op, left, constant)
    if op in ARITHMETIC:
        return _arithmetic(op, left, right)
    return lambda env, ad: compute(left(env, ad), right(env, ad))


def _operation_on_constant(op: str, left: Evaluator, constant: Any) -> Evaluator:
    compute = BINARY[op]
    kind = type(constant)
    if op in ORDER and (kind is int or kind is float):
        test = ORDER[op]

        def with_number(env: Environment, ad: ClassAd | None) -> Any:
            value = left(env, ad)
            return test(value, constant) if type(value) is kind else compute(value, constant)

        return with_number
    if op in ("==", "!=") and isinstance(constant, str) and constant.isascii():
        text: str = constant
        lowercase = lower(text)
        expects_equal = op == "=="

        def with_string(env: Environment, ad: ClassAd | None) -> Any:
            value = left(env, ad)
            if type(value) is str:
                return (value == text or lower(value) == lowercase) is expects_equal
            return compute(value, constant)

        return with_string
    if kind is Exceptional and (op == "is" or op == "isnt"):
        is_expected = op == "is"
        return lambda env, ad: (left(env, ad) is constant) is is_expected
    return lambda env, ad: compute(left(env, ad), constant)


def _arithmetic(op: str, left: Evaluator, right: Evaluator) -> Evaluator:
    compute, compute_fast = BINARY[op], ARITHMETIC[op]

    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        a, b = left(env, ad), right(env, ad)
        kind = type(a)
        if kind is type(b):
            if kind is int:
                result = compute_fast(a, b)
                return result if INT_MIN <= result <= INT_MAX else wrap64(result)
            if kind is float:
                result = compute_fast(a, b)
                return ERROR if result == math.inf else result
        return compute(a, b)

    return evaluate_node


def _connective(parts: tuple[Evaluator, ...], decisive: bool) -> Evaluator:
    """Compile ``a && b && ...`` (false is decisive) or ``a || b || ...`` (true is decisive), from left to right."""
    neutral = not decisive

    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        result: Any = neutral
        for part in parts:
            value = part(env, ad)
            if value is neutral:
                continue
            if value is decisive:
                return decisive
            if value is UNDEFINED:
                result = UNDEFINED
                continue
            condition = truth(value)
            if condition is None:
                return ERROR
            if condition is decisive:
                return decisive
        return result

    return evaluate_node


def _elvis(left: Evaluator, right: Evaluator) -> Evaluator:
    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        value = left(env, ad)
        return right(env, ad) if value is UNDEFINED else value

    return evaluate_node
