"""Property: operators and functions have the same results on columns as on single values."""

import math
from typing import Any

import pytest

from poolbook.domain.classad import ERROR, UNDEFINED, ClassAd, EvaluationError, parse
from poolbook.domain.classad.table import SlotTable

from ..sampling import marked, spread, thorough
from ..together import together
from . import pools
from .strategies import FUNCTIONS
from .tables import check_clauses, check_evaluation, check_rank, column, columns_of, values_of

# Examples: values ------------------------------------------------------------------------------

INT_MAX, INT_MIN = 2**63 - 1, -(2**63)


@together(
    ("text", "expected"),
    [
        ("X + 1", [INT_MIN, INT_MIN + 1, 8]),
        ("X - 1", [INT_MAX - 1, INT_MAX, 6]),
        ("X * 2", [-2, 0, 14]),
        ("X * X", [1, 0, 49]),
        ("-X", [-INT_MAX, INT_MIN, -7]),
        ("X / -1", [-INT_MAX, INT_MAX, -7]),
        ("X % -1", [0, 0, 0]),
        ("X / (Y - 1)", [-INT_MAX, ERROR, 7]),
        ("X << 65", [-2, 0, 14]),
        ("X >> 62", [1, -2, 0]),
        ("X >>> 62", [1, 2, 0]),
        ("~X", [INT_MIN, INT_MAX, -8]),
    ],
)
def test_integers_wrap_at_64_bits(text: str, expected: list[Any]) -> None:
    assert values_of(column(INT_MAX, INT_MIN, 7), text) == expected


@together(
    ("text", "expected"),
    [
        ("X / Y", [ERROR, -7, 3, -2]),
        ("X % Y", [ERROR, 0, 1, -1]),
        ("X / 2", [3, -3, 3, -3]),
        ("X % -2", [1, -1, 1, -1]),
        ("X / 0", [ERROR] * 4),
        ("X % 0", [ERROR] * 4),
        ("X % 2.0", [ERROR] * 4),
        ("X / false", [ERROR] * 4),
        ("8 / Y", [ERROR, 8, 4, 2]),
    ],
)
def test_a_quotient_is_rounded_towards_zero_and_by_zero_it_is_an_error(text: str, expected: list[Any]) -> None:
    assert values_of(column(7, -7, 7, -7), text) == expected


def test_a_real_that_becomes_infinite_is_an_error_and_a_negative_one_is_not() -> None:
    table = column(1e308, -1e308, 0.0, -0.0)
    assert values_of(table, "X * 10") == [ERROR, -math.inf, 0.0, -0.0]
    assert list(map(str, values_of(table, "X / 0"))) == ["error", "-inf", "nan", "nan"]
    assert list(map(str, values_of(table, "0 / X"))) == ["0.0", "-0.0", "nan", "nan"]
    check_evaluation(table, list(table), ClassAd(), parse("X * 10 / Y"))


def test_comparisons_with_nan_are_false_and_inequality_is_true() -> None:
    table = column(math.nan, 1.0, math.nan)
    assert values_of(table, "X == X") == [False, True, False]
    assert values_of(table, "X != X") == [True, False, True]
    assert values_of(table, "X < 2 || X >= 2") == [False, True, False]


def test_equality_of_strings_ignores_the_case_of_ascii_letters_and_identity_does_not() -> None:
    table = column("abc", "ABC", "é", "É", "", "b")
    assert values_of(table, 'X == "Abc"') == [True, True, False, False, False, False]
    assert values_of(table, 'X =?= "abc"') == [True, False, False, False, False, False]
    assert values_of(table, 'X != "ABC"') == [False, False, True, True, True, True]
    assert values_of(table, 'X =!= "ABC"') == [True, False, True, True, True, True]
    assert values_of(table, 'X == "É"') == [False, False, False, True, False, False]
    assert values_of(table, 'X < "B"') == [True, True, False, False, True, False]


def test_other_types_are_never_identical_and_not_comparable() -> None:
    table = column(1, 1.0, True, "1", None)
    assert values_of(table, "X =?= 1") == [True, False, False, False, False]
    assert values_of(table, "X == 1") == [True, True, True, ERROR, UNDEFINED]
    assert values_of(table, "X =?= undefined") == [False, False, False, False, True]


def test_integers_are_compared_with_reals_as_in_the_scalar_evaluation() -> None:
    table = column(2**53, 2**53 + 1, INT_MAX, INT_MIN)
    for text in ("X == 9007199254740992.0", "X < 9223372036854775807.0", "X >= -9223372036854775808.0", "X - 0.0"):
        check_evaluation(table, list(table), ClassAd(), parse(text))
        check_clauses(table, list(table), ClassAd({"Requirements": parse(f"TARGET.{text}")}))


def test_after_an_undefined_operand_the_next_one_decides_and_after_an_error_not() -> None:
    table = column(True, False, None, parse("error"), 1, 0, "a")
    assert values_of(table, "X && false") == [False, False, False, ERROR, False, False, ERROR]
    assert values_of(table, "X || true") == [True, True, True, ERROR, True, True, ERROR]
    assert values_of(table, "true && X") == [True, False, UNDEFINED, ERROR, True, False, ERROR]
    assert values_of(table, "X ? 1 : 2") == [1, 2, UNDEFINED, ERROR, 1, 2, ERROR]
    assert values_of(table, "X ?: 3") == [True, False, 3, ERROR, 1, 0, "a"]


def test_an_operand_that_cannot_decide_any_more_is_not_evaluated() -> None:
    assert values_of(column(True, True), "X || time() > 0") == [True, True]
    assert values_of(column(3, None), "X > 2 || X =?= undefined || time() > 0") == [True, True]
    assert values_of(column(True, False), "X ? 1 : Y") == [1, 1]
    assert values_of(column(1, 2), "X > 0 ? X : time()") == [1, 2]
    assert values_of(column(1, 2), "X ?: time()") == [1, 2]
    for text in ("X || time() > 0", "X ? 1 : time()", "X && time() > 0"):
        with pytest.raises(EvaluationError):
            column(True, False).evaluate(parse(text))


@together(
    "text",
    [
        # With an invalid condition both branches are evaluated, as by the reference.
        *("X ? time() : 0", "X ? 0 : time()", "X ? Y : (X ? time() : 1)", "ifThenElse(X, time(), 0)"),
        # These functions end at the first argument that decides.
        *("strcat(X, time())", "strcat(Y, X, time())", "join(X, time())", "mergeEnvironment(X, time())"),
        *("time() + X", "X + time()", "X[time()]", "{time()}[X]", "X =?= undefined || time() > 0"),
    ],
)
def test_a_failing_operand_is_evaluated_as_in_the_scalar_evaluation(text: str) -> None:
    for values in (("a", "b"), ("a", None), (None, None), (1, True, "a"), (parse("error"), "a"), (0, 0), (1, 2)):
        slots = [ClassAd({"X": value, "Y": place}) for place, value in enumerate(values)]
        job = ClassAd({"Requirements": parse(text), "Rank": parse(text)})
        check_evaluation(SlotTable(slots), slots, ClassAd(), parse(text))
        check_rank(SlotTable(slots), slots, job)
        check_clauses(SlotTable(slots), slots, job)


# Examples: operators and functions on columns of all kinds -------------------------------------

SPECIMENS = [
    *("true", "false", "0", "1", "-1", "7", "63", "64", "9007199254740993", "9223372036854775807"),
    *("-9223372036854775808", "0.0", "-0.0", "1.0", "2.5", "-7.5", "9007199254740992.0", "1e308", "1e400", "-1e400"),
    *(
        'real("NaN")',
        '""',
        '"a"',
        '"A"',
        '"b"',
        '"é"',
        '"É"',
        '"1.0"',
        '"a,b,c"',
        '"1, 2"',
        '"<="',
        '"\\303"',
        "undefined",
    ),
    *("error", "{}", '{1, 2.5, "a"}', '{"b", "A"}', "[a = 1]", "absTime(60)", "absTime(60, 3600)", "relTime(60)"),
]


PLAIN = [text for text in SPECIMENS if text[0] not in "{[ar"]


OPERATORS = [
    *("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", ">>>", "<", "<=", "==", "!=", ">=", ">", "=?=", "=!="),
    *("&&", "||", "?:", "[]"),
]


def operation(operator: str, first: str, right: str) -> str:
    return f"({first})[{right}]" if operator == "[]" else f"({first}) {operator} ({right})"


@pytest.fixture(scope="module")
def specimens() -> list[ClassAd]:
    """Return slots with every pair of specimens."""
    cells = [pools.expression(text) for text in SPECIMENS]
    return [ClassAd({"X": cell, "Y": right}) for cell in cells for right in cells]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_has_the_same_results_on_columns_of_all_kinds(operator: str, specimens: list[ClassAd]) -> None:
    check_evaluation(SlotTable(specimens), specimens, ClassAd(), parse(operation(operator, "X", "Y")))


@pytest.mark.parametrize("most", thorough(14))
@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_has_the_same_results_between_a_column_and_a_constant(operator: str, most: int) -> None:
    slots = [ClassAd({"X": pools.expression(text)}) for text in SPECIMENS]
    table = SlotTable(slots)
    for text in spread(SPECIMENS, most):
        for first, right in (("TARGET.X", text), (text, "TARGET.X"), ("TARGET.X", "MY.C"), ("C", "X")):
            expression = parse(operation(operator, first, right))
            check_evaluation(table, slots, ClassAd({"C": pools.expression(text)}), expression)
        check_clauses(table, slots, ClassAd({"Requirements": parse(operation(operator, "TARGET.X", text))}))


KINDS_OF_COLUMNS = {
    "booleans": ["true", "false"],
    "integers": ["0", "7", "-7", "3", "9007199254740993", "9223372036854775807", "-9223372036854775808"],
    "reals": ["0.0", "-0.0", "2.5", "-7.5", "9007199254740992.0", "1e308", "-1e400", "1e400", 'real("NaN")'],
    "strings": ['""', '"a"', '"A"', '"b"', '"é"', '"É"', '"a,b"'],
}


@pytest.mark.parametrize("most", thorough(2))
@pytest.mark.parametrize("right", KINDS_OF_COLUMNS)
@pytest.mark.parametrize("first", KINDS_OF_COLUMNS)
def test_operators_have_the_same_results_on_columns_of_one_kind(first: str, right: str, most: int) -> None:
    pairs = [(x, y) for x in KINDS_OF_COLUMNS[first] for y in KINDS_OF_COLUMNS[right]]
    slots = [ClassAd({"X": pools.expression(x), "Y": pools.expression(y)}) for x, y in pairs]
    table = SlotTable(slots)
    for operator in OPERATORS:
        check_evaluation(table, slots, ClassAd(), parse(operation(operator, "X", "Y")))
        for y in spread(KINDS_OF_COLUMNS[right], most):
            for text in (operation(operator, "TARGET.X", y), operation(operator, y, "TARGET.X")):
                check_evaluation(table, slots, ClassAd(), parse(text))
                check_clauses(table, slots, ClassAd({"Requirements": parse(text)}))


@pytest.mark.parametrize("text", ["-X", "+X", "!X", "~X", "X ? 1 : 2", "X ? X : Nope", "(X)", "X", "X ?: 5", "{X}[0]"])
def test_other_operators_have_the_same_results_on_columns_of_all_kinds(text: str) -> None:
    for texts in (SPECIMENS, PLAIN, *KINDS_OF_COLUMNS.values(), *([text] * 2 for text in SPECIMENS)):
        slots = [ClassAd({"X": pools.expression(text)}) for text in texts]
        check_evaluation(SlotTable(slots), slots, ClassAd(), parse(text))
        check_rank(SlotTable(slots), slots, ClassAd({"Rank": parse(text)}))


ARGUMENTS = [
    *("", "X", "X, Y", "X, Y, Z", "X, Y, Z, X", '"a", X', 'X, "a"', "X, 2", "2, X", '"a,b", X'),
    # Lists as written; some of these functions turn them into text.
    *("{X, Y}", "X, {1, Y}", "{Y}, X", '"<=", {X, Y}, Z', "1, 1, {1, X}", "{{X}}", "X, {[a = Y], {Z}}", "{}, {X}, {Y}"),
]


@pytest.mark.parametrize("most", [25, marked(80)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_the_same_results_on_columns_of_all_kinds(function: str, most: int) -> None:
    everything, plain_columns = columns_of(SPECIMENS, most), columns_of(PLAIN, 12)
    tables = SlotTable(everything), SlotTable(plain_columns)
    for arguments in ARGUMENTS:
        call = parse(f"{function}({arguments})")
        check_evaluation(tables[0], everything, ClassAd(), call)
        check_evaluation(tables[1], plain_columns, ClassAd(), call)
        check_evaluation(tables[1], plain_columns, ClassAd(), parse(f"{call} =?= Y || X"))
