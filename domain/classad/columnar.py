"""Evaluate one expression over all slots of a table, in arrays.

``side`` says whether an expression belongs to the job's ad or to the slots' ads. A name is looked up in that ad first,
then in the other one. Slot attributes that are expressions (Requirements, Start ...) are also evaluated in arrays, once
per distinct text. A node without an array operation is computed once per distinct combination of its arguments
(``compute_distinct``). If it reads only one column, its result is reused until that column changes. The scalar compiler
evaluates a node slot by slot if it depends on more than its arguments' values; these evaluations are counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .ad import ClassAd
from .columns import ABSENT, OTHER, factorize
from .context import Context
from .environment import MATCH_NAMES, MAX_STEPS, Environment
from .scalar import evaluate_in
from .slot_columns import SlotColumns
from .survey import is_indivisible, survey
from .tree import Attribute, Expression, ListExpression, ListValue, Literal, Parentheses, TimeLiteral, scope_of
from .values import EvaluationFailed, RelTime
from .vectors import ALL_UNDEFINED, Arena, Rows, Unsupported, Vector, merge, take_cells

JOB, SLOT = "job", "slot"
Active = frozenset[tuple[str, str]]
# Expressions that exceed this depth or chain length are left to the scalar compiler, which applies HTCondor's limits.
MAX_NESTING = 50
_MAX_STEPS = 300
STEPS_PER_SLOT = 2000
"""The number of steps that the scalar compiler may take for each slot, in addition to a budget that all slots share."""
MAX_FOLLOWED = 500
"""How many attributes one evaluation may follow, in addition to a few per expression in the slots.

An evaluation that does not select rows follows each attribute only once.
"""


# Handlers that evaluate a type of node over some rows; each is registered by the module that defines it.
Handler = Callable[["Columnar", Any, str, Rows, Active], Vector]
HANDLERS: dict[type, Handler] = {}


class Columnar:
    """An evaluation of expressions over the slots of a table, matched with one job."""

    def __init__(self, table: SlotColumns, job: ClassAd, context: Context, job_is_left: bool = True) -> None:
        self.table = table
        self.job = job
        self.context = context
        self.job_is_left = job_is_left
        self.arena = Arena(table.heap)
        self.scalar_calls = 0  # calls of the scalar compiler, one per slot
        self.allow_scalar = True
        self.column_versions: dict[str, int] = {}  # the versions of the columns that were read
        self.columns_only = True  # whether the result depends only on the columns, not on the job or the context
        self.steps = 0  # how much of the depth limit the expressions under evaluation use
        self.followed: dict[tuple[tuple[str, str], int, int], tuple[Vector, Rows]] = {}
        self.follows_left = MAX_FOLLOWED + 10 * len(table.heap.expressions)
        self.circular = 0
        self.budget = MAX_STEPS + STEPS_PER_SLOT * len(table)

    def evaluate(self, node: Expression, side: str = JOB, rows: Rows = None, active: Active = frozenset()) -> Vector:
        """Evaluate a complete expression; see ``run``."""
        properties = survey(node)
        if properties.nesting > MAX_NESTING or is_indivisible(
            node, self.job._find if side == JOB else self.table.every_slot_has
        ):
            return self._slot_by_slot(node, side, rows, active)
        previous_steps = self.steps
        self.steps += properties.height + 1
        if self.steps > _MAX_STEPS:
            raise Unsupported
        try:
            return self.run(node, side, rows, active)
        finally:
            self.steps = previous_steps

    def run(self, node: Expression, side: str = JOB, rows: Rows = None, active: Active = frozenset()) -> Vector:
        """Evaluate a node over some rows.

        :param active: the attributes that are being evaluated, each with its side
        :raises Unsupported: if the node needs the scalar compiler, but ``allow_scalar`` is false
        :raises EvaluationError: if the evaluation fails for any row
        """
        handler = HANDLERS.get(type(node))
        if handler is not None:
            try:
                return handler(self, node, side, rows, active)
            except Unsupported:
                if not self.allow_scalar:
                    raise
        elif not self.allow_scalar:
            raise Unsupported
        return self._slot_by_slot(node, side, rows, active)

    def row_count(self, rows: Rows) -> int:
        return len(self.table) if rows is None else len(rows)

    def _time(self, node: Any, side: str, rows: Rows, active: Active) -> Vector:
        if node.zoneless:
            raise Unsupported
        return self.arena.constant_vector(node.time.seconds if isinstance(node.time, RelTime) else node.time)

    def _list(self, node: Any, side: str, rows: Rows, active: Active) -> Vector:
        if not all(isinstance(member, Literal) for member in node.members):
            raise Unsupported
        return self.arena.constant_vector(ListValue(node.members, None))

    def _attribute(self, node: Any, side: str, rows: Rows, active: Active) -> Vector:
        key, scope = node.key, scope_of(node)
        if key in MATCH_NAMES or node.absolute:
            raise Unsupported
        if scope == "":
            if side == JOB:
                return self._job_attribute(key, rows, active) or self._slot_attribute(key, rows, active)
            return self._slot_attribute(key, rows, active, or_job=True)
        # If an ad has an attribute called MY or TARGET, the scalar compiler evaluates the reference.
        if scope not in ("my", "target") or scope in self.table.columns or self.job._find(scope) is not None:
            raise Unsupported
        if (scope == "my") == (side == JOB):
            return self._job_attribute(key, rows, active) or ALL_UNDEFINED
        return self._slot_attribute(key, rows, active)

    def _job_attribute(self, key: str, rows: Rows, active: Active) -> Vector | None:
        self.columns_only = False
        cell = self.job._find(key)
        if cell is None:
            return None
        if type(cell[1]) is Literal:
            return self.arena.constant_vector(cell[1].value)
        return self._evaluate_attribute(cell[1], (JOB, key), rows, active)

    def _evaluate_attribute(self, expression: Expression, name: tuple[str, str], rows: Rows, active: Active) -> Vector:
        """Evaluate the expression of an attribute. An attribute that is already being evaluated is undefined."""
        if name in active:
            self.circular += 1
            return ALL_UNDEFINED
        if (cached := self.followed.get((name, id(expression), id(rows)))) is not None:
            return cached[0]
        self.follows_left -= 1
        if self.follows_left < 0:
            raise EvaluationFailed(f"the evaluation of {name[1]} in columns takes too many steps")
        circular = self.circular
        vector = self.evaluate(expression, name[0], rows, active | {name})
        if self.circular == circular:
            self.followed[name, id(expression), id(rows)] = vector, rows
        return vector

    def _slot_attribute(self, key: str, rows: Rows, active: Active, or_job: bool = False) -> Vector:
        """Return an attribute's column. If a slot lacks the attribute, its cell is undefined or, with ``or_job``, has
        the job's value."""
        column = self.table.columns.get(key)
        if column is None:
            self.column_versions[key] = -1
            return (self._job_attribute(key, rows, active) if or_job else None) or ALL_UNDEFINED
        self.column_versions[key] = column.version
        vector = self.table.vector(column, rows)
        kind = vector.kind
        if not vector.has_mixed_kinds:
            if kind == ABSENT:
                return (self._job_attribute(key, rows, active) if or_job else None) or ALL_UNDEFINED
            return self._slot_expressions(key, vector, rows, active) if kind == OTHER else vector
        if not ((kind == ABSENT) | (kind == OTHER)).any():
            return vector
        parts: list[tuple[Any, Vector]] = []
        for column_kind, mask in ((ABSENT, kind == ABSENT), (OTHER, kind == OTHER)):
            positions = np.flatnonzero(mask)
            if len(positions) == 0:
                continue
            subset = positions if rows is None else rows[positions]
            if column_kind == ABSENT:
                job_vector = self._job_attribute(key, subset, active) if or_job else None
                parts.append((positions, job_vector or ALL_UNDEFINED))
            else:
                parts.append((positions, self._slot_expressions(key, take_cells(vector, positions), subset, active)))
        plain = np.flatnonzero((kind != ABSENT) & (kind != OTHER))
        if len(plain):
            parts.append((plain, take_cells(vector, plain)))
        return merge(self.row_count(rows), parts)

    def _slot_expressions(self, key: str, vector: Vector, rows: Rows, active: Active) -> Vector:
        expressions = self.table.heap.expressions
        if vector.is_constant:
            return self._evaluate_attribute(expressions[vector.data], (SLOT, key), rows, active)
        distinct, inverse = factorize(vector.data)
        parts = []
        for number, index in enumerate(distinct.tolist()):
            positions = np.flatnonzero(inverse == number)
            subset = positions if rows is None else rows[positions]
            parts.append((positions, self._evaluate_attribute(expressions[index], (SLOT, key), subset, active)))
        return merge(len(vector.data), parts)

    def column_of(self, node: Any, side: str) -> str | None:
        """Return the key of the column that a reference reads, "" if it reads a job's plain value, or None
        otherwise."""
        if node.absolute or node.key in MATCH_NAMES:
            return None
        scope = scope_of(node)
        in_job = self.job._find(node.key)
        in_table = node.key in self.table.columns
        if scope == "":
            # If both ads have the attribute, different slots may read it from different ads.
            in_own_ad = in_job is not None if side == JOB else not in_table
            if side == SLOT and in_table and in_job is not None:
                return None
        elif scope in ("my", "target"):
            if scope in self.table.columns or self.job._find(scope) is not None:
                return None
            in_own_ad = (scope == "my") == (side == JOB)
        else:
            return None
        if not in_own_ad:
            return node.key if in_table else None
        self.columns_only = False
        return "" if in_job is not None and type(in_job[1]) is Literal else None

    def count_scalar(self, calls: int) -> None:
        """Count calls of the scalar compiler; raise Unsupported if these are not allowed."""
        if not self.allow_scalar:
            raise Unsupported
        self.scalar_calls += calls

    def _slot_by_slot(self, node: Expression, side: str, rows: Rows, active: Active) -> Vector:
        self.columns_only = False
        positions = range(len(self.table)) if rows is None else rows.tolist()
        self.count_scalar(len(positions))
        ads = map(self.table.ad, positions)
        values = [self.require_constant(self.evaluate_in_slot(node, side, ad, active)) for ad in ads]
        return self.arena.from_values(values) if values else ALL_UNDEFINED

    def evaluate_in_slot(self, node: Expression, side: str, ad: ClassAd, active: Active) -> Any:
        """Evaluate a node for one slot with the scalar compiler, which also has to detect circular references."""
        my, target = (self.job, ad) if self.job_is_left else (ad, self.job)
        env = Environment(my, target, self.context)
        env.depth -= self.steps
        granted = env.charged_from = env.steps = min(env.steps, max(STEPS_PER_SLOT, self.budget))
        if active:
            env.active = {(id((self.job if name_side == JOB else ad)._cells), key) for name_side, key in active}
        try:
            return evaluate_in(node, env, self.job if side == JOB else ad)
        except RecursionError:
            raise EvaluationFailed("the evaluation nests too deeply for this program's stack") from None
        finally:
            self.budget -= granted - env.steps
            env.charge()

    def require_constant(self, value: Any) -> Any:
        """Return a value that is valid outside its slot.

        :raises Unsupported: if its members depend on the slot
        """
        if isinstance(value, ListValue) and all(isinstance(member, Literal) for member in value.expressions):
            return value
        if isinstance(value, ListValue | ClassAd):
            raise _SlotDependent(value)
        return value


class _SlotDependent(Unsupported):
    """Raised if the members of a list or ad depend on the slot. The enclosing node is evaluated slot by slot."""


HANDLERS.update(
    {
        Literal: lambda run, node, side, rows, active: run.arena.constant_vector(node.value),
        TimeLiteral: Columnar._time,
        ListExpression: Columnar._list,
        Parentheses: lambda run, node, side, rows, active: run.run(node.inner, side, rows, active),
        Attribute: Columnar._attribute,
    }
)
