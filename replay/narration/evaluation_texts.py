"""Describe why an expression had its value: briefly by the values that it compares, or by its text and all values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from ...domain import events as e
from ...domain.classad import ClassAd, ClassAdSyntaxError, Context, EvaluationError, Expression, parse, unparse
from ...domain.classad.syntax_errors import without_parentheses
from ...domain.classad.tree import Attribute, Binary, Call, children

_LIMITS = ("<", "<=", ">", ">=")
FEW, SHORT = 3, 40  #: the maximum number of values in a sentence, and the maximum length of a value


def values(note: e.EvaluationRecorded) -> str:
    """Return the attribute values that an expression compares with limits, and the limits; if it compares none, the
    short values that it read."""
    attributes = {name.rpartition(".")[2].lower(): (name.rpartition(".")[2], text) for name, text in note.read.items()}
    limits = [limit for limit in _limits(note.expression) if limit[0] in attributes]
    limited_texts = [
        f"{_value_text(*attributes[name], since, note.at)}, limit {limit}" for name, since, limit in limits
    ]
    texts = limited_texts or [f"{name} = {text}" for name, text in attributes.values() if _is_short(text)]
    return ", ".join(list(dict.fromkeys(texts))[:FEW])


def _value_text(name: str, text: str, since: bool, at: int) -> str:
    """Return ``name = text``. With ``since``, the value is an instant, and the result says how long ago it was."""
    is_age = since and text.isdecimal()
    return f"{name} {at // 1_000_000 - int(text):,} s ago" if is_age else f"{name} = {text}"


def _is_short(text: str) -> bool:
    """Return True if a value is short, and not an instant in seconds since 1970."""
    return len(text) <= SHORT and not (text.isdecimal() and int(text) > 1_000_000_000)


@lru_cache(maxsize=256)
def _limits(expression: str) -> tuple[tuple[str, bool, str], ...]:
    """Return the attributes that an expression compares with a number: the lower-case name, whether the time since the
    attribute's instant is compared, and the number."""
    try:
        return tuple(_comparisons(parse(expression)))
    except (ClassAdSyntaxError, EvaluationError):
        return ()


def _comparisons(node: Expression) -> Iterator[tuple[str, bool, str]]:
    if isinstance(node, Binary) and node.op in _LIMITS:
        for side, other_side in ((node.left, node.right), (node.right, node.left)):
            name, since = _attribute(without_parentheses(side))
            if name and (limit := _number(other_side)):
                yield name, since, limit
    for child in children(node):
        yield from _comparisons(child)


def _attribute(node: Expression) -> tuple[str, bool]:
    """Return the attribute on a side of a comparison, and True if the side is ``time() - attribute``."""
    if isinstance(node, Attribute):
        return node.key, False
    if isinstance(node, Binary) and node.op == "-" and isinstance(without_parentheses(node.left), Call):
        since = without_parentheses(node.right)
        if isinstance(since, Attribute) and unparse(without_parentheses(node.left)) == "time()":
            return since.key, True
    return "", False


def _number(node: Expression) -> str:
    """Return the value of a numeric expression that reads no attributes; empty for any other expression."""
    numbers = node.references(ClassAd())
    if numbers.internal or numbers.external:
        return ""
    try:
        value = node.evaluate(ClassAd(), context=Context(now=0))
    except EvaluationError:
        return ""
    return f"{value:.12g}" if isinstance(value, int | float) and not isinstance(value, bool) else ""


def full_evidence(note: e.EvaluationRecorded) -> str:
    """Return the expression, its value, and the attributes that it read."""
    attributes = ", ".join(f"{name} = {text}" for name, text in note.read.items())
    return f"{note.name} = {note.expression} was {note.value}{f', with {attributes}' if attributes else ''}"


def without_brackets(source: str) -> str:
    """Return an expression's text without its outermost brackets."""
    try:
        return unparse(without_parentheses(parse(source)))
    except ClassAdSyntaxError:
        return source
