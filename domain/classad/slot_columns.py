"""Store the ads of a pool's slots by column, and cache what is evaluated over the columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from .ad import ClassAd
from .columns import ABSENT, BOOLEAN, INTEGER, OTHER, REAL, STRING, AttributeColumn, Heap, Integers, Kinds, factorize
from .context import DEFAULT, Context
from .tree import Attribute, Cell, Expression, Literal, children
from .values import lower
from .vectors import Mask, Rows, Vector, to_natural

# How many ads are added at a time, so that the memory of each batch can be freed.
_BATCH_SIZE = 2000
MAX_FORMS = 4
"""The maximum number of forms of a table that are cached (``SlotColumns.form``)."""
_MAX_MASK_BYTES = 48_000_000  # bytes
_MAX_VECTORS = 200
_FEW = 64
"""The number of distinct values up to which comparisons with a column share masks."""
_EXACT = 2**53
_SAMPLE = 4096
"""The number of a column's rows that are checked before all of its distinct values are computed."""

Slot: TypeAlias = "SupportsIndex | str"  # a position or a Name


class SlotColumns:
    """The columns of a pool's slots, and the cached results of evaluations over them."""

    def __init__(self, ads: Iterable[ClassAd] = (), *, context: Context = DEFAULT) -> None:
        self.context = context
        self.version = 0
        self.scalar_evaluations = 0
        self.heap = Heap()
        self.columns: dict[str, AttributeColumn] = {}
        self.varying: frozenset[str] = frozenset()  #: attributes that may change after a plan's match
        self._rows = 0
        self._positions: dict[str, int] | None = None
        self._positions_version = -1  # of the column Name
        self.vectors: dict[tuple[str, str, Any], tuple[int, Vector]] = {}
        # The current form with its table version, and the numbers of the latest forms.
        self._form = (-1, 0)
        self._forms: dict[Any, int] = {}
        self._last_form = 0
        # Clauses of the slots' conditions that plans cached for later jobs; they are valid for one form of the table.
        self.prepared: dict[Any, Any] = {}
        self.prepared_form = -1
        self._names: dict[int, tuple[str, ...]] = {}
        self.masks: dict[Any, tuple[dict[str, int], Mask]] = {}
        # Combinations of two masks, by their ids, with the masks, so that no other mask gets one of these ids.
        self._combined: dict[tuple[np.ufunc, int, int], tuple[Mask, Mask, Mask]] = {}
        self._counts: dict[int, tuple[Mask, int]] = {}
        self.add(ads)

    def __len__(self) -> int:
        return self._rows

    def __iter__(self) -> Iterator[ClassAd]:
        return (self.ad(position) for position in range(self._rows))

    def __getitem__(self, slot: Slot) -> ClassAd:
        return self.ad(slot)

    def ad(self, slot: Slot) -> ClassAd:
        position = self._position(slot)
        ad = ClassAd()
        decode = self.heap.decode
        for key, column in self.columns.items():
            kind, payload = column.kind_and_payload(position)
            if kind != ABSENT:
                ad._cells[key] = (column.name, decode(kind, payload))
        return ad

    def add(self, ads: ClassAd | Iterable[ClassAd]) -> None:
        """Append one slot or several. Adding several slots in one call is cheaper."""
        if isinstance(ads, ClassAd):
            ads = [ads]
        batch = list(islice(iter_ads := iter(ads), _BATCH_SIZE))
        while batch:
            self._append([ad._all() for ad in batch])
            batch = list(islice(iter_ads, _BATCH_SIZE))
        self.heap.strings.lowercase_codes()
        self._positions = None
        self.version += 1

    def _append(self, ads: Sequence[Mapping[str, Cell]]) -> None:
        rows, columns, heap = self._rows, self.columns, self.heap
        known_keys: set[tuple[str, ...]] = set()
        for ad in ads:
            keys = tuple(ad)
            if keys not in known_keys:
                known_keys.add(keys)
                for key in keys:
                    if key not in columns:
                        columns[key] = AttributeColumn(ad[key][0])
        for key, column in columns.items():
            column.append(heap, rows, [ad.get(key) for ad in ads])
        self._rows = rows + len(ads)

    def update(self, slot: Slot, changes: ClassAd | Mapping[str, Any], *, merge: bool = False) -> None:
        """Replace a slot's ad; with ``merge``, set only the attributes in ``changes``."""
        position, columns, heap, rows = self._position(slot), self.columns, self.heap, self._rows
        cells = (changes if isinstance(changes, ClassAd) else ClassAd(changes))._all()
        for key, cell in cells.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = AttributeColumn(cell[0])
            elif column.cell is cell:
                continue
            kind, payload = heap.encode(cell[1])  # unpacked, because passing it with `*` would be slow
            column.set(rows, position, kind, payload)
        if not merge and len(columns) > len(cells):
            for key in columns.keys() - cells.keys():
                columns[key].set(rows, position, ABSENT, 0)
        self.version += 1

    def remove(self, slots: Slot | Iterable[Slot]) -> None:
        """Remove one slot or several. The slots after them move up."""
        removed = [
            self._position(slot)
            for slot in (slots if isinstance(slots, Iterable) and not isinstance(slots, str) else [slots])
        ]
        is_kept = np.ones(self._rows, bool)
        is_kept[removed] = False
        kept_rows = np.flatnonzero(is_kept)
        for column in self.columns.values():
            column.keep_rows(kept_rows)
        self._rows = len(kept_rows)
        self._positions = None
        self.version += 1

    @property
    def stored_values(self) -> int:
        """Return how many strings and expressions the table stores, including those no longer used."""
        return len(self.heap.strings.texts) + len(self.heap.expressions)

    @property
    def form_number(self) -> int:
        """Return a number that identifies the set of attributes and the values that all slots share. If they recur, for
        example because all slots are unclaimed again, so does the number."""
        if self._form[0] != self.version:
            common = (self.varying, *map(_common_part, self.columns.items()))
            number = self._forms.pop(common, -1)
            if number < 0:
                self._last_form = number = self._last_form + 1
            self._forms[common] = number  # the latest is the last
            if len(self._forms) > MAX_FORMS:
                del self._forms[next(iter(self._forms))]
            self._form = (self.version, number)
        return self._form[1]

    def fill(self, name: str, expressions: Sequence[Expression | None]) -> None:
        """Set an attribute of all slots; None removes the attribute from a slot."""
        column = self.columns[lower(name)] = self._new_column(name)
        column.append(self.heap, 0, [None if expression is None else (name, expression) for expression in expressions])
        self.heap.strings.lowercase_codes()
        self.version += 1

    def set_attributes(self, position: int, attributes: Mapping[str, Expression | None]) -> None:
        """Set some attributes of a slot; None removes an attribute."""
        heap, rows = self.heap, self._rows
        for name, expression in attributes.items():
            key = lower(name)
            column = self.columns.get(key)
            if column is None:
                if expression is None:
                    continue
                column = self.columns[key] = AttributeColumn(name)
            kind, payload = (ABSENT, 0) if expression is None else heap.encode(expression)
            column.set(rows, position, kind, payload)
        self.version += 1

    def extend(self, count: int, attributes: Mapping[str, Sequence[Expression | None]] = {}) -> None:
        """Append ``count`` slots. A column in which they have the same value as all others remains a single cell."""
        cells: dict[str, list[Cell | None]] = {}
        for name, expressions in attributes.items():
            key = lower(name)
            cells[key] = [None if expression is None else (name, expression) for expression in expressions]
            self.columns.setdefault(key, AttributeColumn(name))
        for key, column in self.columns.items():
            column.append(self.heap, self._rows, cells.get(key) or [None] * count)
        self._rows += count
        self._positions = None
        self.version += 1

    def slots_without(self, name: str) -> Mask:
        """Return the mask of the slots that lack an attribute."""
        column = self.columns.get(lower(name))
        if column is None or not isinstance(column.kinds, np.ndarray):
            return np.full(self._rows, column is None or column.kinds == ABSENT)
        mask: Mask = column.kinds[: self._rows] == ABSENT
        return mask

    def expressions(self, name: str) -> list[Expression]:
        """Return the distinct expressions of an attribute, excluding plain values."""
        column = self.columns.get(lower(name))
        if column is None or not self._rows:
            return []
        return [
            self.heap.expressions[number]
            for number in column.cached("expressions", lambda: _expression_numbers(column))
        ]

    def encode(self, value: Any) -> tuple[int, int]:
        """Return the kind of a plain value, and its 64-bit payload in this table."""
        return self.heap.encode(Literal(value))

    def assign(self, name: str, kinds: Kinds | int, values: Integers | int) -> None:
        """Set an attribute of all slots to numbers; keep the column's version if they are unchanged.

        :param kinds: a ``CellType`` for each slot, or one for all slots
        :param values: integers, or the bits of reals as integers
        """
        column = self.columns.get(lower(name))
        if column is None:
            column = self.columns[lower(name)] = AttributeColumn(name)
        elif np.array_equal(column.kinds, kinds) and np.array_equal(column.payload, values):
            return
        column.kinds, column.payload, column.cell = kinds, values, None
        column.version += 1
        self.version += 1

    def _new_column(self, name: str) -> AttributeColumn:
        column = AttributeColumn(name)
        old_column = self.columns.get(lower(name))
        column.version = 0 if old_column is None else old_column.version
        return column

    def _position(self, slot: Slot) -> int:
        if isinstance(slot, str):
            column = self.columns.get("name")
            version = -1 if column is None else column.version
            if self._positions is None or self._positions_version != version:
                self._positions, self._positions_version = self._positions_by_name(), version
            if slot not in self._positions:
                raise KeyError(f"no slot of the table has the Name {slot!r}")
            return self._positions[slot]
        position = index(slot)
        if not -self._rows <= position < self._rows:
            raise IndexError(f"slot {position} is not in the table of {self._rows} slots")
        return position % self._rows

    def _positions_by_name(self) -> dict[str, int]:
        column = self.columns.get("name")
        if column is None:
            return {}
        texts = self.heap.strings.texts
        cells = (column.kind_and_payload(position) for position in range(self._rows))
        return {texts[payload]: position for position, (kind, payload) in enumerate(cells) if kind == STRING}

    def vector(self, column: AttributeColumn, rows: Rows) -> Vector:
        """Return a column over some rows, in natural form."""
        kinds, payload, cell = column.kinds, column.payload, column.common
        if cell is not None:
            return Vector(cell[0], self.heap.value(*cell) if cell[0] in (BOOLEAN, INTEGER, REAL) else cell[1])
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
            data = to_natural(kinds, payload[:count])
        if rows is None:
            return Vector(kinds, data, column)
        return Vector(kinds, data[rows])

    def distinct(self, column: AttributeColumn) -> tuple[Kinds, Integers, Integers]:
        """Return the kinds and payloads of a column's distinct cells, and for each row the index of its cell."""

        def compute() -> tuple[Kinds, Integers, Integers]:
            count = self._rows
            payloads, kinds = column.payloads(count), column.all_kinds(count)
            inverse = factorize(factorize(payloads)[1] * 8 + kinds)[1]
            first_rows = np.zeros(int(inverse.max()) + 1, np.int64)
            first_rows[inverse] = np.arange(count)
            return kinds[first_rows], payloads[first_rows], inverse

        return column.cached("distinct", compute)  # type: ignore[no-any-return]

    def members(self, column: AttributeColumn) -> list[Mask | None]:
        """Return the mask of the rows with each distinct cell of a column, or None if all rows have the same cell."""

        def compute() -> list[Mask | None]:
            kinds, _, inverse = self.distinct(column)
            return [None if len(kinds) == 1 else inverse == number for number in range(len(kinds))]

        return column.cached("members", compute)  # type: ignore[no-any-return]

    def comparison(self, name: str, test: Callable[[Any, Any], Any], number: float) -> Mask | None:
        """Return the mask of the slots where a comparison of an attribute with a number is true. Return None if the
        attribute is the same in all slots, or not a number in some. The masks are cached.

        Numbers between the same two values of a column have the same mask, so many jobs share few masks.
        """
        column = self.columns.get(name)
        if column is None or type(column.kinds) is not int or column.kinds not in (INTEGER, REAL):
            return None
        payload = column.payload
        if type(payload) is int:
            return None
        data: Any = payload.view(np.float64) if column.kinds == REAL else payload  # type: ignore[union-attr]
        few, least, most = column.cached("range", lambda: _range(data))
        position: Any = type(number), number
        # Beyond 2**53 an integer may equal a real only after it is rounded. NaN equals nothing, and has no position.
        if number == number and -_EXACT < least <= most < _EXACT:
            if few is not None:
                position = bisect_left(few, number), bisect_right(few, number)
            elif not least <= number <= most:
                position = number < least
        key = name, test, position
        cached = self.masks.get(key)
        if cached is not None and len(cached[1]) == self._rows and cached[0] == {name: column.version}:
            return cached[1]
        mask: Mask = test(data, number)
        self.keep_mask(key, {name: column.version}, mask)
        return mask

    def count(self, mask: Mask | None) -> int:
        """Return the number of slots in a mask; no mask means all slots. The counts of shared masks are cached."""
        if mask is None:
            return self._rows
        if mask.flags.writeable:
            return int(np.count_nonzero(mask))
        cached = self._counts.get(id(mask))
        if cached is None:
            self._make_room(self._counts)
            cached = self._counts[id(mask)] = mask, int(np.count_nonzero(mask))
        return cached[1]

    def combine(self, operation: np.ufunc, left: Mask | None, right: Mask) -> Mask:
        """Return ``left & right`` or ``left | right``, or the right mask if there is no left one. Results of read-only
        masks are cached."""
        if left is None or left is right:
            return right
        if left.flags.writeable or right.flags.writeable:
            return operation(left, right)  # type: ignore[no-any-return]
        key = operation, id(left), id(right)
        cached = self._combined.get(key)
        if cached is None:
            self._make_room(self._combined)
            mask = operation(left, right)
            mask.flags.writeable = False
            cached = self._combined[key] = left, right, mask
        return cached[2]

    def keep_vector(self, key: tuple[str, str, Any], version: int, vector: Vector) -> None:
        if len(self.vectors) >= _MAX_VECTORS:
            self.vectors.clear()
        self.vectors[key] = (version, vector)

    def names_in(self, expression: Expression) -> tuple[str, ...]:
        """Return the names in a slot's expression, regardless of scope."""
        names = self._names.get(id(expression))
        if names is None:
            found_names: dict[str, None] = {}
            pending = [expression]
            while pending:
                node = pending.pop()
                if isinstance(node, Attribute):
                    found_names[node.key] = None
                pending.extend(children(node))
            names = self._names[id(expression)] = tuple(found_names)
        return names

    def no_slot_has(self, key: str) -> bool:
        """Check whether no slot has this attribute."""
        column = self.columns.get(key)
        return column is None or (type(column.kinds) is int and column.kinds == ABSENT)

    def every_slot_has(self, key: str) -> bool:
        """Check whether every slot has this attribute."""
        column = self.columns.get(key)
        if column is None:
            return False
        kinds = column.kinds
        return not (kinds == ABSENT).any() if isinstance(kinds, np.ndarray) else kinds != ABSENT

    def plain_scopes(self, job: ClassAd) -> bool:
        """Check whether MY and TARGET mean the job and the slot, because no ad has an attribute of that name."""
        return not any(name in self.columns or job._find(name) is not None for name in ("my", "target"))

    def _make_room(self, cache: dict[Any, Any]) -> None:
        """Clear a cache of masks that would take too much memory with another one."""
        if (len(cache) + 1) * max(1, self._rows) > _MAX_MASK_BYTES:
            cache.clear()

    def keep_mask(self, key: Any, column_versions: dict[str, int], mask: Mask) -> None:
        self._make_room(self.masks)
        mask.flags.writeable = False
        self.masks[key] = (column_versions, mask)


def _range(data: npt.NDArray[Any]) -> tuple[list[float] | None, float, float]:
    """Return a column's distinct values in order (or None if there are many), and its least and greatest value."""
    few = np.unique(data[:_SAMPLE])
    if len(few) <= _FEW:
        few = np.unique(data)
    return few.tolist() if len(few) <= _FEW else None, data.min().item(), data.max().item()


def _expression_numbers(column: AttributeColumn) -> list[int]:
    kinds, payload = column.kinds, column.payload
    if not isinstance(kinds, np.ndarray) and kinds != OTHER:
        return []
    if not isinstance(payload, np.ndarray):
        return [payload]
    present = payload if not isinstance(kinds, np.ndarray) else payload[: len(kinds)][kinds == OTHER]
    numbers: list[int] = np.unique(present).tolist()
    return numbers


def _common_part(item: tuple[str, AttributeColumn]) -> tuple[str, int, int | None]:
    key, column = item
    kinds, payload = column.kinds, column.payload
    if not isinstance(kinds, np.ndarray):
        return key, kinds, None if isinstance(payload, np.ndarray) else payload
    return key, -2 if column.cached("absent", lambda: bool((kinds == ABSENT).any())) else -1, None
