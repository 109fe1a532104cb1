"""Survey an expression: its depth, and whether it can be split."""

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
    """The height of an expression, and the parts that forbid splitting it."""

    leaving: tuple[Attribute, ...]  # attributes for which it searches without evaluating them
    draws: bool  # whether it draws random numbers
    height: int  # in HTCondor's steps
    nesting: int  # how deep it nests, chains counting once


# HTCondor's evaluation stays in the ad where these functions found their first argument: later names of the same
# expression are looked up there. (A fault of HTCondor on which results depend.)
LEAVERS = frozenset({"unresolved", "countmatches", "evalineachcontext"})


def strays(expression: Expression, has: Callable[[str], object]) -> bool:
    """Return whether an expression cannot be split because its parts depend on what was evaluated before them.

    So it is where a call of ``LEAVERS`` may leave the ad of the expression, which has the attributes ``has``; with
    random numbers; and where only the whole tells whether it is too tall.
    """
    facts = survey(expression)
    if facts.draws or facts.height > MAX_DEPTH - 100:
        return True
    for reference in facts.leaving:
        if scope_of(reference) not in ("", "my") or reference.absolute or not has(reference.key) or has("my"):
            return True
    return False


def survey(expression: Expression) -> Survey:
    """Survey an expression; cache the result on it."""
    compiled = expression._compiled
    if compiled is None:
        compiled = expression._compiled = Compiled()
    facts: Survey | None = compiled.survey
    if facts is None:
        facts = compiled.survey = _survey(expression)
    return facts


def _survey(expression: Expression) -> Survey:
    leaving: list[Attribute] = []
    draws = False
    height = nesting = 0
    pending: list[tuple[Expression, int, int]] = [(expression, 0, 0)]
    while pending:
        node, depth, nested = pending.pop()
        kind = type(node)
        if depth > height:
            height = depth
        if nested > nesting:
            nesting = nested
        if kind is Literal:
            continue
        if kind is Attribute:
            if node.base is not None:  # type: ignore[attr-defined]
                pending.append((node.base, depth + 1, nested + 1))  # type: ignore[attr-defined]
            continue
        if kind is Binary and node.op in ("&&", "||"):  # type: ignore[attr-defined]
            parts, depths = chain(node, depth)  # type: ignore[arg-type]
            pending.extend((part, below, nested + 1) for part, below in zip(parts, depths, strict=True))
            continue
        if kind is Call:
            if node.key == "random":  # type: ignore[attr-defined]
                draws = True
            elif node.key in LEAVERS:  # type: ignore[attr-defined]
                leaving += [part for part in children(node)[:1] if isinstance(part, Attribute)]
        elif kind in STEPS:
            depth += 1
        elif kind is AdExpression:
            continue
        pending.extend((part, depth, nested + 1) for part in children(node))
    return Survey(tuple(leaving), draws, height, nesting)


STEPS = frozenset({Binary, Unary, Parentheses, Conditional, Attribute})  # each one level of HTCondor's depth


def chain(node: Binary, depth: int) -> tuple[tuple[Expression, ...], list[int]]:
    """Return the operands of ``a && b && c``, and how deep each lies."""
    op = node.op
    operands: list[Expression] = []
    depths: list[int] = []
    here: Expression = node
    while type(here) is Binary and here.op == op:
        depth += 1
        operands.append(here.right)
        depths.append(depth)
        here = here.left
    operands.append(here)
    depths.append(depth)
    operands.reverse()
    depths.reverse()
    return tuple(operands), depths
