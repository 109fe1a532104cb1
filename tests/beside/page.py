"""The section of docs/fidelity.md about the same jobs in Poolbook and in HTCondor."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from .cases import cases
from .differences import ABSENT, Known, known_differences

PAGE = Path(__file__).parents[2] / "docs" / "fidelity.md"
HEAD = "## The same jobs in both pools"
TRACES = Path(__file__).parents[1] / "data" / "userlog" / "trace-differences.txt"


def _rows(table: list[Known]) -> str:
    return "".join(
        f"| {_text(whats)} | {why} |\n" for why, group in groupby(table, lambda row: row.why) for whats in [list(group)]
    )


def section() -> str:
    """Return the section, with its heading."""
    return f"""{HEAD}

Tests run {len(cases())} submit files (`tests/data/beside`) in an HTCondor pool and in Poolbook, and hold, vacate
and remove the jobs in both pools. They compare the jobs' event logs, ads and files completely, except for times,
measurements and names. The table lists all differences. If a difference does not occur in every run, the first column
says "sometimes":

| difference (in which jobs) | reason |
|---|---|
{_rows(known_differences())}
Tests also repeat recordings 12 (what the schedd allows), 13 (deferred jobs and policies) and 21 (factories) in
virtual time, with the same submit files and configuration. The rejections, the ads in the queue and the history, and
the event logs have the differences in the table above, and also those in the following table (12-15 means cluster 15 of
recording 12):

| difference (in which jobs) | reason |
|---|---|
{_rows(known_differences(TRACES))}"""


def _text(rows: list[Known]) -> str:
    return "; ".join(_row(row) for row in rows)


def _row(row: Known) -> str:
    names = ", ".join(f"`{name}`" if name != "*" else "everything" for name in row.whats)
    jobs_text = "" if row.jobs == ("*",) else f" in {', '.join(row.jobs)}"
    values_text = (
        ""
        if "*" in row.there + row.here
        else f" (HTCondor: {_value_text(row.there)}, Poolbook: {_value_text(row.here)})"
    )
    return f"{names}{jobs_text}{'' if row.always else ', sometimes'}{values_text}"


def _value_text(text: str) -> str:
    return "nothing" if text == ABSENT else text
