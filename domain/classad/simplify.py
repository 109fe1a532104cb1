"""Simplify an expression, given a part of what it reads (partial evaluation), from the leaves up.

A caller's rule (``resolve``) replaces attributes; constants are folded, and connectives lose operands that no longer
matter. Results never change: lists and ads keep their members, and an attribute of uncertain value stays a name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .context import DEFAULT
from .environment import MATCH_NAMES, MAX_STEPS, Environment
from .function_registry import FUNCTIONS, Needs
from .operators import BINARY, UNARY
from .scalar import evaluate_in
from .survey import strays
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Conditional,
    Expression,
    ListExpression,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
    children,
    operations,
    scope_of,
)
from .values import ERROR, UNDEFINED, EvaluationFailed, truth

Resolve = Callable[[Attribute], Expression]
Parts = list[Expression]


def simplify(expression: Expression, my: ClassAd) -> Expression:
    """Simplify an expression; see ``Expression.simplify``."""
    return Known(my).rewrite(expression)


operations.simplify = simplify


class Known:
    """The known attributes of one ad, ``my``, for expressions in it."""

    def __init__(self, my: ClassAd) -> None:
        self.my = my
        self.scoped = my._find("my") is None
        self.active: set[str] = set()
        self.found: dict[str, Literal | None] = {}
        self.rewritten = 0  # names, on the way to one value
        self.circular = 0
        self.budget = folding_budget()

    def rewrite(self, expression: Expression) -> Expression:
        """Simplify an expression of the ad."""
        if strays(expression, self.my._find):
            return expression
        if not self.active:
            self.budget = folding_budget()
        return rewrite(expression, self.resolve, self.budget)

    def resolve(self, node: Attribute) -> Expression:
        """Return the value of a reference that stays within the ad; else return the reference."""
        key = node.key
        if node.absolute or key in MATCH_NAMES:
            return node
        if node.base is not None:
            if not self.scoped or scope_of(node) != "my":
                return node
            if self.my._find(key) is None:
                return Literal(UNDEFINED)
        # Without a scope, the other ad may have what this one lacks.
        return self.value(key) or node

    def value(self, key: str) -> Literal | None:
        """Return the attribute's value where no target can change it."""
        cell = self.my._find(key)
        if cell is None:
            return None
        expression = cell[1]
        if isinstance(expression, Literal):
            return expression
        if key in self.active:
            self.circular += 1
            return Literal(UNDEFINED)
        if key in self.found:
            return self.found[key]
        if not self.active:
            self.rewritten = 0
        self.rewritten += 1
        if len(self.active) >= 50 or self.rewritten > MOST_REWRITTEN:
            return None
        circular = self.circular
        self.active.add(key)
        try:
            result = self.rewrite(expression)
        finally:
            self.active.discard(key)
        value = result if isinstance(result, Literal) else None
        if not self.active or self.circular == circular:
            # Within another attribute's evaluation it may differ where some names are circular there.
            self.found[key] = value
        return value


MOST_REWRITTEN = 2000
"""The names that one value may take to rewrite: without circular references, each is rewritten once."""


def folding_budget() -> Environment:
    """Return the budget for folding constants, which only saves work: a fraction of an evaluation's."""
    budget = Environment(None, None, DEFAULT)
    budget.steps = MAX_STEPS // 20
    return budget


def rewrite(root: Expression, resolve: Resolve, budget: Environment) -> Expression:
    """Return the tree with its attributes resolved and its constants folded."""
    return _rewritten(root, resolve, budget, _DEEPEST)


# Trees are rewritten by recursion up to this depth, deeper ones by a loop: chains of operators may be long.
_DEEPEST = 60


def _rewritten(node: Expression, resolve: Resolve, budget: Environment, levels: int) -> Expression:
    kind = type(node)
    if kind is Literal:
        return node
    if kind is Attribute:
        return resolve(node)  # type: ignore[arg-type]
    rule = _RULES.get(kind)
    if rule is None or (kind is Call and node.key in _SYNTACTIC):  # type: ignore[attr-defined]
        return node
    if levels == 0:
        return _in_a_loop(node, resolve, budget)
    parts = [_rewritten(part, resolve, budget, levels - 1) for part in children(node)]
    if kind is Call and any(type(part) is ListExpression for part in parts):
        parts = _with_members(node, parts, resolve, budget, levels)
    return rule(node, parts, budget)


def _with_members(node: Any, parts: Parts, resolve: Resolve, budget: Environment, levels: int) -> Parts:
    """Return the arguments of a function that evaluates its list's members, rewritten member by member."""
    function = FUNCTIONS.get(node.key)
    at = None if function is None else function.members.get(len(parts))
    written = None if at is None else parts[at]
    if at is None or not isinstance(written, ListExpression):
        return parts
    members = tuple(_rewritten(member, resolve, budget, levels - 1) for member in written.members)
    return [*parts[:at], ListExpression(members), *parts[at + 1 :]]


def _in_a_loop(root: Expression, resolve: Resolve, budget: Environment) -> Expression:
    order: list[tuple[Expression, tuple[Expression, ...]]] = []
    pending = [root]
    while pending:
        node = pending.pop()
        inner = type(node) in _RULES and not (type(node) is Call and node.key in _SYNTACTIC)
        parts = children(node) if inner else ()
        order.append((node, parts))
        pending.extend(parts)
    done: dict[int, Expression] = {}
    for node, parts in reversed(order):
        if parts:
            done[id(node)] = _RULES[type(node)](node, [done[id(part)] for part in parts], budget)
        else:
            done[id(node)] = _rewritten(node, resolve, budget, 1)
    return done[id(root)]


# Functions that read their arguments as written, or the outside world.
_SYNTACTIC = frozenset({"unparse", "unresolved", "evalineachcontext", "countmatches", "eval", "debug"})


def _parentheses(node: Any, parts: Parts, budget: Environment) -> Expression:
    (inner,) = parts
    if type(inner) in _ATOMS:
        return inner
    return node if inner is node.inner else Parentheses(inner)


def _unary(node: Any, parts: Parts, budget: Environment) -> Expression:
    (operand,) = parts
    if type(operand) is Literal:
        return _literal_or(UNARY[node.op](operand.value), Unary(node.op, operand))
    return node if operand is node.operand else Unary(node.op, operand)


_ATOMS = frozenset({Literal, Attribute, Call, Parentheses, TimeLiteral, ListExpression, AdExpression})


def _literal_or(value: object, otherwise: Expression) -> Expression:
    """Return a value as a literal, where it has one that evaluates to itself."""
    kind = type(value)
    if kind is str and len(value) > _LONGEST:  # type: ignore[arg-type]
        return otherwise  # it would come again in each of the strings that are made of it
    if kind is bool or kind is int or kind is float or kind is str or value is UNDEFINED or value is ERROR:
        return Literal(value)
    return otherwise


_LONGEST = 1000
"""Characters of a computed string that becomes a part of the expression."""


def _constant(node: Expression, budget: Environment) -> bool:
    """Return whether a node means the same everywhere: literals, lists of them, and computations on them."""
    pending = [node]
    while pending:
        here = pending.pop()
        budget.spend(1)
        if isinstance(here, TimeLiteral):
            if here.zoneless:
                return False
        elif isinstance(here, Call):
            function = FUNCTIONS.get(here.key)
            if function is None or function.needs is not Needs.ARGUMENTS:
                return False
        elif not isinstance(here, Literal | ListExpression | Binary | Unary | Parentheses | Conditional):
            return False
        pending.extend(children(here))
    return True


def _computed(node: Expression, budget: Environment) -> Expression:
    try:
        return _literal_or(evaluate_in(node, budget, None), node) if _constant(node, budget) else node
    except (EvaluationFailed, RecursionError):
        return node


def _binary(node: Any, parts: Parts, budget: Environment) -> Expression:
    op = node.op
    left, right = parts
    if op == "&&" or op == "||":
        return _connective(node, left, right, op == "||")
    if type(left) is Literal:
        if op == "?:":
            return right if left.value is UNDEFINED else left
        if type(right) is Literal and op != "[]":
            return _literal_or(BINARY[op](left.value, right.value), Binary(op, left, right))
    new = node if left is node.left and right is node.right else Binary(op, left, right)
    return _computed(new, budget) if op == "[]" else new


def _connective(node: Binary, left: Expression, right: Expression, decisive: bool) -> Expression:
    """Simplify ``&&`` or ``||``, of which one operand may be known.

    Known on the left, it decides or leaves the right one (as a truth value). Known and neutral on the right, it only
    turns the left one into a truth value, which a condition already is.
    """
    if isinstance(left, Literal):
        known = left.value
        condition = truth(known)
        if condition is decisive:
            return Literal(decisive)
        if isinstance(right, Literal):
            return Literal(BINARY[node.op](known, right.value))
        if known is ERROR or (condition is None and known is not UNDEFINED):
            return Literal(ERROR)
        if condition is not None and _is_condition(right):
            return right
    neutral = isinstance(right, Literal) and truth(right.value) is (not decisive) and _is_condition(left)
    if neutral or (isinstance(left, Binary) and left.op == node.op and _ends(left.right, decisive)):
        return left
    return node if left is node.left and right is node.right else Binary(node.op, left, right)


def _ends(operand: Expression, decisive: bool) -> bool:
    """Return whether nothing after this operand can matter, whatever precedes it: (x && false) && y is x && false."""
    return isinstance(operand, Literal) and (truth(operand.value) is decisive or operand.value is ERROR)


_CONDITIONS = frozenset({"&&", "||", "<", "<=", ">", ">=", "==", "!=", "is", "isnt"})


def _is_condition(node: Expression) -> bool:
    """Return whether a node's value can only be true, false, undefined or an error."""
    while isinstance(node, Parentheses):
        node = node.inner
    return (isinstance(node, Binary) and node.op in _CONDITIONS) or (isinstance(node, Unary) and node.op == "!")


def _conditional(node: Any, parts: Parts, budget: Environment) -> Expression:
    # No operator may stand beside it in its place: the chosen branch needs no parentheses.
    condition, then, otherwise = parts
    if type(condition) is Literal:
        chosen = _chosen(condition.value, then, otherwise)
        # With a condition that is no boolean, a string say, both branches are evaluated: keep them where they may fail.
        none = condition.value is not UNDEFINED and condition.value is not ERROR and truth(condition.value) is None
        if not none or (type(then) is Literal and type(otherwise) is Literal):
            return chosen
    same = condition is node.condition and then is node.then and otherwise is node.otherwise
    return node if same else Conditional(condition, then, otherwise)


def _chosen(value: object, then: Expression, otherwise: Expression) -> Expression:
    if value is UNDEFINED:
        return Literal(UNDEFINED)
    chosen = truth(value)
    return Literal(ERROR) if chosen is None else then if chosen else otherwise


def _call(node: Any, parts: Parts, budget: Environment) -> Expression:
    arguments = tuple(parts)
    if node.key == "ifthenelse" and len(arguments) == 3 and type(arguments[0]) is Literal:
        # In the place of a call only an atom needs no parentheses.
        chosen = _chosen(arguments[0].value, arguments[1], arguments[2])
        return chosen if type(chosen) in _ATOMS else Parentheses(chosen)
    same = all(new is old for new, old in zip(arguments, node.arguments, strict=True))
    return _computed(node if same else Call(node.name, arguments), budget)


_RULES: dict[type, Callable[[Any, Parts, Environment], Expression]] = {
    Binary: _binary,
    Parentheses: _parentheses,
    Unary: _unary,
    Conditional: _conditional,
    Call: _call,
}
