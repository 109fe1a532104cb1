"""Hold the values of one expression over many slots, and apply operators to them.

A vector has one kind for all cells, with data in its natural form, or a kind for each, with 64 bits of payload. Either
may be a single value for all cells. Binary operators work on one pair of kinds at a time, as one array operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import BOOLEAN, ERR, INTEGER, OTHER, REAL, STRING, UNDEF, AttributeColumn, Heap, Integers, real_bits
from .operators import BINARY
from .values import ERROR, INT_MAX, INT_MIN, UNDEFINED

Mask = npt.NDArray[np.bool_]
Rows = Integers | None  # None: all of them


class Unsupported(Exception):
    """No array operation does this: evaluate slot by slot."""


class Vector:
    """Values over some rows. ``kind`` is an int, or an array of kinds with ``data`` as 64-bit payloads."""

    __slots__ = ("column", "data", "kind")

    def __init__(self, kind: Any, data: Any, column: AttributeColumn | None = None) -> None:
        self.kind = kind
        self.data = data
        # The column, where the vector is a whole one: some of its derived arrays are cached there.
        self.column = column

    @property
    def constant(self) -> bool:
        """Return whether all cells are the same value."""
        return not isinstance(self.kind, np.ndarray) and not isinstance(self.data, np.ndarray)

    @property
    def mixed(self) -> bool:
        """Return whether each cell has its own kind."""
        return isinstance(self.kind, np.ndarray)


ALL_UNDEFINED = Vector(UNDEF, 0)
ALL_ERROR = Vector(ERR, 0)


class Arena:
    """The values of one evaluation: the table's heap, and the lists and times made on the way."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self.objects: list[Any] = []

    # -- values in and out -------------------------------------------------------------------------------------------

    def constant(self, value: Any) -> Vector:
        kind = type(value)
        if kind is bool:
            return Vector(BOOLEAN, value)
        if kind is int:
            return Vector(INTEGER, value)
        if kind is float:
            return Vector(REAL, value)
        if kind is str:
            return Vector(STRING, self.heap.strings.code(value))
        if value is UNDEFINED:
            return ALL_UNDEFINED
        if value is ERROR:
            return ALL_ERROR
        self.objects.append(value)
        return Vector(OTHER, len(self.objects) - 1)

    def from_values(self, values: Sequence[Any]) -> Vector:
        cells = [self.constant(value) for value in values]
        kinds = np.array([cell.kind for cell in cells], np.uint8)
        payload = np.array([payload_of(cell.kind, cell.data) for cell in cells], np.int64)
        return settled(kinds, payload)

    def value(self, kind: int, datum: Any) -> Any:
        """Return the Python value of a cell of a given kind, from its data in natural form."""
        if kind == OTHER:
            return self.objects[int(datum)]
        if kind == STRING:
            return self.heap.strings.texts[int(datum)]
        if kind == INTEGER:
            return int(datum)
        if kind == REAL:
            return float(datum)
        if kind == BOOLEAN:
            return bool(datum)
        return ERROR if kind == ERR else UNDEFINED

    def values(self, vector: Vector, count: int) -> list[Any]:
        if vector.constant:
            return [self.value(vector.kind, vector.data)] * count
        if not vector.mixed:
            kind = vector.kind
            if kind == STRING:
                texts = self.heap.strings.texts
                return [texts[code] for code in vector.data.tolist()]
            if kind in (BOOLEAN, INTEGER, REAL):
                return list(vector.data.tolist())
            return [self.value(kind, datum) for datum in vector.data.tolist()]
        reals = vector.data.view(np.float64)
        return [
            self.value(kind, reals[place] if kind == REAL else vector.data[place])
            for place, kind in enumerate(vector.kind.tolist())
        ]


def payload_of(kind: int, datum: Any) -> int:
    """Return the 64 bits of a single value in natural form."""
    return real_bits(datum) if kind == REAL else int(datum)


def natural(kind: int, payload: Integers) -> Any:
    """Convert payloads of one kind to natural form."""
    if kind == REAL:
        return payload.view(np.float64)
    return payload != 0 if kind == BOOLEAN else payload


def payloads(kind: int, data: Any, count: int) -> Integers:
    """Convert natural data of one kind to payloads."""
    if not isinstance(data, np.ndarray):
        return np.full(count, payload_of(kind, data), np.int64)
    if kind == REAL:
        return np.ascontiguousarray(data, np.float64).view(np.int64)
    return data.astype(np.int64, copy=False)


def settled(kinds: Any, payload: Integers) -> Vector:
    """Return a vector of cells with their own kinds; of one kind where they agree."""
    first = int(kinds[0]) if len(kinds) else UNDEF
    if (kinds == first).all():
        return Vector(first, 0) if first in (UNDEF, ERR) else Vector(first, natural(first, payload))
    return Vector(kinds, payload)


def take(vector: Vector, places: Integers | Mask) -> Vector:
    if vector.constant:
        return vector
    if vector.mixed:
        return settled(vector.kind[places], vector.data[places])
    return Vector(vector.kind, vector.data[places])


def merge(count: int, parts: Sequence[tuple[Any, Vector]]) -> Vector:
    """Merge parts into one vector, each with the places (indices or a mask) that it fills; together they fill all."""
    kinds = {part.kind for _, part in parts if not part.mixed}
    if len(kinds) == 1 and not any(part.mixed for _, part in parts):
        kind = kinds.pop()
        if kind in (UNDEF, ERR):
            return Vector(kind, 0)
        data = np.empty(count, _DTYPES.get(kind, np.int64))
        for places, part in parts:
            data[places] = part.data
        return Vector(kind, data)
    all_kinds = np.empty(count, np.uint8)
    payload = np.zeros(count, np.int64)
    for places, part in parts:
        all_kinds[places] = part.kind
        if part.mixed:
            payload[places] = part.data
        elif part.kind not in (UNDEF, ERR):
            is_array = isinstance(part.data, np.ndarray)
            payload[places] = payloads(part.kind, part.data, 0) if is_array else payload_of(part.kind, part.data)
    return settled(all_kinds, payload) if count else ALL_UNDEFINED


_DTYPES: dict[int, Any] = {BOOLEAN: np.bool_, REAL: np.float64}


# -- truth -------------------------------------------------------------------------------------------------------------

FALSE, TRUE, UNKNOWN, WRONG = 0, 1, 2, 3


def truths(vector: Vector) -> Any:
    """Return the cells as one bool or a boolean array, else as codes (false, true, undefined, error)."""
    kind, data = vector.kind, vector.data
    if not vector.mixed:
        if kind == BOOLEAN:
            return data
        if kind in (INTEGER, REAL):
            return data != 0
        return UNKNOWN if kind == UNDEF else WRONG
    codes = np.full(len(kind), WRONG, np.uint8)
    codes[kind == UNDEF] = UNKNOWN
    for number in (BOOLEAN, INTEGER):
        here = kind == number
        codes[here] = data[here] != 0
    here = kind == REAL
    codes[here] = data.view(np.float64)[here] != 0
    return codes


def true_cells(vector: Vector, count: int) -> Mask:
    """Return where a vector is true, or a number other than 0."""
    condition = truths(vector)
    if not isinstance(condition, np.ndarray):
        return np.full(count, condition is True or condition is np.True_ or (condition == TRUE), bool)
    return condition if condition.dtype == np.bool_ else condition == TRUE


def negated(vector: Vector) -> Vector:
    """Apply ``!``."""
    condition = truths(vector)
    if not isinstance(condition, np.ndarray):
        if isinstance(condition, bool | np.bool_):
            return Vector(BOOLEAN, not condition)
        return ALL_UNDEFINED if condition == UNKNOWN else ALL_ERROR
    if condition.dtype == np.bool_:
        return Vector(BOOLEAN, ~condition)
    return from_codes(_NEGATION[condition])


_NEGATION = np.array([TRUE, FALSE, UNKNOWN, WRONG], np.uint8)
_CODE_KINDS = np.array([BOOLEAN, BOOLEAN, UNDEF, ERR], np.uint8)


def from_codes(codes: Any) -> Vector:
    return settled(_CODE_KINDS[codes], (codes == TRUE).astype(np.int64))


# -- operators ---------------------------------------------------------------------------------------------------------

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    "==": np.equal,
    "!=": np.not_equal,
    ">=": np.greater_equal,
    ">": np.greater,
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}
_BITS: dict[str, Callable[[Any, Any], Any]] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
_EXAMPLES: dict[int, Any] = {UNDEF: UNDEFINED, ERR: ERROR, BOOLEAN: True, INTEGER: 1, REAL: 1.0, STRING: ""}
_NUMBERS = frozenset({BOOLEAN, INTEGER, REAL})


def binary(arena: Arena, op: str, a: Vector, b: Vector, count: int) -> Vector:
    """Apply a strict operator (any but && || ?: []) to two vectors; raise Unsupported if no array operation does it."""
    if a.constant and b.constant:
        return arena.constant(BINARY[op](arena.value(a.kind, a.data), arena.value(b.kind, b.data)))
    if not a.mixed and not b.mixed:
        return _uniform(arena, op, a, b)
    kinds_a = a.kind if a.mixed else np.full(count, a.kind, np.uint8)
    kinds_b = b.kind if b.mixed else np.full(count, b.kind, np.uint8)
    pairs = kinds_a.astype(np.int64) * 8 + kinds_b
    parts = []
    for pair in np.flatnonzero(np.bincount(pairs, minlength=64)).tolist():
        places = np.flatnonzero(pairs == pair)
        parts.append((places, _uniform(arena, op, take(a, places), take(b, places))))
    return merge(count, parts)


def _uniform(arena: Arena, op: str, a: Vector, b: Vector) -> Vector:
    """Apply the operator to one pair of kinds."""
    ka, kb = a.kind, b.kind
    if ka == OTHER or kb == OTHER:
        raise Unsupported
    if a.constant and b.constant:
        return arena.constant(BINARY[op](arena.value(ka, a.data), arena.value(kb, b.data)))
    if ka not in _NUMBERS or kb not in _NUMBERS:
        if ka == STRING and kb == STRING:
            return _strings(arena, op, a, b)
        # For all other pairs the kinds alone decide.
        return arena.constant(BINARY[op](_EXAMPLES[ka], _EXAMPLES[kb]))
    if op == "is" or op == "isnt":
        if ka != kb:
            return Vector(BOOLEAN, op == "isnt")
        return Vector(BOOLEAN, COMPARE["==" if op == "is" else "!="](a.data, b.data))
    if op in _BITS or op in ("<<", ">>", ">>>"):
        return _bitwise(op, a, b)
    x, y = _numbers(a, kb), _numbers(b, ka)
    if op in COMPARE:
        return Vector(BOOLEAN, COMPARE[op](x, y))
    if ka == REAL or kb == REAL:
        return _reals(op, x, y)
    return _integers(op, x, y)


def _numbers(vector: Vector, other: int) -> Any:
    """Return data for arithmetic with another kind: reals where either is, else integers."""
    data = vector.data
    if vector.kind == REAL or other == REAL:
        return data.astype(np.float64, copy=False) if isinstance(data, np.ndarray) else float(data)
    if vector.kind == BOOLEAN:
        return data.astype(np.int64) if isinstance(data, np.ndarray) else int(data)
    return data


def _reals(op: str, x: Any, y: Any) -> Vector:
    if op == "%":
        return ALL_ERROR
    with np.errstate(all="ignore"):
        result = np.divide(x, y) if op == "/" else _COMPUTE[op](x, y)
    infinite = result == np.inf
    if infinite.any():
        kinds = np.where(infinite, ERR, REAL).astype(np.uint8)
        return settled(kinds, result.view(np.int64))
    return Vector(REAL, result)


def _integers(op: str, x: Any, y: Any) -> Vector:
    if op in _COMPUTE:
        with np.errstate(over="ignore"):
            return Vector(INTEGER, _COMPUTE[op](x, y))
    x, y = np.broadcast_arrays(np.asarray(x, np.int64), np.asarray(y, np.int64))
    zero = y == 0
    safe = np.where(zero | ((x == INT_MIN) & (y == -1)), 1, y)
    # numpy rounds a quotient down, C towards zero.
    quotient = x // safe
    rest = x - quotient * safe
    inexact = (rest != 0) & ((rest < 0) != (x < 0))
    if op == "/":
        result = quotient + inexact
        result = np.where((x == INT_MIN) & (y == -1), INT_MAX, result)
    else:
        result = np.where(inexact, rest - safe, rest)
        result = np.where((x == INT_MIN) & (y == -1), 0, result)
    if zero.any():
        return settled(np.where(zero, ERR, INTEGER).astype(np.uint8), result)
    return Vector(INTEGER, result)


def _bitwise(op: str, a: Vector, b: Vector) -> Vector:
    if a.kind != INTEGER or b.kind != INTEGER:
        return ALL_ERROR
    if op in _BITS:
        return Vector(INTEGER, _BITS[op](a.data, b.data))
    raise Unsupported


def _strings(arena: Arena, op: str, a: Vector, b: Vector) -> Vector:
    if op == "is":
        return Vector(BOOLEAN, np.equal(a.data, b.data))
    if op == "isnt":
        return Vector(BOOLEAN, np.not_equal(a.data, b.data))
    if op == "==" or op == "!=":
        return Vector(BOOLEAN, COMPARE[op](folded(arena, a), folded(arena, b)))
    raise Unsupported


def folded(arena: Arena, vector: Vector) -> Any:
    """Return string codes without regard to case."""
    table = arena.heap.strings.lowercase_codes()
    if not isinstance(vector.data, np.ndarray):
        return int(table[vector.data])
    if vector.column is not None:
        return vector.column.cached("folded", lambda: table[vector.data])
    return table[vector.data]
