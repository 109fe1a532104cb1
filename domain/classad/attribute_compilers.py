"""Compile attribute references: look a name up by its scope, and evaluate what it names."""

from __future__ import annotations

from typing import Any

from .ad import ClassAd, as_expression
from .environment import Environment, Evaluator, lookup
from .scalar import BUILDERS, CAREFUL_BUILDERS, enter, member
from .tree import AdExpression, Attribute, Expression, ListExpression, ListValue, Literal, scope_of
from .values import ERROR, UNDEFINED, EvaluationFailed


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
    if scope == "my":
        return _in_my(key, depth, value_of_base)
    if scope == "target":
        return _in_target(key, depth, value_of_base)
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


def _in_my(key: str, depth: int, my: Evaluator) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None or "my" in ad._cells or (ad._chain is not None and ad._chain._find("my") is not None):
            return _select(env, ad, my(env, ad), key, depth)
        cell = ad._cells.get(key)
        if cell is None and ad._chain is not None:
            cell = ad._chain._find(key)
        if cell is None:
            return _select(env, ad, ad, key, depth)
        thing = cell[1]
        return thing.value if type(thing) is Literal else enter(env, thing, ad, key, depth)

    return run


def _in_target(key: str, depth: int, target: Evaluator) -> Evaluator:
    def run(env: Environment, ad: ClassAd | None) -> Any:
        if ad is None:
            return UNDEFINED
        other = env.other(ad)
        if other is None or "target" in ad._cells or (ad._chain is not None and ad._chain._find("target") is not None):
            return _select(env, ad, target(env, ad), key, depth)
        cell = other._cells.get(key)
        if cell is None and other._chain is not None:
            cell = other._chain._find(key)
        if cell is None:
            return _select(env, ad, other, key, depth)
        thing = cell[1]
        return thing.value if type(thing) is Literal else enter(env, thing, other, key, depth)

    return run


BUILDERS[Attribute] = CAREFUL_BUILDERS[Attribute] = _attribute
