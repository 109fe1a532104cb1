"""Read and write HTCondor's JSON form: plain values as JSON, other expressions as strings ``"/Expr(...)/"``."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .syntax import ClassAdSyntaxError, parse_evaluated
from .tree import AdExpression, Constant, Expression, ListExpression, ListValue, Literal, TimeLiteral
from .unparse import in_order, real_text, unparse_whole
from .values import UNDEFINED, RelTime, from_bytes, lower, to_bytes, wrap64

_ESCAPES = {8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 92: "\\\\", 34: '\\"'}
_ESCAPES |= {c: f"\\u{c:04X}" for c in range(1, 32) if c not in _ESCAPES}


def to_json(ad: Any) -> str:
    """Return the ad as condor tools print it with -json: indented by two blanks, attributes by length of name."""
    return _of_attributes(ad._all().values(), "")


def _text(value: str) -> str:
    return f'"{value.translate(_ESCAPES)}"'


def _expression_text(expression: Any) -> str:
    return '"\\/Expr(' + unparse_whole(expression).translate(_ESCAPES) + ')\\/"'


def _of_attributes(attributes: Any, indent: str) -> str:
    inner = indent + "  "
    lines = [f"{inner}{_text(name)}: {_of(expression, inner)}" for name, expression in in_order(attributes)]
    return "{" + ",".join("\n" + line for line in lines) + "\n" + indent + "}"


def _of_members(members: Any, indent: str) -> str:
    inner = indent + "  "
    return "[" + ",".join("\n" + inner + _of(member, inner) for member in members) + "\n" + indent + "]"


def _of(expression: Expression, indent: str) -> str:
    if isinstance(expression, AdExpression):
        return _of_attributes(expression.cells.values(), indent)
    if isinstance(expression, ListExpression):
        return _of_members(expression.members, indent)
    if isinstance(expression, Constant):
        value = expression.value
        if isinstance(value, ListValue):
            return _of_members(value.expressions, indent)
        if not isinstance(value, RelTime):
            return _of_attributes(value._all().values(), indent)
    if isinstance(expression, TimeLiteral) and isinstance(expression.time, RelTime):
        expression = Literal(expression.time.seconds)
    if isinstance(expression, Literal):
        value = expression.value
        kind = type(value)
        if value is UNDEFINED:
            return "null"
        if kind is bool:
            return "true" if value else "false"
        if kind is int:
            return str(value)
        if kind is str:
            return _text(value)
        if kind is float and math.isfinite(value):
            return real_text(value, old=True)
    return _expression_text(expression)


_DEEPEST = 160
_EXPRESSION = re.compile(r"/expr\((.*)\)/", re.IGNORECASE | re.DOTALL)


def from_json(text: str) -> dict[str, tuple[str, Expression]]:
    """Return the attributes of an ad in the JSON form.

    :raises ClassAdSyntaxError: where the text is not JSON, not an object, or holds an invalid expression.
    """
    try:
        data = json.loads(text, parse_constant=_no_constant)
        if not isinstance(data, dict):
            raise ClassAdSyntaxError("an ad in JSON is an object", text, 0)
        return _cells(data)
    except json.JSONDecodeError as error:
        raise ClassAdSyntaxError(f"not JSON: {error.msg}", text, error.pos) from None
    except ClassAdSyntaxError:
        raise
    except RecursionError:
        raise ClassAdSyntaxError("nested too deeply", text, 0) from None
    except ValueError as error:
        raise ClassAdSyntaxError(f"not JSON: {error}", text, 0) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _cells(data: dict[str, Any], levels: int = _DEEPEST) -> dict[str, tuple[str, Expression]]:
    cells: dict[str, tuple[str, Expression]] = {}
    for name, value in data.items():
        name = from_bytes(to_bytes(name))
        if not name:
            raise ClassAdSyntaxError("an attribute needs a name", json.dumps(data), 0)
        cells[lower(name)] = (cells.get(lower(name), (name,))[0], _expression(value, levels))
    return cells


def _expression(value: Any, levels: int) -> Expression:
    if levels == 0:
        raise ClassAdSyntaxError(f"nested more deeply than ads may be ({_DEEPEST} levels)", json.dumps(value)[:100], 0)
    if value is None:
        return Literal(UNDEFINED)
    if isinstance(value, bool | float):
        return Literal(value)
    if isinstance(value, int):
        return Literal(value if wrap64(value) == value else 0)
    if isinstance(value, dict):
        return AdExpression(_cells(value, levels - 1))
    if isinstance(value, list):
        return ListExpression(tuple(_expression(member, levels - 1) for member in value))
    # JSON does not tell "\/" from "/" once read: a string of this form counts as an expression.
    found = _EXPRESSION.fullmatch(value)
    if found is not None:
        return parse_evaluated(found[1])
    to_bytes(value)  # refuses text that no bytes can encode
    return Literal(value)
