"""Find an expression's references, and evaluate a condition clause by clause."""

from __future__ import annotations

from typing import Any, NamedTuple

from .ad import ClassAd
from .context import Context
from .environment import ENTERING, Environment, lookup, root_of
from .scalar import evaluate_in
from .tree import AdExpression, Attribute, Binary, Expression, Parentheses, References, Value, children, operations
from .unparse import unparse
from .values import ERROR, UNDEFINED, EvaluationError, EvaluationFailed, lower, to_bytes


def references(expression: Expression, ad: ClassAd | None) -> References:
    """Return the attributes that an expression reads (see ``Expression.references``).

    :raises EvaluationError: if HTCondor would fail, too, because a scope is not an ad or the search nests too deeply
    """
    root = ClassAd() if ad is None else ad
    search = _Search(root, Environment(root, None, Context()), internal=True)
    try:
        search.search(expression, root, _MAX_DEPTH)
        return References(search.sorted_names(), tuple(external_references(expression, root)))
    except RecursionError:
        raise EvaluationFailed(f"{_abbreviate(expression)} refers to itself") from None


operations.references = references


def value_or_error(node: Expression, my: ClassAd | None, target: ClassAd | None, context: Context | None) -> Value:
    """Return the value of an expression, or ERROR if the evaluation fails."""
    try:
        return node.evaluate(my, target, context)
    except EvaluationError:
        return ERROR


def references_or_empty(expression: Expression, ad: ClassAd) -> References:
    """Return the references of an expression; empty if the search fails, for example because of circular references."""
    try:
        return references(expression, ad)
    except EvaluationError:
        return References((), ())


def external_references(expression: Expression, ad: ClassAd, env: Environment | None = None) -> list[str]:
    """Return the references in an expression that the ad does not define."""
    search = _Search(ad, Environment(ad, None, Context()) if env is None else env, internal=False)
    search.search(expression, ad, _MAX_DEPTH)
    return list(search.sorted_names())


def _abbreviate(value: Any) -> str:
    text = unparse(value)
    return text if len(text) <= 60 else text[:57] + "..."


_MAX_DEPTH = 400


class _Search:
    def __init__(self, root: ClassAd, env: Environment, internal: bool) -> None:
        self.root = root
        self.env = env
        self.internal = internal
        self.names: dict[str, str] = {}
        self.current_ad = root
        # The attributes already searched: the depth that each needs, and the objects, to keep their ids in use.
        self.visited: dict[tuple[int, int, bool], tuple[int, Any, ClassAd]] = {}
        self.lowest_depth = _MAX_DEPTH

    def sorted_names(self) -> tuple[str, ...]:
        return tuple(self.names[key] for key in sorted(self.names, key=to_bytes))

    def add_name(self, name: str) -> None:
        self.names.setdefault(lower(name), name)

    def search(self, expression: Expression, ad: ClassAd | None, depth: int, scope: bool = False) -> None:
        """Search an expression of ``ad`` (None: the current ad). Skip ad literals in the ``scope`` of a name."""
        if ad is not None:
            self.current_ad = ad
        pending = [expression]
        while pending:
            node = pending.pop()
            self.env.deduct_steps(1)
            if isinstance(node, Attribute):
                self._attribute(node, depth, scope)
            elif not (scope and isinstance(node, AdExpression)):
                pending.extend(reversed(children(node)))

    def _attribute(self, node: Attribute, depth: int, scope: bool) -> None:
        scope_ad = self.env.root if node.absolute else self.current_ad
        if node.base is not None:
            if self.internal:
                self.search(node.base, None, depth, scope=True)
            value = evaluate_in(node.base, self.env, self.current_ad)
            if type(value) is not ClassAd:
                if value is not UNDEFINED:
                    raise EvaluationFailed(f"cannot resolve {_abbreviate(node)}: {_abbreviate(value)} is not an ad")
                if not self.internal:
                    self.add_name(unparse(node.base) + "." + node.name)
                return
            scope_ad = value
        if scope_ad is None:
            raise EvaluationFailed(f"cannot resolve {_abbreviate(node)}: there is no outermost ad")
        attribute = lookup(self.env, scope_ad, node.key)
        if attribute is None:
            if not self.internal:
                self.add_name(node.name)
            else:
                # HTCondor does not return to the previous ad, but resolves later references from this ad.
                self.current_ad = root_of(self.env, scope_ad) or scope_ad
            return
        cell, owner = attribute
        if self.internal and owner is self.env.root and owner._find(node.key) is not None:
            self.add_name(node.name)
        if depth <= 0:
            raise EvaluationFailed(f"the references of {_abbreviate(node)} nest too deeply")
        self.env.deduct_steps(ENTERING)
        previous = self.visited.get((id(cell), id(owner), scope))
        if previous is not None and previous[0] <= depth:
            self.lowest_depth = min(self.lowest_depth, depth - previous[0])
            return
        previous_ad, lowest_depth, self.lowest_depth = self.current_ad, self.lowest_depth, depth - 1
        if not isinstance(cell, ClassAd):
            self.search(cell, owner, depth - 1, scope)
        elif not scope:
            for _, expression in cell._cells.values():
                self.search(expression, owner, depth - 1)
        self.visited[id(cell), id(owner), scope] = depth - self.lowest_depth, cell, owner
        self.current_ad, self.lowest_depth = previous_ad, min(lowest_depth, self.lowest_depth)


class ValuedClause(NamedTuple):
    """One clause of a conjunction, and its value."""

    expression: Expression
    value: Value

    def __str__(self) -> str:
        return f"{unparse(self.expression)}  is  {unparse(self.value)}"


def clauses(expression: Expression) -> list[Expression]:
    """Return the operands of a conjunction from left to right; any other expression is a single clause."""
    operands: list[Expression] = []
    pending = [expression]
    while pending:
        node = pending.pop()
        inner: Expression = node
        while isinstance(inner, Parentheses):
            inner = inner.inner
        if isinstance(inner, Binary) and inner.op == "&&":
            pending += [inner.right, inner.left]
        else:
            operands.append(node)
    return operands


def explain(
    expression: Expression, my: ClassAd | None = None, target: ClassAd | None = None, context: Context | None = None
) -> list[ValuedClause]:
    """Return the clauses of a conjunction with their values, to show which are not true; a failing one is ERROR."""

    def value(clause: Expression) -> Value:
        try:
            return clause.evaluate(my, target, context)
        except EvaluationFailed:
            return ERROR

    return [ValuedClause(clause, value(clause)) for clause in clauses(expression)]
