"""Format ads in HTCondor's XML, which has an element for each type of value, and ``<e>`` for expressions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from ...domain.classad import ERROR, UNDEFINED, AbsTime, ClassAd, ListValue, RelTime, unparse
from ...domain.classad.times import format_abstime, format_reltime
from ...domain.classad.tree import AdExpression, Constant, Expression, ListExpression, Literal, TimeLiteral
from ...domain.classad.unparse import sort_attributes

_SIGNS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_EMPTY = {True: '<b v="t"/>', False: '<b v="f"/>'}


def xml_text(ad: ClassAd, names: Iterable[str]) -> str:
    """Return the attributes with these names in a ``<c>`` element, one per line."""
    return _ad_element([(name, ad[name]) for name in names], 0) + "\n"


def _ad_element(attributes: Iterable[tuple[str, Expression]], indent: int) -> str:
    inner_indent = " " * (indent + 4)
    lines = [
        f'{inner_indent}<a n="{_string_content(name)}">{_expression_element(value, indent + 4)}</a>\n'
        for name, value in attributes
    ]
    return "<c>\n" + "".join(lines) + " " * indent + "</c>"


def _string_content(value: str) -> str:
    """Return a string in ClassAd syntax, without the enclosing quotes and without escaping inner quotes."""
    return unparse(value)[1:-1].replace('\\"', '"').translate(_SIGNS)


def _expression_element(expression: Expression, indent: int) -> str:
    if isinstance(expression, AdExpression):
        return _ad_element(sort_attributes(expression.cells.values()), indent)
    if isinstance(expression, ListExpression):
        return "<l>" + "".join(_expression_element(member, indent) for member in expression.members) + "</l>"
    if isinstance(expression, Literal | Constant):
        return _value_element(expression.value, indent)
    if isinstance(expression, TimeLiteral):
        return _value_element(expression.time, indent)
    return f"<e>{unparse(expression).translate(_SIGNS)}</e>"


def _value_element(value: Any, indent: int) -> str:
    if isinstance(value, bool):
        return _EMPTY[value]
    if isinstance(value, str):
        return f"<s>{_string_content(value)}</s>"
    if isinstance(value, int):
        return f"<i>{value}</i>"
    if isinstance(value, float):
        return f"<r>{_format_real(value)}</r>"
    if value is UNDEFINED or value is ERROR:
        return "<un/>" if value is UNDEFINED else "<er/>"
    if isinstance(value, AbsTime):
        return f"<at>{format_abstime(value)}</at>"
    if isinstance(value, RelTime):
        return f"<rt>{format_reltime(value.seconds)}</rt>"
    if isinstance(value, ListValue):
        return "<l>" + "".join(_expression_element(member, indent) for member in value.expressions) + "</l>"
    return _ad_element([(name, value[name]) for name in sorted(value)], indent)


def _format_real(value: float) -> str:
    if value == 0:
        return "0.0"
    if math.isfinite(value):
        return f"{value:.15E}"
    return "NaN" if math.isnan(value) else ("INF" if value > 0 else "-INF")
