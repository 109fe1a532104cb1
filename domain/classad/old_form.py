"""Convert texts of expressions from a description's form to an ad's, and to HTCondor's printed form.

A description follows the rules of old-form ClassAds, in which a backslash is an ordinary character. The two forms
differ only in strings with backslashes or control characters.
"""

from __future__ import annotations

import re
from functools import lru_cache

from . import ClassAdSyntaxError, Expression, parse
from .syntax import parse_old_value
from .tree import Literal
from .unparse import quoted, unparse_exactly, unparse_old

# Literals already as printed: most texts are, and need no parser. (Printable ASCII is named, not the rest: a set of all
# other characters takes 5 ms to compile.)
_AS_IT_IS = re.compile(r"-?(?:0|[1-9][0-9]{0,17})|true|false|undefined|\"[ !#-\[\]-~]*\"")
_DIFFERS = re.compile(r"[^ -\[\]-~]")


def read_expression(text: str) -> Expression:
    """Parse a value of a description; raise ClassAdSyntaxError if it is not an expression."""
    return parse_old_value(text, strict=True)


@lru_cache(maxsize=1024)
def expression_text(text: str) -> str:
    """Convert a value's expression to an ad's text; raise ClassAdSyntaxError if it is not an expression."""
    return text if _AS_IT_IS.fullmatch(text) else text_of(read_expression(text))


def text_of(expression: Expression) -> str:
    printed = unparse_old(expression)
    return unparse_exactly(expression) if _DIFFERS.search(printed) else printed


def string_text(value: str) -> str:
    return quoted(value, '"')


def printed(text: str) -> str:
    """Return an ad's text as HTCondor's tools print it."""
    return unparse_old(parse(text)) if _DIFFERS.search(text) else text


def literal(text: str | None) -> object:
    """Return the value of an ad's text if it is a literal; else None."""
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
