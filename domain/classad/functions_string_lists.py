"""Built-in functions on string lists: one string of items between separators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .environment import Ad, Environment
from .function_registry import Needs, eager, lazy
from .values import ERROR, UNDEFINED, EvaluationFailed, lower, strtod, truncate64

_BLANKS = " \t\n\v\f\r"
_FLT_MAX = 3.4028234663852886e38
_FLT_MIN = 1.1754943508222875e-38


def items_of(text: str, separators: str) -> list[str]:
    """Return the items of a string list, blanks around them trimmed and empty ones dropped."""
    items: list[str] = []
    at, end = 0, len(text)
    skipped = separators + _BLANKS
    while True:
        while at < end and text[at] in skipped:
            at += 1
        start = at
        while at < end and text[at] not in separators:
            at += 1
        if at == start:
            return items
        items.append(text[start:at].rstrip(_BLANKS))


def _strings(values: list[Any], separators: str) -> tuple[str, str] | None:
    """Return the list and its separators, where both are strings."""
    text = values[0]
    if len(values) > 1:
        separators = values[1]
    return (text, separators) if type(text) is str and type(separators) is str else None


def exceptional(values: list[Any]) -> Any:
    """Return ERROR or UNDEFINED, where an argument is one."""
    if any(value is ERROR for value in values):
        return ERROR
    return UNDEFINED if any(value is UNDEFINED for value in values) else None


def not_strings(values: list[Any]) -> Any:
    """Return the result for arguments that are not all strings; None where they are."""
    found = exceptional(values)
    return ERROR if found is None and any(type(value) is not str for value in values) else found


@eager("stringlistsize", 1, 2)
def _size(env: Environment, ad: Ad, values: list[Any]) -> Any:
    given = _strings(values, ", ")
    return ERROR if given is None else len(items_of(*given))


def _declare_summary(
    name: str, start: float, step: Callable[[float, float], float], empty: Any, average: bool = False
) -> None:
    @eager(name, 1, 2)
    def _summary(env: Environment, ad: Ad, values: list[Any]) -> Any:
        given = _strings(values, ", ")
        if given is None:
            return ERROR
        items = items_of(*given)
        result, real = start, False
        for item in items:
            number = strtod(item)
            if number is None:
                return ERROR
            real = real or any(c not in "+-0123456789" for c in item)
            result = step(number, result)
        if not items:
            return empty
        if average:
            result /= len(items)
        return result if real else truncate64(result)


_declare_summary("stringlistsum", 0.0, lambda item, so_far: item + so_far, 0.0)
_declare_summary("stringlistavg", 0.0, lambda item, so_far: item + so_far, 0.0, average=True)
_declare_summary("stringlistmin", _FLT_MAX, lambda item, so_far: item if item < so_far else so_far, UNDEFINED)
# HTCondor starts at the smallest positive float, so the result never gets below zero; sites may rely on it.
_declare_summary("stringlistmax", _FLT_MIN, lambda item, so_far: item if item > so_far else so_far, UNDEFINED)


def _declare_membership(name: str, folded: bool, subset: bool) -> None:
    fold: Callable[[str], str] = lower if folded else str

    @eager(name, 2, 3)
    def _membership(env: Environment, ad: Ad, values: list[Any]) -> Any:
        if any(type(value) is not str and value is not UNDEFINED for value in values):
            return ERROR
        item, text = values[:2]
        if item is UNDEFINED and text is UNDEFINED:
            return UNDEFINED
        # An undefined argument counts as empty.
        item = "" if item is UNDEFINED else item
        text = "" if text is UNDEFINED else text
        separators = values[2] if len(values) == 3 and values[2] is not UNDEFINED else ", \t\r\n"
        known = {fold(one) for one in items_of(text, separators)}
        if subset:
            wanted = [fold(one) for one in items_of(item, separators)]
            # HTCondor says no of a string with nothing in it but separators.
            return item == "" or (bool(wanted) and all(one in known for one in wanted))
        return fold(item) in known


_declare_membership("stringlistmember", folded=False, subset=False)
_declare_membership("stringlistimember", folded=True, subset=False)
_declare_membership("stringlistsubsetmatch", folded=False, subset=True)
_declare_membership("stringlistisubsetmatch", folded=True, subset=True)


@lazy("stringlistsintersect", 2, 3, needs=Needs.ARGUMENTS)
def _intersect(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """Tell whether two string lists share an item. Items keep their blanks, if blanks are no separators."""
    try:
        values = [argument(env, ad) for argument in arguments]
    except EvaluationFailed:
        return ERROR  # only this function does so in HTCondor
    if (unfit := not_strings(values)) is not None:
        return unfit
    separators = (values[2] if len(values) == 3 else "") or " ,"
    table = str.maketrans(dict.fromkeys(separators, separators[0]))
    first, second = ({*text.translate(table).split(separators[0])} - {""} for text in values[:2])
    return not first.isdisjoint(second)
