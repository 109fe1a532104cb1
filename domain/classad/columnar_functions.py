"""Columnar evaluation of function calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .columnar import HANDLERS, Columnar, Marks
from .columnar_operators import choice
from .columnar_values import by_value, distinct
from .columns import BOOLEAN, ERR, INTEGER, STRING, UNDEF
from .environment import Environment
from .function_registry import FUNCTIONS, ClassAdFunction, Needs
from .tree import AdExpression, Call, Constant, Expression, ListExpression, ListValue, Literal
from .vectors import ALL_ERROR, Rows, Unsupported, Vector

_KIND_TESTS = {"isundefined": UNDEF, "iserror": ERR, "isstring": STRING, "isinteger": INTEGER, "isboolean": BOOLEAN}


def _call(evaluation: Columnar, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
    key, arguments = node.key, node.arguments
    function = FUNCTIONS.get(key)
    if function is None:
        if key in evaluation.context.functions:
            raise Unsupported
        return ALL_ERROR
    if not function.least <= len(arguments) <= function.most:
        return ALL_ERROR
    if key == "ifthenelse":
        return choice(evaluation, arguments, side, rows, marks)
    if function.needs is Needs.PLACE:
        raise Unsupported
    if function.needs is Needs.CONTEXT:
        evaluation.lasting = False
    if (known := by_value(evaluation, node, side, rows)) is not None:
        return known
    at = function.members.get(len(arguments))
    if at is not None and _open_list(arguments[at]):
        return _of_members(evaluation, arguments, at, function, side, rows, marks)
    vectors = [evaluation.run(argument, side, rows, marks) for argument in arguments]
    if key in _KIND_TESTS:
        return _kind_test(vectors[0], _KIND_TESTS[key])
    context = evaluation.context
    body = function.eager
    if body is not None:
        return distinct(evaluation, vectors, rows, lambda values: body(Environment(None, None, context), None, values))
    lazy = function.lazy
    assert lazy is not None

    def call(values: list[Any]) -> Any:
        return lazy(Environment(None, None, context), None, [_returning(value) for value in values], node)

    return distinct(evaluation, vectors, rows, call)


def _of_members(
    evaluation: Columnar,
    arguments: Sequence[Any],
    at: int,
    function: ClassAdFunction,
    side: str,
    rows: Rows,
    marks: Marks,
) -> Vector:
    """Evaluate a function of the list literal at argument ``at``, each member a vector."""
    body = function.eager
    assert body is not None
    end = at + len(arguments[at].members)
    flat = [*arguments[:at], *arguments[at].members, *arguments[at + 1 :]]

    def call(values: list[Any]) -> Any:
        members = ListValue([Constant(value) for value in values[at:end]], None)
        env = Environment(None, None, evaluation.context)
        return body(env, None, [*values[:at], members, *values[end:]])

    return distinct(evaluation, [evaluation.run(part, side, rows, marks) for part in flat], rows, call)


def _returning(value: Any) -> Callable[[Any, Any], Any]:
    return lambda env, ad: value


def _open_list(node: Expression) -> bool:
    """Tell whether a node is a list literal of which no member is a list or an ad."""
    if not isinstance(node, ListExpression):
        return False
    plain = not any(isinstance(member, ListExpression | AdExpression) for member in node.members)
    return plain and not all(isinstance(member, Literal) for member in node.members)


def _kind_test(vector: Vector, kind: int) -> Vector:
    result = vector.kind == kind
    return Vector(BOOLEAN, result if vector.mixed else bool(result))


HANDLERS[Call] = _call
