"""Tell whether an expression may see the clock, by its text and the texts of the attributes that it may read."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from .environment import MATCH_NAMES, Environment
from .function_registry import FUNCTIONS
from .tree import Attribute, Call, Constant, Expression, children
from .values import RelTime

# Without arguments, these read the clock.
OF_NOW = frozenset({"time", "currenttime", "timezoneoffset", "daytime", "abstime", "formattime"})
# Their value depends on more than their arguments and the context.
UNTOLD = frozenset({"random", "eval"})


def sees_the_clock(env: Environment, moving: Container[str], expression: Expression, known: set[str]) -> bool:
    """Tell whether an expression may depend on the time; every name is looked up in both ads, whatever its scope.

    :param known: names that were looked at before and do not depend on the time; where it returns False, more of them
    """
    pending: list[tuple[Any, bool]] = [(expression, False)]
    while pending:
        node, is_scope = pending.pop()
        kind = type(node)
        if kind is Call and _untold(node):
            return True
        if kind is Constant and type(node.value) is not RelTime:
            return True  # a list or an ad with another scope
        if kind is Attribute:
            if node.base is not None:
                pending.append((node.base, True))
            if node.key in moving or node.key == "currenttime":
                return True
            if node.key in MATCH_NAMES and not is_scope:
                return True
            if node.key not in known:
                known.add(node.key)
                pending.extend((meant, False) for meant in _meanings(env, node.key))
            continue
        pending.extend((part, False) for part in children(node))
    return False


def _untold(node: Call) -> bool:
    if node.key in OF_NOW and not node.arguments:
        return True
    return node.key in UNTOLD or node.key not in FUNCTIONS


def _meanings(env: Environment, key: str) -> list[Expression]:
    """Return the expressions under a name, in either ad or those around it."""
    found = []
    for start in (env.root, env.left, env.right):
        ad = start
        while ad is not None:
            cell = ad._find(key)
            if cell is not None:
                found.append(cell[1])
            ad = ad._outer
    return found
