"""The columnar compiler: one expression over all slots of a table, in arrays.

It walks the tree once and asks of each node a vector. Two ads are in play, as in any evaluation: the job, which is
one, and the slot, which is a table. ``side`` says in which of them an expression stands; names are looked up there
first and in the other ad then, so that the attributes of a slot which are expressions themselves (Requirements, Start
...) are evaluated in arrays too, once for each distinct text.

What is not an operation on arrays is computed on the distinct combinations of its arguments (``_distinct``): a
function of one column of versions runs once a version. What depends on more than its arguments' values
(``countMatches``, nested ads ...) is evaluated slot by slot, by the scalar compiler, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .ad import ClassAd
from .columns import ABSENT, BOOLEAN, ERR, INTEGER, OTHER, STRING, UNDEF, factorize
from .context import Context
from .functions import FUNCTIONS
from .operators import BINARY, UNARY
from .scalar import Environment, evaluate_in, strays
from .scope import MATCH_NAMES, MATCH_ROOT
from .tree import (
    AdExpression,
    Attribute,
    Binary,
    Call,
    Conditional,
    Constant,
    Expression,
    ListExpression,
    Literal,
    Parentheses,
    TimeLiteral,
    Unary,
)
from .values import UNDEFINED, ListValue, RelTime, low32
from .vectors import (
    ALL_ERROR,
    ALL_UNDEFINED,
    FALSE,
    TRUE,
    UNKNOWN,
    WRONG,
    Arena,
    Mask,
    Rows,
    Unsupported,
    Vector,
    binary,
    from_codes,
    merge,
    natural,
    negated,
    payloads,
    settled,
    take,
    true_cells,
    truths,
)

if TYPE_CHECKING:
    from .table import SlotTable

JOB, SLOT = "job", "slot"
Marks = frozenset[tuple[str, str]]
_DEEPEST = 60


class Columnar:
    """One evaluation of expressions over a table, against one job.

    :ivar scalar: how many times the scalar compiler was called, a slot each
    :ivar depends: the versions of the columns that were read
    :ivar job_read: whether an attribute of the job was read from inside a slot's expression or left unresolved before
    """

    def __init__(self, table: SlotTable, job: ClassAd, context: Context, job_is_left: bool = True) -> None:
        self.table = table
        self.job = job
        self.context = context
        self.job_is_left = job_is_left
        self.arena = Arena(table._heap)
        self.scalar = 0
        self.scalar_allowed = True
        self.depends: dict[str, int] = {}
        self.job_read = False

    def whole(self, node: Expression, side: str = JOB, rows: Rows = None, marks: Marks = frozenset()) -> Vector:
        """The values of a complete expression; see ``run``."""
        if strays(node, self.job._find if side == JOB else self.table._has):
            return self._slot_by_slot(node, side, rows, marks)
        return self.run(node, side, rows, marks)

    def run(self, node: Expression, side: str = JOB, rows: Rows = None, marks: Marks = frozenset()) -> Vector:
        """The values of a node over some rows.

        :param marks: the attributes that are being evaluated already, each with its side
        :raises Unsupported: where only the scalar compiler could tell, and it is not allowed to.
        :raises EvaluationError: where an evaluation fails.
        """
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            try:
                return handler(self, node, side, rows, marks)  # type: ignore[no-any-return]
            except Unsupported:
                if not self.scalar_allowed:
                    raise
        elif not self.scalar_allowed:
            raise Unsupported
        return self._slot_by_slot(node, side, rows, marks)

    def count(self, rows: Rows) -> int:
        """How many rows there are to do."""
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
        key, base = node.key, node.base
        if key in MATCH_NAMES or node.absolute:
            raise Unsupported
        if base is None:
            if side == JOB:
                return self._of_job(key, rows, marks) or self._of_slots(key, rows, marks)
            return self._of_slots(key, rows, marks, or_job=True)
        if (
            not isinstance(base, Attribute)
            or base.base is not None
            or base.absolute
            or base.key not in ("my", "target")
        ):
            raise Unsupported
        # An ad with an attribute called MY or TARGET is left to the scalar compiler.
        if base.key in self.table._columns or self.job._find(base.key) is not None:
            raise Unsupported
        if (base.key == "my") == (side == JOB):
            return self._of_job(key, rows, marks) or ALL_UNDEFINED
        return self._of_slots(key, rows, marks)

    def _of_job(self, key: str, rows: Rows, marks: Marks) -> Vector | None:
        """An attribute of the job; None where it has none of that name."""
        self.job_read = True
        cell = self.job._find(key)
        if cell is None:
            return None
        if type(cell[1]) is Literal:
            return self.arena.constant(cell[1].value)
        return self._entered(cell[1], (JOB, key), rows, marks)

    def _entered(self, thing: Expression, mark: tuple[str, str], rows: Rows, marks: Marks) -> Vector:
        """An expression under a name; undefined where that name is being evaluated already."""
        if mark in marks:
            return ALL_UNDEFINED
        if len(marks) >= _DEEPEST:
            raise Unsupported
        return self.whole(thing, mark[0], rows, marks | {mark})

    def _of_slots(self, key: str, rows: Rows, marks: Marks, or_job: bool = False) -> Vector:
        """A column. What is absent in a slot is undefined, or with ``or_job`` the job's attribute of that name."""
        column = self.table._columns.get(key)
        if column is None:
            self.depends[key] = -1
            return (self._of_job(key, rows, marks) if or_job else None) or ALL_UNDEFINED
        self.depends[key] = column.version
        vector = self.table._vector(column, rows)
        kind = vector.kind
        if not vector.mixed:
            if kind == ABSENT:
                return (self._of_job(key, rows, marks) if or_job else None) or ALL_UNDEFINED
            return self._expressions(key, vector, rows, marks) if kind == OTHER else vector
        if not ((kind == ABSENT) | (kind == OTHER)).any():
            return vector
        parts: list[tuple[Any, Vector]] = []
        for wanted, mask in ((ABSENT, kind == ABSENT), (OTHER, kind == OTHER)):
            places = np.flatnonzero(mask)
            if len(places) == 0:
                continue
            inner = places if rows is None else rows[places]
            if wanted == ABSENT:
                parts.append((places, (self._of_job(key, inner, marks) if or_job else None) or ALL_UNDEFINED))
            else:
                parts.append((places, self._expressions(key, take(vector, places), inner, marks)))
        plain = np.flatnonzero((kind != ABSENT) & (kind != OTHER))
        if len(plain):
            parts.append((plain, take(vector, plain)))
        return merge(self.count(rows), parts)

    def _expressions(self, key: str, vector: Vector, rows: Rows, marks: Marks) -> Vector:
        """Attributes of slots that are expressions: each distinct one over the slots that have it."""
        expressions = self.table._heap.expressions
        if vector.constant:
            return self._entered(expressions[vector.data], (SLOT, key), rows, marks)
        distinct, inverse = factorize(vector.data)
        parts = []
        for number, place in enumerate(distinct.tolist()):
            places = np.flatnonzero(inverse == number)
            inner = places if rows is None else rows[places]
            parts.append((places, self._entered(expressions[place], (SLOT, key), inner, marks)))
        return merge(len(vector.data), parts)

    # -- operators -----------------------------------------------------------------------------------------------------

    def _unary(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        operand = self.run(node.operand, side, rows, marks)
        if node.op == "!":
            return negated(operand)
        if node.op == "-" and operand.kind == INTEGER and not operand.constant and not operand.mixed:
            with np.errstate(over="ignore"):
                return Vector(INTEGER, np.negative(operand.data))
        compute = UNARY[node.op]
        return self._distinct([operand], rows, lambda values: compute(values[0]))

    def _binary(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        op = node.op
        if op == "&&" or op == "||":
            return self._connective(node, side, rows, marks)
        left = self.run(node.left, side, rows, marks)
        if op == "?:":
            return self._elvis(left, node.right, side, rows, marks)
        right = self.run(node.right, side, rows, marks)
        if op == "[]":
            return self._distinct([left, right], rows, _subscript)
        try:
            return binary(self.arena, op, left, right, self.count(rows))
        except Unsupported:
            compute = BINARY[op]
            return self._distinct([left, right], rows, lambda values: compute(values[0], values[1]))

    def _elvis(self, left: Vector, right: Expression, side: str, rows: Rows, marks: Marks) -> Vector:
        if not left.mixed:
            return self.run(right, side, rows, marks) if left.kind == UNDEF else left
        missing = np.flatnonzero(left.kind == UNDEF)
        if len(missing) == 0:
            return left
        there = np.flatnonzero(left.kind != UNDEF)
        inner = missing if rows is None else rows[missing]
        return merge(len(left.kind), [(there, take(left, there)), (missing, self.run(right, side, inner, marks))])

    def _connective(self, node: Binary, side: str, rows: Rows, marks: Marks) -> Vector:
        """``&&`` or ``||`` from left to right; an operand is evaluated where those before it have not decided."""
        decisive = node.op == "||"
        operands: list[Expression] = []
        here: Expression = node
        while isinstance(here, Binary) and here.op == node.op:
            operands.append(here.right)
            here = here.left
        operands.append(here)
        operands.reverse()
        total = self.count(rows)
        neutral = FALSE if decisive else TRUE
        codes: Any = None  # of all cells, once they differ
        code = neutral
        open_places: Any = None  # the cells not yet decided; None: all
        inner = rows
        for operand in operands:
            condition = truths(self.run(operand, side, inner, marks))
            if not isinstance(condition, np.ndarray):
                if isinstance(condition, bool | np.bool_):
                    if bool(condition) is not decisive:
                        continue
                    condition = TRUE if decisive else FALSE
                if open_places is None and condition != UNKNOWN:
                    # It decides for all that are left, which are all.
                    return ALL_ERROR if condition == WRONG else self.arena.constant(decisive)
                condition = np.full(total if open_places is None else len(open_places), condition, np.uint8)
            if codes is None:
                codes = np.full(total, code, np.uint8)
            if condition.dtype == np.bool_:
                closing = condition if decisive else ~condition
                changed = closing
            else:
                closing = (condition == (TRUE if decisive else FALSE)) | (condition == WRONG)
                changed = closing | (condition == UNKNOWN)
            if not changed.any():
                continue
            places = np.flatnonzero(changed) if open_places is None else open_places[changed]
            codes[places] = condition[changed]
            if closing.any():
                keep = ~closing
                open_places = np.flatnonzero(keep) if open_places is None else open_places[keep]
                if len(open_places) == 0:
                    break
                inner = open_places if rows is None else rows[open_places]
        return self.arena.constant(not decisive) if codes is None else from_codes(codes)

    def _conditional(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        return self._choice(node.condition, node.then, node.otherwise, side, rows, marks)

    def _choice(
        self, condition: Expression, then: Expression, otherwise: Expression, side: str, rows: Rows, marks: Marks
    ) -> Vector:
        chosen = truths(self.run(condition, side, rows, marks))
        if not isinstance(chosen, np.ndarray):
            if isinstance(chosen, bool | np.bool_):
                return self.run(then if chosen else otherwise, side, rows, marks)
            return ALL_UNDEFINED if chosen == UNKNOWN else ALL_ERROR
        parts: list[tuple[Any, Vector]] = []
        for code, branch in ((TRUE, then), (FALSE, otherwise), (UNKNOWN, None), (WRONG, None)):
            places = np.flatnonzero(chosen == code)
            if len(places) == 0:
                continue
            if branch is None:
                parts.append((places, ALL_UNDEFINED if code == UNKNOWN else ALL_ERROR))
            else:
                inner = places if rows is None else rows[places]
                parts.append((places, self.run(branch, side, inner, marks)))
        return merge(len(chosen), parts)

    # -- functions -----------------------------------------------------------------------------------------------------

    def _call(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        key, arguments = node.key, node.arguments
        function = FUNCTIONS.get(key)
        if function is None:
            if key in self.context.functions:
                raise Unsupported
            return ALL_ERROR
        if not function.least <= len(arguments) <= function.most:
            return ALL_ERROR
        if key == "ifthenelse":
            condition, then, otherwise = arguments
            return self._choice(condition, then, otherwise, side, rows, marks)
        if not function.pure:
            raise Unsupported
        vectors = [self.run(argument, side, rows, marks) for argument in arguments]
        if key in _KIND_TESTS:
            return _kind_test(vectors[0], _KIND_TESTS[key])
        env = Environment(None, None, self.context)
        compute = function.eager
        if compute is not None:
            body = compute
            return self._distinct(vectors, rows, lambda values: body(env, None, values))
        lazy = function.lazy
        assert lazy is not None
        return self._distinct(
            vectors, rows, lambda values: lazy(env, None, [_returning(value) for value in values], node)
        )

    def _distinct(self, vectors: Sequence[Vector], rows: Rows, compute: Callable[[list[Any]], Any]) -> Vector:
        """A function of some vectors, computed once for each distinct combination of their values."""
        arena = self.arena
        varying = [vector for vector in vectors if not vector.constant]
        if not varying:
            return arena.constant(compute([arena.value(vector.kind, vector.data) for vector in vectors]))
        count = self.count(rows)
        groups: Any = None
        for vector in varying:
            numbers = vector.data if vector.mixed else payloads(vector.kind, vector.data, count)
            distinct, inverse = factorize(numbers)
            if vector.mixed:
                inverse = inverse * 8 + vector.kind
                distinct, inverse = factorize(inverse)
            groups = inverse if groups is None else factorize(groups * len(distinct) + inverse)[1]
        size = int(groups.max()) + 1
        example = np.zeros(size, np.int64)
        example[groups] = np.arange(count)
        columns = [arena.values(take(vector, example), size) for vector in vectors]
        if size > count // 8 + 16:
            self._scalar_calls(size)
        results = arena.from_values([compute(list(values)) for values in zip(*columns, strict=True)])
        return take(results, groups)

    # -- slot by slot --------------------------------------------------------------------------------------------------

    def _scalar_calls(self, number: int) -> None:
        if not self.scalar_allowed:
            raise Unsupported
        self.scalar += number

    def _slot_by_slot(self, node: Expression, side: str, rows: Rows, marks: Marks) -> Vector:
        """A node in each slot's own ad, by the scalar compiler."""
        self.job_read = True
        self.depends["*"] = self.table.version
        places = range(len(self.table)) if rows is None else rows.tolist()
        self._scalar_calls(len(places))
        values = []
        for place in places:
            ad = self.table.ad(place)
            env = (
                Environment(self.job, ad, self.context) if self.job_is_left else Environment(ad, self.job, self.context)
            )
            if marks:
                env.active = {(id((self.job if where == JOB else ad)._cells), key) for where, key in marks}
            values.append(self._closed(evaluate_in(node, env, self.job if side == JOB else ad)))
        return self.arena.from_values(values) if values else ALL_UNDEFINED

    def _closed(self, value: Any) -> Any:
        """A value that may leave its slot: a list or an ad must be of constants."""
        if isinstance(value, ListValue) and all(isinstance(member, Literal) for member in value.expressions):
            return value
        if isinstance(value, ListValue | ClassAd):
            raise _Open(value)
        return value


class _Open(Unsupported):
    """A list or an ad whose members still depend on the slot: what is made of it must be computed in the slot."""


def _subscript(values: list[Any]) -> Any:
    from .values import ERROR

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


def _returning(value: Any) -> Callable[[Any, Any], Any]:
    return lambda env, ad: value


_KIND_TESTS = {"isundefined": UNDEF, "iserror": ERR, "isstring": STRING, "isinteger": INTEGER, "isboolean": BOOLEAN}


def _kind_test(vector: Vector, kind: int) -> Vector:
    result = vector.kind == kind
    return Vector(BOOLEAN, result if vector.mixed else bool(result))


_HANDLERS: dict[type, Any] = {
    Literal: Columnar._literal,
    TimeLiteral: Columnar._time,
    ListExpression: Columnar._list,
    Parentheses: Columnar._parentheses,
    Attribute: Columnar._attribute,
    Unary: Columnar._unary,
    Binary: Columnar._binary,
    Conditional: Columnar._conditional,
    Call: Columnar._call,
}

__all__ = [
    "JOB",
    "MATCH_ROOT",
    "SLOT",
    "AdExpression",
    "Columnar",
    "Constant",
    "Mask",
    "natural",
    "settled",
    "true_cells",
]
