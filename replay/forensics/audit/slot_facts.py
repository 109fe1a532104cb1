"""Compare statements about slots and submitters that apply to the same instant.

Records in negotiators' logs are compared within the same second; with several records, one must agree. An accountant's
table and an ad of condor_userprio are compared at the update that the ad names, because the ad may or may not include
changes between two updates. With several tables, all of them must disagree with the ad. docs/import.md describes the
other cases ("What is not a contradiction").
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

from ....domain.units import SECOND
from ...narration.formatting import interval
from .audit_statements import Statement, StatementSource
from .compared_facts import BELIEVED, FACTS
from .table_folds import OF_CUSTOMERS

NONE: Final = "none"  #: the job or holder of a slot that has none ("" means unknown)
_MILLION: Final = 1_000_000
_OF_MATCHES: Final = frozenset({"matched", "matched_job", "matched_slot"})

Spans = dict[int, list[tuple[int, int]]]
Row = tuple[int, str, str, int, int]  #: instant, letter, text, source, line


def disputed_facts(
    fact: str, rows: list[Any], spans: Spans, ends_of_source: Callable[[int], int]
) -> Iterator[list[Statement]]:
    """Yield the groups of statements about a slot or submitter that cannot all be true, the most reliable first.

    :param rows: the statements, sorted by time
    :param spans: the times that each accountant's table covers, by source
    :param ends_of_source: returns the end of the time that a source's log covers
    """
    distinct_rows = list(dict.fromkeys(rows))
    if fact in _OF_MATCHES:
        return _disputed_matches(fact, distinct_rows)
    if fact in OF_CUSTOMERS.values():
        return _disputed_values(fact, distinct_rows, spans)
    return _disputed_moments(fact, distinct_rows, ends_of_source)


def _disputed_moments(fact: str, rows: list[Row], ends_of_source: Callable[[int], int]) -> Iterator[list[Statement]]:
    log = [row for row in rows if row[1] == "L"]
    times = [row[0] for row in log]
    if _has_two_machines(log):
        return
    for row in rows:
        begin, end = bisect_left(times, row[0] - SECOND) - 1, bisect_right(times, row[0] + SECOND)
        if row[1] != "C" or begin < 0 or (end == len(log) and ends_of_source(log[-1][3]) <= row[0] + SECOND):
            continue
        while begin > 0 and log[begin][2] == NONE:
            begin -= 1  # an ad names its job until the starter exits, which may be later than the job's end
        log_statements = [_text_statement(fact, log_row) for log_row in log[begin:end]]
        if all(log_row.text and log_row.contradicts(_text_statement(fact, row)) for log_row in log_statements):
            yield [log_statements[-1], _text_statement(fact, row)]


def _disputed_matches(fact: str, rows: list[Row]) -> Iterator[list[Statement]]:
    reported_statements: set[frozenset[Statement]] = set()

    def near(row: Row) -> list[Row]:
        return [other for other in rows if other[1] != row[1] and abs(other[0] - row[0]) <= SECOND]

    def alone(row: Row) -> bool:
        return all(_text_statement(fact, row).contradicts(_text_statement(fact, other)) for other in near(row))

    for row in filter(alone, rows):
        other_statements = [_text_statement(fact, other) for other in near(row) if alone(other)]
        pair = frozenset((_text_statement(fact, row), *other_statements[-1:]))
        if other_statements and pair not in reported_statements:
            reported_statements.add(pair)
            yield sorted(pair, key=lambda s: BELIEVED[fact, s.letter])


def _disputed_values(fact: str, rows: list[Row], spans: Spans) -> Iterator[list[Statement]]:
    tables: dict[int, list[Row]] = {}
    for row in rows:
        if row[1] == "K":
            tables.setdefault(row[3], []).append(row)
    for row in rows:
        ad = _value_statement(fact, row) if row[1] == "V" else None
        if ad is None:
            continue
        covering_values = [values for table in tables.values() if (values := _values_at(fact, table, row[0], spans))]
        if 0 < len(covering_values) == len(tables) and all(
            ad.contradicts(value) for values in covering_values for value in values
        ):
            yield [covering_values[-1][-1], ad]


def _values_at(fact: str, table: list[Row], at: int, covered_spans: Spans) -> list[Statement]:
    """Return a table's values at an update and at the previous one; an empty list if the table does not cover that
    time."""
    since = max((since for since, until in covered_spans.get(table[0][3], []) if since <= at <= until), default=None)
    if since is None:
        return []
    end = bisect_right(table, at, key=lambda row: row[0])
    begin = end - 1
    while begin > 0 and table[begin][0] == at:
        begin -= 1
    values = (_value_statement(fact, row) for row in table[max(begin, 0) : end] if row[0] >= since)
    return [value for value in values if value is not None]


def _has_two_machines(log: list[Row]) -> bool:
    """Return True if records of a slot alternate between two logs, because two machines have the same name."""
    changes = sum(row[3] != other[3] for row, other in pairwise(log))
    return changes >= len({row[3] for row in log})


def _text_statement(fact: str, row: Row) -> Statement:
    at, letter, body, source, line = row
    return StatementSource(letter, source, line, at).text_statement(fact, body)


def _value_statement(fact: str, row: Row) -> Statement | None:
    at, letter, body, source, line = row
    try:
        value = round(float(body) * _MILLION)
    except (ValueError, OverflowError):
        return None
    unit, text = FACTS[fact].unit, ""
    if unit == "time":
        text = interval(value)
    elif unit == "count":
        text = f"{value / _MILLION:.6f}".rstrip("0").rstrip(".")
    return StatementSource(letter, source, line, at).value_statement(fact, value, text=text)
