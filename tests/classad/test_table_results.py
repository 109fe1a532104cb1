"""Property: the results of an evaluation over a table, and its questions to the context."""

import numpy as np
import pytest

from poolbook.domain.classad import ERROR, UNDEFINED, ClassAd, Context, ContextError, EvaluationError, parse
from poolbook.domain.classad.columns import CellType
from poolbook.domain.classad.table import SlotTable

from .tables import WORLD, check_evaluation, column, values_of


def test_values_of_one_plain_type_come_as_a_typed_array() -> None:
    table = column(3, 1, 2)
    for text, dtype, kind in [
        ("X", np.int64, CellType.INTEGER),
        ("X > 1", np.bool_, CellType.BOOLEAN),
        ("X / 2.0", np.float64, CellType.REAL),
        ('strcat("x", X)', np.object_, CellType.STRING),
        ("7", np.int64, CellType.INTEGER),
        ("{X}", np.object_, CellType.OTHER),
        ("Nope", np.object_, CellType.UNDEFINED),
    ]:
        cells = table.evaluate(parse(text))
        assert cells.kinds.tolist() == [kind] * 3, text
        assert kind is CellType.UNDEFINED or cells.values.dtype == dtype, text


def test_values_of_several_types_come_as_python_objects() -> None:
    values = column(1, 2.5, "a", True, None, parse("1/0")).evaluate(parse("X")).values
    assert [type(value) for value in values[:4]] == [int, float, str, bool]
    assert values[4] is UNDEFINED
    assert values[5] is ERROR


def test_without_a_job_an_expression_is_evaluated_in_an_empty_ad() -> None:
    table = column(1, 2)
    assert values_of(table, "X") == [1, 2]
    assert values_of(table, "MY.X =?= undefined && TARGET.X > 0") == [True, True]


def test_an_evaluation_that_fails_for_one_slot_fails_for_the_table() -> None:
    table = SlotTable([ClassAd({"X": 1}), ClassAd({"X": parse("time()")})])
    with pytest.raises(EvaluationError):
        table.evaluate(parse("TARGET.X"))
    assert values_of(SlotTable(table, context=WORLD), "TARGET.X") == [1, 1_700_000_000]


def test_only_expressions_that_need_it_fail_if_the_context_lacks_something() -> None:
    late = parse("time() - TARGET.Since > 60")
    slots = [ClassAd({"Since": since, "Requirements": since > 0}) for since in (0, 1_699_999_999, 1_600_000_000)]
    table = SlotTable(slots)
    job = ClassAd({"Requirements": late, "Rank": late})
    for ask in (table.matches, table.rank, table.count_by_clause, lambda job: table.evaluate(late, job)):
        with pytest.raises(ContextError):
            ask(job)
    asking_job = ClassAd({"Requirements": parse("TARGET.Since < 0 && (time() > 0)"), "Rank": 1})
    assert table.matches(asking_job).tolist() == [False] * 3


def test_the_time_is_that_of_the_tables_context() -> None:
    slots = [ClassAd({"Since": since, "Requirements": parse("time() > Since")}) for since in (100, 200, 300)]
    table = SlotTable(slots, context=Context(now=250))
    job = ClassAd({"Requirements": parse("time() < 2 * TARGET.Since"), "Rank": parse("time() - TARGET.Since")})
    plan = table.plan(job)
    assert plan.matches().tolist() == [False, True, False]
    assert table.rank(job).tolist() == [150.0, 50.0, -50.0]
    table.context = Context(now=150)
    assert plan.matches().tolist() == table.matches(job).tolist() == [True, False, False]
    assert table.rank(job).tolist() == [50.0, -50.0, -150.0]


def test_random_numbers_are_drawn_again_within_an_expression() -> None:
    slots = [ClassAd({"X": 1000}), ClassAd({"X": 1000000})]
    for text in ("random(X) - random(X)", "{random(X), random(X)}[1]", "random() < 0.5 && random() < 0.5", "random(9)"):
        check_evaluation(SlotTable(slots, context=WORLD), slots, ClassAd(), parse(text))
