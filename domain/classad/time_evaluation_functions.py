"""Evaluate function calls over time."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd
from .context import Context
from .environment import Environment, Evaluator
from .function_registry import FUNCTIONS, ClassAdFunction, Needs
from .node_compilers import bind
from .operator_compilers import constant_value
from .syntax import ClassAdSyntaxError, parse_evaluated
from .time_evaluation import MAX_FOLLOWED, OF_NOW, RULES, Unknown, choice, compile_over_time, opaque, time_evaluator_of
from .time_functions import (
    END,
    TIME_FUNCTIONS,
    ConstantUntil,
    MonotoneFunction,
    StepFunction,
    constant_now,
    limited,
    mapped,
    monotone,
    value_at,
)
from .tree import AdExpression, Call, ListExpression, ListValue, Literal
from .unparse import to_string
from .values import ERROR

# Functions of one number that never fall.
_NEVER_FALL = frozenset({"int", "real", "floor", "ceil", "ceiling", "round"})


def _call(node: Call) -> Evaluator:
    key, count = node.key, len(node.arguments)
    if key in OF_NOW and count == 0:
        return _clock if key == "time" else _of_now(node)
    function = FUNCTIONS.get(key)
    if function is None or key == "random":
        return _unknown
    if not function.least <= count <= function.most:
        return lambda env, ad: ERROR
    if key == "eval":
        return _evaluated(compile_over_time(node.arguments[0]))
    if key == "debug":
        return compile_over_time(node.arguments[0])
    if key == "ifthenelse":
        return choice(*(compile_over_time(argument) for argument in node.arguments))
    if function.needs is Needs.PLACE:
        return opaque(node)
    if key in _NEVER_FALL:
        return _never_falling(node, [])
    if key == "quantize" and type(unit := constant_value(node.arguments[1])) in (int, float) and unit > 0:
        return _never_falling(node, [unit])
    if key in ("min", "max") and type(node.arguments[0]) is ListExpression:
        return _extreme(node, function, node.arguments[0])
    return _stepwise(node, function)


def _clock(env: Any, ad: ClassAd | None) -> Any:
    return env.clock


def _unknown(env: Any, ad: ClassAd | None) -> Any:
    raise Unknown


def _evaluated(argument: Evaluator) -> Evaluator:
    """Evaluate ``eval(text)`` over time, for as long as the text stays the same."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        f = constant_now(argument(env, ad), env.now)
        text = to_string(value_at(f, env.now))
        try:
            expression = parse_evaluated(text) if type(text) is str else None
        except ClassAdSyntaxError:
            expression = None
        result = ERROR
        if expression is not None:
            env.entered += 1
            if env.entered > MAX_FOLLOWED:
                raise Unknown
            result = time_evaluator_of(expression)(env, ad)
            env.entered -= 1
        return limited(result, f.until) if type(f) is ConstantUntil else result

    return run


def _of_now(node: Call) -> Evaluator:
    compute = bind(node, [])

    def run(env: Any, ad: ClassAd | None) -> Any:
        return ConstantUntil(compute(env.of_now(), ad), env.now + 1)

    return run


def _now(argument: Evaluator) -> Evaluator:
    """Return the value of now, for a function that takes values. The evaluation notes until when it holds."""

    def run(env: Any, ad: ClassAd | None) -> Any:
        f = constant_now(argument(env, ad), env.now)
        if type(f) is not ConstantUntil:
            return f
        env.until = min(env.until, f.until)
        return f.value

    return run


def _stepwise(node: Call, function: ClassAdFunction) -> Evaluator:
    """Evaluate a function of values: its result of now, until one of them changes."""
    members = function.members.get(len(node.arguments))
    arguments = [
        _members(argument)
        if place == members and type(argument) is ListExpression
        else _now(compile_over_time(argument))
        for place, argument in enumerate(node.arguments)
    ]
    compute = bind(node, arguments)

    def run(env: Any, ad: ClassAd | None) -> Any:
        before, env.until = env.until, END
        try:
            value = compute(env, ad)
            return value if env.until >= END else ConstantUntil(value, env.until)
        finally:
            env.until = before

    return run


def _members(node: ListExpression) -> Evaluator:
    """Return the members of now of a list whose members the function evaluates."""
    if any(type(part) in (ListExpression, AdExpression) for part in node.members):
        return _now(opaque(node))
    parts = [_now(compile_over_time(part)) for part in node.members]
    return lambda env, ad: ListValue(tuple(Literal(part(env, ad)) for part in parts), ad)


def _never_falling(node: Call, others: list[Any]) -> Evaluator:
    """Evaluate a function of one number that never falls, its other arguments being known."""
    operand = compile_over_time(node.arguments[0])
    function = FUNCTIONS[node.key].eager
    assert function is not None
    nowhere = Environment(None, None, Context())
    keeps_integers = node.key not in ("real", "quantize")

    def compute(value: Any) -> Any:
        return function(nowhere, None, [value, *others])

    def run(env: Any, ad: ClassAd | None) -> Any:
        f = operand(env, ad)
        if type(f) not in TIME_FUNCTIONS:
            return compute(f)
        return f if keeps_integers and type(f) is StepFunction else mapped(compute, f, env.now)

    return run


def _extreme(node: Call, function: ClassAdFunction, members: ListExpression) -> Evaluator:
    """Evaluate ``min({a, b})``, ``max({a, b})``: where all moving numbers go the same way, so does the result."""
    stepwise = _stepwise(node, function)
    if any(type(part) in (ListExpression, AdExpression) for part in members.members):
        return stepwise
    parts = [compile_over_time(part) for part in members.members]
    compute = function.eager
    assert compute is not None

    def run(env: Any, ad: ClassAd | None) -> Any:
        fs = [part(env, ad) for part in parts]
        moving = [f for f in fs if type(f) in (StepFunction, MonotoneFunction)]
        if not moving or len({f.rising for f in moving}) > 1:
            return stepwise(env, ad)
        until = min(f.until for f in fs if type(f) in TIME_FUNCTIONS)
        still = [f.value if type(f) is ConstantUntil else f for f in fs]

        def at(t: int) -> Any:
            values = tuple(Literal(value_at(f, t)) for f in still)
            return compute(env, ad, [ListValue(values, ad)])

        f = monotone(at, moving[0].rising, env.now, until)
        return stepwise(env, ad) if f is None else f

    return run


RULES[Call] = _call
