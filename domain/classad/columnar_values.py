"""Evaluate nodes without an array operation once for each distinct value, or combination of values, of their inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ad import ClassAd
from .columnar import JOB, Columnar
from .columns import ABSENT, OTHER, AttributeColumn, factorize
from .environment import Environment
from .function_registry import FUNCTIONS, FunctionInputs
from .scalar import evaluate_in
from .tree import (
    Attribute,
    Binary,
    Call,
    Conditional,
    Expression,
    ListExpression,
    Literal,
    Parentheses,
    Unary,
    children,
    equality_key,
)
from .values import EvaluationFailed, lower
from .vectors import Rows, Unsupported, Vector, payloads, take_cells

_PLAIN_NODES = frozenset({Literal, Parentheses, Unary, Binary, Conditional, ListExpression})


def by_value(evaluator: Columnar, node: Expression, side: str, rows: Rows) -> Vector | None:
    """Evaluate a node that reads only one column, once for each distinct value. Return None for any other node."""
    key = _single_column(evaluator, node, side)
    if not key:
        return None
    column = evaluator.table.columns[key]
    evaluator.column_versions[key] = column.version
    cache_key = (side, key, equality_key(node))
    cached = evaluator.table.vectors.get(cache_key)
    if cached is not None and cached[0] == column.version:
        column_values = cached[1]
    else:
        computed = _map_distinct(evaluator, node, side, column)
        if computed is None:
            return None
        column_values = computed
        if evaluator.columns_only and not _is_transient(column_values):
            evaluator.table.keep_vector(cache_key, column.version, column_values)
    return column_values if rows is None else take_cells(column_values, rows)


def _map_distinct(evaluator: Columnar, node: Expression, side: str, column: AttributeColumn) -> Vector | None:
    kinds, values, inverse = evaluator.table.distinct(column)
    if len(kinds) > len(inverse) // 8 + 16 or (kinds == OTHER).any():
        return None
    results = []
    for kind, payload in zip(kinds.tolist(), values.tolist(), strict=True):
        slot = ClassAd()
        if kind != ABSENT:
            slot._cells[lower(column.name)] = (column.name, evaluator.table.heap.decode(kind, payload))
        my, target = (evaluator.job, slot) if evaluator.job_is_left else (slot, evaluator.job)
        try:
            environment, ad = Environment(my, target, evaluator.context), evaluator.job if side == JOB else slot
            results.append(evaluator.require_constant(evaluate_in(node, environment, ad)))
        except (EvaluationFailed, Unsupported):
            return None
    return take_cells(evaluator.arena.from_values(results), inverse)


def _single_column(evaluator: Columnar, node: Expression, side: str) -> str | None:
    """Return the key of the only column that a node reads, or None if it reads several columns or any other input."""
    name: str | None = None
    pending = [node]
    while pending:
        current = pending.pop()
        kind = type(current)
        if kind is Attribute:
            key = evaluator.column_of(current, side)
            if key is None or (key and name is not None and key != name):
                return None
            name = key or name
            continue
        if kind is Call:
            function = FUNCTIONS.get(current.key)  # type: ignore[attr-defined]
            if function is None or function.needs is FunctionInputs.PLACE:
                return None
            if function.needs is FunctionInputs.CONTEXT:
                evaluator.columns_only = False
        elif kind not in _PLAIN_NODES:
            return None
        pending.extend(children(current))
    return name


def compute_distinct(run: Columnar, args: Sequence[Vector], rows: Rows, compute: Callable[[list[Any]], Any]) -> Vector:
    """Compute a function of some vectors once per distinct combination of their values."""
    arena = run.arena
    varying = [vector for vector in args if not vector.is_constant]
    if not varying:
        return arena.constant_vector(compute([arena.value(vector.kind, vector.data) for vector in args]))
    row_count = run.row_count(rows)
    groups: Any = None
    for vector in varying:
        numbers = vector.data if vector.has_mixed_kinds else payloads(vector.kind, vector.data, row_count)
        distinct, inverse = factorize(numbers)
        if vector.has_mixed_kinds:
            inverse = inverse * 8 + vector.kind
            distinct, inverse = factorize(inverse)
        groups = inverse if groups is None else factorize(groups * len(distinct) + inverse)[1]
    size = int(groups.max()) + 1
    example = np.zeros(size, np.int64)
    example[groups] = np.arange(row_count)
    columns = [arena.values(take_cells(vector, example), size) for vector in args]
    if size > row_count // 8 + 16:
        run.count_scalar(size)
    results = arena.from_values([compute(list(values)) for values in zip(*columns, strict=True)])
    return take_cells(results, groups)


def _is_transient(vector: Vector) -> bool:
    """Check whether a vector contains lists or times, which are valid only during one evaluation."""
    return bool((vector.kind == OTHER).any()) if vector.has_mixed_kinds else vector.kind == OTHER
