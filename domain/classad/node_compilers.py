"""Compile the nodes of expressions to evaluators."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd, as_expression, to_expression
from .environment import Environment, Evaluator, lookup
from .function_registry import FUNCTIONS
from .operator_compilers import compile_operation, constant_value
from .operators import UNARY
from .scalar import BUILDERS, CAREFUL_BUILDERS, evaluate, evaluate_attribute, evaluate_in, evaluate_member
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Conditional,
    Constant,
    Expression,
    ListExpression,
    ListValue,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
    scope_of,
)
from .values import ERROR, UNDEFINED, AbsTime, EvaluationFailed, RelTime, low32, lower, truth


def _literal(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    value = node.value
    return lambda env, ad: value


def _time_literal(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    time = node.time
    if type(time) is RelTime:
        seconds = time.seconds
        return lambda env, ad: seconds
    if not node.zoneless:
        return lambda env, ad: time

    def local(env: Environment, ad: ClassAd | None) -> Any:
        offset = env.context.utc_offset(env.context.from_standard_time(time.seconds))
        return AbsTime(time.seconds - offset, offset)

    return local


def _list(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    members = node.members
    return lambda env, ad: ListValue(members, ad)


def _ad(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    cells = node.cells
    return lambda env, ad: ClassAd._nested(cells, ad)


def _unary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    compute = UNARY[node.op]
    (operand,) = parts
    return lambda env, ad: compute(operand(env, ad))


def _conditional(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    condition, then, otherwise = parts

    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        value = condition(env, ad)
        if value is not True and value is not False:
            if value is UNDEFINED or value is ERROR:
                return value
            value = truth(value)
            if value is None:
                # In this case, HTCondor evaluates both branches and fails if either fails.
                then(env, ad)
                otherwise(env, ad)
                return ERROR
        return then(env, ad) if value else otherwise(env, ad)

    return evaluate_node


def _binary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    return _subscript(*parts) if node.op == "[]" else compile_operation(node.op, parts, constant_value(node.right))


def _careful_binary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    # Every operator must check its depth, so constants are not folded at compile time.
    return _subscript(*parts) if node.op == "[]" else compile_operation(node.op, parts, constant_value(node.right, 0))


def _subscript(left: Evaluator, right: Evaluator) -> Evaluator:
    """Index a list by an integer or an ad by a string; out of range is an error, a missing attribute is undefined."""

    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        base = left(env, ad)
        index = right(env, ad)
        if base is ERROR or index is ERROR:
            return ERROR
        if base is UNDEFINED or index is UNDEFINED:
            return UNDEFINED
        if type(base) is ListValue and type(index) is int:
            index = low32(index)
            if not 0 <= index < len(base.expressions):
                return ERROR
            try:
                return evaluate_in(base.expressions[index], env, base.scope)
            except EvaluationFailed:
                return ERROR
        if type(base) is ClassAd and type(index) is str:
            cell = base._find(lower(index))
            try:
                return UNDEFINED if cell is None else evaluate_attribute(env, cell[1], base, lower(index), 0)
            except EvaluationFailed:
                return ERROR
        return ERROR

    return evaluate_node


def bind_call(node: Call, arguments: list[Evaluator]) -> Evaluator:
    """Return the evaluator of a call to a built-in function or a function of the context."""
    function = FUNCTIONS.get(node.key)
    if function is None:
        key = node.key

        def call_context_function(env: Environment, ad: ClassAd | None) -> Any:
            python_function = env.context.functions.get(key)
            env.unrepeatable += 1
            if python_function is None:
                return ERROR
            return _call_python(python_function, [argument(env, ad) for argument in arguments], ad)

        return call_context_function
    if not function.least <= len(arguments) <= function.most:
        return lambda env, ad: ERROR
    if function.lazy is not None:
        implementation = function.lazy

        def call_lazily(env: Environment, ad: ClassAd | None) -> Any:
            result = implementation(env, ad, arguments, node)
            env.deduct_for_values((result,))
            return result

        return call_lazily
    compute = function.eager
    assert compute is not None

    def call(env: Environment, ad: ClassAd | None) -> Any:
        values = [argument(env, ad) for argument in arguments]
        env.deduct_for_values(values)
        result = compute(env, ad, values)
        env.deduct_for_values((result,))
        return result

    return call


def _call_python(function: Any, values: list[Any], ad: ClassAd | None) -> Any:
    result = function(*values)
    if type(result) in (float, bool):
        return result
    return evaluate(to_expression(result), ad, None, None)


BUILDERS.update(
    {
        Literal: _literal,
        Constant: _literal,
        TimeLiteral: _time_literal,
        Parentheses: lambda node, depth, parts: parts[0],
        Unary: _unary,
        Binary: _binary,
        Conditional: _conditional,
        Call: lambda node, depth, parts: bind_call(node, parts),
        ListExpression: _list,
        AdExpression: _ad,
    }
)
CAREFUL_BUILDERS.update({**BUILDERS, Binary: _careful_binary})


# Attribute references: look up a name by its scope, and evaluate its expression


def _select_each(env: Environment, ad: ClassAd | None, members: ListValue, key: str, depth: int) -> ListValue:
    values: list[Expression] = []
    for expression in members.expressions:
        value = _select(env, ad, evaluate_member(env, ad, members, expression), key, depth)
        if type(value) is ListValue:
            values.append(ListExpression(tuple(value.expressions)))
        elif type(value) is ClassAd:
            values.append(AdExpression(value._cells))
        else:
            values.append(as_expression(value))
    env.deduct_for_members(values)
    return ListValue(values, None)


def _select(env: Environment, ad: ClassAd | None, base: Any, key: str, depth: int) -> Any:
    """Evaluate ``base.name``: look up the name in ``base`` and outwards, not in the other ad of the match."""
    kind = type(base)
    if kind is ClassAd:
        attribute = lookup(env, base, key)
        return UNDEFINED if attribute is None else evaluate_attribute(env, attribute[0], attribute[1], key, depth)
    if kind is ListValue:
        return _select_each(env, ad, base, key, depth)
    return UNDEFINED if base is UNDEFINED else ERROR


def _attribute(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    key = node.key
    if node.base is None:
        return _absolute_attribute(key, depth) if node.absolute else _unscoped_attribute(key, depth)
    (value_of_base,) = parts
    scope = scope_of(node)
    if scope in ("my", "target"):
        return _scoped_attribute(scope, key, depth, value_of_base)
    return lambda env, ad: _select(env, ad, value_of_base(env, ad), key, depth)


def _unscoped_attribute(key: str, depth: int) -> Evaluator:
    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        cell = ad._cells.get(key)
        if cell is not None:
            node = cell[1]
            return node.value if type(node) is Literal else evaluate_attribute(env, node, ad, key, depth)
        if ad._chain is not None:
            cell = ad._chain._cells.get(key)
            if cell is not None:
                node = cell[1]
                return node.value if type(node) is Literal else evaluate_attribute(env, node, ad, key, depth)
        attribute = lookup(env, ad, key)
        if attribute is None:
            other = env.other_ad(ad)
            if other is None:
                return UNDEFINED
            cell = other._cells.get(key)
            if cell is not None:
                node = cell[1]
                return node.value if type(node) is Literal else evaluate_attribute(env, node, other, key, depth)
            attribute = lookup(env, other, key)
            if attribute is None:
                return UNDEFINED
        return evaluate_attribute(env, attribute[0], attribute[1], key, depth)

    return evaluate_node


def _absolute_attribute(key: str, depth: int) -> Evaluator:
    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        if env.root is None:
            if ad is None:
                raise EvaluationFailed(f".{key} cannot be evaluated without an ad")
            return UNDEFINED
        attribute = lookup(env, env.root, key)
        return UNDEFINED if attribute is None else evaluate_attribute(env, attribute[0], attribute[1], key, depth)

    return evaluate_node


def _scoped_attribute(name: str, key: str, depth: int, base: Evaluator) -> Evaluator:
    """Look up an attribute in MY or TARGET, unless an attribute called MY or TARGET hides the ad."""
    is_my = name == "my"

    def evaluate_node(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        scope_ad = ad if is_my else env.other_ad(ad)
        if scope_ad is None or name in ad._cells or (ad._chain is not None and ad._chain._find(name) is not None):
            return _select(env, ad, base(env, ad), key, depth)
        cell = scope_ad._cells.get(key)
        if cell is None and scope_ad._chain is not None:
            cell = scope_ad._chain._find(key)
        if cell is None:
            return _select(env, ad, scope_ad, key, depth)
        node = cell[1]
        return node.value if type(node) is Literal else evaluate_attribute(env, node, scope_ad, key, depth)

    return evaluate_node


BUILDERS[Attribute] = CAREFUL_BUILDERS[Attribute] = _attribute
