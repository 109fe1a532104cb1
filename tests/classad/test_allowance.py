"""Golden: the evaluations for one user's jobs together take no more than one evaluation may; others are unaffected."""

from __future__ import annotations

from contextlib import suppress

import pytest

from poolbook.domain.classad import ClassAd, Context, EvaluationError, next_change, parse
from poolbook.domain.classad.allowance import Allowance
from poolbook.domain.classad.table import SlotTable

from .explosions import FORMS, SHAPES, doubling, within_calls

MOST_CALLS = 5_000_000
JOBS = 40
HEAVY = doubling(4, *FORMS["contexts"])
VALUE = parse("E4").evaluate(ClassAd({name: parse(text) for name, text in HEAVY.items()}))


def job(owner: str, texts: dict[str, str]) -> ClassAd:
    ad = ClassAd({name: parse(text) for name, text in texts.items()})
    ad["Owner"] = owner
    return ad


def context() -> Context:
    return Context(now=1_700_000_000, seed=1, allowance=Allowance())


@pytest.mark.parametrize(
    "shape", ["contexts", "sums of random numbers", pytest.param("regular expressions", marks=pytest.mark.soak)]
)
def test_many_jobs_of_one_user_take_as_long_as_one_evaluation_may(shape: str) -> None:
    evaluation_context = context()
    jobs = [job("alice", {**SHAPES[shape], "Number": str(number)}) for number in range(JOBS)]

    def walk() -> None:
        for ad in jobs:
            with suppress(EvaluationError):
                parse("E40 =?= Number").evaluate(ad, None, evaluation_context)
            with suppress(EvaluationError):
                next_change(parse("E40 =?= Number && time() > 5"), ad, None, evaluation_context)

    within_calls(MOST_CALLS, walk)


@pytest.mark.parametrize("shape", ["contexts", pytest.param("strings of a slot's attribute", marks=pytest.mark.soak)])
def test_matches_of_many_jobs_of_one_user_take_as_long_as_one_evaluation_may(shape: str) -> None:
    slots = [
        ClassAd({"Cpus": parse(str(n)), "Machine": parse(f'"h{n}"'), "Requirements": parse("true")}) for n in (1, 2)
    ]
    table = SlotTable(slots, context=context())
    jobs = [job("alice", {**SHAPES[shape], "Requirements": f"E40 =?= {n}", "Rank": "E40"}) for n in range(JOBS)]

    def walk() -> None:
        for ad in jobs:
            table.matches(ad)
            table.rank(ad)

    within_calls(3 * MOST_CALLS, walk)


def test_evaluations_for_another_user_are_unaffected() -> None:
    evaluation_context = context()
    for _ in range(3):
        with suppress(EvaluationError):
            parse("E40").evaluate(job("alice", SHAPES["contexts"]), None, evaluation_context)
    with pytest.raises(EvaluationError):
        parse("E4").evaluate(job("alice", HEAVY), None, evaluation_context)
    assert parse("1 + 1").evaluate(job("alice", {}), None, evaluation_context) == 2
    assert parse("E4").evaluate(job("bob", HEAVY), None, evaluation_context) == VALUE


def test_a_slots_expression_about_a_job_is_charged_to_the_jobs_owner() -> None:
    evaluation_context, slot = context(), ClassAd({"Start": parse("TARGET.E40 =?= 3")})
    jobs = [job("alice", {**SHAPES["contexts"], "Number": str(number)}) for number in range(JOBS)]

    def walk() -> None:
        for ad in jobs:
            with suppress(EvaluationError):
                parse("Start").evaluate(slot, ad, evaluation_context)

    within_calls(MOST_CALLS, walk)


def test_a_command_on_others_jobs_is_charged_to_its_own_user() -> None:
    allowance = Allowance()
    evaluation_context = Context(now=1, seed=1, allowance=allowance)
    other_attributes = {
        name.replace("E", "F"): text.replace("E0", "F0").replace("(E", "(F") for name, text in HEAVY.items()
    }
    hers = job("alice", {**SHAPES["contexts"], **other_attributes})
    allowance.set_payer(1, "bob")
    with suppress(EvaluationError):
        parse("E40").evaluate(hers, None, evaluation_context)
    allowance.set_payer(1, "")
    assert parse("F4").evaluate(hers, None, evaluation_context) == VALUE


def test_users_have_their_full_allowance_again_at_the_next_time() -> None:
    allowance, heavy = Allowance(), job("alice", HEAVY)
    for instant in (1, 2):
        evaluation_context = Context(now=1, seed=1, allowance=allowance.set_payer(instant, ""))
        assert parse("E4").evaluate(heavy, None, evaluation_context) == VALUE
        with suppress(EvaluationError):
            parse("E40").evaluate(job("alice", SHAPES["contexts"]), None, evaluation_context)
