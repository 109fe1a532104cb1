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
from typing import Any

import numpy as np

from .ad import ClassAd
from .columns import ABSENT, BOOLEAN, ERR, INTEGER, OTHER, STRING, UNDEF, Column, factorize
from .context import Context
from .environment import MATCH_NAMES, Environment
from .function_registry import FUNCTIONS, Function, Needs
from .operators import BINARY, UNARY
from .scalar import evaluate_in
from .slot_columns import SlotColumns
from .survey import strays, survey
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
    TimeLiteral,
    Unary,
    children,
    shape,
)
from .values import ERROR, UNDEFINED, EvaluationFailed, RelTime, low32, lower
from .vectors import (
    ALL_ERROR,
    ALL_UNDEFINED,
    FALSE,
    TRUE,
    UNKNOWN,
    WRONG,
    Arena,
    Rows,
    Unsupported,
    Vector,
    binary,
    from_codes,
    merge,
    negated,
    payloads,
    take,
    truths,
)

JOB, SLOT = "job", "slot"
Marks = frozenset[tuple[str, str]]
# What nests deeper, or leads on further, is left to the scalar compiler, which knows where the reference gives up.
MOST_NESTED = 50
_MOST_STEPS = 300


class Columnar:
    """One evaluation of expressions over a table, against one job.

    :ivar scalar: how many times the scalar compiler was called, a slot each
    :ivar depends: the versions of the columns that were read
    :ivar lasting: whether the result holds as long as the columns do, whatever job and context come next
    """

    def __init__(self, table: SlotColumns, job: ClassAd, context: Context, job_is_left: bool = True) -> None:
        self.table = table
        self.job = job
        self.context = context
        self.job_is_left = job_is_left
        self.arena = Arena(table.heap)
        self.scalar = 0
        self.scalar_allowed = True
        self.depends: dict[str, int] = {}
        self.lasting = True
        self.steps = 0  # of the reference's depth, taken by the expressions that are being evaluated

    def whole(self, node: Expression, side: str = JOB, rows: Rows = None, marks: Marks = frozenset()) -> Vector:
        """The values of a complete expression; see ``run``."""
        found = survey(node)
        if found.nesting > MOST_NESTED or strays(node, self.job._find if side == JOB else self.table.has):
            return self._slot_by_slot(node, side, rows, marks)
        before = self.steps
        self.steps += found.height + 1
        if self.steps > _MOST_STEPS:
            raise Unsupported
        try:
            return self.run(node, side, rows, marks)
        finally:
            self.steps = before

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
        if base.key in self.table.columns or self.job._find(base.key) is not None:
            raise Unsupported
        if (base.key == "my") == (side == JOB):
            return self._of_job(key, rows, marks) or ALL_UNDEFINED
        return self._of_slots(key, rows, marks)

    def _of_job(self, key: str, rows: Rows, marks: Marks) -> Vector | None:
        """An attribute of the job; None where it has none of that name."""
        self.lasting = False
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
        return self.whole(thing, mark[0], rows, marks | {mark})

    def _of_slots(self, key: str, rows: Rows, marks: Marks, or_job: bool = False) -> Vector:
        """A column. What is absent in a slot is undefined, or with ``or_job`` the job's attribute of that name."""
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

    # -- operators -----------------------------------------------------------------------------------------------------

    def _unary(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        operand = self.run(node.operand, side, rows, marks)
        if node.op == "!":
            return negated(operand)
        if node.op == "-" and not operand.mixed and not operand.constant and operand.kind == INTEGER:
            with np.errstate(over="ignore"):
                return Vector(INTEGER, np.negative(operand.data))
        compute = UNARY[node.op]
        return self._distinct([operand], rows, lambda values: compute(values[0]))

    def _binary(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        op = node.op
        if op == "&&" or op == "||":
            return self._connective(node, side, rows, marks)
        if op == "[]" and (by_value := self._by_value(node, side, rows)) is not None:
            return by_value
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
        plain: Any = None  # the result so far, as long as it is true or false everywhere
        for place, operand in enumerate(operands):
            places = None
            if plain is not None and not self._total(operand, side):
                places = np.flatnonzero(plain != decisive)
                if len(places) == 0:
                    break
            inner = rows if places is None else places if rows is None else rows[places]
            condition = truths(self.run(operand, side, inner, marks))
            if isinstance(condition, bool | np.bool_):
                if bool(condition) is decisive:
                    return self.arena.constant(decisive)
            elif not isinstance(condition, np.ndarray) or condition.dtype != np.bool_:
                return self._three_valued(operands[place:], decisive, plain, side, rows, marks)
            elif plain is None:
                plain = condition
            elif places is None:
                plain = plain | condition if decisive else plain & condition
            else:
                plain = plain.copy()
                plain[places] = condition
        return self.arena.constant(not decisive) if plain is None else Vector(BOOLEAN, plain)

    def _total(self, node: Expression, side: str) -> bool:
        """Whether a node has a value in every slot, found by array operations alone: nothing to be lazy about."""
        pending = [node]
        while pending:
            here = pending.pop()
            kind = type(here)
            if kind is Attribute:
                key = self._column_of(here, side)
                if key is None:
                    return False
                kinds = self.table.columns[key].kinds if key else 0
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
        self, operands: Sequence[Expression], decisive: bool, before: Any, side: str, rows: Rows, marks: Marks
    ) -> Vector:
        """The rest of a connective, of which some cell is undefined or an error.

        :param before: what the operands so far came to, true or false; None: they have decided nothing
        """
        total = self.count(rows)
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
            condition = truths(self.run(operand, side, inner, marks))
            if not isinstance(condition, np.ndarray):
                condition = np.full(len(open_places), int(condition), np.uint8)
            condition = condition.astype(np.uint8)
            closing = (condition == (TRUE if decisive else FALSE)) | (condition == WRONG)
            changed = closing | (condition == UNKNOWN)
            codes[open_places[changed]] = condition[changed]
            open_places = open_places[~closing]
        return from_codes(codes)

    def _conditional(self, node: Any, side: str, rows: Rows, marks: Marks) -> Vector:
        return self._choice((node.condition, node.then, node.otherwise), side, rows, marks, lazy=False)

    def _choice(
        self, operands: Sequence[Expression], side: str, rows: Rows, marks: Marks, *, lazy: bool = True
    ) -> Vector:
        """One of two branches, by a condition.

        :param lazy: whether a condition that is none (a string, say; not an error) leaves the branches alone; else what
            fails in one fails here
        """
        condition, then, otherwise = operands
        given = self.run(condition, side, rows, marks)
        chosen = truths(given)
        if not isinstance(chosen, np.ndarray):
            if isinstance(chosen, bool | np.bool_):
                return self.run(then if chosen else otherwise, side, rows, marks)
            if chosen == WRONG and not lazy and given.kind != ERR:
                self.run(then, side, rows, marks)
                self.run(otherwise, side, rows, marks)
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
                    self.run(then, side, inner, marks)
                    self.run(otherwise, side, inner, marks)
                parts.append((places, ALL_UNDEFINED if code == UNKNOWN else ALL_ERROR))
            else:
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
            return self._choice(arguments, side, rows, marks)
        if function.needs is Needs.PLACE:
            raise Unsupported
        if function.needs is Needs.CONTEXT:
            self.lasting = False
        if (by_value := self._by_value(node, side, rows)) is not None:
            return by_value
        at = function.members.get(len(arguments))
        if at is not None and _open_list(arguments[at]):
            return self._of_members(arguments, at, function, side, rows, marks)
        vectors = [self.run(argument, side, rows, marks) for argument in arguments]
        if key in _KIND_TESTS:
            return _kind_test(vectors[0], _KIND_TESTS[key])
        env = Environment(None, None, self.context)
        body = function.eager
        if body is not None:
            return self._distinct(vectors, rows, lambda values: body(env, None, values))
        lazy = function.lazy
        assert lazy is not None
        return self._distinct(
            vectors, rows, lambda values: lazy(env, None, [_returning(value) for value in values], node)
        )

    def _of_members(
        self, arguments: Sequence[Any], at: int, function: Function, side: str, rows: Rows, marks: Marks
    ) -> Vector:
        """A function of a list as it is written, the argument ``at``: of its members, each of which is a vector."""
        body = function.eager
        assert body is not None
        env = Environment(None, None, self.context)
        end = at + len(arguments[at].members)
        flat = [*arguments[:at], *arguments[at].members, *arguments[at + 1 :]]

        def call(values: list[Any]) -> Any:
            members = ListValue([Constant(value) for value in values[at:end]], None)
            return body(env, None, [*values[:at], members, *values[end:]])

        return self._distinct([self.run(part, side, rows, marks) for part in flat], rows, call)

    def _by_value(self, node: Expression, side: str, rows: Rows) -> Vector | None:
        """A function of a single column, however deep, computed once for each distinct value of the column.

        None where a node reads more than one column, or anything else than plain values.
        """
        key = self._single_column(node, side)
        if not key:
            return None
        column = self.table.columns[key]
        self.depends[key] = column.version
        memo = (side, key, shape(node))
        kept = self.table.vectors.get(memo)
        if kept is not None and kept[0] == column.version:
            whole = kept[1]
        else:
            made = self._of_each_value(node, side, column)
            if made is None:
                return None
            whole = made
            if self.lasting and not _refers(whole):
                self.table.keep_vector(memo, column.version, whole)
        return whole if rows is None else take(whole, rows)

    def _of_each_value(self, node: Expression, side: str, column: Column) -> Vector | None:
        kinds, values, inverse = self.table.distinct(column)
        if len(kinds) > len(inverse) // 8 + 16 or (kinds == OTHER).any():
            return None
        results = []
        for kind, payload in zip(kinds.tolist(), values.tolist(), strict=True):
            slot = ClassAd()
            if kind != ABSENT:
                slot._cells[lower(column.name)] = (column.name, self.table.heap.decode(kind, payload))
            my, target = (self.job, slot) if self.job_is_left else (slot, self.job)
            try:
                results.append(
                    self._closed(
                        evaluate_in(node, Environment(my, target, self.context), self.job if side == JOB else slot)
                    )
                )
            except (EvaluationFailed, Unsupported):
                return None
        return take(self.arena.from_values(results), inverse)

    def _single_column(self, node: Expression, side: str) -> str | None:
        """The key of the one column that a node reads; None where it reads several, or what a column does not tell."""
        found: str | None = None
        pending = [node]
        while pending:
            here = pending.pop()
            kind = type(here)
            if kind is Attribute:
                key = self._column_of(here, side)
                if key is None or (key and found is not None and key != found):
                    return None
                found = key or found
                continue
            if kind is Call:
                function = FUNCTIONS.get(here.key)  # type: ignore[attr-defined]
                if function is None or function.needs is Needs.PLACE:
                    return None
                if function.needs is Needs.CONTEXT:
                    self.lasting = False
            elif kind not in _PLAIN_NODES:
                return None
            pending.extend(children(here))
        return found

    def _column_of(self, node: Any, side: str) -> str | None:
        """The column that a reference means; "" for a plain value of the job, None for what is neither."""
        base = node.base
        if node.absolute or node.key in MATCH_NAMES:
            return None
        in_job = self.job._find(node.key)
        in_table = node.key in self.table.columns
        if base is None:
            # What both have may be the one or the other, slot by slot.
            own = in_job is not None if side == JOB else not in_table
            if side == SLOT and in_table and in_job is not None:
                return None
        elif type(base) is Attribute and base.base is None and not base.absolute and base.key in ("my", "target"):
            if base.key in self.table.columns or self.job._find(base.key) is not None:
                return None
            own = (base.key == "my") == (side == JOB)
        else:
            return None
        if not own:
            return node.key if in_table else None
        self.lasting = False
        return "" if in_job is not None and type(in_job[1]) is Literal else None

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
        self.lasting = False
        places = range(len(self.table)) if rows is None else rows.tolist()
        self._scalar_calls(len(places))
        values = [self._closed(self.in_slot(node, side, self.table.ad(place), marks)) for place in places]
        return self.arena.from_values(values) if values else ALL_UNDEFINED

    def in_slot(self, node: Expression, side: str, ad: ClassAd, marks: Marks) -> Any:
        """The value of a node for one slot, by the scalar compiler, within what is being evaluated already.

        :raises EvaluationError: where the evaluation fails.
        """
        my, target = (self.job, ad) if self.job_is_left else (ad, self.job)
        env = Environment(my, target, self.context)
        env.depth -= self.steps
        if marks:
            env.active = {(id((self.job if where == JOB else ad)._cells), key) for where, key in marks}
        try:
            return evaluate_in(node, env, self.job if side == JOB else ad)
        except RecursionError:
            raise EvaluationFailed("the evaluation nests too deeply for this program's stack") from None

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


def _open_list(node: Expression) -> bool:
    """Whether a node is a list whose members are expressions, though none is a list or an ad itself."""
    if not isinstance(node, ListExpression):
        return False
    plain = not any(isinstance(member, ListExpression | AdExpression) for member in node.members)
    return plain and not all(isinstance(member, Literal) for member in node.members)


_PLAIN_NODES = frozenset({Literal, Parentheses, Unary, Binary, Conditional, ListExpression})


def _refers(vector: Vector) -> bool:
    """Whether cells are lists or times, which live no longer than the evaluation that made them."""
    return bool((vector.kind == OTHER).any()) if vector.mixed else vector.kind == OTHER


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
