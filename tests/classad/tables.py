"""Compare the results of a table for all of its slots with the scalar evaluation for each ad."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from poolbook.domain.classad import (
    ERROR,
    UNDEFINED,
    AbsTime,
    ClassAd,
    Context,
    ContextError,
    EvaluationError,
    Expression,
    ListValue,
    RelTime,
    parse,
    symmetric_match,
    unparse,
)
from poolbook.domain.classad.analysis import clauses
from poolbook.domain.classad.columns import CellType
from poolbook.domain.classad.matching import is_satisfied
from poolbook.domain.classad.table import SlotTable
from poolbook.domain.classad.tree import Literal

from . import pools

# A world in which time(), random() and a custom function have values.
WORLD = Context(
    now=1_700_000_000,
    timezone=ZoneInfo("America/Chicago"),
    seed=7,
    functions={"noSuchFunction": lambda *arguments: len(arguments) + 1},
)


KIND_OF = {bool: CellType.BOOLEAN, int: CellType.INTEGER, float: CellType.REAL, str: CellType.STRING}


Known = tuple[object, ...]


def known(value: Any) -> Known:
    """Return a value in a form that is equal if type and value are: NaN to NaN, 0.0 not to -0.0."""
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


def kind_of(value: Any) -> CellType:
    if value is UNDEFINED:
        return CellType.UNDEFINED
    return CellType.ERROR if value is ERROR else KIND_OF.get(type(value), CellType.OTHER)


FAILED: Known = ("an EvaluationError",)


LACKING: Known = ("a ContextError",)


def scalar(expression: Expression, job: ClassAd, slot: ClassAd, context: Context) -> Any:
    """Return the value, or the EvaluationError."""
    try:
        return expression.evaluate(job, slot, context)
    except EvaluationError as problem:
        return problem


LONGEST = 5000


def fail_at_difference(
    call: str, slots: Sequence[ClassAd], job: ClassAd, expected: Sequence[Any], actual: Sequence[Any]
) -> None:
    """Fail, showing the first slot for which table and scalar evaluation differ."""
    place = next(place for place, pair in enumerate(zip(expected, actual, strict=True)) if pair[0] != pair[1])
    facts = {
        "of": call,
        "job": unparse(job),
        f"slot {place}": unparse(slots[place]),
        "scalar": expected[place],
        "table": actual[place],
        "slots": "".join(f"\n  {unparse(slot)}" for slot in slots),
    }
    lines = [f"{name + ':':9}{fact}"[:LONGEST] for name, fact in facts.items()]
    pytest.fail("\n".join(["the table differs from the scalar evaluation", *lines]), pytrace=False)


# What is compared ------------------------------------------------------------------------------


def check_evaluation(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd, expression: Expression) -> None:
    values = [scalar(expression, job, slot, table.context) for slot in slots]
    expected = [FAILED if isinstance(value, EvaluationError) else known(value) for value in values]
    try:
        cells = table.evaluate(expression, job)
    except EvaluationError:
        if FAILED not in expected:
            fail_at_difference(str(expression), slots, job, expected, [FAILED] * len(expected))
        return
    assert len(cells.values) == len(cells.kinds) == len(slots)
    plain_types: dict[int, Callable[[Any], Any]] = {CellType.BOOLEAN: bool, CellType.INTEGER: int, CellType.REAL: float}
    pairs = zip(cells.values.tolist(), cells.kinds.tolist(), strict=True)
    # If all cells are undefined, or all are errors, only the kinds say so.
    exceptional: dict[int, Any] = {CellType.UNDEFINED: UNDEFINED, CellType.ERROR: ERROR}
    actual = [known(exceptional.get(kind, plain_types.get(kind, lambda same: same)(value))) for value, kind in pairs]
    if actual != expected:
        fail_at_difference(str(expression), slots, job, expected, actual)
    assert cells.kinds.tolist() == [kind_of(value) for value in values]


def result_of(ask: Callable[[], Any]) -> Any:
    """Return the answer, or LACKING if the context lacks something that was requested."""
    try:
        return ask()
    except ContextError:
        return LACKING


def compare(call: str, slots: Sequence[ClassAd], job: ClassAd, expected: list[Any], actual: Any) -> None:
    """Compare, if neither side is LACKING: a table lacks what the evaluation for one of its slots lacks."""
    if actual is LACKING:
        if LACKING not in expected:
            fail_at_difference(call, slots, job, expected, [LACKING] * len(expected))
    elif actual != expected:
        fail_at_difference(call, slots, job, expected, actual)


def check_matches(
    table: SlotTable, slots: Sequence[ClassAd], job: ClassAd, ask: Callable[[], Any] | None = None
) -> None:
    """Compare ``table.matches(job)``, or the answer of a stored plan."""
    expected = [result_of(partial(symmetric_match, job, slot, table.context)) for slot in slots]
    actual = result_of(ask or (lambda: table.matches(job)))
    if actual is not LACKING:
        assert actual.dtype == np.bool_
        assert len(actual) == len(slots)
        actual = actual.tolist()
        # A slot that cannot match for other reasons need not ask the context.
        expected = [
            False if expected_pair is LACKING and not expected_match else expected_pair
            for expected_pair, expected_match in zip(expected, actual, strict=True)
        ]
    compare("matches, by a kept plan" if ask else "matches", slots, job, expected, actual)


def check_rank(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd) -> None:
    expected: list[Known] = []
    for slot in slots:
        value = scalar(job["Rank"], job, slot, table.context) if "Rank" in job else UNDEFINED
        number = float(value) if isinstance(value, bool | int | float) else 0.0
        expected.append(LACKING if isinstance(value, ContextError) else known(number))
    actual = result_of(lambda: table.rank(job))
    if actual is not LACKING:
        assert actual.dtype == np.float64
        assert len(actual) == len(slots)
        assert [known(rank) for rank in table.rank(job, np.arange(len(slots))[::2]).tolist()] == [
            known(rank) for rank in actual[::2].tolist()
        ]
        actual = [known(rank) for rank in actual.tolist()]
    compare("rank", slots, job, expected, actual)


def check_clauses(table: SlotTable, slots: Sequence[ClassAd], job: ClassAd) -> None:
    parts = clauses(job["Requirements"]) if "Requirements" in job else []
    slots_left = [True] * len(slots)
    expected: list[Any] = []
    for clause in parts:
        values = [scalar(clause, job, slot, table.context) for slot in slots]
        if any(isinstance(value, ContextError) for value in values):
            expected = [LACKING] * len(parts)
            break
        matched = [is_satisfied(value) for value in values]
        slots_left = [before and now for before, now in zip(slots_left, matched, strict=True)]
        expected.append((str(clause), sum(matched), sum(slots_left)))
    actual = result_of(lambda: [(str(clause), *counts) for clause, *counts in table.count_by_clause(job)])
    if actual is LACKING:
        actual = [LACKING] * len(parts)
    if actual != expected:
        facts = {
            "job": unparse(job),
            "scalar": expected,
            "table": actual,
            "slots": "".join(f"\n{slot}" for slot in slots),
        }
        lines = [f"{name + ':':9}{fact}"[:LONGEST] for name, fact in facts.items()]
        pytest.fail("\n".join(["count_by_clause differs from the scalar evaluation", *lines]), pytrace=False)


def check_ads(table: SlotTable, slots: Sequence[ClassAd]) -> None:
    assert len(table) == len(slots)
    for place, slot in enumerate(slots):
        ad = table.ad(place)
        actual, expected = texts_of(ad), texts_of(slot)
        assert actual == expected, f"slot {place}"
        assert ad == slot


def texts_of(ad: ClassAd) -> dict[str, Any]:
    """Return an ad's attributes, plain values as such: the text of a real does not have all of its digits."""
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
    """Return the values of the scalar evaluation, undefined and error as such."""
    cells = table.evaluate(parse(text), job)
    exceptional: dict[int, Any] = {CellType.UNDEFINED: UNDEFINED, CellType.ERROR: ERROR}
    return [exceptional.get(k, v) for v, k in zip(cells.values.tolist(), cells.kinds.tolist(), strict=True)]


WILLING = ClassAd({"Requirements": True})


def column(*values: Any) -> SlotTable:
    """Return slots that have X, and Y counting from 0."""
    return SlotTable(ClassAd({"X": value, "Y": place}) for place, value in enumerate(values))


def columns_of(texts: list[str], count: int) -> list[ClassAd]:
    """Return slots with X, Y and Z."""
    cells = [pools.expression(text) for text in texts]
    return [
        ClassAd({"X": cells[n % len(cells)], "Y": cells[5 * n % len(cells)], "Z": cells[11 * n % len(cells)]})
        for n in range(count)
    ]
