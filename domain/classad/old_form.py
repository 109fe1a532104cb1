"""Convert expressions from the syntax of submit descriptions to that of ads, and to HTCondor's printed form.

Submit descriptions use old-form ClassAds, in which a backslash is an ordinary character. The forms differ only in
strings with backslashes or control characters.
"""

from __future__ import annotations

import re
from functools import lru_cache

from . import ClassAdSyntaxError, Expression, parse
from .syntax import parse_old_value
from .tree import Literal
from .unparse import quote_text, unparse_exactly, unparse_old

# Literals that are the same in all forms and so need no parser. (The pattern lists the printable ASCII characters,
# because a negated set takes 5 ms to compile.)
_SAME_IN_ALL_FORMS = re.compile(r"-?(?:0|[1-9][0-9]{0,17})|true|false|undefined|\"[ !#-\[\]-~]*\"")
_DIFFERENT_CHARACTERS = re.compile(r"[^ -\[\]-~]")


def read_expression(text: str) -> Expression:
    """Parse a value of a submit description; raise ClassAdSyntaxError if it is not an expression."""
    return parse_old_value(text, strict=True)


@lru_cache(maxsize=1024)
def expression_text(text: str) -> str:
    """Convert an expression of a submit description to an ad's text; raise ClassAdSyntaxError if it is invalid."""
    return text if _SAME_IN_ALL_FORMS.fullmatch(text) else ad_text(read_expression(text))


def ad_text(expression: Expression) -> str:
    printed_form = unparse_old(expression)
    return unparse_exactly(expression) if _DIFFERENT_CHARACTERS.search(printed_form) else printed_form


def quote_string(value: str) -> str:
    return quote_text(value, '"')


def printed_form(text: str) -> str:
    """Return the text of an expression as HTCondor's tools print it."""
    return unparse_old(parse(text)) if _DIFFERENT_CHARACTERS.search(text) else text


def literal_value(text: str | None) -> object:
    """Return the value of an expression's text if it is a literal, else None."""
    if text is None:
        return None
    try:
        node = parse(text)
    except ClassAdSyntaxError:
        return None
    return node.value if isinstance(node, Literal) else None


def literal_string(text: str | None) -> str | None:
    value = literal_value(text)
    return value if isinstance(value, str) else None


def is_true(text: str | None) -> bool:
    return literal_value(text) is True
