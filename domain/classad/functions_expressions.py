"""Built-in functions on expressions rather than values: choices, evaluation, references, other ads' contexts."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd, as_expression
from .analysis import external_references
from .environment import Ad, Environment, lookup, root_of
from .function_registry import Needs, eager, lazy
from .functions_patterns import matches, matches_something
from .scalar import evaluate_in, member
from .syntax import ClassAdSyntaxError, parse_evaluated
from .tree import Attribute, Constant, Expression, ListExpression, ListValue
from .unparse import pretty, to_string, unparse
from .values import ERROR, UNDEFINED, AbsTime, EvaluationFailed, RelTime, lower, truth


@lazy("ifthenelse", 3, needs=Needs.ARGUMENTS)
def _if_then_else(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    condition = arguments[0](env, ad)
    if condition is UNDEFINED:
        return UNDEFINED
    chosen = truth(condition)
    if chosen is None:
        return ERROR
    return arguments[1 if chosen else 2](env, ad)


@lazy("eval", 1)
def _eval(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """Read a string as an expression and evaluate it in the ad at hand."""
    text = to_string(arguments[0](env, ad))
    if type(text) is not str:
        return ERROR
    try:
        expression = parse_evaluated(text)
    except ClassAdSyntaxError:
        return ERROR
    if env.depth <= 0:
        raise EvaluationFailed("eval() nests too deeply")
    env.depth -= 1
    env.spend(1 + len(text) // 4)
    try:
        return evaluate_in(expression, env, ad)
    finally:
        env.depth += 1


@lazy("debug", 1)
def _debug(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """Return the argument's value, and report it to the context's ``trace``."""
    value = arguments[0](env, ad)
    if env.context.trace is not None:
        env.unrepeatable += 1
        env.context.trace(f"Classad debug: {unparse(node.arguments[0])} --> {unparse(value)}")
    return value


def _found(env: Environment, ad: Ad, reference: Attribute) -> tuple[Any, Ad]:
    """Return what an attribute reference names, unevaluated (None: nothing), and the ad where the search ended."""
    if env.moved is not None:
        ad = env.moved
    if reference.base is None:
        start = env.root if reference.absolute else ad
        if start is None:
            return None, ad
        attribute = lookup(env, start, reference.key)
        if attribute is None and not reference.absolute:
            other = env.other(start)
            if other is not None:
                attribute = lookup(env, other, reference.key)
    else:
        try:
            base = evaluate_in(reference.base, env, ad)
        except EvaluationFailed:
            return None, ad
        if type(base) is ListValue:
            return base, ad
        if type(base) is not ClassAd:
            return None, ad
        start = base
        attribute = lookup(env, base, reference.key)
    return (None, root_of(env, start)) if attribute is None else attribute


@lazy("unparse", 1)
def _unparse(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """Return the text of an attribute's expression, in lines; "" where the ad at hand has none of that name."""
    (reference,) = node.arguments
    if not isinstance(reference, Attribute):
        return ERROR
    cell = None if ad is None else ad._find(lower(pretty(reference)))
    return "" if cell is None else pretty(cell[1])


@lazy("unresolved", 1, 2)
def _unresolved(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """List the references of an attribute's expression that the ad does not define, or search them for a pattern."""
    reference = node.arguments[0]
    if not isinstance(reference, Attribute):
        return ERROR
    expression, place = _found(env, ad, reference)
    env.moved = place
    if expression is None:
        return UNDEFINED
    pattern: str | None = None
    if len(arguments) == 2:
        pattern = arguments[1](env, ad)
        if type(pattern) is not str:
            raise EvaluationFailed("unresolved(): the second argument must be a string")
        if matches(env, pattern, "", "i") is ERROR:
            return ERROR
    names: list[str] = []
    if isinstance(expression, Expression) and place is not None:
        try:
            names = external_references(expression, place, env)
        except EvaluationFailed:
            names = []
    names = [name[7:] if lower(name[:7]) == "target." else name for name in names]
    if pattern is None:
        return ",".join(names)
    return any(matches_something(env, pattern, name) for name in names)


def _in_context(env: Environment, ad: Ad, expression: Any, members: ListValue, nested: Expression) -> Any:
    """Evaluate an expression in a member of a list of ads, as if it stood there."""
    try:
        place = member(env, ad, members, nested)
    except EvaluationFailed:
        return ERROR
    if type(place) is not ClassAd:
        return UNDEFINED if place is UNDEFINED else ERROR
    if type(expression) is ClassAd:
        return expression
    inner = env.inside(place)
    try:
        return evaluate_in(expression, inner, place)
    except EvaluationFailed:
        return ERROR
    finally:
        env.leave(inner)


def _each(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> tuple[list[Any] | None, Any]:
    """Evaluate the first argument in each ad of the second; where that is no list, return its value instead."""
    expression, list_node = node.arguments
    if isinstance(expression, Attribute):
        value, env.moved = _found(env, ad, expression)
        if value is not None:
            expression = Constant(value) if type(value) is ListValue else value
    if isinstance(list_node, ListExpression):
        members: Any = ListValue(list_node.members, ad)
    else:
        try:
            members = arguments[1](env, ad)
        except EvaluationFailed:
            members = ERROR
    if type(members) is not ListValue:
        return None, members
    return [_in_context(env, ad, expression, members, nested) for nested in members.expressions], members


@lazy("evalineachcontext", 2)
def _eval_in_each_context(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    values, members = _each(env, ad, arguments, node)
    if values is None:
        return UNDEFINED if members is UNDEFINED else ERROR
    made = tuple(as_expression(value) for value in values)
    env.unfold(made)
    return ListValue(made, None, shared=True)


@lazy("countmatches", 2)
def _count_matches(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    values, members = _each(env, ad, arguments, node)
    if values is None:
        return 0 if members is UNDEFINED else ERROR
    return sum(1 for value in values if truth(value))


# Built-in tests of a value's type: exact, without conversion.

_TYPES: dict[str, type] = {
    "isstring": str,
    "isinteger": int,
    "isreal": float,
    "isboolean": bool,
    "islist": ListValue,
    "isclassad": ClassAd,
    "isabstime": AbsTime,
    "isreltime": RelTime,
}


def _declare(name: str, kind: type) -> None:
    eager(name, 1)(lambda env, ad, values: type(values[0]) is kind)


for _name, _type in _TYPES.items():
    _declare(_name, _type)


eager("isundefined", 1)(lambda env, ad, values: values[0] is UNDEFINED)
eager("iserror", 1)(lambda env, ad, values: values[0] is ERROR)
