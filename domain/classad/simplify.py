"""Simplify an expression whose attributes are partly known (partial evaluation), from the leaves up.

The caller's function ``resolve`` replaces attributes. Then constants are folded, and irrelevant operands of ``&&`` and
``||`` are removed. The value of the expression never changes, so members of lists and ads, and attributes of unknown
value, are retained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .context import DEFAULT
from .environment import MATCH_NAMES, MAX_STEPS, Environment
from .function_registry import FUNCTIONS, FunctionInputs
from .operators import BINARY, UNARY
from .scalar import evaluate_in
from .survey import is_indivisible
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
    return Simplifier(my).rewrite(expression)


operations.simplify = simplify


class Simplifier:
    """A simplifier of expressions in one ad, ``my``, whose attributes are known."""

    def __init__(self, my: ClassAd) -> None:
        self.my = my
        self.my_is_this_ad = my._find("my") is None
        self.active: set[str] = set()
        self.values: dict[str, Literal | None] = {}
        self.rewritten = 0  # the number of names rewritten for the current value
        self.circular_count = 0
        self.budget = folding_budget()

    def rewrite(self, expression: Expression) -> Expression:
        """Simplify an expression of the ad."""
        if is_indivisible(expression, self.my._find):
            return expression
        if not self.active:
            self.budget = folding_budget()
        return rewrite(expression, self.resolve, self.budget)

    def resolve(self, node: Attribute) -> Expression:
        """Return the value of a reference that only the ad can resolve; return any other reference unchanged."""
        key = node.key
        if node.absolute or key in MATCH_NAMES:
            return node
        if node.base is not None:
            if not self.my_is_this_ad or scope_of(node) != "my":
                return node
            if self.my._find(key) is None:
                return Literal(UNDEFINED)
        # The other ad may define a name without a scope that this ad lacks.
        return self.value(key) or node

    def value(self, key: str) -> Literal | None:
        """Return the value of an attribute if no target can change it; None otherwise."""
        cell = self.my._find(key)
        if cell is None:
            return None
        expression = cell[1]
        if isinstance(expression, Literal):
            return expression
        if key in self.active:
            self.circular_count += 1
            return Literal(UNDEFINED)
        if key in self.values:
            return self.values[key]
        if not self.active:
            self.rewritten = 0
        self.rewritten += 1
        if len(self.active) >= 50 or self.rewritten > MAX_REWRITTEN:
            return None
        circular_count = self.circular_count
        self.active.add(key)
        try:
            result = self.rewrite(expression)
        finally:
            self.active.discard(key)
        value = result if isinstance(result, Literal) else None
        if not self.active or self.circular_count == circular_count:
            # Do not cache a value that depends on names that are circular only inside another attribute.
            self.values[key] = value
        return value


MAX_REWRITTEN = 2000
"""The maximum number of names to rewrite for one value. Without circular references, each name is rewritten once."""


def folding_budget() -> Environment:
    """Return the budget for folding constants: a fraction of an evaluation's, because folding only saves work."""
    budget = Environment(None, None, DEFAULT)
    budget.steps = MAX_STEPS // 20
    return budget


def rewrite(root: Expression, resolve: Resolve, budget: Environment) -> Expression:
    """Return the tree with its attributes resolved and its constants folded."""
    return _rewrite(root, resolve, budget, _MAX_RECURSION)


# Trees are rewritten recursively down to this depth, and deeper parts in a loop, because operator chains may be long.
_MAX_RECURSION = 60


def _rewrite(node: Expression, resolve: Resolve, budget: Environment, levels: int) -> Expression:
    kind = type(node)
    if kind is Literal:
        return node
    if kind is Attribute:
        return resolve(node)  # type: ignore[arg-type]
    rule = _RULES.get(kind)
    if rule is None or (kind is Call and node.key in _NOT_REWRITTEN):  # type: ignore[attr-defined]
        return node
    if levels == 0:
        return _rewrite_in_loop(node, resolve, budget)
    parts = [_rewrite(part, resolve, budget, levels - 1) for part in children(node)]
    if kind is Call and any(type(part) is ListExpression for part in parts):
        parts = _rewrite_members(node, parts, resolve, budget, levels)
    return rule(node, parts, budget)


def _rewrite_members(node: Any, parts: Parts, resolve: Resolve, budget: Environment, levels: int) -> Parts:
    """Rewrite the members of a list argument if the function evaluates them; return all arguments."""
    function = FUNCTIONS.get(node.key)
    position = None if function is None else function.members.get(len(parts))
    list_literal = None if position is None else parts[position]
    if position is None or not isinstance(list_literal, ListExpression):
        return parts
    members = tuple(_rewrite(member, resolve, budget, levels - 1) for member in list_literal.members)
    return [*parts[:position], ListExpression(members), *parts[position + 1 :]]


def _rewrite_in_loop(root: Expression, resolve: Resolve, budget: Environment) -> Expression:
    order: list[tuple[Expression, tuple[Expression, ...]]] = []
    pending = [root]
    while pending:
        node = pending.pop()
        has_parts = type(node) in _RULES and not (type(node) is Call and node.key in _NOT_REWRITTEN)
        parts = children(node) if has_parts else ()
        order.append((node, parts))
        pending.extend(parts)
    rewritten: dict[int, Expression] = {}
    for node, parts in reversed(order):
        if parts:
            rewritten[id(node)] = _RULES[type(node)](node, [rewritten[id(part)] for part in parts], budget)
        else:
            rewritten[id(node)] = _rewrite(node, resolve, budget, 1)
    return rewritten[id(root)]


# Functions that use their arguments' unevaluated expressions, or the outside world.
_NOT_REWRITTEN = frozenset({"unparse", "unresolved", "evalineachcontext", "countmatches", "eval", "debug"})


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
    kind = type(value)
    if kind is str and len(value) > _MAX_FOLDED_STRING:  # type: ignore[arg-type]
        return otherwise  # every string built from this string would repeat it
    if kind is bool or kind is int or kind is float or kind is str or value is UNDEFINED or value is ERROR:
        return Literal(value)
    return otherwise


_MAX_FOLDED_STRING = 1000
"""The maximum length of a computed string that replaces a part of the expression."""


def _is_constant(node: Expression, budget: Environment) -> bool:
    pending = [node]
    while pending:
        current = pending.pop()
        budget.deduct_steps(1)
        if isinstance(current, TimeLiteral):
            if current.zoneless:
                return False
        elif isinstance(current, Call):
            function = FUNCTIONS.get(current.key)
            if function is None or function.needs is not FunctionInputs.ARGUMENTS:
                return False
        elif not isinstance(current, Literal | ListExpression | Binary | Unary | Parentheses | Conditional):
            return False
        pending.extend(children(current))
    return True


def _fold_constants(node: Expression, budget: Environment) -> Expression:
    try:
        return _literal_or(evaluate_in(node, budget, None), node) if _is_constant(node, budget) else node
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
    rebuilt = node if left is node.left and right is node.right else Binary(op, left, right)
    return _fold_constants(rebuilt, budget) if op == "[]" else rebuilt


def _connective(node: Binary, left: Expression, right: Expression, decisive: bool) -> Expression:
    """Simplify ``&&`` or ``||`` if an operand is known.

    A known left operand either is decisive, or is dropped and leaves the right operand (as a truth value). A neutral
    right operand only converts the left operand to a truth value, which is unnecessary for a condition.
    """
    if isinstance(left, Literal):
        value = left.value
        condition = truth(value)
        if condition is decisive:
            return Literal(decisive)
        if isinstance(right, Literal):
            return Literal(BINARY[node.op](value, right.value))
        if value is ERROR or (condition is None and value is not UNDEFINED):
            return Literal(ERROR)
        if condition is not None and _is_condition(right):
            return right
    is_neutral = isinstance(right, Literal) and truth(right.value) is (not decisive) and _is_condition(left)
    if is_neutral or (isinstance(left, Binary) and left.op == node.op and _is_final(left.right, decisive)):
        return left
    return node if left is node.left and right is node.right else Binary(node.op, left, right)


def _is_final(operand: Expression, decisive: bool) -> bool:
    """Check whether later operands cannot change the value, as in ``(x && false) && y``."""
    return isinstance(operand, Literal) and (truth(operand.value) is decisive or operand.value is ERROR)


_CONDITIONS = frozenset({"&&", "||", "<", "<=", ">", ">=", "==", "!=", "is", "isnt"})


def _is_condition(node: Expression) -> bool:
    """Check whether a node's value is always true, false, undefined or an error."""
    while isinstance(node, Parentheses):
        node = node.inner
    return (isinstance(node, Binary) and node.op in _CONDITIONS) or (isinstance(node, Unary) and node.op == "!")


def _conditional(node: Any, parts: Parts, budget: Environment) -> Expression:
    # A conditional is never an operand without parentheses, so the chosen branch needs no parentheses.
    condition, then, otherwise = parts
    if type(condition) is Literal:
        value = condition.value
        branch = _choose(value, then, otherwise)
        # If the condition is not a boolean (a string, for example), both branches are evaluated and may fail.
        is_invalid = value is not UNDEFINED and value is not ERROR and truth(value) is None
        if not is_invalid or (type(then) is Literal and type(otherwise) is Literal):
            return branch
    is_unchanged = condition is node.condition and then is node.then and otherwise is node.otherwise
    return node if is_unchanged else Conditional(condition, then, otherwise)


def _choose(value: object, then: Expression, otherwise: Expression) -> Expression:
    if value is UNDEFINED:
        return Literal(UNDEFINED)
    is_true = truth(value)
    return Literal(ERROR) if is_true is None else then if is_true else otherwise


def _call(node: Any, parts: Parts, budget: Environment) -> Expression:
    arguments = tuple(parts)
    if node.key == "ifthenelse" and len(arguments) == 3 and type(arguments[0]) is Literal:
        # Only an atom can replace a call without adding parentheses.
        branch = _choose(arguments[0].value, arguments[1], arguments[2])
        return branch if type(branch) in _ATOMS else Parentheses(branch)
    is_unchanged = all(new is old for new, old in zip(arguments, node.arguments, strict=True))
    return _fold_constants(node if is_unchanged else Call(node.name, arguments), budget)


_RULES: dict[type, Callable[[Any, Parts, Environment], Expression]] = {
    Binary: _binary,
    Parentheses: _parentheses,
    Unary: _unary,
    Conditional: _conditional,
    Call: _call,
}
