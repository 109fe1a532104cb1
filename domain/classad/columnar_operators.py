"""Evaluate operators and conditionals in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .ad import ClassAd
from .columnar import HANDLERS, Active, Columnar
from .columnar_values import by_value, compute_distinct
from .columns import BOOLEAN, ERR, INTEGER, OTHER, STRING, UNDEF
from .environment import Environment
from .function_registry import FUNCTIONS, ClassAdFunction, FunctionInputs
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
    NOT_BOOLEAN,
    TRUE,
    UNKNOWN,
    Rows,
    Unsupported,
    Vector,
    apply_binary,
    from_truth_codes,
    logical_not,
    merge,
    take_cells,
    truth_values,
)


def _unary(evaluator: Columnar, node: Any, side: str, rows: Rows, active: Active) -> Vector:
    operand = evaluator.run(node.operand, side, rows, active)
    if node.op == "!":
        return logical_not(operand)
    if node.op == "-" and not operand.has_mixed_kinds and not operand.is_constant and operand.kind == INTEGER:
        with np.errstate(over="ignore"):
            return Vector(INTEGER, np.negative(operand.data))
    compute = UNARY[node.op]
    return compute_distinct(evaluator, [operand], rows, lambda values: compute(values[0]))


def _binary(evaluator: Columnar, node: Any, side: str, rows: Rows, active: Active) -> Vector:
    op = node.op
    if op == "&&" or op == "||":
        return _connective(evaluator, node, side, rows, active)
    if op == "[]" and (known := by_value(evaluator, node, side, rows)) is not None:
        return known
    left = evaluator.run(node.left, side, rows, active)
    if op == "?:":
        return _elvis(evaluator, left, node.right, side, rows, active)
    right = evaluator.run(node.right, side, rows, active)
    if op == "[]":
        return compute_distinct(evaluator, [left, right], rows, _subscript)
    try:
        return apply_binary(evaluator.arena, op, left, right, evaluator.row_count(rows))
    except Unsupported:
        compute = BINARY[op]
        return compute_distinct(evaluator, [left, right], rows, lambda values: compute(values[0], values[1]))


def _elvis(evaluator: Columnar, left: Vector, right: Expression, side: str, rows: Rows, active: Active) -> Vector:
    if not left.has_mixed_kinds:
        return evaluator.run(right, side, rows, active) if left.kind == UNDEF else left
    missing = np.flatnonzero(left.kind == UNDEF)
    if len(missing) == 0:
        return left
    present = np.flatnonzero(left.kind != UNDEF)
    subset = missing if rows is None else rows[missing]
    fallback = evaluator.run(right, side, subset, active)
    return merge(len(left.kind), [(present, take_cells(left, present)), (missing, fallback)])


def _connective(evaluator: Columnar, node: Binary, side: str, rows: Rows, active: Active) -> Vector:
    """Evaluate ``&&`` or ``||`` from left to right, and each operand only for rows that are still undecided."""
    decisive = node.op == "||"
    operands: list[Expression] = []
    remaining: Expression = node
    while isinstance(remaining, Binary) and remaining.op == node.op:
        operands.append(remaining.right)
        remaining = remaining.left
    operands.append(remaining)
    operands.reverse()
    decided: Any = None  # the result so far, while it is true or false in every row
    for place, operand in enumerate(operands):
        positions = None
        if decided is not None and not _is_total(evaluator, operand, side):
            positions = np.flatnonzero(decided != decisive)
            if len(positions) == 0:
                break
        subset = rows if positions is None else positions if rows is None else rows[positions]
        condition = truth_values(evaluator.run(operand, side, subset, active))
        if isinstance(condition, bool | np.bool_):
            if bool(condition) is decisive:
                return evaluator.arena.constant_vector(decisive)
        elif not isinstance(condition, np.ndarray) or condition.dtype != np.bool_:
            return _three_valued(evaluator, operands[place:], decisive, decided, side, rows, active)
        elif decided is None:
            decided = condition
        elif positions is None:
            decided = decided | condition if decisive else decided & condition
        else:
            decided = decided.copy()
            decided[positions] = condition
    return evaluator.arena.constant_vector(not decisive) if decided is None else Vector(BOOLEAN, decided)


def _is_total(evaluator: Columnar, node: Expression, side: str) -> bool:
    """Check whether array operations can evaluate a node for every slot without failing."""
    pending = [node]
    while pending:
        current = pending.pop()
        kind = type(current)
        if kind is Attribute:
            key = evaluator.column_of(current, side)
            if key is None:
                return False
            kinds = evaluator.table.columns[key].kinds if key else 0
            if (kinds == OTHER) if type(kinds) is int else (kinds == OTHER).any():  # type: ignore[union-attr]
                return False
        elif kind is not Literal and kind is not Parentheses:
            if kind is not Binary or current.op in ("[]", "?:", "<<", ">>", ">>>"):  # type: ignore[attr-defined]
                return False
            pending.extend(children(current))
            continue
        pending.extend(() if kind is Attribute else children(current))
    return True


def _three_valued(
    evaluator: Columnar,
    operands: Sequence[Expression],
    decisive: bool,
    decided_before: Any,
    side: str,
    rows: Rows,
    active: Active,
) -> Vector:
    """Evaluate the remaining operands when some cells are undefined or an error.

    :param decided_before: the result of the earlier operands for each row, or None if there are no earlier operands"""
    total = evaluator.row_count(rows)
    neutral = FALSE if decisive else TRUE
    codes = np.full(total, neutral, np.uint8)
    undecided = np.arange(total)
    if decided_before is not None:
        codes[decided_before == decisive] = TRUE if decisive else FALSE
        undecided = np.flatnonzero(decided_before != decisive)
    for operand in operands:
        if len(undecided) == 0:
            break
        subset = undecided if rows is None else rows[undecided]
        condition = truth_values(evaluator.run(operand, side, subset, active))
        if not isinstance(condition, np.ndarray):
            condition = np.full(len(undecided), int(condition), np.uint8)
        condition = condition.astype(np.uint8)
        deciding = (condition == (TRUE if decisive else FALSE)) | (condition == NOT_BOOLEAN)
        changed = deciding | (condition == UNKNOWN)
        codes[undecided[changed]] = condition[changed]
        undecided = undecided[~deciding]
    return from_truth_codes(codes)


def _conditional(evaluator: Columnar, node: Any, side: str, rows: Rows, active: Active) -> Vector:
    return choice(evaluator, (node.condition, node.then, node.otherwise), side, rows, active, lazy=False)


def choice(
    evaluator: Columnar, operands: Sequence[Expression], side: str, rows: Rows, active: Active, *, lazy: bool = True
) -> Vector:
    """Evaluate, for each slot, the branch that a condition selects.

    :param lazy: in slots where the condition is neither boolean nor an error (for example a string), skip both
        branches; if false, both branches are evaluated there, so that a failure in either of them is raised"""
    condition, then, otherwise = operands
    condition_values = evaluator.run(condition, side, rows, active)
    truth = truth_values(condition_values)
    if not isinstance(truth, np.ndarray):
        if isinstance(truth, bool | np.bool_):
            return evaluator.run(then if truth else otherwise, side, rows, active)
        if truth == NOT_BOOLEAN and not lazy and condition_values.kind != ERR:
            evaluator.run(then, side, rows, active)
            evaluator.run(otherwise, side, rows, active)
        return ALL_UNDEFINED if truth == UNKNOWN else ALL_ERROR
    parts: list[tuple[Any, Vector]] = []
    for code, branch in ((TRUE, then), (FALSE, otherwise), (UNKNOWN, None), (NOT_BOOLEAN, None)):
        positions = np.flatnonzero(truth == code)
        if len(positions) == 0:
            continue
        subset = positions if rows is None else rows[positions]
        if branch is None:
            if code == NOT_BOOLEAN and not lazy and condition_values.has_mixed_kinds:
                invalid = positions[condition_values.kind[positions] != ERR]
                if len(invalid):
                    subset = invalid if rows is None else rows[invalid]
                    evaluator.run(then, side, subset, active)
                    evaluator.run(otherwise, side, subset, active)
            parts.append((positions, ALL_UNDEFINED if code == UNKNOWN else ALL_ERROR))
        else:
            parts.append((positions, evaluator.run(branch, side, subset, active)))
    return merge(len(truth), parts)


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


_KIND_TESTS = {"isundefined": UNDEF, "iserror": ERR, "isstring": STRING, "isinteger": INTEGER, "isboolean": BOOLEAN}


def _call(evaluator: Columnar, node: Any, side: str, rows: Rows, active: Active) -> Vector:
    key, arguments = node.key, node.arguments
    function = FUNCTIONS.get(key)
    if function is None:
        if key in evaluator.context.functions:
            raise Unsupported
        return ALL_ERROR
    if not function.least <= len(arguments) <= function.most:
        return ALL_ERROR
    if key == "ifthenelse":
        return choice(evaluator, arguments, side, rows, active)
    if function.needs is FunctionInputs.PLACE:
        raise Unsupported
    if function.needs is FunctionInputs.CONTEXT:
        evaluator.columns_only = False
    if (known := by_value(evaluator, node, side, rows)) is not None:
        return known
    list_position = function.members.get(len(arguments))
    if list_position is not None and _is_computed_list(arguments[list_position]):
        return _call_on_list(evaluator, arguments, list_position, function, side, rows, active)
    vectors = [evaluator.run(argument, side, rows, active) for argument in arguments]
    if key in _KIND_TESTS:
        return _kind_test(vectors[0], _KIND_TESTS[key])
    context = evaluator.context
    eager = function.eager
    if eager is not None:
        return compute_distinct(
            evaluator, vectors, rows, lambda values: eager(Environment(None, None, context), None, values)
        )
    lazy = function.lazy
    assert lazy is not None

    def call(values: list[Any]) -> Any:
        return lazy(
            Environment(None, None, context), None, [lambda env, ad, value=value: value for value in values], node
        )

    return compute_distinct(evaluator, vectors, rows, call)


def _call_on_list(
    evaluator: Columnar,
    arguments: Sequence[Any],
    list_position: int,
    function: ClassAdFunction,
    side: str,
    rows: Rows,
    active: Active,
) -> Vector:
    """Evaluate a function whose argument at ``list_position`` is a list literal, with a vector for each member."""
    eager = function.eager
    assert eager is not None
    list_end = list_position + len(arguments[list_position].members)
    parts = [*arguments[:list_position], *arguments[list_position].members, *arguments[list_position + 1 :]]

    def call(values: list[Any]) -> Any:
        members = ListValue([Constant(value) for value in values[list_position:list_end]], None)
        env = Environment(None, None, evaluator.context)
        return eager(env, None, [*values[:list_position], members, *values[list_end:]])

    return compute_distinct(evaluator, [evaluator.run(part, side, rows, active) for part in parts], rows, call)


def _is_computed_list(node: Expression) -> bool:
    if not isinstance(node, ListExpression):
        return False
    decided = not any(isinstance(member, ListExpression | AdExpression) for member in node.members)
    return decided and not all(isinstance(member, Literal) for member in node.members)


def _kind_test(vector: Vector, kind: int) -> Vector:
    result = vector.kind == kind
    return Vector(BOOLEAN, result if vector.has_mixed_kinds else bool(result))


HANDLERS[Call] = _call
