"""Determine the depth of an expression, and whether it can be split."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .environment import MAX_DEPTH
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Compiled,
    Conditional,
    Expression,
    Literal,
    Parentheses,
    Unary,
    children,
    scope_of,
)


class Survey(NamedTuple):
    """The height of an expression, and properties that may prevent splitting it."""

    scope_leaving: tuple[Attribute, ...]  # the first arguments of ``SCOPE_LEAVERS``
    is_random: bool  # whether the expression uses random numbers
    height: int  # in HTCondor's steps
    nesting: int  # the depth of nodes, where a chain counts as one level


# After a call of these functions, HTCondor looks up the expression's later names in the ad where the call found its
# first argument. (This is a bug in HTCondor, but it affects results.)
SCOPE_LEAVERS = frozenset({"unresolved", "countmatches", "evalineachcontext"})


def is_indivisible(expression: Expression, has: Callable[[str], object]) -> bool:
    """Check whether an expression cannot be split because its parts depend on the evaluation of earlier parts.

    Reasons are a call of ``SCOPE_LEAVERS`` that may leave the expression's ad, a random number, or a height close to
    the limit.

    :param has: returns whether the expression's ad has an attribute
    """
    properties = survey(expression)
    if properties.is_random or properties.height > MAX_DEPTH - 100:
        return True
    for reference in properties.scope_leaving:
        if scope_of(reference) not in ("", "my") or reference.absolute or not has(reference.key) or has("my"):
            return True
    return False


def survey(expression: Expression) -> Survey:
    """Return the survey of an expression, which is cached on the expression."""
    compiled = expression._compiled
    if compiled is None:
        compiled = expression._compiled = Compiled()
    properties: Survey | None = compiled.survey
    if properties is None:
        properties = compiled.survey = _survey(expression)
    return properties


def _survey(expression: Expression) -> Survey:
    scope_leaving: list[Attribute] = []
    is_random = False
    height = nesting = 0
    pending: list[tuple[Expression, int, int]] = [(expression, 0, 0)]
    while pending:
        node, depth, level = pending.pop()
        kind = type(node)
        if depth > height:
            height = depth
        if level > nesting:
            nesting = level
        if kind is Literal:
            continue
        if kind is Attribute:
            if node.base is not None:  # type: ignore[attr-defined]
                pending.append((node.base, depth + 1, level + 1))  # type: ignore[attr-defined]
            continue
        if kind is Binary and node.op in ("&&", "||"):  # type: ignore[attr-defined]
            parts, depths = flatten_chain(node, depth)  # type: ignore[arg-type]
            pending.extend((part, part_depth, level + 1) for part, part_depth in zip(parts, depths, strict=True))
            continue
        if kind is Call:
            if node.key == "random":  # type: ignore[attr-defined]
                is_random = True
            elif node.key in SCOPE_LEAVERS:  # type: ignore[attr-defined]
                scope_leaving += [part for part in children(node)[:1] if isinstance(part, Attribute)]
        elif kind in STEP_NODES:
            depth += 1
        elif kind is AdExpression:
            continue
        pending.extend((part, depth, level + 1) for part in children(node))
    return Survey(tuple(scope_leaving), is_random, height, nesting)


STEP_NODES = frozenset({Binary, Unary, Parentheses, Conditional, Attribute})  # each adds one level to the depth


def flatten_chain(node: Binary, depth: int) -> tuple[tuple[Expression, ...], list[int]]:
    """Return the operands of ``a && b && c``, and the depth of each."""
    op = node.op
    operands: list[Expression] = []
    depths: list[int] = []
    current: Expression = node
    while type(current) is Binary and current.op == op:
        depth += 1
        operands.append(current.right)
        depths.append(depth)
        current = current.left
    operands.append(current)
    depths.append(depth)
    operands.reverse()
    depths.reverse()
    return tuple(operands), depths
