"""Compile a tree into one closure, evaluated in one ad against one other.

A closure takes the environment of the whole evaluation and the ad in which the expression stands. Names are resolved at
run time by HTCondor's scopes (``lookup``); all else is settled at compile time. HTCondor allows 400 nested steps, an
operator or an attribute each. Only the step into an attribute counts at run time: the depth of a part within its
expression is known. An expression taller than the remaining depth is compiled a second time, carefully: every operator
checks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .context import DEFAULT, Context
from .environment import ENTERING, MAX_DEPTH, MOST_REMEMBERED, REMEMBERS_BELOW, Environment, Evaluator
from .survey import LEAVERS, STEPS, chain
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Compiled,
    Conditional,
    Expression,
    ListExpression,
    ListValue,
    Literal,
    Parentheses,
    Unary,
    children,
    operations,
)
from .values import ERROR, UNDEFINED, EvaluationError, EvaluationFailed

# One of HTCondor's 400 levels takes up to 15 calls here, more than Python allows by default.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))


def evaluate(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context | None) -> Any:
    """Evaluate an expression; see ``Expression.evaluate``."""
    env = Environment(my, target, DEFAULT if context is None else context)
    compiled = expression._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = prepare(expression)
    evaluator: Any = compiled.evaluator
    if compiled.height > MAX_DEPTH:
        evaluator = careful(expression, compiled)
    try:
        value = evaluator(env, my)
    except RecursionError:
        raise EvaluationFailed("the evaluation nests too deeply for this program's stack") from None
    finally:
        env.charge()
    kind = type(value)
    if kind is ListValue:
        return ListValue(value.expressions, value.scope, value.shared, context)
    # A copy without the scopes of the match: the caller may change it.
    return value.copy() if kind is ClassAd else value


operations.evaluate = evaluate


def evaluator_of_several(
    my: ClassAd | None, target: ClassAd | None, context: Context | None
) -> Callable[[Expression], Any]:
    """Return a function that evaluates expressions in one ad, with one budget for all; ``ERROR`` where one fails."""
    env = Environment(my, target, DEFAULT if context is None else context)

    def value_of(expression: Expression) -> Any:
        env.active = env.moved = env.randomness = None
        env.depth = MAX_DEPTH
        try:
            return evaluate_in(expression, env, my)
        except (EvaluationError, RecursionError):
            return ERROR
        finally:
            env.charge()

    return value_of


def evaluate_in(node: Expression, env: Environment, ad: ClassAd | None) -> Any:
    """Evaluate one node of a running evaluation, in a given ad."""
    compiled = node._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = prepare(node)
    env.spend(compiled.size)
    evaluator: Any = compiled.evaluator
    if compiled.height > env.depth:
        evaluator = careful(node, compiled)
    if env.steps > REMEMBERS_BELOW or env.moved is not None:
        return evaluator(env, ad)
    return repeated(env, node, ad, env.depth, evaluator)


def repeated(env: Environment, node: Expression, ad: ClassAd | None, depth: int, evaluator: Evaluator) -> Any:
    """Evaluate an expression that has ``depth`` levels left, or return what it was in this ad before.

    It would be the same, if it needs no more depth than there is and nothing in it is ``unrepeatable``: without a
    circular reference in it, no name on the way to it can be one that it reads; with one, the way must be the same.
    """
    if env.remembered is None:
        env.remembered = {}
    key = (id(node), id(ad))
    known = env.remembered.get(key)
    if known is not None and known[1] <= depth and known[2] in (None, env.active):
        env.lowest = min(env.lowest, depth - known[1])
        env.circular += known[2] is not None
        return known[0]
    before, circular, lowest = env.unrepeatable, env.circular, env.lowest
    env.lowest = max(0, depth - node._compiled.height)  # type: ignore[union-attr]
    value = evaluator(env, ad)
    if env.unrepeatable == before and env.moved is None and len(env.remembered) < MOST_REMEMBERED:
        active = None if env.circular == circular else frozenset(env.active or ())
        env.remembered[key] = value, depth - env.lowest, active, node, ad
    if env.unrepeatable != before or env.circular != circular:
        env.spend(10 * ENTERING)  # what must be evaluated each time is what can take long
    env.lowest = min(env.lowest, lowest)
    return value


def prepare(expression: Expression) -> Compiled:
    """Compile an expression; cache the result on it."""
    compiled = expression._compiled
    if compiled is None:
        compiled = expression._compiled = Compiled()
    first = _first_steps(expression)
    if first is not None:
        compiled.evaluator = first
    else:
        compiled.evaluator, compiled.height, compiled.size = _compile(expression, False)
    return compiled


def _first_steps(expression: Expression) -> Evaluator | None:
    """Return the evaluator of an expression whose first steps already nest too deep; None for all others."""
    node: Any = expression
    selecting = True
    for _ in range(MAX_DEPTH + 1):
        kind = type(node)
        selecting = selecting and kind is Attribute
        if kind is Binary:
            node = node.left
        elif kind is Attribute and node.base is not None:
            node = node.base
        elif kind is Parentheses:
            node = node.inner
        elif kind is Unary:
            node = node.operand
        elif kind is Conditional:
            node = node.condition
        else:
            return None
    return _error if selecting else _too_deep


def _error(env: Environment, ad: ClassAd | None) -> Any:
    # HTCondor makes an error value of a chain of selections that is too long.
    return ERROR


def _too_deep(env: Environment, ad: ClassAd | None) -> Any:
    raise EvaluationFailed(f"the expression nests more deeply than {MAX_DEPTH} levels")


def careful(expression: Expression, compiled: Compiled) -> Evaluator:
    """Return the evaluator that checks its depth at every operator."""
    if compiled.careful is None:
        compiled.careful = _compile(expression, True)[0]
    return compiled.careful


# -- scopes at run time ------------------------------------------------------------------------------------------------


def enter(env: Environment, thing: Any, ad: ClassAd, key: str, depth: int) -> Any:
    """Evaluate ``thing``, found under a name in ``ad``; a circular reference to the name is undefined."""
    kind = type(thing)
    if kind is Literal:
        return thing.value
    if kind is ClassAd:
        return thing
    if kind is AdExpression:
        nested = ClassAd._nested(thing.cells, ad)
        if env.steps > REMEMBERS_BELOW:
            return nested
        if env.remembered is None:
            env.remembered = {}
        return env.remembered.setdefault((id(thing), id(ad)), (nested, 0, None, thing, ad))[0]
    left = env.depth - depth
    if left <= 0:
        raise EvaluationFailed(f"the evaluation of {key} nests more deeply than {MAX_DEPTH} levels")
    active = env.active
    if active is None:
        active = env.active = set()
    mark = (id(ad._cells), key)
    if mark in active:
        env.circular += 1
        return UNDEFINED
    compiled = thing._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = prepare(thing)
    env.steps -= compiled.size + ENTERING
    if env.steps < 0:
        env.spend(0)
    evaluator: Any = compiled.evaluator
    if compiled.height >= left:
        evaluator = careful(thing, compiled)
    outer, moved = env.depth, env.moved
    env.depth, env.moved = left - 1, None
    active.add(mark)
    try:
        return evaluator(env, ad) if env.steps > REMEMBERS_BELOW else repeated(env, thing, ad, left - 1, evaluator)
    finally:
        active.discard(mark)
        env.depth, env.moved = outer, moved


def member(env: Environment, ad: ClassAd | None, members: ListValue, expression: Expression) -> Any:
    """Evaluate a list's member as HTCondor does: in the ad at hand; only ads and lists keep the scope of the list."""
    kind = type(expression)
    if kind is Literal:
        return expression.value  # type: ignore[attr-defined]
    if kind is AdExpression or kind is ListExpression:
        return evaluate_in(expression, env, members.scope)
    return evaluate_in(expression, env, ad if env.moved is None else env.moved)


# -- the compiler ------------------------------------------------------------------------------------------------------

# Builders make a node's evaluator from its depth and its parts' evaluators. The builders' modules register them here.
Builder = Callable[[Any, int, list[Evaluator]], Evaluator]
BUILDERS: dict[type, Builder] = {}
CAREFUL_BUILDERS: dict[type, Builder] = {}  # where every operator is to check its depth


def _compile(root: Expression, checking: bool) -> tuple[Evaluator, int, int]:
    """Return a tree's evaluator, its height in operators, and the number of its nodes.

    It loops instead of recursing: chains may be long.
    """
    order: list[tuple[Expression, int, tuple[Expression, ...]]] = []
    pending: list[tuple[Expression, int]] = [(root, 0)]
    height = 0
    while pending:
        node, depth = pending.pop()
        kind = type(node)
        if kind is Binary and node.op in ("&&", "||"):  # type: ignore[attr-defined]
            parts, depths = chain(node, depth)  # type: ignore[arg-type]
            order.append((node, depth + 1, parts))
            pending.extend(zip(parts, depths, strict=True))
            height = max(height, max(depths))
            continue
        if kind is Binary or kind is Unary or kind is Parentheses or kind is Conditional:
            depth += 1
            height = max(height, depth)
        elif kind is Attribute:
            height = max(height, depth + 1)
        # Members of lists and ads are evaluated on their own, on demand.
        parts = () if kind is ListExpression or kind is AdExpression else children(node)
        order.append((node, depth, parts))
        below = depth + 1 if kind is Attribute else depth  # the scope of a name is a separate step
        pending.extend((part, below) for part in parts)
    moving = any(type(node) is Call and node.key in LEAVERS for node, _, _ in order)
    builders = CAREFUL_BUILDERS if checking else BUILDERS
    done: dict[int, Evaluator] = {}
    for node, depth, parts in reversed(order):
        evaluator = builders[type(node)](node, depth, [done[id(part)] for part in parts])
        if moving and type(node) is Attribute:
            evaluator = _moved(evaluator)
        if checking and type(node) in STEPS:
            evaluator = _checked(evaluator, _needed(node, depth))
        done[id(node)] = evaluator
    return done[id(root)], height, len(order)


def _moved(evaluator: Evaluator) -> Evaluator:
    return lambda env, ad: evaluator(env, ad if env.moved is None else env.moved)


def _needed(node: Expression, depth: int) -> int:
    """Return the depth that a node needs: an attribute one step; a chain as much as its innermost part."""
    if isinstance(node, Attribute):
        return depth + (1 if node.base is None else 2)
    chained = isinstance(node, Binary) and node.op in ("&&", "||")
    return max(chain(node, depth - 1)[1]) if chained else depth  # type: ignore[arg-type]


def _checked(evaluator: Evaluator, depth: int) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if env.depth < depth:
            raise EvaluationFailed(f"the expression nests more deeply than {MAX_DEPTH} levels")
        return evaluator(env, ad)

    return run
