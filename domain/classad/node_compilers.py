"""Compile all nodes but attributes: literals, operators, choices, subscripts and calls."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd, as_expression, to_expression
from .environment import Environment, Evaluator, lookup
from .function_registry import FUNCTIONS
from .operator_compilers import constant_value, operation
from .operators import UNARY
from .scalar import BUILDERS, CAREFUL_BUILDERS, enter, evaluate, evaluate_in, member
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


def _parentheses(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    return parts[0]


def _unary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    compute = UNARY[node.op]
    (operand,) = parts
    return lambda env, ad: compute(operand(env, ad))


def _conditional(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    condition, then, otherwise = parts

    def run(env: Environment, ad: ClassAd | None) -> Any:
        chosen = condition(env, ad)
        if chosen is not True and chosen is not False:
            if chosen is UNDEFINED or chosen is ERROR:
                return chosen
            chosen = truth(chosen)
            if chosen is None:
                # HTCondor is not lazy then: a failure in a branch fails here.
                then(env, ad)
                otherwise(env, ad)
                return ERROR
        return then(env, ad) if chosen else otherwise(env, ad)

    return run


def _binary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    return _subscript(*parts) if node.op == "[]" else operation(node.op, parts, constant_value(node.right))


def _careful_binary(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    # Every operator is to check its depth, so none is folded at compile time.
    return _subscript(*parts) if node.op == "[]" else operation(node.op, parts, constant_value(node.right, 0))


def _subscript(left: Evaluator, right: Evaluator) -> Evaluator:
    """Index a list by an integer, an ad by a string; out of range is an error, a missing attribute undefined."""

    def run(env: Environment, ad: ClassAd | None) -> Any:
        base = left(env, ad)
        index = right(env, ad)
        if base is ERROR or index is ERROR:
            return ERROR
        if base is UNDEFINED or index is UNDEFINED:
            return UNDEFINED
        if type(base) is ListValue and type(index) is int:
            place = low32(index)
            if not 0 <= place < len(base.expressions):
                return ERROR
            try:
                return evaluate_in(base.expressions[place], env, base.scope)
            except EvaluationFailed:
                return ERROR
        if type(base) is ClassAd and type(index) is str:
            cell = base._find(lower(index))
            try:
                return UNDEFINED if cell is None else enter(env, cell[1], base, lower(index), 0)
            except EvaluationFailed:
                return ERROR
        return ERROR

    return run


# -- calls -----------------------------------------------------------------------------------------------------------


def bind(node: Call, arguments: list[Evaluator]) -> Evaluator:
    """Return the evaluator of a call. A name that is not built in may be an embedder's function, in the context."""
    function = FUNCTIONS.get(node.key)
    if function is None:
        key = node.key

        def own(env: Environment, ad: ClassAd | None) -> Any:
            body = env.context.functions.get(key)
            env.unrepeatable += 1
            return ERROR if body is None else _call_own(body, [argument(env, ad) for argument in arguments], ad)

        return own
    if not function.least <= len(arguments) <= function.most:
        return lambda env, ad: ERROR
    if function.lazy is not None:
        body = function.lazy

        def call_lazily(env: Environment, ad: ClassAd | None) -> Any:
            result = body(env, ad, arguments, node)
            env.pay((result,))
            return result

        return call_lazily
    compute = function.eager
    assert compute is not None

    def call(env: Environment, ad: ClassAd | None) -> Any:
        values = [argument(env, ad) for argument in arguments]
        env.pay(values)
        result = compute(env, ad, values)
        env.pay((result,))
        return result

    return call


def _call_own(function: Any, values: list[Any], ad: ClassAd | None) -> Any:
    """Call an embedder's function; it may return any Python value that an ad may hold."""
    result = function(*values)
    if type(result) in (float, bool):
        return result
    return evaluate(to_expression(result), ad, None, None)


def _call(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    return bind(node, parts)


BUILDERS.update(
    {
        Literal: _literal,
        Constant: _literal,
        TimeLiteral: _time_literal,
        Parentheses: _parentheses,
        Unary: _unary,
        Binary: _binary,
        Conditional: _conditional,
        Call: _call,
        ListExpression: _list,
        AdExpression: _ad,
    }
)
CAREFUL_BUILDERS.update({**BUILDERS, Binary: _careful_binary})


# Attribute references: look a name up by its scope, and evaluate what it names


def _project(env: Environment, ad: ClassAd | None, members: ListValue, key: str, depth: int) -> ListValue:
    """Evaluate ``list.name``: the name in each member."""
    out: list[Expression] = []
    for expression in members.expressions:
        value = _select(env, ad, member(env, ad, members, expression), key, depth)
        if type(value) is ListValue:
            out.append(ListExpression(tuple(value.expressions)))
        elif type(value) is ClassAd:
            out.append(AdExpression(value._cells))
        else:
            out.append(as_expression(value))
    env.unfold(out)
    return ListValue(out, None)


def _select(env: Environment, ad: ClassAd | None, base: Any, key: str, depth: int) -> Any:
    """Evaluate ``base.name``: look up from the ad ``base`` outwards, never in the other ad of the match."""
    kind = type(base)
    if kind is ClassAd:
        attribute = lookup(env, base, key)
        return UNDEFINED if attribute is None else enter(env, attribute[0], attribute[1], key, depth)
    if kind is ListValue:
        return _project(env, ad, base, key, depth)
    return UNDEFINED if base is UNDEFINED else ERROR


def _attribute(node: Any, depth: int, parts: list[Evaluator]) -> Evaluator:
    key = node.key
    if node.base is None:
        return _absolute(key, depth) if node.absolute else _unscoped(key, depth)
    (value_of_base,) = parts
    scope = scope_of(node)
    if scope in ("my", "target"):
        return _scoped(scope, key, depth, value_of_base)
    return lambda env, ad: _select(env, ad, value_of_base(env, ad), key, depth)


def _unscoped(key: str, depth: int) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        cell = ad._cells.get(key)
        if cell is not None:
            thing = cell[1]
            return thing.value if type(thing) is Literal else enter(env, thing, ad, key, depth)
        if ad._chain is not None:
            cell = ad._chain._cells.get(key)
            if cell is not None:
                thing = cell[1]
                return thing.value if type(thing) is Literal else enter(env, thing, ad, key, depth)
        attribute = lookup(env, ad, key)
        if attribute is None:
            other = env.other(ad)
            if other is None:
                return UNDEFINED
            cell = other._cells.get(key)
            if cell is not None:
                thing = cell[1]
                return thing.value if type(thing) is Literal else enter(env, thing, other, key, depth)
            attribute = lookup(env, other, key)
            if attribute is None:
                return UNDEFINED
        return enter(env, attribute[0], attribute[1], key, depth)

    return run


def _absolute(key: str, depth: int) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if env.root is None:
            if ad is None:
                raise EvaluationFailed(f".{key} needs an ad to be evaluated in")
            return UNDEFINED
        attribute = lookup(env, env.root, key)
        return UNDEFINED if attribute is None else enter(env, attribute[0], attribute[1], key, depth)

    return run


def _scoped(name: str, key: str, depth: int, base: Evaluator) -> Evaluator:
    """Look an attribute up in MY or TARGET, unless an attribute of that name hides the ad."""
    mine = name == "my"

    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        place = ad if mine else env.other(ad)
        if place is None or name in ad._cells or (ad._chain is not None and ad._chain._find(name) is not None):
            return _select(env, ad, base(env, ad), key, depth)
        cell = place._cells.get(key)
        if cell is None and place._chain is not None:
            cell = place._chain._find(key)
        if cell is None:
            return _select(env, ad, place, key, depth)
        thing = cell[1]
        return thing.value if type(thing) is Literal else enter(env, thing, place, key, depth)

    return run


BUILDERS[Attribute] = CAREFUL_BUILDERS[Attribute] = _attribute
