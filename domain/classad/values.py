"""Define the values of the ClassAd language and the conversions between them.

A value is a Python ``int`` (64 bits, wrapping), ``float``, ``str``, ``bool``, ``UNDEFINED``, ``ERROR``, ``AbsTime``,
``RelTime``, ``ListValue`` or ``ClassAd``. The engine always tests for the exact type, because ``bool`` is a subclass of
``int`` in Python, but not in ClassAds. ClassAd strings are bytes, represented as ``str`` with ``surrogateescape`` for
bytes that are not UTF-8. Code that counts or slices characters must use the bytes (``to_bytes``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final

from ..errors import PoolbookError

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
_WRAP: Final = 1 << 64


class EvaluationError(PoolbookError):
    """An evaluation failed and has no value, not even ``ERROR``.

    Causes are ``random(0)``, nesting deeper than HTCondor allows (400 levels), and functions whose input is missing in
    the ``Context`` (``time()`` without ``now``).

    >>> try:
    ...     pool.jobs("random(0)")
    ... except EvaluationError as error:
    ...     print(error)
    random(0): the limit must be greater than 0
    """


class EvaluationFailed(EvaluationError):
    """An evaluation failed, as it would in HTCondor. Two ads do not match if the evaluation of their match fails."""


class ContextError(EvaluationError):
    """An expression needs an input that the ``Context`` lacks. Unlike other failures, this is never suppressed."""


class Exceptional:
    """``UNDEFINED`` or ``ERROR``. Neither has a truth value, so compare by identity."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text.upper()

    def __str__(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self._text} is neither true nor false; write `value is True` or `value is {self._text.upper()}`"
        )

    def __reduce__(self) -> str:
        return self._text.upper()


UNDEFINED: Final = Exceptional("undefined")
ERROR: Final = Exceptional("error")


class AbsTime:
    """An instant: ``seconds`` since the epoch (UTC), and the ``offset`` of its time zone in seconds east of UTC."""

    __slots__ = ("offset", "seconds")

    def __init__(self, seconds: int, offset: int = 0) -> None:
        self.seconds = seconds
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AbsTime):
            return NotImplemented
        return self.seconds == other.seconds and self.offset == other.offset

    def __hash__(self) -> int:
        return hash((AbsTime, self.seconds, self.offset))

    def __repr__(self) -> str:
        return f"AbsTime({self.seconds}, {self.offset})"


class RelTime:
    """A duration in ``seconds``, a float."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = float(seconds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RelTime):
            return NotImplemented
        return self.seconds == other.seconds

    def __hash__(self) -> int:
        return hash((RelTime, self.seconds))

    def __repr__(self) -> str:
        return f"RelTime({self.seconds})"


def wrap64(number: int) -> int:
    """Return the 64-bit two's complement of an integer."""
    if INT_MIN <= number <= INT_MAX:
        return number
    return ((number - INT_MIN) % _WRAP) + INT_MIN


def truncate64(real: float) -> int:
    """Return ``(long long) real`` as on x86-64: the smallest integer if it is out of range."""
    if real != real or real >= 9223372036854775808.0 or real < -9223372036854775808.0:
        return INT_MIN
    return int(real)


def truncate32(real: float) -> int:
    """Return ``(int) real`` as on x86-64: the smallest integer if it is out of range."""
    if real != real or real >= 2147483648.0 or real <= -2147483649.0:
        return -(1 << 31)
    return int(real)


def low32(number: int) -> int:
    """Return ``(int) number``: the low 32 bits, signed."""
    return ((number + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


_STRTOD = (
    r"(?i)[ \t\n\v\f\r]*([+-]?)(?:(0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?[0-9]+)?)"
    r"|((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(inf(?:inity)?)|(nan(?:\([A-Za-z0-9_]*\))?))"
)


def strtod(text: str) -> float | None:
    """Return the number at the beginning of a string, like C's strtod, or None if there is none."""
    match = re.match(_STRTOD, text)
    if match is None:
        return None
    sign, hexadecimal, decimal, infinite, _nan = match.groups()
    if decimal is not None:
        number = float(decimal)
    elif hexadecimal is not None:
        try:
            number = float.fromhex(hexadecimal)
        except OverflowError:
            number = math.inf
    elif infinite is not None:
        number = math.inf
    else:
        number = math.nan
    return -number if sign == "-" else number


def to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def concatenate(parts: Iterable[str]) -> str:
    """Concatenate strings as bytes. Bytes that were not valid characters may together become characters."""
    text = "".join(parts)
    return text if text.isascii() else from_bytes(to_bytes(text))


_LOWER = {c: c + 32 for c in range(ord("A"), ord("Z") + 1)}
_UPPER = {c: c - 32 for c in range(ord("a"), ord("z") + 1)}


def lower(text: str) -> str:
    """Return a text with its ASCII letters in lower case."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper(text: str) -> str:
    """Return a text with its ASCII letters in upper case."""
    return text.upper() if text.isascii() else text.translate(_UPPER)


def compare_text(a: str, b: str) -> int:
    """Compare byte by byte, like strcmp; return a negative number, zero or a positive number."""
    if a == b:
        return 0
    if a.isascii() and b.isascii():
        return -1 if a < b else 1
    return -1 if to_bytes(a) < to_bytes(b) else 1


def truth(value: Any) -> bool | None:
    """Return the truth value of a boolean or a number, or None for any other value."""
    kind = type(value)
    if kind is bool:
        return value  # type: ignore[no-any-return]
    if kind is int or kind is float:
        return bool(value != 0)
    return None


def is_number(value: Any) -> bool:
    """Check whether a value is an integer, a real or a boolean."""
    kind = type(value)
    return kind is int or kind is float or kind is bool


def to_real(value: Any) -> float | Exceptional:
    """Convert a value like the ClassAd function ``real()``, to a float, ``UNDEFINED`` or ``ERROR``."""
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int or kind is bool:
        return float(value)
    if kind is str:
        number = strtod(value)
        return ERROR if number is None else number
    if kind is AbsTime:
        return float(value.seconds)
    if kind is RelTime:
        return float(truncate32(value.seconds))
    return UNDEFINED if value is UNDEFINED else ERROR


def to_integer(value: Any) -> int | Exceptional:
    """Convert a value like the ClassAd function ``int()``, which truncates, to an int, ``UNDEFINED`` or ``ERROR``."""
    kind = type(value)
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return int(value)
    if kind is float:
        return truncate64(value)
    if kind is str:
        number = strtod(value)
        return ERROR if number is None else truncate64(number)
    if kind is AbsTime:
        return value.seconds  # type: ignore[no-any-return]
    if kind is RelTime:
        return truncate32(value.seconds)
    return UNDEFINED if value is UNDEFINED else ERROR
