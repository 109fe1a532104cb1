"""Find expressions that are an error for whatever ads, by the types of their values.

Each part is given a few sample values, one per type: an attribute any of them, an operator those that it yields for its
operands' samples. One that is an error for each is one for all. So is a call of a function that does not exist, or with
more or fewer arguments than it takes. Any other call, a list or a subscript may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from math import copysign
from typing import Any, Final

from ..suggestions import did_you_mean
from .function_registry import FUNCTIONS, MANY
from .tree import Binary, Call, Conditional, Expression, Literal, Parentheses, Unary
from .values import ERROR, UNDEFINED, AbsTime, Exceptional, RelTime

Values = frozenset[int]
"""The sample values that a part may have, by their indexes in ``_VALUES``."""

_VALUES: Final[tuple[Any, ...]] = (
    UNDEFINED, ERROR, True, False, 0, 1, -1, 0.0, -0.0, 1.0, -1.0, "", "a", AbsTime(1), RelTime(1.0),
)  # fmt: skip
_ANYTHING: Final[Values] = frozenset(range(len(_VALUES)))
_FAULT: Final[Values] = frozenset({_VALUES.index(ERROR)})
_WORDS: Final[dict[type, str]] = {
    bool: "a boolean", int: "a number", float: "a number", str: "a string", AbsTime: "a time", RelTime: "a time",
}  # fmt: skip


def fault(expression: Expression) -> Expression | None:
    """Return the innermost part that makes an expression an error for all attributes; None if it may have a value."""
    try:
        if _values(expression) != _FAULT:
            return None
    except RecursionError:  # too deep to be written by hand
        return None
    at_fault = (fault(part) for part in _operands(expression))
    return next((part for part in at_fault if part is not None), _bare(expression))


def kinds(expression: Expression) -> str:
    """Describe the type of an expression: "a string", "a number", "0"; "anything" if it is not known."""
    inner = _bare(expression)
    if isinstance(inner, Literal) and inner.value == 0 and not isinstance(inner.value, bool):
        return "0"
    types = {type(_VALUES[place]) for place in _values(inner)} - {Exceptional}
    descriptions = {_WORDS[kind] for kind in types}
    return descriptions.pop() if len(descriptions) == 1 else "anything"


def cause(culprit: Expression) -> str:
    """Return why a part that ``fault`` returned is an error, and what to write instead; "" if that is not known."""
    match culprit:
        case Binary(op=op, left=left, right=right):
            return f"{culprit} is one ({kinds(left)} {op} {kinds(right)})"
        case Unary(op=op, operand=operand):
            return f"{culprit} is one ({op} {kinds(operand)})"
        case Call() if (wrong := _wrong_call(culprit)) is not None:
            return wrong
    return f"{culprit} is one"


def _wrong_call(call: Call) -> str | None:
    """Return why a call is an error whatever its arguments are; None if it may have a value."""
    function, given = FUNCTIONS.get(call.key), len(call.arguments)
    if function is None:
        if call.key == "isdefined":
            instead = f"; write {call.arguments[0] if given else 'X'} isnt undefined"
        else:
            hint = did_you_mean(call.key, FUNCTIONS, most=1)
            instead = f"; {hint}" if hint else ""
        return f"there is no function {call.name}{instead}"
    if function.least <= given <= function.most:
        return None
    least, most = function.least, function.most
    takes = f"{least}" if least == most else f"{least} or more" if most == MANY else f"{least} to {most}"
    return f"{call.name} takes {takes} argument{'' if takes == '1' else 's'}, and {call} has {given}"


def _bare(expression: Expression) -> Expression:
    while isinstance(expression, Parentheses):
        expression = expression.inner
    return expression


def _operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the parts whose values make that of the whole."""
    match _bare(expression):
        case Unary(operand=operand):
            return (operand,)
        case Binary(op=op, left=left, right=right) if op != "[]":
            return left, right
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return condition, then, otherwise
        case Call(key="ifthenelse", arguments=(condition, then, otherwise)):
            return condition, then, otherwise
    return ()


def _values(expression: Expression) -> Values:
    inner = _bare(expression)
    if isinstance(inner, Literal):
        return frozenset({_standing_for(inner.value)})
    if isinstance(inner, Call) and _wrong_call(inner) is not None:
        return _FAULT
    operands = [_values(part) for part in _operands(inner)]
    match inner:
        case Unary(op=op):
            return _all(_yield(op, value) for value in operands[0])
        case Binary(op=op) if operands:
            return _all(_yield(op, *pair) for pair in product(*operands))
        case Conditional() | Call() if operands:
            condition, then, otherwise = operands
            return _all(_chosen(isinstance(inner, Call), value, then, otherwise) for value in condition)
    return _ANYTHING


def _all(values: Iterable[Values]) -> Values:
    return frozenset().union(*values)


def _standing_for(value: Any) -> int:
    """Return the index of the sample value that stands for a constant."""
    if isinstance(value, float):  # the sign of a zero tells an error from negative infinity: 1 / 0.0, 1 / -0.0
        value = copysign(bool(value), value)
    elif isinstance(value, int) and not isinstance(value, bool):
        value = (value > 0) - (value < 0)
    elif isinstance(value, str):
        value = value and "a"
    return next(
        place
        for place, candidate in enumerate(_VALUES)
        if type(candidate) is type(value) and repr(candidate) == repr(value)
    )


def _of_its_kind(value: Any) -> Values:
    if isinstance(value, Exceptional):
        return frozenset({_standing_for(value)})
    return frozenset(place for place, candidate in enumerate(_VALUES) if type(candidate) is type(value))


@cache
def _yield(op: str, *places: int) -> Values:
    """Return an operator's results for sample values."""
    parts = [Literal(_VALUES[place]) for place in places]
    made = Unary(op, *parts) if len(parts) == 1 else Binary(op, *parts)
    return _of_its_kind(made.evaluate())


@cache
def _branch(call: bool, place: int) -> Any:
    """Return the branch that a condition chooses, 1 or 2; or the value that it makes of the whole."""
    parts = (Literal(_VALUES[place]), Literal(1), Literal(2))
    return (Call("ifThenElse", parts) if call else Conditional(*parts)).evaluate()


def _chosen(call: bool, condition: int, then: Values, otherwise: Values) -> Values:
    chosen = _branch(call, condition)
    if isinstance(chosen, Exceptional):
        return _of_its_kind(chosen)
    return then if chosen == 1 else otherwise
