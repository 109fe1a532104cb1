"""Golden and property: expressions that are an error whatever the ads are, and why."""

from __future__ import annotations

import pytest
from hypothesis import given

from poolbook.domain.classad import ERROR, ClassAd, ClassAdSyntaxError, EvaluationError, parse
from poolbook.domain.classad.function_registry import FUNCTIONS
from poolbook.domain.classad.operators import BINARY
from poolbook.domain.classad.syntax_errors import TRUTH_OPERATORS, describe_type, explain_error, find_error
from poolbook.domain.classad.values import UNDEFINED, AbsTime, RelTime

from ..together import together
from . import corpus, oracle, pools, strategies


@together(
    ("text", "part"),
    [
        ('(Owner == "coltrane" * 10^12) + Imagesize', '"coltrane" * 10'),  # the manual's RANK
        ('(Owner == "coltrane") * 10 + Imagesize', None),
        ('"a" && x', '"a" && x'),
        ('x && "a"', None),  # false if x is false
        ('x || ("a" * 2)', None),
        ('(2 < 3) || ("a" * 2)', None),
        ("1 / 0", "1 / 0"),
        ("1 / 0.0", "1 / 0.0"),
        ("1 / -0.0", None),  # negative infinity is valid
        ("x / 0", None),  # undefined if x is undefined
        ("1 / x", None),
        ('!"abc"', '!"abc"'),
        ('x ? "a" * 1 : error', None),
        ('(x == 1 ? "a" * 1 : 2) + "b"', None),
        ('"b" + (x ? 1 : 2)', None),
        ('true ? "a" * 1 : 2', '"a" * 1'),
        ('ifThenElse(true, 1 / 0, 2)', "1 / 0"),
        ('Owner == "x" > 3', '"x" > 3'),
        ('x =?= ("a" * 2)', None),
        ('("a" * 2) ?: x', '"a" * 2'),
        ("f(1 / 0)", "f(1 / 0)"),  # an unknown function
        ("floor(1 / 0)", None),
        ("error", "error"),
        ("undefined", None),
        ("true + true", None),
        ('time() - "a"', None),
        (" && ".join(["x"] * 5_000), None),
    ],
)  # fmt: skip
def test_the_part_that_makes_everything_an_error_is_found(text: str, part: str | None) -> None:
    fault_found = find_error(parse(text))
    assert (None if fault_found is None else str(fault_found)) == part


@together(
    ("text", "message"),
    [('"a"', "a string"), ("7", "a number"), ("7 * 2", "a number"), ("0", "0"), ("(0.0)", "0"), ("true", "a boolean"),
     ("x", "anything"), ("x == 1", "a boolean"), ("f(1)", "anything"), ("error", "anything")],
)  # fmt: skip
def test_a_part_is_described_by_its_kind(text: str, message: str) -> None:
    assert describe_type(parse(text)) == message


def is_error(text: str, my: str, target: str | None) -> bool:
    try:
        other = None if target is None else ClassAd.from_new(target)
        return parse(text).evaluate(ClassAd.from_new(my), other) is ERROR
    except EvaluationError:
        return True


@given(strategies.cases())
def test_a_reported_error_is_an_error_in_any_ads(case: strategies.Case) -> None:
    try:
        expression = parse(case.text)
    except ClassAdSyntaxError:  # like relTime("a"), which the reference does not parse either
        return
    if find_error(expression) is not None:
        assert is_error(case.text, case.my, case.target)


def test_no_recorded_expression_with_a_value_is_reported_as_an_error() -> None:
    faults = 0
    for case in corpus.cases("classad"):
        text = case["expr"]
        if find_error(corpus.parsed(text)) is not None:
            faults += 1
            assert case["value"]["type"] == "error", text
    assert faults
    assert [text for text in pools.POLICIES if find_error(parse(text))] == ["noSuchFunction(Cpus) > 1"]


# Calls ------------------------------------------------------------------------------------------

ARGUMENTS = ("1", '"a"', "{1}", "true", "0.5", "undefined")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_call_with_a_wrong_number_of_arguments_is_an_error_in_htcondor_too(name: str) -> None:
    function = FUNCTIONS[name]
    for count in range(7):
        is_wrong = not function.least <= count <= function.most
        for argument in ARGUMENTS if is_wrong else ("X",):
            call = f"{name}({', '.join([argument] * count)})"
            fault_found = find_error(parse(call))
            assert (fault_found is not None) is is_wrong, call
            if is_wrong:
                assert oracle.evaluate(call, "[]") == ("error",), call
                assert f"{name} takes " in explain_error(parse(call)), call


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("isDefined(X) && Y", "there is no function isDefined; write X isnt undefined"),
        ("isDefined()", "there is no function isDefined; write X isnt undefined"),
        ("stringlistmembr(X, Y)", "there is no function stringlistmembr; did you mean stringlistmember?"),
        ("nonsense(1)", "there is no function nonsense"),
        ('regexp("a")', 'regexp takes 2 to 3 arguments, but regexp("a") has 1'),
        ("ifThenElse(x, true)", "ifThenElse takes 3 arguments, but ifThenElse(x,true) has 2"),
        ("X > quantize(5)", "quantize takes 2 arguments, but quantize(5) has 1"),
        ("!(pow(1))", "pow takes 2 arguments, but pow(1) has 1"),
        ("isUndefined()", "isUndefined takes 1 argument, but isUndefined() has 0"),
    ],
)
def test_the_message_about_a_wrong_call_names_the_rule_and_the_fix(text: str, why: str) -> None:
    fault_found = find_error(parse(text))
    assert fault_found is not None
    assert explain_error(fault_found) == why
    assert oracle.evaluate(text, "[]") == ("error",)


@pytest.mark.parametrize(
    "text", ["X || pow(1)", "X is pow(1)", "isError(pow(1))", "X ?: pow(1)", "{pow(1)}", "strcat()"]
)
def test_a_wrong_call_that_may_not_decide_is_not_an_error_of_the_expression(text: str) -> None:
    assert find_error(parse(text)) is None


@pytest.mark.parametrize("operator", sorted(TRUTH_OPERATORS))
def test_a_truth_operator_yields_true_false_undefined_or_error_and_nothing_else(operator: str) -> None:
    values = (UNDEFINED, ERROR, True, False, 0, 1, -1.0, "", "a", AbsTime(1), RelTime(1.0))
    results = {str(BINARY[operator](left, right)) for left in values for right in values}
    assert results == {"True", "False", "undefined", "error"}
