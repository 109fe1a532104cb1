"""Golden: the recorded answers of the reference, from tests/data/classad, one test for each feature."""

from collections.abc import Callable
from typing import Any

import pytest

from poolbook.domain.classad import ClassAd, ClassAdSyntaxError, parse, symmetric_match, unparse
from poolbook.domain.classad.columns import CellType
from poolbook.domain.classad.table import Cells, SlotTable
from poolbook.domain.classad.unparse import unparse_pretty

from . import corpus
from .corpus import Case

SHOWN = 5

EVALUATIONS = corpus.cases("classad")
PARSES = corpus.cases("parse")

FEATURES = sorted({case["feature"] for case in EVALUATIONS})
KINDS = ["expr", "new", "old"]


def report(disagreements: list[str], cases: int) -> None:
    """Fail if there are disagreements, showing the first few."""
    if disagreements:
        first_disagreements = disagreements[:SHOWN]
        heading = f"{len(disagreements)} of {cases} cases disagree with the reference"
        pytest.fail("\n\n".join([heading, *first_disagreements]), pytrace=False)


def describe_case(case: Case, **facts: Any) -> str:
    """Describe one disagreement, a line for each fact."""
    return "\n".join([case["id"], *(f"  {name + ':':8}{fact}" for name, fact in facts.items())])


# Evaluation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", FEATURES)
def test_every_case_of_a_feature_evaluates_as_in_the_reference(feature: str) -> None:
    chosen_cases = [case for case in EVALUATIONS if case["feature"] == feature]
    disagreements = []
    for case in chosen_cases:
        text, expected = case["expr"], case["value"]
        actual = corpus.evaluated(text, corpus.ad(case["my"]), corpus.ad(case["target"]))
        inexact = corpus.is_inexact(text, *case["my"].values(), *case["target"].values())
        if not corpus.same(expected, actual, inexact):
            disagreements.append(
                describe_case(case, expr=text, MY=case["my"], TARGET=case["target"], wanted=expected, got=actual)
            )
    report(disagreements, len(chosen_cases))


def test_the_corpus_has_6000_evaluations() -> None:
    assert len(EVALUATIONS) == 6000


# Parsing and printing --------------------------------------------------------------------------


def poolbook_answers(kind: str, text: str) -> dict[str, Any]:
    """Return Poolbook's answers to the questions that the corpus answers about a text."""
    try:
        if kind == "expr":
            expression = parse(text)
            return {"repr": unparse(expression), "str": unparse_pretty(expression)}
        ad = ClassAd.from_new(text) if kind == "new" else ClassAd.from_old(text)
    except ClassAdSyntaxError:
        return {"error": "ClassAdException"}
    attributes = {"attrs": {name: unparse(value) for name, value in ad.items()}}
    return attributes if kind == "new" else attributes | {"old": ad.to_old()}


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_of_a_kind_is_rejected_or_printed_as_by_the_reference(kind: str) -> None:
    chosen_cases = [case for case in PARSES if case["kind"] == kind]
    disagreements = []
    for case in chosen_cases:
        expected = {name: fact for name, fact in case.items() if name not in ("id", "kind", "text")}
        actual = poolbook_answers(kind, case["text"])
        if actual != expected:
            disagreements.append(describe_case(case, text=repr(case["text"]), wanted=expected, got=actual))
    report(disagreements, len(chosen_cases))


def test_the_corpus_has_1500_texts_of_these_kinds() -> None:
    assert len([case for case in PARSES if case["kind"] in KINDS]) == len(PARSES) == 1500


# Matches, ad by ad -----------------------------------------------------------------------------


def test_the_corpus_has_300_jobs_with_20_slots_each() -> None:
    assert [len(group.slots) for group in corpus.groups()] == [20] * 300


@pytest.mark.parametrize("value", ["job_requirements", "slot_requirements", "job_rank", "slot_rank"])
def test_requirements_and_rank_of_job_and_slot_are_as_in_the_reference(value: str) -> None:
    side, _, attribute = value.partition("_")
    disagreements = []
    for group in corpus.groups():
        for place, (slot, expected) in enumerate(zip(group.slots, group.expected(value), strict=True)):
            my, target = (group.job, slot) if side == "job" else (slot, group.job)
            actual = corpus.answer(my.eval(attribute, target))
            if not corpus.same(expected, actual, inexact=True):
                disagreements.append(
                    describe_case(group.case, slot=place, text=my.get(attribute), wanted=expected, got=actual)
                )
    report(disagreements, 20 * len(corpus.groups()))


def test_a_job_and_a_slot_match_as_in_the_reference() -> None:
    disagreements = []
    for group in corpus.groups():
        expected = group.expected("match")
        actual = [symmetric_match(group.job, slot) for slot in group.slots]
        if actual != expected:
            disagreements.append(
                describe_case(group.case, job=group.job.get("Requirements"), wanted=expected, got=actual)
            )
    report(disagreements, len(corpus.groups()))


# Matches by tables -----------------------------------------------------------------------------


def answers(cells: Cells) -> list[dict[str, Any]]:
    """Return cells in the corpus's form."""
    plain_types: dict[int, Callable[[Any], Any]] = {CellType.BOOLEAN: bool, CellType.INTEGER: int, CellType.REAL: float}
    pairs = zip(cells.values.tolist(), cells.kinds.tolist(), strict=True)
    return [corpus.answer(plain_types[kind](value) if kind in plain_types else value) for value, kind in pairs]


def agree(expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> bool:
    return all(
        corpus.same(expected_counts, right, inexact=True)
        for expected_counts, right in zip(expected, actual, strict=True)
    )


def test_a_table_matches_as_in_the_reference() -> None:
    disagreements = []
    for group in corpus.groups():
        expected, actual = group.expected("match"), SlotTable(group.slots).matches(group.job).tolist()
        if actual != expected:
            disagreements.append(
                describe_case(group.case, job=group.job.get("Requirements"), wanted=expected, got=actual)
            )
    report(disagreements, len(corpus.groups()))


def test_a_tables_rank_is_as_in_the_reference_and_0_if_that_is_not_a_number() -> None:
    numbers = ("boolean", "integer", "real")
    disagreements = []
    for group in corpus.groups():
        ranks = group.expected("job_rank")
        expected = [corpus.answer(float(rank["value"]) if rank["type"] in numbers else 0.0) for rank in ranks]
        actual = [corpus.answer(rank) for rank in SlotTable(group.slots).rank(group.job).tolist()]
        if not agree(expected, actual):
            disagreements.append(describe_case(group.case, rank=group.job.get("Rank"), wanted=expected, got=actual))
    report(disagreements, len(corpus.groups()))


def test_a_table_evaluates_the_jobs_requirements_as_in_the_reference() -> None:
    chosen_groups = [group for group in corpus.groups() if "Requirements" in group.job]
    disagreements = []
    for group in chosen_groups:
        expected = group.expected("job_requirements")
        actual = answers(SlotTable(group.slots).evaluate(group.job["Requirements"], group.job))
        if not agree(expected, actual):
            disagreements.append(describe_case(group.case, job=group.job["Requirements"], wanted=expected, got=actual))
    report(disagreements, len(chosen_groups))


def test_a_table_evaluates_the_slots_requirements_as_in_the_reference() -> None:
    requirements = parse("TARGET.Requirements")
    disagreements = []
    for group in corpus.groups():
        expected = group.expected("slot_requirements")
        actual = answers(SlotTable(group.slots).evaluate(requirements, group.job))
        if not agree(expected, actual):
            disagreements.append(describe_case(group.case, wanted=expected, got=actual))
    report(disagreements, len(corpus.groups()))
