"""Convert the value of an expression to a boolean or an integer, as HTCondor does, and collect the values that the
expression read, which the log stores as evidence.

A number is true unless it is 0; undefined and error are neither true nor false (None).
"""

from __future__ import annotations

from math import isfinite
from typing import Final

from .ad import ClassAd
from .analysis import references_or_empty, value_or_error
from .context import Context
from .scalar import evaluator_of_several
from .tree import Attribute, Call, Expression, Literal, children
from .unparse import unparse
from .values import UNDEFINED
from .values import truth as _as_truth

DYNAMIC_REFERENCES: Final = frozenset({"eval", "unparse"})
"""Functions that evaluate computed names, so that the expression does not show which attributes it reads."""


def literal_truth(literal: Literal) -> bool | None:
    return _as_truth(literal.value)


def truth_of(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context) -> bool | None:
    """Return the truth value of an expression, like HTCondor's EvalBool, or None if it is neither true nor false."""
    return _as_truth(value_or_error(expression, my, target, context))


def integer_of(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context) -> int | None:
    """Return the value of an expression as an integer, like HTCondor's EvalInteger: truncate reals; true is 1."""
    value = value_or_error(expression, my, target, context)
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return int(value)
    return None


MAX_EVIDENCE: Final = 10_000
"""The length, in characters, of the longest value that the log stores unshortened as evidence."""


def evidence_text(value: object) -> str:
    """Return a value as ClassAd text. If the text is too long for evidence, return a string with its beginning."""
    text = value_text(value)
    if len(text) <= MAX_EVIDENCE:
        return text
    return value_text(f"{text[:1000]}{_CUT_MARK}({len(text):,} characters)")


_CUT_MARK: Final = " ... cut "


def is_cut(text: str) -> bool:
    """Check whether a text from ``evidence_text`` contains only the beginning of a value."""
    return _CUT_MARK in text and text.endswith(' characters)"')


def value_text(value: object) -> str:
    """Return a value as ClassAd text."""
    if type(value) is int:
        return str(value)
    ad = ClassAd()
    ad["v"] = UNDEFINED if value is None else value
    return unparse(ad["v"])


def values_read(node: Expression, my: ClassAd, target: ClassAd | None, context: Context) -> dict[str, str]:
    """Return the values that an expression reads, directly or through other expressions, as ClassAd text: attributes of
    ``my`` as ``MY.Name``, attributes of ``target`` as ``TARGET.Name``."""
    values: dict[str, str] = {}
    pending: list[tuple[Expression, bool]] = [(node, True)]
    visited: set[tuple[str, bool]] = set()
    value_in = {True: evaluator_of_several(my, target, context), False: evaluator_of_several(target, my, context)}
    while pending:
        node, in_my = pending.pop()
        own_ad, other = (my, target) if in_my else (target, my)
        if own_ad is None:
            continue
        references = references_or_empty(node, own_ad)
        names = [(name, in_my) for name in references.internal]
        names += [(name.rpartition(".")[2], not in_my) for name in references.external]
        for name, is_my in names:
            ad = own_ad if is_my == in_my else other
            if ad is None or name not in ad or (name.lower(), is_my) in visited:
                continue
            visited.add((name.lower(), is_my))
            values[f"{'MY' if is_my else 'TARGET'}.{name}"] = evidence_text(value_in[is_my](ad[name]))
            if is_my != in_my:  # references already include the references of other attributes in the same ad
                pending.append((ad[name], is_my))
    return dict(sorted(values.items()))


Read = tuple[str, str]
"""The scope and the lower-case name of an attribute or function."""
UNSCOPED, CALL = "", "()"
"""The scopes used for names without a scope and for functions."""


def names_in(expression: Expression) -> set[Read]:
    """Return the scopes and names of the attributes and functions in an expression."""
    names: set[Read] = set()
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Attribute):
            base = node.base
            if isinstance(base, Attribute) and base.key in ("my", "target") and base.base is None and not base.absolute:
                names.add((base.key, node.key))
                continue
            names.add((UNSCOPED, node.key))
        elif isinstance(node, Call):
            names.add((CALL, node.key))
        pending.extend(children(node))
    return names
