"""Golden, differential, property: the references of an expression, its simplification, and why it is not true."""

import re

import pytest
from hypothesis import assume, given, settings

from poolbook.domain.classad import (
    UNDEFINED,
    ClassAd,
    Context,
    EvaluationError,
    Expression,
    References,
    ValuedClause,
    explain,
    parse,
    unparse,
)

from ..together import together
from . import oracle
from .strategies import Case, cases

FIXED = settings(max_examples=80, derandomize=True, deadline=None, database=None)

# References -------------------------------------------------------------------------------------

# A text, an ad, and the names (separated by blanks) that belong to the ad and that do not.
REFERENCES = [
    ("5", "[a = 1]", "", ""),
    ("a + b", "[a = 1]", "a", "b"),
    ("A + a", "[a = 1]", "A", ""),
    ("b + a + c", "[]", "", "a b c"),
    ("Zz + b", "[Zz = 1; b = 2]", "b Zz", ""),
    # scopes
    ("MY.a", "[a = 1]", "a", ""),
    ("MY.b", "[a = 1]", "", "b"),
    ("TARGET.a", "[a = 1]", "", "TARGET.a"),
    ("target.x + TARGET.X", "[]", "", "target.x"),
    (".a", "[a = 1]", "a", ""),
    ("TARGET.Memory > Memory && Cpus >= TARGET.Cpus", "[Cpus = 1]", "Cpus", "Memory TARGET.Cpus TARGET.Memory"),
    # references of a referenced attribute count too
    ("a", "[a = b; b = c]", "a b", "c"),
    ("a", "[a = b + TARGET.Memory; b = 1]", "a b", "TARGET.Memory"),
    ("L", "[L = {p, q}]", "L", "p q"),
    # everywhere in an expression
    ("f(a, {b}, [c = d; e = c])", "[a = 1]", "a", "b c d"),
    ("a ?: b ? {c}[d] : !e", "[a = 1; b = 2]", "a b", "c d e"),
    ("N.x", "[N = [x = y; y = z]]", "N", "z"),
    ("N.q", "[N = [x = 1]]", "N", "q"),
    # but not in strings
    ('eval("a")', "[a = 1]", "", ""),
]


@together(("text", "ad", "internal", "external"), REFERENCES)
def test_the_references_of_an_expression_are_those_in_the_ad_and_all_others(
    text: str, ad: str, internal: str, external: str
) -> None:
    references = parse(text).references(ClassAd.from_new(ad))
    assert isinstance(references, References)
    assert references.internal == tuple(internal.split())
    assert references.external == tuple(external.split())


@together(("text", "ad", "internal", "external"), REFERENCES)
def test_the_reference_finds_the_same_names(text: str, ad: str, internal: str, external: str) -> None:
    if "[c = d" not in text:  # it does not know which ad contains an ad in the expression
        assert oracle.references(text, ad) == ("references", tuple(internal.split()), tuple(external.split()))


def test_without_an_ad_all_references_are_external() -> None:
    assert parse("a + MY.b + TARGET.c").references() == References((), ("a", "b", "TARGET.c"))


def test_references_to_the_parent_of_a_chained_ad_are_internal() -> None:
    proc = ClassAd({"b": parse("a + c")}, chained=ClassAd({"a": 1}))
    assert parse("b").references(proc) == References(("a", "b"), ("c",))


@pytest.mark.parametrize(("text", "ad"), [("C", "[C = C + 1]"), ("a.b.c", "[a = 1]"), ("x.a", "[x = 5]")])
def test_unresolvable_references_are_reported_by_an_exception_that_names_them(text: str, ad: str) -> None:
    assert oracle.references(text, ad) == ("fail",)
    with pytest.raises(EvaluationError, match=re.escape(text[0])):
        parse(text).references(ClassAd.from_new(ad))


def test_a_message_about_references_stays_short() -> None:
    with pytest.raises(EvaluationError) as error:
        parse("a" + ".b" * 100_000).references(ClassAd({"a": 1}))
    assert len(str(error.value)) < 500


# Simplification ---------------------------------------------------------------------------------


@together(
    ("text", "my", "remains"),
    [
        # known attributes are inserted, and constants are computed
        ("Cpus >= RequestCpus", "[RequestCpus = 2]", "Cpus >= 2"),
        ("Cpus >= MY.RequestCpus * 2", "[RequestCpus = 2]", "Cpus >= 4"),
        ("TARGET.Memory >= Need", "[Need = Base * 2; Base = 1024]", "TARGET.Memory >= 2048"),
        ("Owner == strcat(User, 1)", '[User = "bob"]', 'Owner == "bob1"'),
        ('regexp("^b", User)', '[User = "bob"]', "true"),
        ("a + 1 / 0", "[]", "a + error"),
        ("MY.a", "[]", "undefined"),
        ("C", "[C = C + 1]", "undefined"),
        # connectives drop operands that no longer matter
        ("a && b", "[a = false]", "false"),
        ("a || b > 1", "[a = false]", "b > 1"),
        ("a && b > 1 && c > 2", "[a = true]", "b > 1 && c > 2"),
        ("b > 1 && a", "[a = 5]", "b > 1"),
        ("a ? b : c", "[a = true]", "b"),
        ("a ? b : c", "[a = undefined]", "undefined"),
        ("a ? b : c", "[a = error]", "error"),
        ("a ? 1 : c", '[a = "none"]', '"none" ? 1 : c'),
        ("a ? 1 : 2", '[a = "none"]', "error"),
        ("ifThenElse(a, b, c)", "[a = 0]", "c"),
        ("a ?: b", "[a = undefined]", "b"),
        ("a ?: b", "[a = 1]", "1"),
        # parts that depend on more than the ad stay
        ("a", "[]", "a"),
        ("a ?: b", "[]", "a ?: b"),
        ("b && a", "[a = false]", "b && false"),
        ("TARGET.a", "[a = 1]", "TARGET.a"),
        ("a + 1", "[a = TARGET.b]", "a + 1"),
        ("time() > a", "[a = 5]", "time() > 5"),
        ("CurrentTime > a", "[a = 5]", "CurrentTime > 5"),
        ("own(a)", "[a = 1]", "own(1)"),
        ("userMap(M, User)", '[M = "m"]', 'userMap("m",User)'),
        ("debug(a)", "[a = 1]", "debug(a)"),
        ("getHours(absTime(0, 0)) + a", "[a = 1]", "getHours(absTime(0,0)) + 1"),
        ("{a, b}", "[a = 1]", "{ a,b }"),
        ("[x = a]", "[a = 1]", "[ x = a ]"),
        # parentheses are inserted where they are needed
        ("(b + a) * 2", "[a = 1]", "(b + 1) * 2"),
        ("b + (1 + a)", "[a = 3]", "b + 4"),
        ("2 * ifThenElse(a, b + c, d)", "[a = true]", "2 * (b + c)"),
        ("!ifThenElse(a, b || c, d)", "[a = true]", "!(b || c)"),
        ("ifThenElse(a, b ? c : d, e) ? f : g", "[a = true]", "(b ? c : d) ? f : g"),
        ("ifThenElse(a, b + c, d)[0]", "[a = true]", "(b + c)[0]"),
        ("u ?: ifThenElse(a, -b, d)", "[a = true]", "u ?: (-b)"),
    ],
)
def test_a_simplified_expression_is_what_remains_when_the_ad_is_known(text: str, my: str, remains: str) -> None:
    simplified = parse(text).simplify(ClassAd.from_new(my))
    assert unparse(simplified).replace("( ", "(") == remains


def outcome(case: Case, text: str) -> str:
    my, target = ClassAd.from_new(case.my), None if case.target is None else ClassAd.from_new(case.target)
    try:
        return unparse(parse(text).evaluate(my, target))
    except EvaluationError:
        return "fails"


@FIXED
@given(cases())
def test_a_simplified_expression_has_the_same_value_against_every_target(case: Case) -> None:
    my, target = ClassAd.from_new(case.my), None if case.target is None else ClassAd.from_new(case.target)
    try:
        value = unparse(parse(case.text).simplify(my).evaluate(my, target))
    except EvaluationError:
        value = "fails"
    assert value == outcome(case, case.text)


@FIXED
@given(cases())
def test_the_text_of_a_simplified_expression_has_its_value_too(case: Case) -> None:
    text = unparse(parse(case.text).simplify(ClassAd.from_new(case.my)))
    assume(oracle.parsed(text) != ("parse-error",))
    assume(not re.search(r"\dE[+-]\d|Time\(", text))  # texts of reals and times are not exact
    assert outcome(case, text) == outcome(case, case.text)


@pytest.mark.parametrize(
    "text", ["random(1000000) + a", "(a > 0 ? random() : 0) + random()", "{random(), random()}[a]"]
)
def test_a_simplified_expression_draws_the_same_random_numbers(text: str) -> None:
    ad = ClassAd({"a": 1})
    simplified = parse(text).simplify(ad)
    for seed in range(10):
        context = Context(seed=seed)
        assert simplified.evaluate(ad, context=context) == parse(text).evaluate(ad, context=context)


def test_simplifying_does_not_change_the_expression_or_the_ad() -> None:
    expression, ad = parse("a + b"), ClassAd({"a": 1})
    assert unparse(expression.simplify(ad)) == "1 + b"
    assert unparse(expression) == "a + b"
    assert unparse(ad) == "[ a = 1 ]"


def test_a_chain_of_any_length_is_simplified_without_changing_its_value() -> None:
    def chain(length: int) -> Expression:
        return parse(" + ".join(["a"] * length) + " + b").simplify(ClassAd({"a": 1}))

    assert unparse(chain(300)) == "300 + b"
    with pytest.raises(EvaluationError):  # as without simplification: it has more than 400 levels
        chain(100_000).evaluate(ClassAd({"a": 1, "b": 1}))


# Explanations -----------------------------------------------------------------------------------


@together(
    ("text", "my", "target", "clauses"),
    [
        ("a", "[a = 1]", "[]", ["a  is  1"]),
        ("a && b && c", "[a = true; b = false]", "[c = 2]", ["a  is  true", "b  is  false", "c  is  2"]),
        (
            "(a && (b && c)) && d",
            "[a = 1]",
            "[]",
            ["a  is  1", "b  is  undefined", "c  is  undefined", "d  is  undefined"],
        ),
        ("a && (b || c)", "[a = 1; c = 1]", "[]", ["a  is  1", "(b || c)  is  true"]),
        ("a || b && c", "[a = 1]", "[]", ["a || b && c  is  true"]),
        ("!(a && b)", "[a = 1; b = 1]", "[]", ["!(a && b)  is  false"]),
        (
            'TARGET.Cpus >= RequestCpus && (TARGET.Memory > 5) && Arch == "X86_64" && 1 / 0 > 1',
            "[RequestCpus = 2]",
            "[Cpus = 1; Memory = 9]",
            [
                "TARGET.Cpus >= RequestCpus  is  false",
                "(TARGET.Memory > 5)  is  true",
                'Arch == "X86_64"  is  undefined',
                "1 / 0 > 1  is  error",
            ],
        ),
    ],
)
def test_an_explanation_has_the_clauses_of_a_conjunction_with_their_values(
    text: str, my: str, target: str, clauses: list[str]
) -> None:
    explanation = explain(parse(text), ClassAd.from_new(my), ClassAd.from_new(target))
    assert [str(clause) for clause in explanation] == clauses


def test_a_clause_is_an_expression_and_its_value() -> None:
    first, second = explain(parse("Cpus > 2 && Nope"), ClassAd({"Cpus": 4}))
    assert isinstance(first, ValuedClause)
    assert (first.expression, first.value) == (parse("Cpus > 2"), True)
    assert second.expression == parse("Nope")
    assert second.value is UNDEFINED


def test_an_explanation_uses_the_context_of_the_evaluation() -> None:
    (clause, _) = explain(parse("time() - Since > 60 && true"), ClassAd({"Since": 0}), context=Context(now=61))
    assert clause.value is True
    with pytest.raises(EvaluationError, match=r"Context\(now="):
        explain(parse("time() > 60"))


def test_a_conjunction_of_any_length_is_explained_although_it_does_not_evaluate() -> None:
    expression = parse(" && ".join(f"a{n}" for n in range(1_000)))
    with pytest.raises(EvaluationError):
        expression.evaluate(ClassAd({"a": 1}))
    assert [unparse(clause.expression) for clause in explain(expression)] == [f"a{n}" for n in range(1_000)]
