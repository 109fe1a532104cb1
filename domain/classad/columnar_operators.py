"""Evaluate operators and conditionals in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ad import ClassAd
from .columnar import HANDLERS, Columnar, Marks
from .columnar_values import by_value, distinct
from .columns import BOOLEAN, ERR, INTEGER, OTHER, STRING, UNDEF
from .environment import Environment
from .function_registry import FUNCTIONS, ClassAdFunction, Needs
from .operators import BINARY, UNARY
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
    Unary,
    children,
)
from .values import ERROR, UNDEFINED, low32
from .vectors import (
    ALL_ERROR,
    ALL_UNDEFINED,
    FALSE,
    TRUE,
    UNKNOWN,
    WRONG,
    Rows,
    Unsupported,
    Vector,
    binary,
    from_codes,
    merge,
    negated,
    take,
    truths,
)


def _unary(evaluation: Columnar, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
    operand = evaluation.run(node.operand, side, rows, marks)
    if node.op == "!":
        return negated(operand)
    if node.op == "-" and not operand.mixed and not operand.constant and operand.kind == INTEGER:
        with np.errstate(over="ignore"):
            return Vector(INTEGER, np.negative(operand.data))
    compute = UNARY[node.op]
    return distinct(evaluation, [operand], rows, lambda values: compute(values[0]))


def _binary(evaluation: Columnar, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
    op = node.op
    if op == "&&" or op == "||":
        return _connective(evaluation, node, side, rows, marks)
    if op == "[]" and (known := by_value(evaluation, node, side, rows)) is not None:
        return known
    left = evaluation.run(node.left, side, rows, marks)
    if op == "?:":
        return _elvis(evaluation, left, node.right, side, rows, marks)
    right = evaluation.run(node.right, side, rows, marks)
    if op == "[]":
        return distinct(evaluation, [left, right], rows, _subscript)
    try:
        return binary(evaluation.arena, op, left, right, evaluation.count(rows))
    except Unsupported:
        compute = BINARY[op]
        return distinct(evaluation, [left, right], rows, lambda values: compute(values[0], values[1]))


def _elvis(evaluation: Columnar, left: Vector, right: Expression, side: str, rows: Rows, marks: Marks) -> Vector:
    if not left.mixed:
        return evaluation.run(right, side, rows, marks) if left.kind == UNDEF else left
    missing = np.flatnonzero(left.kind == UNDEF)
    if len(missing) == 0:
        return left
    there = np.flatnonzero(left.kind != UNDEF)
    inner = missing if rows is None else rows[missing]
    return merge(len(left.kind), [(there, take(left, there)), (missing, evaluation.run(right, side, inner, marks))])


def _connective(evaluation: Columnar, node: Binary, side: str, rows: Rows, marks: Marks) -> Vector:
    """Evaluate ``&&`` or ``||`` from left to right, each operand only where those before it have not decided."""
    decisive = node.op == "||"
    operands: list[Expression] = []
    here: Expression = node
    while isinstance(here, Binary) and here.op == node.op:
        operands.append(here.right)
        here = here.left
    operands.append(here)
    operands.reverse()
    plain: Any = None  # the result so far, as long as it is true or false everywhere
    for place, operand in enumerate(operands):
        places = None
        if plain is not None and not _total(evaluation, operand, side):
            places = np.flatnonzero(plain != decisive)
            if len(places) == 0:
                break
        inner = rows if places is None else places if rows is None else rows[places]
        condition = truths(evaluation.run(operand, side, inner, marks))
        if isinstance(condition, bool | np.bool_):
            if bool(condition) is decisive:
                return evaluation.arena.constant(decisive)
        elif not isinstance(condition, np.ndarray) or condition.dtype != np.bool_:
            return _three_valued(evaluation, operands[place:], decisive, plain, side, rows, marks)
        elif plain is None:
            plain = condition
        elif places is None:
            plain = plain | condition if decisive else plain & condition
        else:
            plain = plain.copy()
            plain[places] = condition
    return evaluation.arena.constant(not decisive) if plain is None else Vector(BOOLEAN, plain)


def _total(evaluation: Columnar, node: Expression, side: str) -> bool:
    """Return whether array operations alone give a node a value in every slot, so that laziness is not needed."""
    pending = [node]
    while pending:
        here = pending.pop()
        kind = type(here)
        if kind is Attribute:
            key = evaluation.column_of(here, side)
            if key is None:
                return False
            kinds = evaluation.table.columns[key].kinds if key else 0
            if (kinds == OTHER) if type(kinds) is int else (kinds == OTHER).any():  # type: ignore[union-attr]
                return False
        elif kind is not Literal and kind is not Parentheses:
            if kind is not Binary or here.op in ("[]", "?:", "<<", ">>", ">>>"):  # type: ignore[attr-defined]
                return False
            pending.extend(children(here))
            continue
        pending.extend(() if kind is Attribute else children(here))
    return True


def _three_valued(
    evaluation: Columnar,
    operands: Sequence[Expression],
    decisive: bool,
    before: Any,
    side: str,
    rows: Rows,
    marks: Marks,
) -> Vector:
    """Evaluate the rest of a connective with exceptional cells; ``before``: its truth so far, None if undecided."""
    total = evaluation.count(rows)
    neutral = FALSE if decisive else TRUE
    codes = np.full(total, neutral, np.uint8)
    open_places = np.arange(total)
    if before is not None:
        codes[before == decisive] = TRUE if decisive else FALSE
        open_places = np.flatnonzero(before != decisive)
    for operand in operands:
        if len(open_places) == 0:
            break
        inner = open_places if rows is None else rows[open_places]
        condition = truths(evaluation.run(operand, side, inner, marks))
        if not isinstance(condition, np.ndarray):
            condition = np.full(len(open_places), int(condition), np.uint8)
        condition = condition.astype(np.uint8)
        closing = (condition == (TRUE if decisive else FALSE)) | (condition == WRONG)
        changed = closing | (condition == UNKNOWN)
        codes[open_places[changed]] = condition[changed]
        open_places = open_places[~closing]
    return from_codes(codes)


def _conditional(evaluation: Columnar, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
    return choice(evaluation, (node.condition, node.then, node.otherwise), side, rows, marks, lazy=False)


def choice(
    evaluation: Columnar, operands: Sequence[Expression], side: str, rows: Rows, marks: Marks, *, lazy: bool = True
) -> Vector:
    """Evaluate one of two branches, by a condition.

    :param lazy: leave the branches alone where the condition is no boolean (a string, say; not an error); else a
        failure in a branch fails here
    """
    condition, then, otherwise = operands
    given = evaluation.run(condition, side, rows, marks)
    chosen = truths(given)
    if not isinstance(chosen, np.ndarray):
        if isinstance(chosen, bool | np.bool_):
            return evaluation.run(then if chosen else otherwise, side, rows, marks)
        if chosen == WRONG and not lazy and given.kind != ERR:
            evaluation.run(then, side, rows, marks)
            evaluation.run(otherwise, side, rows, marks)
        return ALL_UNDEFINED if chosen == UNKNOWN else ALL_ERROR
    parts: list[tuple[Any, Vector]] = []
    for code, branch in ((TRUE, then), (FALSE, otherwise), (UNKNOWN, None), (WRONG, None)):
        places = np.flatnonzero(chosen == code)
        if len(places) == 0:
            continue
        inner = places if rows is None else rows[places]
        if branch is None:
            none = places[given.kind[places] != ERR] if code == WRONG and not lazy and given.mixed else places[:0]
            if len(none):
                inner = none if rows is None else rows[none]
                evaluation.run(then, side, inner, marks)
                evaluation.run(otherwise, side, inner, marks)
            parts.append((places, ALL_UNDEFINED if code == UNKNOWN else ALL_ERROR))
        else:
            parts.append((places, evaluation.run(branch, side, inner, marks)))
    return merge(len(chosen), parts)


def _subscript(values: list[Any]) -> Any:
    base, index = values
    if base is ERROR or index is ERROR:
        return ERROR
    if base is UNDEFINED or index is UNDEFINED:
        return UNDEFINED
    if type(base) is ListValue and type(index) is int:
        place = low32(index)
        if not 0 <= place < len(base.expressions):
            return ERROR
        member = base.expressions[place]
        if isinstance(member, Literal):
            return member.value
        raise Unsupported
    if type(base) is ClassAd:
        raise Unsupported
    return ERROR


HANDLERS.update({Unary: _unary, Binary: _binary, Conditional: _conditional})


# Function calls

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
    """Return whether a node is a list literal of which no member is a list or an ad."""
    if not isinstance(node, ListExpression):
        return False
    plain = not any(isinstance(member, ListExpression | AdExpression) for member in node.members)
    return plain and not all(isinstance(member, Literal) for member in node.members)


def _kind_test(vector: Vector, kind: int) -> Vector:
    result = vector.kind == kind
    return Vector(BOOLEAN, result if vector.mixed else bool(result))


HANDLERS[Call] = _call
