"""A pool of slots as a table: conditions and ranks of one job over all slots at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .ad import ClassAd
from .columnar import JOB, SLOT, Columnar
from .columns import ABSENT, BOOLEAN, INTEGER, OTHER, REAL, STRING, Cell, Column, Heap, Integers, Kind, Kinds, factorize
from .context import DEFAULT, Context
from .plans import GIVES_UP, Clause, ClauseCount, Plan
from .simplify import Known
from .tree import Attribute, Expression, Literal, children
from .values import ERROR, UNDEFINED, EvaluationError, EvaluationFailed, lower
from .vectors import Mask, Rows, Vector, natural

# How many ads are taken in at a time: their own memory can be given back in between.
_BATCH = 2000
_MOST_OF_MASKS = 48_000_000  # bytes
_MOST_VECTORS = 200


Slot: TypeAlias = "SupportsIndex | str"  # a place, or a Name


class Cells(NamedTuple):
    """An expression's values in each slot.

    ``values`` is a typed array where all are of one plain type, else an array of Python values. ``kinds`` has a
    ``Kind`` for each: UNDEFINED, ERROR, BOOLEAN, INTEGER, REAL, STRING or OTHER.
    """

    values: npt.NDArray[Any]
    kinds: npt.NDArray[np.uint8]


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
        # What all slots have in common, numbered: as of a version of the table.
        self._form: tuple[int, int, Any] = (-1, 0, None)
        # What plans found out about the slots' own conditions, for the jobs to come; as of a form of the table.
        self._prepared: dict[Any, list[Clause]] = {}
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

    @property
    def waste(self) -> int:
        """How many strings and expressions the table keeps, of which some may be of no slot any more."""
        return len(self._heap.strings.texts) + len(self._heap.expressions)

    @property
    def form(self) -> int:
        """A number that changes when what all slots have in common does: which attributes there are, and those that
        are the same in every slot."""
        version, number, before = self._form
        if version != self.version:
            common = tuple(map(_common, self._columns.items()))
            self._form = (self.version, number if common == before else number + 1, common)
        return self._form[1]

    def fill(self, name: str, expressions: Sequence[Expression | None]) -> None:
        """Set an attribute of all slots; None: the slot has none of that name."""
        column = self._columns[lower(name)] = self._renewed(name)
        column.append(self._heap, 0, [None if one is None else (name, one) for one in expressions])
        self._heap.strings.folded()
        self.version += 1

    def put(self, place: int, attributes: Mapping[str, Expression | None]) -> None:
        """Set some attributes of a slot; None: it has none of that name."""
        heap, rows = self._heap, self._rows
        for name, expression in attributes.items():
            key = lower(name)
            column = self._columns.get(key)
            if column is None:
                if expression is None:
                    continue
                column = self._columns[key] = Column(name)
            column.set(rows, place, *((ABSENT, 0) if expression is None else heap.encode(expression)))
        self.version += 1

    def extend(self, count: int) -> None:
        """Add so many slots without attributes at the end."""
        for column in self._columns.values():
            column.append(self._heap, self._rows, [None] * count)
        self._rows += count
        self._places = None
        self.version += 1

    def absent(self, name: str) -> Mask:
        """Which slots have no attribute of that name."""
        column = self._columns.get(lower(name))
        if column is None or not isinstance(column.kinds, np.ndarray):
            return np.full(self._rows, column is None or column.kinds == ABSENT)
        found: Mask = column.kinds[: self._rows] == ABSENT
        return found

    def expressions(self, name: str) -> list[Expression]:
        """The distinct expressions, without plain values, that slots have under a name."""
        column = self._columns.get(lower(name))
        if column is None or not self._rows:
            return []
        return [self._heap.expressions[number] for number in column.derived("expressions", lambda: _numbers(column))]

    def encoded(self, value: Any) -> tuple[int, int]:
        """The kind of a plain value, and the 64 bits that stand for it in this table."""
        return self._heap.encode(Literal(value))

    def assign(self, name: str, kinds: Kinds | int, values: Integers | int) -> None:
        """Set an attribute of all slots to numbers: a ``Kind`` for each slot or for all, and integers, or the bits of
        reals. What stays the same costs nothing."""
        column = self._columns.get(lower(name))
        if column is None:
            column = self._columns[lower(name)] = Column(name)
        elif np.array_equal(column.kinds, kinds) and np.array_equal(column.payload, values):
            return
        column.kinds, column.payload, column.cell = kinds, values, None
        column.version += 1
        self.version += 1

    def _renewed(self, name: str) -> Column:
        """An empty column in place of the one of that name: whoever kept something of that one must not know it."""
        column = Column(name)
        before = self._columns.get(lower(name))
        column.version = 0 if before is None else before.version
        return column

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

    def rank(self, job: ClassAd, among: Integers | None = None) -> npt.NDArray[np.float64]:
        """For each slot (of ``among``, by their places) the job's Rank of it; 0.0 where that is no number."""
        cell, ranks = job._find("rank"), np.zeros(self._rows if among is None else len(among))
        if cell is None or not len(ranks):
            return ranks
        run = Columnar(self, job, self.context)
        try:
            vector = run.whole(Known(job).rewrite(cell[1]), JOB, among)
            self.scalar_evaluations += run.scalar
        except GIVES_UP:
            return self._rank_of_each(job, cell[1], range(self._rows) if among is None else among.tolist())
        return _as_numbers(vector, ranks)

    def _rank_of_each(self, job: ClassAd, expression: Expression, places: Sequence[int]) -> npt.NDArray[np.float64]:
        self.scalar_evaluations += len(places)
        ranks = np.zeros(len(places))
        for number, place in enumerate(places):
            try:
                value = expression.evaluate(job, self.ad(place), self.context)
            except EvaluationFailed:
                continue
            if isinstance(value, int | float):
                ranks[number] = value
        return ranks

    def of_slots(self, expression: Expression, job: ClassAd, among: Integers | None = None) -> npt.NDArray[np.float64]:
        """The numbers that an expression is which stands in each slot (of ``among``, by their places), with a job as
        TARGET; NaN where it is no number, 1 and 0 for true and false."""
        count = self._rows if among is None else len(among)
        found = np.full(count, np.nan)
        if not count:
            return found
        run = Columnar(self, job, self.context, job_is_left=False)
        try:
            vector = run.whole(expression, SLOT, among)
            self.scalar_evaluations += run.scalar
        except GIVES_UP:
            return self._of_each_slot(expression, job, among)
        return _as_numbers(vector, found)

    def _of_each_slot(self, expression: Expression, job: ClassAd, among: Integers | None) -> npt.NDArray[np.float64]:
        places = range(self._rows) if among is None else among.tolist()
        self.scalar_evaluations += len(places)
        found = np.full(len(places), np.nan)
        for number, place in enumerate(places):
            try:
                value = expression.evaluate(self.ad(place), job, self.context)
            except EvaluationError:
                continue
            if isinstance(value, int | float):
                found[number] = value
        return found

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
        except GIVES_UP:
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

    def count_by_clause(self, job: ClassAd) -> list[ClauseCount]:
        """How many slots each clause of the job's Requirements leaves, in one pass: ``condor_q -better-analyze``."""
        return self.plan(job).by_clause()[0]

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
        if (len(self._masks) + 1) * max(1, self._rows) > _MOST_OF_MASKS:
            self._masks.clear()
        self._masks[key] = (depends, mask)

    def plan(self, job: ClassAd) -> Plan:
        """The work of ``matches(job)`` prepared: for a job whose match is asked for again and again."""
        return Plan(self, job)


def _numbers(column: Column) -> list[int]:
    """The distinct numbers of expressions in a column."""
    kinds, payload = column.kinds, column.payload
    if not isinstance(kinds, np.ndarray) and kinds != OTHER:
        return []
    if not isinstance(payload, np.ndarray):
        return [payload]
    there = payload if not isinstance(kinds, np.ndarray) else payload[: len(kinds)][kinds == OTHER]
    found: list[int] = np.unique(there).tolist()
    return found


def _common(item: tuple[str, Column]) -> tuple[str, int, int | None]:
    """What of a column may be put into a condition, or says how it may be taken apart."""
    key, column = item
    kinds, payload = column.kinds, column.payload
    if not isinstance(kinds, np.ndarray):
        return key, kinds, None if isinstance(payload, np.ndarray) else payload
    return key, -2 if column.derived("absent", lambda: bool((kinds == ABSENT).any())) else -1, None


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


def _as_numbers(vector: Vector, found: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """``found``, with the vector's cells where they are numbers or truths."""
    if not vector.mixed:
        if vector.kind in (BOOLEAN, INTEGER, REAL):
            found[:] = vector.data
        return found
    for kind in (BOOLEAN, INTEGER, REAL):
        here = vector.kind == kind
        found[here] = natural(kind, vector.data)[here]
    return found
