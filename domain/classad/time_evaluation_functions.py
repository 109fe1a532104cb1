"""Evaluate function calls over time."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd
from .context import Context
from .environment import Environment, Evaluator
from .function_registry import FUNCTIONS, ClassAdFunction, FunctionInputs
from .node_compilers import bind_call
from .operator_compilers import constant_value
from .syntax import ClassAdSyntaxError, parse_evaluated
from .time_evaluation import (
    CLOCK_FUNCTIONS,
    MAX_FOLLOWED,
    RULES,
    UnknownFuture,
    compile_choice,
    compile_opaque,
    compile_over_time,
    time_evaluator_of,
)
from .time_functions import (
    END,
    TIME_FUNCTIONS,
    ConstantUntil,
    MonotoneFunction,
    StepFunction,
    apply_monotone,
    as_monotone,
    hold_until_change,
    limit_validity,
    value_at,
)
from .tree import AdExpression, Call, ListExpression, ListValue, Literal
from .unparse import to_string
from .values import ERROR

# Functions of one number that never decrease.
_NONDECREASING = frozenset({"int", "real", "floor", "ceil", "ceiling", "round"})


def _call(node: Call) -> Evaluator:
    key, count = node.key, len(node.arguments)
    if key in CLOCK_FUNCTIONS and count == 0:
        return _clock if key == "time" else _clock_function(node)
    function = FUNCTIONS.get(key)
    if function is None or key == "random":
        return _raise_unknown
    if not function.least <= count <= function.most:
        return lambda env, ad: ERROR
    if key == "eval":
        return _eval_call(compile_over_time(node.arguments[0]))
    if key == "debug":
        return compile_over_time(node.arguments[0])
    if key == "ifthenelse":
        return compile_choice(*(compile_over_time(argument) for argument in node.arguments))
    if function.needs is FunctionInputs.PLACE:
        return compile_opaque(node)
    if key in _NONDECREASING:
        return _nondecreasing(node, [])
    if key == "quantize" and type(unit := constant_value(node.arguments[1])) in (int, float) and unit > 0:
        return _nondecreasing(node, [unit])
    if key in ("min", "max") and type(node.arguments[0]) is ListExpression:
        return _extreme(node, function, node.arguments[0])
    return _constant_between_changes(node, function)


def _clock(env: Any, ad: ClassAd | None) -> Any:
    return env.clock


def _raise_unknown(env: Any, ad: ClassAd | None) -> Any:
    raise UnknownFuture


def _eval_call(argument: Evaluator) -> Evaluator:
    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        value = hold_until_change(argument(env, ad), env.now)
        text = to_string(value_at(value, env.now))
        try:
            expression = parse_evaluated(text) if type(text) is str else None
        except ClassAdSyntaxError:
            expression = None
        result = ERROR
        if expression is not None:
            env.depth_entered += 1
            if env.depth_entered > MAX_FOLLOWED:
                raise UnknownFuture
            result = time_evaluator_of(expression)(env, ad)
            env.depth_entered -= 1
        return limit_validity(result, value.until) if type(value) is ConstantUntil else result

    return evaluate_node


def _clock_function(node: Call) -> Evaluator:
    compute = bind_call(node, [])

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        return ConstantUntil(compute(env.at_first_instant(), ad), env.now + 1)

    return evaluate_node


def _now(argument: Evaluator) -> Evaluator:
    """Compile an argument to its current value; ``until`` records how long this value is valid."""

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        value = hold_until_change(argument(env, ad), env.now)
        if type(value) is not ConstantUntil:
            return value
        env.until = min(env.until, value.until)
        return value.value

    return evaluate_node


def _constant_between_changes(node: Call, function: ClassAdFunction) -> Evaluator:
    members = function.members.get(len(node.arguments))
    arguments = [
        _members(argument)
        if index == members and type(argument) is ListExpression
        else _now(compile_over_time(argument))
        for index, argument in enumerate(node.arguments)
    ]
    compute = bind_call(node, arguments)

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        outer_until, env.until = env.until, END
        try:
            value = compute(env, ad)
            return value if env.until >= END else ConstantUntil(value, env.until)
        finally:
            env.until = outer_until

    return evaluate_node


def _members(node: ListExpression) -> Evaluator:
    if any(type(part) in (ListExpression, AdExpression) for part in node.members):
        return _now(compile_opaque(node))
    parts = [_now(compile_over_time(part)) for part in node.members]
    return lambda env, ad: ListValue(tuple(Literal(part(env, ad)) for part in parts), ad)


def _nondecreasing(node: Call, other_arguments: list[Any]) -> Evaluator:
    operand = compile_over_time(node.arguments[0])
    function = FUNCTIONS[node.key].eager
    assert function is not None
    empty_environment = Environment(None, None, Context())
    keeps_integers = node.key not in ("real", "quantize")

    def compute(value: Any) -> Any:
        return function(empty_environment, None, [value, *other_arguments])

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        value = operand(env, ad)
        if type(value) not in TIME_FUNCTIONS:
            return compute(value)
        return value if keeps_integers and type(value) is StepFunction else apply_monotone(compute, value, env.now)

    return evaluate_node


def _extreme(node: Call, function: ClassAdFunction, members: ListExpression) -> Evaluator:
    stepwise = _constant_between_changes(node, function)
    if any(type(part) in (ListExpression, AdExpression) for part in members.members):
        return stepwise
    parts = [compile_over_time(part) for part in members.members]
    compute = function.eager
    assert compute is not None

    def evaluate_node(env: Any, ad: ClassAd | None) -> Any:
        results = [part(env, ad) for part in parts]
        moving = [value for value in results if type(value) in (StepFunction, MonotoneFunction)]
        if not moving or len({value.is_rising for value in moving}) > 1:
            return stepwise(env, ad)
        until = min(value.until for value in results if type(value) in TIME_FUNCTIONS)
        operands = [value.value if type(value) is ConstantUntil else value for value in results]

        def at(t: int) -> Any:
            results = tuple(Literal(value_at(value, t)) for value in operands)
            return compute(env, ad, [ListValue(results, ad)])

        value = as_monotone(at, moving[0].is_rising, env.now, until)
        return stepwise(env, ad) if value is None else value

    return evaluate_node


RULES[Call] = _call
