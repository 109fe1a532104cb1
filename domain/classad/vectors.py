"""Store the values of one expression for many slots, and apply operators to them.

A vector has either one kind for all cells and natural data (numpy's own type for the kind), or a kind and 64 bits of
payload for each cell. The data may be a single value for all cells. A binary operator takes one array operation for
each pair of kinds.
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
Rows = Integers | None  # None: all rows


class Unsupported(Exception):
    """A node has no array operation, so the caller must evaluate it slot by slot."""


class Vector:
    """The values of some rows. ``kind`` is an int, or an array of kinds if ``data`` contains 64-bit payloads."""

    __slots__ = ("column", "data", "kind")

    def __init__(self, kind: Any, data: Any, column: AttributeColumn | None = None) -> None:
        self.kind = kind
        self.data = data
        # The column, if the vector is a complete column; arrays computed from it are cached there.
        self.column = column

    @property
    def is_constant(self) -> bool:
        """Check whether all cells have the same value."""
        return not isinstance(self.kind, np.ndarray) and not isinstance(self.data, np.ndarray)

    @property
    def has_mixed_kinds(self) -> bool:
        """Check whether a kind is stored for each cell."""
        return isinstance(self.kind, np.ndarray)


ALL_UNDEFINED = Vector(UNDEF, 0)
ALL_ERROR = Vector(ERR, 0)


class Arena:
    """The storage for one evaluation's values: the table's heap, and the lists and times computed so far."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self.objects: list[Any] = []

    def constant_vector(self, value: Any) -> Vector:
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
        cells = [self.constant_vector(value) for value in values]
        kinds = np.array([cell.kind for cell in cells], np.uint8)
        payload = np.array([payload_of(cell.kind, cell.data) for cell in cells], np.int64)
        return simplify_kinds(kinds, payload)

    def value(self, kind: int, datum: Any) -> Any:
        """Return the Python value of a cell, given its kind and its data in natural form."""
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
        if vector.is_constant:
            return [self.value(vector.kind, vector.data)] * count
        if not vector.has_mixed_kinds:
            kind = vector.kind
            if kind == STRING:
                texts = self.heap.strings.texts
                return [texts[code] for code in vector.data.tolist()]
            if kind in (BOOLEAN, INTEGER, REAL):
                return list(vector.data.tolist())
            return [self.value(kind, datum) for datum in vector.data.tolist()]
        reals = vector.data.view(np.float64)
        kinds = enumerate(vector.kind.tolist())
        return [self.value(kind, reals[index] if kind == REAL else vector.data[index]) for index, kind in kinds]


def payload_of(kind: int, datum: Any) -> int:
    """Return the 64 bits of a single value in natural form."""
    return real_bits(datum) if kind == REAL else int(datum)


def to_natural(kind: int, payload: Integers) -> Any:
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


def simplify_kinds(kinds: Any, payload: Integers) -> Vector:
    """Return a vector of these cells, with a single kind if all cells have the same one."""
    first = int(kinds[0]) if len(kinds) else UNDEF
    if (kinds == first).all():
        return Vector(first, 0) if first in (UNDEF, ERR) else Vector(first, to_natural(first, payload))
    return Vector(kinds, payload)


def take_cells(vector: Vector, positions: Integers | Mask) -> Vector:
    if vector.is_constant:
        return vector
    if vector.has_mixed_kinds:
        return simplify_kinds(vector.kind[positions], vector.data[positions])
    return Vector(vector.kind, vector.data[positions])


def merge(count: int, parts: Sequence[tuple[Any, Vector]]) -> Vector:
    """Merge parts, each with the positions (indexes or a mask) that it fills, into a vector of ``count`` cells."""
    kinds = {part.kind for _, part in parts if not part.has_mixed_kinds}
    if len(kinds) == 1 and not any(part.has_mixed_kinds for _, part in parts):
        kind = kinds.pop()
        if kind in (UNDEF, ERR):
            return Vector(kind, 0)
        data = np.empty(count, _DTYPES.get(kind, np.int64))
        for positions, part in parts:
            data[positions] = part.data
        return Vector(kind, data)
    all_kinds = np.empty(count, np.uint8)
    payload = np.zeros(count, np.int64)
    for positions, part in parts:
        all_kinds[positions] = part.kind
        if part.has_mixed_kinds:
            payload[positions] = part.data
        elif part.kind not in (UNDEF, ERR):
            is_array = isinstance(part.data, np.ndarray)
            payload[positions] = payloads(part.kind, part.data, 0) if is_array else payload_of(part.kind, part.data)
    return simplify_kinds(all_kinds, payload) if count else ALL_UNDEFINED


_DTYPES: dict[int, Any] = {BOOLEAN: np.bool_, REAL: np.float64}


FALSE, TRUE, UNKNOWN, NOT_BOOLEAN = 0, 1, 2, 3


def truth_values(vector: Vector) -> Any:
    """Return the truth values of cells as one bool or a boolean array, or as codes if any is undefined or an error."""
    kind, data = vector.kind, vector.data
    if not vector.has_mixed_kinds:
        if kind == BOOLEAN:
            return data
        if kind in (INTEGER, REAL):
            return data != 0
        return UNKNOWN if kind == UNDEF else NOT_BOOLEAN
    codes = np.full(len(kind), NOT_BOOLEAN, np.uint8)
    codes[kind == UNDEF] = UNKNOWN
    for number in (BOOLEAN, INTEGER):
        of_kind = kind == number
        codes[of_kind] = data[of_kind] != 0
    of_kind = kind == REAL
    codes[of_kind] = data.view(np.float64)[of_kind] != 0
    return codes


def true_mask(vector: Vector, count: int) -> Mask:
    """Return the mask of cells that are true or a nonzero number."""
    condition = truth_values(vector)
    if not isinstance(condition, np.ndarray):
        return np.full(count, condition is True or condition is np.True_ or (condition == TRUE), bool)
    return condition if condition.dtype == np.bool_ else condition == TRUE


def logical_not(vector: Vector) -> Vector:
    """Apply the operator ``!`` to a vector."""
    condition = truth_values(vector)
    if not isinstance(condition, np.ndarray):
        if isinstance(condition, bool | np.bool_):
            return Vector(BOOLEAN, not condition)
        return ALL_UNDEFINED if condition == UNKNOWN else ALL_ERROR
    if condition.dtype == np.bool_:
        return Vector(BOOLEAN, ~condition)
    return from_truth_codes(_NEGATION[condition])


_NEGATION = np.array([TRUE, FALSE, UNKNOWN, NOT_BOOLEAN], np.uint8)
_CODE_KINDS = np.array([BOOLEAN, BOOLEAN, UNDEF, ERR], np.uint8)


def from_truth_codes(codes: Any) -> Vector:
    return simplify_kinds(_CODE_KINDS[codes], (codes == TRUE).astype(np.int64))


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


def apply_binary(arena: Arena, op: str, a: Vector, b: Vector, count: int) -> Vector:
    """Apply a strict operator (any but && || ?: []) to two vectors. Raise Unsupported if no array operation does it."""
    if a.is_constant and b.is_constant:
        return arena.constant_vector(BINARY[op](arena.value(a.kind, a.data), arena.value(b.kind, b.data)))
    if not a.has_mixed_kinds and not b.has_mixed_kinds:
        return _apply_to_kinds(arena, op, a, b)
    kinds_a = a.kind if a.has_mixed_kinds else np.full(count, a.kind, np.uint8)
    kinds_b = b.kind if b.has_mixed_kinds else np.full(count, b.kind, np.uint8)
    kind_pairs = kinds_a.astype(np.int64) * 8 + kinds_b
    parts = []
    for pair in np.flatnonzero(np.bincount(kind_pairs, minlength=64)).tolist():
        positions = np.flatnonzero(kind_pairs == pair)
        parts.append((positions, _apply_to_kinds(arena, op, take_cells(a, positions), take_cells(b, positions))))
    return merge(count, parts)


def _apply_to_kinds(arena: Arena, op: str, a: Vector, b: Vector) -> Vector:
    """Apply an operator to two vectors, each of one kind."""
    a_kind, b_kind = a.kind, b.kind
    if a_kind == OTHER or b_kind == OTHER:
        raise Unsupported
    if a.is_constant and b.is_constant:
        return arena.constant_vector(BINARY[op](arena.value(a_kind, a.data), arena.value(b_kind, b.data)))
    if a_kind not in _NUMBERS or b_kind not in _NUMBERS:
        if a_kind == STRING and b_kind == STRING:
            return _strings(arena, op, a, b)
        # For all other pairs, the result depends only on the kinds.
        return arena.constant_vector(BINARY[op](_EXAMPLES[a_kind], _EXAMPLES[b_kind]))
    if op == "is" or op == "isnt":
        if a_kind != b_kind:
            return Vector(BOOLEAN, op == "isnt")
        return Vector(BOOLEAN, COMPARE["==" if op == "is" else "!="](a.data, b.data))
    if op in _BITS or op in ("<<", ">>", ">>>"):
        return _bitwise(op, a, b)
    x, y = _numbers(a, b_kind), _numbers(b, a_kind)
    if op in COMPARE:
        return Vector(BOOLEAN, COMPARE[op](x, y))
    if a_kind == REAL or b_kind == REAL:
        return _reals(op, x, y)
    return _integers(op, x, y)


def _numbers(vector: Vector, other: int) -> Any:
    """Return a vector's data as reals if its kind or the other operand's kind is real, otherwise as integers."""
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
    is_infinite = result == np.inf
    if is_infinite.any():
        kinds = np.where(is_infinite, ERR, REAL).astype(np.uint8)
        return simplify_kinds(kinds, result.view(np.int64))
    return Vector(REAL, result)


def _integers(op: str, x: Any, y: Any) -> Vector:
    if op in _COMPUTE:
        with np.errstate(over="ignore"):
            return Vector(INTEGER, _COMPUTE[op](x, y))
    x, y = np.broadcast_arrays(np.asarray(x, np.int64), np.asarray(y, np.int64))
    is_zero = y == 0
    divisor = np.where(is_zero | ((x == INT_MIN) & (y == -1)), 1, y)
    # numpy rounds quotients down, C rounds them towards zero.
    quotient = x // divisor
    remainder = x - quotient * divisor
    is_adjusted = (remainder != 0) & ((remainder < 0) != (x < 0))
    if op == "/":
        result = quotient + is_adjusted
        result = np.where((x == INT_MIN) & (y == -1), INT_MAX, result)
    else:
        result = np.where(is_adjusted, remainder - divisor, remainder)
        result = np.where((x == INT_MIN) & (y == -1), 0, result)
    if is_zero.any():
        return simplify_kinds(np.where(is_zero, ERR, INTEGER).astype(np.uint8), result)
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
        return Vector(BOOLEAN, COMPARE[op](lowercase_codes(arena, a), lowercase_codes(arena, b)))
    raise Unsupported


def lowercase_codes(arena: Arena, vector: Vector) -> Any:
    """Return the codes of a vector's strings in lower case."""
    table = arena.heap.strings.lowercase_codes()
    if not isinstance(vector.data, np.ndarray):
        return int(table[vector.data])
    if vector.column is not None:
        return vector.column.cached("folded", lambda: table[vector.data])
    return table[vector.data]
