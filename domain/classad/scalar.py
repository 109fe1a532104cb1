"""Compile a tree into a closure that evaluates it for a pair of ads.

A closure takes the environment of the evaluation and the ad that contains the expression. Names are resolved at run
time in HTCondor's scopes (``lookup``); everything else is done at compile time. HTCondor allows 400 nested steps, of
operators and attributes. The depth of a part within its expression is known, so only steps into attributes are counted
at run time. For an expression taller than the remaining depth, a careful evaluator checks the depth at every operator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .context import DEFAULT, Context
from .environment import CACHES_BELOW, ENTERING, MAX_CACHED, MAX_DEPTH, Environment, Evaluator
from .survey import SCOPE_LEAVERS, STEP_NODES, flatten_chain
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

# Each of the 400 levels that HTCondor allows takes up to 15 Python calls, which exceeds Python's default limit.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))


def evaluate(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context | None) -> Any:
    """Evaluate an expression; see ``Expression.evaluate``."""
    env = Environment(my, target, DEFAULT if context is None else context)
    compiled = expression._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = compile_expression(expression)
    evaluator: Any = compiled.evaluator
    if compiled.height > MAX_DEPTH:
        evaluator = careful_evaluator(expression, compiled)
    try:
        value = evaluator(env, my)
    except RecursionError:
        raise EvaluationFailed("the evaluation nests too deeply for this program's stack") from None
    finally:
        env.charge()
    kind = type(value)
    if kind is ListValue:
        return ListValue(value.expressions, value.scope, value.shared, context)
    # The caller may change the ad, so return a copy, without the match's scopes.
    return value.copy() if kind is ClassAd else value


operations.evaluate = evaluate


def evaluator_of_several(
    my: ClassAd | None, target: ClassAd | None, context: Context | None
) -> Callable[[Expression], Any]:
    """Return a function that evaluates expressions in one ad with a common budget; ``ERROR`` if one fails."""
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
    """Evaluate a node in an ad, as part of a running evaluation."""
    compiled = node._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = compile_expression(node)
    env.deduct_steps(compiled.size)
    evaluator: Any = compiled.evaluator
    if compiled.height > env.depth:
        evaluator = careful_evaluator(node, compiled)
    if env.steps > CACHES_BELOW or env.moved is not None:
        return evaluator(env, ad)
    return cached_value(env, node, ad, env.depth, evaluator)


def cached_value(env: Environment, node: Expression, ad: ClassAd | None, depth: int, evaluator: Evaluator) -> Any:
    """Evaluate an expression with ``depth`` levels left, or return its cached value in this ad.

    A cached value is valid if enough levels are left and nothing in the expression is ``unrepeatable``. If the
    expression contains a circular reference, the value is valid only while the same attributes are being evaluated.
    """
    if env.cached is None:
        env.cached = {}
    key = (id(node), id(ad))
    cached = env.cached.get(key)
    if cached is not None and cached[1] <= depth and cached[2] in (None, env.active):
        env.lowest = min(env.lowest, depth - cached[1])
        env.circular += cached[2] is not None
        return cached[0]
    unrepeatable, circular, outer_lowest = env.unrepeatable, env.circular, env.lowest
    env.lowest = max(0, depth - node._compiled.height)  # type: ignore[union-attr]
    value = evaluator(env, ad)
    if env.unrepeatable == unrepeatable and env.moved is None and len(env.cached) < MAX_CACHED:
        active = None if env.circular == circular else frozenset(env.active or ())
        env.cached[key] = value, depth - env.lowest, active, node, ad
    if env.unrepeatable != unrepeatable or env.circular != circular:
        env.deduct_steps(
            10 * ENTERING
        )  # additional cost, because values that cannot be cached can make an evaluation slow
    env.lowest = min(env.lowest, outer_lowest)
    return value


def compile_expression(expression: Expression) -> Compiled:
    """Compile an expression; cache the result on it."""
    compiled = expression._compiled
    if compiled is None:
        compiled = expression._compiled = Compiled()
    first = _too_deep_at_start(expression)
    if first is not None:
        compiled.evaluator = first
    else:
        compiled.evaluator, compiled.height, compiled.size = _compile(expression, False)
    return compiled


def _too_deep_at_start(expression: Expression) -> Evaluator | None:
    """Return the evaluator of an expression whose first steps already nest too deeply, else None."""
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
    return _return_error if selecting else _raise_too_deep


def _return_error(env: Environment, ad: ClassAd | None) -> Any:
    # In HTCondor, a chain of selections that is too long evaluates to error.
    return ERROR


def _raise_too_deep(env: Environment, ad: ClassAd | None) -> Any:
    raise EvaluationFailed(f"the expression nests more deeply than {MAX_DEPTH} levels")


def careful_evaluator(expression: Expression, compiled: Compiled) -> Evaluator:
    """Return the careful evaluator of an expression, which checks the depth at every operator."""
    if compiled.careful is None:
        compiled.careful = _compile(expression, True)[0]
    return compiled.careful


def evaluate_attribute(env: Environment, expression: Any, ad: ClassAd, key: str, depth: int) -> Any:
    """Evaluate ``expression``, the value of the attribute ``key`` of ``ad``. A circular reference is undefined."""
    kind = type(expression)
    if kind is Literal:
        return expression.value
    if kind is ClassAd:
        return expression
    if kind is AdExpression:
        nested = ClassAd._nested(expression.cells, ad)
        if env.steps > CACHES_BELOW:
            return nested
        if env.cached is None:
            env.cached = {}
        return env.cached.setdefault((id(expression), id(ad)), (nested, 0, None, expression, ad))[0]
    levels = env.depth - depth
    if levels <= 0:
        raise EvaluationFailed(f"the evaluation of {key} nests more deeply than {MAX_DEPTH} levels")
    active = env.active
    if active is None:
        active = env.active = set()
    name = (id(ad._cells), key)
    if name in active:
        env.circular += 1
        return UNDEFINED
    compiled = expression._compiled
    if compiled is None or compiled.evaluator is None:
        compiled = compile_expression(expression)
    env.steps -= compiled.size + ENTERING
    if env.steps < 0:
        env.deduct_steps(0)
    evaluator: Any = compiled.evaluator
    if compiled.height >= levels:
        evaluator = careful_evaluator(expression, compiled)
    outer_depth, moved = env.depth, env.moved
    env.depth, env.moved = levels - 1, None
    active.add(name)
    try:
        return (
            evaluator(env, ad) if env.steps > CACHES_BELOW else cached_value(env, expression, ad, levels - 1, evaluator)
        )
    finally:
        active.discard(name)
        env.depth, env.moved = outer_depth, moved


def evaluate_member(env: Environment, ad: ClassAd | None, members: ListValue, expression: Expression) -> Any:
    """Evaluate a list member in the current ad, as HTCondor does. Only nested ads and lists keep their scope."""
    kind = type(expression)
    if kind is Literal:
        return expression.value  # type: ignore[attr-defined]
    if kind is AdExpression or kind is ListExpression:
        return evaluate_in(expression, env, members.scope)
    return evaluate_in(expression, env, ad if env.moved is None else env.moved)


# A builder takes a node, its depth and its parts' evaluators, and returns its evaluator. Other modules register them.
Builder = Callable[[Any, int, list[Evaluator]], Evaluator]
BUILDERS: dict[type, Builder] = {}
CAREFUL_BUILDERS: dict[type, Builder] = {}  # for evaluators that check the depth at every operator


def _compile(root: Expression, check_depth: bool) -> tuple[Evaluator, int, int]:
    """Return an expression's evaluator, its height in operators, and the number of its nodes, without recursion."""
    order: list[tuple[Expression, int, tuple[Expression, ...]]] = []
    pending: list[tuple[Expression, int]] = [(root, 0)]
    height = 0
    while pending:
        node, depth = pending.pop()
        kind = type(node)
        if kind is Binary and node.op in ("&&", "||"):  # type: ignore[attr-defined]
            parts, depths = flatten_chain(node, depth)  # type: ignore[arg-type]
            order.append((node, depth + 1, parts))
            pending.extend(zip(parts, depths, strict=True))
            height = max(height, max(depths))
            continue
        if kind is Binary or kind is Unary or kind is Parentheses or kind is Conditional:
            depth += 1
            height = max(height, depth)
        elif kind is Attribute:
            height = max(height, depth + 1)
        # Members of lists and ads are evaluated separately, on demand.
        parts = () if kind is ListExpression or kind is AdExpression else children(node)
        order.append((node, depth, parts))
        part_depth = depth + 1 if kind is Attribute else depth  # the scope of a name is an additional step
        pending.extend((part, part_depth) for part in parts)
    leaves_scope = any(type(node) is Call and node.key in SCOPE_LEAVERS for node, _, _ in order)
    builders = CAREFUL_BUILDERS if check_depth else BUILDERS
    evaluators: dict[int, Evaluator] = {}
    for node, depth, parts in reversed(order):
        evaluator = builders[type(node)](node, depth, [evaluators[id(part)] for part in parts])
        if leaves_scope and type(node) is Attribute:
            evaluator = _follow_moved_scope(evaluator)
        if check_depth and type(node) in STEP_NODES:
            evaluator = _check_depth(evaluator, _depth_needed(node, depth))
        evaluators[id(node)] = evaluator
    return evaluators[id(root)], height, len(order)


def _follow_moved_scope(evaluator: Evaluator) -> Evaluator:
    return lambda env, ad: evaluator(env, ad if env.moved is None else env.moved)


def _depth_needed(node: Expression, depth: int) -> int:
    if isinstance(node, Attribute):
        return depth + (1 if node.base is None else 2)
    is_chain = isinstance(node, Binary) and node.op in ("&&", "||")
    return max(flatten_chain(node, depth - 1)[1]) if is_chain else depth  # type: ignore[arg-type]


def _check_depth(evaluator: Evaluator, depth: int) -> Evaluator:
    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        if env.depth < depth:
            raise EvaluationFailed(f"the expression nests more deeply than {MAX_DEPTH} levels")
        return evaluator(env, ad)

    return evaluate_node
