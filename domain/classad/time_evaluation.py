"""Evaluate expressions over time: compiled as in ``scalar``, with functions of time for results (``time_functions``).

A node's time evaluator takes the evaluation (of one expression, from an instant on) and the ad in which the expression
stands. Nodes without one (nested ads, functions that read expressions) have the value that ``scalar`` gives, if nothing
that they may read depends on the time; else ``Unknown`` is raised.
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
from .survey import LEAVERS, chain, survey
from .time_functions import END, TIME_FUNCTIONS, ConstantUntil, Moving, StepFunction, limited
from .time_operators import combined, condition, negated
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

# Trees and attribute chains that nest more deeply than this are not evaluated over time.
_DEEPEST = 100
MAX_FOLLOWED = 40


class Unknown(Exception):
    """The further course of the value is not known."""


class TimeEvaluation(Environment):
    """One evaluation of an expression over time, from an instant on."""

    # Until when the values that ``_value`` returned hold.
    until = END
    entered = 0
    known: dict[str, Any] | None = None

    def __init__(
        self, my: ClassAd | None, target: ClassAd | None, context: Context, now: int, moving: Mapping[str, Moving]
    ) -> None:
        super().__init__(my, target, context)
        self.now = now
        self.mine = my
        self.moving = moving
        self.followed: dict[tuple[int, int], tuple[Any, frozenset[tuple[int, str]] | None, ClassAd]] = {}
        self.still: set[str] = set()  # names that do not depend on the time
        self.clock = StepFunction(0, 1, 1, 0, END)

    def attribute(self, key: str) -> Any:
        """Return a moving attribute as a function of time."""
        if self.known is None:
            self.known = {}
        known = self.known.get(key)
        if known is None:
            known = self.moving[key].from_instant(self.now)
            if known is None:
                raise Unknown
            self.known[key] = known
        return known

    def of_now(self) -> Environment:
        """Return an environment for the functions that need only the time: the instant from which it evaluates."""
        context = self.context if self.context.now == self.now else self.context.replace(now=self.now)
        return Environment(None, None, context)


# -- names -------------------------------------------------------------------------------------------------------------


def time_evaluator_of(expression: Expression) -> Evaluator:
    """Return an expression's evaluator over time; cache it on the expression."""
    compiled = expression._compiled
    if compiled is None or compiled.time_evaluator is None:
        facts = survey(expression)
        compiled = expression._compiled
        assert compiled is not None
        is_opaque = facts.nesting > _DEEPEST or facts.height > MAX_DEPTH // 2 or _leaves(expression)
        compiled.time_evaluator = opaque(expression) if is_opaque else compile_over_time(expression)
    return compiled.time_evaluator


def _leaves(expression: Expression) -> bool:
    """Return whether a part of an expression may change where later names are looked up (see ``LEAVERS``)."""
    pending = [expression]
    while pending:
        node = pending.pop()
        if type(node) is Call and node.key in LEAVERS:
            return True
        pending.extend(children(node))
    return False


def _enter(env: Any, thing: Any, ad: ClassAd, key: str) -> Any:
    """Evaluate over time what a name means in an ad, as ``scalar.enter`` does for now."""
    kind = type(thing)
    if kind is Literal:
        return thing.value
    if kind is ClassAd:
        raise Unknown  # MY itself, as a value
    env.entered += 1
    if env.entered > MAX_FOLLOWED:
        raise Unknown
    active = env.active
    if active is None:
        active = env.active = set()
    mark = (id(ad._cells), key)
    if mark in active:
        env.entered -= 1
        env.circular += 1
        return UNDEFINED
    known = env.followed.get((id(thing), id(ad)))
    if known is not None and (known[1] is None or known[1] == active):
        env.entered -= 1
        env.circular += known[1] is not None
        return known[0]
    env.spend(ENTERING)
    path, circular = frozenset(active), env.circular
    active.add(mark)
    try:
        f = time_evaluator_of(thing)(env, ad)
        env.followed[id(thing), id(ad)] = f, None if env.circular == circular else path, ad
        return f
    finally:
        active.discard(mark)
        env.entered -= 1


def _named(env: Any, ad: ClassAd, key: str) -> Any:
    """Evaluate a name over time, from an ad outwards; ``_MISSING`` where it is not found."""
    if ad is env.mine and key in env.moving:
        return env.attribute(key)
    cell = ad._find(key)
    if cell is not None:
        thing = cell[1]
        return thing.value if type(thing) is Literal else _enter(env, thing, ad, key)
    attribute = lookup(env, ad, key)
    return _MISSING if attribute is None else _enter(env, attribute[0], attribute[1], key)


_MISSING = object()


def _attribute(node: Attribute) -> Evaluator:
    key, scope, is_opaque = node.key, scope_of(node), opaque(node)
    if node.absolute or scope not in ("", "my", "target"):
        return is_opaque
    if scope == "":

        def unscoped(env: Any, ad: ClassAd | None) -> Any:
            if ad is None:
                return UNDEFINED
            f = _named(env, ad, key)
            if f is _MISSING:
                other = env.other(ad)
                f = _MISSING if other is None else _named(env, other, key)
            return UNDEFINED if f is _MISSING else f

        return unscoped
    name, mine = scope, scope == "my"

    def scoped(env: Any, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        if ad._find(name) is not None or ad._outer is not None:
            return is_opaque(env, ad)
        place = ad if mine else env.other(ad)
        if place is None:
            return UNDEFINED
        f = _named(env, place, key)
        return UNDEFINED if f is _MISSING else f

    return scoped


# -- operators ---------------------------------------------------------------------------------------------------------


def compile_over_time(node: Any) -> Evaluator:
    kind = type(node)
    if kind is Parentheses:
        return compile_over_time(node.inner)
    rule = RULES.get(kind)
    return opaque(node) if rule is None else rule(node)


def _literal(node: Literal) -> Evaluator:
    value = node.value
    return lambda env, ad: value


def opaque(node: Expression) -> Evaluator:
    """Evaluate for now a node that has no evaluator over time, if the time does not touch it."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        if sees_the_clock(env, env.moving, node, env.still):
            raise Unknown
        return evaluate_in(node, env, ad)

    return run


def _unary(node: Unary) -> Evaluator:
    op, compute, operand = node.op, UNARY[node.op], compile_over_time(node.operand)

    def run(env: Any, ad: ClassAd | None) -> Any:
        f = operand(env, ad)
        return negated(op, f, env.now) if type(f) in TIME_FUNCTIONS else compute(f)

    return run


def _binary(node: Binary) -> Evaluator:
    op = node.op
    if op == "&&" or op == "||":
        return _connective([compile_over_time(part) for part in chain(node, 0)[0]], op == "||")
    if op == "[]":
        return opaque(node)
    if op == "?:":
        return _elvis(compile_over_time(node.left), compile_over_time(node.right))
    left, compute = compile_over_time(node.left), BINARY[op]
    constant = constant_value(node.right)
    if constant is not NOT_CONSTANT:

        def with_constant(env: Any, ad: ClassAd | None) -> Any:
            a = left(env, ad)
            return combined(op, a, constant, env.now) if type(a) in TIME_FUNCTIONS else compute(a, constant)

        return with_constant
    right = compile_over_time(node.right)

    def run(env: Any, ad: ClassAd | None) -> Any:
        a, b = left(env, ad), right(env, ad)
        if type(a) in TIME_FUNCTIONS or type(b) in TIME_FUNCTIONS:
            return combined(op, a, b, env.now)
        return compute(a, b)

    return run


def _connective(parts: list[Evaluator], decisive: bool) -> Evaluator:
    """Evaluate ``&&`` and ``||``: parts to the right of a deciding one do not matter while it decides."""
    neutral = not decisive

    def run(env: Any, ad: ClassAd | None) -> Any:
        result: Any = neutral
        until = END
        for part in parts:
            value = part(env, ad)
            if value is neutral:
                continue
            if type(value) in TIME_FUNCTIONS:
                value = condition(value, env.now)
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

    return run


def _elvis(left: Evaluator, right: Evaluator) -> Evaluator:
    def run(env: Any, ad: ClassAd | None) -> Any:
        f = left(env, ad)
        if f is UNDEFINED:
            return right(env, ad)
        if type(f) is ConstantUntil and f.value is UNDEFINED:
            return limited(right(env, ad), f.until)
        return f

    return run


def choice(test: Evaluator, then: Evaluator, otherwise: Evaluator) -> Evaluator:
    """Evaluate ``c ? a : b`` and ``ifThenElse(c, a, b)``."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        until = END
        chosen = test(env, ad)
        if type(chosen) in TIME_FUNCTIONS:
            chosen = condition(chosen, env.now)
            until, chosen = chosen.until, chosen.value
        if chosen is not UNDEFINED:
            chosen = truth(chosen)
        f = UNDEFINED if chosen is UNDEFINED else ERROR
        if chosen is True or chosen is False:
            f = then(env, ad) if chosen else otherwise(env, ad)
        return f if until >= END else limited(f, until)

    return run


def _conditional(node: Conditional) -> Evaluator:
    return choice(compile_over_time(node.condition), compile_over_time(node.then), compile_over_time(node.otherwise))


RULES: dict[type, Callable[[Any], Evaluator]] = {
    Literal: _literal,
    TimeLiteral: lambda node: lambda env, ad: evaluate_in(node, env, ad),
    Attribute: _attribute,
    Unary: _unary,
    Binary: _binary,
    Conditional: _conditional,
}


# Tell whether an expression may see the clock, by its text and the texts of the attributes that it may read.

# Without arguments, these read the clock.
OF_NOW = frozenset({"time", "currenttime", "timezoneoffset", "daytime", "abstime", "formattime"})
# Their value depends on more than their arguments and the context.
UNTOLD = frozenset({"random", "eval"})


def sees_the_clock(env: Environment, moving: Container[str], expression: Expression, known: set[str]) -> bool:
    """Return whether an expression may depend on the time; every name is looked up in both ads, whatever its scope.

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
                pending.extend((meaning, False) for meaning in _meanings(env, node.key))
            continue
        pending.extend((part, False) for part in children(node))
    return False


def _untold(node: Call) -> bool:
    if node.key in OF_NOW and not node.arguments:
        return True
    return node.key in UNTOLD or node.key not in FUNCTIONS


def _meanings(env: Environment, key: str) -> list[Expression]:
    """Return the expressions under a name, in either ad or those around it."""
    meanings = []
    for start in (env.root, env.left, env.right):
        ad = start
        while ad is not None:
            cell = ad._find(key)
            if cell is not None:
                meanings.append(cell[1])
            ad = ad._outer
    return meanings
