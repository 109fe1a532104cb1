"""Write expressions and values as text: in one line, in lines for people, and in the old form of ads.

The texts are exactly HTCondor's, odd as they are: ``=?=`` becomes ``is``, a unary operator has a blank before it, reals
have 16 digits and an exponent, an ad's attributes are ordered by the length of their names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from .times import abstime_text, reltime_text
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

__all__ = ["abstime_text", "pretty", "reltime_text", "unparse", "unparse_exactly", "unparse_old", "unparse_whole"]

# Pieces wait on a stack in reverse: a str is output as it is, anything else is first taken apart.
_Piece = Any


def unparse(value: Any) -> str:
    """Return HTCondor's text, in one line, of an expression or value; a blank that it puts before it is left out."""
    return _write(value, old=False).lstrip(" ")


def unparse_whole(value: Any) -> str:
    """Return the text with the blank before a unary operator, for use inside another."""
    return _write(value, old=False)


def unparse_old(value: Any) -> str:
    """Return the text as ``condor_status -l`` prints it: ``=?=``, short reals, only quotes escaped in strings."""
    return _write(value, old=True)


def unparse_exactly(value: Any) -> str:
    """Return a text that reads back as the same expression, to the last bit of its reals."""
    return _write(value, old=False, exact=True)


def _write(value: Any, old: bool, exact: bool = False) -> str:
    out: list[str] = []
    stack: list[_Piece] = [value]
    while stack:
        piece = stack.pop()
        if type(piece) is _Text:
            out.append(piece)
        elif exact and (isinstance(piece, float) or type(piece) is TimeLiteral):
            out.append(_exact(piece))
        elif exact and type(piece) is Literal and isinstance(piece.value, float):
            out.append(_exact(piece.value))
        elif exact and type(piece) in _AMBIGUOUS:
            stack.extend(reversed(_exact_pieces(piece)))
        elif isinstance(piece, Expression):
            stack.extend(reversed(_pieces(piece, old)))
        else:
            stack.extend(reversed(_value_pieces(piece, old)))
    return "".join(out)


def _exact(piece: Any) -> str:
    if isinstance(piece, float):
        return repr(piece) if math.isfinite(piece) else real_text(piece)
    if isinstance(piece.time, RelTime):
        return f'relTime("{piece.time.seconds!r}")'
    text = abstime_text(piece.time)
    return f'absTime("{text[:-6] if piece.zoneless else text}")'


_AMBIGUOUS = frozenset({Attribute, Unary, Call})


def _exact_pieces(node: Expression) -> list[_Piece]:
    """Write what would read back differently from HTCondor's text: names that need quotes, and ``- 5``."""
    if isinstance(node, Attribute) and node.base is not None:
        return [node.base, _Text(" ." + identifier(node.name))]
    if isinstance(node, Unary):
        return [_Text(f" {node.op} "), node.operand]
    if isinstance(node, Call):
        return [_Text(f"{identifier(node.name)}("), *_separated(node.arguments, ","), _Text(")")]
    return _pieces(node, False)


class _Text(str):
    """A finished piece of output; a bare ``str`` is a value yet to be quoted."""

    __slots__ = ()


def _value_pieces(value: Any, old: bool) -> list[_Piece]:
    kind = type(value)
    if kind is bool:
        return [_Text("true" if value else "false")]
    if kind is int:
        return [_Text(str(value))]
    if kind is float:
        return [_Text(real_text(value, old))]
    if kind is str:
        return [_Text(quoted(value, '"', old))]
    if kind is Exceptional:
        return [_Text(str(value))]
    if kind is AbsTime:
        return [_Text(f'absTime("{abstime_text(value)}")')]
    if kind is RelTime:
        # HTCondor shows whole seconds of a computed length of time; a literal keeps its fraction.
        return [_Text(f'relTime("{reltime_text(float(truncate32(value.seconds)))}")')]
    if kind is ListValue:
        return _list_pieces(value.expressions)
    return _ad_pieces(value._all().values(), old)


def _pieces(node: Expression, old: bool) -> list[_Piece]:
    if isinstance(node, Literal | Constant):
        return _value_pieces(node.value, old)
    if isinstance(node, Attribute):
        if node.base is not None:
            # HTCondor writes 5.a, which no parser reads back: 5. begins a number.
            is_integer = isinstance(node.base, Literal) and type(node.base.value) is int
            return [node.base, _Text((" ." if is_integer else ".") + node.name)]
        return [_Text(("." if node.absolute else "") + identifier(node.name))]
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
        return [_Text(f"{node.name}("), *_separated(node.arguments, ","), _Text(")")]
    if isinstance(node, Conditional):
        return [node.condition, _Text(" ? "), node.then, _Text(" : "), node.otherwise]
    if isinstance(node, ListExpression):
        return _list_pieces(node.members)
    if isinstance(node, AdExpression):
        return _ad_pieces(node.cells.values(), old)
    assert isinstance(node, TimeLiteral)
    if isinstance(node.time, RelTime):
        return [_Text(f'relTime("{reltime_text(node.time.seconds)}")')]
    return _value_pieces(node.time, old)


_OLD_OPERATORS = {"is": "=?=", "isnt": "=!="}


def _separated(parts: Iterable[_Piece], separator: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    for part in parts:
        if pieces:
            pieces.append(_Text(separator))
        pieces.append(part)
    return pieces


def _list_pieces(members: Iterable[Expression]) -> list[_Piece]:
    return [_Text("{ "), *_separated(members, ","), _Text(" }")]


def in_order(attributes: Iterable[tuple[str, Expression]]) -> list[tuple[str, Expression]]:
    """Sort attributes by the length of their names, then by name, as HTCondor does."""

    def key(attribute: tuple[str, Expression]) -> tuple[int, bytes]:
        name = to_bytes(lower(attribute[0]))
        return len(name), name

    return sorted(attributes, key=key)


def _ad_pieces(attributes: Iterable[tuple[str, Expression]], old: bool) -> list[_Piece]:
    pieces: list[_Piece] = []
    for name, expression in in_order(attributes):
        pieces += [_Text(("; " if pieces else "") + identifier(name, old) + " = "), expression]
    return [_Text("[ "), *pieces, _Text(" ]")]


# -- parts -----------------------------------------------------------------------------------------------------------

_PLAIN = re.compile(r"[ !#-&(-\[\]-~]*")
_ESCAPES = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 92: "\\\\"}
_ESCAPES |= {b: f"\\{b:03o}" for b in (*range(32), *range(127, 256)) if b not in _ESCAPES}
_TABLES = {q: {**_ESCAPES, ord(q): "\\" + q} for q in "\"'"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset({"error", "false", "is", "isnt", "parent", "true", "undefined"})


def quoted(text: str, quote: str, old: bool = False) -> str:
    """Return a string in quotes. In the old form only the quote itself is escaped."""
    if _PLAIN.fullmatch(text):
        return f"{quote}{text}{quote}"
    if old:
        return f"{quote}{text.replace(quote, chr(92) + quote)}{quote}"
    return f"{quote}{to_bytes(text).decode('latin-1').translate(_TABLES[quote])}{quote}"


def identifier(name: str, old: bool = False) -> str:
    """Return a name, in single quotes where it needs them."""
    if _NAME.fullmatch(name) and lower(name) not in _RESERVED:
        return name
    inside = quoted(name, "'", old)[1:-1]
    if _NAME.fullmatch(inside) and lower(inside) not in _RESERVED:
        return inside
    return f"'{inside}'"


def real_text(real: float, old: bool = False) -> str:
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


# -- for people --------------------------------------------------------------------------------------------------------


def pretty(value: Any) -> str:
    """Return the text in lines, lists and ads indented, as the language's ``unparse()`` does."""
    out: list[str] = []
    stack: list[_Piece] = [value]
    indent = 0
    while stack:
        piece = stack.pop()
        if type(piece) is int and not isinstance(piece, bool):
            indent += piece
        elif type(piece) is _Text:
            out.append(piece.replace("\0", "\n" + " " * indent))
        elif isinstance(piece, Literal) and type(piece.value) is int:
            out.append(str(piece.value))
        else:
            attributes, members = _compound(piece)
            if attributes is not None:
                inner: list[_Piece] = []
                for name, expression in in_order(attributes):
                    inner += [_Text(("; \0" if inner else "\0") + identifier(name) + " = "), expression]
                stack.extend(reversed([4, _Text("\0["), 4, *inner, -4, _Text("\0]"), -4]))
            elif members is not None:
                inner = []
                for member in members:
                    inner += [_Text(",\0" if inner else "\0"), member]
                stack.extend(reversed([3, _Text("\0{"), 3, *inner, -3, _Text("\0}"), -3]))
            else:
                parts = _pieces(piece, False) if isinstance(piece, Expression) else _value_pieces(piece, False)
                stack.extend(reversed(parts))
    return "".join(out)


def _compound(piece: Any) -> tuple[Any, Any]:
    """Return the attributes of an ad, or the members of a list, or neither."""
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
    """Convert the value as ``string()`` does; ``UNDEFINED`` and ``ERROR`` stay as they are."""
    if type(value) is str or type(value) is Exceptional:
        return value
    if type(value) is AbsTime:
        return abstime_text(value)
    if type(value) is RelTime:
        return reltime_text(float(truncate32(value.seconds)))
    return unparse(value)


operations.unparse = unparse
operations.unparse_exactly = unparse_exactly
