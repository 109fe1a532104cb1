"""Property and differential: what a table says of all its slots is what the scalar evaluation says of each ad.

The first part are examples; in the second, hypothesis writes the pools (`pools.py`). Each property stands there twice:
with fixed examples, and as a soak with new ones each time, a quarter or an eighth of POOLBOOK_SOAK_EXAMPLES (20000).
"""

import math
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from poolbook.domain.classad import (
    DEFAULT,
    ERROR,
    UNDEFINED,
    AbsTime,
    ClassAd,
    ClassAdSyntaxError,
    Context,
    ContextError,
    EvaluationError,
    Expression,
    Kind,
    ListValue,
    RelTime,
    SlotTable,
    parse,
    symmetric_match,
    unparse,
)
from poolbook.domain.classad.analysis import clauses
from poolbook.domain.classad.match import accepts
from poolbook.domain.classad.tree import Literal

from ..together import together
from . import corpus, pools
from .pools import Pool, Step
from .strategies import FUNCTIONS

SOAK_EXAMPLES = int(os.environ.get("POOLBOOK_SOAK_EXAMPLES", "20000"))

# A world in which time(), random() and a function of the embedder's own have values.
WORLD = Context(
    now=1_700_000_000,
    timezone=ZoneInfo("America/Chicago"),
    seed=7,
    functions={"noSuchFunction": lambda *arguments: len(arguments) + 1},
)

KIND_OF = {bool: Kind.BOOLEAN, int: Kind.INTEGER, float: Kind.REAL, str: Kind.STRING}

Known = tuple[object, ...]


def known(value: Any) -> Known:
    """A value in a form that is equal where type and value are: NaN to NaN, 0.0 not to -0.0."""
    if value is UNDEFINED or value is ERROR:
        return (str(value),)
    match value:
        case float():
            return ("real", repr(value))
        case bool() | int() | str():
            return (type(value).__name__, value)
        case AbsTime():
            return ("abstime", value.seconds, value.offset)
        case RelTime():
            return ("reltime", repr(value.seconds))
        case ListValue():
            members = (known(e.value) if isinstance(e, Literal) else unparse(e) for e in value.expressions)
            return ("list", *members)
        case ClassAd():
            return ("classad", unparse(value))
    return ("a foreign value", type(value).__name__, repr(value))


def kind_of(value: Any) -> Kind:
    if value is UNDEFINED:
        return Kind.UNDEFINED
    return Kind.ERROR if value is ERROR else KIND_OF.get(type(value), Kind.OTHER)


FAILED: Known = ("an EvaluationError",)
LACKING: Known = ("a ContextError",)


def scalar(expression: Expression, job: ClassAd, slot: ClassAd, context: Context) -> Any:
    """The value, or the EvaluationError."""
    try:
        return expression.evaluate(job, slot, context)
    except EvaluationError as problem:
        return problem


LONGEST = 5000


def differ(what: str, slots: Sequence[ClassAd], job: ClassAd, wanted: Sequence[Any], got: Sequence[Any]) -> None:
    """Fail, showing the first slot of which table and scalar evaluation say different things."""
    place = next(place for place, pair in enumerate(zip(wanted, got, strict=True)) if pair[0] != pair[1])
    facts = {
        "of": what,
        "job": unparse(job),
        f"slot {place}": unparse(slots[place]),
        "scalar": wanted[place],
        "table": got[place],
        "slots": "".join(f"\n  {unparse(slot)}" for slot in slots),
    }
    lines = [f"{name + ':':9}{fact}"[:LONGEST] for name, fact in facts.items()]
    pytest.fail("\n".join(["the table differs from the scalar evaluation", *lines]), pytrace=False)


# What is compared ------------------------------------------------------------------------------


def check_evaluation(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd, expression: Expression) -> None:
    values = [scalar(expression, job, slot, table.context) for slot in slots]
    wanted = [FAILED if isinstance(value, EvaluationError) else known(value) for value in values]
    try:
        cells = table.evaluate(expression, job)
    except EvaluationError:
        if FAILED not in wanted:
            differ(str(expression), slots, job, wanted, [FAILED] * len(wanted))
        return
    assert len(cells.values) == len(cells.kinds) == len(slots)
    plain: dict[int, Callable[[Any], Any]] = {Kind.BOOLEAN: bool, Kind.INTEGER: int, Kind.REAL: float}
    pairs = zip(cells.values.tolist(), cells.kinds.tolist(), strict=True)
    # Where all cells are undefined, or all are errors, the kinds alone say so.
    exceptional: dict[int, Any] = {Kind.UNDEFINED: UNDEFINED, Kind.ERROR: ERROR}
    got = [known(exceptional.get(kind, plain.get(kind, lambda same: same)(value))) for value, kind in pairs]
    if got != wanted:
        differ(str(expression), slots, job, wanted, got)
    assert cells.kinds.tolist() == [kind_of(value) for value in values]


def result_of(ask: Callable[[], Any]) -> Any:
    """What is answered, or LACKING where the context lacks what was asked for."""
    try:
        return ask()
    except ContextError:
        return LACKING


def compare(what: str, slots: Sequence[ClassAd], job: ClassAd, wanted: list[Any], got: Any) -> None:
    """A table as a whole lacks what an evaluation for one of its slots lacks."""
    if got is LACKING:
        if LACKING not in wanted:
            differ(what, slots, job, wanted, [LACKING] * len(wanted))
    elif got != wanted:
        differ(what, slots, job, wanted, got)


def check_matches(
    table: SlotTable, slots: Sequence[ClassAd], job: ClassAd, ask: Callable[[], Any] | None = None
) -> None:
    """Compare ``table.matches(job)``; or what a plan that was kept answers."""
    wanted = [result_of(partial(symmetric_match, job, slot, table.context)) for slot in slots]
    got = result_of(ask or (lambda: table.matches(job)))
    if got is not LACKING:
        assert got.dtype == np.bool_
        assert len(got) == len(slots)
        got = got.tolist()
        # What cannot match for other reasons need not ask the context.
        wanted = [False if each is LACKING and not own else each for each, own in zip(wanted, got, strict=True)]
    compare("matches, by a kept plan" if ask else "matches", slots, job, wanted, got)


def check_rank(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd) -> None:
    wanted: list[Known] = []
    for slot in slots:
        value = scalar(job["Rank"], job, slot, table.context) if "Rank" in job else UNDEFINED
        number = float(value) if isinstance(value, bool | int | float) else 0.0
        wanted.append(LACKING if isinstance(value, ContextError) else known(number))
    got = result_of(lambda: table.rank(job))
    if got is not LACKING:
        assert got.dtype == np.float64
        assert len(got) == len(slots)
        assert [known(rank) for rank in table.rank(job, np.arange(len(slots))[::2]).tolist()] == [
            known(rank) for rank in got[::2].tolist()
        ]
        got = [known(rank) for rank in got.tolist()]
    compare("rank", slots, job, wanted, got)


def check_clauses(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd) -> None:
    parts = clauses(job["Requirements"]) if "Requirements" in job else []
    left = [True] * len(slots)
    wanted: list[Any] = []
    for clause in parts:
        values = [scalar(clause, job, slot, table.context) for slot in slots]
        if any(isinstance(value, ContextError) for value in values):
            wanted = [LACKING] * len(parts)
            break
        matched = [accepts(value) for value in values]
        left = [before and now for before, now in zip(left, matched, strict=True)]
        wanted.append((str(clause), sum(matched), sum(left)))
    got = result_of(lambda: [(str(clause), *counts) for clause, *counts in table.count_by_clause(job)])
    if got is LACKING:
        got = [LACKING] * len(parts)
    if got != wanted:
        facts = {"job": unparse(job), "scalar": wanted, "table": got, "slots": "".join(f"\n{slot}" for slot in slots)}
        lines = [f"{name + ':':9}{fact}"[:LONGEST] for name, fact in facts.items()]
        pytest.fail("\n".join(["count_by_clause differs from the scalar evaluation", *lines]), pytrace=False)


def check_ads(table: SlotTable, slots: Sequence[ClassAd]) -> None:
    assert len(table) == len(slots)
    for place, slot in enumerate(slots):
        ad = table.ad(place)
        got, wanted = texts_of(ad), texts_of(slot)
        assert got == wanted, f"slot {place}"
        assert ad == slot


def texts_of(ad: ClassAd) -> dict[str, Any]:
    """An ad's attributes, plain values as such: a text of a real does not have all of its digits."""
    return {
        name.lower(): known(value.value) if isinstance(value, Literal) else unparse(value) for name, value in ad.items()
    }


def check_all(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd, texts: Sequence[str]) -> None:
    for text in texts:
        check_evaluation(table, slots, job, pools.expression(text))
    check_matches(table, slots, job)
    check_rank(table, slots, job)
    check_clauses(table, slots, job)
    check_ads(table, slots)


# Examples: matches and ranks --------------------------------------------------------------------


def table_of(*texts: str) -> SlotTable:
    return SlotTable(map(ClassAd.from_new, texts))


def values_of(table: SlotTable, text: str, job: ClassAd | None = None) -> list[Any]:
    """The values as the scalar evaluation gives them, undefined and error as such."""
    cells = table.evaluate(parse(text), job)
    exceptional: dict[int, Any] = {Kind.UNDEFINED: UNDEFINED, Kind.ERROR: ERROR}
    return [exceptional.get(k, v) for v, k in zip(cells.values.tolist(), cells.kinds.tolist(), strict=True)]


WILLING = ClassAd({"Requirements": True})


def test_a_job_without_requirements_matches_nothing() -> None:
    table = table_of("[Requirements = true]", "[Requirements = 1; Cpus = 4]")
    assert table.matches(ClassAd({"Cpus": 1})).tolist() == [False, False]


def test_a_slot_without_requirements_matches_nothing() -> None:
    table = table_of("[Cpus = 4]", "[Requirements = true]", "[]")
    assert table.matches(WILLING).tolist() == [False, True, False]


def test_no_slot_with_requirements_is_no_match() -> None:
    assert table_of("[Cpus = 4]", "[Cpus = 8]").matches(WILLING).tolist() == [False, False]


@together(
    ("text", "accepted"),
    [
        *(("true", True), ("1", True), ("-1", True), ("0.5", True), ("9223372036854775807", True)),
        *(("false", False), ("0", False), ("0.0", False), ("-0.0", False), ('"true"', False), ('"1"', False)),
        *(("undefined", False), ("error", False), ("{true}", False), ("[a = true]", False), ("1/0", False)),
        *(("relTime(60)", False), ("absTime(60)", False), ("random(0)", False), ("Nope", False), ("MY.Yes", True)),
    ],
)
def test_only_true_and_numbers_that_are_not_0_are_a_yes(text: str, accepted: bool) -> None:
    asking = ClassAd({"Requirements": parse(text), "Yes": True})
    others = [asking, WILLING, ClassAd({"Requirements": False})]
    assert SlotTable(others, context=WORLD).matches(WILLING).tolist() == [accepted, True, False]
    assert SlotTable([WILLING, WILLING], context=WORLD).matches(asking).tolist() == [accepted] * 2
    for slots in (others, [asking], [asking, asking]):
        check_matches(SlotTable(slots, context=WORLD), slots, WILLING)


def test_slots_whose_requirements_differ_are_each_asked_their_own() -> None:
    table = table_of(
        "[Cpus = 1; Requirements = TARGET.RequestCpus <= MY.Cpus]",
        '[Cpus = 4; Requirements = TARGET.Owner == "ALICE"]',
        "[Cpus = 4; Requirements = TARGET.RequestCpus <= MY.Cpus]",
        "[Cpus = 8; Requirements = Start; Start = RequestCpus > 2]",
        "[Cpus = 8; Requirements = Start; Start = RequestCpus < 2]",
        "[Cpus = 8; Requirements = Start]",
        "[Cpus = 8]",
    )
    job = ClassAd.from_new('[RequestCpus = 4; Owner = "alice"; Requirements = TARGET.Cpus > 0]')
    assert table.matches(job).tolist() == [False, True, True, True, False, False, False]


def test_a_circular_reference_is_undefined() -> None:
    table = table_of("[A = B; B = A; Requirements = A =?= undefined]", "[A = B + 1; B = 1; Requirements = A == 2]")
    assert values_of(table, "TARGET.A") == [UNDEFINED, 2]
    assert values_of(table, "TARGET.A ?: 5") == [5, 2]
    assert table.matches(WILLING).tolist() == [True, True]


def test_requirements_that_ask_for_one_another_are_undefined() -> None:
    slots = [ClassAd.from_new("[Requirements = TARGET.Requirements]"), WILLING]
    job = ClassAd.from_new("[Requirements = TARGET.Requirements]")
    assert SlotTable(slots).matches(job).tolist() == [False, True]
    check_matches(SlotTable(slots), slots, job)


@pytest.mark.parametrize(
    "start",
    [
        "unresolved(TARGET.Nope) =?= undefined && Start =?= undefined",
        "Start =?= undefined && unresolved(TARGET.Nope) =?= undefined",
        "countMatches(TARGET.Nope, {}) =?= 0 || Start =?= undefined",
        '(Start =?= undefined) && eval("Start") =?= undefined && Again',
        "{Start}[0] =?= undefined && [a = Start].a =?= undefined",
        "Start =?= undefined && Again =?= true",
        "(unresolved(Owner, 5) ?: 1) =!= 1 || Start =?= undefined",
        "X > 1 && (Start =?= undefined || unresolved(Owner, 5) =?= 1)",
    ],
)
def test_a_condition_behind_a_name_is_circular_where_it_asks_for_itself(start: str) -> None:
    for texts in (["1", "1"], ["1", "2", "3"]):
        slots = [
            ClassAd(
                {"X": parse(x), "Requirements": parse("Start"), "Start": parse(start), "Again": parse("Start =!= true")}
            )
            for x in texts
        ]
        for job in (WILLING, ClassAd({"Requirements": parse("TARGET.Start"), "Owner": "alice"})):
            check_matches(SlotTable(slots), slots, job)
            check_clauses(SlotTable(slots), slots, job)
            check_evaluation(SlotTable(slots), slots, job, parse("TARGET.Start"))
            check_evaluation(SlotTable(slots), slots, job, parse("TARGET.Requirements"))


@pytest.mark.parametrize(
    ("rank", "wanted"),
    [
        ("TARGET.Memory", [1024.0, 2.5, 1.0, 0.0, 0.0, 0.0]),
        ("TARGET.Memory > 2", [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        ("-TARGET.Memory", [-1024.0, -2.5, 0.0, 0.0, 0.0, 0.0]),
        ("TARGET.Nope", [0.0] * 6),
        ('"1"', [0.0] * 6),
        ("7", [7.0] * 6),
        ("random(0)", [0.0] * 6),
        ("TARGET.Memory / 0", [0.0] * 6),
    ],
)
def test_the_rank_of_a_non_number_is_0(rank: str, wanted: list[float]) -> None:
    slots = [ClassAd({"Memory": value}) for value in (1024, 2.5, True, "2", None)] + [ClassAd()]
    job = ClassAd({"Rank": parse(rank)})
    assert SlotTable(slots, context=WORLD).rank(job).tolist() == wanted
    check_rank(SlotTable(slots, context=WORLD), slots, job)


def test_a_job_without_rank_ranks_all_slots_0() -> None:
    assert table_of("[Rank = 5]", "[]").rank(ClassAd()).tolist() == [0.0, 0.0]


def test_the_clauses_of_requirements_are_counted_alone_and_in_their_order() -> None:
    table = SlotTable(ClassAd({"Cpus": cpus, "Memory": 1024 * cpus}) for cpus in (1, 2, 4, 8))
    job = ClassAd.from_new("[M = 4096; Requirements = (TARGET.Cpus < 8) && (Memory >= M && TARGET.Cpus > 1)]")
    counts = [(str(clause), matched, left) for clause, matched, left in table.count_by_clause(job)]
    assert counts == [("(TARGET.Cpus < 8)", 3, 3), ("Memory >= M", 2, 1), ("TARGET.Cpus > 1", 3, 1)]


def test_a_job_without_requirements_has_no_clauses() -> None:
    assert table_of("[]").count_by_clause(ClassAd()) == []


# Examples: values ------------------------------------------------------------------------------

INT_MAX, INT_MIN = 2**63 - 1, -(2**63)


def column(*values: Any) -> SlotTable:
    """Slots that have X, and Y counting from 0."""
    return SlotTable(ClassAd({"X": value, "Y": place}) for place, value in enumerate(values))


@pytest.mark.parametrize(
    ("text", "wanted"),
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
def test_integers_wrap_at_64_bits(text: str, wanted: list[Any]) -> None:
    assert values_of(column(INT_MAX, INT_MIN, 7), text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
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
def test_a_quotient_is_rounded_towards_zero_and_by_zero_it_is_an_error(text: str, wanted: list[Any]) -> None:
    assert values_of(column(7, -7, 7, -7), text) == wanted


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


def test_equality_of_strings_is_blind_to_the_case_of_ascii_letters_and_identity_is_not() -> None:
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


def test_integers_are_compared_with_reals_as_the_scalar_evaluation_does() -> None:
    table = column(2**53, 2**53 + 1, INT_MAX, INT_MIN)
    for text in ("X == 9007199254740992.0", "X < 9223372036854775807.0", "X >= -9223372036854775808.0", "X - 0.0"):
        check_evaluation(table, list(table), ClassAd(), parse(text))
        check_clauses(table, list(table), ClassAd({"Requirements": parse(f"TARGET.{text}")}))


def test_an_undefined_operand_is_decided_by_what_follows_and_an_error_is_not() -> None:
    table = column(True, False, None, parse("error"), 1, 0, "a")
    assert values_of(table, "X && false") == [False, False, False, ERROR, False, False, ERROR]
    assert values_of(table, "X || true") == [True, True, True, ERROR, True, True, ERROR]
    assert values_of(table, "true && X") == [True, False, UNDEFINED, ERROR, True, False, ERROR]
    assert values_of(table, "X ? 1 : 2") == [1, 2, UNDEFINED, ERROR, 1, 2, ERROR]
    assert values_of(table, "X ?: 3") == [True, False, 3, ERROR, 1, 0, "a"]


def test_what_an_operand_has_decided_is_not_evaluated() -> None:
    assert values_of(column(True, True), "X || time() > 0") == [True, True]
    assert values_of(column(3, None), "X > 2 || X =?= undefined || time() > 0") == [True, True]
    assert values_of(column(True, False), "X ? 1 : Y") == [1, 1]
    assert values_of(column(1, 2), "X > 0 ? X : time()") == [1, 2]
    assert values_of(column(1, 2), "X ?: time()") == [1, 2]
    for text in ("X || time() > 0", "X ? 1 : time()", "X && time() > 0"):
        with pytest.raises(EvaluationError):
            column(True, False).evaluate(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        # With a condition that is none both branches are evaluated, as by the reference.
        *("X ? time() : 0", "X ? 0 : time()", "X ? Y : (X ? time() : 1)", "ifThenElse(X, time(), 0)"),
        # These functions end at the first argument that decides.
        *("strcat(X, time())", "strcat(Y, X, time())", "join(X, time())", "mergeEnvironment(X, time())"),
        *("time() + X", "X + time()", "X[time()]", "{time()}[X]", "X =?= undefined || time() > 0"),
    ],
)
def test_what_fails_is_evaluated_where_the_scalar_evaluation_does_so(text: str) -> None:
    for values in (("a", "b"), ("a", None), (None, None), (1, True, "a"), (parse("error"), "a"), (0, 0), (1, 2)):
        slots = [ClassAd({"X": value, "Y": place}) for place, value in enumerate(values)]
        job = ClassAd({"Requirements": parse(text), "Rank": parse(text)})
        check_evaluation(SlotTable(slots), slots, ClassAd(), parse(text))
        check_rank(SlotTable(slots), slots, job)
        check_clauses(SlotTable(slots), slots, job)


def test_values_of_one_plain_type_come_as_a_typed_array() -> None:
    table = column(3, 1, 2)
    for text, dtype, kind in [
        ("X", np.int64, Kind.INTEGER),
        ("X > 1", np.bool_, Kind.BOOLEAN),
        ("X / 2.0", np.float64, Kind.REAL),
        ('strcat("x", X)', np.object_, Kind.STRING),
        ("7", np.int64, Kind.INTEGER),
        ("{X}", np.object_, Kind.OTHER),
        ("Nope", np.object_, Kind.UNDEFINED),
    ]:
        cells = table.evaluate(parse(text))
        assert cells.kinds.tolist() == [kind] * 3, text
        assert kind is Kind.UNDEFINED or cells.values.dtype == dtype, text


def test_values_of_several_types_come_as_python_objects() -> None:
    values = column(1, 2.5, "a", True, None, parse("1/0")).evaluate(parse("X")).values
    assert [type(value) for value in values[:4]] == [int, float, str, bool]
    assert values[4] is UNDEFINED
    assert values[5] is ERROR


def test_without_a_job_an_expression_stands_in_an_empty_ad() -> None:
    table = column(1, 2)
    assert values_of(table, "X") == [1, 2]
    assert values_of(table, "MY.X =?= undefined && TARGET.X > 0") == [True, True]


def test_an_evaluation_that_fails_for_one_slot_fails_for_the_table() -> None:
    table = SlotTable([ClassAd({"X": 1}), ClassAd({"X": parse("time()")})])
    with pytest.raises(EvaluationError):
        table.evaluate(parse("TARGET.X"))
    assert values_of(SlotTable(table, context=WORLD), "TARGET.X") == [1, 1_700_000_000]


def test_what_the_context_lacks_is_missed_by_all_that_asks_for_it_and_by_nothing_else() -> None:
    late = parse("time() - TARGET.Since > 60")
    slots = [ClassAd({"Since": since, "Requirements": since > 0}) for since in (0, 1_699_999_999, 1_600_000_000)]
    table = SlotTable(slots)
    job = ClassAd({"Requirements": late, "Rank": late})
    for ask in (table.matches, table.rank, table.count_by_clause, lambda job: table.evaluate(late, job)):
        with pytest.raises(ContextError):
            ask(job)
    asking = ClassAd({"Requirements": parse("TARGET.Since < 0 && (time() > 0)"), "Rank": 1})
    assert table.matches(asking).tolist() == [False] * 3


def test_time_goes_by_with_the_tables_context() -> None:
    slots = [ClassAd({"Since": since, "Requirements": parse("time() > Since")}) for since in (100, 200, 300)]
    table = SlotTable(slots, context=Context(now=250))
    job = ClassAd({"Requirements": parse("time() < 2 * TARGET.Since"), "Rank": parse("time() - TARGET.Since")})
    plan = table.plan(job)
    assert plan.matches().tolist() == [False, True, False]
    assert table.rank(job).tolist() == [150.0, 50.0, -50.0]
    table.context = Context(now=150)
    assert plan.matches().tolist() == table.matches(job).tolist() == [True, False, False]
    assert table.rank(job).tolist() == [50.0, -50.0, -150.0]


def test_random_numbers_are_drawn_anew_within_an_expression() -> None:
    slots = [ClassAd({"X": 1000}), ClassAd({"X": 1000000})]
    for text in ("random(X) - random(X)", "{random(X), random(X)}[1]", "random() < 0.5 && random() < 0.5", "random(9)"):
        check_evaluation(SlotTable(slots, context=WORLD), slots, ClassAd(), parse(text))


# Examples: names and scopes --------------------------------------------------------------------


def check_texts(slots: Sequence[ClassAd], job: ClassAd, *texts: str) -> None:
    """Each text as an expression, and as the Requirements and Rank of the job and of the slots."""
    for text in texts:
        expression = parse(text)
        check_evaluation(SlotTable(slots, context=WORLD), slots, job, expression)
        for asking, asked in [(expression, parse("true")), (parse("true"), expression)]:
            one = job.copy()
            one.update(Requirements=asking, Rank=expression)
            others = [slot.copy() for slot in slots]
            for other in others:
                other["Requirements"] = asked
            table = SlotTable(others, context=WORLD)
            check_matches(table, others, one)
            check_rank(table, others, one)
            check_clauses(table, others, one)


def test_a_name_is_looked_up_where_it_stands_and_in_the_other_ad_then() -> None:
    slots = [
        ClassAd.from_new("[Cpus = 4; A = B; C = TARGET.B; D = MY.B]"),
        ClassAd.from_new("[Cpus = 2; A = B; B = 3; C = B; D = Owner]"),
        ClassAd.from_new("[]"),
    ]
    job = ClassAd.from_new('[B = 7; Cpus = 1; Owner = "bob"; E = TARGET.A; F = A]')
    texts = [
        "A",
        "C",
        "D",
        "E",
        "F",
        "Cpus",
        "TARGET.Cpus",
        "MY.Cpus",
        "MY.A",
        "TARGET.E",
        "A == E",
        "F =?= 7",
        "C > 3",
    ]
    check_texts(slots, job, *texts)


@pytest.mark.parametrize("place", ["slots", "job", "both"])
@pytest.mark.parametrize(
    "name", ["MY", "TARGET", "SELF", "PARENT", "OTHER", "LEFT", "RIGHT", "AD", "ROOT", "CurrentTime"]
)
def test_attributes_that_are_called_as_the_scopes_are_attributes(name: str, place: str) -> None:
    texts = ["MY.Cpus > 50", "TARGET.Cpus > 50", "MY.Nope =?= undefined", "TARGET.Cpus", "self.Cpus > 0", "Cpus"]
    texts += [f"{name}", f"{name}.Cpus", f"{name}.Cpus > 3 && Cpus > 0", f"TARGET.{name}", f"MY.{name}.Cpus"]
    for value in ("[Cpus = 100; Requirements = false]", "5", '"a"', "undefined", "TARGET", "true"):
        called, plain = ClassAd({"Cpus": 4, name: parse(value)}), ClassAd({"Cpus": 8})
        slots = [called if place != "job" else plain.copy(), plain]
        # A copy: matched with itself, an ad has no TARGET.
        check_texts(slots, (plain if place == "slots" else called).copy(), *texts)


@pytest.mark.parametrize("name", ["MY", "TARGET"])
@pytest.mark.parametrize(
    "text", ['regexp("^slot1", TARGET.Name)', "TARGET.Cpus > 2", "MY.Cpus > 2", "floor(TARGET.Cpus) > 2"]
)
def test_jobs_with_and_without_such_attributes_can_ask_in_turn(name: str, text: str) -> None:
    slots = [ClassAd({"Name": f"slot{cpus}@e", "Cpus": cpus, "Requirements": True}) for cpus in (1, 2, 4)]
    plain = ClassAd({"Cpus": 8, "Requirements": parse(text)})
    for value in ("[Cpus = 1]", "5", name, "undefined"):
        called = ClassAd({"Cpus": 8, "Requirements": parse(text), name: parse(value)})
        table = SlotTable(slots)
        for job in (plain, called, plain, called):
            check_matches(table, slots, job)
            check_clauses(table, slots, job)
            check_evaluation(table, slots, job, parse(text))
            check_matches(table, slots, job)


def test_the_names_of_the_match_itself_can_be_seen() -> None:
    slots = [ClassAd({"Cpus": 4, "A": parse("other.B")}), ClassAd({"Cpus": 8, "A": parse("LEFT.B + RIGHT.Cpus")})]
    job = ClassAd({"B": 2})
    texts = ["LEFT.B", "RIGHT.Cpus > 4", ".RIGHT.Cpus", "other.Cpus", "TARGET.A", "ad.B", ".Cpus", "parent.B", "self.B"]
    check_texts(slots, job, *texts, "rightMatchesLeft", "symmetricMatch", "root.LEFT.B", "toplevel.RIGHT.A")


def test_a_job_chained_to_its_cluster_has_the_clusters_attributes() -> None:
    cluster = ClassAd({"RequestCpus": 2, "Requirements": parse("TARGET.Cpus >= RequestCpus"), "Rank": parse("Cpus")})
    job = ClassAd({"RequestCpus": 4}, chained=cluster)
    slots = [ClassAd({"Cpus": cpus, "Requirements": True}) for cpus in (1, 2, 4, 8)]
    assert SlotTable(slots).matches(job).tolist() == [False, False, True, True]
    assert SlotTable(slots).rank(job).tolist() == [1.0, 2.0, 4.0, 8.0]
    check_all(SlotTable(slots), slots, job, ["RequestCpus", "MY.RequestCpus", "MY.Rank", "RequestCpus + Cpus"])


def test_a_slots_ad_chained_to_another_is_copied_in_as_one() -> None:
    parent = ClassAd({"Requirements": True, "Memory": 1024})
    slots = [ClassAd({"Cpus": 1}, chained=parent), ClassAd({"Cpus": 2, "Memory": 2048}, chained=parent)]
    check_all(SlotTable(slots), slots, WILLING, ["Memory", "TARGET.Memory", "Cpus * Memory"])


def test_expressions_that_differ_in_a_reals_last_digits_are_not_confused() -> None:
    exact, near = parse("X >= 0.30000000000000004"), parse("X >= 0.3")
    slots = [ClassAd({"X": 0.3, "Requirements": exact}), ClassAd({"X": 0.3, "Requirements": near})]
    assert SlotTable(slots).matches(WILLING).tolist() == [False, True]
    assert values_of(SlotTable(slots), "TARGET.Requirements") == [False, True]
    table = SlotTable(slots)
    table.update(0, {"Requirements": near, "X": 0.3})
    assert table.matches(WILLING).tolist() == [True, True]
    assert [ad.eval("Requirements") for ad in table] == [True, True]


@pytest.mark.parametrize(
    "text", ["TARGET.X >= {0}", "TARGET.X + {0} <= 0.6", "min({{TARGET.X, {0}}}) == 0.3", "-{0} < -X"]
)
def test_jobs_that_differ_in_a_reals_last_digits_are_not_confused(text: str) -> None:
    slots = [ClassAd({"X": value, "Requirements": True}) for value in (0.3, 0.30000000000000004, 0.1)]
    table = SlotTable(slots)
    for real in ("0.30000000000000004", "0.3", "0.30000000000000004", "0.29999999999999999"):
        check_matches(table, slots, ClassAd({"Requirements": parse(text.format(real))}))
        check_matches(table, slots, ClassAd({"Requirements": parse(text.format("R")), "R": float(real)}))


def test_jobs_in_turn_do_not_see_one_anothers_attributes() -> None:
    known_friend = 'Requirements = stringListMember(toLower(Friend), "alice,bob") || Owner == Friend'
    slots = [
        ClassAd.from_new(f'[Cpus = 4; Friend = "Bob"; {known_friend}]'),
        ClassAd.from_new(f"[Cpus = 4; {known_friend}]"),
        ClassAd.from_new("[Cpus = 4; Requirements = Start && RequestCpus <= Cpus; Start = Owner == TARGET.Friend]"),
        ClassAd.from_new('[Cpus = 8; Requirements = Start && RequestCpus <= Cpus; Start = Owner != "bob"]'),
    ]
    table = SlotTable(slots)
    requirements = parse("Cpus >= RequestCpus && TARGET.Cpus > Least")
    jobs = [
        ClassAd({"Requirements": requirements, "RequestCpus": cpus, "Owner": owner, **more})
        for more in (
            {},
            {"Least": 1, "Friend": "alice"},
            {"Least": 5},
            {"Least": 1.0},
            {"Least": True},
            {"Cpus": 100, "Least": 0},
            {"Friend": "x"},
        )
        for cpus in (1, 8, "8", 1.0)
        for owner in ("alice", "bob", "Alice", None)
    ]
    for job in [*jobs, *reversed(jobs)]:
        check_matches(table, slots, job)
        check_clauses(table, slots, job)


# Examples: deep and long expressions -----------------------------------------------------------


def in_any_depth(check: Callable[..., None], *arguments: Any) -> None:
    """Check; say it shortly where Python's stack was too small, for pytest would compare all of its frames."""
    try:
        check(*arguments)
        return
    except RecursionError:
        pass
    pytest.fail(f"{check.__name__}: a RecursionError", pytrace=False)


NESTINGS = {
    "parentheses": ("(", "TARGET.X", ")"),
    "minus": ("-", "TARGET.X", ""),
    "not": ("!", "TARGET.X", ""),
    "sums to the left": ("", "TARGET.X", " + 1"),
    "sums to the right": ("1 + (", "TARGET.X", ")"),
    "a long sum of columns": ("TARGET.X + ", "1", ""),
    "a long ||": ("TARGET.X || ", "false", ""),
    "a long &&": ("", "true", " && TARGET.X"),
    "nested && and ||": ("TARGET.X || (true && ", "false", ")"),
    "conditionals": ("TARGET.X ? ", "1", " : 2"),
    "calls": ("floor(", "TARGET.X", ")"),
    "elvis": ("TARGET.Y ?: (", "1", ")"),
    "lists": ("{", "X", "}"),
    "subscripts": ("{", "X", "}[0]"),
}


@pytest.mark.parametrize("nesting", NESTINGS)
def test_a_deep_expression_fails_where_the_scalar_evaluation_does(nesting: str) -> None:
    start, middle, end = NESTINGS[nesting]
    for levels in (70, 133, 199, 200, 201, 249, 396, 397, 398, 399, 400, 401, 420):
        try:
            expression = parse(start * levels + middle + end * levels)
        except ClassAdSyntaxError:  # too deep already for the parser
            break
        slots = [ClassAd({"X": 1}), ClassAd({"X": 0}), ClassAd()]
        in_any_depth(check_evaluation, SlotTable(slots), slots, ClassAd(), expression)
        deep = [ClassAd({"X": 1, "Requirements": expression}), WILLING]
        in_any_depth(check_matches, SlotTable(deep), deep, ClassAd({"Requirements": expression, "X": 1}))
        in_any_depth(check_rank, SlotTable(deep), deep, ClassAd({"Rank": expression}))


@pytest.mark.parametrize("form", ["A{0}", "A{0} + 0", "(A{0})", "MY.A{0} || false", "TARGET.A{0}"])
@pytest.mark.parametrize("length", [30, 58, 59, 60, 61, 130, 405])
def test_a_long_chain_of_attributes_fails_where_the_scalar_evaluation_does(form: str, length: int) -> None:
    chain = {f"A{place}": parse(form.format(place + 1)) for place in range(length)} | {f"A{length}": parse("1")}
    slots = [ClassAd(chain), ClassAd(chain | {f"A{length - 1}": parse("2")}), ClassAd({"A1": 1})]
    in_any_depth(check_evaluation, SlotTable(slots), slots, ClassAd(chain), parse("TARGET.A0"))
    in_any_depth(check_evaluation, SlotTable(slots), slots, ClassAd(chain), parse("MY.A0"))
    in_any_depth(check_rank, SlotTable(slots), slots, ClassAd(chain | {"Rank": parse("TARGET.A0")}))


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


def written(operator: str, left: str, right: str) -> str:
    return f"({left})[{right}]" if operator == "[]" else f"({left}) {operator} ({right})"


@pytest.fixture(scope="module")
def specimens() -> list[ClassAd]:
    """Slots with every pair of specimens."""
    cells = [pools.expression(text) for text in SPECIMENS]
    return [ClassAd({"X": left, "Y": right}) for left in cells for right in cells]


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_means_the_same_on_columns_of_all_kinds(operator: str, specimens: list[ClassAd]) -> None:
    check_evaluation(SlotTable(specimens), specimens, ClassAd(), parse(written(operator, "X", "Y")))


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_means_the_same_between_a_column_and_a_constant(operator: str) -> None:
    slots = [ClassAd({"X": pools.expression(text)}) for text in SPECIMENS]
    table = SlotTable(slots)
    for text in SPECIMENS:
        for left, right in (("TARGET.X", text), (text, "TARGET.X"), ("TARGET.X", "MY.C"), ("C", "X")):
            expression = parse(written(operator, left, right))
            check_evaluation(table, slots, ClassAd({"C": pools.expression(text)}), expression)
        check_clauses(table, slots, ClassAd({"Requirements": parse(written(operator, "TARGET.X", text))}))


KINDS_OF_COLUMNS = {
    "booleans": ["true", "false"],
    "integers": ["0", "7", "-7", "3", "9007199254740993", "9223372036854775807", "-9223372036854775808"],
    "reals": ["0.0", "-0.0", "2.5", "-7.5", "9007199254740992.0", "1e308", "-1e400", "1e400", 'real("NaN")'],
    "strings": ['""', '"a"', '"A"', '"b"', '"é"', '"É"', '"a,b"'],
}


@pytest.mark.parametrize("right", KINDS_OF_COLUMNS)
@pytest.mark.parametrize("left", KINDS_OF_COLUMNS)
def test_operators_mean_the_same_on_columns_of_one_kind(left: str, right: str) -> None:
    pairs = [(x, y) for x in KINDS_OF_COLUMNS[left] for y in KINDS_OF_COLUMNS[right]]
    slots = [ClassAd({"X": pools.expression(x), "Y": pools.expression(y)}) for x, y in pairs]
    table = SlotTable(slots)
    for operator in OPERATORS:
        check_evaluation(table, slots, ClassAd(), parse(written(operator, "X", "Y")))
        for y in KINDS_OF_COLUMNS[right]:
            for text in (written(operator, "TARGET.X", y), written(operator, y, "TARGET.X")):
                check_evaluation(table, slots, ClassAd(), parse(text))
                check_clauses(table, slots, ClassAd({"Requirements": parse(text)}))


@pytest.mark.parametrize("text", ["-X", "+X", "!X", "~X", "X ? 1 : 2", "X ? X : Nope", "(X)", "X", "X ?: 5", "{X}[0]"])
def test_other_operators_mean_the_same_on_columns_of_all_kinds(text: str) -> None:
    for texts in (SPECIMENS, PLAIN, *KINDS_OF_COLUMNS.values(), *([text] * 2 for text in SPECIMENS)):
        slots = [ClassAd({"X": pools.expression(each)}) for each in texts]
        check_evaluation(SlotTable(slots), slots, ClassAd(), parse(text))
        check_rank(SlotTable(slots), slots, ClassAd({"Rank": parse(text)}))


ARGUMENTS = [
    *("", "X", "X, Y", "X, Y, Z", "X, Y, Z, X", '"a", X', 'X, "a"', "X, 2", "2, X", '"a,b", X'),
    # Lists as they are written; some of these functions turn them into text.
    *("{X, Y}", "X, {1, Y}", "{Y}, X", '"<=", {X, Y}, Z', "1, 1, {1, X}", "{{X}}", "X, {[a = Y], {Z}}", "{}, {X}, {Y}"),
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_means_the_same_on_columns_of_all_kinds(function: str) -> None:
    everything, plain = columns_of(SPECIMENS, 80), columns_of(PLAIN, 12)
    tables = SlotTable(everything), SlotTable(plain)
    for arguments in ARGUMENTS:
        call = parse(f"{function}({arguments})")
        check_evaluation(tables[0], everything, ClassAd(), call)
        check_evaluation(tables[1], plain, ClassAd(), call)
        check_evaluation(tables[1], plain, ClassAd(), parse(f"{call} =?= Y || X"))


def columns_of(texts: list[str], count: int) -> list[ClassAd]:
    """Slots with X, Y and Z."""
    cells = [pools.expression(text) for text in texts]
    return [
        ClassAd({"X": cells[n % len(cells)], "Y": cells[5 * n % len(cells)], "Z": cells[11 * n % len(cells)]})
        for n in range(count)
    ]


# Examples: the slots ---------------------------------------------------------------------------


def named(*names: str) -> SlotTable:
    return SlotTable(ClassAd({"Name": name, "Requirements": True}) for name in names)


def names_of(table: SlotTable) -> list[Any]:
    return [ad.eval("Name") for ad in table]


def test_a_slot_is_known_by_its_place_and_by_its_name() -> None:
    table = named("slot1@a", "slot1@b", "slot2@é")
    assert table.ad(1) == table.ad("slot1@b") == table["slot1@b"] == table[1] == table[-2]
    assert table["slot2@é"] == table[2] == table[-1]
    assert len(table) == 3


def test_a_name_or_place_that_no_slot_has_is_refused() -> None:
    table = named("a", "b")
    for name in ("c", "A", ""):
        with pytest.raises(KeyError):
            table.ad(name)
    for place in (2, -3):
        with pytest.raises(IndexError):
            table.ad(place)
    with pytest.raises(KeyError):
        SlotTable([ClassAd({"Cpus": 1})]).update("a", {"Cpus": 2})


def test_removal_keeps_the_order() -> None:
    table = named(*"abcdefg")
    table.remove("c")
    assert names_of(table) == [*"abdefg"]
    table.remove([0, "e", -1, 0])
    assert names_of(table) == [*"bdf"]
    assert table["f"] == table[2]
    table.remove(1)
    assert names_of(table) == [*"bf"]
    table.remove([])
    assert names_of(table) == [*"bf"]
    assert table.matches(WILLING).tolist() == [True, True]


def test_a_slot_that_is_not_there_is_not_removed_and_nothing_else_is() -> None:
    table = named(*"abc")
    with pytest.raises(KeyError):
        table.remove(["a", "x"])
    with pytest.raises(IndexError):
        table.remove([0, 3])
    assert names_of(table) == [*"abc"]


def test_places_that_numpy_found_can_be_removed() -> None:
    table = SlotTable(ClassAd({"Cpus": cpus}) for cpus in (1, 2, 3, 4))
    table.remove(np.flatnonzero(np.array([True, False, True, False])))
    assert [ad.eval("Cpus") for ad in table] == [2, 4]
    table.remove(np.int64(0))
    assert [ad.eval("Cpus") for ad in table] == [4]


def test_a_slots_name_follows_its_ad() -> None:
    table = named("a", "b")
    table.update("a", {"Name": "c"}, merge=True)
    assert table["c"] == table[0]
    with pytest.raises(KeyError):
        table.ad("a")
    table.update("c", {"Cpus": 4})
    with pytest.raises(KeyError):
        table.ad("c")
    assert table["b"] == table[1]


def test_an_update_replaces_an_ad_and_a_merge_keeps_what_it_does_not_mention() -> None:
    table = table_of("[A = 1; B = 2]", "[A = 1; B = 2]")
    table.update(0, {"b": 3, "C": "x"}, merge=True)
    table.update(1, {"b": 3, "C": "x"})
    assert table.ad(0) == ClassAd({"A": 1, "B": 3, "C": "x"})
    assert table.ad(1) == ClassAd({"B": 3, "C": "x"})
    assert values_of(table, "A + B") == [4, UNDEFINED]


def test_an_empty_table_has_empty_answers() -> None:
    job = ClassAd.from_new("[Requirements = TARGET.Cpus > 1 && floor(TARGET.Cpus) > 0; Rank = TARGET.Cpus]")
    for table in (SlotTable(), emptied()):
        assert len(table) == 0
        assert list(table) == []
        assert table.matches(job).tolist() == []
        assert table.rank(job).tolist() == []
        assert table.evaluate(parse("TARGET.Cpus + 1"), job).values.tolist() == []
        assert [(count.matched, count.left) for count in table.count_by_clause(job)] == [(0, 0), (0, 0)]


def emptied() -> SlotTable:
    table = SlotTable([ClassAd({"Cpus": 1, "Requirements": True}), ClassAd({"Cpus": 2, "Requirements": True})])
    table.remove([0, 1])
    return table


def test_slots_can_be_added_to_an_empty_table() -> None:
    slots = [ClassAd({"Memory": 1, "Requirements": parse("Start"), "Start": True}), ClassAd({"Cpus": 4.0})]
    for table in (SlotTable(), emptied()):
        for slot in slots:
            table.add(slot)
        check_all(table, slots, WILLING, ["Memory", "Cpus", "TARGET.Start"])


def test_several_slots_are_added_at_once() -> None:
    table = named("a")
    table.add(ClassAd({"Name": name, "Cpus": 2}) for name in "bcd")
    assert names_of(table) == [*"abcd"]
    assert values_of(table, "Cpus") == [UNDEFINED, 2, 2, 2]


def test_a_table_does_not_change_with_the_ads_that_it_was_made_of() -> None:
    ad = ClassAd({"Cpus": 4, "Requirements": True})
    table = SlotTable([ad])
    ad["Cpus"] = 8
    table.ad(0)["Cpus"] = 16
    assert values_of(table, "Cpus") == [4]


def test_results_are_the_callers_own() -> None:
    slots = [ClassAd({"Cpus": cpus, "Ok": cpus > 1, "Requirements": parse("Cpus > 1")}) for cpus in (1, 2, 4)]
    table = SlotTable(slots)
    job = ClassAd({"Requirements": parse("TARGET.Cpus < 4"), "Rank": parse("TARGET.Cpus")})
    plan = table.plan(job)
    asked: list[Callable[[], Any]] = [
        *(lambda: table.matches(job), lambda: table.rank(job), plan.matches),
        *(lambda: table.evaluate(parse("TARGET.Cpus")).values, lambda: table.evaluate(parse("TARGET.Ok")).values),
        *(lambda: table.evaluate(parse("TARGET.Cpus")).kinds, lambda: table.evaluate(parse("Cpus > 1")).values),
    ]
    for ask in asked:
        before = ask()
        wanted = before.tolist()
        if before.flags.writeable:
            before[:] = 0
        assert ask().tolist() == wanted
    check_all(table, slots, job, ["Cpus", "Ok"])


def test_results_stay_what_they_were_when_the_table_changes() -> None:
    table = SlotTable(ClassAd({"Cpus": cpus, "Mixed": mixed}) for cpus, mixed in ((1, 2), (2, "a"), (4, 1.5)))
    before = [table.evaluate(parse(text)) for text in ("Cpus", "Mixed", "Cpus > 1", "-Cpus")]
    wanted = [(cells.values.tolist(), cells.kinds.tolist()) for cells in before]
    table.update(0, {"Cpus": 100, "Mixed": "b"})
    table.update(1, {"Cpus": "x", "Mixed": 1}, merge=True)
    assert [(cells.values.tolist(), cells.kinds.tolist()) for cells in before] == wanted


def test_a_kept_plan_sees_every_change() -> None:
    slots = [ClassAd({"Name": f"slot{cpus}", "Cpus": cpus, "Requirements": True}) for cpus in (1, 2, 4)]
    table = SlotTable(slots)
    plan = table.plan(
        ClassAd.from_new("[RequestCpus = 2; Requirements = TARGET.Cpus >= RequestCpus && Offline =!= true]")
    )
    assert plan.matches().tolist() == [False, True, True]
    table.update("slot1", {"Cpus": 8}, merge=True)
    assert plan.matches().tolist() == [True, True, True]
    table.update("slot4", {"Offline": True}, merge=True)
    assert plan.matches().tolist() == [True, True, False]
    table.remove("slot2")
    assert plan.matches().tolist() == [True, False]
    table.add(slots[1])
    assert plan.matches().tolist() == [True, False, True]
    table.update(0, {"Cpus": 8})
    assert plan.matches().tolist() == [False, False, True]
    table.update(0, {"Cpus": 8, "Requirements": parse("TARGET.RequestCpus == 3")})
    assert plan.matches().tolist() == [False, False, True]
    table.update(0, {"Requirements": parse("RequestCpus == 2")}, merge=True)
    assert plan.matches().tolist() == [True, False, True]
    table.remove([0, 1, 2])
    assert plan.matches().tolist() == []


def test_what_all_slots_shared_may_change_in_one_of_them() -> None:
    shared = {"Start": parse("Ok && TARGET.RequestCpus <= Most"), "Ok": True, "Most": 4}
    slots = [ClassAd({"Requirements": parse("Start"), "Name": name, **shared}) for name in "abc"]
    table = SlotTable(slots)
    job = ClassAd({"RequestCpus": 4, "Requirements": parse("TARGET.Most > 2 && TARGET.Offline =!= true")})
    plan = table.plan(job)
    changes: list[tuple[str, dict[str, Any], list[bool]]] = [
        ("a", {"Most": 2}, [False, True, True]),
        ("b", {"Ok": False}, [False, False, True]),
        ("a", {"Most": 5}, [True, False, True]),
        ("c", {"Start": False}, [True, False, False]),
        ("b", {"Ok": True}, [True, True, False]),
        ("c", {"Start": parse("Most =!= 4 || TARGET.Offline =?= undefined")}, [True, True, True]),
        ("a", {"Offline": True}, [False, True, True]),
        ("b", {"Requirements": parse("Start && Offline")}, [False, False, True]),
        ("b", {"Offline": 1}, [False, True, True]),
    ]
    assert plan.matches().tolist() == [True, True, True]
    for name, change, wanted in changes:
        table.update(name, change, merge=True)
        assert plan.matches().tolist() == table.matches(job).tolist() == wanted
        check_all(table, list(table), job, ["TARGET.Start", "TARGET.Requirements"])


def test_what_no_slot_has_a_job_may_ask_for_when_slots_come_and_go() -> None:
    slots = [ClassAd({"Requirements": True}) for _ in range(3)]
    table = SlotTable(slots)
    job = ClassAd({"Requirements": parse("TARGET.Offline =!= true && TARGET.Nope =?= undefined")})
    plan = table.plan(job)
    for _ in range(3):
        assert plan.matches().tolist() == table.matches(job).tolist() == [True] * len(table)
        assert table.count_by_clause(job)[0].matched == len(table)
        table.add(slots[0])
    table.remove([0, 1])
    assert plan.matches().tolist() == table.matches(job).tolist() == [True] * len(table)


# Examples: array operations, and the lack of them ----------------------------------------------


def real_slots() -> list[ClassAd]:
    """A real slot's ad, a hundred times over."""
    ad = ClassAd.from_old((corpus.DATA / "slot.ad").read_text(encoding="utf-8"))
    slots = []
    for number in range(100):
        slot = ad.copy()
        slot["Name"] = f"slot{number % 8 + 1}@e{number // 8:02}.example.com"
        slot["Machine"] = f"e{number // 8:02}.example.com"
        slot["Cpus"] = (1, 2, 4, 8, 64)[number % 5]
        slot["Memory"] = 512 * (number % 33)
        slot["State"] = ("Unclaimed", "Claimed", "Owner")[number % 3]
        slots.append(slot)
    return slots


JOBS = [
    "TARGET.Memory >= RequestMemory",
    '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk)'
    " && (TARGET.Memory >= RequestMemory) && (TARGET.Cpus >= RequestCpus) && (TARGET.HasFileTransfer)",
    'State != "Claimed" && (Machine == "e03.example.com" || Machine == "E04.example.com")',
    'TARGET.Cpus > 2 && (SiteName ?: "x") != "FNAL" && TARGET.HasDocker =!= true',
    "((TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer)) && Memory / Cpus > 256",
    'versionGE(split(TARGET.CondorVersion)[1], "25.0.0") && regexp("^e0[1-5]", TARGET.Machine)',
    'isUndefined(TARGET.Offline) && stringListMember(TARGET.State, "Unclaimed,Owner")',
    "ifThenElse(RequestMemory =!= undefined, TARGET.Memory > RequestMemory, false) && TARGET.Start =!= false",
]


@pytest.mark.parametrize("requirements", JOBS)
def test_plain_policies_on_real_slots_need_no_slot_by_slot_evaluation(requirements: str) -> None:
    slots = real_slots()
    table = SlotTable(slots)
    job = ClassAd.from_new(
        "[RequestCpus = 2; RequestMemory = 2048; RequestDisk = DiskUsage; DiskUsage = 1024;"
        ' Owner = "alice"; FileSystemDomain = "example.com"; Rank = KFlops + 100 * (State == "Unclaimed") - Cpus]'
    )
    job["Requirements"] = parse(requirements)
    assert table.matches(job).any()
    check_matches(table, slots, job)
    check_rank(table, slots, job)
    check_clauses(table, slots, job)
    check_evaluation(table, slots, job, job["Requirements"])
    assert table.scalar_evaluations == 0


def test_what_must_be_evaluated_slot_by_slot_is_counted() -> None:
    slots = [
        ClassAd.from_new(f"[AvailableGPUs = {{GPU_a}}; GPU_a = [Capability = {number / 4}]; Requirements = true]")
        for number in range(40)
    ]
    job = ClassAd.from_new(
        "[RequireGPUs = Capability >= 7.5; Requirements = countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1]"
    )
    table = SlotTable(slots)
    assert table.matches(job).sum() == 10
    assert table.scalar_evaluations >= 40
    check_all(table, slots, job, ["countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) > 0"])


def test_slots_are_evaluated_one_by_one_only_where_cheaper_clauses_leave_them() -> None:
    slots = [
        ClassAd(
            {
                "Cpus": number,
                "AvailableGPUs": parse("{GPU_a}"),
                "GPU_a": ClassAd({"Capability": 8.0}),
                "Requirements": True,
            }
        )
        for number in range(40)
    ]
    table = SlotTable(slots)
    job = ClassAd.from_new(
        "[RequireGPUs = Capability >= 7.5;"
        " Requirements = TARGET.Cpus >= 38 && countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= 1]"
    )
    assert table.matches(job).tolist() == [False] * 38 + [True] * 2
    check_matches(table, slots, job)


# The policies of the corpus --------------------------------------------------------------------

POLICIES = [case["expr"] for case in corpus.cases("classad") if case["feature"] == "policy"]


@pytest.mark.parametrize("part", range(8))
def test_the_corpus_policies_mean_the_same_on_a_table_of_its_slots(part: int) -> None:
    job, slots = corpus.groups()[part].job, corpus.groups()[part].slots
    table = SlotTable(slots)
    for text in dict.fromkeys(POLICIES[part::8]):
        expression = corpus.parsed(text)
        check_evaluation(table, slots, job, expression)
        asking = job.copy()
        asking.update(Requirements=expression, Rank=expression)
        check_matches(table, slots, asking)
        check_rank(table, slots, asking)


@pytest.mark.parametrize("part", range(8))
def test_the_corpus_policies_mean_the_same_in_slots(part: int) -> None:
    job, slots = corpus.groups()[part + 8].job, corpus.groups()[part + 8].slots
    texts = list(dict.fromkeys(POLICIES[part::8]))
    for first in range(0, len(texts), 10):
        some = [corpus.parsed(text) for text in texts[first : first + 10]]
        asking = [slot.copy() for slot in slots]
        for place, slot in enumerate(asking):
            slot.update(Start=some[place % len(some)], Requirements=parse("Start =!= false"), Rank=some[0])
        check_evaluation(SlotTable(asking), asking, job, parse("TARGET.Start"))
        check_evaluation(SlotTable(asking), asking, job, parse("TARGET.Rank"))
        check_matches(SlotTable(asking), asking, job)


def test_the_corpus_jobs_can_be_matched_in_turn_with_one_table() -> None:
    slots = [slot for group in corpus.groups()[:6] for slot in group.slots[:6]]
    table = SlotTable(slots)
    for group in corpus.groups()[::4]:
        check_matches(table, slots, group.job)
        check_rank(table, slots, group.job)
        check_clauses(table, slots, group.job)


# Pools that hypothesis writes ------------------------------------------------------------------

Test = Callable[..., None]

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def fixed(examples: int) -> Callable[[Test], Any]:
    """The same examples in every run. They are shown as they are: to make them smaller takes minutes."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=SLOW,
    )


def soak(share: int = 4) -> Callable[[Test], Any]:
    """New examples in every run."""
    examples = settings(max_examples=max(1, SOAK_EXAMPLES // share), deadline=None, suppress_health_check=SLOW)
    return lambda test: pytest.mark.soak(examples(test))


def job_of(pool: Pool) -> ClassAd:
    job = ClassAd(chained=pools.ad(pool.cluster)) if pool.cluster else ClassAd()
    job.update(pools.ad(pool.job))
    return job


def check_pool(pool: Pool, context: Context = DEFAULT) -> None:
    slots = [pools.ad(texts) for texts in pool.slots]
    check_all(SlotTable(slots, context=context), slots, job_of(pool), pool.expressions)


@fixed(60)
@given(pools.pools())
def test_a_table_says_of_its_slots_what_the_scalar_evaluation_says_of_each(pool: Pool) -> None:
    check_pool(pool)


@soak()
@given(pools.pools())
def test_many_tables_say_of_their_slots_what_the_scalar_evaluation_says_of_each(pool: Pool) -> None:
    check_pool(pool)


# -- with a clock, chance, and functions of the embedder's own


@fixed(30)
@given(pools.pools())
def test_a_table_asks_the_same_world_as_the_scalar_evaluation(pool: Pool) -> None:
    check_pool(pool, WORLD)


@soak(8)
@given(pools.pools())
def test_many_tables_ask_the_same_world_as_the_scalar_evaluation(pool: Pool) -> None:
    check_pool(pool, WORLD)


# -- as ads come from a daemon: read from lines, equal lines being the same objects


def check_read_pool(pool: Pool) -> None:
    slots = [ClassAd.from_old(pools.ad(texts).to_old()) for texts in pool.slots]
    check_all(SlotTable(slots), slots, job_of(pool), pool.expressions)


@fixed(30)
@given(pools.pools())
def test_ads_read_from_lines_make_the_same_table(pool: Pool) -> None:
    check_read_pool(pool)


@soak(8)
@given(pools.pools())
def test_many_ads_read_from_lines_make_the_same_tables(pool: Pool) -> None:
    check_read_pool(pool)


# -- several jobs, one after the other: what is kept from one must be right for the next


def check_turns(pool: Pool, others: Sequence[Pool]) -> None:
    slots = [pools.ad(texts) for texts in pool.slots]
    table = SlotTable(slots)
    jobs = [job_of(one) for one in (pool, *others)]
    # A job that is like the first, but for some attributes.
    jobs.append(jobs[0].copy())
    jobs[-1].update(pools.ad({name: text for name, text in others[0].job.items() if name != "Requirements"}))
    for job in [*jobs, jobs[0]]:
        check_matches(table, slots, job)
        check_rank(table, slots, job)
        check_clauses(table, slots, job)
        for text in pool.expressions:
            check_evaluation(table, slots, job, pools.expression(text))


@fixed(30)
@given(pools.pools(), st.lists(pools.pools(), min_size=1, max_size=2))
def test_jobs_in_turn_are_each_told_what_the_scalar_evaluation_says(pool: Pool, others: list[Pool]) -> None:
    check_turns(pool, others)


@soak(8)
@given(pools.pools(), st.lists(pools.pools(), min_size=1, max_size=2))
def test_many_jobs_in_turn_are_each_told_what_the_scalar_evaluation_says(pool: Pool, others: list[Pool]) -> None:
    check_turns(pool, others)


# -- changes, with plans and the table's own memory kept over them


def changed(slots: list[ClassAd], table: SlotTable, step: Step) -> None:
    """Make a change in a list of ads and in the table of them."""
    places = sorted({place % len(slots) for place in step.places}) if slots else []
    ad = pools.ad(step.texts)
    match step.what:
        case "add":
            table.add(ad)
            slots.append(ad)
        case "update" if slots:
            table.update(places[0], ad)
            slots[places[0]] = ad
        case "merge" if slots:
            table.update(places[0], ad, merge=True)
            slots[places[0]] = slots[places[0]].copy()
            slots[places[0]].update(ad)
        case "remove":
            table.remove(places)
            for place in reversed(places):
                del slots[place]


def check_names(table: SlotTable, slots: Sequence[ClassAd]) -> None:
    names = [name.value if isinstance(name := slot.get("Name"), Literal) else None for slot in slots]
    for place, name in enumerate(names):
        if isinstance(name, str) and names.count(name) == 1:
            assert texts_of(table.ad(name)) == texts_of(slots[place])
    with pytest.raises(KeyError):
        table.ad("a name that no slot has")


def check_changes(pool: Pool) -> None:
    slots = [pools.ad(texts) for texts in pool.slots]
    job = job_of(pool)
    table = SlotTable(slots)
    plan = table.plan(job)
    check_matches(table, slots, job, plan.matches)
    for step in pool.steps:
        changed(slots, table, step)
        check_matches(table, slots, job, plan.matches)
        check_all(table, slots, job, pool.expressions)
        check_names(table, slots)


@fixed(30)
@given(pools.pools(steps=True))
def test_a_table_that_changes_says_what_the_scalar_evaluation_says(pool: Pool) -> None:
    check_changes(pool)


@soak()
@given(pools.pools(steps=True))
def test_many_tables_that_change_say_what_the_scalar_evaluation_says(pool: Pool) -> None:
    check_changes(pool)
