"""Evaluate one expression over all slots of a table, in arrays.

``side`` says in which of the two ads, the job's or the slot's, an expression stands. Names are looked up there first,
then in the other ad, so slot attributes that are expressions (Requirements, Start ...) are evaluated in arrays too,
once per distinct text. A node that is no array operation is computed once per distinct combination of its arguments
(``distinct``), a function of one column once a version; one that depends on more than its arguments' values is
evaluated slot by slot by the scalar compiler, and counted.
"""

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
from .survey import strays, survey
from .tree import Attribute, Expression, ListExpression, ListValue, Literal, Parentheses, TimeLiteral, scope_of
from .values import EvaluationFailed, RelTime
from .vectors import ALL_UNDEFINED, Arena, Rows, Unsupported, Vector, merge, take

JOB, SLOT = "job", "slot"
Marks = frozenset[tuple[str, str]]
# Beyond this depth or chain length the scalar compiler takes over: it knows where HTCondor gives up.
MOST_NESTED = 50
_MOST_STEPS = 300
STEPS_IN_A_SLOT = 2000
"""What the scalar compiler may take for each slot, besides a budget that is for all of them."""
MOST_ENTERED = 500
"""The attributes that one evaluation may follow, and some for each expression of the slots.

Without choices between rows, it follows each once.
"""


# Handlers that evaluate a node over some rows, registered by the modules of operators and of functions.
Handler = Callable[["Columnar", Any, str, Rows, Marks], Vector]
HANDLERS: dict[type, Handler] = {}


class Columnar:
    """One evaluation of expressions over a table, against one job."""

    def __init__(self, table: SlotColumns, job: ClassAd, context: Context, job_is_left: bool = True) -> None:
        self.table = table
        self.job = job
        self.context = context
        self.job_is_left = job_is_left
        self.arena = Arena(table.heap)
        self.scalar = 0  # how many times the scalar compiler was called, once per slot
        self.scalar_allowed = True
        self.depends: dict[str, int] = {}  # the versions of the columns that were read
        self.lasting = True  # the result depends on the columns alone, not on the job or the context
        self.steps = 0  # of HTCondor's depth, taken by the expressions under evaluation
        self.entered: dict[tuple[tuple[str, str], int, int], tuple[Vector, Rows]] = {}
        self.most_entered = MOST_ENTERED + 10 * len(table.heap.expressions)
        self.circular = 0
        self.budget = MAX_STEPS + STEPS_IN_A_SLOT * len(table)

    def whole(self, node: Expression, side: str = JOB, rows: Rows = None, marks: Marks = frozenset()) -> Vector:
        """Evaluate a complete expression; see ``run``."""
        facts = survey(node)
        if facts.nesting > MOST_NESTED or strays(node, self.job._find if side == JOB else self.table.has):
            return self._slot_by_slot(node, side, rows, marks)
        before = self.steps
        self.steps += facts.height + 1
        if self.steps > _MOST_STEPS:
            raise Unsupported
        try:
            return self.run(node, side, rows, marks)
        finally:
            self.steps = before

    def run(self, node: Expression, side: str = JOB, rows: Rows = None, marks: Marks = frozenset()) -> Vector:
        """Evaluate a node over some rows.

        :param marks: the attributes under evaluation, each with its side
        :raises Unsupported: where only the scalar compiler could tell, and it is not allowed to.
        :raises EvaluationError: where an evaluation fails.
        """
        handler = HANDLERS.get(type(node))
        if handler is not None:
            try:
                return handler(self, node, side, rows, marks)
            except Unsupported:
                if not self.scalar_allowed:
                    raise
        elif not self.scalar_allowed:
            raise Unsupported
        return self._slot_by_slot(node, side, rows, marks)

    def count(self, rows: Rows) -> int:
        return len(self.table) if rows is None else len(rows)

    # -- leaves --------------------------------------------------------------------------------------------------------

    def _literal(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        return self.arena.constant(node.value)

    def _time(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        if node.zoneless:
            raise Unsupported
        return self.arena.constant(node.time.seconds if isinstance(node.time, RelTime) else node.time)

    def _list(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        if not all(isinstance(member, Literal) for member in node.members):
            raise Unsupported
        return self.arena.constant(ListValue(node.members, None))

    def _parentheses(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        return self.run(node.inner, side, rows, marks)

    # -- attributes ----------------------------------------------------------------------------------------------------

    def _attribute(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        key, scope = node.key, scope_of(node)
        if key in MATCH_NAMES or node.absolute:
            raise Unsupported
        if scope == "":
            if side == JOB:
                return self._of_job(key, rows, marks) or self._of_slots(key, rows, marks)
            return self._of_slots(key, rows, marks, or_job=True)
        # An ad with an attribute called MY or TARGET is left to the scalar compiler.
        if scope not in ("my", "target") or scope in self.table.columns or self.job._find(scope) is not None:
            raise Unsupported
        if (scope == "my") == (side == JOB):
            return self._of_job(key, rows, marks) or ALL_UNDEFINED
        return self._of_slots(key, rows, marks)

    def _of_job(self, key: str, rows: Rows, marks: Marks) -> Vector | None:
        """Evaluate an attribute of the job; None where it has none of that name."""
        self.lasting = False
        cell = self.job._find(key)
        if cell is None:
            return None
        if type(cell[1]) is Literal:
            return self.arena.constant(cell[1].value)
        return self._entered(cell[1], (JOB, key), rows, marks)

    def _entered(self, thing: Expression, mark: tuple[str, str], rows: Rows, marks: Marks) -> Vector:
        """Evaluate the expression under a name; undefined where that name is under evaluation already."""
        if mark in marks:
            self.circular += 1
            return ALL_UNDEFINED
        if (known := self.entered.get((mark, id(thing), id(rows)))) is not None:
            return known[0]
        self.most_entered -= 1
        if self.most_entered < 0:
            raise EvaluationFailed(f"the evaluation of {mark[1]} in columns takes too many steps")
        circular = self.circular
        vector = self.whole(thing, mark[0], rows, marks | {mark})
        if self.circular == circular:
            self.entered[mark, id(thing), id(rows)] = vector, rows
        return vector

    def _of_slots(self, key: str, rows: Rows, marks: Marks, or_job: bool = False) -> Vector:
        """Return a column. Absent cells are undefined, or with ``or_job`` the job's attribute of that name."""
        column = self.table.columns.get(key)
        if column is None:
            self.depends[key] = -1
            return (self._of_job(key, rows, marks) if or_job else None) or ALL_UNDEFINED
        self.depends[key] = column.version
        vector = self.table.vector(column, rows)
        kind = vector.kind
        if not vector.mixed:
            if kind == ABSENT:
                return (self._of_job(key, rows, marks) if or_job else None) or ALL_UNDEFINED
            return self._expressions(key, vector, rows, marks) if kind == OTHER else vector
        if not ((kind == ABSENT) | (kind == OTHER)).any():
            return vector
        parts: list[tuple[Any, Vector]] = []
        for column_kind, mask in ((ABSENT, kind == ABSENT), (OTHER, kind == OTHER)):
            places = np.flatnonzero(mask)
            if len(places) == 0:
                continue
            inner = places if rows is None else rows[places]
            if column_kind == ABSENT:
                parts.append((places, (self._of_job(key, inner, marks) if or_job else None) or ALL_UNDEFINED))
            else:
                parts.append((places, self._expressions(key, take(vector, places), inner, marks)))
        plain = np.flatnonzero((kind != ABSENT) & (kind != OTHER))
        if len(plain):
            parts.append((plain, take(vector, plain)))
        return merge(self.count(rows), parts)

    def _expressions(self, key: str, vector: Vector, rows: Rows, marks: Marks) -> Vector:
        """Evaluate slot attributes that are expressions: each distinct one over the slots that have it."""
        expressions = self.table.heap.expressions
        if vector.constant:
            return self._entered(expressions[vector.data], (SLOT, key), rows, marks)
        distinct, inverse = factorize(vector.data)
        parts = []
        for number, place in enumerate(distinct.tolist()):
            places = np.flatnonzero(inverse == number)
            inner = places if rows is None else rows[places]
            parts.append((places, self._entered(expressions[place], (SLOT, key), inner, marks)))
        return merge(len(vector.data), parts)

    def column_of(self, node: Any, side: str) -> str | None:
        """Return the column that a reference means; "" for a plain value of the job, None for neither."""
        if node.absolute or node.key in MATCH_NAMES:
            return None
        scope = scope_of(node)
        in_job = self.job._find(node.key)
        in_table = node.key in self.table.columns
        if scope == "":
            # Where both ads have it, either may be meant, slot by slot.
            own = in_job is not None if side == JOB else not in_table
            if side == SLOT and in_table and in_job is not None:
                return None
        elif scope in ("my", "target"):
            if scope in self.table.columns or self.job._find(scope) is not None:
                return None
            own = (scope == "my") == (side == JOB)
        else:
            return None
        if not own:
            return node.key if in_table else None
        self.lasting = False
        return "" if in_job is not None and type(in_job[1]) is Literal else None

    # -- slot by slot --------------------------------------------------------------------------------------------------

    def count_scalar(self, number: int) -> None:
        """Count calls of the scalar compiler; raise Unsupported where it is not allowed."""
        if not self.scalar_allowed:
            raise Unsupported
        self.scalar += number

    def _slot_by_slot(self, node: Expression, side: str, rows: Rows, marks: Marks) -> Vector:
        """Evaluate a node in each slot's own ad, by the scalar compiler."""
        self.lasting = False
        places = range(len(self.table)) if rows is None else rows.tolist()
        self.count_scalar(len(places))
        values = [self.closed(self.in_slot(node, side, self.table.ad(place), marks)) for place in places]
        return self.arena.from_values(values) if values else ALL_UNDEFINED

    def in_slot(self, node: Expression, side: str, ad: ClassAd, marks: Marks) -> Any:
        """Evaluate a node for one slot by the scalar compiler, with the attributes under evaluation marked."""
        my, target = (self.job, ad) if self.job_is_left else (ad, self.job)
        env = Environment(my, target, self.context)
        env.depth -= self.steps
        given = env.given = env.steps = min(env.steps, max(STEPS_IN_A_SLOT, self.budget))
        if marks:
            env.active = {(id((self.job if where == JOB else ad)._cells), key) for where, key in marks}
        try:
            return evaluate_in(node, env, self.job if side == JOB else ad)
        except RecursionError:
            raise EvaluationFailed("the evaluation nests too deeply for this program's stack") from None
        finally:
            self.budget -= given - env.steps
            env.settle()

    def closed(self, value: Any) -> Any:
        """Return a value that may leave its slot: the members of a list or an ad must be constants."""
        if isinstance(value, ListValue) and all(isinstance(member, Literal) for member in value.expressions):
            return value
        if isinstance(value, ListValue | ClassAd):
            raise _Open(value)
        return value


class _Open(Unsupported):
    """A list or an ad has members that depend on the slot: compute the enclosing node slot by slot."""


HANDLERS.update(
    {
        Literal: Columnar._literal,
        TimeLiteral: Columnar._time,
        ListExpression: Columnar._list,
        Parentheses: Columnar._parentheses,
        Attribute: Columnar._attribute,
    }
)
