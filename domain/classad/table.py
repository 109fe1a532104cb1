"""A pool of slots as a table: conditions and ranks of one job over all slots at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .ad import ClassAd
from .analysis import clauses
from .columnar import JOB, MOST_NESTED, SLOT, Columnar, Marks
from .columns import ABSENT, BOOLEAN, INTEGER, OTHER, REAL, STRING, Cell, Column, Heap, Integers, Kind, Kinds, factorize
from .context import DEFAULT, Context
from .match import accepts, symmetric_match
from .scalar import strays, survey
from .scope import MATCH_NAMES
from .simplify import Known, rewrite
from .tree import Attribute, Binary, Expression, Literal, Parentheses, children, shape
from .values import ERROR, UNDEFINED, ContextError, EvaluationError, EvaluationFailed
from .vectors import Mask, Rows, Unsupported, Vector, natural, true_cells

# Where the work on columns ends, and each slot is evaluated on its own: what is not done by column, and what fails. The
# columns may have evaluated what some slot, or every slot, would not have asked for.
_GIVES_UP = (Unsupported, EvaluationError, RecursionError)

# How many ads are taken in at a time: their own memory can be given back in between.
_BATCH = 2000
_MOST_MASKS = 4000
_MOST_VECTORS = 200


Slot: TypeAlias = "SupportsIndex | str"  # a place, or a Name


class Cells(NamedTuple):
    """An expression's values in each slot.

    ``values`` is a typed array where all are of one plain type, else an array of Python values. ``kinds`` has a
    ``Kind`` for each: UNDEFINED, ERROR, BOOLEAN, INTEGER, REAL, STRING or OTHER.
    """

    values: npt.NDArray[Any]
    kinds: npt.NDArray[np.uint8]


class ClauseCount(NamedTuple):
    """How many slots one clause of a job's Requirements leaves: on its own, and after the clauses before it."""

    clause: Expression
    matched: int
    left: int


class SlotTable:
    """The ads of a pool's slots, held by column.

    A slot is known by its place (0, 1 ...), as in a list, or by its Name. All results are arrays with one element for
    each slot, in this order. Ads are copied in: ``table.ad(place)`` makes one anew.

    :ivar context: the surroundings of all evaluations; set it anew as time goes by
    :ivar scalar_evaluations: how many slots had to be evaluated one by one so far, for want of an array operation
    """

    def __init__(self, ads: Iterable[ClassAd] = (), *, context: Context = DEFAULT) -> None:
        self.context = context
        self.version = 0
        self.scalar_evaluations = 0
        self._heap = Heap()
        self._columns: dict[str, Column] = {}
        self._rows = 0
        self._places: dict[str, int] | None = None
        self._places_as_of = -1  # the version of the column Name
        self._vectors: dict[tuple[str, str, Any], tuple[int, Vector]] = {}
        # What plans found out about the slots' own conditions, for the jobs to come; as of a version of the table.
        self._prepared: dict[Any, list[_Clause]] = {}
        self._prepared_for = -1
        self._mentioned: dict[int, tuple[str, ...]] = {}
        self._masks: dict[Any, tuple[dict[str, int], Mask]] = {}
        self.add(ads)

    # -- the slots -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[ClassAd]:
        return (self.ad(place) for place in range(self._rows))

    def __getitem__(self, slot: Slot) -> ClassAd:
        return self.ad(slot)

    def ad(self, slot: Slot) -> ClassAd:
        """The ad of a slot."""
        place = self._place(slot)
        ad = ClassAd()
        decode = self._heap.decode
        for key, column in self._columns.items():
            kind, payload = column.at(place)
            if kind != ABSENT:
                ad._cells[key] = (column.name, decode(kind, payload))
        return ad

    def add(self, ads: ClassAd | Iterable[ClassAd]) -> None:
        """Add a slot at the end, or several at once, which costs less."""
        if isinstance(ads, ClassAd):
            ads = [ads]
        batch = list(islice(iter_ads := iter(ads), _BATCH))
        while batch:
            self._append([ad._all() for ad in batch])
            batch = list(islice(iter_ads, _BATCH))
        self._heap.strings.folded()
        self._places = None
        self.version += 1

    def _append(self, ads: Sequence[Mapping[str, Cell]]) -> None:
        rows, columns, heap = self._rows, self._columns, self._heap
        known: set[tuple[str, ...]] = set()
        for ad in ads:
            keys = tuple(ad)
            if keys not in known:
                known.add(keys)
                for key in keys:
                    if key not in columns:
                        columns[key] = Column(ad[key][0])
        for key, column in columns.items():
            column.append(heap, rows, [ad.get(key) for ad in ads])
        self._rows = rows + len(ads)

    def update(self, slot: Slot, changes: ClassAd | Mapping[str, Any], *, merge: bool = False) -> None:
        """Replace a slot's ad; with ``merge`` only set the attributes that ``changes`` has."""
        place = self._place(slot)
        ad = changes if isinstance(changes, ClassAd) else ClassAd(changes)
        self._write(place, ad, merge)

    def remove(self, slots: Slot | Iterable[Slot]) -> None:
        """Take out a slot, or several at once; those behind them move up."""
        gone = [
            self._place(slot)
            for slot in (slots if isinstance(slots, Iterable) and not isinstance(slots, str) else [slots])
        ]
        keep = np.ones(self._rows, bool)
        keep[gone] = False
        kept = np.flatnonzero(keep)
        for column in self._columns.values():
            column.keep(kept)
        self._rows = len(kept)
        self._places = None
        self.version += 1

    def _place(self, slot: Slot) -> int:
        if isinstance(slot, str):
            column = self._columns.get("name")
            version = -1 if column is None else column.version
            if self._places is None or self._places_as_of != version:
                self._places, self._places_as_of = self._by_name(), version
            if slot not in self._places:
                raise KeyError(f"no slot of the table has the Name {slot!r}")
            return self._places[slot]
        place = index(slot)
        if not -self._rows <= place < self._rows:
            raise IndexError(f"there is no slot {place} in a table of {self._rows}")
        return place % self._rows

    def _by_name(self) -> dict[str, int]:
        column = self._columns.get("name")
        if column is None:
            return {}
        texts = self._heap.strings.texts
        cells = (column.at(place) for place in range(self._rows))
        return {texts[payload]: place for place, (kind, payload) in enumerate(cells) if kind == STRING}

    def _write(self, place: int, ad: ClassAd, merge: bool = False) -> None:
        columns, heap = self._columns, self._heap
        rows = self._rows
        cells = ad._all()
        for key, cell in cells.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = Column(cell[0])
            elif column.cell is cell:
                continue
            kind, payload = heap.encode(cell[1])
            column.set(rows, place, kind, payload)
        if not merge and len(columns) > len(cells):
            for key in columns.keys() - cells.keys():
                columns[key].set(rows, place, ABSENT, 0)
        self.version += 1

    def _vector(self, column: Column, rows: Rows) -> Vector:
        """A column over some rows, in natural form."""
        kinds, payload = column.kinds, column.payload
        if not isinstance(payload, np.ndarray) and not isinstance(kinds, np.ndarray):
            if kinds == OTHER:
                return Vector(kinds, payload)
            value = self._heap.value(kinds, payload) if kinds in (BOOLEAN, INTEGER, REAL) else payload
            return Vector(kinds, value)
        count = self._rows
        if isinstance(kinds, np.ndarray):
            whole = np.full(count, payload, np.int64) if not isinstance(payload, np.ndarray) else payload[:count]
            if rows is None:
                return Vector(kinds[:count], whole)
            return Vector(kinds[:count][rows], whole[rows])
        assert isinstance(payload, np.ndarray)
        if kinds == BOOLEAN:
            data = column.derived("natural", lambda: payload[:count] != 0)
        else:
            data = natural(kinds, payload[:count])
        if rows is None:
            return Vector(kinds, data, column)
        return Vector(kinds, data[rows])

    # -- conditions ----------------------------------------------------------------------------------------------------

    def matches(self, job: ClassAd) -> Mask:
        """For each slot whether it and the job accept each other: the reference's symmetricMatch."""
        return self.plan(job).matches()

    def rank(self, job: ClassAd) -> npt.NDArray[np.float64]:
        """For each slot the job's Rank of it; 0.0 where that is no number."""
        cell = job._find("rank")
        if cell is None or not self._rows:
            return np.zeros(self._rows)
        run = Columnar(self, job, self.context)
        try:
            vector = run.whole(Known(job).rewrite(cell[1]))
            self.scalar_evaluations += run.scalar
        except _GIVES_UP:
            return self._each(job, cell[1], _rank_value)
        ranks = np.zeros(self._rows)
        if not vector.mixed:
            if vector.kind in (BOOLEAN, INTEGER, REAL):
                ranks[:] = vector.data
            return ranks
        for kind in (BOOLEAN, INTEGER, REAL):
            here = vector.kind == kind
            ranks[here] = natural(kind, vector.data)[here]
        return ranks

    def evaluate(self, expression: Expression, my: ClassAd | None = None) -> Cells:
        """An expression that stands in ``my``, with each slot as TARGET.

        :raises EvaluationError: where the evaluation fails for a slot.
        """
        job = ClassAd() if my is None else my
        run = Columnar(self, job, self.context)
        try:
            vector = run.whole(Known(job).rewrite(expression)) if self._rows else Vector(int(Kind.UNDEFINED), 0)
            values = None
            if vector.mixed or vector.kind == OTHER or vector.constant:
                values = run.arena.values(vector, self._rows)
            self.scalar_evaluations += run.scalar
        except _GIVES_UP:
            return self._evaluate_each(expression, job)
        kinds = vector.kind if vector.mixed else np.full(self._rows, vector.kind, np.uint8)
        if values is None:
            if vector.kind == STRING:
                values = run.arena.values(vector, self._rows)
            else:
                return Cells(vector.data.copy(), kinds.copy())
        return Cells(_array(values, kinds), kinds.copy())

    def _evaluate_each(self, expression: Expression, job: ClassAd) -> Cells:
        values = [expression.evaluate(job, ad, self.context) for ad in self]
        self.scalar_evaluations += self._rows
        kinds = np.array([_kind_of(value) for value in values], np.uint8)
        return Cells(_array(values, kinds), kinds)

    def _each(self, job: ClassAd, expression: Expression, of: Any) -> npt.NDArray[np.float64]:
        self.scalar_evaluations += self._rows
        out = np.zeros(self._rows)
        for place, ad in enumerate(self):
            try:
                out[place] = of(expression.evaluate(job, ad, self.context))
            except EvaluationFailed:
                continue
        return out

    def count_by_clause(self, job: ClassAd) -> list[ClauseCount]:
        """How many slots each clause of the job's Requirements leaves, in one pass: ``condor_q -better-analyze``."""
        cell = job._find("requirements")
        if cell is None:
            return []
        if not self._rows:
            return [ClauseCount(clause, 0, 0) for clause in clauses(cell[1])]
        left = np.ones(self._rows, bool)
        plain = self._plain_scopes(job)
        counts = []
        for clause in clauses(cell[1]):
            whole = strays(clause, job._find) or _nests(clause, MOST_NESTED)
            mask = _Clause(clause, JOB, frozenset(), plain=plain, whole=whole).mask(self, job, None)
            left &= mask
            counts.append(ClauseCount(clause, int(mask.sum()), int(left.sum())))
        return counts

    def _distinct(self, column: Column) -> tuple[Kinds, Integers, Integers]:
        """The kinds and payloads of a column's distinct cells, and for each row which of them it has."""

        def make() -> tuple[Kinds, Integers, Integers]:
            count = self._rows
            payloads, kinds = column._payloads(count), column._all_kinds(count)
            inverse = factorize(factorize(payloads)[1] * 8 + kinds)[1]
            example = np.zeros(int(inverse.max()) + 1, np.int64)
            example[inverse] = np.arange(count)
            return kinds[example], payloads[example], inverse

        return column.derived("distinct", make)  # type: ignore[no-any-return]

    def _keep_vector(self, key: tuple[str, str, Any], version: int, vector: Vector) -> None:
        if len(self._vectors) >= _MOST_VECTORS:
            self._vectors.clear()
        self._vectors[key] = (version, vector)

    def _names(self, expression: Expression) -> tuple[str, ...]:
        """The names that an expression of a slot mentions, in whatever scope."""
        names = self._mentioned.get(id(expression))
        if names is None:
            found: dict[str, None] = {}
            pending = [expression]
            while pending:
                node = pending.pop()
                if isinstance(node, Attribute):
                    found[node.key] = None
                pending.extend(children(node))
            names = self._mentioned[id(expression)] = tuple(found)
        return names

    def _lacks(self, key: str) -> bool:
        """Whether no slot has an attribute of that name."""
        column = self._columns.get(key)
        return column is None or (type(column.kinds) is int and column.kinds == ABSENT)

    def _has(self, key: str) -> bool:
        """Whether every slot has an attribute of that name."""
        column = self._columns.get(key)
        if column is None:
            return False
        kinds = column.kinds
        return not (kinds == ABSENT).any() if isinstance(kinds, np.ndarray) else kinds != ABSENT

    def _plain_scopes(self, job: ClassAd) -> bool:
        """Whether MY and TARGET mean the job and the slots, no ad having an attribute of that name."""
        return not any(name in self._columns or job._find(name) is not None for name in ("my", "target"))

    def _keep_mask(self, key: Any, depends: dict[str, int], mask: Mask) -> None:
        if len(self._masks) >= _MOST_MASKS:
            self._masks.clear()
        self._masks[key] = (depends, mask)

    def plan(self, job: ClassAd) -> Plan:
        """The work of ``matches(job)`` prepared: for a job whose match is asked for again and again."""
        return Plan(self, job)


def _rank_value(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _kind_of(value: Any) -> int:
    kinds: dict[type, Kind] = {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.REAL, str: Kind.STRING}
    if value is UNDEFINED:
        return Kind.UNDEFINED
    return Kind.ERROR if value is ERROR else kinds.get(type(value), Kind.OTHER)


def _array(values: Sequence[Any], kinds: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Values as a typed array where they are of one plain type."""
    dtype: Any = object
    if len(kinds) and (kinds == kinds[0]).all():
        dtype = {int(Kind.BOOLEAN): bool, int(Kind.INTEGER): np.int64, int(Kind.REAL): float}.get(int(kinds[0]), object)
    out = np.empty(len(values), dtype)
    for place, value in enumerate(values):
        out[place] = value
    return out


# -- plans -------------------------------------------------------------------------------------------------------------


def _nests(expression: Expression, levels: int) -> bool:
    return survey(expression).nesting > levels


class _Clause:
    """A condition that one of the two ads asks of the other, as far as the job is known: ready for the columns."""

    __slots__ = ("comparison", "key", "marks", "node", "side", "whole")

    def __init__(self, node: Expression, side: str, marks: Marks, *, plain: bool, whole: bool = False) -> None:
        """A clause.

        :param plain: whether MY and TARGET mean the two ads
        :param whole: whether it must not be taken apart
        """
        self.whole = whole
        self.node = node
        self.side = side
        self.marks = marks
        self.key = (side, shape(node), marks, plain)
        self.comparison = _comparison(node, side) if plain else None

    def mask(self, table: SlotTable, job: ClassAd, among: Mask | None) -> Mask:
        """Where the clause is true. Masks that depend on columns alone are kept for other jobs.

        :param among: the only slots that matter, where they are few and the clause is evaluated slot by slot
        """
        kept = table._masks.get(self.key)
        columns = table._columns
        if (
            kept is not None
            and len(kept[1]) == len(table)
            and all((columns[name].version if name in columns else -1) == version for name, version in kept[0].items())
        ):
            return kept[1]
        if self.whole:
            return self._slot_by_slot(table, job, among)
        if self.comparison is not None:
            mask = self._compared(table, *self.comparison)
            if mask is not None:
                return mask
        return self._evaluated(table, job, among)

    def _compared(self, table: SlotTable, name: str, test: Callable[[Any, Any], Any], number: Any) -> Mask | None:
        """What most clauses are: a column of numbers compared with a number. None for other columns."""
        column = table._columns.get(name)
        if column is None or type(column.kinds) is not int or column.kinds not in (INTEGER, REAL):
            return None
        data: Any = column.payload
        if type(data) is int:
            return None
        mask: Mask = test(data.view(np.float64) if column.kinds == REAL else data, number)
        table._keep_mask(self.key, {name: column.version}, mask)
        return mask

    def _evaluated(self, table: SlotTable, job: ClassAd, among: Mask | None) -> Mask:
        run = Columnar(table, job, table.context, self.side == JOB)
        run.scalar_allowed = False
        try:
            mask = true_cells(run.run(self.node, self.side, None, self.marks), len(table))
        except Unsupported:
            return self._scalar_mask(table, job, among)
        except _GIVES_UP:
            return self._slot_by_slot(table, job, among)
        if run.lasting:
            table._keep_mask(self.key, run.depends, mask)
        return mask

    def _scalar_mask(self, table: SlotTable, job: ClassAd, among: Mask | None) -> Mask:
        rows: Integers = np.arange(len(table)) if among is None else np.flatnonzero(among)
        mask = np.zeros(len(table), bool)
        if not len(rows):
            return mask
        run = Columnar(table, job, table.context, self.side == JOB)
        try:
            mask[rows] = true_cells(run.run(self.node, self.side, rows, self.marks), len(rows))
        except _GIVES_UP:
            return self._slot_by_slot(table, job, among)
        table.scalar_evaluations += run.scalar
        return mask

    def _slot_by_slot(self, table: SlotTable, job: ClassAd, among: Mask | None) -> Mask:
        """The last word: each slot on its own, an evaluation that fails being no match."""
        rows = range(len(table)) if among is None else np.flatnonzero(among).tolist()
        mask = np.zeros(len(table), bool)
        run = Columnar(table, job, table.context, self.side == JOB)
        run.steps = len(self.marks)
        for place in rows:
            table.scalar_evaluations += 1
            try:
                mask[place] = accepts(run.in_slot(self.node, self.side, table.ad(place), self.marks))
            except EvaluationFailed:
                continue
        return mask


_TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def _comparison(node: Expression, side: str) -> tuple[str, Callable[[Any, Any], Any], Any] | None:
    """``column < number`` in any form: the column, the test, the number. None for all else."""
    while isinstance(node, Parentheses):
        node = node.inner
    if not isinstance(node, Binary) or node.op not in _TESTS:
        return None
    op, column, constant = node.op, node.left, node.right
    if isinstance(column, Literal):
        op, column, constant = _TURNED[op], constant, column
    if not isinstance(column, Attribute) or not isinstance(constant, Literal):
        return None
    base = column.base
    if not isinstance(base, Attribute) or base.base is not None or base.absolute:
        return None
    if base.key != ("target" if side == JOB else "my") or column.key in MATCH_NAMES:
        return None
    number = constant.value
    if type(number) is int or type(number) is float:
        return column.key, _TESTS[op], number
    return None


class Plan:
    """What remains to be done to match one job with the slots of a table, once the job is known.

    It holds as long as the table has the same columns; after a change it prepares itself anew.
    """

    def __init__(self, table: SlotTable, job: ClassAd) -> None:
        self.table = table
        self.job = job
        self._known = Known(job)
        self._version = -1
        self._groups: list[tuple[Mask | None, list[_Clause]]] = []
        self._plain = False

    def matches(self) -> Mask:
        """For each slot whether it and the job accept each other.

        :raises ContextError: where a slot's match asks for what the context does not have.
        """
        try:
            return self._matches()
        except (ContextError, RecursionError):
            table = self.table
            table.scalar_evaluations += len(table)
            answers = (symmetric_match(self.job, ad, table.context) for ad in table)
            return np.fromiter(answers, bool, len(table))

    def _matches(self) -> Mask:
        table = self.table
        count = len(table)
        if self._version != table.version:
            self._prepare()
        if not self._groups:
            return np.zeros(count, bool)
        result: Mask | None = None
        outside: Mask | None = None
        for members, conditions in self._groups:
            for clause in conditions:
                among = result if members is None else members if result is None else result & members
                mask = clause.mask(table, self.job, among)
                if members is not None:
                    mask = mask | ~members
                if result is None:
                    result = mask.copy()
                else:
                    result &= mask
            if members is not None:
                outside = members if outside is None else outside | members
        if result is None:
            result = np.ones(count, bool)
        if outside is not None:
            result &= outside
        return result

    def _prepare(self) -> None:
        table = self.table
        self._version = table.version
        self._groups = []
        self._plain = table._plain_scopes(self.job)
        if table._prepared_for != table.version:
            table._prepared.clear()
            table._prepared_for = table.version
        wanted = self.job._find("requirements")
        column = table._columns.get("requirements")
        if wanted is None or column is None or not len(table):
            return  # without Requirements on both sides nothing matches: no group
        self._groups.append((None, self._clauses(wanted[1], JOB, frozenset())))
        kinds, payloads, inverse = table._distinct(column)
        for number, (kind, payload) in enumerate(zip(kinds.tolist(), payloads.tolist(), strict=True)):
            members = None if len(kinds) == 1 else inverse == number
            # A slot without Requirements accepts nothing.
            expression = Literal(False) if kind == ABSENT else table._heap.decode(kind, payload)
            self._groups.append((members, self._clauses(expression, SLOT, frozenset())))
        # A part without a mask speaks of all slots, one with a mask of its own; all slots are in some part.

    def _clauses(self, expression: Expression, side: str, marks: Marks) -> list[_Clause]:
        """The clauses of a conjunction, what is known put in; those that are true of themselves left out."""
        if strays(expression, self.job._find if side == JOB else self.table._has):
            # Its parts depend on one another: it stays as it is.
            return [_Clause(expression, side, marks, plain=self._plain, whole=True)]
        memo = self._memo(expression, side, marks)
        kept = None if memo is None else self.table._prepared.get(memo)
        if kept is not None:
            return kept
        out: list[_Clause] = []
        # What is put in adds a level at most: where the whole is shallow, so are its clauses.
        shallow = not _nests(expression, MOST_NESTED - 1)
        for clause in clauses(rewrite(expression, self._in_job if side == JOB else self._in_slot)):
            if isinstance(clause, Literal) and clause.value is True:
                continue
            inner = self._inlined(clause, side, marks)
            if inner is None:
                whole = not shallow and _nests(clause, MOST_NESTED)
                out.append(_Clause(clause, side, marks, plain=self._plain, whole=whole))
            else:
                memo = None  # what is put in depends on more of the job than this expression tells
                out.extend(self._clauses(inner[0], SLOT, marks | {inner[1]}))
        if memo is not None:
            self.table._prepared[memo] = out
        return out

    def _memo(self, expression: Expression, side: str, marks: Marks) -> Any:
        """What the clauses of a slot's condition depend on: the job's attributes of the names that it mentions.

        Jobs of one kind ask for the same resources again and again. None where an attribute is no plain value.
        """
        if side == JOB or isinstance(expression, Literal):
            return None
        names = self.table._names(expression)
        values: list[Any] = []
        for name in names:
            cell = self.job._find(name)
            if cell is not None and type(cell[1]) is not Literal:
                return None
            values.append(None if cell is None else shape(cell[1]))
        return id(expression), marks, tuple(values)

    def _in_job(self, node: Attribute) -> Expression:
        """What is known of a reference in an expression of the job."""
        whose = self._whose(node, JOB)
        if whose == EITHER:
            if self.job._find(node.key) is not None:
                return self._known.value(node.key) or node
            # What the job does not have can only be the slot's. Said so, it means the same for every job.
            return self._of_all_slots(node.key) or Attribute(_TARGET, node.name)
        if whose == SLOT:
            return self._of_all_slots(node.key) or node
        return self._known.resolve(node) if whose == JOB else node

    def _in_slot(self, node: Attribute) -> Expression:
        """What is known of a reference in an expression of a slot."""
        whose = self._whose(node, SLOT)
        if whose == EITHER:
            whose = JOB if self.table._lacks(node.key) else SLOT
        if whose == SLOT:
            return self._of_all_slots(node.key) or node
        if whose != JOB:
            return node
        return Literal(UNDEFINED) if self.job._find(node.key) is None else self._known.value(node.key) or node

    def _whose(self, node: Attribute, side: str) -> str | None:
        """Whose attribute a reference means: the job's, the slot's, or EITHER (its own ad's first). None: who knows."""
        base = node.base
        if node.absolute or node.key in MATCH_NAMES:
            return None
        if base is None:
            return EITHER if self._plain else None
        if not isinstance(base, Attribute) or base.base is not None or base.absolute or not self._plain:
            return None
        if base.key not in ("my", "target"):
            return None
        return side if base.key == "my" else SLOT if side == JOB else JOB

    def _of_all_slots(self, key: str) -> Literal | None:
        """The value of an attribute that is the same plain value in all slots."""
        column = self.table._columns.get(key)
        if column is None:
            return Literal(UNDEFINED)
        kinds, payload = column.kinds, column.payload
        if isinstance(kinds, np.ndarray) or isinstance(payload, np.ndarray) or kinds == OTHER:
            return None
        return Literal(self.table._heap.value(kinds, payload))

    def _inlined(self, node: Expression, side: str, marks: Marks) -> tuple[Expression, tuple[str, str]] | None:
        """The expression behind an attribute that all slots share, and the attribute's mark."""
        whose = self._whose(node, side) if isinstance(node, Attribute) else None
        if whose is None or whose == JOB or not isinstance(node, Attribute):
            return None
        if whose == EITHER and side == JOB and self.job._find(node.key) is not None:
            return None
        column = self.table._columns.get(node.key)
        mark = (SLOT, node.key)
        if column is None or mark in marks or len(marks) > 20:
            return None
        if isinstance(column.kinds, np.ndarray) or isinstance(column.payload, np.ndarray):
            return None
        return None if column.kinds != OTHER else (self.table._heap.expressions[column.payload], mark)


_TARGET = Attribute(None, "TARGET")
EITHER = "either"
