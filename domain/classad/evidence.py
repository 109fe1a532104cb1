"""The truth or the whole number that an expression comes to, as HTCondor takes them, and the values that it read, which
the log keeps as evidence.

True is true or a number other than 0; undefined and error are neither true nor false (None).
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

MAKES_NAMES: Final = frozenset({"eval", "unparse"})
"""Functions that make names when they are evaluated: no text tells what they read."""


def constant_truth(literal: Literal) -> bool | None:
    return _as_truth(literal.value)


def truth(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context) -> bool | None:
    """Return the truth of an expression, as the reference's EvalBool takes it."""
    return _as_truth(value_or_error(expression, my, target, context))


def integer(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context) -> int | None:
    """Return a whole number, as the reference's EvalInteger takes it: a real loses its fraction, true is 1."""
    value = value_or_error(expression, my, target, context)
    if isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
        return int(value)
    return None


MOST_NOTED: Final = 10_000
"""The characters of a value that the log keeps as evidence."""


def noted(value: object) -> str:
    """Return a value as the language writes it; of one that is too long for evidence a string with its beginning."""
    text = unparsed(value)
    if len(text) <= MOST_NOTED:
        return text
    return unparsed(f"{text[:1000]}{_CUT}({len(text):,} characters)")


_CUT: Final = " ... cut "


def is_cut(text: str) -> bool:
    """Return True if evidence has only the beginning of a value."""
    return _CUT in text and text.endswith(' characters)"')


def unparsed(value: object) -> str:
    """Return a value as the language writes it."""
    if type(value) is int:
        return str(value)
    ad = ClassAd()
    ad["v"] = UNDEFINED if value is None else value
    return unparse(ad["v"])


def values_read(of: Expression, my: ClassAd, target: ClassAd | None, context: Context) -> dict[str, str]:
    """Return the values that an expression reads, through other expressions too: of ``my`` as ``MY.Name``, of
    ``target`` as ``TARGET.Name``, as the language writes them."""
    values: dict[str, str] = {}
    pending: list[tuple[Expression, bool]] = [(of, True)]
    seen: set[tuple[str, bool]] = set()
    value_in = {True: evaluator_of_several(my, target, context), False: evaluator_of_several(target, my, context)}
    while pending:
        expression, mine = pending.pop()
        here, other = (my, target) if mine else (target, my)
        if here is None:
            continue
        references = references_or_empty(expression, here)
        names = [(name, mine) for name in references.internal]
        names += [(name.rpartition(".")[2], not mine) for name in references.external]
        for name, own in names:
            place = here if own == mine else other
            if place is None or name not in place or (name.lower(), own) in seen:
                continue
            seen.add((name.lower(), own))
            values[f"{'MY' if own else 'TARGET'}.{name}"] = noted(value_in[own](place[name]))
            if own != mine:  # what it reads itself is among the references of the expression that reads it
                pending.append((place[name], own))
    return dict(sorted(values.items()))


Read = tuple[str, str]
"""A scope, and a name in small letters that is read there."""
EITHER, CALL = "", "()"
"""The scope of a name that has none, and that of a function."""


def mentioned(expression: Expression) -> set[Read]:
    """The names of attributes and of functions that an expression mentions, with the attributes' scopes."""
    names: set[Read] = set()
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, Attribute):
            base = node.base
            if isinstance(base, Attribute) and base.key in ("my", "target") and base.base is None and not base.absolute:
                names.add((base.key, node.key))
                continue
            names.add((EITHER, node.key))
        elif isinstance(node, Call):
            names.add((CALL, node.key))
        pending.extend(children(node))
    return names
