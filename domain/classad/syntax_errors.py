"""Find expressions that evaluate to error for all ads, by the types of their values.

A few sample values represent each type. An attribute may have any of them, and an operator any result for the samples
of its operands. A part that is an error for all samples is an error for all ads. The same holds for a call of an
unknown function, or a call with too few or too many arguments. Any other call, list or subscript may have any value.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from math import copysign
from typing import Any, Final

from ..suggestions import did_you_mean
from .function_registry import FUNCTIONS, UNLIMITED
from .operators import BINARY, UNARY
from .tree import Binary, Call, Conditional, Expression, Literal, Parentheses, Unary
from .values import ERROR, UNDEFINED, AbsTime, Exceptional, RelTime

Values = frozenset[int]
"""The sample values that a part may have, as indexes into ``_SAMPLES``."""

_SAMPLES: Final[tuple[Any, ...]] = (
    UNDEFINED, ERROR, True, False, 0, 1, -1, 0.0, -0.0, 1.0, -1.0, "", "a", AbsTime(1), RelTime(1.0),
)  # fmt: skip
_ALL_SAMPLES: Final[Values] = frozenset(range(len(_SAMPLES)))
TRUTH_OPERATORS: Final = frozenset({"&&", "||", "==", "!=", "<", "<=", ">", ">="})
_TRUTH_VALUES: Final[Values] = frozenset(range(4))
"""The results of these operators on unknown operands, which every submission needs; to compute them is slow."""
_ONLY_ERROR: Final[Values] = frozenset({_SAMPLES.index(ERROR)})
_TYPE_DESCRIPTIONS: Final[dict[type, str]] = {
    bool: "a boolean", int: "a number", float: "a number", str: "a string", AbsTime: "a time", RelTime: "a time",
}  # fmt: skip


def find_error(expression: Expression) -> Expression | None:
    """Return the innermost part that makes an expression an error for all ads, or None if it may have a value."""
    try:
        if _possible_values(expression) != _ONLY_ERROR:
            return None
    except RecursionError:  # the expression is too deep to have been written by hand
        return None
    erroneous = (find_error(part) for part in _operands(expression))
    return next((part for part in erroneous if part is not None), without_parentheses(expression))


def describe_type(expression: Expression) -> str:
    """Describe the type of an expression: "a string", "a number", "0"; "anything" if the type is unknown."""
    bare = without_parentheses(expression)
    if isinstance(bare, Literal) and bare.value == 0 and not isinstance(bare.value, bool):
        return "0"
    types = {type(_SAMPLES[index]) for index in _possible_values(bare)} - {Exceptional}
    descriptions = {_TYPE_DESCRIPTIONS[kind] for kind in types}
    return descriptions.pop() if len(descriptions) == 1 else "anything"


def explain_error(part: Expression) -> str:
    """Explain why a part that ``find_error`` returned is an error, and what to write instead."""
    match part:
        case Binary(op=op, left=left, right=right):
            return f"{part} is an error ({describe_type(left)} {op} {describe_type(right)})"
        case Unary(op=op, operand=operand):
            return f"{part} is an error ({op} {describe_type(operand)})"
        case Call() if (explanation := _explain_wrong_call(part)) is not None:
            return explanation
    return f"{part} is an error"


def _explain_wrong_call(call: Call) -> str | None:
    function, count = FUNCTIONS.get(call.key), len(call.arguments)
    if function is None:
        if call.key == "isdefined":
            advice = f"; write {call.arguments[0] if count else 'X'} isnt undefined"
        else:
            hint = did_you_mean(call.key, FUNCTIONS, most=1)
            advice = f"; {hint}" if hint else ""
        return f"there is no function {call.name}{advice}"
    if function.least <= count <= function.most:
        return None
    least, most = function.least, function.most
    takes = f"{least}" if least == most else f"{least} or more" if most == UNLIMITED else f"{least} to {most}"
    return f"{call.name} takes {takes} argument{'' if takes == '1' else 's'}, but {call} has {count}"


def without_parentheses(expression: Expression) -> Expression:
    while isinstance(expression, Parentheses):
        expression = expression.inner
    return expression


def _operands(expression: Expression) -> tuple[Expression, ...]:
    match without_parentheses(expression):
        case Unary(operand=operand):
            return (operand,)
        case Binary(op=op, left=left, right=right) if op != "[]":
            return left, right
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case Call(key="ifthenelse", arguments=(condition, then, otherwise)):
            return condition, then, otherwise
    return ()


def _possible_values(expression: Expression) -> Values:
    bare = without_parentheses(expression)
    if isinstance(bare, Literal):
        return frozenset({_sample_index(bare.value)})
    if isinstance(bare, Call) and _explain_wrong_call(bare) is not None:
        return _ONLY_ERROR
    operands = [_possible_values(part) for part in _operands(bare)]
    match bare:
        case Unary(op=op):
            return _union(_operator_results(op, value) for value in operands[0])
        case Binary(op=op) if op in TRUTH_OPERATORS and operands == [_ALL_SAMPLES, _ALL_SAMPLES]:
            return _TRUTH_VALUES
        case Binary(op=op) if operands:
            return _union(_operator_results(op, *pair) for pair in product(*operands))
        case Conditional() | Call() if operands:
            condition, then, otherwise = operands
            return _union(_branch_values(isinstance(bare, Call), value, then, otherwise) for value in condition)
    return _ALL_SAMPLES


def _union(values: Iterable[Values]) -> Values:
    return frozenset().union(*values)


def _sample_index(value: Any) -> int:
    if isinstance(value, float):  # the sign of a zero matters: 1 / 0.0 is an error, 1 / -0.0 is not
        value = copysign(bool(value), value)
    elif isinstance(value, int) and not isinstance(value, bool):
        value = (value > 0) - (value < 0)
    elif isinstance(value, str):
        value = value and "a"
    return next(
        index
        for index, candidate in enumerate(_SAMPLES)
        if type(candidate) is type(value) and repr(candidate) == repr(value)
    )


def _samples_of_type(value: Any) -> Values:
    if isinstance(value, Exceptional):
        return frozenset({_sample_index(value)})
    return frozenset(index for index, candidate in enumerate(_SAMPLES) if type(candidate) is type(value))


@cache
def _operator_results(op: str, *indexes: int) -> Values:
    values = [_SAMPLES[index] for index in indexes]
    if op == "?:":
        return _samples_of_type(values[values[0] is UNDEFINED])
    return _samples_of_type((UNARY if len(values) == 1 else BINARY)[op](*values))


@cache
def _branch_of(call: bool, index: int) -> Any:
    """Return the number of the branch that a condition selects, 1 or 2; if none, the value of the expression."""
    parts = (Literal(_SAMPLES[index]), Literal(1), Literal(2))
    return (Call("ifThenElse", parts) if call else Conditional(*parts)).evaluate()


def _branch_values(call: bool, condition: int, then: Values, otherwise: Values) -> Values:
    branch = _branch_of(call, condition)
    if isinstance(branch, Exceptional):
        return _samples_of_type(branch)
    return then if branch == 1 else otherwise
