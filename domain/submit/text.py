"""Texts of expressions: from a description's values to what stands in an ad, and to what is printed.

A description is read by the rules of ClassAds of the old form, in which a backslash is a character like others; an
ad's texts here are such that ``poolbook.domain.classad.parse`` reads the same expression. The two forms differ in
strings with backslashes or control characters, and only there.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ..classad import ClassAdSyntaxError, Expression, parse
from ..classad.syntax import parse_old_value
from ..classad.tree import Literal
from ..classad.unparse import quoted, unparse_exactly, unparse_old

# Texts of literals that are already as they are printed: they are by far the most, and need no parser.
_AS_IT_IS = re.compile(r"-?(?:0|[1-9][0-9]{0,17})|true|false|undefined|\"[^\"\\\x00-\x1f\x7f-\U0010ffff]*\"")
_DIFFERS = re.compile(r"[\\\x00-\x1f\x7f-\U0010ffff]")


def read_expression(text: str) -> Expression:
    """The expression that a value of a description holds.

    :raises ClassAdSyntaxError: where it holds none
    """
    return parse_old_value(text, strict=True)


@lru_cache(maxsize=1024)
def expression_text(text: str) -> str:
    """The text for an ad of the expression that a value holds.

    :raises ClassAdSyntaxError: where it holds none
    """
    return text if _AS_IT_IS.fullmatch(text) else text_of(read_expression(text))


def text_of(expression: Expression) -> str:
    printed = unparse_old(expression)
    return unparse_exactly(expression) if _DIFFERS.search(printed) else printed


def string_text(value: str) -> str:
    """The text for an ad of a string."""
    return quoted(value, '"')


def printed(text: str) -> str:
    """An ad's text as HTCondor's tools print it."""
    return unparse_old(parse(text)) if _DIFFERS.search(text) else text


def literal(text: str | None) -> object:
    """The value of an ad's text if it is a literal; else None."""
    if text is None:
        return None
    try:
        node = parse(text)
    except ClassAdSyntaxError:
        return None
    return node.value if isinstance(node, Literal) else None


def literal_string(text: str | None) -> str | None:
    value = literal(text)
    return value if isinstance(value, str) else None


def is_true(text: str | None) -> bool:
    return literal(text) is True
