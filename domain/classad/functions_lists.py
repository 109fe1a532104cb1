"""Built-in functions on lists: sums, extremes, membership, split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .ad import ClassAd
from .environment import Ad, Environment
from .function_registry import FunctionInputs, eager, lazy
from .operators import BINARY
from .scalar import evaluate_member
from .tree import ListValue, Literal
from .values import ERROR, UNDEFINED, EvaluationFailed, is_number, lower, strtod, truncate64


def string_list(items: list[str]) -> ListValue:
    return ListValue(tuple(Literal(item) for item in items), None, shared=True)


def _defined_numbers(env: Environment, ad: Ad, value: Any) -> Any:
    """Return the defined members of a list of numbers; for any other value, return the calling function's result."""
    if type(value) is not ListValue:
        return UNDEFINED if value is UNDEFINED else ERROR
    numbers = []
    for expression in value.expressions:
        number = evaluate_member(env, ad, value, expression)
        if number is UNDEFINED:
            continue
        if not is_number(number):
            return ERROR
        numbers.append(number)
    return numbers


def _sum(numbers: list[Any]) -> Any:
    total: Any = 0
    for position, number in enumerate(numbers):
        total = number if position == 0 else BINARY["+"](total, number)
    return total


@eager("sum", 1, members={1: 0})
def _sum_of(env: Environment, ad: Ad, values: list[Any]) -> Any:
    numbers = _defined_numbers(env, ad, values[0])
    return _sum(numbers) if type(numbers) is list else numbers


@eager("avg", 1, members={1: 0})
def _average_of(env: Environment, ad: Ad, values: list[Any]) -> Any:
    numbers = _defined_numbers(env, ad, values[0])
    if type(numbers) is not list:
        return numbers
    return BINARY["/"](_sum(numbers), float(len(numbers))) if numbers else 0


def promote(a: Any, b: Any) -> tuple[Any, Any]:
    """Convert two numbers to a common type: reals if either is a real, else integers."""
    common: type = float if type(a) is float or type(b) is float else int
    return common(a), common(b)


def _declare_extreme(name: str, op: str) -> None:
    is_better = BINARY[op]

    @eager(name, 1, members={1: 0})
    def _extreme(env: Environment, ad: Ad, values: list[Any]) -> Any:
        numbers = _defined_numbers(env, ad, values[0])
        if type(numbers) is not list:
            return numbers
        if not numbers:
            return UNDEFINED
        best = numbers[0]
        for number in numbers[1:]:
            # HTCondor's comparison promotes both numbers to the common type.
            number, best = promote(number, best)
            if is_better(number, best) is True:
                best = number
        return best


_declare_extreme("min", "<")
_declare_extreme("max", ">")


def _declare_member(name: str, op: str) -> None:
    is_equal = BINARY[op]
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
        return any(is_equal(evaluate_member(env, ad, members, e), item) is True for e in members.expressions)


_declare_member("member", "==")
_declare_member("identicalmember", "is")


def _declare_compare(name: str, require_all: bool) -> None:
    @lazy(name, 3, needs=FunctionInputs.ARGUMENTS)
    def _compare(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
        op = arguments[0](env, ad)
        if type(op) is not str:
            return UNDEFINED if op is UNDEFINED else ERROR
        if op not in _COMPARISONS:
            return ERROR
        members = arguments[1](env, ad)
        if type(members) is not ListValue:
            return UNDEFINED if members is UNDEFINED else ERROR
        operand = arguments[2](env, ad)
        for expression in members.expressions:
            result = BINARY[op](evaluate_member(env, ad, members, expression), operand)
            if type(result) is not bool:
                # As in HTCondor, the search stops at an undefined comparison.
                return False if result is UNDEFINED else ERROR
            if result is not require_all:
                return result
        return require_all


_COMPARISONS = frozenset({"<", "<=", "!=", "==", ">", ">=", "is", "isnt"})
_declare_compare("anycompare", False)
_declare_compare("allcompare", True)


@eager("split", 1, 2)
def _split(env: Environment, ad: Ad, values: list[Any]) -> Any:
    """Split a string at separators. Only a doubled separator other than a blank creates an empty field."""
    text = values[0]
    separators = values[1] if len(values) == 2 else ", \t"
    if type(text) is not str or type(separators) is not str:
        return ERROR
    items: list[str] = []
    start, previous_separator = 0, ""
    for position, c in enumerate(text):
        if c not in separators:
            continue
        if position > start:
            items.append(text[start:position])
        elif previous_separator == c:
            items.append("")
        if c not in " \t\n\v\f\r":
            previous_separator = c
        start = position + 1
    if len(text) > start:
        items.append(text[start:])
    return string_list(items)


def _declare_at(name: str, default: Any) -> None:
    @eager(name, 1)
    def _split_at(env: Environment, ad: Ad, values: list[Any]) -> Any:
        (text,) = values
        if type(text) is not str:
            return ERROR
        before, at, after = text.partition("@")
        return string_list([before, after] if at else default(text))


_declare_at("splitusername", lambda text: [text, ""])
_declare_at("splitslotname", lambda text: ["", text])


# Built-in functions on string lists, which are strings of items with separators between them.

_BLANKS = " \t\n\v\f\r"
_FLT_MAX = 3.4028234663852886e38
_FLT_MIN = 1.1754943508222875e-38


def split_items(text: str, separators: str) -> list[str]:
    """Return the items of a string list, without blanks around them and without empty items."""
    items: list[str] = []
    position, end = 0, len(text)
    skipped = separators + _BLANKS
    while True:
        while position < end and text[position] in skipped:
            position += 1
        start = position
        while position < end and text[position] not in separators:
            position += 1
        if position == start:
            return items
        items.append(text[start:position].rstrip(_BLANKS))


def _list_and_separators(values: list[Any], separators: str) -> tuple[str, str] | None:
    text = values[0]
    if len(values) > 1:
        separators = values[1]
    return (text, separators) if type(text) is str and type(separators) is str else None


def exceptional_argument(values: list[Any]) -> Any:
    """Return ERROR if an argument is ERROR, else UNDEFINED if one is UNDEFINED, else None."""
    if any(value is ERROR for value in values):
        return ERROR
    return UNDEFINED if any(value is UNDEFINED for value in values) else None


def non_string_result(values: list[Any]) -> Any:
    """Return the result for arguments that are not all strings, or None if all are strings."""
    exception = exceptional_argument(values)
    return ERROR if exception is None and any(type(value) is not str for value in values) else exception


@eager("stringlistsize", 1, 2)
def _size(env: Environment, ad: Ad, values: list[Any]) -> Any:
    list_and_separators = _list_and_separators(values, ", ")
    return ERROR if list_and_separators is None else len(split_items(*list_and_separators))


def _declare_summary(
    name: str, start: float, step: Callable[[float, float], float], empty: Any, average: bool = False
) -> None:
    @eager(name, 1, 2)
    def _summary(env: Environment, ad: Ad, values: list[Any]) -> Any:
        list_and_separators = _list_and_separators(values, ", ")
        if list_and_separators is None:
            return ERROR
        items = split_items(*list_and_separators)
        result, is_real = start, False
        for item in items:
            number = strtod(item)
            if number is None:
                return ERROR
            is_real = is_real or any(c not in "+-0123456789" for c in item)
            result = step(number, result)
        if not items:
            return empty
        if average:
            result /= len(items)
        return result if is_real else truncate64(result)


_declare_summary("stringlistsum", 0.0, lambda item, so_far: item + so_far, 0.0)
_declare_summary("stringlistavg", 0.0, lambda item, so_far: item + so_far, 0.0, average=True)
_declare_summary("stringlistmin", _FLT_MAX, lambda item, so_far: item if item < so_far else so_far, UNDEFINED)
# HTCondor starts at the smallest positive float, so the result is never below zero; sites may rely on it.
_declare_summary("stringlistmax", _FLT_MIN, lambda item, so_far: item if item > so_far else so_far, UNDEFINED)


def _declare_membership(name: str, ignore_case: bool, subset: bool) -> None:
    fold: Callable[[str], str] = lower if ignore_case else str

    @eager(name, 2, 3)
    def _membership(env: Environment, ad: Ad, values: list[Any]) -> Any:
        if any(type(value) is not str and value is not UNDEFINED for value in values):
            return ERROR
        item, text = values[:2]
        if item is UNDEFINED and text is UNDEFINED:
            return UNDEFINED
        # An undefined argument counts as an empty list.
        item = "" if item is UNDEFINED else item
        text = "" if text is UNDEFINED else text
        separators = values[2] if len(values) == 3 and values[2] is not UNDEFINED else ", \t\r\n"
        listed = {fold(entry) for entry in split_items(text, separators)}
        if subset:
            wanted = [fold(entry) for entry in split_items(item, separators)]
            # HTCondor returns false for a string of separators only.
            return item == "" or (bool(wanted) and all(entry in listed for entry in wanted))
        return fold(item) in listed


_declare_membership("stringlistmember", ignore_case=False, subset=False)
_declare_membership("stringlistimember", ignore_case=True, subset=False)
_declare_membership("stringlistsubsetmatch", ignore_case=False, subset=True)
_declare_membership("stringlistisubsetmatch", ignore_case=True, subset=True)


@lazy("stringlistsintersect", 2, 3, needs=FunctionInputs.ARGUMENTS)
def _intersect(env: Environment, ad: Ad, arguments: list[Any], node: Any) -> Any:
    try:
        values = [argument(env, ad) for argument in arguments]
    except EvaluationFailed:
        return ERROR  # HTCondor returns an error here only in this function
    if (exception := non_string_result(values)) is not None:
        return exception
    separators = (values[2] if len(values) == 3 else "") or " ,"
    table = str.maketrans(dict.fromkeys(separators, separators[0]))
    first, second = ({*text.translate(table).split(separators[0])} - {""} for text in values[:2])
    return not first.isdisjoint(second)
