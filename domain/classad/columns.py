"""Store one attribute of all slots in two arrays, which contain the kind and 64 bits of payload of each cell.

An attribute that is the same in every slot, as most are, needs no array. Strings are stored as codes of a dictionary
that the whole table shares. Expressions, lists, ads and times are stored as indexes into the table's list of
expressions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from .tree import Cell, Expression, Literal
from .values import ERROR, UNDEFINED, lower

Integers = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.uint8]


class CellType(IntEnum):
    """The type of a cell's value."""

    ABSENT = 0  # the slot has no such attribute
    UNDEFINED = 1
    ERROR = 2
    BOOLEAN = 3
    INTEGER = 4
    REAL = 5
    STRING = 6
    OTHER = 7  # in a column, an expression; in a result, a list, an ad or a time


ABSENT, UNDEF, ERR, BOOLEAN, INTEGER, REAL, STRING, OTHER = (int(kind) for kind in CellType)

_DOUBLE = struct.Struct("<d")
_INT64 = struct.Struct("<q")


def real_bits(real: float) -> int:
    """Return the 64 bits of a real, as an integer."""
    return int(_INT64.unpack(_DOUBLE.pack(real))[0])


class StringCodes:
    """A table's dictionary of strings, with a code for each string and the code of its lower-case form."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.texts: list[str] = []
        self._lowercase: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._lowercase_count = 0

    def code(self, text: str) -> int:
        """Return the code of a string; assign one to a new string."""
        code = self.codes.get(text)
        if code is None:
            code = self.codes[text] = len(self.texts)
            self.texts.append(text)
        return code

    def lowercase_codes(self) -> npt.NDArray[np.int32]:
        """Return, for each code, the code of its lower-case form."""
        texts = self.texts
        while self._lowercase_count < len(texts):
            if len(texts) > len(self._lowercase):
                larger = np.zeros(len(texts) + len(texts) // 4 + 64, np.int32)
                larger[: self._lowercase_count] = self._lowercase[: self._lowercase_count]
                self._lowercase = larger
            first, last = self._lowercase_count, len(texts)
            self._lowercase[first:last] = [self.code(lower(text)) for text in texts[first:last]]
            self._lowercase_count = last
        return self._lowercase


_MAX_KNOWN = 10_000


class Heap:
    """The strings and expressions to which the cells of a table refer."""

    def __init__(self) -> None:
        self.strings = StringCodes()
        self.expressions: list[Expression] = []
        self._numbers: dict[str, int] = {}
        self._known: dict[int, tuple[Expression, int]] = {}

    def encode(self, expression: Expression) -> tuple[int, int]:
        """Return the kind and payload of an expression."""
        if type(expression) is not Literal:
            known = self._known.get(id(expression))
            if known is not None and known[0] is expression:
                return OTHER, known[1]
            text = expression._exact_text()
            number = self._numbers.get(text)
            if number is None:
                number = self._numbers[text] = len(self.expressions)
                self.expressions.append(expression)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[id(expression)] = expression, number
            return OTHER, number
        value = expression.value
        kind = type(value)
        if kind is int:
            return INTEGER, value
        if kind is str:
            return STRING, self.strings.code(value)
        if kind is bool:
            return BOOLEAN, int(value)
        if kind is float:
            return REAL, real_bits(value)
        return (UNDEF if value is UNDEFINED else ERR), 0

    def decode(self, kind: int, payload: int) -> Expression:
        return self.expressions[payload] if kind == OTHER else Literal(self.value(kind, payload))

    def value(self, kind: int, payload: int) -> Any:
        """Return the value of a cell that is not an expression."""
        if kind == INTEGER:
            return payload
        if kind == STRING:
            return self.strings.texts[payload]
        if kind == BOOLEAN:
            return payload != 0
        if kind == REAL:
            return _DOUBLE.unpack(_INT64.pack(payload))[0]
        return ERROR if kind == ERR else UNDEFINED


class AttributeColumn:
    """An attribute's cell in each row of a table. If all cells are equal, ``kinds`` and ``payload`` are not arrays but
    numbers."""

    __slots__ = ("_arrays", "cell", "kinds", "name", "payload", "version")

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds: Kinds | int = ABSENT
        self.payload: Integers | int = 0
        # The cell that all rows share, stored so that it can be recognized without decoding.
        self.cell: object = None
        self.version = 0
        self._arrays: dict[str, tuple[int, Any]] = {}

    @property
    def common(self) -> tuple[int, int] | None:
        """Return the kind and payload that all rows share, or None if the rows differ."""
        kinds, payload = self.kinds, self.payload
        return None if isinstance(kinds, np.ndarray) or isinstance(payload, np.ndarray) else (kinds, payload)

    def append(self, heap: Heap, rows: int, cells: Sequence[Cell | None]) -> None:
        """Append the cells of new rows. They follow the column's first ``rows`` rows."""
        self.version += 1
        cells_by_id = dict(zip(map(id, cells), cells, strict=True))
        codes = {key: (ABSENT, 0) if cell is None else heap.encode(cell[1]) for key, cell in cells_by_id.items()}
        distinct_codes = set(codes.values())
        if len(distinct_codes) == 1:
            kind, payload = distinct_codes.pop()
            if rows == 0:
                self.kinds, self.payload = kind, payload
                self.cell = cells[0] if len(cells_by_id) == 1 else None
                return
            if type(self.payload) is int and (kind, payload) == (self.kinds, self.payload):
                return
        cell_ids = list(map(id, cells))
        payloads = {key: payload for key, (_, payload) in codes.items()}
        new_payloads = np.fromiter(map(payloads.__getitem__, cell_ids), np.int64, len(cells))
        self.payload = new_payloads if rows == 0 else np.concatenate([self.payloads(rows), new_payloads])
        self.cell = None
        kinds_by_id = {key: kind for key, (kind, _) in codes.items()}
        kinds = set(kinds_by_id.values()) | ({self.kinds} if type(self.kinds) is int and rows else set())
        if len(kinds) == 1 and (rows == 0 or type(self.kinds) is int):
            self.kinds = kinds.pop()
            return
        new_kinds = np.fromiter(map(kinds_by_id.__getitem__, cell_ids), np.uint8, len(cells))
        self.kinds = new_kinds if rows == 0 else np.concatenate([self.all_kinds(rows), new_kinds])

    def payloads(self, rows: int) -> Integers:
        payload = self.payload
        return payload[:rows] if isinstance(payload, np.ndarray) else np.full(rows, payload, np.int64)

    def all_kinds(self, rows: int) -> Kinds:
        kinds = self.kinds
        return kinds[:rows] if isinstance(kinds, np.ndarray) else np.full(rows, kinds, np.uint8)

    def set(self, rows: int, row: int, kind: int, payload: int) -> None:
        """Change one cell of a column that has ``rows`` rows."""
        kinds, payloads = self.kinds, self.payload
        if isinstance(payloads, np.ndarray):
            if payloads.item(row) == payload and (kind == kinds if type(kinds) is int else kinds.item(row) == kind):  # type: ignore[union-attr]
                return
        elif kind == kinds and payload == payloads:
            return
        else:
            self.payload = payloads = self.payloads(rows)
        if type(kinds) is int and kind != kinds:
            self.kinds = kinds = self.all_kinds(rows)
        payloads[row] = payload
        if isinstance(kinds, np.ndarray):
            kinds[row] = kind
        self.cell = None
        self.version += 1

    def kind_and_payload(self, row: int) -> tuple[int, int]:
        """Return the kind and payload of a cell."""
        kinds, payload = self.kinds, self.payload
        kind = int(kinds[row]) if isinstance(kinds, np.ndarray) else kinds
        return kind, int(payload[row]) if isinstance(payload, np.ndarray) else payload

    def keep_rows(self, rows: Integers) -> None:
        """Keep only the given rows, in their order."""
        if isinstance(self.payload, np.ndarray):
            self.payload = self.payload[rows]
        if isinstance(self.kinds, np.ndarray):
            self.kinds = self.kinds[rows]
        self.version += 1

    def cached(self, name: str, compute: Any) -> Any:
        """Return the array that ``compute`` returns. It is cached until the column changes."""
        cached = self._arrays.get(name)
        if cached is not None and cached[0] == self.version:
            return cached[1]
        array = compute()
        self._arrays[name] = (self.version, array)
        return array


def factorize(numbers: Integers) -> tuple[Integers, Integers]:
    """Return the distinct numbers in an array and, for each element, the index of its number among them."""
    least, most = int(numbers.min()), int(numbers.max())
    if most - least <= 4 * len(numbers) + 1024:
        shifted = numbers - least
        present = np.zeros(most - least + 1, bool)
        present[shifted] = True
        distinct = np.flatnonzero(present)
        index_of = np.empty(most - least + 1, np.int64)
        index_of[distinct] = np.arange(len(distinct))
        return distinct + least, index_of[shifted]
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return distinct, inverse
