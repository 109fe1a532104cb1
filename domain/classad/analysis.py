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

    :raises EvaluationError: where HTCondor fails too: a scope is no ad, or the search nests too deeply.
    """
    within = ClassAd() if ad is None else ad
    internal = _Search(within, Environment(within, None, Context()), internal=True)
    try:
        internal.follow(expression, within, _DEEPEST)
        return References(internal.result(), tuple(external_references(expression, within)))
    except RecursionError:
        raise EvaluationFailed(f"the references of {_shown(expression)} lead back to themselves") from None


operations.references = references


def value_of(expression: Expression, my: ClassAd | None, target: ClassAd | None, context: Context | None) -> Value:
    """Return the value of an expression; what fails is an error."""
    try:
        return expression.evaluate(my, target, context)
    except EvaluationError:
        return ERROR


def references_found(expression: Expression, ad: ClassAd) -> References:
    """Return the references; none where the search fails, as circular references make it."""
    try:
        return references(expression, ad)
    except EvaluationError:
        return References((), ())


def external_references(expression: Expression, ad: ClassAd, env: Environment | None = None) -> list[str]:
    """Return the references that an ad does not resolve."""
    search = _Search(ad, Environment(ad, None, Context()) if env is None else env, internal=False)
    search.follow(expression, ad, _DEEPEST)
    return list(search.result())


def _shown(value: Any) -> str:
    text = unparse(value)
    return text if len(text) <= 60 else text[:57] + "..."


_DEEPEST = 400


class _Search:
    def __init__(self, root: ClassAd, env: Environment, internal: bool) -> None:
        self.root = root
        self.env = env
        self.internal = internal
        self.names: dict[str, str] = {}
        self.here = root
        # What was followed, with the depth that it needs and what keeps its ids in use.
        self.followed: dict[tuple[int, int, bool], tuple[int, Any, ClassAd]] = {}
        self.lowest = _DEEPEST

    def result(self) -> tuple[str, ...]:
        return tuple(self.names[key] for key in sorted(self.names, key=to_bytes))

    def add(self, name: str) -> None:
        self.names.setdefault(lower(name), name)

    def follow(self, expression: Expression, ad: ClassAd | None, depth: int, scope: bool = False) -> None:
        """Search an expression of ``ad`` (None: the current one), but no ad that is a name's ``scope``."""
        if ad is not None:
            self.here = ad
        pending = [expression]
        while pending:
            node = pending.pop()
            self.env.spend(1)
            if isinstance(node, Attribute):
                self._attribute(node, depth, scope)
            elif not (scope and isinstance(node, AdExpression)):
                pending.extend(reversed(children(node)))

    def _attribute(self, node: Attribute, depth: int, scope: bool) -> None:
        start = self.env.root if node.absolute else self.here
        if node.base is not None:
            if self.internal:
                self.follow(node.base, None, depth, scope=True)
            value = evaluate_in(node.base, self.env, self.here)
            if type(value) is not ClassAd:
                if value is not UNDEFINED:
                    raise EvaluationFailed(f"cannot tell what {_shown(node)} refers to: {_shown(value)} is no ad")
                if not self.internal:
                    self.add(unparse(node.base) + "." + node.name)
                return
            start = value
        if start is None:
            raise EvaluationFailed(f"cannot tell what {_shown(node)} refers to: there is no outermost ad")
        attribute = lookup(self.env, start, node.key)
        if attribute is None:
            if not self.internal:
                self.add(node.name)
            else:
                # HTCondor does not return to the former ad: later references are searched from here.
                self.here = root_of(self.env, start) or start
            return
        cell, place = attribute
        if self.internal and place is self.env.root and place._find(node.key) is not None:
            self.add(node.name)
        if depth <= 0:
            raise EvaluationFailed(f"the references of {_shown(node)} nest too deeply")
        self.env.spend(ENTERING)
        followed = self.followed.get((id(cell), id(place), scope))
        if followed is not None and followed[0] <= depth:
            self.lowest = min(self.lowest, depth - followed[0])
            return
        before, lowest, self.lowest = self.here, self.lowest, depth - 1
        if not isinstance(cell, ClassAd):
            self.follow(cell, place, depth - 1, scope)
        elif not scope:
            for _, expression in cell._cells.values():
                self.follow(expression, place, depth - 1)
        self.followed[id(cell), id(place), scope] = depth - self.lowest, cell, place
        self.here, self.lowest = before, min(lowest, self.lowest)


# -- conditions --------------------------------------------------------------------------------------------------------


class ValuedClause(NamedTuple):
    """One clause of a conjunction, and its value."""

    expression: Expression
    value: Value

    def __str__(self) -> str:
        return f"{unparse(self.expression)}  is  {unparse(self.value)}"


def clauses(expression: Expression) -> list[Expression]:
    """Return a conjunction's operands from left to right, without parentheses; other expressions are one clause."""
    out: list[Expression] = []
    pending = [expression]
    while pending:
        node = pending.pop()
        inner: Expression = node
        while isinstance(inner, Parentheses):
            inner = inner.inner
        if isinstance(inner, Binary) and inner.op == "&&":
            pending += [inner.right, inner.left]
        else:
            out.append(node)
    return out


def explain(
    expression: Expression,
    my: ClassAd | None = None,
    target: ClassAd | None = None,
    context: Context | None = None,
) -> list[ValuedClause]:
    """Return a conjunction's clauses with their values, to show which is not true; a failing clause is an error."""

    def value(clause: Expression) -> Value:
        try:
            return clause.evaluate(my, target, context)
        except EvaluationFailed:
            return ERROR

    return [ValuedClause(clause, value(clause)) for clause in clauses(expression)]
