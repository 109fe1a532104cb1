"""Golden: every walk over expressions is linear in their text, or ends when its budget is used up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolbook.domain.classad import (
    ClassAd,
    Context,
    EvaluationError,
    explain,
    next_change,
    parse,
    scalar,
    symmetric_match,
    unparse,
)
from poolbook.domain.classad.environment import MAX_STEPS
from poolbook.domain.classad.table import SlotTable
from poolbook.domain.classad.value_evidence import MAX_EVIDENCE, evidence_text, is_cut, values_read
from poolbook.domain.requests.autoclusters import _names_in

from . import oracle
from .explosions import BACK, SHAPES, doubling, within_calls

CONTEXT = Context(now=1_700_000_000, seed=1)
MOST_CALLS = 2_500_000
"""What takes about half a second."""


def ad_of(texts: dict[str, str]) -> ClassAd:
    return ClassAd({name: parse(text) for name, text in texts.items()})


SLOT = ad_of({"Cpus": "4", "Machine": '"h"', "Requirements": "TARGET.E40 isnt 0", **BACK})
SLOTS = [ad_of({"Cpus": str(n), "Machine": f'"h{n}"', "Requirements": "true", **BACK}) for n in range(8)]
ASKED = parse("E40 =?= 7")

WALKS: dict[str, Callable[[ClassAd], object]] = {
    "evaluation": lambda job: ASKED.evaluate(job, SLOT, CONTEXT),
    "evaluation without a slot": lambda job: ASKED.evaluate(job, None, CONTEXT),
    "evaluation from the slot": lambda job: SLOT.eval("Requirements", job, CONTEXT),
    "a value as text": lambda job: len(unparse(job.eval("E40", SLOT, CONTEXT))) < 20_000_000,
    "a value as a string": lambda job: parse("size(string(E40))").evaluate(job, SLOT, CONTEXT),
    "an indented text": lambda job: parse("size(unparse(E40))").evaluate(job, SLOT, CONTEXT),
    "eval of a value": lambda job: parse("eval(E40)").evaluate(job, SLOT, CONTEXT),
    "a pattern in a value": lambda job: parse('regexp("(x+x+)+y", string(E40))').evaluate(job, SLOT, CONTEXT),
    "references": lambda job: ASKED.references(job),
    "unresolved references": lambda job: parse("unresolved(E40)").evaluate(job, SLOT, CONTEXT),
    "simplification": lambda job: ASKED.simplify(job),
    "the next change": lambda job: next_change(ASKED, job, None, CONTEXT),
    "the next change with a slot": lambda job: next_change(ASKED, job, SLOT, CONTEXT),
    "a match": lambda job: symmetric_match(job, SLOT, CONTEXT),
    "a match with many slots": lambda job: SlotTable(SLOTS, context=CONTEXT).matches(job),
    "the slots that a clause leaves": lambda job: SlotTable(SLOTS, context=CONTEXT).plan(job).count_by_clause(),
    "clauses": lambda job: explain(job["Requirements"], job, SLOT, CONTEXT),
    "evidence": lambda job: values_read(job["Requirements"], job, SLOT, CONTEXT),
    "names of an autocluster": lambda job: list(_names_in(unparse(job["E40"]))),
    "printing": lambda job: (job.to_old(), job.to_new(), job.to_json()),
}


OVERDRAWN = (
    *("contexts", "contexts in contexts", "ads in lists", "sums of random numbers", "two circular ways"),
    *("regular expressions", "replacements", "wide sums", "wide conditions", "strings of a slot's attribute"),
    "joined strings",
)
"""The shapes that use the whole budget, in most walks."""


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=[pytest.mark.soak] * (shape in OVERDRAWN)) for shape in SHAPES]
)
def test_no_walk_takes_longer_than_its_budget(shape: str) -> None:
    for name, walk in WALKS.items():
        job = ad_of({**SHAPES[shape], "Requirements": "E40 =?= 7 && TARGET.Cpus > 0"})

        def walked(walk: Callable[[ClassAd], object] = walk, job: ClassAd = job) -> None:
            with suppress(EvaluationError):
                walk(job)

        try:
            within_calls(MOST_CALLS, walked)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


@pytest.mark.parametrize("walk", ["START", "Requirements"])
def test_slot_attributes_that_read_each_other_twice_are_inlined_a_thousand_times_at_most(walk: str) -> None:
    slots = [
        ad_of({"Cpus": str(n), "Requirements": walk, "START": "E18", **doubling(18, "TARGET.Go", "@ && @")})
        for n in range(3)
    ]
    table, job = SlotTable(slots, context=CONTEXT), ad_of({"Go": "true", "Requirements": "true"})
    assert within_calls(MOST_CALLS, lambda: table.matches(job)).tolist() == [
        symmetric_match(job, slot, CONTEXT) for slot in slots
    ]


# Expressions that HTCondor evaluates, within its own ten million steps.
EVALUATED = [
    ("1", "@ + @", 20, "E20"),
    ("1", "@ + @", 21, "E21"),
    ('"x"', "strcat(@, @)", 21, "size(E21)"),
    ("true", "@ ? @ : @", 21, "E21"),
    ("1", "max({@, @})", 20, "E20"),
    ("[x = 1]", "[x = @.x + @.x]", 20, "E20.x"),
    ("{1, 1}", "{@[0] + @[1], @[0] + @[1]}", 18, "E18[0]"),
    ("1", 'eval("@ + @")', 10, "E10"),
    ("E16", "@ ?: @", 16, "E16"),
    ("E12", "(@ is undefined) ? 1 : @ + @", 12, "E12"),
    ("2", "ifThenElse(@ > 1, @ * @ % 1000003, @)", 12, "E12"),
    *(("E12", "((@ ?: 1) + (@ ?: 2)) % 1000", levels, f"E{levels - 1} + E{levels}") for levels in (9, 10, 11, 12)),
    ("{1, 2}", "{[x = @], [x = @]}.x", 8, "string(E8)"),
    ("1", "countMatches(@ > 0, {[], []}) + countMatches(@, {[]})", 6, "E6"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "form", "levels", "query_text"), EVALUATED)
def test_expressions_that_htcondor_evaluates_have_the_same_value(
    first: str, form: str, levels: int, query_text: str
) -> None:
    ad = f"[{'; '.join(f'{name} = {text}' for name, text in doubling(levels, first, form).items())}]"
    assert oracle.ours(query_text, ad) == oracle.evaluate(query_text, ad)


@pytest.mark.parametrize("first", ["random(10)", "E12"])
def test_random_values_are_not_cached(first: str) -> None:
    """Each random number is a new one, whether or not an evaluation is long enough to cache values."""
    long = ad_of({**doubling(12, first, "@ + @"), "Sum": "E12", "Often": f"sum({{{', '.join(['E3'] * 600)}}})"})
    if first == "random(10)":
        draws = [parse("E0").evaluate(long, None, Context(seed=seed)) for seed in range(9)]
        assert len(set(draws)) > 1
        often = [parse(name).evaluate(long, None, CONTEXT) for name in ("Often", "E3")]
        assert isinstance(often[0], int) and isinstance(often[1], int)
        assert often[0] != 600 * often[1]
    else:
        assert unparse(parse("Sum").evaluate(long, None, CONTEXT)) == "undefined"


def test_an_evaluation_that_exceeds_its_budget_fails_alone() -> None:
    ad = ad_of({**SHAPES["sums of random numbers"], "Cpus": "4"})
    with pytest.raises(EvaluationError, match=f"takes more than {MAX_STEPS:,} steps"):
        parse("E40").evaluate(ad, None, CONTEXT)
    assert parse("Cpus").evaluate(ad, None, CONTEXT) == 4


@pytest.mark.parametrize(
    ("value", "cut", "length"),
    [("x" * 10, False, 12), ("x" * (MAX_EVIDENCE - 2), False, MAX_EVIDENCE), ("x" * 2_000_000, True, 1034)],
)
def test_evidence_has_the_start_of_a_long_value(value: str, cut: bool, length: int) -> None:
    assert (is_cut(evidence_text(value)), len(evidence_text(value))) == (cut, length)


# Cached values ----------------------------------------------------------------------------------

NAMES = [f"E{n}" for n in range(5)]
PARTS = st.recursive(
    st.sampled_from([*NAMES, *NAMES, "TARGET.E0", "TARGET.E1", "MY.E2", "1", '"x"', "undefined"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "?:", "==", "&&", "is"]), inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} ? {p[1]} : {p[2]})"),
        st.tuples(inner, inner).map(lambda p: f"max({{{p[0]}, {p[1]}}})"),
        st.tuples(inner, inner).map(lambda p: f"{{{p[0]}, {p[1]}}}[0]"),
        st.tuples(inner, inner).map(lambda p: f"[x = {p[0]}; y = {p[1]} + x].y"),
        st.tuples(inner, inner).map(lambda p: f"strcat({p[0]}, {p[1]})"),
        inner.map(lambda p: f"isUndefined({p})"),
    ),
    max_leaves=4,
)
ADS = st.fixed_dictionaries(dict.fromkeys(NAMES, PARTS))


@given(my=ADS, target=ADS)
def test_cached_values_equal_those_evaluated_again(my: dict[str, str], target: dict[str, str]) -> None:
    """This includes circular references and another ad, in any order of the names, and from any step on."""
    texts = [f"[{'; '.join(f'{name} = {text}' for name, text in ad.items())}]" for ad in (my, target)]
    list_text = f"{{{', '.join(NAMES)}}}"
    defaults = ", ".join(f"string({name} ?: 0)" for name in NAMES)
    call_text = f"strcat(string({' ?: '.join(NAMES)}), size({list_text}), {defaults})"
    answers = []
    for below in (-1, MAX_STEPS + 1, MAX_STEPS - 30, MAX_STEPS - 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scalar, "CACHES_BELOW", below)
            answers.append(oracle.ours(call_text, *texts))
    assert answers == [answers[0]] * len(answers)
    assert answers[0] == oracle.evaluate(call_text, *texts)
