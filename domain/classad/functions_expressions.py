"""Built-in functions on unevaluated expressions: choices, evaluation, references, contexts of other ads."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd, as_expression
from .analysis import external_references
from .environment import Ad, Environment, lookup, root_of
from .function_registry import FunctionInputs, eager, lazy
from .functions_patterns import has_nonempty_match, matches
from .scalar import evaluate_in, evaluate_member
from .syntax import ClassAdSyntaxError, parse_evaluated
from .tree import Attribute, Constant, Expression, ListExpression, ListValue
from .unparse import to_string, unparse, unparse_pretty
from .values import ERROR, UNDEFINED, AbsTime, EvaluationFailed, RelTime, lower, truth


@lazy("ifthenelse", 3, needs=FunctionInputs.ARGUMENTS)
def _if_then_else(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    condition = arguments[0](env, ad)
    if condition is UNDEFINED:
        return UNDEFINED
    is_true = truth(condition)
    if is_true is None:
        return ERROR
    return arguments[1 if is_true else 2](env, ad)


@lazy("eval", 1)
def _eval(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
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
    env.deduct_steps(1 + len(text) // 4)
    try:
        return evaluate_in(expression, env, ad)
    finally:
        env.depth += 1


@lazy("debug", 1)
def _debug(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    value = arguments[0](env, ad)
    if env.context.trace is not None:
        env.unrepeatable += 1
        env.context.trace(f"Classad debug: {unparse(node.arguments[0])} --> {unparse(value)}")
    return value


def _resolve(env: Environment, ad: Ad, reference: Attribute) -> tuple[Any, Ad]:
    """Return the unevaluated expression of a reference (None: not found), and the ad in which the search ended."""
    if env.moved is not None:
        ad = env.moved
    if reference.base is None:
        first_ad = env.root if reference.absolute else ad
        if first_ad is None:
            return None, ad
        attribute = lookup(env, first_ad, reference.key)
        if attribute is None and not reference.absolute:
            other = env.other_ad(first_ad)
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
        first_ad = base
        attribute = lookup(env, base, reference.key)
    return (None, root_of(env, first_ad)) if attribute is None else attribute


@lazy("unparse", 1)
def _unparse(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    (reference,) = node.arguments
    if not isinstance(reference, Attribute):
        return ERROR
    cell = None if ad is None else ad._find(lower(unparse_pretty(reference)))
    return "" if cell is None else unparse_pretty(cell[1])


@lazy("unresolved", 1, 2)
def _unresolved(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """List the references in an attribute's expression that the ad does not define, or search them for a pattern."""
    reference = node.arguments[0]
    if not isinstance(reference, Attribute):
        return ERROR
    expression, found_in = _resolve(env, ad, reference)
    env.moved = found_in
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
    if isinstance(expression, Expression) and found_in is not None:
        try:
            names = external_references(expression, found_in, env)
        except EvaluationFailed:
            names = []
    names = [name[7:] if lower(name[:7]) == "target." else name for name in names]
    if pattern is None:
        return ",".join(names)
    return any(has_nonempty_match(env, pattern, name) for name in names)


def _evaluate_in_member(env: Environment, ad: Ad, expression: Any, members: ListValue, nested: Expression) -> Any:
    try:
        member_ad = evaluate_member(env, ad, members, nested)
    except EvaluationFailed:
        return ERROR
    if type(member_ad) is not ClassAd:
        return UNDEFINED if member_ad is UNDEFINED else ERROR
    if type(expression) is ClassAd:
        return expression
    inner = env.nested_environment(member_ad)
    try:
        return evaluate_in(expression, inner, member_ad)
    except EvaluationFailed:
        return ERROR
    finally:
        env.merge_counters(inner)


def _evaluate_in_each(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> tuple[list[Any] | None, Any]:
    """Evaluate the first argument in each ad of the second; if the second is not a list, return None and its value."""
    expression, list_node = node.arguments
    if isinstance(expression, Attribute):
        value, env.moved = _resolve(env, ad, expression)
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
    return [_evaluate_in_member(env, ad, expression, members, nested) for nested in members.expressions], members


@lazy("evalineachcontext", 2)
def _eval_in_each_context(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    values, members = _evaluate_in_each(env, ad, arguments, node)
    if values is None:
        return UNDEFINED if members is UNDEFINED else ERROR
    results = tuple(as_expression(value) for value in values)
    env.deduct_for_members(results)
    return ListValue(results, None, shared=True)


@lazy("countmatches", 2)
def _count_matches(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    values, members = _evaluate_in_each(env, ad, arguments, node)
    if values is None:
        return 0 if members is UNDEFINED else ERROR
    return sum(1 for value in values if truth(value))


# Built-in functions that test a value's exact type, without conversion.

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


for _name, _type in _TYPES.items():
    eager(_name, 1)(lambda env, ad, values, kind=_type: type(values[0]) is kind)


eager("isundefined", 1)(lambda env, ad, values: values[0] is UNDEFINED)
eager("iserror", 1)(lambda env, ad, values: values[0] is ERROR)
