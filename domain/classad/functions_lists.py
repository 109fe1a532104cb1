"""Built-in functions on lists: sums, extremes, membership, split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .environment import Ad, Environment
from .function_registry import Needs, eager, lazy
from .operators import BINARY
from .scalar import member
from .tree import ListValue, Literal
from .values import ERROR, UNDEFINED, EvaluationFailed, is_number, lower, strtod, truncate64


def shared_list(items: list[str]) -> ListValue:
    return ListValue(tuple(Literal(item) for item in items), None, shared=True)


def _numbers(env: Environment, ad: Ad, value: Any) -> Any:
    """Return the defined members of a list of numbers; for any other value, the function's result."""
    if type(value) is not ListValue:
        return UNDEFINED if value is UNDEFINED else ERROR
    numbers = []
    for expression in value.expressions:
        number = member(env, ad, value, expression)
        if number is UNDEFINED:
            continue
        if not is_number(number):
            return ERROR
        numbers.append(number)
    return numbers


def _sum(numbers: list[Any]) -> Any:
    total: Any = 0
    for place, number in enumerate(numbers):
        total = number if place == 0 else BINARY["+"](total, number)
    return total


@eager("sum", 1, members={1: 0})
def _sum_of(env: Environment, ad: Ad, values: list[Any]) -> Any:
    numbers = _numbers(env, ad, values[0])
    return _sum(numbers) if type(numbers) is list else numbers


@eager("avg", 1, members={1: 0})
def _average_of(env: Environment, ad: Ad, values: list[Any]) -> Any:
    numbers = _numbers(env, ad, values[0])
    if type(numbers) is not list:
        return numbers
    return BINARY["/"](_sum(numbers), float(len(numbers))) if numbers else 0


def promoted(a: Any, b: Any) -> tuple[Any, Any]:
    """Convert two numbers to one type: reals where either is, else integers."""
    common: type = float if type(a) is float or type(b) is float else int
    return common(a), common(b)


def _declare_extreme(name: str, op: str) -> None:
    better = BINARY[op]

    @eager(name, 1, members={1: 0})
    def _extreme(env: Environment, ad: Ad, values: list[Any]) -> Any:
        numbers = _numbers(env, ad, values[0])
        if type(numbers) is not list:
            return numbers
        if not numbers:
            return UNDEFINED
        best = numbers[0]
        for number in numbers[1:]:
            # HTCondor's comparison leaves both promoted to the common type.
            number, best = promoted(number, best)
            if better(number, best) is True:
                best = number
        return best


_declare_extreme("min", "<")
_declare_extreme("max", ">")


def _declare_member(name: str, op: str) -> None:
    same = BINARY[op]
    strict = op == "=="

    @eager(name, 2, members={2: 1})
    def _member(env: Environment, ad: Ad, values: list[Any]) -> Any:
        item, members = values
        if members is UNDEFINED or (strict and item is UNDEFINED):
            return UNDEFINED
        if type(members) is not ListValue or type(item) in (ListValue, ClassAd):
            return ERROR
        if strict and item is ERROR:
            return ERROR
        return any(same(member(env, ad, members, e), item) is True for e in members.expressions)


_declare_member("member", "==")
_declare_member("identicalmember", "is")


def _declare_compare(name: str, all_of_them: bool) -> None:
    @lazy(name, 3, needs=Needs.ARGUMENTS)
    def _compare(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
        op = arguments[0](env, ad)
        if type(op) is not str:
            return UNDEFINED if op is UNDEFINED else ERROR
        if op not in _COMPARISONS:
            return ERROR
        members = arguments[1](env, ad)
        if type(members) is not ListValue:
            return UNDEFINED if members is UNDEFINED else ERROR
        against = arguments[2](env, ad)
        for expression in members.expressions:
            result = BINARY[op](member(env, ad, members, expression), against)
            if type(result) is not bool:
                # An undefined comparison ends the search: nothing is proven either way.
                return False if result is UNDEFINED else ERROR
            if result is not all_of_them:
                return result
        return all_of_them


_COMPARISONS = frozenset({"<", "<=", "!=", "==", ">", ">=", "is", "isnt"})
_declare_compare("anycompare", False)
_declare_compare("allcompare", True)


@eager("split", 1, 2)
def _split(env: Environment, ad: Ad, values: list[Any]) -> Any:
    """Cut a string at any of some separators. Only a doubled separator other than a blank makes an empty field."""
    text = values[0]
    separators = values[1] if len(values) == 2 else ", \t"
    if type(text) is not str or type(separators) is not str:
        return ERROR
    items: list[str] = []
    last, before = 0, ""
    for place, c in enumerate(text):
        if c not in separators:
            continue
        if place > last:
            items.append(text[last:place])
        elif before == c:
            items.append("")
        if c not in " \t\n\v\f\r":
            before = c
        last = place + 1
    if len(text) > last:
        items.append(text[last:])
    return shared_list(items)


def _declare_at(name: str, without: Any) -> None:
    @eager(name, 1)
    def _split_at(env: Environment, ad: Ad, values: list[Any]) -> Any:
        (text,) = values
        if type(text) is not str:
            return ERROR
        before, at, after = text.partition("@")
        return shared_list([before, after] if at else without(text))


_declare_at("splitusername", lambda text: [text, ""])
_declare_at("splitslotname", lambda text: ["", text])


# Built-in functions on string lists: one string of items between separators.

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
    exception = exceptional(values)
    return ERROR if exception is None and any(type(value) is not str for value in values) else exception


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
        known = {fold(word) for word in items_of(text, separators)}
        if subset:
            words = [fold(word) for word in items_of(item, separators)]
            # HTCondor says no of a string with nothing in it but separators.
            return item == "" or (bool(words) and all(word in known for word in words))
        return fold(item) in known


_declare_membership("stringlistmember", folded=False, subset=False)
_declare_membership("stringlistimember", folded=True, subset=False)
_declare_membership("stringlistsubsetmatch", folded=False, subset=True)
_declare_membership("stringlistisubsetmatch", folded=True, subset=True)


@lazy("stringlistsintersect", 2, 3, needs=Needs.ARGUMENTS)
def _intersect(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    """Return whether two string lists share an item. Items keep their blanks, if blanks are no separators."""
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
