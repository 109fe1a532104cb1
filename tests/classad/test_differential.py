"""Differential: random texts and ads, given to Poolbook and to classad2; the answers must be equal.

Every property is tested twice: with some hundred fixed examples, and as a soak with new ones each time,
POOLBOOK_SOAK_EXAMPLES (20000) of them for evaluation and a fifth of that for the others.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from ..sampling import soak_examples
from . import oracle
from .oracle import Answer
from .strategies import Case, cases, old_texts, pairs, texts

NESTED_AD = re.compile(r"\[\s*('[^']*'|\w+)\s*=[^=?!]|\[\s*\]")

Test = Callable[..., None]


def fixed(examples: int) -> Callable[[Test], Any]:
    """Use the same examples in every run."""
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


def soak(share: int = 1) -> Callable[[Test], Any]:
    """Use new examples in every run."""
    examples = settings(
        max_examples=soak_examples(share),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    return lambda test: pytest.mark.soak(examples(test))


def compare(reference: Answer, answer: Answer, **texts: str | None) -> None:
    if not oracle.same(reference, answer, *filter(None, texts.values())):
        lines = [f"{name + ':':11}{text}" for name, text in texts.items()]
        lines += [f"reference: {reference}", f"ours:      {answer}"]
        pytest.fail("\n".join(["the answers differ", *lines]), pytrace=False)


# Evaluation ------------------------------------------------------------------------------------


def check_evaluation(case: Case) -> None:
    compare(oracle.evaluate(*case), oracle.ours(*case), **case._asdict())


@fixed(150)
@given(cases())
def test_an_expression_evaluates_as_in_the_reference(case: Case) -> None:
    check_evaluation(case)


@soak()
@given(cases())
def test_many_expressions_evaluate_as_in_the_reference(case: Case) -> None:
    check_evaluation(case)


# Parsing and unparsing -------------------------------------------------------------------------


def compare_printed(reference: Answer, our_answer: Answer, text: str) -> None:
    """Compare, except for `5 .a`, which the reference writes `5.a`, and then cannot read."""
    reference, our_answer = (
        tuple(re.sub(r"(?<=\d) \.", ".", str(text)) for text in answer) for answer in (reference, our_answer)
    )
    compare(reference, our_answer, text=text)


def check_parsing(text: str) -> None:
    if oracle.is_whole(text):
        compare_printed(oracle.parsed(text), oracle.our_parsed(text), text)


@fixed(80)
@given(texts())
def test_a_text_is_rejected_or_unparses_as_by_the_reference(text: str) -> None:
    check_parsing(text)


@soak(5)
@given(texts())
def test_many_texts_are_rejected_or_unparse_as_by_the_reference(text: str) -> None:
    check_parsing(text)


# Ads in the old form ---------------------------------------------------------------------------


def check_old_ad(text: str) -> None:
    reference = oracle.old_ad(text)
    if reference != ("parse-error",):  # which Python sees if one of several ads is empty
        compare_printed(reference, oracle.our_old_ad(text), text)


@fixed(80)
@given(old_texts())
def test_an_ad_in_the_old_form_is_read_and_printed_as_by_the_reference(text: str) -> None:
    check_old_ad(text)


@soak(5)
@given(old_texts())
def test_many_ads_in_the_old_form_are_read_and_printed_as_by_the_reference(text: str) -> None:
    check_old_ad(text)


# Simplification --------------------------------------------------------------------------------


def check_simplification(case: Case) -> None:
    compare(oracle.evaluate(*case), oracle.ours(*case, simplified=True), **case._asdict())


@fixed(80)
@given(cases())
def test_a_simplified_expression_evaluates_like_the_original_in_the_reference(case: Case) -> None:
    check_simplification(case)


@soak(5)
@given(cases())
def test_many_simplified_expressions_evaluate_like_the_original_in_the_reference(case: Case) -> None:
    check_simplification(case)


# Matches ---------------------------------------------------------------------------------------


def check_match(pair: tuple[str, str]) -> None:
    reference, answer = oracle.match(*pair), oracle.our_match(*pair)
    if reference == ("fail",):
        reference = ("boolean", False)  # a failed evaluation does not match
    compare(reference, answer, left=pair[0], right=pair[1])


@fixed(80)
@given(pairs())
def test_two_ads_match_each_other_as_in_the_reference(pair: tuple[str, str]) -> None:
    check_match(pair)


@soak(5)
@given(pairs())
def test_many_pairs_of_ads_match_as_in_the_reference(pair: tuple[str, str]) -> None:
    check_match(pair)


# References ------------------------------------------------------------------------------------


def check_references(case: Case) -> None:
    # classad2 does not know which ad contains an ad in the expression, so all names of that ad would be external.
    if not NESTED_AD.search(case.text):
        reference = oracle.references(case.text, case.my)
        compare(reference, oracle.our_references(case.text, case.my), text=case.text, my=case.my)


@fixed(80)
@given(cases())
def test_an_expression_has_the_references_of_the_reference_library(case: Case) -> None:
    check_references(case)


@soak(5)
@given(cases())
def test_many_expressions_have_the_references_of_the_reference_library(case: Case) -> None:
    check_references(case)
