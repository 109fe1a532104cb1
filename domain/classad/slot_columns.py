"""Hold a pool's slots by column: add, change and return ads, and cache what evaluations derive from the columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from .ad import ClassAd
from .columns import ABSENT, BOOLEAN, INTEGER, OTHER, REAL, STRING, AttributeColumn, Heap, Integers, Kinds, factorize
from .context import DEFAULT, Context
from .tree import Attribute, Cell, Expression, Literal, children
from .values import lower
from .vectors import Mask, Rows, Vector, natural

# How many ads are taken in at a time, so that their memory can be freed in between.
_BATCH = 2000
FORMS = 4
"""Forms of a table that are known at a time (`SlotColumns.form`)."""
_MOST_OF_MASKS = 48_000_000  # bytes
_MOST_VECTORS = 200

Slot: TypeAlias = "SupportsIndex | str"  # a place, or a Name


class SlotColumns:
    """The columns of a pool's slots, and what evaluations over them cache."""

    def __init__(self, ads: Iterable[ClassAd] = (), *, context: Context = DEFAULT) -> None:
        self.context = context
        self.version = 0
        self.scalar_evaluations = 0
        self.heap = Heap()
        self.columns: dict[str, AttributeColumn] = {}
        self._rows = 0
        self._places: dict[str, int] | None = None
        self._places_as_of = -1  # the version of the column Name
        self.vectors: dict[tuple[str, str, Any], tuple[int, Vector]] = {}
        # The number of what is common to all slots, as of one version of the table; and its latest numbers.
        self._form = (-1, 0)
        self._forms: dict[Any, int] = {}
        self._numbered = 0
        # Clauses of the slots' conditions that plans cached for later jobs, as of one form of the table.
        self.prepared: dict[Any, Any] = {}
        self.prepared_for = -1
        self._mentioned: dict[int, tuple[str, ...]] = {}
        self.masks: dict[Any, tuple[dict[str, int], Mask]] = {}
        self.add(ads)

    # -- the slots -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[ClassAd]:
        return (self.ad(place) for place in range(self._rows))

    def __getitem__(self, slot: Slot) -> ClassAd:
        return self.ad(slot)

    def ad(self, slot: Slot) -> ClassAd:
        place = self._place(slot)
        ad = ClassAd()
        decode = self.heap.decode
        for key, column in self.columns.items():
            kind, payload = column.at(place)
            if kind != ABSENT:
                ad._cells[key] = (column.name, decode(kind, payload))
        return ad

    def add(self, ads: ClassAd | Iterable[ClassAd]) -> None:
        """Add one or several slots at the end; several at once cost less."""
        if isinstance(ads, ClassAd):
            ads = [ads]
        batch = list(islice(iter_ads := iter(ads), _BATCH))
        while batch:
            self._append([ad._all() for ad in batch])
            batch = list(islice(iter_ads, _BATCH))
        self.heap.strings.lowercase_codes()
        self._places = None
        self.version += 1

    def _append(self, ads: Sequence[Mapping[str, Cell]]) -> None:
        rows, columns, heap = self._rows, self.columns, self.heap
        known: set[tuple[str, ...]] = set()
        for ad in ads:
            keys = tuple(ad)
            if keys not in known:
                known.add(keys)
                for key in keys:
                    if key not in columns:
                        columns[key] = AttributeColumn(ad[key][0])
        for key, column in columns.items():
            column.append(heap, rows, [ad.get(key) for ad in ads])
        self._rows = rows + len(ads)

    def update(self, slot: Slot, changes: ClassAd | Mapping[str, Any], *, merge: bool = False) -> None:
        """Replace a slot's ad; with ``merge`` set only the attributes in ``changes``."""
        place, columns, heap, rows = self._place(slot), self.columns, self.heap, self._rows
        cells = (changes if isinstance(changes, ClassAd) else ClassAd(changes))._all()
        for key, cell in cells.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = AttributeColumn(cell[0])
            elif column.cell is cell:
                continue
            kind, payload = heap.encode(cell[1])  # not `*`, which costs half as much as all the rest
            column.set(rows, place, kind, payload)
        if not merge and len(columns) > len(cells):
            for key in columns.keys() - cells.keys():
                columns[key].set(rows, place, ABSENT, 0)
        self.version += 1

    def remove(self, slots: Slot | Iterable[Slot]) -> None:
        """Remove one or several slots; those behind them move up."""
        gone = [
            self._place(slot)
            for slot in (slots if isinstance(slots, Iterable) and not isinstance(slots, str) else [slots])
        ]
        keep = np.ones(self._rows, bool)
        keep[gone] = False
        kept = np.flatnonzero(keep)
        for column in self.columns.values():
            column.keep_rows(kept)
        self._rows = len(kept)
        self._places = None
        self.version += 1

    @property
    def waste(self) -> int:
        """Return how many strings and expressions the table keeps, unused ones among them."""
        return len(self.heap.strings.texts) + len(self.heap.expressions)

    @property
    def form(self) -> int:
        """Return a number that changes whenever the set of attributes, or a value common to all slots, does; and comes
        again when they do: what all slots have in common while none is claimed, they have so time and again."""
        if self._form[0] != self.version:
            common = tuple(map(_common, self.columns.items()))
            number = self._forms.pop(common, -1)
            if number < 0:
                self._numbered = number = self._numbered + 1
            self._forms[common] = number  # the latest is the last
            if len(self._forms) > FORMS:
                del self._forms[next(iter(self._forms))]
            self._form = (self.version, number)
        return self._form[1]

    def fill(self, name: str, expressions: Sequence[Expression | None]) -> None:
        """Set an attribute of all slots; None: the slot has none of that name."""
        column = self.columns[lower(name)] = self._renewed(name)
        column.append(self.heap, 0, [None if expression is None else (name, expression) for expression in expressions])
        self.heap.strings.lowercase_codes()
        self.version += 1

    def put(self, place: int, attributes: Mapping[str, Expression | None]) -> None:
        """Set some attributes of a slot; None removes one."""
        heap, rows = self.heap, self._rows
        for name, expression in attributes.items():
            key = lower(name)
            column = self.columns.get(key)
            if column is None:
                if expression is None:
                    continue
                column = self.columns[key] = AttributeColumn(name)
            kind, payload = (ABSENT, 0) if expression is None else heap.encode(expression)
            column.set(rows, place, kind, payload)
        self.version += 1

    def extend(self, count: int) -> None:
        """Add ``count`` slots without attributes at the end."""
        for column in self.columns.values():
            column.append(self.heap, self._rows, [None] * count)
        self._rows += count
        self._places = None
        self.version += 1

    def absent(self, name: str) -> Mask:
        """Return a mask of the slots without an attribute of that name."""
        column = self.columns.get(lower(name))
        if column is None or not isinstance(column.kinds, np.ndarray):
            return np.full(self._rows, column is None or column.kinds == ABSENT)
        mask: Mask = column.kinds[: self._rows] == ABSENT
        return mask

    def expressions(self, name: str) -> list[Expression]:
        """Return the distinct expressions, without plain values, that slots have under a name."""
        column = self.columns.get(lower(name))
        if column is None or not self._rows:
            return []
        return [self.heap.expressions[number] for number in column.cached("expressions", lambda: _numbers(column))]

    def encoded(self, value: Any) -> tuple[int, int]:
        """Return the kind of a plain value, and its 64-bit payload in this table."""
        return self.heap.encode(Literal(value))

    def assign(self, name: str, kinds: Kinds | int, values: Integers | int) -> None:
        """Set an attribute of all slots to numbers; unchanged values cost nothing.

        :param kinds: a ``Kind`` for each slot, or one for all
        :param values: integers, or the bits of reals
        """
        column = self.columns.get(lower(name))
        if column is None:
            column = self.columns[lower(name)] = AttributeColumn(name)
        elif np.array_equal(column.kinds, kinds) and np.array_equal(column.payload, values):
            return
        column.kinds, column.payload, column.cell = kinds, values, None
        column.version += 1
        self.version += 1

    def _renewed(self, name: str) -> AttributeColumn:
        """Put an empty column in place of the one of that name, so that no cache of the old one is reused."""
        column = AttributeColumn(name)
        before = self.columns.get(lower(name))
        column.version = 0 if before is None else before.version
        return column

    def _place(self, slot: Slot) -> int:
        if isinstance(slot, str):
            column = self.columns.get("name")
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
        column = self.columns.get("name")
        if column is None:
            return {}
        texts = self.heap.strings.texts
        cells = (column.at(place) for place in range(self._rows))
        return {texts[payload]: place for place, (kind, payload) in enumerate(cells) if kind == STRING}

    def vector(self, column: AttributeColumn, rows: Rows) -> Vector:
        """Return a column over some rows, in natural form."""
        kinds, payload = column.kinds, column.payload
        if not isinstance(payload, np.ndarray) and not isinstance(kinds, np.ndarray):
            if kinds == OTHER:
                return Vector(kinds, payload)
            value = self.heap.value(kinds, payload) if kinds in (BOOLEAN, INTEGER, REAL) else payload
            return Vector(kinds, value)
        count = self._rows
        if isinstance(kinds, np.ndarray):
            payloads = np.full(count, payload, np.int64) if not isinstance(payload, np.ndarray) else payload[:count]
            if rows is None:
                return Vector(kinds[:count], payloads)
            return Vector(kinds[:count][rows], payloads[rows])
        assert isinstance(payload, np.ndarray)
        if kinds == BOOLEAN:
            data = column.cached("natural", lambda: payload[:count] != 0)
        else:
            data = natural(kinds, payload[:count])
        if rows is None:
            return Vector(kinds, data, column)
        return Vector(kinds, data[rows])

    # -- what evaluations ask ------------------------------------------------------------------------------------------

    def distinct(self, column: AttributeColumn) -> tuple[Kinds, Integers, Integers]:
        """Return kinds and payloads of a column's distinct cells, and for each row the index of its cell."""

        def make() -> tuple[Kinds, Integers, Integers]:
            count = self._rows
            payloads, kinds = column.payloads(count), column.all_kinds(count)
            inverse = factorize(factorize(payloads)[1] * 8 + kinds)[1]
            example = np.zeros(int(inverse.max()) + 1, np.int64)
            example[inverse] = np.arange(count)
            return kinds[example], payloads[example], inverse

        return column.cached("distinct", make)  # type: ignore[no-any-return]

    def keep_vector(self, key: tuple[str, str, Any], version: int, vector: Vector) -> None:
        if len(self.vectors) >= _MOST_VECTORS:
            self.vectors.clear()
        self.vectors[key] = (version, vector)

    def names_in(self, expression: Expression) -> tuple[str, ...]:
        """Return the names that a slot's expression mentions, in any scope."""
        names = self._mentioned.get(id(expression))
        if names is None:
            seen: dict[str, None] = {}
            pending = [expression]
            while pending:
                node = pending.pop()
                if isinstance(node, Attribute):
                    seen[node.key] = None
                pending.extend(children(node))
            names = self._mentioned[id(expression)] = tuple(seen)
        return names

    def lacks(self, key: str) -> bool:
        """Return whether no slot has an attribute of that name."""
        column = self.columns.get(key)
        return column is None or (type(column.kinds) is int and column.kinds == ABSENT)

    def has(self, key: str) -> bool:
        """Return whether every slot has an attribute of that name."""
        column = self.columns.get(key)
        if column is None:
            return False
        kinds = column.kinds
        return not (kinds == ABSENT).any() if isinstance(kinds, np.ndarray) else kinds != ABSENT

    def plain_scopes(self, job: ClassAd) -> bool:
        """Return whether MY and TARGET mean the job and the slots: no ad has an attribute of that name."""
        return not any(name in self.columns or job._find(name) is not None for name in ("my", "target"))

    def keep_mask(self, key: Any, column_versions: dict[str, int], mask: Mask) -> None:
        if (len(self.masks) + 1) * max(1, self._rows) > _MOST_OF_MASKS:
            self.masks.clear()
        self.masks[key] = (column_versions, mask)


def _numbers(column: AttributeColumn) -> list[int]:
    """Return the distinct numbers of expressions in a column."""
    kinds, payload = column.kinds, column.payload
    if not isinstance(kinds, np.ndarray) and kinds != OTHER:
        return []
    if not isinstance(payload, np.ndarray):
        return [payload]
    there = payload if not isinstance(kinds, np.ndarray) else payload[: len(kinds)][kinds == OTHER]
    numbers: list[int] = np.unique(there).tolist()
    return numbers


def _common(item: tuple[str, AttributeColumn]) -> tuple[str, int, int | None]:
    """Return the part of a column that can be put into a condition, or that says how to split one."""
    key, column = item
    kinds, payload = column.kinds, column.payload
    if not isinstance(kinds, np.ndarray):
        return key, kinds, None if isinstance(payload, np.ndarray) else payload
    return key, -2 if column.cached("absent", lambda: bool((kinds == ABSENT).any())) else -1, None
