"""Built-in functions on strings: joining, cutting, comparing; versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .environment import Ad, Environment
from .function_registry import UNLIMITED, FunctionInputs, eager, lazy
from .scalar import evaluate_member
from .tree import ListValue
from .unparse import to_string
from .values import ERROR, UNDEFINED, compare_text, concatenate, from_bytes, low32, lower, to_bytes, upper


@lazy("strcat", 0, UNLIMITED, needs=FunctionInputs.ARGUMENTS)
def _strcat(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    texts: list[str] = []
    for argument in arguments:
        text = to_string(argument(env, ad))
        if type(text) is not str:
            return text
        env.deduct_for_values((text,))
        texts.append(text)
    return concatenate(texts)


@lazy("join", 0, UNLIMITED, needs=FunctionInputs.ARGUMENTS)
def _join(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    values: list[Any] = []
    for argument in arguments:
        values.append(argument(env, ad))
        if values[-1] is ERROR:
            return ERROR
    if 0 < len(values) <= 2 and type(values[-1]) is ListValue:
        members = values[-1]
        items = [evaluate_member(env, ad, members, expression) for expression in members.expressions]
        values = [values[0] if len(values) == 2 else "", *items]
    separator, joined, any_undefined, any_defined = "", "", False, False
    for position, value in enumerate(values):
        text = to_string(value)
        if text is ERROR:
            return ERROR
        if type(text) is not str:
            any_undefined = True
        elif position == 0:
            separator = text
        else:
            any_defined = True
            env.deduct_for_values((separator, text))
            joined += (separator if joined else "") + text
    return UNDEFINED if any_undefined and not any_defined else concatenate([joined])


def _declare_case(name: str, convert: Any) -> None:
    @eager(name, 1)
    def _case(env: Environment, ad: Ad, values: list[Any]) -> Any:
        text = to_string(values[0])
        return convert(text) if type(text) is str else text


_declare_case("toupper", upper)
_declare_case("tolower", lower)


@eager("substr", 2, 3)
def _substr(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if any(value is UNDEFINED for value in values):
        return UNDEFINED
    if type(values[0]) is not str or any(type(value) is not int for value in values[1:]):
        return ERROR
    data = to_bytes(values[0])
    offset = low32(values[1])
    if offset < 0:
        offset = max(offset + len(data), 0)
    offset = min(offset, len(data))
    if len(values) == 2:
        return from_bytes(data[offset:])
    length = low32(values[2])
    if length < 0:
        length = max(len(data) - offset + length, 0)
    return from_bytes(data[offset : offset + length])


@eager("size", 1)
def _size(env: Environment, ad: Ad, values: list[Any]) -> Any:
    (value,) = values
    if type(value) is str:
        return len(value) if value.isascii() else len(to_bytes(value))
    if type(value) is ListValue:
        return len(value)
    if type(value) is ClassAd:
        return len(value._cells)
    return UNDEFINED if value is UNDEFINED else ERROR


def _to_strings(values: list[Any]) -> list[str] | None:
    texts = [to_string(value) for value in values]
    return None if any(type(text) is not str for text in texts) else texts  # type: ignore[return-value]


def compare_versions(a: str, b: str) -> int:
    """Compare versions like HTCondor: digits form numbers, more leading zeros sort first. Only the sign matters."""
    if a == b:
        return 0
    # A zero byte ends each string, as in C.
    x, y = to_bytes(a) + b"\0", to_bytes(b) + b"\0"
    difference_at = 0
    while x[difference_at] == y[difference_at]:
        difference_at += 1
    number_start = difference_at
    while x[number_start - 1 : number_start].isdigit():
        number_start -= 1
    difference = _signed_byte(x[difference_at]) - _signed_byte(y[difference_at])
    lengths = [_prefix_length(text[number_start:], b"0123456789") for text in (x, y)]
    if number_start == difference_at and not all(lengths):
        return difference
    runs = [_prefix_length(text[number_start:], b"0") for text in (x, y)]
    # If a number consists only of zeros, its last zero is not a leading zero.
    zeros = [run - (run == length > 0) for run, length in zip(runs, lengths, strict=True)]
    if zeros[0] != zeros[1]:
        return zeros[1] - zeros[0]
    return difference if zeros[0] > 0 or lengths[0] == lengths[1] else lengths[0] - lengths[1]


def _signed_byte(byte: int) -> int:
    return byte - 256 if byte > 127 else byte


def _prefix_length(text: bytes, digits: bytes) -> int:
    return len(text) - len(text.lstrip(digits))


_COMPARISONS: dict[str, Callable[[str, str], int]] = {
    "strcmp": compare_text,
    "stricmp": lambda a, b: compare_text(lower(a), lower(b)),
    "versioncmp": compare_versions,
    "versionlt": lambda a, b: compare_versions(a, b) < 0,
    "versionle": lambda a, b: compare_versions(a, b) <= 0,
    "versiongt": lambda a, b: compare_versions(a, b) > 0,
    "versionge": lambda a, b: compare_versions(a, b) >= 0,
    "versioneq": lambda a, b: compare_versions(a, b) == 0,
}


def _declare_comparison(name: str, compare: Callable[[str, str], int]) -> None:
    @eager(name, 2)
    def _compared(env: Environment, ad: Ad, values: list[Any]) -> Any:
        if values[0] is UNDEFINED or values[1] is UNDEFINED:
            return UNDEFINED
        texts = _to_strings(values)
        return ERROR if texts is None else compare(*texts)


for _name, _compare in _COMPARISONS.items():
    _declare_comparison(_name, _compare)


@eager("version_in_range", 3)
def _version_in_range(env: Environment, ad: Ad, values: list[Any]) -> Any:
    if values[1] is UNDEFINED or values[2] is UNDEFINED:
        return UNDEFINED
    texts = _to_strings(values)
    if texts is None:
        return ERROR
    version, lowest, highest = texts
    return compare_versions(lowest, version) <= 0 and compare_versions(version, highest) <= 0
