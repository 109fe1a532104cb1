"""Format expressions and values as text: on one line, pretty-printed on several lines, and in the old form of ads.

The text is exactly HTCondor's: ``=?=`` becomes ``is``, a unary operator has a blank before it, reals have 16 digits and
an exponent, and an ad's attributes are sorted by the length of their names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from .times import format_abstime, format_reltime
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Conditional,
    Constant,
    Expression,
    ListExpression,
    ListValue,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
    operations,
)
from .values import AbsTime, Exceptional, RelTime, lower, to_bytes, truncate32

__all__ = ["unparse", "unparse_exactly", "unparse_old", "unparse_pretty", "unparse_with_blank"]

# An element of the output stack: a ``_Text`` is output unchanged, anything else is first split into pieces.
_Piece = Any


def unparse(value: Any) -> str:
    """Return HTCondor's text of an expression or value, on one line, without the leading blank of some texts."""
    return _write(value, old=False).lstrip(" ")


def unparse_with_blank(value: Any) -> str:
    """Return HTCondor's text of an expression or value, with any leading blank, for use inside another text."""
    return _write(value, old=False)


def unparse_old(value: Any) -> str:
    """Return the text as ``condor_status -l`` prints it: ``=?=``, short reals, and only quotes escaped in strings."""
    return _write(value, old=True)


def unparse_exactly(value: Any) -> str:
    """Return a text that parses to exactly the same expression, to the last bit of its reals."""
    return _write(value, old=False, exact=True)


def _write(value: Any, old: bool, exact: bool = False) -> str:
    output: list[str] = []
    stack: list[_Piece] = [value]
    while stack:
        piece = stack.pop()
        if type(piece) is _Text:
            output.append(piece)
        elif exact and (isinstance(piece, float) or type(piece) is TimeLiteral):
            output.append(_exact_text(piece))
        elif exact and type(piece) is Literal and isinstance(piece.value, float):
            output.append(_exact_text(piece.value))
        elif exact and type(piece) in _EXACT_TYPES:
            stack.extend(reversed(_exact_pieces(piece)))
        elif isinstance(piece, Expression):
            stack.extend(reversed(_pieces(piece, old)))
        else:
            stack.extend(reversed(_value_pieces(piece, old)))
    return "".join(output)


def _exact_text(piece: Any) -> str:
    if isinstance(piece, float):
        return repr(piece) if math.isfinite(piece) else format_real(piece)
    if isinstance(piece.time, RelTime):
        return f'relTime("{piece.time.seconds!r}")'
    text = format_abstime(piece.time)
    return f'absTime("{text[:-6] if piece.zoneless else text}")'


_EXACT_TYPES = frozenset({Attribute, Unary, Call})


def _exact_pieces(node: Expression) -> list[_Piece]:
    """Return pieces that parse to the same node where HTCondor's text does not: names that need quotes, and ``- 5``."""
    if isinstance(node, Attribute) and node.base is not None:
        return [node.base, _Text(" ." + quote_name(node.name))]
    if isinstance(node, Unary):
        return [_Text(f" {node.op} "), node.operand]
    if isinstance(node, Call):
        return [_Text(f"{quote_name(node.name)}("), *_join_pieces(node.arguments, ","), _Text(")")]
    return _pieces(node, False)


class _Text(str):
    """Finished output. A plain ``str`` on the stack is instead a value that must be quoted."""

    __slots__ = ()


def _value_pieces(value: Any, old: bool) -> list[_Piece]:
    kind = type(value)
    if kind is bool:
        return [_Text("true" if value else "false")]
    if kind is int:
        return [_Text(str(value))]
    if kind is float:
        return [_Text(format_real(value, old))]
    if kind is str:
        return [_Text(quote_text(value, '"', old))]
    if kind is Exceptional:
        return [_Text(str(value))]
    if kind is AbsTime:
        return [_Text(f'absTime("{format_abstime(value)}")')]
    if kind is RelTime:
        # HTCondor prints a computed duration in whole seconds; a literal keeps its fraction.
        return [_Text(f'relTime("{format_reltime(float(truncate32(value.seconds)))}")')]
    if kind is ListValue:
        return _list_pieces(value.expressions)
    return _ad_pieces(value._all().values(), old)


def _pieces(node: Expression, old: bool) -> list[_Piece]:
    if isinstance(node, Literal | Constant):
        return _value_pieces(node.value, old)
    if isinstance(node, Attribute):
        if node.base is not None:
            # HTCondor prints 5.a, which no parser accepts, because 5. begins a number.
            is_integer = isinstance(node.base, Literal) and type(node.base.value) is int
            return [node.base, _Text((" ." if is_integer else ".") + node.name)]
        return [_Text(("." if node.absolute else "") + quote_name(node.name))]
    if isinstance(node, Binary):
        if node.op == "[]":
            return [node.left, _Text("["), node.right, _Text("]")]
        op = _OLD_OPERATORS.get(node.op, node.op) if old else node.op
        return [node.left, _Text(f" {op} "), node.right]
    if isinstance(node, Parentheses):
        return [_Text("("), node.inner, _Text(")")]
    if isinstance(node, Unary):
        return [_Text(f" {node.op}"), node.operand]
    if isinstance(node, Call):
        return [_Text(f"{node.name}("), *_join_pieces(node.arguments, ","), _Text(")")]
    if isinstance(node, Conditional):
        return [node.condition, _Text(" ? "), node.then, _Text(" : "), node.otherwise]
    if isinstance(node, ListExpression):
        return _list_pieces(node.members)
    if isinstance(node, AdExpression):
        return _ad_pieces(node.cells.values(), old)
    assert isinstance(node, TimeLiteral)
    if isinstance(node.time, RelTime):
        return [_Text(f'relTime("{format_reltime(node.time.seconds)}")')]
    return _value_pieces(node.time, old)


_OLD_OPERATORS = {"is": "=?=", "isnt": "=!="}


def _join_pieces(parts: Iterable[_Piece], separator: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    for part in parts:
        if pieces:
            pieces.append(_Text(separator))
        pieces.append(part)
    return pieces


def _list_pieces(members: Iterable[Expression]) -> list[_Piece]:
    return [_Text("{ "), *_join_pieces(members, ","), _Text(" }")]


def sort_attributes(attributes: Iterable[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """Sort attributes by the length of their names, then by name, as HTCondor does."""

    def key(attribute: tuple[str, Expression]) -> tuple[int, bytes]:
        name = to_bytes(lower(attribute[0]))
        return len(name), name

    return sorted(attributes, key=key)


def _ad_pieces(attributes: Iterable[tuple[str, Expression]], old: bool) -> list[_Piece]:
    pieces: list[_Piece] = []
    for name, expression in sort_attributes(attributes):
        pieces += [_Text(("; " if pieces else "") + quote_name(name, old) + " = "), expression]
    return [_Text("[ "), *pieces, _Text(" ]")]


_NO_ESCAPES = re.compile(r"[ !#-&(-\[\]-~]*")
_ESCAPES = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 92: "\\\\"}
_ESCAPES |= {b: f"\\{b:03o}" for b in (*range(32), *range(127, 256)) if b not in _ESCAPES}
_ESCAPE_TABLES = {q: {**_ESCAPES, ord(q): "\\" + q} for q in "\"'"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"error", "false", "is", "isnt", "parent", "true", "undefined"})


def quote_text(text: str, quote: str, old: bool = False) -> str:
    """Return a string in quotes. In the old form, only quotes are escaped."""
    if _NO_ESCAPES.fullmatch(text):
        return f"{quote}{text}{quote}"
    if old:
        return f"{quote}{text.replace(quote, chr(92) + quote)}{quote}"
    return f"{quote}{to_bytes(text).decode('latin-1').translate(_ESCAPE_TABLES[quote])}{quote}"


def quote_name(name: str, old: bool = False) -> str:
    """Return a name, in single quotes if necessary."""
    if _NAME.fullmatch(name) and lower(name) not in _RESERVED:
        return name
    escaped = quote_text(name, "'", old)[1:-1]
    if _NAME.fullmatch(escaped) and lower(escaped) not in _RESERVED:
        return escaped
    return f"'{escaped}'"


def format_real(real: float, old: bool = False) -> str:
    if real == 0.0:
        return f"{real:.1f}"
    if math.isnan(real):
        return 'real("NaN")'
    if math.isinf(real):
        return 'real("INF")' if real > 0 else 'real("-INF")'
    if not old:
        return f"{real:.15E}"
    text = f"{real:.16G}"
    return text if "." in text or "E" in text else text + ".0"


def unparse_pretty(value: Any) -> str:
    """Return the text with lists and ads indented over several lines, like the ClassAd function ``unparse()``."""
    output: list[str] = []
    stack: list[_Piece] = [value]
    indent = 0
    while stack:
        piece = stack.pop()
        if type(piece) is int and not isinstance(piece, bool):
            indent += piece
        elif type(piece) is _Text:
            output.append(piece.replace("\0", "\n" + " " * indent))
        elif isinstance(piece, Literal) and type(piece.value) is int:
            output.append(str(piece.value))
        else:
            attributes, members = _attributes_and_members(piece)
            if attributes is not None:
                pieces: list[_Piece] = []
                for name, expression in sort_attributes(attributes):
                    pieces += [_Text(("; \0" if pieces else "\0") + quote_name(name) + " = "), expression]
                stack.extend(reversed([4, _Text("\0["), 4, *pieces, -4, _Text("\0]"), -4]))
            elif members is not None:
                pieces = []
                for member in members:
                    pieces += [_Text(",\0" if pieces else "\0"), member]
                stack.extend(reversed([3, _Text("\0{"), 3, *pieces, -3, _Text("\0}"), -3]))
            else:
                parts = _pieces(piece, False) if isinstance(piece, Expression) else _value_pieces(piece, False)
                stack.extend(reversed(parts))
    return "".join(output)


def _attributes_and_members(piece: Any) -> tuple[Any, Any]:
    """Return the attributes of an ad and None, or None and the members of a list; two Nones for any other piece."""
    if isinstance(piece, Literal | Constant):
        piece = piece.value
    if isinstance(piece, AdExpression):
        return piece.cells.values(), None
    if isinstance(piece, ListExpression):
        return None, piece.members
    if isinstance(piece, ListValue):
        return None, piece.expressions
    if isinstance(piece, Expression | str | int | float | Exceptional | AbsTime | RelTime):
        return None, None
    return piece._all().values(), None


def to_string(value: Any) -> str | Exceptional:
    """Convert a value like ``string()``; return ``UNDEFINED`` and ``ERROR`` unchanged."""
    if type(value) is str or type(value) is Exceptional:
        return value
    if type(value) is AbsTime:
        return format_abstime(value)
    if type(value) is RelTime:
        return format_reltime(float(truncate32(value.seconds)))
    return unparse(value)


operations.unparse = unparse
operations.unparse_exactly = unparse_exactly
