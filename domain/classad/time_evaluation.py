"""Evaluate expressions over time. Nodes are compiled as in ``scalar``, but results may be functions of time
(``time_functions``).

The time evaluator of a node takes the evaluation, which starts at an instant, and the ad that contains the expression.
Nodes without a time evaluator (nested ads, functions of expressions) are evaluated by ``scalar`` if all values that
they read are independent of the time; otherwise ``UnknownFuture`` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from .ad import ClassAd
from .context import Context
from .environment import ENTERING, MATCH_NAMES, MAX_DEPTH, Environment, Evaluator, lookup
from .function_registry import FUNCTIONS
from .operator_compilers import NOT_CONSTANT, constant_value
from .operators import BINARY, UNARY
from .scalar import evaluate_in
from .survey import SCOPE_LEAVERS, flatten_chain, survey
from .time_functions import END, TIME_FUNCTIONS, ConstantUntil, Moving, StepFunction, limit_validity
from .time_operators import apply_unary, combine, to_condition
from .tree import (
    Attribute,
    Binary,
    Call,
    Conditional,
    Constant,
    Expression,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
    children,
    scope_of,
)
from .values import ERROR, UNDEFINED, RelTime, truth

# Trees and chains of attributes that nest more deeply are not evaluated over time.
_MAX_NESTING = 100
MAX_FOLLOWED = 40


class UnknownFuture(Exception):
    """The future values of an expression are unknown."""


class TimeEvaluation(Environment):
    """An evaluation of an expression over time, starting at an instant."""

    # The instant until which the values returned by ``_now`` are valid.
    until = END
    depth_entered = 0
    moving_values: dict[str, Any] | None = None

    def __init__(
        self, my: ClassAd | None, target: ClassAd | None, context: Context, now: int, moving: Mapping[str, Moving]
    ) -> None:
        super().__init__(my, target, context)
        self.now = now
        self.my = my
        self.moving = moving
        self.followed: dict[tuple[int, int], tuple[Any, frozenset[tuple[int, str]] | None, ClassAd]] = {}
        self.time_independent: set[str] = set()  # names that do not depend on the time
        self.clock = StepFunction(0, 1, 1, 0, END)

    def attribute(self, key: str) -> Any:
        """Return the value of a moving attribute as a function of time."""
        if self.moving_values is None:
            self.moving_values = {}
        cached = self.moving_values.get(key)
        if cached is None:
            cached = self.moving[key].from_instant(self.now)
            if cached is None:
                raise UnknownFuture
            self.moving_values[key] = cached
        return cached

    def at_first_instant(self) -> Environment:
        """Return an environment at the first instant of this evaluation, for functions that need only the time."""
        context = self.context if self.context.now == self.now else self.context.replace(now=self.now)
        return Environment(None, None, context)


def time_evaluator_of(expression: Expression) -> Evaluator:
    """Return the time evaluator of an expression, which is cached on the expression."""
    compiled = expression._compiled
    if compiled is None or compiled.time_evaluator is None:
        facts = survey(expression)
        compiled = expression._compiled
        assert compiled is not None
        is_opaque = facts.nesting > _MAX_NESTING or facts.height > MAX_DEPTH // 2 or _may_leave_scope(expression)
        compiled.time_evaluator = compile_opaque(expression) if is_opaque else compile_over_time(expression)
    return compiled.time_evaluator


def _may_leave_scope(expression: Expression) -> bool:
    pending = [expression]
    while pending:
        node = pending.pop()
        if type(node) is Call and node.key in SCOPE_LEAVERS:
            return True
        pending.extend(children(node))
    return False


def _evaluate_attribute(env: Any, expression: Any, ad: ClassAd, key: str) -> Any:
    kind = type(expression)
    if kind is Literal:
        return expression.value
    if kind is ClassAd:
        raise UnknownFuture  # MY itself, as a value
    env.depth_entered += 1
    if env.depth_entered > MAX_FOLLOWED:
        raise UnknownFuture
    active = env.active
    if active is None:
        active = env.active = set()
    name = (id(ad._cells), key)
    if name in active:
        env.depth_entered -= 1
        env.circular += 1
        return UNDEFINED
    cached = env.followed.get((id(expression), id(ad)))
    if cached is not None and (cached[1] is None or cached[1] == active):
        env.depth_entered -= 1
        env.circular += cached[1] is not None
        return cached[0]
    env.deduct_steps(ENTERING)
    path, circular = frozenset(active), env.circular
    active.add(name)
    try:
        value = time_evaluator_of(expression)(env, ad)
        env.followed[id(expression), id(ad)] = value, None if env.circular == circular else path, ad
        return value
    finally:
        active.discard(name)
        env.depth_entered -= 1


def _look_up(env: Any, ad: ClassAd, key: str) -> Any:
    """Look up a name in an ad and outwards, and evaluate it over time; return ``_MISSING`` if no ad has it."""
    if ad is env.my and key in env.moving:
        return env.attribute(key)
    cell = ad._find(key)
    if cell is not None:
        expression = cell[1]
        return expression.value if type(expression) is Literal else _evaluate_attribute(env, expression, ad, key)
    attribute = lookup(env, ad, key)
    return _MISSING if attribute is None else _evaluate_attribute(env, attribute[0], attribute[1], key)


_MISSING = object()


def _attribute(node: Attribute) -> Evaluator:
    key, scope, is_opaque = node.key, scope_of(node), compile_opaque(node)
    if node.absolute or scope not in ("", "my", "target"):
        return is_opaque
    if scope == "":

        def unscoped(env: Any, ad: ClassAd | None) -> Any:
            if ad is None:
                return UNDEFINED
            value = _look_up(env, ad, key)
            if value is _MISSING:
                other = env.other_ad(ad)
                value = _MISSING if other is None else _look_up(env, other, key)
            return UNDEFINED if value is _MISSING else value

        return unscoped
    name, is_my = scope, scope == "my"

    def scoped(env: Any, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        if ad._find(name) is not None or ad._outer is not None:
            return is_opaque(env, ad)
        scope_ad = ad if is_my else env.other_ad(ad)
        if scope_ad is None:
            return UNDEFINED
        value = _look_up(env, scope_ad, key)
        return UNDEFINED if value is _MISSING else value

    return scoped


def compile_over_time(node: Any) -> Evaluator:
    kind = type(node)
    if kind is Parentheses:
        return compile_over_time(node.inner)
    rule = RULES.get(kind)
    return compile_opaque(node) if rule is None else rule(node)


def _literal(node: Literal) -> Evaluator:
    value = node.value
    return lambda env, ad: value


def compile_opaque(node: Expression) -> Evaluator:
    """Compile a node that has no time evaluator. It is evaluated once, and must not depend on the time."""

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        if may_depend_on_time(env, env.moving, node, env.time_independent):
            raise UnknownFuture
        return evaluate_in(node, env, ad)

    return evaluate_node


def _unary(node: Unary) -> Evaluator:
    op, compute, operand = node.op, UNARY[node.op], compile_over_time(node.operand)

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        value = operand(env, ad)
        return apply_unary(op, value, env.now) if type(value) in TIME_FUNCTIONS else compute(value)

    return evaluate_node


def _binary(node: Binary) -> Evaluator:
    op = node.op
    if op == "&&" or op == "||":
        return _connective([compile_over_time(part) for part in flatten_chain(node, 0)[0]], op == "||")
    if op == "[]":
        return compile_opaque(node)
    if op == "?:":
        return _elvis(compile_over_time(node.left), compile_over_time(node.right))
    left, compute = compile_over_time(node.left), BINARY[op]
    constant = constant_value(node.right)
    if constant is not NOT_CONSTANT:

        def with_constant(env: Any, ad: ClassAd | None) -> Any:
            a = left(env, ad)
            return combine(op, a, constant, env.now) if type(a) in TIME_FUNCTIONS else compute(a, constant)

        return with_constant
    right = compile_over_time(node.right)

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        a, b = left(env, ad), right(env, ad)
        if type(a) in TIME_FUNCTIONS or type(b) in TIME_FUNCTIONS:
            return combine(op, a, b, env.now)
        return compute(a, b)

    return evaluate_node


def _connective(parts: list[Evaluator], decisive: bool) -> Evaluator:
    """Compile ``&&`` or ``||``. While a part decides the value, the parts to its right are not evaluated."""
    neutral = not decisive

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        result: Any = neutral
        until = END
        for part in parts:
            value = part(env, ad)
            if value is neutral:
                continue
            if type(value) in TIME_FUNCTIONS:
                value = to_condition(value, env.now)
                until = min(until, value.until)
                value = value.value
            if value is UNDEFINED:
                result = UNDEFINED
                continue
            value = truth(value)
            if value is None:
                value = ERROR
            if value is not neutral:
                result = value
                break
        return result if until >= END else ConstantUntil(result, until)

    return evaluate_node


def _elvis(left: Evaluator, right: Evaluator) -> Evaluator:
    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        value = left(env, ad)
        if value is UNDEFINED:
            return right(env, ad)
        if type(value) is ConstantUntil and value.value is UNDEFINED:
            return limit_validity(right(env, ad), value.until)
        return value

    return evaluate_node


def compile_choice(test: Evaluator, then: Evaluator, otherwise: Evaluator) -> Evaluator:
    """Compile ``c ? a : b`` and ``ifThenElse(c, a, b)``."""

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        until = END
        test_value = test(env, ad)
        if type(test_value) in TIME_FUNCTIONS:
            test_value = to_condition(test_value, env.now)
            until, test_value = test_value.until, test_value.value
        if test_value is not UNDEFINED:
            test_value = truth(test_value)
        value = UNDEFINED if test_value is UNDEFINED else ERROR
        if test_value is True or test_value is False:
            value = then(env, ad) if test_value else otherwise(env, ad)
        return value if until >= END else limit_validity(value, until)

    return evaluate_node


def _conditional(node: Conditional) -> Evaluator:
    return compile_choice(*map(compile_over_time, (node.condition, node.then, node.otherwise)))


RULES: dict[type, Callable[[Any], Evaluator]] = {
    Literal: _literal,
    TimeLiteral: lambda node: lambda env, ad: evaluate_in(node, env, ad),
    Attribute: _attribute,
    Unary: _unary,
    Binary: _binary,
    Conditional: _conditional,
}


# Check whether an expression may depend on the clock, by its text and the texts of the attributes that it may read.

# These functions read the clock if they have no arguments.
CLOCK_FUNCTIONS = frozenset({"time", "currenttime", "timezoneoffset", "daytime", "abstime", "formattime"})
# The values of these functions depend on more than their arguments and the context.
UNPREDICTABLE_FUNCTIONS = frozenset({"random", "eval"})


def may_depend_on_time(env: Environment, moving: Container[str], expression: Expression, independent: set[str]) -> bool:
    """Check whether an expression may depend on the time. Every name is looked up in both ads, regardless of its scope.

    :param moving: the names of attributes that change with time
    :param independent: names known not to depend on the time; the expression's names are added if the result is False
    """
    pending: list[tuple[Any, bool]] = [(expression, False)]
    while pending:
        node, is_scope = pending.pop()
        kind = type(node)
        if kind is Call and _is_unpredictable(node):
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
            if node.key not in independent:
                independent.add(node.key)
                pending.extend((expression, False) for expression in _attribute_expressions(env, node.key))
            continue
        pending.extend((part, False) for part in children(node))
    return False


def _is_unpredictable(node: Call) -> bool:
    if node.key in CLOCK_FUNCTIONS and not node.arguments:
        return True
    return node.key in UNPREDICTABLE_FUNCTIONS or node.key not in FUNCTIONS


def _attribute_expressions(env: Environment, key: str) -> list[Expression]:
    expressions = []
    for start in (env.root, env.left, env.right):
        ad = start
        while ad is not None:
            cell = ad._find(key)
            if cell is not None:
                expressions.append(cell[1])
            ad = ad._outer
    return expressions
